"""How fast the miniature lives. Order and causes never depend on these numbers, only durations
do.
"""

from __future__ import annotations

import os
import time

STEP_SECONDS = float(os.environ.get("BS4_MINIATURE_STEP_SECONDS") or 1.0)
"""What one training step takes; a real one takes 30 s and more."""

ENGINE_SECONDS = float(os.environ.get("BS4_MINIATURE_ENGINE_SECONDS") or 0.5)
"""What loading the inference engine takes; a real one takes 70 s and more."""

GENERATION_STEPS = float(os.environ.get("BS4_MINIATURE_GENERATION_STEPS") or 0.5)
"""What one completion takes, in training steps. Below 1 the trainer is the slower side; most real
runs are the other way round.
"""

SEQUENCES = int(os.environ.get("BS4_MINIATURE_SEQUENCES") or 256)
"""How many sequences the engine generates at the same time (vLLM's max_num_seqs); the others wait
for their turn.
"""

PACE = float(os.environ.get("BS4_MINIATURE_PACE") or 1.0)
"""Factor on the waits that the real programs spell in seconds: joins, retries, watchdogs, log
intervals.

How long a run outlives its engine follows from such waits alone. 2026-01: two rounds of the
client's eleven tries (48 to 56 s each), 10 s of the packer and about 23 s of the launcher, two and
a half minutes in all. Current: ten tries of the policy update, 65 s, and the launcher. At the 0.5
of practice pods that is 57 s and 38 s.
"""

POLL_SECONDS = min(1.0, max(0.02, STEP_SECONDS / 20))
"""The real programs poll for files once a second; here in proportion to a step, so that polling
does not set the speed.
"""


def paced(seconds: float) -> float:
    """Return how many seconds this imitation waits where the real program waits `seconds`: that
    number times BS4_MINIATURE_PACE.
    """
    return seconds * PACE


def nap(seconds: float) -> None:
    """Sleep for `seconds` times the environment variable BS4_MINIATURE_PACE (1 if it is not set).
    Call this where the imitated program sleeps for `seconds`.
    """
    time.sleep(paced(seconds))


def poll() -> None:
    """Sleep once between two checks for a file: for a twentieth of a training step, but at least
    0.02 and at most 1 second.
    """
    time.sleep(POLL_SECONDS)
