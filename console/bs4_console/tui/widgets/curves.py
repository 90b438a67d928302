"""Training curves in braille: four small charts over one axis of steps, with what a mean would hide (spikes, NaN) kept visible."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bs4_console.tui import words
from bs4_console.tui.ink import Line, pad

if TYPE_CHECKING:
    from bs4_console.core.state import RunState

#: (key, title, whether the orchestrator reports it).
METRICS = (
    ("reward", "reward", True),
    ("entropy", "entropy", False),
    ("mismatch_kl", "mismatch KL", False),
    ("grad_norm", "grad norm", False),
)
#: Dots of a braille cell by (column, row from the top).
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))

Point = tuple[int, float]


@dataclass(frozen=True)
class Curve:
    """(step, value) oldest first; NaN where the trainer reported no number."""

    title: str
    points: Sequence[Point]

    @property
    def finite(self) -> list[float]:
        return [value for _, value in self.points if math.isfinite(value)]

    @property
    def broken(self) -> int:
        """How many steps had NaN or an infinity."""
        return len(self.points) - len(self.finite)


def curves(run: RunState) -> list[Curve]:
    return [
        Curve(title, points(run.orchestrator_steps if orchestrator else run.trainer_steps, key)) for key, title, orchestrator in METRICS
    ]


def points(rows: Iterable[dict[str, Any]], key: str) -> list[Point]:
    """The last attempt to do a step wins; the strings nan, inf and -inf of the record become NaN."""
    values: dict[int, float] = {}
    for row in rows:
        value = row.get(key)
        if isinstance(value, (int, float)):
            values[row["step"]] = float(value)
        elif isinstance(value, str):
            values[row["step"]] = math.nan
    return sorted(values.items())


def span(found: Iterable[Curve]) -> tuple[int, int]:
    """First and last step over all curves: they share the axis."""
    steps = [step for curve in found for step in (curve.points[0][0], curve.points[-1][0]) if curve.points] if found else []
    return (min(steps), max(steps)) if steps else (0, 0)


def chart(curve: Curve, width: int, height: int, first: int, last: int, at: int | None = None) -> list[Line]:
    """A title line, `height - 2` lines of dots and a line with the range: `width` cells each. `at`: the step under the time cursor, whose
    value the title then gives instead of the newest."""
    finite = curve.finite
    newest = next((value for step, value in reversed(curve.points) if at is None or step == at), None)
    value = words.NONE if newest is None else "NaN" if math.isnan(newest) else words.number(newest)
    name = {"mismatch KL": "KL", "grad norm": "grad"}.get(curve.title, curve.title) if width < 24 else curve.title
    title: Line = [(name, "head"), (" ", ""), (value, "bad bold" if value == "NaN" else "bold")]
    if curve.broken:
        title.append((f" {curve.broken} NaN", "bad"))
    rows = [pad(title, width)]
    if not finite:
        return rows + [
            pad([("no data yet" if not curve.points else "no finite value", "dim")] if i == 0 else [], width) for i in range(height - 1)
        ]
    rows += [pad(line, width) for line in plot(curve.points, width, height - 2, first, last, at)]
    low, high = min(finite), max(finite)
    rows.append(pad([(f"{words.number(low)} … {words.number(high)}", "dim")], width))
    return rows


def plot(found: Sequence[Point], width: int, height: int, first: int, last: int, at: int | None = None) -> list[Line]:
    """The curve as `height` lines. A column that holds several steps draws all from their least to their greatest value."""
    finite = [value for _, value in found if math.isfinite(value)]
    low, high = min(finite), max(finite)
    columns = _columns(found, width * 2, first, last)
    cells = [[0] * width for _ in range(height)]
    broken: set[int] = set()
    before: tuple[int, int, int] | None = None
    for x, column in enumerate(columns):
        if column is None:
            continue
        least, most, nan = column
        if nan:
            broken.add(x // 2)
        if least is None or most is None:
            before = None
            continue
        top, bottom = _dot(most, low, high, height * 4), _dot(least, low, high, height * 4)
        if before is not None:
            _join(cells, before, (x, top, bottom))
        _fill(cells, x, top, bottom)
        before = (x, top, bottom)
    cursor = None if at is None else round((at - first) * (width * 2 - 1) / max(1, last - first)) // 2
    return [_line(row, broken if y == height - 1 else set(), cursor) for y, row in enumerate(cells)]


def _fill(cells: list[list[int]], x: int, top: int, bottom: int) -> None:
    for y in range(top, bottom + 1):
        cells[y // 4][x // 2] |= _DOTS[x % 2][y % 4]


def _join(cells: list[list[int]], before: tuple[int, int, int], now: tuple[int, int, int]) -> None:
    """From the nearer end of one column to the nearer end of the next, so that steps far apart still make one line."""
    start = min(max(now[1], before[1]), before[2])
    end = min(max(before[1], now[1]), now[2])
    previous = start
    for x in range(before[0] + 1, now[0] + 1):
        y = round(start + (end - start) * (x - before[0]) / (now[0] - before[0]))
        _fill(cells, x, min(previous, y), max(previous, y))
        previous = y


def _columns(found: Sequence[Point], count: int, first: int, last: int) -> list[tuple[float | None, float | None, bool] | None]:
    """(least, greatest, whether a NaN is among them) for each column of dots; None where no step falls."""
    columns: list[tuple[float | None, float | None, bool] | None] = [None] * count
    scale = (count - 1) / max(1, last - first)
    for step, value in found:
        x = min(count - 1, max(0, round((step - first) * scale)))
        least, most, nan = columns[x] or (None, None, False)
        if math.isfinite(value):
            columns[x] = (value if least is None else min(least, value), value if most is None else max(most, value), nan)
        else:
            columns[x] = (least, most, True)
    return columns


def _dot(value: float, low: float, high: float, dots: int) -> int:
    """Row of dots from the top."""
    if high <= low:
        return dots // 2
    return round((high - value) / (high - low) * (dots - 1))


def _line(cells: Sequence[int], broken: set[int], cursor: int | None) -> Line:
    line: Line = []
    text = ""
    for x, cell in enumerate(cells):
        character = "×" if x in broken else chr(0x2800 + cell) if cell else " "
        if x in broken or x == cursor:
            role = ("bad bold" if x in broken else "accent") + (" cursor" if x == cursor else "")
            line += [(text, "accent"), (character, role)]
            text = ""
        else:
            text += character
    return [*line, (text, "accent")]


def charts(run: RunState, width: int, height: int, at: int | None = None) -> list[Line]:
    """All four side by side; two by two in a narrow but tall place. `at`: the step under the time cursor."""
    found = curves(run)
    first, last = span([c for c in found if c.points])
    per_row = 4 if width >= 76 else 2
    gap = 2
    each = (width - gap * (per_row - 1)) // per_row
    tall = height if per_row == 4 else height // 2
    lines: list[Line] = []
    for start in range(0, len(found), per_row):
        columns = [chart(curve, each, max(3, tall), first, last, at) for curve in found[start : start + per_row]]
        for parts in zip(*columns, strict=True):
            line: Line = []
            for part in parts:
                line += [(" " * gap, ""), *part] if line else part
            lines.append(line)
    return lines
