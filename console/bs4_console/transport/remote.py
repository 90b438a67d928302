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
    """How a remote command has ended. `exit_status` is None if a signal ended the command or if the
    connection was lost first; neither counts as a success. `stderr` is the end of what the command
    wrote to its standard error.
    """

    exit_status: int | None
    stderr: str


class Pipe(Duplex, Protocol):
    """A command that is running on a machine, with its input, its output, and a way to learn how it
    ended.
    """

    async def ending(self) -> Ending:
        """Wait until the command has ended, and return how. Call this only after `read` has
        returned b"", which means that all output was read.
        """

    async def leave(self) -> None:
        """Close the pipe without waiting until the machine confirms it, which takes a round trip.
        Use it for the last command of a connection.
        """


class Remote(Protocol):
    """A machine (a pod or this one) on which commands can be run and files written."""

    @property
    def label(self) -> str:
        """Return the name of the machine for messages: "pod NAME" or "this machine"."""

    async def start(self, argv: Sequence[str]) -> Pipe:
        """Start the command `argv` on the machine and return the pipe to it. Raises LinkError if it
        cannot be started.
        """

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0
    ) -> Completed:
        """Run the command `argv` on the machine to its end, with `stdin` as its input, and return
        its exit status and output. Raises Unreachable after `timeout` seconds.
        """

    async def upload(self, path: str, data: bytes) -> None:
        """Write `data` to a new file on the machine, with mode 0600. `path` is absolute. Raises
        NoSpace if the disk is full, or DeployFailed for another error; the caller then removes the
        unfinished file.
        """


def printable(text: str) -> str:
    """Return a text from a pod or a server in a form that fits into a message: one line of at most
    300 characters, in which every character on which a terminal would act is replaced. If the text
    is longer, it is cut and ends with "...".
    """
    clean = "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for character in text[:_SAID]
    )
    return clean + ("..." if len(text) > _SAID else "")


def command(argv: Sequence[str]) -> str:
    """Return the words `argv` of a command as one command line, quoted for the login shell on a
    pod. All command lines for pods are made by this function.

    The shell of the pod's user may be sh, zsh, fish or csh. Words are put in single quotes, which
    all of these read alike as long as a word contains no newline and no history mark.
    """
    return shlex.join(argv)
