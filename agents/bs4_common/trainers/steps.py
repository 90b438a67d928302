"""Make steps records from log lines of both sides (trainer and orchestrator) and, if the generation
writes one, from its metrics file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from bs4_common.foreign_json import wall_second
from bs4_common.telemetry import EVAL, StepPlace, StepRecord
from bs4_common.trainers.base import Event, Trainer
from bs4_common.trainers.lines import Clock

#: The values that a steps record may hold besides attempt, side, step, log_t and at. Lines have
#: more (Max Vio, Turns), which stay in the log.
VALUES = (
    "time_s",
    "loss",
    "entropy",
    "mismatch_kl",
    "grad_norm",
    "lr",
    "throughput",
    "mfu",
    "peak_mem_gib",
    "reward",
    "seq_len",
    "async_level",
    "off_policy",
    "trainable",
    "truncation",
    "error",
    # Parts of a step's time, in seconds. Only the current generation's metrics file has them.
    "wait_s",
    "compute_s",
    "broadcast_s",
    "save_s",
    "policy_wait_s",
    "tool_calls",
    # The name of a metric that is NaN (verl: any of them).
    "not_finite",
)
#: Numbers of the rollouts' side. For a trainer that prints both sides in one line (verl), they are
#: in a record of their own.
ROLLOUTS = frozenset(
    {
        "reward",
        "seq_len",
        "truncation",
        "error",
        "off_policy",
        "trainable",
        "tool_calls",
        "async_level",
    }
)

#: Steps remembered for each side, for numbers that come late: the metrics file is read apart from
#: the logs.
_REMEMBERED = 256


@dataclass
class _Known:
    """What is known of one step: the line that announced it, from the lowest rank that did, and its
    rows of the metrics file.
    """

    rank: int = 0
    line: StepRecord = field(default_factory=StepRecord)
    metrics: StepRecord = field(default_factory=StepRecord)

    def merged(self) -> StepRecord:
        """Return the record with the place and the date of the line. Numbers of the metrics file
        win, because they are not rounded.
        """
        return {**self.metrics, **self.line, **_values(self.metrics)}


class StepReader:
    """Reads the logs and the metrics file of one run line by line, and makes from them the records
    of the stream steps/<run>, from which consoles read the run's training steps. The program that
    writes a record to the stream adds the time of writing: `t` (Unix time in seconds), `m` (seconds
    of the monotonic clock) and `b` (the id of the machine's boot).

    The `side` of a record is the program whose step it is ("trainer" or "orchestrator"), or
    "eval:NAME" for a validation. A training step may give more than one record. A later one for the
    same attempt, side and step replaces the earlier: it is from a lower rank, or has better numbers
    from the metrics file. Numbers that were recorded already make no record.
    """

    def __init__(self, trainer: Trainer, run: str, *, tz: int | None = None) -> None:
        """Read lines of `run`. `tz` is its UTC offset in seconds, or None for this machine's."""
        self._trainer = trainer
        self._run = run
        self._tz = tz
        self._anchors: dict[int, float] = {}
        self._clocks: dict[tuple[int, str], Clock] = {}
        self._sides: dict[tuple[int, str], dict[int, _Known]] = {}

    def anchor(self, attempt: int, wall: float) -> None:
        """Set the time of attempt number `attempt`, so that its log lines that have only a time of
        day can be dated. `wall` is a Unix time in seconds within half a day of the attempt's first
        line, such as the attempt's start.

        If this is never called for an attempt, its records have no `log_t`, unless the lines
        themselves carry a date.
        """
        if self._anchors.get(attempt) != wall:
            self._anchors[attempt] = wall
            self._clocks = {key: clock for key, clock in self._clocks.items() if key[0] != attempt}

    def feed(
        self, source: str, raw: bytes, cursor: str, attempt: int, *, near: float | None = None
    ) -> list[StepRecord]:
        """Read one raw line of the log with the name `source`, such as "trainer", and return the
        step records that it makes. Most lines make none, and the list is then empty. `cursor` is
        the place of the line in the log's stream, and `attempt` the number of the attempt that
        wrote it.

        `near` is the time at which the file was last changed (Unix time in seconds) if the line has
        just been written, and None for an old line; it helps to find the date of a line that has
        only a time of day. Pass every line of the log, because the lines between two steps show
        that a day has passed.
        """
        line = self._trainer.parse_line(source, raw)
        wall = wall_second(line.timestamp)
        if wall is None:
            wall = self._date(source, attempt, line.clock, near)
        event = self._trainer.event(source, line)
        if event is None or event.step is None:
            return []
        if event.kind not in ("step", "eval") and not (
            event.is_step_bar and self._is_new(attempt, event)
        ):
            return []
        place: StepPlace = {"stream": f"log/{self._run}/{source}", "cursor": cursor}
        rows = []
        for record in records_of(event):
            told = self._told({"attempt": attempt, **record}, line.rank or 0, wall, place)
            if told is not None:
                rows.append(told)
        return rows

    def _is_new(self, attempt: int, event: Event) -> bool:
        """Return True if no line and no row has told of the step of `event` yet. A progress bar
        says less than either, and comes after them.
        """
        return event.step not in self._sides.get((attempt, event.side), {})

    def _told(
        self, record: StepRecord, rank: int, wall: float | None, place: StepPlace
    ) -> StepRecord | None:
        """Return the record that a line makes, or None if it says nothing new."""
        known = self._known(record)
        if known.line and (rank > known.rank or _numbers(known.line) == _numbers(record)):
            return None
        if wall is not None:
            record["log_t"] = wall
        known.rank, known.line = rank, {**record, "at": place}
        return known.merged()

    def feed_metrics(
        self, raw: bytes, attempt: int, *, since: float | None = None
    ) -> list[StepRecord]:
        """Read `raw`, one line of the metrics file. Return a list with the step record that this
        line completes; for most lines it is empty, because the numbers of a step come in several
        lines, of which the last has the duration. `attempt` is the number of the present attempt.

        `since` is the Unix time in seconds at which that attempt started, or None. Lines from
        before it are skipped, because the file also has the lines of earlier attempts, and a step
        that is done again must not get their numbers.
        """
        found = self._trainer.metrics_record(raw)
        if found is None or (since is not None and found["log_t"] < since):
            return []
        record: StepRecord = {"attempt": attempt, **found}
        known = self._known(record)
        known.metrics = {**known.metrics, **record}
        if "time_s" in record:
            return [known.merged()]
        return []

    def _date(
        self, source: str, attempt: int, clock: str | None, near: float | None
    ) -> float | None:
        """Return the Unix time of a line by its clock, or None if it cannot be told."""
        if clock is None or attempt not in self._anchors:
            return None
        key = (attempt, source)
        if key not in self._clocks:
            self._clocks[key] = Clock(self._anchors[attempt], self._tz)
        try:
            return self._clocks[key].resolve(clock, near)
        except ValueError:
            return None  # 99:99:99: two digits each are no time yet

    def _known(self, record: StepRecord) -> _Known:
        """Return what is known of the step of a record."""
        steps = self._sides.setdefault((record["attempt"], record["side"]), {})
        known = steps.setdefault(record["step"], _Known())
        if len(steps) > _REMEMBERED:
            del steps[next(iter(steps))]
        return known


def records_of(event: Event) -> list[StepRecord]:
    """Return the step records in an event of kind step or eval, each with `side`, `step` and its
    numbers. There is one for each side ("trainer" or "orchestrator") of which the line has numbers,
    and one, with the side `eval:NAME`, for each validation.
    """
    points: list[StepRecord] = []
    if event.step is None:
        return points
    for name, value in _validations(event).items():
        points.append({"side": f"{EVAL}{name}", "step": event.step, "val": value})
    if event.kind == "eval":
        return points
    values = _values(event.values)
    if event.side != "trainer" or not ROLLOUTS.intersection(values):
        return [{"side": event.side, "step": event.step, **values}, *points]
    rollouts = _values(event.values, ROLLOUTS)
    rest = _values(event.values, frozenset(values) - ROLLOUTS)
    return [
        {"side": "trainer", "step": event.step, **rest},
        {"side": "orchestrator", "step": event.step, **rollouts},
        *points,
    ]


def _validations(event: Event) -> dict[str, float]:
    """Return the validations of a line, by name: several of verl's line, or the one environment of
    an evaluation's line.
    """
    told = event.values.get("validation")
    if isinstance(told, Mapping):
        return {str(name): float(value) for name, value in told.items()}
    reward, name = event.values.get("reward"), event.values.get("env")
    if event.kind == "eval" and name and isinstance(reward, (int, float)):
        return {str(name): float(reward)}
    return {}


def _values(values: Mapping[str, Any], names: Collection[str] = VALUES) -> StepRecord:
    """Return only what a steps record may hold, and of that what is among `names`."""
    found = {name: values[name] for name in VALUES if name in names and name in values}
    return cast("StepRecord", found)


def _numbers(record: StepRecord) -> StepRecord:
    """Return a record without its place and date."""
    found = {name: value for name, value in record.items() if name not in ("at", "log_t")}
    return cast("StepRecord", found)
