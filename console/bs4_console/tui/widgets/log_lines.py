"""How one line of a log is drawn: gutter, source, clock, level, and what is marked in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from bs4_console.logs.filter import compile_pattern, find_reach
from bs4_console.logs.store import MARK
from bs4_console.logs.text import DEBUG, ERROR, SUCCESS, WARNING, present
from bs4_console.tui.styled_text import Line, hue

#: torchrun's prefix and the clock, then the level word.
_HEAD = re.compile(
    r"^((?:\[[^\]\s]{1,20}\]:?)?\s*(?:\d{4}-\d\d-\d\d[ T])?\d\d:\d\d:\d\d(?:[.,]\d+)?\s+)?"
    r"(\s*(?:TRACE|DEBUG|INFO|SUCCESS|WARNING|WARN|ERROR|CRITICAL|FATAL)\b:?)?"
)
#: The prefixes of torchrun and vLLM, a date, the clock, and the level, which vLLM puts before the
#: clock. Beside other sources all of these stand in columns.
_COLUMNS = re.compile(
    r"^(?:\[[^\]\s]{1,20}\]:?\s*|\(\w{1,20} pid=\d+\)\s+)?"
    r"(?:(?P<before>TRACE|DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL)\s+(?=\d\d-\d\d ))?"
    r"(?:(?:\d{4}-)?\d\d-\d\d[ T])?(?P<clock>\d\d:\d\d:\d\d)(?:[.,]\d+)?\s+"
    r"(?P<level>(?:TRACE|DEBUG|INFO|SUCCESS|WARNING|WARN|ERROR|CRITICAL|FATAL)\b)?"
)
#: uvicorn's level stands alone before the text.
_NO_CLOCK = re.compile(r"^(?P<level>TRACE|DEBUG|INFO|WARNING|ERROR|CRITICAL):\s+")
#: Cells of the columns of clock and level.
_CLOCK, _LEVEL = 9, 8
#: Signs before a line that is pointed at or bookmarked. They are signs so that they are visible
#: without colour too.
POINTED, BOOKMARKED, BOTH = "▸", "◆", "◈"


def level_role(level: int | None) -> str:
    """Return the role of the style in which a log level is drawn, for example "bad" for errors.
    `level` is a number as in Python's logging (40 is an error), or None for a line without a level;
    that gives "".
    """
    if level is None:
        return ""
    if level >= ERROR:
        return "bad"
    if level >= WARNING:
        return "warn"
    if level == SUCCESS:
        return "good"
    if level <= DEBUG:
        return "dim"
    return "accent"


def for_text(pattern: str) -> re.Pattern[str]:
    """Return the regular expression `pattern`, which a person typed as a filter or a search,
    compiled for text. The logs are searched as bytes; this expression finds the same matches in the
    text that the screen shows. A pattern that is not a valid expression is taken as plain text.
    """
    found = compile_pattern(pattern)
    return re.compile(found.pattern.decode(), found.flags & ~re.LOCALE | re.UNICODE)


@dataclass
class Marks:
    """The regular expressions whose matches are marked within the lines of a log. `find` is the one
    that a person searches for, or else the filter's, or None; `role` is the style of its matches.
    `words` are the expressions that a person wants highlighted, which have a style of their own.
    """

    find: re.Pattern[str] | None = None
    role: str = "hit"
    words: list[re.Pattern[str]] = field(default_factory=list)

    def apply(self, text: str, role: str) -> Line:
        """Return `text` as a styled line in which all matches are marked. What is not a match is
        drawn in `role`.
        """
        patterns = [(word, "mark bold") for word in self.words]
        if self.find:
            patterns.insert(0, (self.find, self.role))
        spans: list[tuple[int, int, str]] = []
        for pattern, marked in patterns:
            looked = text[: find_reach(pattern.pattern)]
            spans += [(*m.span(), marked) for m in pattern.finditer(looked) if m.group()]
        line: Line = []
        at = 0
        for begin, end, marked in sorted(spans):
            if begin >= at:
                line += [(text[at:begin], role), (text[begin:end], marked)]
                at = end
        return [*line, (text[at:], role)]


def gutter(*, pointed: bool, bookmarked: bool) -> Line:
    """Return the sign in front of a line of the log: ▸ if the line is pointed at, ◆ if it has a
    bookmark, ◈ if both, and a blank if neither.
    """
    if pointed:
        return [(BOTH if bookmarked else POINTED, "accent bold")]
    if bookmarked:
        return [(BOOKMARKED, "warn bold")]
    return [(" ", "")]


def source_width(names: Sequence[str]) -> int:
    """Return the width in cells of the column with the sources of lines. `names` are the names of
    the log's sources. Return 0 if there are fewer than two, because there is no such column then.
    """
    if len(names) > 1:
        return min(12, max(map(len, names))) + 1
    return 0


def source_span(names: Sequence[str], source: int) -> Line:
    """Return the name of a line's source, filled with blanks to the width of the column of sources.
    `names` are the names of the log's sources and `source` is an index in them. Return [] if there
    are fewer than two sources, because there is no such column then.
    """
    width = source_width(names)
    if not width:
        return []
    name = names[source] if source < len(names) else "?"
    return [(f"{name[: width - 1]:<{width}}", hue(source))]


def clip(line: Line, begin: int, end: int) -> Line:
    """Return the characters from index `begin` up to, but not including, index `end` of a styled
    line. Each character must take one cell of the terminal. This function is much faster than to
    crop a strip, which takes 80 ms in the middle of a megabyte.
    """
    parts: Line = []
    at = 0
    for text, role in line:
        if at < end and at + len(text) > begin:
            parts.append((text[max(0, begin - at) : end - at], role))
        at += len(text)
    return parts


def body(
    source: int, raw: bytes, marks: Marks, folded: int, reach: int, *, columns: bool = False
) -> Line:
    """Return a log line as it is drawn, without its bookmark sign and the name of its source. `raw`
    is the line as bytes. `source` is the index of its source, or MARK for a line that the console
    itself put in, such as about a gap in the log. `marks` says what is marked in it. `folded` is
    how many further similar lines it stands for. At most `reach` characters are returned; with 0 as
    many as are ever shown of a line. With `columns` the time of day and the level are put in
    columns of fixed width, and what else the source writes in front of its lines is left out.
    """
    if source == MARK:
        return [(f"‒‒ {raw.decode('utf-8', 'replace')} ‒‒", "warn")]
    shown = present(raw, reach)
    colour = level_role(shown.level)
    # Errors and debug lines have their role in whole, the others only in the level's word.
    rest = colour if colour in ("bad", "dim") else ""
    clock, word, text = _parts(shown.text, columns=columns)
    line: Line = [(clock, "dim"), (word, colour)]
    if folded:
        times = f"×{folded + 1:,}"
        # The column of the level ends with a blank.
        after_word = word and not columns
        line.append((f" {times}" if after_word else f"{times} ", "accent bold"))
    return [*line, *marks.apply(text, rest)]


def _parts(text: str, *, columns: bool) -> tuple[str, str, str]:
    """Return (clock, level, the rest) of a line. With `columns` the first two have a fixed width,
    blank if the line has none.
    """
    if not columns:
        found = _HEAD.match(text)
        clock, word = found.groups("") if found else ("", "")
        return clock, word, text[len(clock) + len(word) :]
    found = _COLUMNS.match(text)
    if found is not None:
        level = found["level"] or found["before"] or ""
        return f"{found['clock']} ", f"{level:>{_LEVEL - 1}} ", text[found.end() :].lstrip()
    found = _NO_CLOCK.match(text)
    if found is not None:
        level = found["level"]
        return " " * _CLOCK, f"{level:>{_LEVEL - 1}} ", text[found.end() :]
    return " " * _CLOCK, " " * _LEVEL, text
