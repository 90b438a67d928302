"""Ray's dashboard and runtime-env agents: they do nothing for a run, and are still there when it is
over.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence

from .. import processes


def main(arguments: Sequence[str]) -> int:
    """Do nothing until SIGTERM, as one of Ray's two agents (for the dashboard and for runtime
    environments), and return 0. `arguments` are the words of its command line.
    """
    processes.set_title(f"ray::{arguments[0]}")
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    ended.wait()
    return 0
