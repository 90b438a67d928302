"""Ray's dashboard and runtime-env agents: they do nothing for a run, and are still there when it is
over.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence

from .. import processes


def main(arguments: Sequence[str]) -> int:
    """Run one of Ray's agents, which does nothing, until SIGTERM, and return 0."""
    processes.set_title(f"ray::{arguments[0]}")
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    ended.wait()
    return 0
