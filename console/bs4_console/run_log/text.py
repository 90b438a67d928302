"""A run log as text: Markdown cut at its headings, so that joining the pieces gives the same bytes
again.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})([^\n]*)")
_HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*")
_RUN = re.compile(
    r"Run:\s*(?P<name>[^\s\[(]\S*)(?:\s+\((?P<date>[^)]*)\))?(?:\s+[-\u2013\u2014]+\s+(?"
    r"P<status>.*))?"
)
#: Sections of a run are of this level; a heading of this level or a higher one ends it.
RUN_LEVEL = 3


@dataclass(frozen=True)
class Line:
    """`text` with its line end; `level` > 0 and `title` for a heading. `code`: in a fenced block,
    its fences included.
    """

    text: str
    level: int = 0
    title: str = ""
    code: bool = False

    @property
    def bare(self) -> str:
        return self.text.rstrip("\r\n")


@dataclass(frozen=True)
class Chunk:
    """From one heading of level 1 to 3 to the next (the first chunk may have none). `run`: the
    name, where the heading opens a run.
    """

    text: str
    level: int = 0
    title: str = ""

    @property
    def run(self) -> str:
        found = None
        if self.level == RUN_LEVEL:
            found = run_heading(self.title)
        if found:
            return found["name"]
        return ""


def run_heading(title: str) -> re.Match[str] | None:
    """Groups name, date and status of `Run: NAME (DATE) - STATUS`; a name in brackets is a
    template's.
    """
    return _RUN.fullmatch(title)


def lines(text: str) -> list[Line]:
    """Fences may stand at any depth (they do, in lists); one that is never closed hides nothing."""
    raw: list[str] = _LINE.findall(text)
    marked: list[Line] = []
    at = 0
    while at < len(raw):
        end = _fence_end(raw, at)
        if end is not None:
            for line in raw[at : end + 1]:
                marked.append(Line(line, code=True))
            at = end + 1
            continue
        heading = _HEADING.fullmatch(raw[at].rstrip("\r\n"))
        marked.append(Line(raw[at], len(heading[1]), heading[2]) if heading else Line(raw[at]))
        at += 1
    return marked


def _fence_end(raw: list[str], at: int) -> int | None:
    opener = _FENCE.match(raw[at])
    if not opener or (opener[1][0] == "`" and "`" in opener[2]):
        return None
    for number in range(at + 1, len(raw)):
        closer = _FENCE.match(raw[number])
        if closer and closer[1].startswith(opener[1]) and not closer[2].strip():
            return number
    return None


def chunks(text: str) -> list[Chunk]:
    """`"".join(c.text for c in chunks(text)) == text`."""
    found: list[Chunk] = []
    held: list[Line] = []
    for line in lines(text):
        if 0 < line.level <= RUN_LEVEL and held:
            found.append(_chunk(held))
            held = []
        held.append(line)
    if held:
        return [*found, _chunk(held)]
    return found


def _chunk(held: list[Line]) -> Chunk:
    return Chunk("".join(line.text for line in held), held[0].level, held[0].title)


def covers(text: str, other: str) -> bool:
    """Every line of `other` that is not blank is in `text` as often."""
    return not _counted(other) - _counted(text)


def _counted(text: str) -> Counter[str]:
    return Counter(line for raw in text.split("\n") if (line := raw.strip()))


def fenced(text: str) -> str:
    """`text` as a block that no fence within it can end."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(4, longest + 1)
    return f"{fence}markdown\n{text.rstrip()}\n{fence}\n"
