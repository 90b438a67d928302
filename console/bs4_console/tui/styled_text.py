"""Styled text. Roles name what a piece of text means; the theme decides how it is drawn.

A line is a list of (text, role). A role consists of any number of words: "bad bold". `@id` makes
the text a link to that command. Without colour every role still differs by bold, dim, underline or
reverse, and states have a sign and a word anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.strip import Strip
from textual.theme import Theme

from bs4_console.printable import blanked
from bs4_console.secret import redacted

Span = tuple[str, str]
Line = list[Span]

#: The theme is calm on purpose: grey for what is normal, colour only for what is not. Most
#: colour-blind eyes can tell blue-green from orange-red.
DARK = Theme(
    name="bs4-dark",
    primary="#5aa9e6",
    secondary="#7d8b99",
    accent="#5aa9e6",
    foreground="#d0d7de",
    background="#0e1216",
    surface="#151b21",
    panel="#1c242c",
    success="#4fb98f",
    warning="#e3b341",
    error="#ff7b72",
    dark=True,
    variables={"block-cursor-text-style": "none", "footer-key-foreground": "#5aa9e6"},
)

#: textual-light's own warning (#ffa62b on #E0E0E0) has a contrast of 1.5; these have 4.5 or more.
_LIGHT = {
    "good": "#0b6b45",
    "warn": "#7a4b00",
    "bad": "#a4161a",
    "accent": "#004578",
    "dim": "#565656",
    "text": "#1b1b1b",
}

#: The hues of a log's sources and of compared curves, on a dark and on a light background. They
#: mean nothing but "another one".
_HUES = {
    True: ("#7fb4d9", "#c5a3e0", "#d9a87f", "#8fc7b0", "#d98fae", "#b0b36b"),
    False: ("#1f5f8b", "#6b3fa0", "#8a4b12", "#1d6b52", "#8b2455", "#5c5f12"),
}

_WITHOUT_COLOUR = {
    "good": Style(),
    "warn": Style(bold=True),
    "bad": Style(bold=True),
    "accent": Style(bold=True),
    "dim": Style(dim=True),
    "key": Style(underline=True),
    "cursor": Style(reverse=True),
    "bar": Style(reverse=True),
    "alarm": Style(reverse=True, bold=True),
    "caution": Style(reverse=True, bold=True),
    "hit": Style(reverse=True),
    "mark": Style(underline=True, bold=True),
    "head": Style(underline=True),
    "rule": Style(dim=True),
    **{f"hue{n}": Style(dim=True) for n in range(len(_HUES[True]))},
}


#: The roles on a terminal of 16 colours, on a dark and on a light background. The nearest of the 16
#: to the colours of a theme would be one grey for many roles, and the cursor's own grey for some.
#: The values are those that Rich takes for the 16.
_SIXTEEN = {
    True: {
        "text": "#ffffff",
        "dim": "#aaaaaa",
        "rule": "#555555",
        "good": "#55ff55",
        "warn": "#ffff55",
        "bad": "#ff5555",
        "accent": "#55ffff",
        "cursor": "#0000aa",
    },
    False: {
        "text": "#000000",
        "dim": "#555555",
        "rule": "#aaaaaa",
        "good": "#00aa00",
        "warn": "#aa5500",
        "bad": "#aa0000",
        "accent": "#0000aa",
        "cursor": "#aaaaaa",
    },
}
_SIXTEEN_HUES = {
    True: ("#55ffff", "#ff55ff", "#aa5500", "#00aa00", "#00aaaa", "#aaaaaa"),
    False: ("#0000aa", "#aa00aa", "#aa5500", "#00aa00", "#00aaaa", "#555555"),
}


class RoleStyles:
    """Converts styled text to Rich styles. Styled text is a list of (text, role), where a role has
    words for what the text means, such as "bad bold" or "dim". `theme` gives the colours; with
    `sixteen` they are those of a terminal of 16 colours. If `colour` is False, only bold, dim,
    reverse and underline are used.
    """

    def __init__(self, theme: Theme, *, colour: bool = True, sixteen: bool = False) -> None:
        self._styles = _coloured(theme, sixteen=sixteen) if colour else _WITHOUT_COLOUR
        self._colour = colour
        self._text = self._styles.get("text", Style())
        self.style = lru_cache(maxsize=512)(self._style)

    def _style(self, role: str) -> Style:
        style = self._text
        for word in role.split():
            if word.startswith("@"):
                style += Style(meta={"@click": f"app.command({word[1:]!r})"})
            elif word in ("bold", "dim", "underline", "reverse") and word not in self._styles:
                style += Style.parse(word)
            else:
                style += self._styles.get(word, Style())
        return style

    def strip(self, line: Sequence[Span], width: int, fill: str = "") -> Strip:
        """Return `line` as a Textual strip of exactly `width` cells: what is too long is cut, what
        is missing is blank. `fill` is a role for the whole strip, such as "bar" for a background;
        text has it in addition to its own roles. "" adds none.
        """
        base = self.style(fill) if fill else None
        segments: list[Segment] = []
        for text, role in line:
            if text:
                segment = Segment(
                    blanked(redacted(text)), self.style(f"{role} {fill}" if fill else role)
                )
                segments += [segment] if self._colour else _words_underlined(segment)
        # Segments of the same style are joined, because each change of style is ten bytes on the
        # wire.
        return Strip(segments).simplify().adjust_cell_length(width, base)


def _coloured(theme: Theme, *, sixteen: bool) -> dict[str, Style]:
    fixed: Mapping[str, str] = {} if theme.dark or theme.name.startswith("bs4-") else _LIGHT
    hues = _HUES[theme.dark]
    if sixteen:
        fixed, hues = _SIXTEEN[theme.dark], _SIXTEEN_HUES[theme.dark]
    foreground = fixed.get("text") or theme.foreground or ("#e0e0e0" if theme.dark else "#1b1b1b")
    background = theme.background or ("#121212" if theme.dark else "#E0E0E0")
    accent = fixed.get("accent") or theme.accent or theme.primary
    bad = fixed.get("bad") or theme.error or "#ff7b72"
    warn = fixed.get("warn") or theme.warning
    panel = theme.panel or mix(background, foreground, 0.12)
    # Ages and totals are read too. On a light background the same share has less contrast.
    faded = 0.45 if theme.dark else 0.33
    return {
        "text": Style(color=foreground),
        "dim": Style(color=fixed.get("dim") or mix(foreground, background, faded)),
        "rule": Style(color=fixed.get("rule") or mix(foreground, background, 0.72)),
        "good": Style(color=fixed.get("good") or theme.success),
        "warn": Style(color=warn),
        "bad": Style(color=bad),
        "accent": Style(color=accent),
        "key": Style(color=accent, bold=True),
        "head": Style(color=fixed.get("dim") or mix(foreground, background, 0.35)),
        "cursor": Style(bgcolor=fixed.get("cursor") or mix(background, accent, 0.28)),
        "bar": Style(bgcolor=panel),
        "alarm": Style(color=background, bgcolor=bad, bold=True),
        "caution": Style(color=background, bgcolor=warn, bold=True),
        "mark": Style(color=accent, underline=True),
        "hit": Style(color=background, bgcolor=warn),
        **{f"hue{n}": Style(color=hue) for n, hue in enumerate(hues)},
    }


def _words_underlined(segment: Segment) -> Iterator[Segment]:
    """Yield the segment without an underline below the blanks at its ends, because a column's
    padding is not part of its word.
    """
    text, style, _ = segment
    word = text.strip()
    if style is None or not style.underline or text == word:
        yield segment
        return
    bare = style + Style(underline=False)
    before = text[: len(text) - len(text.lstrip())]
    for part, kind in (before, bare), (word, style), (text[len(before) + len(word) :], bare):
        if part:
            yield Segment(part, kind)


def mix(first: str, second: str, share: float) -> str:
    """Return a blend of two colours ("#rrggbb") as "#rrggbb". `share` is the part of `second` in
    it, from 0 (only `first`) to 1.
    """
    return Color.parse(first).blend(Color.parse(second), share).hex6


def hue(number: int) -> str:
    """Return the role (the name of a style) for one of several sources or curves, so that each is
    drawn in a colour of its own. `number` is its place among them, from 0; after the last colour
    the first is used again.
    """
    return f"hue{number % len(_HUES[True])}"


def text_of(line: Iterable[Span]) -> str:
    """Return the text of a styled line, which is a sequence of (text, role)."""
    return "".join(text for text, _ in line)


def width_of(line: Iterable[Span]) -> int:
    """Return how many cells of the terminal a styled line takes."""
    return sum(cell_len(text) for text, _ in line)


def cut(line: Line, width: int) -> Line:
    """Return a styled line cut to `width` cells, with an ellipsis at its end if something was cut
    off. A line that fits is returned as it is.
    """
    if width_of(line) <= width:
        return line
    kept: Line = []
    room = width - 1
    for text, role in line:
        taken = text if cell_len(text) <= room else _cut_text(text, room)
        kept.append((taken, role))
        room -= cell_len(taken)
        if taken != text:
            kept.append(("…", role))
            return kept
    return kept


def fitted(lines: Iterable[Line], width: int) -> list[Line]:
    """Return the styled lines, each cut to `width` cells."""
    return [cut(line, width) for line in lines]


def whole(parts: Iterable[Line], width: int) -> Line:
    """Return `parts` joined to one line of at most `width` cells. The first part is cut if it is
    too long. Every other part that does not fit as a whole is left out.
    """
    line: Line = []
    for number, part in enumerate(parts):
        if number == 0:
            line = [*cut(part, width)]
        elif width_of(line) + width_of(part) <= width:
            line += part
    return line


def _cut_text(text: str, width: int) -> str:
    return text[: _fitting(text, width)]


def _fitting(text: str, width: int, start: int = 0) -> int:
    """Return the index in `text` up to which its characters from `start` on take at most `width`
    cells. How long this takes depends on what fits and not on the rest of the text.
    """
    if text.isascii():
        return min(start + max(0, width), len(text))
    left, size = len(text) - start, max(1, width + 1)
    while size < left and cell_len(text[start : start + size]) <= width:
        size *= 2
    # The first `fits` characters fit, and the first `beyond` do not.
    fits, beyond = 0, min(size, left) + 1
    while beyond - fits > 1:
        middle = (fits + beyond) // 2
        if cell_len(text[start : start + middle]) <= width:
            fits = middle
        else:
            beyond = middle
    return start + fits


def pad(line: Line, width: int, align: str = "left") -> Line:
    """Return `line` with a width of exactly `width` cells: a longer line is cut, a shorter one is
    filled with blanks. `align` is "left", or "right" to put the blanks in front.
    """
    line = cut(line, width)
    gap = width - width_of(line)
    if gap <= 0:
        return line
    if align == "right":
        return [(" " * gap, ""), *line]
    return [*line, (" " * gap, "")]


def spread(left: Line, right: Line, width: int) -> Line:
    """Return a line of `width` cells with `left` at the left edge and `right` at the right edge. If
    both do not fit, `left` is cut, or left out if `right` alone fills the line.
    """
    room = width - width_of(right) - 1
    if room > 0:
        return [*pad(left, max(0, room)), (" ", ""), *right]
    return cut(right, width)


def joined(parts: Iterable[Sequence[Span]], gap: Span) -> Line:
    """Return `parts` joined to one line, with `gap`, a piece of styled text, between each two of
    them. There is no gap before the first part that has text.
    """
    line: Line = []
    for part in parts:
        if line:
            line.append(gap)
        line += part
    return line


def hanging(head: Line, lines: Iterable[Line], indent: int | None = None) -> Iterator[Line]:
    """Yield `lines` with `head` in front of the first and blanks in front of the others, so that
    their texts stand below each other. `indent` is the number of blanks; None takes the width of
    the head.
    """
    blank: Line = [(" " * (width_of(head) if indent is None else indent), "")]
    for number, line in enumerate(lines):
        yield (blank if number else head) + line


def fold(text: str, width: int, role: str = "", indent: int = 0) -> list[Line]:
    """Return `text` wrapped to lines of at most `width` cells. Each line begins with `indent`
    blanks and is drawn in `role`. Words that are too long for a line, like paths, are broken.
    """
    lines: list[Line] = []
    room = max(8, width - indent)
    for paragraph in text.split("\n"):
        current, used = "", 0
        for word in paragraph.split(" "):
            start = 0
            while _fitting(word, room, start) < len(word):
                head = room - used - (1 if current else 0)
                if head < 8:
                    lines.append([(" " * indent + current, role)])
                    current, head = "", room
                end = _fitting(word, head, start)
                piece = word[start:end]
                lines.append([(" " * indent + (current + " " if current else "") + piece, role)])
                current, used, start = "", 0, end
            rest = word[start:]
            cells = cell_len(rest)
            if current and used + 1 + cells > room:
                lines.append([(" " * indent + current, role)])
                current, used = rest, cells
            elif current:
                current, used = f"{current} {rest}", used + 1 + cells
            else:
                current, used = rest, cells
        lines.append([(" " * indent + current, role)])
    return lines
