"""Draws curves in braille dots. A column shows what a mean would hide (spikes, NaN); curves that
are only compared are dashed.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter

from bs4_console.tui.styled_text import Line, hue
from bs4_console.tui.widgets.curve_view import Point

#: Dots of a braille cell by (column, row from the top).
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
#: (dots drawn, dots after which the pattern repeats) of each additional curve. The first curve is
#: solid. Each has a letter at its end.
DASHES = ((6, 9), (1, 3), (3, 10), (2, 4))
#: The letter of the first curve.
OWN = "A"
#: (least value, greatest value, True if there is a NaN) of the values in a column of dots. None if
#: there are none.
Column = tuple[float | None, float | None, bool] | None


@dataclass(frozen=True)
class Overlay:
    """A curve that is drawn over another one to compare the two. `points` are (step, value), in the
    order of the steps. `letter` is the letter at the curve's end, and `dash` the index of its
    pattern of dashes in DASHES.
    """

    letter: str
    dash: int
    points: Sequence[Point]


def sample(dash: int) -> str:
    """Return five characters, for a legend, that show how a curve with the pattern DASHES[dash] is
    drawn. A `dash` of -1 stands for a solid curve.
    """
    on, period = DASHES[dash] if dash >= 0 else (1, 1)
    return "".join(
        chr(0x2800 + sum(_DOTS[d][1] for d in (0, 1) if (2 * x + d) % period < on))
        for x in range(5)
    )


def plot(
    found: Sequence[Point],
    width: int,
    height: int,
    first: int,
    last: int,
    at: int | None = None,
    *,
    log: bool = False,
    mean: Sequence[Point] = (),
    others: Sequence[Overlay] = (),
) -> list[Line]:
    """Return a curve drawn in braille dots, as `height` lines of `width` cells, for the steps
    `first` to `last`. `found` are its points (step, value). `others` are further curves, drawn in
    dashes. With `log` the height is the decimal logarithm of the value. At least one value must be
    a finite number, and with `log` one that is above 0.

    Where several steps share a column, the column reaches from their least to their greatest value.
    If `mean`, the points of a running mean, is given, it is drawn as the curve, and `found` as dim
    dots around it. `at` is a step whose column is highlighted, or None.
    """
    count = width * 2
    drawn = [found, *(overlay.points for overlay in others)]
    values, *beside = [_columns(scaled(points, log), count, first, last) for points in drawn]
    low, high = _range([values, *beside])
    canvas = _Canvas(width, height)
    layers = []
    for overlay, columns in zip(others, beside, strict=True):
        layers.append((canvas.layer(), hue_of(overlay.letter)))
        end = _draw(layers[-1][0], columns, low, high, dash=DASHES[overlay.dash]).end
        if end is not None:
            canvas.letters.setdefault(end, overlay.letter)
    dots, cells = canvas.layer(), canvas.layer()
    if mean:
        _draw(dots, values, low, high, joined=False)
        values = _columns(scaled(mean, log), count, first, last)
    own = _draw(cells, values, low, high)
    if others:
        canvas.own = own.end
    cursor = None
    if at is not None:
        cursor = round((at - first) * (count - 1) / max(1, last - first)) // 2
    rows = []
    for y in range(height - 1):
        rows.append(canvas.line(y, cells, dots, layers, set(), cursor))
    return [*rows, canvas.line(height - 1, cells, dots, layers, own.broken, cursor)]


def hue_of(letter: str) -> str:
    """Return the role (the name of a style) in which the compared curve with this letter is drawn.
    The letter at the curve's end, and the sample of the curve in the legend, have the same role.
    """
    return hue(ord(letter) - ord(OWN))


def scaled(found: Sequence[Point], log: bool) -> Sequence[Point]:
    """Return the points `found` (step, value) with each value as a height in the chart. With `log`
    that is the decimal logarithm; points with a value of 0 or less are left out, and NaN and
    infinity stay as they are. Without `log` the points are returned unchanged.
    """
    if not log:
        return found
    rows = []
    for step, value in found:
        if not math.isfinite(value):
            rows.append((step, value))
        elif value > 0:
            rows.append((step, math.log10(value)))
    return rows


def finite(values: Sequence[float]) -> Sequence[float]:
    """Return those of `values` that are neither NaN nor infinite. If all are finite, the result may
    be `values` itself and not a copy.
    """
    if math.isfinite(sum(values)):
        return values
    return list(filter(math.isfinite, values))


def between(found: Sequence[Point], first: int, last: int) -> Sequence[Point]:
    """Return those of the points `found` (step, value) whose step is in `first` to `last`, both
    included. The points must be in the order of their steps.
    """
    return found[bisect_left(found, first, key=_step) : bisect_right(found, last, key=_step)]


_step = itemgetter(0)


def height_of(value: float, log: bool) -> float:
    """Return the height of a value in the chart: the value itself, or with `log` its decimal
    logarithm. Raises ValueError if `log` is given and the value is 0 or less.
    """
    return math.log10(value) if log else value


class _Canvas:
    """Layers of cells above each other. A cell has one colour, so the topmost layer with a dot in
    it is shown.
    """

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.letters: dict[tuple[int, int], str] = {}
        self.own: tuple[int, int] | None = None
        """The cell where the first curve ends. Its letter is drawn there if there are others."""

    def layer(self) -> list[list[int]]:
        """Return a new layer without dots."""
        return [[0] * self.width for _ in range(self.height)]

    def line(
        self,
        y: int,
        cells: list[list[int]],
        dots: list[list[int]],
        layers: Sequence[tuple[list[list[int]], str]],
        broken: set[int],
        cursor: int | None,
    ) -> Line:
        """Return row `y` of the canvas as a line."""
        drawn = [
            (cells[y], "accent"),
            *((layer[y], role) for layer, role in layers),
            (dots[y], "dim"),
        ]
        line: Line = []
        for x in range(self.width):
            character, role = " ", "accent"
            if x in broken:
                character, role = "×", "bad bold"
            elif (x, y) == self.own:
                character, role = OWN, "accent bold"
            elif (x, y) in self.letters:
                character = self.letters[x, y]
                role = f"{hue_of(character)} bold"
            else:
                for row, topmost in drawn:
                    if row[x]:
                        character, role = chr(0x2800 + row[x]), topmost
                        break
            if x == cursor:
                role = f"{role} cursor".strip()
            if line and line[-1][1] == role:
                line[-1] = (line[-1][0] + character, role)
            else:
                line.append((character, role))
        return line


@dataclass
class _Drawn:
    """What drawing a curve has found out: the cells with NaN or infinite values, and the cell of
    the newest value.
    """

    broken: set[int]
    """The columns of cells in which a value is NaN or infinite."""
    end: tuple[int, int] | None = None
    """The cell of the newest value, or None without one."""


def _draw(
    cells: list[list[int]],
    columns: Sequence[Column],
    low: float,
    high: float,
    joined: bool = True,
    dash: tuple[int, int] = (1, 1),
) -> _Drawn:
    """Draw the columns into `cells`. If not `joined`, only the ends of each column are drawn."""
    height = len(cells)
    drawn = _Drawn(set())
    before: tuple[int, int, int] | None = None
    for x, column in enumerate(columns):
        if column is None:
            continue
        least, most, nan = column
        if nan:
            drawn.broken.add(x // 2)
        if least is None or most is None:
            before = None
            continue
        top, bottom = _dot(most, low, high, height * 4), _dot(least, low, high, height * 4)
        drawn.end = (x // 2, bottom // 4)
        if not joined:
            _fill(cells, x, top, top, dash)
            _fill(cells, x, bottom, bottom, dash)
            continue
        if before is not None:
            _join(cells, before, (x, top, bottom), dash)
        _fill(cells, x, top, bottom, dash)
        before = (x, top, bottom)
    return drawn


def _fill(cells: list[list[int]], x: int, top: int, bottom: int, dash: tuple[int, int]) -> None:
    if x % dash[1] >= dash[0]:
        return
    for y in range(top, bottom + 1):
        cells[y // 4][x // 2] |= _DOTS[x % 2][y % 4]


def _join(
    cells: list[list[int]],
    before: tuple[int, int, int],
    now: tuple[int, int, int],
    dash: tuple[int, int],
) -> None:
    """Draw from the nearer end of one column to the nearer end of the next, so that steps far apart
    still make one curve.
    """
    start = min(max(now[1], before[1]), before[2])
    end = min(max(before[1], now[1]), now[2])
    previous = start
    for x in range(before[0] + 1, now[0] + 1):
        y = round(start + (end - start) * (x - before[0]) / (now[0] - before[0]))
        _fill(cells, x, min(previous, y), max(previous, y), dash)
        previous = y


def _columns(found: Sequence[Point], count: int, first: int, last: int) -> list[Column]:
    """Return the least and greatest value of each column of dots. The points are sliced, because a
    loop over each of 20,000 steps would take 20 ms.
    """
    columns: list[Column] = [None] * count
    scale = (count - 1) / max(1, last - first)
    steps, values = zip(*found, strict=True) if found else ((), ())
    begin = 0
    while begin < len(steps):
        x = min(count - 1, max(0, round((steps[begin] - first) * scale)))
        end = len(steps)
        if x < count - 1:
            # The column ends before the first step that is nearer to the next column.
            end = max(begin + 1, bisect_left(steps, first + (x + 0.5) / scale, begin))
        part = values[begin:end]
        numbers = finite(part)
        columns[x] = _joined(
            columns[x],
            (min(numbers), max(numbers), False) if numbers else (None, None, True),
            len(numbers) < len(part),
        )
        begin = end
    return columns


def _joined(before: Column, now: tuple[float | None, float | None, bool], broken: bool) -> Column:
    """Merge two parts of one column. A step that lies just between two columns may be in either."""
    if before is None:
        return (now[0], now[1], now[2] or broken)
    numbers = _numbers([before, now])
    return (min(numbers, default=None), max(numbers, default=None), before[2] or now[2] or broken)


def _numbers(columns: Iterable[Column]) -> list[float]:
    """Return the least and the greatest value of each column that has any."""
    ends = chain(*(column[:2] for column in columns if column is not None))
    return [value for value in ends if value is not None]


def _range(lines: Sequence[Sequence[Column]]) -> tuple[float, float]:
    numbers = _numbers(chain(*lines))
    return min(numbers), max(numbers)


def _dot(value: float, low: float, high: float, dots: int) -> int:
    """Return the row of dots for a value, counted from the top."""
    if high <= low:
        return dots // 2
    return min(max(round((high - value) / (high - low) * (dots - 1)), 0), dots - 1)
