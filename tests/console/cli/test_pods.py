"""pods: the inventory by command, and the host key that a person says yes to once."""

from __future__ import annotations

import os
from pathlib import Path

import asyncssh
import pytest

from bs4_console.transport.hostkeys import fingerprint
from tests.console.cli.conftest import Console, Practice

pytestmark = [pytest.mark.long, pytest.mark.beside]

OTHER = asyncssh.generate_private_key("ssh-ed25519").export_public_key("openssh").decode().strip()


def add(console: Console, on: Practice, *words: str, name: str = "mine") -> tuple[str, ...]:
    pod = on.pod
    return (
        "pods",
        "add",
        name,
        f"{pod.user}@{pod.host}:{pod.port}",
        "--identity",
        str(pod.key_path),
        *words,
    )


def known(console: Console) -> str:
    path = console.data / "known_hosts"
    return path.read_text() if path.exists() else ""


def test_a_key_file_is_kept_by_its_whole_path(console: Console, trained: Practice) -> None:
    """The next command may run in another directory: a shell's, or cron's."""
    key = trained.pod.key_path
    relative = os.path.relpath(key, console.root)
    where = f"{trained.pod.user}@{trained.pod.host}:{trained.pod.port}"
    words = ("pods", "add", "near", where, "--no-connect", "--identity")
    assert console(*words, relative).code == 0
    assert console("pods", "show", "near", "--json").json["identity_file"] == str(key)
    missing = console("pods", "add", "far", where, "--no-connect", "--identity", "no-such-key")
    assert missing.code == 2
    assert "There is no key file" in missing.sentence


def test_a_key_nobody_confirmed_is_shown_and_refused_without_a_terminal(
    console: Console, trained: Practice
) -> None:
    print_ = fingerprint(trained.pod.known_host_key)
    done = console(*add(console, trained))
    assert done.code == 4
    assert print_ in done.sentence
    assert f"pods test mine --fingerprint {print_}" in done.sentence
    assert known(console) == ""
    assert console("check", "--pod", "mine").code == 3
    assert console("logs", "--pod", "mine").code == 3

    wrong = console("pods", "test", "mine", "--fingerprint", "SHA256:" + "A" * 43)
    assert wrong.code == 4
    assert print_ in wrong.sentence
    assert "nothing was sent" in wrong.sentence
    assert known(console) == ""

    right = console("pods", "test", "mine", "--fingerprint", print_, "--json")
    assert right.code == 0
    assert (right.json["schema"], right.json["pod"], right.json["reachable"]) == (
        "bs4.pod-test/1",
        "mine",
        True,
    )
    assert known(console) == f"mine {trained.pod.known_host_key}\n"
    assert console("pods", "test", "mine").out.startswith("mine answers in ")


def test_a_key_from_the_provider_is_accepted_at_once(console: Console, trained: Practice) -> None:
    done = console(*add(console, trained, "--fingerprint", fingerprint(trained.pod.known_host_key)))
    assert (done.code, done.err) == (0, "")
    again = console(*add(console, trained))
    assert again.code == 2
    assert "already there" in again.sentence


def test_a_changed_key_is_a_hard_stop_with_both_fingerprints(
    console: Console, trained: Practice
) -> None:
    pod = trained.pod
    console.add("mine", pod.host, pod.port, pod.user, pod.key_path, OTHER)
    for words in (
        ("pods", "test", "mine"),
        ("pods", "test", "mine", "--fingerprint", fingerprint(pod.known_host_key)),
        ("deploy", "--pod", "mine"),
    ):
        done = console(*words)
        assert done.code == 3
        assert fingerprint(OTHER) in done.sentence
        assert fingerprint(pod.known_host_key) in done.sentence
    assert known(console) == f"mine {OTHER}\n"


def test_list_show_and_remove(console: Console, trained: Practice) -> None:
    assert (
        console("pods", "list").out
        == "No pod is known yet. Add one with `bs4-console pods add NAME HOST`.\n"
    )
    assert console("pods", "list", "--json").json["pods"] == []
    pod = trained.pod
    console.add("mine", pod.host, pod.port, pod.user, pod.key_path, pod.known_host_key)
    assert (
        console("pods", "add", "here", "local", "--read-only").out
        == "here: localhost (read-only)\n"
    )
    listed = console("pods", "list").out
    assert [line.split()[0] for line in listed.splitlines()] == ["NAME", "mine", "here"]
    (mine, here) = console("pods", "list", "--json").json["pods"]
    assert (mine["host"], mine["port"], here["provider"], here["read_only"]) == (
        pod.host,
        pod.port,
        "local",
        True,
    )
    assert f"SHA256:{fingerprint(pod.known_host_key)[7:]}" in console("pods", "show", "mine").out
    told = console("pods", "show", "mine", "--json").json
    assert (told["name"], told["host_keys"], told["runs"]) == (
        "mine",
        [f"ssh-ed25519 {fingerprint(pod.known_host_key)}"],
        [],
    )
    removed = console("pods", "remove", "mine", "--json").json
    assert (removed["schema"], removed["host_key_forgotten"]) == ("bs4.pod-removed/1", True)
    assert known(console) == ""
    assert "Nothing was done on the pod" in console("pods", "remove", "here").out
    for verb in ("show", "remove", "test"):
        assert console("pods", verb, "mine").code == 2


def test_import_from_ssh_config(console: Console, tmp_path: Path) -> None:
    config = tmp_path / "ssh_config"
    config.write_text(
        "Host h100\n  HostName 192.0.2.7\n  User root\nHost github.com\n  User git\nHost *\n "
        " ForwardAgent no\n"
    )
    told = console("pods", "import", "--config", str(config), "--json").json
    assert "h100" in told["added"]
    again = console("pods", "import", "h100", "--config", str(config))
    assert again.code == 0
    assert "already" in again.sentence
    wrong = console("pods", "import", "h200", "--config", str(config))
    assert wrong.code == 2
    assert "h100" in wrong.sentence


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("x", "host:port"), "'port' is not a port"),
        (("x", "host", "--port", "0"), "port 0 does not exist"),
        (("-x", "host"), "See `bs4-console"),
        (("a b", "host"), "cannot name a pod"),
        (("x", "-oProxyCommand=evil"), "See `bs4-console"),
        (("x", "ho st"), "is not a valid host. Give a host of one word"),
    ],
)
def test_what_cannot_be_a_pod_is_not_added(
    console: Console, words: tuple[str, ...], says: str
) -> None:
    done = console("pods", "add", *words)
    assert done.code == 2
    assert says in done.sentence
    assert not console.config.exists()


@pytest.mark.parametrize(
    ("words", "typed", "asked", "read_only"),
    [
        ((), b"yes\n", True, True),
        ((), b"\n", True, False),
        (("--may-act",), b"", False, False),
        (("--read-only",), b"", False, True),
    ],
)
def test_a_terminal_asks_whether_a_pod_is_only_looked_at(
    console: Console, words: tuple[str, ...], typed: bytes, asked: bool, read_only: bool
) -> None:
    ours, theirs = os.openpty()
    os.write(ours, typed)
    process = console.start(
        "pods", "add", "h", "host", "--no-connect", *words, stdin=theirs, stdout=theirs
    )
    _, err = process.communicate(timeout=100)
    os.close(theirs)
    os.close(ours)
    assert process.returncode == 0, err
    assert (b"Only look at h" in err) is asked
    assert console("pods", "show", "h", "--json").json.get("read_only", False) is read_only


def test_nobody_is_asked_without_a_terminal(console: Console) -> None:
    assert console("pods", "add", "h", "host", "--no-connect").code == 0
    assert console("pods", "show", "h", "--json").json.get("read_only", False) is False
    both = console("pods", "add", "i", "host", "--no-connect", "--may-act", "--read-only")
    assert both.code == 2
