"""What a pod's answers to queries must look like before anything is made of them.

Like pods.gate.records for what streams hold: an answer is checked once, where it enters, and raises
RecordRefused if a field is not what an agent sends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bs4_console.pods.gate.records import (
    RecordRefused,
    Shape,
    flag,
    mapping,
    number,
    objects,
    one_line_each,
    step,
    text,
    wall,
    whole,
)

_CHECKPOINTS = Shape(
    {
        "trainer": text,
        "output_dir": text,
        "checkpoints": objects,
        "loose": mapping,
        "disk": mapping,
        "forecast": mapping,
        "config": objects,
    },
    {
        "run": text,
        "live": flag,
        "resumable": step,
        "order": mapping,
        "guard": mapping,
        "trainer_keeps": whole,
        "next": mapping,
    },
)
_CHECKPOINT = Shape(
    {"step": step, "complete": flag, "missing": mapping, "parts": objects, "bytes": number},
    {"t": wall, "age_s": number},
)
_PART = Shape({"name": text, "path": text, "complete": flag}, {"bytes": number, "why": text})
_LOOSE = Shape({"steps": whole, "bytes": number})
_DISK = Shape({}, {"path": text, "used": number, "total": number, "free": number})
_FORECAST = Shape(
    {"lasts": flag},
    {"room": whole, "to_come": whole, "full_t": wall, "full_step": step, "next_bytes": number},
)
_ORDER = Shape({}, {"last": whole, "at_least": whole, "milestones": whole, "synced": flag})
_GUARD = Shape({}, {"event": text, "detail": text, "t": wall})
_CONFIG = Shape({"path": text, "present": flag})


def _check_checkpoints(answer: Mapping[str, Any]) -> None:
    """Check the report of one run's checkpoints."""
    _CHECKPOINTS.check(answer)
    for checkpoint in answer["checkpoints"]:
        _CHECKPOINT.check(checkpoint)
        for part in checkpoint["parts"]:
            _PART.check(part)
        for why in checkpoint["missing"].values():
            if not text(why):
                raise RecordRefused("what a checkpoint misses is not a text")
    for config in answer["config"]:
        _CONFIG.check(config)
    _LOOSE.check(answer["loose"])
    _DISK.check(answer["disk"])
    _FORECAST.check(answer["forecast"])
    _ORDER.check(answer.get("order") or {})
    _GUARD.check(answer.get("guard") or {})


#: Stream and operation of a query -> what its answer must look like. Answers to other queries are
#: checked by who asks.
_CHECKS: Mapping[tuple[str, str], Callable[[Mapping[str, Any]], None]] = {
    ("checkpoints", "list"): _check_checkpoints,
}


def check(stream: str, op: str, answer: dict[str, Any]) -> dict[str, Any]:
    """Check the answer of a pod's agent to the query `op` on `stream`, and return it. Only a report
    of checkpoints (stream "checkpoints", op "list") is checked here, and its texts become single
    lines without characters that a terminal acts on. Other answers are returned as they are, for
    the caller to check. Raises RecordRefused if a field of the report is not what an agent sends.
    """
    rule = _CHECKS.get((stream, op))
    if rule is None:
        return answer
    rule(answer)
    cleaned: dict[str, Any] = one_line_each(answer)
    return cleaned
