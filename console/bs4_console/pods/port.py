"""The port through which the console reaches a pod. Its adapters are SSH and a local subprocess."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol


class Duplex(Protocol):
    """A byte pipe to `attach`. `read` returns b"" when the other side closed; a lost link raises
    ChannelLost.
    """

    async def read(self) -> bytes: ...

    async def write(self, data: bytes) -> None: ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class Completed:
    """A finished remote command. `exit_status` None means the link ended first, which is not
    success.
    """

    exit_status: int | None
    stdout: bytes
    stderr: bytes


class Transport(Protocol):
    """One connection to one pod."""

    async def open(self, progress: Callable[[str], None], *, deploy: bool = True) -> Duplex:
        """Connect, bring the agent there when needed (never with deploy=False: NoAgent), attach.
        `progress` gets short phrases.
        """
        ...

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0
    ) -> Completed: ...

    async def close(self) -> None: ...
