"""What deploying needs of a machine, whatever the transport is."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from bs4_console.pods.port import Completed, Duplex

#: The number of characters of a pod's or server's words that our messages repeat.
_SAID = 300


@dataclass(frozen=True)
class Ending:
    """How a remote command ended: its exit status and the end of its stderr. `exit_status` is None
    if a signal ended the command or its link was lost first; neither is a success.
    """

    exit_status: int | None
    stderr: str


class Pipe(Duplex, Protocol):
    """A command that is running on a machine, with its input, its output, and a way to learn how it
    ended.
    """

    async def ending(self) -> Ending:
        """Wait for the end of the command and return how it ended. Call this only after `read` has
        returned b"", when all output was read.
        """

    async def leave(self) -> None:
        """Close the pipe without waiting for the machine to agree, which takes a round trip. It is
        for the last command of a connection.
        """


class Remote(Protocol):
    """A machine (a pod or this one) on which commands can be run and files written."""

    @property
    def label(self) -> str:
        """Return the name of the machine in messages: "pod NAME" or "this machine"."""

    async def start(self, argv: Sequence[str]) -> Pipe:
        """Start a command on the machine and return the pipe to it. Raises LinkError if it cannot
        be started.
        """

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0
    ) -> Completed:
        """Run a command on the machine to its end, with `stdin` as its input, and return its exit
        status and output. Raises Unreachable after `timeout` seconds.
        """

    async def upload(self, path: str, data: bytes) -> None:
        """Write `data` to a new file `path` (absolute) on the machine, with mode 0600. Raises
        NoSpace or DeployFailed; the caller then removes the unfinished file.
        """


def printable(text: str) -> str:
    """Make a text from a pod or a server fit for a message: one line of at most 300 characters,
    without control characters that a terminal would act on.
    """
    clean = "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for character in text[:_SAID]
    )
    return clean + ("..." if len(text) > _SAID else "")


def command(argv: Sequence[str]) -> str:
    """Quote the words of a command for the remote login shell and return them as one command line.
    All command lines for pods are made here.

    The shell of the pod's user may be sh, zsh, fish or csh. Words are put in single quotes, which
    all of these read alike as long as a word contains no newline and no history mark.
    """
    return shlex.join(argv)
