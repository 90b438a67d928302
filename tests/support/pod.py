"""What a test sees of a pod, whichever kind of SSH server stands behind it."""

from __future__ import annotations

import abc
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

#: The pod keeps whatever Python the machine has, at least 3.10.
ANY_PYTHON = "any"


@dataclass(frozen=True)
class Options:
    """How a pod differs from an ordinary one.

    `python`: ANY_PYTHON, "" (none at all) or a version such as "3.8" (that one and no other).
    `home_size`: /root is a tmpfs of that size ("1m"). `sshd`: further lines of sshd_config. `bind`:
    host directories that the pod sees read-only at the same path. `hide`: files that it does not
    see.
    """

    python: str = ANY_PYTHON
    noexec_home: bool = False
    read_only_home: bool = False
    home_size: str = ""
    max_sessions: int = 10
    sftp: bool = True
    sshd: Sequence[str] = ()
    bind: Sequence[Path] = ()
    hide: Sequence[str] = ()

    @property
    def needs_namespaces(self) -> bool:
        return (
            self.python != ANY_PYTHON
            or self.noexec_home
            or self.read_only_home
            or bool(self.home_size or self.bind or self.hide)
        )


class NotHere(Exception):
    """This machine cannot do that; the message says why (tests skip with it)."""


class TestPod(abc.ABC):
    """An SSH server to test against. `key` logs `user` in; `host_key` is the public line of its
    ed25519 host key.
    """

    __test__ = False

    name: str
    address: str
    port: int
    user: str
    key: Path
    host_key: str
    other_host_key: str
    """A second one, of another kind."""
    home: str
    """The home directory as the pod itself names it."""

    @property
    @abc.abstractmethod
    def root(self) -> Path:
        """Where the pod's own / is seen from here ("/" when it shares ours): `pod.root /
        pod.home[1:]` is its home.
        """

    @abc.abstractmethod
    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0
    ) -> subprocess.CompletedProcess[bytes]:
        """Run something inside the pod without SSH. Does not raise on a non-zero exit."""

    @abc.abstractmethod
    def cut(self) -> None:
        """Unplug the pod's cable: packets vanish, nothing is refused. NotHere without
        namespaces.
        """

    @abc.abstractmethod
    def restore(self) -> None: ...

    @abc.abstractmethod
    def kill(self) -> None:
        """Power off: every process of the pod is gone at once, its disk stays."""

    @abc.abstractmethod
    def start(self) -> None:
        """Power on (after kill); same address, same host key, same disk."""

    @abc.abstractmethod
    def close(self) -> None:
        """The pod and all it left on this machine are gone."""
