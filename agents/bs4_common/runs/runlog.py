"""What the logs of one attempt have said so far, as far as detectors need it: steps of each side,
the last events of each kind, and errors.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypedDict

from bs4_common.failures.evidence import Evidence
from bs4_common.failures.facts import LogEvent, Side
from bs4_common.runs.history import History
from bs4_common.states import EventKind
from bs4_common.telemetry import EVAL, StepRecord
from bs4_common.trainers.base import Event

#: Events kept of each kind and side. Heartbeats come every 10 s and must not displace the one
#: barrier or the resume line of the start.
_PER_KIND = 40
_STEPS = 256
#: Steps whose durations make the usual duration: enough to be steady, few enough to follow a change
#: of the batch size.
_TYPICAL = 20
#: A step further than this from the last one counts only once a second line agrees with it, because
#: any program can print a line that looks like a step's.
_FAR = 1000
_TEXT = 300


if TYPE_CHECKING:
    # Only for the type checker: at run time, each would take 10 KiB of the agent.

    class SideFields(TypedDict):
        """A `SideLog` as followed.json has it."""

        last_step: int | None
        last_step_t: float | None
        """Wall seconds since 1970."""
        steps: int
        durations: list[float]
        """Seconds."""

    class EventFields(TypedDict):
        """An `Event` as followed.json has it."""

        kind: EventKind
        side: str
        values: Mapping[str, Any]
        step: int | None

    class LogEventFields(Evidence):
        """A `LogEvent` as followed.json has it."""

        event: EventFields
        t: float
        """Wall seconds since 1970 at which the line was read."""

    class RunLogFields(TypedDict):
        """A `RunLog` as followed.json has it."""

        run: str
        attempt: int
        sides: dict[str, SideFields]
        last_activity_t: float | None
        """Wall seconds since 1970."""
        steps: list[StepRecord]
        skipped: dict[str, int]
        """Bytes that were not parsed, by log."""
        events: list[LogEventFields]


@dataclass(kw_only=True)
class SideLog:
    """The progress of one side of a run, such as the trainer or the orchestrator.

    `last_step` is the number of the newest step and `steps` is how many steps were seen.
    `last_step_m` and `last_step_t` are the second of the monotonic clock and the Unix time in
    seconds at which the newest step's line was read. If the line was read long after it was
    written, they are the time that the line carries instead. All three `last_` fields are None
    before the first step. `durations` are the durations of the last 20 steps in seconds.
    """

    last_step: int | None = None
    last_step_m: float | None = None
    last_step_t: float | None = None
    steps: int = 0
    durations: deque[float] = field(default_factory=lambda: deque(maxlen=_TYPICAL))
    late: deque[int] = field(default_factory=lambda: deque(maxlen=_TYPICAL))
    """The numbers of the last steps whose lines were read, for logs whose lines come out of order.
    """
    doubted: int | None = None
    """The number of a step that is far from the last one and that no second line has confirmed yet.
    """

    def believes(self, step: int) -> bool:
        """Return True if `step` is a believable number for the next step: it differs by at most
        1,000 from the last step, or from the number that the previous call has doubted. Any other
        number is doubted, because any program can print a line that looks like a step's.

        The call changes the state. A doubted number is remembered, and if the next number is near
        it, the old last step is forgotten.
        """
        if self.last_step is None or abs(step - self.last_step) <= _FAR:
            self.doubted = None
            return True
        agreed = self.doubted is not None and abs(step - self.doubted) <= _FAR
        self.doubted = None if agreed else step
        if agreed:
            self.last_step = None
            self.late.clear()
        return agreed


@dataclass(kw_only=True)
class RunLog:
    """What the logs of one attempt have said so far, as far as detectors (the agent's functions
    that look for failures) need it.

    `sides` maps the name of a side, such as "trainer", to its progress. `steps` are the last 256
    records of the stream steps/<run>, and `history` has the numbers of more steps.
    `last_activity_m` is the second of the monotonic clock at which the logs last brought lines, or
    None. `skipped` maps the name of a log to the number of its bytes that were not parsed because
    more than 64 MiB (8 MiB for most logs) were waiting.
    """

    run: str
    attempt: int
    sides: dict[str, SideLog] = field(default_factory=dict)
    last_activity_m: float | None = None
    steps: deque[StepRecord] = field(default_factory=lambda: deque(maxlen=_STEPS))
    skipped: dict[str, int] = field(default_factory=dict)
    history: History = field(default_factory=History)
    _events: dict[tuple[str, str], deque[tuple[int, LogEvent]]] = field(default_factory=dict)
    _count: int = 0

    @property
    def events(self) -> list[LogEvent]:
        """Return the newest events (what lines of the logs report), in the order in which they were
        read. Of each kind, such as "step", the last 40 of each side (a program of the run, such as
        "trainer") are included.
        """
        entries = itertools.chain.from_iterable(self._events.values())
        return [event for _, event in sorted(entries, key=lambda entry: entry[0])]

    @property
    def errors(self) -> list[LogEvent]:
        """Return the events for log lines of level ERROR or CRITICAL to which no rule of the
        trainer gives a more precise meaning. They are the newest 40 of each side (a program of the
        run, such as "trainer"), oldest first.
        """
        return [event for event in self.events if event.event.kind == "error"]

    @property
    def last_read_t(self) -> float:
        """Return the Unix time in seconds at which lines of the logs were last read, or the present
        Unix time in seconds if none was read yet.
        """
        if self.last_activity_m is None:
            return time.time()
        return _wall(self.last_activity_m)

    def copy(self) -> RunLog:
        """Return a copy. Lines that are added to the original later do not change it."""
        sides = {}
        for name, side in self.sides.items():
            sides[name] = replace(
                side,
                durations=deque(side.durations, maxlen=_TYPICAL),
                late=deque(side.late, maxlen=_TYPICAL),
            )
        events = {}
        for key, kept in self._events.items():
            events[key] = deque(kept, maxlen=_PER_KIND)
        return replace(
            self,
            sides=sides,
            steps=deque(self.steps, maxlen=_STEPS),
            skipped=dict(self.skipped),
            history=self.history.copy(),
            _events=events,
        )

    def record(self, record: StepRecord) -> None:
        """Add a step record, which has the form of the records in the stream steps/<run>. It
        replaces an earlier record of the same step and side (the program that wrote it, such as
        "trainer" or "orchestrator"). A record of a validation is ignored, because a validation is
        no step.
        """
        if record["side"].startswith(EVAL):
            return
        key = (record["side"], record["step"])
        if any((known["side"], known["step"]) == key for known in self.steps):
            self.steps = deque(
                (r for r in self.steps if (r["side"], r["step"]) != key), maxlen=_STEPS
            )
        self.steps.append(record)
        self.history.add(record, self._finished_m(record))

    def _finished_m(self, record: StepRecord) -> float | None:
        """Return the monotonic second of the record's line. None for a row of the metrics file that
        came before the line.
        """
        side = self.sides.get(record["side"])
        if side is not None and side.last_step == record["step"]:
            return side.last_step_m
        if "log_t" in record:
            return monotonic_of(record["log_t"])
        return None

    def side(self, name: str) -> Side:
        """Return the progress of the side with this name, such as "trainer": its last step, the
        second of the monotonic clock at which that step's line was written or read, and the number
        of steps. If the logs have no step of that side, the first two are None and the number is 0.
        """
        found = self.sides.get(name, SideLog())
        return Side(found.last_step, found.last_step_m, found.steps)

    def median_step_s(self) -> float | None:
        """Return the usual duration of a step in seconds. It is the median of the trainer's last 20
        steps, or of the orchestrator's if the trainer's have no durations. Return None if neither
        has any.
        """
        for name in ("trainer", "orchestrator"):
            if name in self.sides and self.sides[name].durations:
                # statistics.median is not used, because its module loads fractions, decimal and
                # random: 3 MB.
                ordered = sorted(self.sides[name].durations)
                return ordered[len(ordered) // 2]
        return None

    def add(self, event: LogEvent) -> None:
        """Add an event, which is the meaning of a log line. An event of kind "step" also updates
        the progress of its side (the program that wrote the line, such as "trainer"). So does a
        progress bar that counts steps, as long as no line of a step of that side was read.

        Of consecutive events of kind "heartbeat" with the same values, only the first and the
        newest are kept, because these two show for how long nothing has changed.
        """
        kept = self._events.setdefault(
            (event.event.kind, event.event.side), deque(maxlen=_PER_KIND)
        )
        self._count += 1
        if (
            event.event.kind == "heartbeat"
            and len(kept) >= 2
            and _same(kept[-1][1], event)
            and _same(kept[-2][1], event)
        ):
            # The first and the last of equal heartbeats show how long nothing has changed. Those
            # between add nothing.
            kept.pop()
        kept.append((self._count, event))
        if (event.event.kind == "step" and event.event.step is not None) or (
            event.event.is_step_bar and ("step", event.event.side) not in self._events
        ):
            self._progress(event)

    def _progress(self, event: LogEvent) -> None:
        """Count a step of one side."""
        side = self.sides.setdefault(event.event.side, SideLog())
        step = event.event.step
        if step is None or side.last_step == step or step in side.late:
            return  # the same line of another rank, or in a second file
        if not side.believes(step):
            side.last_step_m = event.m
            side.last_step_t = _wall(event.m)
            return
        unordered = bool(event.event.values.get("unordered"))
        if unordered:
            side.late.append(step)
        # A late line counts as one more step, and never as the newest one.
        if not unordered or side.last_step is None or step > side.last_step:
            side.last_step, side.last_step_m = step, event.m
            side.last_step_t = _wall(event.m)
        side.steps += 1
        duration = event.event.values.get("time_s")
        if isinstance(duration, (int, float)):
            side.durations.append(float(duration))

    def as_dict(self) -> RunLogFields:
        """Return the log as a dictionary for JSON, from which `from_dict` makes it again in a later
        agent. Times in the dictionary are Unix times in seconds, because seconds of the monotonic
        clock mean nothing after a reboot. Of the step records only the last 20 are in it.
        """
        sides: dict[str, SideFields] = {}
        for name, s in self.sides.items():
            sides[name] = {
                "last_step": s.last_step,
                "last_step_t": s.last_step_t,
                "steps": s.steps,
                "durations": list(s.durations),
            }
        return {
            "run": self.run,
            "attempt": self.attempt,
            "sides": sides,
            "last_activity_t": None
            if self.last_activity_m is None
            else _wall(self.last_activity_m),
            "steps": list(self.steps)[-_TYPICAL:],
            "skipped": self.skipped,
            "events": [_event_as_dict(event) for event in self.events],
        }

    @classmethod
    def from_dict(cls, data: RunLogFields) -> RunLog:
        """Return the log in a dictionary that `as_dict` made. The Unix times of the dictionary are
        converted to seconds of the monotonic clock of the present boot. Raises KeyError if a field
        is missing.
        """
        log = cls(run=data["run"], attempt=data["attempt"])
        for event in data["events"]:
            log.add(_event_from_dict(event))
        log.sides = {
            name: SideLog(
                last_step=s["last_step"],
                last_step_m=_mono(s["last_step_t"]),
                last_step_t=s["last_step_t"],
                steps=s["steps"],
                durations=deque(s["durations"], maxlen=_TYPICAL),
            )
            for name, s in data["sides"].items()
        }
        log.last_activity_m = _mono(data["last_activity_t"])
        log.steps.extend(data["steps"])
        log.skipped = dict(data["skipped"])
        return log


def _same(one: LogEvent, other: LogEvent) -> bool:
    """Return True if two events have the same values."""
    return one.event.values == other.event.values


def short(text: str) -> str:
    """Return `text` as it is if it has at most 300 characters, and otherwise its first 300
    characters followed by "…".
    """
    if len(text) <= _TEXT:
        return text
    return text[:_TEXT] + "…"


def monotonic_of(wall: float) -> float:
    """Return the time in seconds of this boot's monotonic clock that corresponds to the Unix time
    `wall`. For a time in the future, the present time of that clock is returned. The result is
    negative for a time before the boot.
    """
    return time.monotonic() - max(0.0, time.time() - wall)


def _mono(wall: float | None) -> float | None:
    """Return the second of the monotonic clock at a Unix time. None stays None."""
    if wall is None:
        return None
    return monotonic_of(wall)


def _wall(m: float) -> float:
    """Return the wall second of a monotonic second of this boot."""
    return round(time.time() - (time.monotonic() - m), 3)


def _event_as_dict(event: LogEvent) -> LogEventFields:
    """Return an event in a form that `_event_from_dict` reads. dataclasses.asdict would copy every
    value deeply, which was a fifth of the follower's work.
    """
    inner = event.event
    return {
        "event": {
            "kind": inner.kind,
            "side": inner.side,
            "values": dict(inner.values),
            "step": inner.step,
        },
        "t": _wall(event.m),
        "text": event.text,
        "source": event.source,
        "stream": event.stream,
        "cursor": event.cursor,
        "file": event.file,
        "offset": event.offset,
        "line": event.line,
    }


def _event_from_dict(data: LogEventFields) -> LogEvent:
    """Return the event that `_event_as_dict` wrote."""
    inner = data["event"]
    rest: dict[str, Any] = dict(data)
    del rest["event"], rest["t"]
    return LogEvent(
        event=Event(inner["kind"], inner["side"], inner["values"], inner["step"]),
        m=monotonic_of(data["t"]),
        **rest,
    )
