"""What deploying needs of a machine, however it is reached."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from bs4_console.pods.port import Completed, Duplex

#: Characters of another side's words that a message of ours repeats.
_SAID = 300


@dataclass(frozen=True)
class Ending:
    """How a remote command ended. `exit_status` None: by a signal, or its link ended first; neither
    is success.
    """

    exit_status: int | None
    stderr: str


class Pipe(Duplex, Protocol):
    """A running command: its stdin and stdout, and how it ended."""

    async def ending(self) -> Ending:
        """Wait for the end (after `read` gave b"") and tell it."""
        ...


class Remote(Protocol):
    """A machine that runs commands and takes files."""

    @property
    def label(self) -> str:
        """What the machine is called in messages: "pod NAME" or "this machine"."""
        ...

    async def start(self, argv: Sequence[str]) -> Pipe: ...

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0
    ) -> Completed: ...

    async def upload(self, path: str, data: bytes) -> None:
        """Make the new file `path` (absolute), mode 0600. NoSpace or DeployFailed; what was written
        is left for the caller to remove.
        """
        ...


def printable(text: str) -> str:
    """What a pod or a server said, fit for a message: one line, no control characters (they would
    reach the terminal), not endless.
    """
    clean = "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for character in text[:_SAID]
    )
    return clean + ("..." if len(text) > _SAID else "")


def command(argv: Sequence[str]) -> str:
    """The one place where an argv becomes a command line.

    The login shell of the pod's user reads it, which may be sh, zsh, fish or csh: words are put in
    single quotes, which all of them read alike as long as there is no newline and no history mark
    inside.
    """
    return shlex.join(argv)
