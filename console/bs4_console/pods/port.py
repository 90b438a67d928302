"""The port through which the console reaches a pod. Its adapters are SSH and a local subprocess."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Duplex(Protocol):
    """A pipe of bytes to the agent's `attach` command on the pod. Its methods raise ChannelLost if
    the link is lost.
    """

    async def read(self) -> bytes:
        """Wait for the next bytes from the pod and return them, or b"" if the pod's side has closed
        the pipe.
        """

    async def write(self, data: bytes) -> None:
        """Send bytes to the agent on the pod."""

    async def close(self) -> None:
        """Close the pipe to the agent."""


class Asks(Protocol):
    """An object that can query a pod's agent: a PodSession or a Channel."""

    async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        """Send a query about `stream`, a name such as "checkpoints" or "log/RUN/trainer", to the
        pod's agent and return the agent's answer. `op` is the kind of the query, such as "search",
        and `parameters` are its fields.
        """


@dataclass(frozen=True)
class Completed:
    """The result of a command that has ended on the pod, with what it wrote to `stdout` and
    `stderr`, as bytes. `exit_status` is None if a signal, or the end of the connection, ended the
    command; that never means that the command succeeded.
    """

    exit_status: int | None
    stdout: bytes
    stderr: bytes


class Transport(Protocol):
    """A connection to one pod: an SSH connection, or subprocesses on this machine."""

    async def open(
        self, progress: Callable[[str], None], *, deploy: bool = True, first: bytes = b""
    ) -> Duplex:
        """Connect to the pod, install the agent if needed, send it the bytes `first`, and return a
        pipe to it. `first` goes with the command that attaches, where that is possible, and costs
        no round trip then. `progress` is called with short phrases for a person. If `deploy` is
        False nothing is installed, and NoAgent is raised if no agent runs there.
        """

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0
    ) -> Completed:
        """Run the command `argv`, a list of words, on the pod, send `stdin` to it, wait for its end
        and return its result. Raises Unreachable if it takes more than `timeout` seconds.
        """

    async def bring_store_library(self, progress: Callable[[str], None]) -> None:
        """Install b2sdk, the library with which the agent reads and writes an object store, on the
        pod. Nothing is installed if the pod has it already. `progress` is called with short phrases
        for a person. Raises a LinkError, such as NoSpace or NoAgent, if that fails.
        """

    async def close(self) -> None:
        """Close the connection to the pod."""
