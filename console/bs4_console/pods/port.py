"""The port through which the console reaches a pod. Its adapters are SSH and a local subprocess."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol


class Duplex(Protocol):
    """A byte pipe to `attach` on the pod. Its methods raise ChannelLost if the link is lost."""

    async def read(self) -> bytes:
        """Return the next bytes, or b"" if the other side has closed."""

    async def write(self, data: bytes) -> None:
        """Send bytes to the other side."""

    async def close(self) -> None:
        """Close the pipe."""


@dataclass(frozen=True)
class Completed:
    """A finished remote command. If `exit_status` is None, the link ended first, which is not
    success.
    """

    exit_status: int | None
    stdout: bytes
    stderr: bytes


class Transport(Protocol):
    """One connection to one pod."""

    async def open(self, progress: Callable[[str], None], *, deploy: bool = True) -> Duplex:
        """Connect, bring the agent to the pod if needed, and return a pipe to it. `progress` is
        called with short phrases. Raises NoAgent if `deploy` is False and the pod has no agent.
        """
        ...

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0
    ) -> Completed:
        """Run a command on the pod and return its result. `timeout` is in seconds."""

    async def close(self) -> None:
        """Close the connection."""
