"""The recorded incident that `demo` shows where no practice pod can live; made by
tools/record_incident.py.
"""

from __future__ import annotations

from pathlib import Path

#: The pod's name, as it was.
NAME = "h100-c"


def directory() -> Path:
    """Return the directory of the recorded incident, in the layout of the console's local copy of a
    pod: the streams of one 2026-01 pod whose vLLM engine was killed in the middle of a generation.
    """
    return Path(__file__).with_name("pod")
