"""The data of the curves: the metrics of a run's steps, what GPUs and host did meanwhile, and the
curves to compare with.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Reversible, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bs4_console.tui import formatting
from bs4_console.tui.widgets.braille import Overlay
from bs4_console.tui.widgets.curve_view import Point

if TYPE_CHECKING:
    from bs4_console.pods.samples import StepRecord, Telemetry
    from bs4_console.pods.state import RunState

#: (key, title, True if the orchestrator reports it).
METRICS = (
    ("reward", "reward", True),
    ("entropy", "entropy", False),
    ("mismatch_kl", "mismatch KL", False),
    ("grad_norm", "grad norm", False),
)
#: The metrics that only the large curves show.
MORE = (
    ("loss", "loss", False),
    ("time_s", "step time s", False),
    ("throughput", "tokens/s", False),
    ("mfu", "MFU %", False),
    ("lr", "learning rate", False),
    ("seq_len", "tokens/sample", True),
)
#: Most curves that a run is compared with. Each needs a letter, and more cannot be told apart.
MOST = 4

Band = tuple[float, float]

#: Most lineages that are cached, with the rows they were made from: both sides of the run and of
#: those that it is compared with.
_LINEAGES_KEPT = 2 * (MOST + 1)
#: Most curves that are cached. Each entry keeps its rows alive, so that no other list can get their
#: id.
_POINTS_KEPT = (len(METRICS) + len(MORE)) * (MOST + 1)
_POINTS: dict[tuple[int, str], tuple[Sequence[StepRecord], Sequence[Point]]] = {}
_LINEAGES: dict[int, tuple[tuple[int, int], Sequence[StepRecord], object]] = {}


@dataclass(frozen=True)
class Curve:
    """One training curve with its `title`. `points` are (step, value) in the order of the steps,
    with NaN where the trainer reported no number. `band` is the healthy range (least, greatest)
    from configs/health.toml, or None. `others` are the curves of other runs or attempts that are
    drawn over it to compare.
    """

    title: str
    points: Sequence[Point]
    band: Band | None = None
    others: Sequence[Overlay] = ()


@dataclass(frozen=True)
class Other:
    """A run, or an earlier attempt of the same run (a relaunch is the next attempt), whose curves
    are drawn over those of the run that is shown. If `attempt` is the number of an attempt, `run`
    is the shown run itself; of that attempt only the steps are drawn that a later attempt did
    again. `name` is its name in the legend. `letter` stands at the ends of its curves, and `dash`
    is the index of their pattern of dashes in DASHES.
    """

    letter: str
    dash: int
    name: str
    run: RunState
    attempt: int | None = None

    def overlay(self, key: str, orchestrator: bool) -> Overlay:
        """Return the curve of the metric with the name `key`, for example "reward", as it is drawn
        over the shown run's own curve. It is made from the step records of the orchestrator if
        `orchestrator` is True, otherwise from those of the trainer.
        """
        rows = rows_of(self.run, orchestrator=orchestrator)
        if self.attempt is None:
            return Overlay(self.letter, self.dash, points(rows, key))
        return Overlay(self.letter, self.dash, overtaken(rows, key, self.attempt))

    @property
    def steps(self) -> int:
        """Return how many step records of trainer and orchestrator the run has by now. The curves
        have to be drawn again when this number changes.
        """
        return len(self.run.trainer_steps) + len(self.run.orchestrator_steps)


def curves(
    run: RunState,
    bands: Mapping[str, Band] | None = None,
    more: bool = False,
    others: Sequence[Other] = (),
) -> list[Curve]:
    """Return the four main curves of the run (reward, entropy, mismatch KL, grad norm), or with
    `more` also those of its other metrics. `bands` are the healthy ranges as {metric: (least,
    greatest)}. `others` are the runs and attempts whose curves are drawn over them to compare.
    """
    made = []
    for key, title, orchestrator in METRICS + (MORE if more else ()):
        own = points(rows_of(run, orchestrator=orchestrator), key)
        overlays = [other.overlay(key, orchestrator) for other in others]
        made.append(Curve(title, own, (bands or {}).get(key), overlays))
    return made


def rows_of(run: RunState, *, orchestrator: bool) -> Collection[StepRecord]:
    """Return the records of the run's training steps: those that its orchestrator wrote if
    `orchestrator` is True, otherwise those that its trainer wrote.
    """
    if orchestrator:
        return run.orchestrator_steps
    return run.trainer_steps


def points(rows: Collection[StepRecord], key: str) -> Sequence[Point]:
    """Return (step, value) of the metric with the name `key`, for example "reward", in the order of
    the steps. `rows` are step records. Records without the metric are left out, and so are those of
    earlier attempts whose steps a later attempt did again (see `lineage`). A value that is a text
    (nan, inf or -inf) becomes NaN.
    """
    counted = lineage(rows)
    known = _POINTS.pop((id(counted), key), None)
    if known is None:
        made = []
        for row in counted:
            value = row.get(key)
            if isinstance(value, (int, float, str)):
                made.append((row["step"], math.nan if isinstance(value, str) else value))
        known = (counted, made)
    _POINTS[id(counted), key] = known
    while len(_POINTS) > _POINTS_KEPT:
        del _POINTS[next(iter(_POINTS))]
    return known[1]


def lineage(rows: Collection[StepRecord]) -> Sequence[StepRecord]:
    """Return those of the step records `rows` that belong to the run's present history, in the
    order of their steps. If a later attempt (a relaunch of the run) began again at a step, the
    records of earlier attempts from that step on are left out. If there are several records of one
    step, the last is taken. The result is cached until a record is added to `rows`.
    """
    newest = next(reversed(rows), None) if isinstance(rows, Reversible) else None
    key = (len(rows), id(newest))
    known = _LINEAGES.get(id(rows))
    if newest is not None and known is not None and known[0] == key:
        return known[1]
    made = _lineage(rows)
    if newest is not None:
        # The entry keeps `made` and the newest row alive, so that no other row can get its id.
        _LINEAGES.pop(id(rows), None)
        _LINEAGES[id(rows)] = (key, made, newest)
        while len(_LINEAGES) > _LINEAGES_KEPT:
            del _LINEAGES[next(iter(_LINEAGES))]
    return made


def _lineage(rows: Iterable[StepRecord]) -> list[StepRecord]:
    found: dict[int, StepRecord] = {}
    newest = 0
    for row in rows:
        attempt = row.get("attempt") or 0
        if attempt > newest:
            newest = attempt
            for step in [step for step in found if step >= row["step"]]:
                del found[step]
        if attempt == newest:
            found[row["step"]] = row
    return [row for _, row in sorted(found.items())]


def overtaken(rows: Iterable[StepRecord], key: str, attempt: int) -> list[Point]:
    """Return the part of an attempt's curve that a later attempt (a relaunch of the run) did again,
    as (step, value). `attempt` is the number of the attempt, `key` the name of the metric, and
    `rows` are the step records of all attempts. The step before that part is included too, because
    there the curves of both attempts part. The result is empty if no later attempt did any of its
    steps again.
    """
    rows = list(rows)
    cut = min((row["step"] for row in rows if (row.get("attempt") or 0) > attempt), default=None)
    if cut is None:
        return []
    values = {}
    for row in rows:
        value, mine = _value(row, key), (row.get("attempt") or 0) == attempt
        if mine and row["step"] >= cut - 1 and value is not None:
            values[row["step"]] = value
    if max(values, default=cut - 1) < cut:
        return []
    return sorted(values.items())


def overtaken_attempts(run: RunState) -> list[int]:
    """Return the numbers of those attempts of the run, the newest first, of which a later attempt
    did at least one step again. A relaunch of a run is its next attempt; it does steps again if it
    resumes from an older checkpoint.
    """
    cut: int | None = None
    firsts: dict[int, tuple[int, int]] = {}
    for row in run.trainer_steps:
        first, last = firsts.get(row.get("attempt") or 0, (row["step"], row["step"]))
        firsts[row.get("attempt") or 0] = (min(first, row["step"]), max(last, row["step"]))
    found = []
    for number in sorted(firsts, reverse=True):
        first, last = firsts[number]
        if cut is not None and last >= cut:
            found.append(number)
        cut = first if cut is None else min(cut, first)
    return found


def _value(row: StepRecord, key: str) -> float | None:
    value = row.get(key)
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, str):
        return math.nan
    return None


# -- telemetry on the axis of steps


def _of_devices(key: Literal["util", "power"]) -> Callable[[Telemetry], float | None]:
    def mean(sample: Telemetry) -> float | None:
        devices = (sample.get("gpus") or {}).get("devices") or []
        values = [d.get(key) for d in devices]
        here = [value for value in values if isinstance(value, (int, float))]
        return sum(here) / len(here) if here else None

    return mean


def _memory_of_devices(sample: Telemetry) -> float | None:
    used = total = 0.0
    for d in (sample.get("gpus") or {}).get("devices") or []:
        here, most = d.get("mem_used"), d.get("mem_total")
        if here is not None and most:
            used += here
            total += most
    return formatting.percent(used, total)


def _cpu(sample: Telemetry) -> float | None:
    value = (sample.get("host") or {}).get("cpu")
    if isinstance(value, (int, float)):
        return float(value)
    return None


def _host_memory(sample: Telemetry) -> float | None:
    host = sample.get("host") or {}
    return formatting.percent(host.get("mem_used"), host.get("mem_total"))


#: (title, function that returns the value in a sample). GPU values are the mean over the GPUs.
MACHINE: tuple[tuple[str, Callable[[Telemetry], float | None]], ...] = (
    ("GPU %", _of_devices("util")),
    ("GPU W", _of_devices("power")),
    ("GPU memory %", _memory_of_devices),
    ("CPU %", _cpu),
    ("host memory %", _host_memory),
)
#: All titles of curves, as `:curves` takes them.
TITLES = tuple(title for _, title, _ in METRICS + MORE) + tuple(title for title, _ in MACHINE)


def step_ends(run: RunState) -> list[tuple[float, int]]:
    """Return (time, step) for each step of the run, in the order of time. The time is when the step
    ended, as a Unix time in seconds by the pod's clock. If a later attempt (a relaunch of the run)
    began again at a step, what earlier attempts did from that step on is left out.
    """
    counted = lineage(run.trainer_steps)
    return sorted((float(row.get("log_t") or row["t"]), row["step"]) for row in counted)


def machine_curves(run: RunState, telemetry: Iterable[Telemetry]) -> list[Curve]:
    """Return the curves of the pod's GPUs and host, such as their utilisation, over the run's
    training steps. `telemetry` are the pod's telemetry records. The value at a step is the mean of
    the records from the time of that step. Records from after the end of the newest step count for
    the step that follows. If no step has ended, the curves have no points.
    """
    ends = step_ends(run)
    found: dict[str, dict[int, list[float]]] = {title: {} for title, _ in MACHINE}
    for sample in telemetry if ends else ():
        place = bisect_left(ends, (float(sample["t"]), -1))
        step = ends[place][1] if place < len(ends) else ends[-1][1] + 1
        for title, read in MACHINE:
            if (value := read(sample)) is not None:
                found[title].setdefault(step, []).append(value)
    made = []
    for title, values in found.items():
        means = sorted((step, sum(v) / len(v)) for step, v in values.items())
        made.append(Curve(title, means))
    return made
