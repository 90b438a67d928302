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
    """How a remote command ended. `exit_status` is None if a signal ended the command or its link
    ended first; neither is a success.
    """

    exit_status: int | None
    stderr: str


class Pipe(Duplex, Protocol):
    """A running command: its input and output, and how it ended."""

    async def ending(self) -> Ending:
        """Wait for the command's end and return it. Call this after `read` has returned b""."""


class Remote(Protocol):
    """A machine that runs commands and takes files."""

    @property
    def label(self) -> str:
        """Return the name of the machine in messages: "pod NAME" or "this machine"."""

    async def start(self, argv: Sequence[str]) -> Pipe:
        """Start a command and return it as a pipe. Raises LinkError if it cannot be started."""

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0
    ) -> Completed:
        """Run a command to its end, with `stdin` as its input, and return its exit status and
        output. Raises Unreachable after `timeout` seconds.
        """

    async def upload(self, path: str, data: bytes) -> None:
        """Write the new file `path` (absolute) with mode 0600. Raises NoSpace or DeployFailed; the
        caller removes what was written by then.
        """


def printable(text: str) -> str:
    """Return the words of a pod or a server in a form fit for a message: on one line, at most 300
    characters, and without control characters, which would reach the terminal.
    """
    clean = "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for character in text[:_SAID]
    )
    return clean + ("..." if len(text) > _SAID else "")


def command(argv: Sequence[str]) -> str:
    """Return the command line for an argv. No other place makes one.

    The login shell of the pod's user reads it, which may be sh, zsh, fish or csh. Words are put in
    single quotes, which all of these read alike as long as there is no newline and no history mark
    inside.
    """
    return shlex.join(argv)
