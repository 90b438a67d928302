"""pods key --observe: through a real sshd the line lets a console look, and refuses all else."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.console.cli.conftest import Console, Practice
from tests.support import keys, processes, sshd
from tests.support.pod import NotHere, Options

pytestmark = [pytest.mark.long, pytest.mark.beside]

ONLY_LOOKS = "may only look"


@dataclass
class Door:
    """A real sshd in front of a practice pod, whose only authorized key may look."""

    port: int
    key: Path
    host_key: str
    console: Console

    def __call__(self, *words: str) -> tuple[int, str]:
        """Run a command of the console through this door. Its exit code, and what it said."""
        done = self.console(*words)
        return done.code, done.out + done.err

    def client(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run OpenSSH's own client against this door."""
        user = pwd.getpwuid(os.getuid()).pw_name
        known = self.console.root / "client_known_hosts"
        known.write_text(f"[127.0.0.1]:{self.port} {self.host_key}\n")
        options = ["-F", "none", "-i", str(self.key), "-o", f"UserKnownHostsFile={known}"]
        options += ["-o", f"Port={self.port}", "-o", f"User={user}", "-o", "BatchMode=yes"]
        return subprocess.run(
            [program, *options, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


@contextlib.contextmanager
def door(directory: Path, line: str, key: Path, home: Path) -> Iterator[tuple[int, str]]:
    """A real sshd with `line` as its authorized_keys. Its port and its host key."""
    try:
        server = sshd.binary()
    except NotHere as reason:
        pytest.skip(str(reason))
    host_key, _ = keys.host_keys(directory)
    (directory / "authorized_keys").write_text(line)
    (directory / "ca.pub").write_text("")
    # Bound and not listening, so that nobody else gets the port until sshd has it.
    with socket.socket() as place:
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        place.bind(("127.0.0.1", 0))
        port = int(place.getsockname()[1])
        extra = ("ListenAddress 127.0.0.1", f'SetEnv "BS4_HOME={home}"', "AllowTcpForwarding yes")
        (directory / "sshd_config").write_text(sshd.config(directory, port, Options(), *extra))
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        log = directory / "log"
        with log.open("ab") as out:
            argv = [server, "-D", "-e", "-f", str(directory / "sshd_config")]
            process = processes.spawn(argv, stdout=out, stderr=out)
        try:
            sshd.wait_for_banner("127.0.0.1", port, log)
            yield port, host_key
        finally:
            process.kill()
            process.wait(60)


def line_of(practice: Practice, key: Path) -> str:
    done = practice("pods", "key", practice.pod.name, "--observe", "--identity", str(key))
    assert done.code == 0, done
    assert done.out.count("\n") == 1
    return done.out


@pytest.fixture(scope="module")
def observing(trained: Practice, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A console that has only a key for looking at a pod whose run `demo` trains."""
    directory = tmp_path_factory.mktemp("door")
    key = keys.private_key(directory / "look")
    home = trained.pod.home / ".bs4"
    with door(directory, line_of(trained, key), key, home) as (port, host_key):
        console = Console(tmp_path_factory.mktemp("observer"))
        console.add("seen", "127.0.0.1", port, pwd.getpwuid(os.getuid()).pw_name, key, host_key)
        yield Door(port, key, host_key, console)


def actions(practice: Practice) -> list[str]:
    """The keys of all actions in the pod's journal, as the agent wrote it."""
    found = []
    for path in sorted((practice.pod.home / ".bs4" / "state" / "journal").glob("*")):
        for text in path.read_bytes().splitlines():
            if text.startswith(b"{") and (record := json.loads(text)).get("type") == "action":
                found.append(record["action"])
    return found


def test_a_console_sees_the_pod_its_run_and_its_logs(observing: Door) -> None:
    code, said = observing("pods", "test", "seen")
    assert code == 0
    assert ONLY_LOOKS in said
    code, said = observing("check", "--pod", "seen", "--json")
    assert "run demo" in said, said
    assert code in (0, 1), said
    code, said = observing("logs", "demo", "--pod", "seen", "--lines", "5")
    assert code == 0, said
    assert said.count("\n") >= 5
    # Nothing has to be installed: the agent that runs there is used, and says how it is.
    code, said = observing("deploy", "--pod", "seen")
    assert (code, "agent" in said) == (0, True), said


@pytest.mark.parametrize(
    "words",
    [
        ("launch", "configs/rl.toml", "--run", "other", "--trainer", "prime-rl-2026-01", "--yes"),
        ("stop", "--run", "demo", "--confirm", "demo"),
        ("playbook", "plan", "checkpoint-torn", "--run", "demo"),
        ("playbook", "run", "checkpoint-torn", "--run", "demo", "--plan", "0" * 64),
        ("checkpoints", "keep", "--run", "demo", "--last", "2", "--confirm", "demo"),
        ("logs", "--file", "/etc/hostname"),
    ],
    ids=lambda words: "-".join(words[:2]),
)
def test_what_acts_is_refused_in_one_sentence(
    observing: Door, trained: Practice, words: tuple[str, ...]
) -> None:
    before = actions(trained)
    assert before
    done = observing.console(*words, "--pod", "seen")
    assert done.code == 4, done
    assert ONLY_LOOKS in done.sentence
    assert actions(trained) == before


@pytest.mark.parametrize(
    "words",
    [("pods", "boot-hook", "seen"), ("pods", "sync", "seen", ".", "--plan")],
    ids=lambda words: words[1],
)
def test_what_needs_commands_on_the_pod_is_refused_in_one_sentence(
    observing: Door, words: tuple[str, ...]
) -> None:
    done = observing.console(*words)
    assert done.code == 4, done
    assert ONLY_LOOKS in done.sentence


def test_raw_commands_shells_and_files_are_refused_in_one_sentence(
    observing: Door, tmp_path: Path
) -> None:
    planted = tmp_path / "planted"
    for program, words in (
        ("ssh", ("127.0.0.1", f"touch {planted}")),
        ("ssh", ("-T", "127.0.0.1")),
    ):
        done = observing.client(program, *words)
        assert done.returncode == 4, done
        assert done.stdout == ""
        sentences = [text for text in done.stderr.splitlines() if text.startswith("bs4-look: ")]
        assert len(sentences) == 1, done.stderr
        assert ONLY_LOOKS in sentences[0]
    own = tmp_path / "own"
    own.write_text("x")
    for program, words, sentence in (
        ("sftp", ("127.0.0.1",), ONLY_LOOKS),
        # scp has words of its own for this answer of SFTP.
        ("scp", (str(own), f"127.0.0.1:{planted}"), "Permission denied"),
        ("scp", ("-O", str(own), f"127.0.0.1:{planted}"), ONLY_LOOKS),
    ):
        done = observing.client(program, *words)
        assert done.returncode != 0
        assert done.stderr.count(sentence) == 1, done.stderr
    assert not planted.exists()


def test_ports_are_not_forwarded(observing: Door) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        done = observing.client("ssh", "-W", f"127.0.0.1:{listener.getsockname()[1]}", "127.0.0.1")
        assert done.returncode != 0
        assert "prohibited" in done.stderr
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize("installed", [False, True])
def test_where_no_agent_runs_one_sentence_says_who_can_start_it(
    installed: bool, trained: Practice, tmp_path: Path
) -> None:
    key = keys.private_key(tmp_path / "look")
    home = tmp_path / "home with spaces" / ".bs4"
    home.mkdir(parents=True)
    if installed:
        (home / "agent").symlink_to(trained.pod.home / ".bs4" / "agent")
        (home / "current").symlink_to(trained.pod.home / ".bs4" / "current")
    with door(tmp_path, line_of(trained, key), key, home) as (port, host_key):
        console = Console(tmp_path)
        console.add("bare", "127.0.0.1", port, pwd.getpwuid(os.getuid()).pw_name, key, host_key)
        done = console("logs", "--pod", "bare")
        assert done.code == 3
        assert "No agent runs on pod bare, and the key of this login may only look" in done.sentence
        assert "bs4-console deploy --pod bare" in done.sentence


def test_a_key_that_opens_the_pod_already_gets_no_line(trained: Practice) -> None:
    pod = trained.pod
    public = Path(f"{pod.key_path}.pub")
    if not public.exists():
        made = ["ssh-keygen", "-y", "-f", str(pod.key_path)]
        public.write_text(subprocess.run(made, capture_output=True, text=True, check=True).stdout)
    done = trained("pods", "key", pod.name, "--observe", "--identity", str(pod.key_path))
    assert (done.code, done.out) == (2, "")
    assert "cannot also be one that only looks" in done.sentence


def test_bad_input_is_told_in_one_sentence(trained: Practice, tmp_path: Path) -> None:
    name = trained.pod.name
    missing = trained("pods", "key", name, "--observe", "--identity", str(tmp_path / "none"))
    assert (missing.code, missing.out) == (2, "")
    assert "ssh-keygen -t ed25519 -f" in missing.sentence
    (tmp_path / "odd.pub").write_text('command="id" ssh-ed25519 AAAA\n')
    odd = trained("pods", "key", name, "--observe", "--identity", str(tmp_path / "odd"))
    assert (odd.code, odd.out) == (2, "")
    assert "no public key" in odd.sentence
    assert trained("pods", "key", name).code == 2
