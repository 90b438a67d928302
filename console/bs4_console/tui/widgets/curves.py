"""Training curves in braille: four small charts over one axis of steps, with what a mean would hide (spikes, NaN) kept visible."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bs4_console.tui import words
from bs4_console.tui.ink import Line, pad, width_of
from bs4_console.tui.widgets.curve_view import CurveView, Point, smoothed

if TYPE_CHECKING:
    from bs4_console.core.state import RunState

#: (key, title, whether the orchestrator reports it).
METRICS = (
    ("reward", "reward", True),
    ("entropy", "entropy", False),
    ("mismatch_kl", "mismatch KL", False),
    ("grad_norm", "grad norm", False),
)
#: What the large curves show beside them.
MORE = (
    ("loss", "loss", False),
    ("time_s", "step time s", False),
    ("throughput", "tokens/s", False),
    ("mfu", "MFU %", False),
    ("lr", "learning rate", False),
    ("seq_len", "tokens/sample", True),
)
#: Of telemetry: (field of a device, title); the mean over the GPUs in the time of each step.
GPU_METRICS = (("util", "GPU %"), ("power", "GPU W"))
#: All titles, as `:curves` takes them.
TITLES = tuple(title for _, title, _ in METRICS + MORE) + tuple(title for _, title in GPU_METRICS)
#: Cells of the labels left of a large curve, and from which width there are any.
_LABELS, _LABELLED = 9, 36
_PLAIN = CurveView()
#: Dots of a braille cell by (column, row from the top).
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))

Band = tuple[float, float]


@dataclass(frozen=True)
class Curve:
    """(step, value) oldest first; NaN where the trainer reported no number."""

    title: str
    points: Sequence[Point]
    band: Band | None = None
    """The healthy range of configs/health.toml, where there is one."""


def curves(run: RunState, bands: Mapping[str, Band] | None = None, more: bool = False) -> list[Curve]:
    return [
        Curve(title, points(run.orchestrator_steps if orchestrator else run.trainer_steps, key), (bands or {}).get(key))
        for key, title, orchestrator in METRICS + (MORE if more else ())
    ]


def gpu_curves(run: RunState, telemetry: Iterable[Mapping[str, Any]]) -> list[Curve]:
    """What the GPUs did in the time of each step, as far back as telemetry is held here; after the last step, in that under way."""
    ends = sorted((float(row.get("log_t") or row["t"]), row["step"]) for row in run.trainer_steps)
    found: dict[str, dict[int, list[float]]] = {key: {} for key, _ in GPU_METRICS}
    for sample in telemetry if ends else ():
        place = bisect_left(ends, (float(sample["t"]), -1))
        step = ends[place][1] if place < len(ends) else ends[-1][1] + 1
        for key, values in found.items():
            here = [d[key] for d in (sample.get("gpus") or {}).get("devices") or [] if isinstance(d.get(key), (int, float))]
            if here:
                values.setdefault(step, []).append(sum(here) / len(here))
    return [Curve(title, sorted((step, sum(v) / len(v)) for step, v in found[key].items())) for key, title in GPU_METRICS]


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
    steps = [step for curve in found if curve.points for step in (curve.points[0][0], curve.points[-1][0])]
    return (min(steps), max(steps)) if steps else (0, 0)


def chart(curve: Curve, width: int, height: int, first: int, last: int, at: int | None = None, view: CurveView = _PLAIN) -> list[Line]:
    """A title line, `height - 2` lines of dots and a line with the range: `width` cells each. `at`: the step under the time cursor, whose
    value the title then gives instead of the newest. Left of the dots a bar stands where the healthy range is."""
    shown = [(step, value) for step, value in curve.points if first <= step <= last]
    rows = [_title(curve, shown, width, at, view)]
    drawable = [value for _, value in shown if _drawable(value, view.log)]
    if not drawable:
        why = "no data yet" if not curve.points else "no finite value" if not view.log else "nothing above 0: no log scale"
        return rows + [pad([(why, "dim")] if i == 0 else [], width) for i in range(height - 1)]
    low, high = min(drawable), max(drawable)
    labelled = width >= _LABELLED and height >= 5
    margin = (_LABELS if labelled else 0) + (curve.band is not None)
    mean = [(s, v) for s, v in smoothed(curve.points, view.weight) if first <= s <= last] if view.weight else []
    dots = plot(shown, width - margin, height - 2, first, last, at, log=view.log, mean=mean)
    for y, line in enumerate(dots):
        left: Line = [(_label(y, len(dots), low, high, view.log), "dim")] if labelled else []
        left += _edge(y, len(dots), low, high, curve.band, view.log) if curve.band else []
        rows.append(pad([*left, *line], width))
    rows.append(pad(_healthy(curve.band) if labelled else [(f"{words.number(low)} … {words.number(high)}", "dim")], width))
    return rows


def _title(curve: Curve, shown: Sequence[Point], width: int, at: int | None, view: CurveView) -> Line:
    found = smoothed(curve.points, view.weight) if view.weight else curve.points
    newest = next((value for step, value in reversed(found) if at is None or step == at), None)
    value = words.NONE if newest is None else "NaN" if math.isnan(newest) else words.number(newest)
    name = {"mismatch KL": "KL", "grad norm": "grad"}.get(curve.title, curve.title) if width < 24 else curve.title
    title: Line = [(name, "head"), (" ", ""), (value, "bad bold" if value == "NaN" else "bold")]
    if curve.band and newest is not None and math.isfinite(newest) and not curve.band[0] <= newest <= curve.band[1]:
        side, short, word = ("▲", "high", "above") if newest > curve.band[1] else ("▼", "low", "below")
        title.append((f" {side}" if width < 24 else f" {side} {short}" if width < _LABELLED else f" {side} {word} healthy", "warn bold"))
    if broken := sum(not math.isfinite(value) for _, value in shown):
        title.append((f" {broken} NaN", "bad"))
    if view.log and (hidden := sum(value <= 0 for _, value in shown if math.isfinite(value))):
        title.append((f" {hidden} ≤0", "warn"))
    return pad(title, width)


def _healthy(band: Band | None) -> Line:
    return [(" " * _LABELS, ""), ("┃", "good"), (f" healthy {band[0]:g} … {band[1]:g}", "dim")] if band else []


def _drawable(value: float, log: bool) -> bool:
    return math.isfinite(value) and (value > 0 or not log)


def _height_of(value: float, log: bool) -> float:
    return math.log10(value) if log else value


def _value_at(y: float, rows: int, low: float, high: float, log: bool) -> float:
    """The value at the row `y` of the dots, counted from the top."""
    least, most = _height_of(low, log), _height_of(high, log)
    found = most - (most - least) * y / max(1, rows - 1)
    return float(10**found) if log else found


def _label(y: int, rows: int, low: float, high: float, log: bool) -> str:
    """At the top, in the middle and at the bottom; where all values are one, once."""
    shown = (y in {0, rows - 1} and low < high) or (y == rows // 2 and (rows >= 5 or low == high))
    return f"{words.number(_value_at(y, rows, low, high, log)) if shown else '':>{_LABELS - 1}} "


def _edge(y: int, rows: int, low: float, high: float, band: Band, log: bool) -> Line:
    """A bar in the rows that reach into the healthy range."""
    above, below = (_value_at(y + d, rows, low, high, log) for d in (-0.5, 0.5))
    return [("┃", "good") if below <= band[1] and above >= band[0] else (" ", "")]


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
) -> list[Line]:
    """The curve as `height` lines. A column that holds several steps draws all from their least to their greatest value. With a running
    `mean` that is the line, and the steps are single dim dots behind it."""
    values, line = _scaled(found, log), _scaled(mean, log)
    finite = [value for _, value in values if math.isfinite(value)]
    low, high = min(finite), max(finite)
    dots = [[0] * width for _ in range(height)]
    cells = [[0] * width for _ in range(height)]
    if line:
        _draw(dots, _columns(values, width * 2, first, last), low, high, joined=False)
    broken = _draw(cells, _columns(line or values, width * 2, first, last), low, high)
    cursor = None if at is None else round((at - first) * (width * 2 - 1) / max(1, last - first)) // 2
    return [_line(cells[y], dots[y], broken if y == height - 1 else set(), cursor) for y in range(height)]


def _scaled(found: Sequence[Point], log: bool) -> list[Point]:
    """As heights; what a log scale cannot show is left out, what is no number stays NaN."""
    return [
        (step, _height_of(value, log) if math.isfinite(value) else math.nan)
        for step, value in found
        if _drawable(value, log) or not math.isfinite(value)
    ]


def _draw(
    cells: list[list[int]], columns: Sequence[tuple[float | None, float | None, bool] | None], low: float, high: float, joined: bool = True
) -> set[int]:
    """Into `cells`; returns the cells in which a value was NaN or infinite. Not `joined`: only the ends of each column."""
    height = len(cells)
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
        if not joined:
            _fill(cells, x, top, top)
            _fill(cells, x, bottom, bottom)
            continue
        if before is not None:
            _join(cells, before, (x, top, bottom))
        _fill(cells, x, top, bottom)
        before = (x, top, bottom)
    return broken


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
    return min(max(round((high - value) / (high - low) * (dots - 1)), 0), dots - 1)


def _line(cells: Sequence[int], dots: Sequence[int], broken: set[int], cursor: int | None) -> Line:
    """Runs of one role each. A cell that the line passes shows only the line: a cell has one colour."""
    line: Line = []
    for x, (cell, dot) in enumerate(zip(cells, dots, strict=True)):
        character, role = ("×", "bad bold") if x in broken else (chr(0x2800 + (cell or dot)), "accent" if cell or not dot else "dim")
        if not cell and not dot and x not in broken:
            character = " "
        role += " cursor" if x == cursor else ""
        if line and line[-1][1] == role:
            line[-1] = (line[-1][0] + character, role)
        else:
            line.append((character, role))
    return line


def charts(
    run: RunState,
    width: int,
    height: int,
    at: int | None = None,
    view: CurveView = _PLAIN,
    bands: Mapping[str, Band] | None = None,
) -> list[Line]:
    """The four side by side; two by two in a narrow but tall place. `at`: the step under the time cursor."""
    per_row = 4 if width >= 76 else 2
    found = curves(run, bands)
    shown = view.window(*span(found), at)
    return grid(found, width, height if per_row == 4 else height // 2, per_row, shown, at, view)


def large(
    run: RunState,
    telemetry: Iterable[Mapping[str, Any]],
    width: int,
    height: int,
    at: int | None,
    view: CurveView,
    bands: Mapping[str, Band],
    only: str = "",
) -> list[Line]:
    """As many as the place holds, GPUs beside them, over a line that says how they are looked at; `only` one of them by its title."""
    of_steps, of_gpus = curves(run, bands, more=True), gpu_curves(run, telemetry)
    first, last = span(of_steps)
    begin, end = view.window(first, last, at)
    found = [*of_steps, *of_gpus]
    if only:
        found = [curve for curve in found if curve.title == only]
    else:
        # What was never reported needs no place; the four come first and the GPUs are among the first six.
        found = [c for i, c in enumerate([*found[:4], *found[-2:], *found[4:-2]]) if i < 4 or c.points]
    per_row = 1 if only else 2 if width < 110 else 3 if width < 180 else 4
    rows = min(-(-len(found) // per_row), max(1, (height - 1) // 7))
    how = view.words(begin, end) or f"steps {first} … {last}"
    head: Line = [("curves", "head"), (f"  {only or 'all'}  {how}", "bold")]
    if per_row * rows < len(found) and width_of(head) < width - 30:
        head.append((f"   {len(found) - per_row * rows} more: {', '.join(c.title for c in found[per_row * rows :])}", "dim"))
    # The GPUs of the step under way stand behind the newest.
    axis = (begin, max(end, span(of_gpus)[1]) if end == last else end)
    lines = [pad(head, width), *grid(found[: per_row * rows], width, (height - 1) // rows, per_row, axis, at, view)]
    return [*lines, *([] for _ in range(height - len(lines)))]


def grid(
    found: Sequence[Curve],
    width: int,
    tall: int,
    per_row: int,
    axis: tuple[int, int],
    at: int | None,
    view: CurveView,
) -> list[Line]:
    """`per_row` to a row, `tall` lines each, over one axis of steps."""
    first, last = axis
    gap = 2
    each = (width - gap * (per_row - 1)) // per_row
    lines: list[Line] = []
    for start in range(0, len(found), per_row):
        columns = [chart(curve, each, max(3, tall), first, last, at, view) for curve in found[start : start + per_row]]
        for parts in zip(*columns, strict=True):
            line: Line = []
            for part in parts:
                line += [(" " * gap, ""), *part] if line else part
            lines.append(line)
    return lines
