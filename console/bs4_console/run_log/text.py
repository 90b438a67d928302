"""The run log as text: Markdown that is cut at its headings. Joining the pieces gives the same
bytes again.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})([^\n]*)")
_HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*")
_RUN = re.compile(
    r"Run:\s*(?P<name>[^\s\[(]\S*)(?:\s+\((?P<date>[^)]*)\))?(?:\s+[-\u2013\u2014]+\s+(?"
    r"P<status>.*))?"
)
#: The heading level of a run's section. A heading of this level, or with fewer marks, ends the
#: section.
RUN_LEVEL = 3


@dataclass(frozen=True)
class Line:
    """One line of a Markdown document. `text` includes the line end. `level` is 1 or more for a
    heading, whose text is `title`, and 0 for any other line. `code` is True within a fenced code
    block and on its fences.
    """

    text: str
    level: int = 0
    title: str = ""
    code: bool = False

    @property
    def bare(self) -> str:
        """Return the line without its line end."""
        return self.text.rstrip("\r\n")

    @property
    def prose(self) -> str:
        """Return the line without its line end, or "" if it belongs to a fenced code block."""
        return "" if self.code else self.bare


@dataclass(frozen=True)
class Chunk:
    """A piece of a Markdown document: a heading of level 1 to 3 and all text up to the next such
    heading. `level` and `title` are those of the heading; the first chunk may have none (level 0).
    """

    text: str
    level: int = 0
    title: str = ""

    @cached_property
    def run(self) -> str:
        """Return the name of the run whose section this chunk is, or "" if its heading is not that
        of a run.
        """
        found = run_heading(self.title)
        if found and self.level == RUN_LEVEL:
            return found["name"]
        return ""

    @property
    def heading(self) -> str | tuple[int, str]:
        """Return the key by which this chunk is found again in another version of the document: the
        name of its run, or the level and title of its heading.
        """
        return self.run or (self.level, self.title)


def run_heading(title: str) -> re.Match[str] | None:
    """Match the title of a run's section, `Run: NAME (DATE) - STATUS`. Return the match with the
    groups name, date and status, or None if it is another title. A name in brackets does not match,
    because it is a template's placeholder.
    """
    return _RUN.fullmatch(title)


def lines(text: str) -> list[Line]:
    """Return the lines of a Markdown document, each with a mark if it is a heading or in a fenced
    code block. Fences may be indented, as in lists. An opening fence without a closing one is not
    taken as code, so that it hides no headings.
    """
    raw: list[str] = _LINE.findall(text)
    marked: list[Line] = []
    at = 0
    # By the character of a fence, the length from which none is closed any more.
    unclosed: dict[str, int] = {}
    while at < len(raw):
        end = _fence_end(raw, at, unclosed)
        if end is not None:
            for line in raw[at : end + 1]:
                marked.append(Line(line, code=True))
            at = end + 1
            continue
        heading = _HEADING.fullmatch(raw[at].rstrip("\r\n"))
        marked.append(Line(raw[at], len(heading[1]), heading[2]) if heading else Line(raw[at]))
        at += 1
    return marked


def closed(text: str) -> str:
    """Return the text with a closing fence directly below each opening one that has none. So it
    reads as before, and a fence in what is placed behind it closes none of its own.
    """
    out = ""
    for line in lines(text):
        out += line.text
        opener = None if line.code else _opener(line.text)
        if opener is not None:
            end = "" if line.text.endswith("\n") else "\n"
            out += f"{end}{opener[1]}\n"
    return out


def _opener(line: str) -> re.Match[str] | None:
    """Match a line with which a fenced code block can open. The group 1 is its fence."""
    found = _FENCE.match(line)
    if found is None or (found[1][0] == "`" and "`" in found[2]):
        return None
    return found


def _fence_end(raw: list[str], at: int, unclosed: dict[str, int]) -> int | None:
    """Return the number of the line that closes the fence which opens in the line `at`, or None if
    none opens there or it is not closed. The latter is noted in `unclosed`.
    """
    opener = _opener(raw[at])
    if opener is None:
        return None
    mark, length = opener[1][0], len(opener[1])
    if length >= unclosed.get(mark, length + 1):
        return None
    for number in range(at + 1, len(raw)):
        closer = _FENCE.match(raw[number])
        if closer and closer[1].startswith(opener[1]) and not closer[2].strip():
            return number
    unclosed[mark] = length
    return None


def chunks(text: str) -> list[Chunk]:
    """Return the parts of a Markdown document that is split at its headings of level 1 to 3. The
    texts of the chunks, joined, give the document again.
    """
    found: list[Chunk] = []
    held: list[Line] = []
    for line in lines(text):
        if 0 < line.level <= RUN_LEVEL and held:
            found.append(_chunk(held))
            held = []
        held.append(line)
    if held:
        found.append(_chunk(held))
    return found


def _chunk(held: list[Line]) -> Chunk:
    return Chunk("".join(line.text for line in held), held[0].level, held[0].title)


def covers(text: str, other: str) -> bool:
    """Return True if every line of `other` that is not blank occurs in `text` at least as often.
    Spaces around lines are ignored.
    """
    return not _counted(other) - _counted(text)


def _counted(text: str) -> Counter[str]:
    return Counter(line for raw in text.split("\n") if (line := raw.strip()))


def utc(t: float) -> str:
    """Return a Unix time in seconds as `YYYY-MM-DD HH:MM UTC`."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(t))


def fenced(text: str, language: str = "markdown") -> str:
    """Return the text as a fenced Markdown code block in `language`. The fence is chosen so that
    nothing in the text can end the block.
    """
    longest = max(re.findall(r"`+", text), default="")
    fence = longest.ljust(3, "`") + "`"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"
