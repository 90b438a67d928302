"""The time and the memory that one input may cost."""

from __future__ import annotations

import contextlib
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

#: Seconds of processor time. A busy machine does not make an input slower.
SECONDS = 5.0
#: Bytes of address space beyond what the process has when the input begins. The ceilings that a
#: target lowers are far below it.
MORE_BYTES = 256 * 1024 * 1024

_PAGE = resource.getpagesize()


class TooSlow(BaseException):
    """One input took more than SECONDS. It is not an Exception, so that no handler hides it."""


@contextlib.contextmanager
def bounded(seconds: float = SECONDS, more_bytes: int = MORE_BYTES) -> Iterator[None]:
    """Run the block within limits. Raises TooSlow, and MemoryError where memory cannot be had.

    It works in the main thread only, because signals are delivered there.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * _PAGE
    before = signal.signal(signal.SIGPROF, _too_slow)
    resource.setrlimit(resource.RLIMIT_AS, (held + more_bytes, hard))
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGPROF, before)


def _too_slow(_signal: int, _frame: FrameType | None) -> None:
    raise TooSlow(f"One input took more than {SECONDS:.0f} s of processor time.")
