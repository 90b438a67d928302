"""The recorded incident that `demo` shows where no practice pod can live; made by
tools/record_incident.py.
"""

from __future__ import annotations

from pathlib import Path

#: The pod's name, as it was.
NAME = "h100-c"


def directory() -> Path:
    """Return the directory of the recorded incident. It has the layout of the console's local copy
    of a pod, and holds the logs, steps, telemetry and journal of a pod with prime-rl of January
    2026 whose vLLM engine was killed while it generated.
    """
    return Path(__file__).with_name("pod")
