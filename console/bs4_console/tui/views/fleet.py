"""The fleet as rows: every pod and every run, those that need a person first."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from bs4_console.pods.state import devices, disk_percent
from bs4_console.tui import formatting, status
from bs4_console.tui.styled_text import Line, joined, text_of, width_of

if TYPE_CHECKING:
    from bs4_console.pods.samples import Device, StepRecord
    from bs4_console.pods.state import PodState, RunState
    from bs4_console.tui.clock import Clock

#: The numbers of a GPU that are added up over several.
Reading = Literal["util", "temp", "power", "mem_used", "mem_total"]
#: A run that ended longer ago than this is hidden until `a` is pressed.
OLD_S = 24 * 3600.0


@dataclass(frozen=True)
class Column:
    """A column of a table. `id` is the name of its cells in a Row, and `title` its heading. `least`
    and `most` are its width in cells; a `most` of 0 takes what is left of the line. On a narrow
    terminal the columns with the least `importance` are left out. `align` is "left" or "right".
    """

    id: str
    title: str
    least: int
    most: int
    importance: float
    align: str = "left"


COLUMNS = (
    Column("state", "STATE", 11, 13, 100),
    Column("pod", "POD", 7, 18, 99),
    Column("link", "LINK", 10, 10, 70),
    Column("run", "RUN", 9, 22, 98),
    Column("trainer", "TRAINER", 7, 16, 20),
    Column("step", "STEP", 8, 13, 97, "right"),
    Column("eta", "ETA", 6, 7, 60, "right"),
    Column("pace", "S/STEP", 6, 6, 50, "right"),
    Column("reward", "REWARD", 6, 7, 45, "right"),
    Column("gpu", "GPUS USE MEM", 12, 13, 65, "right"),
    Column("disk", "DISK", 4, 4, 40, "right"),
    Column("age", "AGE", 4, 7, 80, "right"),
    Column("wrong", "WHAT'S WRONG", 28, 0, 96),
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of a table. `key` identifies it; in the fleet's table it is (pod's name, run's name),
    with "" as the run for the pod itself. `cells` has the styled text of each column by the
    column's id. `rank` is the severity of its worst problem: 4 critical, 3 unknown, 2 warning, 1
    notice, 0 nothing. `old` is True for a run that ended more than a day ago.
    """

    key: tuple[str, str]
    rank: int
    cells: dict[str, Line]
    old: bool = False
    trouble: str = ""
    """The worst problem in words, without ages, or "". While it is the same, nothing new has
    happened.
    """
    values: Mapping[str, float | str | None] = field(default_factory=dict, compare=False)
    """What the command `:sort` compares, by the column's id."""
    running: bool = False
    """True if a run is training as far as is known, even if something is wrong with it."""
    connecting: bool = False
    """True if it is not known yet what runs on the pod, because it is only being connected to."""
    banner: Line | None = None
    """The heading of a group, drawn across all columns, if the row is one. None for other rows."""
    over: bool = False
    """True if the run has ended. Among rows of the same severity, such rows come last."""

    @cached_property
    def text(self) -> str:
        """Return the text of all cells, separated by blanks. A filter searches this text."""
        return " ".join(text_of(line) for line in self.cells.values())

    @cached_property
    def widths(self) -> dict[str, int]:
        """Return how many cells of the terminal the text of each cell takes, by the column's id."""
        return {name: width_of(line) for name, line in self.cells.items()}


#: Possible orders of the table. "need", the default, puts the rows that need a person first.
SORTS = (
    "need",
    "pod",
    "run",
    "state",
    "age",
    "link",
    "step",
    "eta",
    "pace",
    "reward",
    "gpu",
    "disk",
)
#: Columns that are sorted from the largest value down, so that the worst comes first. `-` in front
#: of a column reverses its order.
_FALLING = frozenset({"age", "link", "eta", "pace", "disk"})
GROUPS = ("none", "pod", "state", "trainer")
#: Marks the key of a group's heading. No run's name can contain it.
HEADING = "\x00"


def arrange(
    rows: Iterable[Row], sort: str = "", group: str = "", folded: Container[str] = ()
) -> list[Row]:
    """Return `rows` sorted and grouped. `sort` is the id of a column, with `-` in front for the
    reverse order, or "" for the most severe rows first. `group` is "pod", "state" or "trainer", or
    "" or "none" for no groups. Each group begins with a row that is its heading, and the group with
    the most severe row comes first. Of a group whose name is in `folded`, only the heading is
    returned.
    """
    rows = ordered(rows, sort or "need")
    if group in ("", "none"):
        return rows
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(str(row.values.get(group) or formatting.NONE), []).append(row)
    arranged: list[Row] = []
    for name, members in sorted(groups.items(), key=lambda item: (-worst(item[1]), item[0])):
        arranged.append(_heading(name, members, group, closed=name in folded))
        if name not in folded:
            arranged += members
    return arranged


def worst(rows: Iterable[Row]) -> int:
    """Return the highest severity (`rank`) of `rows`: 4 critical, 3 unknown, 2 warning, 1 notice, 0
    nothing. Raises ValueError if there are no rows.
    """
    return max(row.rank for row in rows)


def ordered(rows: Iterable[Row], sort: str) -> list[Row]:
    """Return `rows` sorted by `sort`: the id of a column, with `-` in front for the reverse order,
    or "need" for the most severe first. Rows without a value in the column come after the others,
    rows with equal values are sorted by severity, and runs that ended more than a day ago are
    always at the end.
    """
    by_need = sorted(rows, key=lambda row: (row.old, -row.rank, row.over, row.key))
    column, turned = sort.removeprefix("-"), sort.startswith("-")
    if column == "need":
        return by_need
    valued: list[Row] = []
    valueless: list[Row] = []
    for row in by_need:
        (valueless if row.values.get(column) is None else valued).append(row)
    valued.sort(
        key=lambda row: row.values[column],  # type: ignore[arg-type,return-value]
        reverse=(column in _FALLING) != turned,
    )
    return sorted([*valued, *valueless], key=lambda row: row.old)


def _heading(name: str, members: list[Row], group: str, *, closed: bool) -> Row:
    counts = Counter(row.rank for row in members)
    line: Line = [
        ("▸ " if closed else "▾ ", "accent bold"),
        (name, "bold"),
        (f"  {formatting.count(len(members), 'row')}", "dim"),
    ]
    for rank, sign, role in _TALLIED:
        if counts[rank]:
            line += [("  ", ""), (f"{sign} {counts[rank]}", role)]
    key = (name if group == "pod" else "", HEADING + name)
    return Row(key=key, rank=worst(members), cells={}, banner=line)


_TALLIED = ((4, "✖", "bad bold"), (3, "?", "warn bold"), (2, "▲", "warn"))


def matches(text: str, wanted: str) -> bool:
    """Return True if `text` matches the filter `wanted`, a regular expression that does not tell
    upper from lower case: the expression must occur in the text. If `wanted` begins with `!`, the
    expression that follows must not occur in it. An expression that is not valid is searched as
    plain text. A filter of "" matches everything.
    """
    if not wanted:
        return True
    pattern, positive = wanted.removeprefix("!"), not wanted.startswith("!")
    try:
        found = re.search(pattern, text, re.IGNORECASE) is not None
    except re.error:
        found = pattern.lower() in text.lower()
    return found == positive


def rows(pods: Iterable[PodState], clock: Clock) -> list[Row]:
    """Return the rows of all pods and their runs, the most severe first. Rows of the same severity
    are sorted by name, so that they keep their places while nothing changes.
    """
    return ordered([row for pod in pods for row in readable_rows(pod, clock)], "need")


def readable_rows(pod: PodState, clock: Clock) -> list[Row]:
    """Return the rows of one pod. If the pod's records are malformed, return one row that says so,
    so that the other pods can still be shown.
    """
    try:
        return pod_rows(pod, clock)
    except status.MALFORMED as error:
        wrong = (
            f"its records cannot be read ({type(error).__name__}: {error}); deploy this "
            "console's agent there"
        )
        cells: dict[str, Line] = {column.id: [] for column in COLUMNS}
        cells |= {
            "state": [("? unreadable", "warn bold")],
            "pod": [(pod.name, "bold")],
            "wrong": [(wrong, "warn")],
        }
        return [Row(key=(pod.name, ""), rank=3, cells=cells)]


def pod_rows(pod: PodState, clock: Clock) -> list[Row]:
    """Return a row for each run of the pod. The pod itself also gets a row, as the last one, if it
    has no runs, only runs that ended more than a day ago, or an incident that belongs to none of
    its runs.
    """
    made = [_row(pod, run, clock) for run in _shown(pod)]
    if status.incidents_of(pod, None) or all(row.old for row in made):
        made.append(_row(pod, None, clock))
    return made


def _shown(pod: PodState) -> list[RunState]:
    """Return the runs of the pod that have a row: all of them, or of more than ROWS_MOST those that
    are alive or have an open incident first, and then the newest.
    """
    runs = list(pod.runs.values())
    if len(runs) <= status.ROWS_MOST:
        return runs
    urgent = {incident.run for incident in pod.ledger.open_incidents()}
    runs.reverse()
    runs.sort(key=lambda run: not run.alive and run.name not in urgent)
    return runs[: status.ROWS_MOST]


def _row(pod: PodState, run: RunState | None, clock: Clock) -> Row:
    how = status.status_of(pod, run)
    seen = status.age(pod, clock)
    faded = "dim" if status.is_old(seen) else ""
    problems = status.wrong(pod, run, clock)
    stopped = status.stopped(pod, run)
    cells: dict[str, Line] = {
        "state": how.line(),
        "pod": [(pod.name, "bold" if how.rank else "")],
        "link": status.link_line(pod),
        "run": [(formatting.NONE, "dim")],
        "trainer": [],
        "age": _age(seen),
        "wrong": joined(([problem] for problem in problems), (" · ", "dim")),
        "gpu": gpu_summary(pod, faded),
        "disk": disk_summary(pod, faded),
        "step": [],
        "eta": [],
        "pace": [],
        "reward": [],
    }
    if pod.read_only and not status.recorded(pod):
        cells["pod"].append((" ro", "warn"))
    values: dict[str, float | str | None] = {
        "pod": pod.name,
        "run": None,
        "state": how.word,
        "trainer": None,
        "age": math.inf if seen is None else seen,
        "link": pod.link.rtt if pod.link.up else math.inf,
        "gpu": mean(devices(pod), "util"),
        "disk": _fullest(pod),
    }
    if run is not None:
        eta = status.eta(pod, run, clock)
        cells |= _numbers(run, faded, eta)
        values |= {
            "run": run.name,
            "trainer": run.view.trainer,
            "step": run.step,
            "eta": eta,
            "pace": run.step_seconds(),
            "reward": newest(run.orchestrator_steps, "reward"),
        }
    return Row(
        key=(pod.name, run.name if run else ""),
        rank=max(how.rank, 1 if problems and problems != stopped else 0),
        cells=cells,
        old=_is_old(run, clock, how.rank),
        trouble=_trouble(pod, run, how, problems),
        values=values,
        running=run is not None and run.word == "running" and not status.link_down(pod),
        connecting=status.unknown_yet(pod, clock),
        over=run is not None and run.word in ("stopped", "finished"),
    )


def _trouble(
    pod: PodState, run: RunState | None, how: status.Status, problems: list[tuple[str, str]]
) -> str:
    if pod.lost is not None and status.taken(pod):
        return pod.lost.word  # its sentence counts the polls, and would be news with each of them
    if incidents := status.incidents_of(pod, run):
        return incidents[0].title
    if pod.lost is not None and status.lost(pod) is not None:
        return pod.lost.word
    if how.rank == 3:
        return pod.link.detail or pod.link.state
    attempt = run.view.attempt if run else None
    if run and run.word == "failed" and attempt is not None:
        return attempt.detail or f"attempt {attempt.number} failed"
    if problems or how.rank:
        return how.word
    return ""


def _numbers(run: RunState, role: str, eta: float | None) -> dict[str, Line]:
    reward = newest(run.orchestrator_steps, "reward")
    return {
        "run": [(run.name, role)],
        "trainer": [(run.view.trainer, "dim")],
        "step": step_line(run, role),
        "eta": [(formatting.NONE if eta is None else formatting.duration(eta), role)],
        "pace": [(formatting.pace(run.step_seconds()), role)],
        "reward": [(f"{reward:.3f}" if reward is not None else formatting.NONE, role)],
    }


def step_line(run: RunState, role: str = "") -> Line:
    """Return how far the run is, for example "187/500", as a styled line: its newest step and the
    last step that it is to do. A newest step that is not known is shown as "–"; a last step that is
    not known is left out. `role` is the style of the newest step.
    """
    done = formatting.NONE if run.step is None else str(run.step)
    most = run.view.max_steps
    if run.word == "finished" and most and run.steps_done == most:
        # January's generation counts from 0: the last step of 12 is step 11.
        done = str(most)
    return [(done, role), (f"/{run.view.max_steps}" if run.view.max_steps else "", "dim")]


def newest(rows: Iterable[StepRecord], key: str) -> float | None:
    """Return the newest number that the step records `rows` (the newest last) have under `key`,
    such as "reward". Only the last eight records are searched; return None if none of these has a
    number there.
    """
    for row in reversed(list(rows)[-8:]):
        value = row.get(key)
        if isinstance(value, (int, float)):
            return float(value)
    return None


def gpu_summary(pod: PodState, role: str = "") -> Line:
    """Return the pod's GPUs in short as a styled line, for example "8× 93% 71G": how many there
    are, the mean of their utilisation and the mean of their used memory in GiB. If the GPU data is
    absent, stale or an error, the line says that instead. `role` is the style of the two means.
    """
    gpus, cards = pod.latest.get("gpus") or {}, devices(pod)
    state = gpus.get("state")
    if state == "absent":
        return [("no GPU", "dim")]
    if state == "stale":
        return [(f"stale {formatting.age(gpus.get('age_s'))}", "warn")]
    if state == "error":
        return [("error", "warn")]
    if not cards:
        return [(formatting.NONE, "dim")]
    busy, memory = mean(cards, "util"), mean(cards, "mem_used")
    used = formatting.NONE if memory is None else f"{formatting.gib(memory)}G"
    return [(f"{len(cards)}×", "dim"), (f"{formatting.whole_percent(busy):>5}{used:>5}", role)]


def disk_summary(pod: PodState, role: str = "") -> Line:
    """Return how full the pod's fullest disk is as a styled line, for example "81%", or "–" if that
    is not known. From FULL_PERCENT (95) percent on it is drawn as a warning, below that in the
    style `role`.
    """
    share = _fullest(pod)
    if share is None:
        return [(formatting.NONE, "dim")]
    return [(f"{share:.0f}%", "warn bold" if share >= status.FULL_PERCENT else role)]


def _fullest(pod: PodState) -> float | None:
    found: float | None = None
    for disk in (pod.latest.get("host") or {}).get("disks") or []:
        share = disk_percent(disk)
        if share is not None and (found is None or share > found):
            found = share
    return found


def known(devices: Iterable[Device], key: Reading) -> list[float]:
    """Return the value under `key`, for example "util", of each of `devices` (the records of GPUs
    in telemetry) that has one. GPUs without a value are left out.
    """
    values = [device.get(key) for device in devices]
    return [value for value in values if value is not None]


def mean(devices: Iterable[Device], key: Reading) -> float | None:
    """Return the mean of the values under `key`, for example "util", over `devices` (the records of
    GPUs in telemetry). GPUs without a value do not count; None if no GPU has one.
    """
    values = known(devices, key)
    if values:
        return sum(values) / len(values)
    return None


def _age(seen: float | None) -> Line:
    if seen is None:
        return [("never", "dim")]
    return [(formatting.old(seen), "warn" if seen > formatting.FRESH_S else "dim")]


def _is_old(run: RunState | None, clock: Clock, rank: int) -> bool:
    attempt = run.view.attempt if run else None
    return bool(
        rank == 0 and attempt and attempt.ended_t and clock.wall() - attempt.ended_t > OLD_S
    )
