"""The pinned host keys: keyed by pod, never silently replaced."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import asyncssh
import pytest

from bs4_console.errors import HostKeyChanged, HostKeyUnknown, UsageError
from bs4_console.transport import hostkeys
from bs4_console.transport.hostkeys import HostKeys


def _key(algorithm: str = "ssh-ed25519") -> asyncssh.SSHKey:
    return asyncssh.generate_private_key(algorithm).convert_to_public()


@pytest.fixture
def keys(tmp_path: Path) -> HostKeys:
    return HostKeys(tmp_path / "data" / "known_hosts")


def test_a_pin_is_kept_per_pod_in_a_private_file(keys: HostKeys) -> None:
    first, second = hostkeys.key_line(_key()), hostkeys.key_line(_key("ssh-rsa"))
    keys.pin("a", first + " root@a-comment")
    keys.pin("b", second)
    keys.pin("a", first)
    assert keys.pinned("a") == (first,)
    assert keys.pinned("b") == (second,)
    assert keys.pinned("c") == ()
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600


def test_another_key_is_never_added_beside_the_pinned_one(keys: HostKeys) -> None:
    first, second = hostkeys.key_line(_key()), hostkeys.key_line(_key())
    keys.pin("a", first)
    with pytest.raises(HostKeyChanged) as caught:
        keys.pin("a", second)
    assert caught.value.expected == hostkeys.fingerprint(first)
    assert caught.value.actual == hostkeys.fingerprint(second)
    assert keys.forget("a") is True
    assert keys.forget("a") is False
    keys.pin("a", second)
    assert keys.pinned("a") == (second,)


def test_unknown_and_changed_are_told_apart(keys: HostKeys) -> None:
    pinned, shown = _key(), _key()
    unknown = keys.verdict("a", shown)
    assert isinstance(unknown, HostKeyUnknown)
    assert (unknown.entry, unknown.key) == ("a", hostkeys.key_line(shown))
    assert unknown.fingerprint == shown.get_fingerprint()
    assert unknown.fingerprint in unknown.message
    keys.pin("a", hostkeys.key_line(pinned))
    changed = keys.verdict("a", shown)
    assert isinstance(changed, HostKeyChanged)
    assert pinned.get_fingerprint() in changed.message
    assert shown.get_fingerprint() in changed.message
    assert "pods remove a" in changed.next_step
    assert "pods add a" in changed.next_step
    assert "rotate its keys: `bs4-console pods show a` names them" in changed.next_step


@pytest.mark.parametrize(
    ("algorithm", "first"),
    [
        ("ssh-ed25519", "ssh-ed25519"),
        ("ssh-rsa", "rsa-sha2-512"),
        ("ecdsa-sha2-nistp256", "ecdsa-sha2-nistp256"),
    ],
)
def test_the_pinned_kind_is_asked_for_first(keys: HostKeys, algorithm: str, first: str) -> None:
    assert keys.algorithms("a")[0] == "ssh-ed25519"
    keys.pin("a", hostkeys.key_line(_key(algorithm)))
    order = keys.algorithms("a")
    assert order[0] == first
    assert len(order) == len(set(order)) == 8
    assert "ssh-rsa" not in order  # SHA-1 signatures


@pytest.mark.parametrize(
    "key", ["", "ssh-ed25519", "ssh-ed25519 !!!", "ssh-ed25519 AAAA", "hello d29ybGQ="]
)
def test_what_is_no_key_is_refused(keys: HostKeys, key: str) -> None:
    with pytest.raises(UsageError, match="not a public host key"):
        keys.pin("a", key)
    assert not keys.path.exists()


def test_a_changed_jump_host_is_no_pod(keys: HostKeys) -> None:
    keys.pin("203.0.113.1", hostkeys.key_line(_key()))
    changed = keys.verdict("203.0.113.1", _key(), jump=True)
    assert isinstance(changed, HostKeyChanged)
    assert str(keys.path) in changed.next_step
    assert "pods remove" not in changed.next_step
    assert "rotate" not in changed.next_step, "no keys were brought to a jump host"


def test_no_code_turns_host_key_checking_off() -> None:
    """asyncssh takes known_hosts=None for "trust everybody", without a word."""
    root = Path(__file__).resolve().parents[3]
    for path in [
        *root.glob("console/**/*.py"),
        *root.glob("tools/*.py"),
        *root.glob("benchmarks/*.py"),
    ]:
        assert not re.search(r"""known_hosts["']?\s*[:=]\s*None\b""", path.read_text()), path


def test_an_entry_cannot_smuggle_in_a_line(keys: HostKeys) -> None:
    with pytest.raises(UsageError, match="cannot name a pod"):
        keys.pin("a\nb", hostkeys.key_line(_key()))


def test_a_damaged_file_is_named(keys: HostKeys) -> None:
    keys.path.parent.mkdir()
    keys.path.write_text("# comment\nonly-one-word\n")
    with pytest.raises(UsageError, match="line 2"):
        keys.pinned("a")
