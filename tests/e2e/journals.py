"""What an agent's journal says, read from the pod's disk and not through the product's own
following.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bs4_common.journal import Journal
from bs4_common.streams.segments import SegmentStream

Record = dict[str, Any]
_CAP = 64 * 1024 * 1024


def directory(home: Path) -> Path:
    return home / ".bs4" / "state" / "journal"


def records(home: Path) -> list[Record]:
    """Every whole line, oldest first; a line that is being written at this moment is left out."""
    found = []
    for path in sorted(directory(home).glob("*.ndjson")):
        found += [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    return found


def of_action(home: Path, key: str) -> list[Record]:
    return [r for r in records(home) if r["type"] == "action" and r["action"] == key]


def problems(home: Path, scratch: Path) -> list[str]:
    """What the product's own check of the hash chain says of a copy (opening a stream may repair
    it).
    """
    shutil.copytree(directory(home), scratch / "journal")
    stream = SegmentStream(scratch / "journal", _CAP)
    try:
        return Journal(stream).verify()
    finally:
        stream.close()


def agents(home: Path) -> list[int]:
    """The pids of all agents that ever started, in order."""
    return [
        r["pid"]
        for r in records(home)
        if r["type"] == "agent" and r["event"] in ("started", "restarted")
    ]


def finished_steps(action: Sequence[Record]) -> Counter[int]:
    """How often each step of an action was journalled as over."""
    return Counter(r["step"] for r in action if r["event"] in ("step-done", "step-skipped"))


def acted_steps(action: Sequence[Record]) -> Counter[int]:
    """How often each step was begun: one intent with a title for each time (those without say how
    it goes).
    """
    return Counter(r["step"] for r in action if r["event"] == "intent" and "title" in r)
