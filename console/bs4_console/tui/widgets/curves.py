"""Training curves in braille: charts over one axis of steps. What a mean would hide (spikes, NaN)
stays visible.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from bs4_console.tui import formatting
from bs4_console.tui.styled_text import Line, Span, cut, joined, pad, spread, width_of
from bs4_console.tui.widgets.braille import OWN, between, finite, height_of, hue_of, plot, sample
from bs4_console.tui.widgets.curve_data import (
    TITLES,
    Band,
    Curve,
    Other,
    curves,
    machine_curves,
    points,
)
from bs4_console.tui.widgets.curve_view import CurveView, Point, smoothed

if TYPE_CHECKING:
    from bs4_console.pods.samples import Telemetry
    from bs4_console.pods.state import RunState

__all__ = [
    "TITLES",
    "Band",
    "Curve",
    "Other",
    "chart",
    "charts",
    "curves",
    "grid",
    "large",
    "legend",
    "machine_curves",
    "plot",
    "points",
    "span",
]

_SHORT = {"mismatch KL": "KL", "grad norm": "grad"}
#: Cells of the labels left of a large curve, and the least width of a curve with labels.
_LABELS, _LABELLED = 9, 36
#: Least cells for a row of charts with two blanks between them.
_ROOMY = 100
#: Rows of dots from which on a chart has more than three labels.
_TALL = 14
_PLAIN = CurveView()
#: Ends of the titles of curves whose values are shown without decimals.
_WHOLE = (" %", " W")


def span(found: Iterable[Curve]) -> tuple[int, int]:
    """Return the first and the last step that any of the curves `found`, or a curve compared with
    them, has a point at. Curves side by side share this axis. Return (0, 0) if there are no
    points.
    """
    steps: list[int] = []
    for curve in found:
        for line in (curve.points, *(other.points for other in curve.others)):
            if line:
                steps += (line[0][0], line[-1][0])
    if steps:
        return (min(steps), max(steps))
    return (0, 0)


def chart(
    curve: Curve,
    width: int,
    height: int,
    first: int,
    last: int,
    at: int | None = None,
    view: CurveView = _PLAIN,
) -> list[Line]:
    """Return one curve as `height` lines of `width` cells: a title with its newest value, the curve
    in dots, and a line with the range of its values. `first` and `last` are the first and the last
    step shown. `view` says how the curve is drawn: scale and running mean.

    `at` is the step at the past moment that the screens show, whose value is then in the title, or
    None for the present. A bar on the left marks the healthy range, if the curve has one.
    """
    shown = between(curve.points, first, last)
    smooth = smoothed(curve.points, view.weight) if view.weight else []
    rows = [_title(curve, shown, smooth or curve.points, width, at, view)]
    found = [*_ends(shown, view.log)]
    others = []
    for other in curve.others:
        others.append(replace(other, points=between(other.points, first, last)))
        found += _ends(others[-1].points, view.log)
    if not found:
        why = "nothing above 0: no log scale" if view.log else "no finite value"
        if not curve.points:
            why = "no data yet"
        return [*rows, pad([(why, "dim")], width), *[pad([], width)] * (height - 2)]
    low, high = min(found), max(found)
    labelled = width >= _LABELLED and height >= 5
    margin = (_LABELS if labelled else 0) + (curve.band is not None)
    dots = plot(
        shown,
        width - margin,
        height - 2,
        first,
        last,
        at,
        log=view.log,
        mean=between(smooth, first, last),
        others=others,
    )
    for y, line in enumerate(dots):
        left: Line = []
        if labelled:
            left = [(_label(y, len(dots), low, high, view.log), "dim")]
        if curve.band:
            left.append(_edge(y, len(dots), low, high, curve.band, view.log))
        rows.append(pad([*left, *line], width))
    if labelled:
        return [*rows, _axis(_healthy(curve.band, low, high), first, last, width)]
    ends = f"{_shown_number(curve, low)} … {_shown_number(curve, high)}"
    return [*rows, pad([(ends, "dim")], width)]


def _finite_values(line: Sequence[Point]) -> Sequence[float]:
    return finite([value for _, value in line])


def _ends(line: Sequence[Point], log: bool) -> Sequence[float]:
    """Return the least and the greatest value that can be drawn, or () if there is none."""
    numbers = _finite_values(line)
    if log:
        numbers = [value for value in numbers if value > 0]
    if numbers:
        return (min(numbers), max(numbers))
    return ()


def _value_of(line: Sequence[Point], at: int | None) -> float | None:
    """Return the value at a step, or the newest value if `at` is None."""
    found = line[-1:] if at is None else between(line, at, at)
    return found[0][1] if found else None


def _shown_number(curve: Curve, value: float | None) -> str:
    """Return the value as text: percentages and watts without decimals, as they are measured."""
    if value is not None and math.isnan(value):
        return "NaN"
    if curve.title.endswith(_WHOLE) and (value is None or math.isfinite(value)):
        return formatting.whole(value)
    return formatting.number(value)


def _title(
    curve: Curve,
    shown: Sequence[Point],
    line: Sequence[Point],
    width: int,
    at: int | None,
    view: CurveView,
) -> Line:
    """Return the title of a chart with the newest value of `line`, the points that are drawn."""
    newest = _value_of(line, at)
    value, role, name = _shown_number(curve, newest), "bold", curve.title
    if value == "NaN":
        role = "bad bold"
    if width < 24:
        name = _SHORT.get(name, name)
    title: Line = [(name, "head"), (" ", ""), (value, role)]
    marks: Line = []
    for other in curve.others if width >= _LABELLED else ():
        theirs = _shown_number(curve, _value_of(other.points, at))
        marks += [(f"  {other.letter} ", hue_of(other.letter)), (theirs, "")]
    numbers = _finite_values(shown)
    if broken := len(shown) - len(numbers):
        marks.append((f" {broken} NaN", "bad"))
    if view.log and (hidden := sum(number <= 0 for number in numbers)):
        marks.append((f" {hidden} ≤0", "warn"))
    if newest is not None and math.isfinite(newest):
        room = width - width_of(chain(title, marks))
        for text in _ever_shorter(newest, value):
            if word := _beyond(newest, curve.band, room + len(value) - len(text)):
                title[-1] = (text, role)
                title += word
                break
    return pad([*title, *marks], width)


def _ever_shorter(value: float, text: str) -> Iterator[str]:
    """Yield `text`, which is the value as a title shows it, and then the value with ever fewer
    decimals: they make room for the word that says that it is out of range. A value is never
    rounded to 0.
    """
    yield text
    mantissa, scientific, _ = text.partition("e")
    for decimals in reversed(range(len(mantissa.partition(".")[2]))):
        shorter = f"{value:.{decimals}{scientific or 'f'}}"
        if float(shorter):
            yield shorter


def _beyond(value: float, band: Band | None, room: int) -> Line:
    """Return on which side of the healthy range the value is, in at most `room` cells, or [] if it
    is inside.
    """
    if band is None or band[0] <= value <= band[1]:
        return []
    # The usual range of other runs is a hint and no warning, so it has a colour of its own. It has
    # no arrow, which would be read as a trend.
    short, word = ("high", "above") if value > band[1] else ("low", "below")
    for text in (f" {word} usual", f" {short}"):
        if len(text) <= room:
            return [(text, "accent")]
    return []


def _healthy(band: Band | None, low: float, high: float) -> Line:
    """Return the healthy range in words. It says on which side of the drawn values `low` to `high`
    the range is, if its bar cannot be seen beside them.
    """
    if band is None:
        return []
    side = " ↓" if band[1] < low else " ↑" if band[0] > high else ""
    return [("┃", "good"), (f" usual {band[0]:g} … {band[1]:g}{side}", "dim")]


def _axis(usual: Line, first: int, last: int, width: int) -> Line:
    """Return the line below a chart: its first step, the healthy range `usual`, its last step."""
    begin: Line = [(f"{first:>{_LABELS - 1}} ", "dim"), *usual]
    return spread(begin, [(str(last), "dim")], width)


def _value_at(y: float, rows: int, low: float, high: float, log: bool) -> float:
    """Return the value at row `y` of the dots, counted from the top."""
    least, most = height_of(low, log), height_of(high, log)
    found = most - (most - least) * y / max(1, rows - 1)
    return float(10**found) if log else found


def _label(y: int, rows: int, low: float, high: float, log: bool) -> str:
    """Return the label left of row `y`. The top, middle and bottom rows have one, and of a tall
    chart every fourth row; if all values are equal only the middle row does.
    """
    marks = {0, rows - 1, *((rows // 2,) if rows >= 5 else ())}
    if rows >= _TALL:
        marks |= set(range(0, rows - 2, 4)) - {rows // 2 - 1, rows // 2 + 1}
    shown = y in marks if low < high else y == rows // 2
    text = ""
    if shown:
        greatest = max(abs(low), abs(high))
        text = _axis_number(_value_at(y, rows, low, high, log), None if log else greatest)
    return f"{text:>{_LABELS - 1}} "


def _axis_number(value: float, greatest: float | None) -> str:
    """Return a label with as many decimals as the greatest value of its axis has, so that labels
    below each other can be compared at a glance. Without it, the value decides.
    """
    if greatest == 0:
        return "0"
    text = formatting.number(greatest)
    if greatest is None or "e" in text:
        return formatting.number(value)
    # Of thousandths, four decimals would leave one digit of a small value.
    decimals = 5 if greatest < 0.01 else len(text.partition(".")[2])
    return f"{value:.{decimals}f}"


def _edge(y: int, rows: int, low: float, high: float, band: Band, log: bool) -> Span:
    """Return a bar for a row that reaches into the healthy range, a blank for others."""
    above = _value_at(y - 0.5, rows, low, high, log)
    below = _value_at(y + 0.5, rows, low, high, log)
    if below <= band[1] and above >= band[0]:
        return ("┃", "good")
    return (" ", "")


def charts(
    run: RunState,
    width: int,
    height: int,
    at: int | None = None,
    view: CurveView = _PLAIN,
    bands: Mapping[str, Band] | None = None,
    others: Sequence[Other] = (),
) -> list[Line]:
    """Return the run's four main curves in lines of at most `width` cells: side by side, or two by
    two if `width` is less than 76. `height` is the number of lines for all of them together. `at`
    is the step at the past moment that the screens show, or None for the present. `view` says which
    steps are shown and how. `bands` are the healthy ranges as {metric: (least, greatest)}. `others`
    are the runs and attempts whose curves are drawn over them to compare.
    """
    per_row = 4 if width >= 76 else 2
    found = curves(run, bands, others=others)
    shown = view.window(*span(found), at)
    return grid(found, width, height if per_row == 4 else height // 2, per_row, shown, at, view)


def large(
    run: RunState,
    telemetry: Iterable[Telemetry],
    width: int,
    height: int,
    at: int | None,
    view: CurveView,
    bands: Mapping[str, Band],
    only: str = "",
    others: Sequence[Other] = (),
    note: str = "",
) -> list[Line]:
    """Return as many of the run's curves, with those of GPUs and host, as fit into `height` lines
    of `width` cells. The first line says how they are shown, then `note` (for example that
    telemetry is still being read) and which curves had no room. `only` is the title of the only
    curve to show, or "" for all.

    `telemetry` are the pod's telemetry records, from which the curves of GPUs and host are made.
    `at` is the step at the past moment that the screens show, or None for the present. `view` says
    which steps are shown and how. `bands` are the healthy ranges as {metric: (least, greatest)}.
    `others` are the runs and attempts to compare with.
    """
    of_steps, of_machine = (
        curves(run, bands, more=True, others=others),
        machine_curves(run, telemetry),
    )
    first, last = span(of_steps)
    begin, end = view.window(first, last, at)
    main, rest = of_steps[:4], of_steps[4:]
    # Metrics that were never reported get no place, except the four main ones, which come first.
    # The GPUs are among the first six.
    more = [*of_machine[:2], *rest[:3], *of_machine[2:], *rest[3:]]
    found = [*main, *(curve for curve in more if curve.points)]
    per_row = 2 + bisect_right((110, 180), width)
    if only:
        found = [curve for curve in (*main, *more) if curve.title == only]
        per_row = 1
    rows = min(-(-len(found) // per_row), max(1, (height - 1) // 7))
    how = view.words(begin, end) or f"steps {first} … {last}"
    head: Line = [
        ("curves", "head"),
        (f"  {only or 'all'}  {how}", "bold"),
        (f"  {note}" if note else "", "warn"),
    ]
    found, left_out = found[: per_row * rows], found[per_row * rows :]
    if left_out and width_of(head) < width - 30:
        titles = ", ".join(curve.title for curve in left_out)
        head.append((f"   {len(left_out)} more: {titles}", "dim"))
    # The telemetry of the step under way is drawn behind the newest step.
    axis = (begin, max(end, span(of_machine)[1]) if end == last else end)
    lines = [
        pad(head, width),
        *grid(found, width, (height - 1) // rows, per_row, axis, at, view),
    ]
    empty: Line = []
    return lines + [empty] * (height - len(lines))


def legend(others: Sequence[Other], keys: Mapping[str, str], width: int) -> Line:
    """Return the line, of `width` cells, that says which curve is whose by letter and dashes, for
    example "A ⠒⠒⠒⠒⠒ this run   B ⠒⠒⠂ ⠒ attempt 1", with the key that ends the comparison. `others`
    are the runs and attempts that this run is compared with. `keys` maps command ids to keys.
    """
    line: Line = [
        (" compared  ", "head"),
        (f"{OWN} ", "accent bold"),
        (sample(-1), "accent"),
        (" this run", ""),
    ]
    for other in others:
        line += [
            ("  ", ""),
            (f"{other.letter} ", f"{hue_of(other.letter)} bold"),
            (sample(other.dash), hue_of(other.letter)),
            (f" {other.name}", ""),
        ]
        line.append(("" if other.steps else ", no step yet", "warn"))
    end: Line = [(keys["compare"], "key @compare"), (" ends it ", "@compare")]
    return spread(cut(line, width - width_of(end) - 1), end, width)


def grid(
    found: Sequence[Curve],
    width: int,
    tall: int,
    per_row: int,
    axis: tuple[int, int],
    at: int | None,
    view: CurveView,
) -> list[Line]:
    """Return the curves `found` as charts in lines of at most `width` cells, with `per_row` charts
    beside each other and `tall` lines for each. `axis` is (first step, last step), the same for
    all. `at` is the step at the past moment that the screens show, or None for the present. `view`
    says how they are drawn: scale and running mean.
    """
    first, last = axis
    # Narrow charts need every cell for their titles: "entropy 0.4646 high" has 19.
    gap = 1 if width < _ROOMY else 2
    each = (width - gap * (per_row - 1)) // per_row
    made = []
    for curve in found:
        made.append(chart(curve, each, max(3, tall), first, last, at, view))
    lines: list[Line] = []
    for start in range(0, len(made), per_row):
        for parts in zip(*made[start : start + per_row], strict=True):
            lines.append(joined(parts, (" " * gap, "")))
    return lines
