"""`steps/<run>`: each step of each side once, from log lines and from the trainer's own metrics
file, whatever was read twice.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

from bs4_agent.clock import stamp
from bs4_agent.errors import SpoolFull
from bs4_agent.runs.model import Attempt
from bs4_agent.streams.registry import Streams
from bs4_agent.streams.segments import RecordNotJson, RecordTooLarge, SegmentStream, parse
from bs4_agent.trainers.base import Trainer
from bs4_agent.trainers.steps import StepReader

#: 350 bytes a record: 45,000 steps of both sides.
_CAP = 32 << 20
#: Records remembered to recognise what is read a second time; after a kill -9 at most the last
#: seconds are.
_REMEMBERED = 1024
_METRICS_CHUNK = 1 << 20
#: A row may carry the time at which its step began.
_CLOCK_SLACK_S = 5.0

_Key = tuple[int, str, int]


class StepLog:
    """`metrics_place`: {"inode", "offset"} up to which the metrics file was read, None before that.
    `append` order is that of the lines.
    """

    def __init__(
        self,
        streams: Streams,
        directory: Path,
        trainer: Trainer,
        run: str,
        metrics_place: dict[str, int] | None,
    ) -> None:
        self.metrics_place = metrics_place
        self._trainer = trainer
        self._stream = SegmentStream(directory, _CAP)
        self._reader = StepReader(trainer, run)
        self._recorded: dict[_Key, dict[str, Any]] = {}
        self._pending: deque[dict[str, Any]] = deque()
        for _, line in deque(self._stream.lines(), maxlen=_REMEMBERED):
            if (record := parse(line)) is not None:
                self._remember(record)
        streams.add(f"steps/{run}", self._stream)

    def anchor(self, attempt: int, wall: float) -> None:
        self._reader.anchor(attempt, wall)

    def feed(
        self, source: str, raw: bytes, cursor: str, attempt: int, near: float | None
    ) -> list[dict[str, Any]]:
        """One line of a log; returns the records that are new. They are written by `flush`."""
        return self._take(self._reader.feed(source, raw, cursor, attempt, near=near))

    def feed_metrics(self, path: Path, attempt: Attempt) -> list[dict[str, Any]]:
        """What the trainer's metrics file has gained. Rows of earlier attempts are passed over."""
        try:
            found = path.stat()
        except FileNotFoundError:
            return []
        place = self.metrics_place
        if place is None or place["inode"] != found.st_ino or place["offset"] > found.st_size:
            place = {"inode": found.st_ino, "offset": 0}
        if place["offset"] == found.st_size:
            return []
        with open(path, "rb") as handle:
            handle.seek(place["offset"])
            data = handle.read(_METRICS_CHUNK)
        whole = data.rfind(b"\n") + 1 or (len(data) if len(data) == _METRICS_CHUNK else 0)
        self.metrics_place = {"inode": place["inode"], "offset": place["offset"] + whole}
        records = []
        for row in data[:whole].splitlines():
            for record in self._reader.feed_metrics(row, attempt.number):
                records.append(record)
        return self._take(
            [
                r
                for r in records
                if r.get("log_t", attempt.started_t) >= attempt.started_t - _CLOCK_SLACK_S
            ]
        )

    def known(self, attempt: int) -> list[dict[str, Any]]:
        """What was recorded of `attempt` and is still remembered, in order."""
        rows = []
        for (number, _, _), record in self._recorded.items():
            if number == attempt:
                rows.append(record)
        return rows

    def flush(self) -> None:
        """Write what is pending. SpoolFull leaves it for the next call.

        A record that can never be written is dropped. RecordTooLarge or RecordNotJson says so of
        the first one, once all others are written.
        """
        refused: RecordTooLarge | RecordNotJson | None = None
        while self._pending:
            record = {**stamp(), **self._pending.popleft()}
            try:
                self._stream.append(record)
            except SpoolFull:
                self._pending.appendleft(record)
                raise
            except (RecordTooLarge, RecordNotJson) as error:
                refused = refused or error
        if refused is not None:
            raise refused

    @property
    def written(self) -> bool:
        return not self._pending

    def _take(self, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        fresh = []
        for record in records:
            if self._remember(record):
                fresh.append(record)
        self._pending.extend(fresh)
        return fresh

    def _remember(self, record: dict[str, Any]) -> bool:
        """False for what was recorded before. A record with other numbers, or more of them,
        replaces the earlier one for its readers.
        """
        key = (record["attempt"], record["side"], record["step"])
        content = {}
        for name, value in record.items():
            if name not in ("t", "m", "b"):
                content[name] = value
        before = self._recorded.pop(key, None)
        if before is not None and content.items() <= before.items():
            self._recorded[key] = before
            return False
        self._recorded[key] = content
        while len(self._recorded) > _REMEMBERED:
            del self._recorded[next(iter(self._recorded))]
        return True
