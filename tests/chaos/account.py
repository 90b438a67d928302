"""What became of every line of the log: each was read once, or lies in a gap that was recorded."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.chaos.load import STREAM

_LINE = re.compile(
    rb"\d\d:\d\d:\d\d    INFO line (\d{8}) of a log that is long enough to look real"
)
_STEP = re.compile(rb"\d\d:\d\d:\d\d SUCCESS Step \d+ \| Time: 1\.00s \| Loss: [^\n]* GiB")
#: As in bs4_console.pods.mirror; its own, so that a change there is seen here.
_PART_BYTES = 16 * 1024 * 1024

Reading = tuple[dict[str, Any], bytes]


def problems(
    readings: Iterable[Reading], written: int, hostile: Iterable[bytes], gaps_allowed: bool
) -> list[str]:
    """Return what is wrong with what a reader got of `written` lines with the numbers from 0 on.

    A number may be missing only where the reader met a gap. Bytes that are no line may stand only
    beside a gap. `hostile` are lines that were put in between.
    """
    others = {line.rstrip(b"\n") for line in hostile}
    found, expected, excused, rest, gaps = [], 0, False, b"", 0
    for head, data in readings:
        if head["gap"]:
            gaps, excused, rest = gaps + 1, True, b""
        pieces = (rest + data).split(b"\n")
        rest = pieces.pop()
        for piece in pieces:
            if piece in others or _STEP.fullmatch(piece):
                continue
            match = _LINE.fullmatch(piece)
            if match is None:
                if not excused:
                    found.append(f"no line at {head['start']}: {piece[:80]!r}")
                continue
            number = int(match[1])
            if number < expected:
                found.append(f"line {number} came again, or late, at {head['start']}")
            elif number > expected and not excused:
                found.append(f"{number - expected} lines before {number} are missing, and no gap")
            expected, excused = max(expected, number + 1), False
    if expected != written and not excused:
        found.append(f"the last line read is {expected - 1}, the last written {written - 1}")
    if gaps and not gaps_allowed:
        found.append(f"{gaps} gaps, and nothing was truncated")
    return found


def mirror_problems(mirror: Path, readings: Iterable[Reading]) -> list[str]:
    """Return what a console's mirror lacks of what was read over it: bytes, and gaps."""
    found: list[str] = []
    directories = [path for path in mirror.glob(f"*/{STREAM}") if path.is_dir()]
    if len(directories) != 1:
        return [f"the mirror has {len(directories)} directories of the log"]
    noted = ""
    gaps = directories[0] / "gaps.ndjson"
    if gaps.exists():
        noted = gaps.read_text()
    for head, data in readings:
        generation, offset = head["start"].split(":")
        if head["gap"] and not _noted(head["gap"], noted):
            found.append(f"the mirror has no record of the gap {head['gap']}")
        at, left = int(offset), data
        while left:
            part, inside = divmod(at, _PART_BYTES)
            piece = left[: _PART_BYTES - inside]
            if _kept(directories[0] / f"{generation}.{part}.data", inside, len(piece)) != piece:
                found.append(f"the mirror differs at {generation}:{at}")
            at, left = at + len(piece), left[len(piece) :]
    return found


def _noted(gap: dict[str, Any], noted: str) -> bool:
    return any(f'"{key}": {gap[key]}' in noted for key in ("generation",)) and (
        str(gap["reason"]) in noted
    )


def _kept(path: Path, offset: int, length: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(length)
    except FileNotFoundError:
        return b""
