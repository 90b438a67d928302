"""The agent's own log, to which it prints what only its developers need."""

from __future__ import annotations

import contextlib
import sys
from typing import TextIO


class OwnLog:
    """Standard error that loses a text instead of failing. The agent's standard error is agent.log,
    which lies on a disk that can be full, and a thread that only wants to print must go on then.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write `text` if the disk has room, and return its length in any case."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
            self._stream.flush()
        return len(text)

    def flush(self) -> None:
        """Do nothing: each text is written at once."""

    def fileno(self) -> int:
        """Return the file descriptor of the log."""
        return self._stream.fileno()


def use() -> None:
    """Replace this process's standard error by an OwnLog, which writes to the same file but loses a
    text instead of failing, so that printing never raises an OSError.
    """
    sys.stderr = OwnLog(sys.stderr)
