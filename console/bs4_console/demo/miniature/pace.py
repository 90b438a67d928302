"""How fast the miniature lives. Order and causes never depend on these numbers, only durations do."""

from __future__ import annotations

import os
import time

STEP_SECONDS = float(os.environ.get("BS4_MINIATURE_STEP_SECONDS") or 1.0)
"""What one training step takes; a real one takes 30 s and more."""

ENGINE_SECONDS = float(os.environ.get("BS4_MINIATURE_ENGINE_SECONDS") or 0.5)
"""What loading the inference engine takes; a real one takes 70 s and more."""

PACE = float(os.environ.get("BS4_MINIATURE_PACE") or 1.0)
"""Factor on the waits that the real programs spell in seconds: joins, retries, watchdogs, log intervals."""

POLL_SECONDS = min(1.0, max(0.02, STEP_SECONDS / 20))
"""The real programs poll for files once a second; here in proportion to a step, so that polling does not set the speed."""


def paced(seconds: float) -> float:
    """`seconds` of the real program, as long as they last here."""
    return seconds * PACE


def nap(seconds: float) -> None:
    time.sleep(paced(seconds))


def poll() -> None:
    time.sleep(POLL_SECONDS)
