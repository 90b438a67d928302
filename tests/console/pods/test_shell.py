"""The ssh command for a pod: what the inventory says of it, nothing that a name could smuggle
in.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bs4_console.pods import shell
from bs4_console.pods.inventory import Inventory, Pod


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BS4_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("BS4_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("SHELL", "/bin/dash")


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("root@192.0.2.1:2222", "ssh -t -p 2222 -- root@192.0.2.1"),
        ("alias", "ssh -t -- alias"),
        ("ubuntu@pod.example", "ssh -t -- ubuntu@pod.example"),
        ("root@[2001:db8::1]:22", "ssh -t -p 22 -- root@2001:db8::1"),
        ("2001:db8::1", "ssh -t -- 2001:db8::1"),
        ("local", "/bin/dash"),
        ("", "/bin/dash"),
    ],
)
def test_a_pod_that_the_inventory_does_not_know_is_reached_by_its_address(
    address: str, words: str
) -> None:
    assert shell.argv("practice", address) == words.split()


def test_the_inventory_says_key_jump_and_port(tmp_path: Path) -> None:
    Inventory().add(
        Pod(
            name="a",
            host="h.example",
            port=2222,
            user="root",
            identity_file="~/.ssh/k",
            jump="root@jump:22",
            ssh_config=False,
        )
    )
    assert shell.argv("a", "root@h.example:2222") == [
        "ssh",
        "-t",
        "-F",
        "none",
        "-p",
        "2222",
        "-i",
        str(Path("~/.ssh/k").expanduser()),
        "-J",
        "root@jump:22",
        "--",
        "root@h.example",
    ]


def test_the_host_key_that_was_confirmed_for_the_pod_counts(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "known_hosts").write_text("")
    words = shell.of_pod(Pod(name="a", host="h.example"))
    assert f'UserKnownHostsFile="{tmp_path}/data/known_hosts"' in words
    assert "HostKeyAlias=a" in words


def test_a_pod_here_is_the_persons_own_shell() -> None:
    assert shell.of_pod(Pod(name="here", host="localhost", provider="local")) == ["/bin/dash"]
