"""Follow one run: its log streams, the place in each, and what their lines turn into."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bs4_agent.containers import processes
from bs4_agent.containers.log import ContainerLog
from bs4_agent.paths import storage
from bs4_agent.runs.records import start_by_clock
from bs4_agent.runs.registry import Runs
from bs4_agent.runs.steplog import StepLog
from bs4_agent.streams.registry import Streams
from bs4_common.failures.clothing import SAMPLE, Wardrobe
from bs4_common.failures.evidence import Evidence, Place
from bs4_common.failures.facts import LogEvent
from bs4_common.files import read_passing, write_json
from bs4_common.identity import Identity
from bs4_common.runs.model import Attempt, Run
from bs4_common.runs.runlog import RunLog, monotonic_of, short
from bs4_common.streams.cursor import START, Chunk, Cursor
from bs4_common.streams.logs import LogStream
from bs4_common.trainers.base import Event, LogLine, LogSource
from bs4_common.trainers.lines import Clock

_CHUNK = 256 * 1024
#: Seconds between two searches for logs. Environments and attempt directories appear within seconds
#: of a start.
_SOURCES_S = 1.0
#: Seconds between two saves while lines come. Lines that are read again after a kill -9 are
#: recognised; see StepLog.
_SAVE_S = 15.0
#: Bytes of backlog that are parsed. Of a longer backlog only the last part is parsed, and the rest
#: is counted. An inference log has gigabytes when a run is adopted late.
_BACKLOG = {"trainer": 64 << 20, "orchestrator": 64 << 20}
_OTHER_BACKLOG = 8 << 20
#: A log that was read to its end within so many seconds is live: lines that come now were written
#: just now.
_LIVE_S = 30.0
#: After so many seconds without much news, logs are polled less often. Five sources five times a
#: second are 0.1 % of a core.
_QUIET_AFTER_S, _QUIET_EVERY_S = 10.0, 0.75
#: A poll that brings at most so many bytes has brought little.
_LITTLE = 16 << 10
#: Seconds without news, after an attempt's end, after which its logs are not read any more. A
#: replaced file is held back for a second.
_REST_S = 5.0
#: Seconds by which the clocks of files and of attempts may differ.
_BEFORE_S = 0.5
#: Seconds within which a new file's attempt becomes known: 0.2 s if the agent starts it, 10 s if a
#: person does.
_ATTEMPT_KNOWN_S = 15.0
_STEP_SOURCES = ("trainer", "orchestrator", "metrics")
#: The source name of a container's output, unless that output is the trainer's own log.
BOX = "container"
_LOUD = frozenset({"ERROR", "CRITICAL"})

#: A function that gets run, attempt, trainer id, source, line, and the line's place as evidence.
OnLine = Callable[[str, int, str, str, LogLine, Evidence], None]


@dataclass(kw_only=True)
class Source:
    """One log of a run with the place up to which it was read.

    `cursor` is that place in the log's stream, and `line` is the number of lines before it in the
    same file. `read_t` is the Unix time in seconds at which lines were last read, or None if none
    was read yet. `read_m` is the second of the monotonic clock at which the log was last read to
    its end. `read_of` is the number of the attempt to which the newest lines belong, 0 if none was
    read by this agent. `clocks` maps the number of an attempt to the Clock that dates that
    attempt's lines.
    """

    name: str
    stream: LogStream
    cursor: str
    line: int
    read_t: float | None
    read_m: float = float("-inf")
    read_of: int = 0
    clocks: dict[int, Clock] = field(default_factory=dict)
    wardrobe: Wardrobe = field(default_factory=Wardrobe)
    """Removes from the lines what another program has put around them, such as a timestamp at their
    beginning.
    """

    @property
    def place(self) -> Cursor:
        """Return the place up to which the log was read, as a Cursor: the number of the log's file
        (the generation) and the byte offset in it. If nothing was read yet, both are 0.
        """
        if self.cursor == START:
            return Cursor(0, 0)
        return Cursor.parse(self.cursor)

    def file_of(self, generation: int) -> tuple[float, int, str]:
        """Return the Unix time in seconds at which the log's file with the number `generation` was
        first seen, the number of the attempt whose log was expected then, and the path of that
        file. Return (0.0, 0, "") for an unknown number.
        """
        for described in self.stream.stat()["generations"]:
            if described["generation"] == generation:
                return described["first_seen"], described["attempt"] or 0, described["path"]
        return 0.0, 0, ""

    def backlog(self) -> int:
        """Return the number of bytes of the log's newest file that were not read yet. If an older
        file of the log is still being read, the result is the whole size of the newest file.
        """
        end, here = Cursor.parse(self.stream.stat()["end"]), self.place
        if here.generation == end.generation:
            return end.offset - here.offset
        return end.offset

    def clock(self, attempt: int, started_t: float) -> Clock:
        """Return the Clock that finds the dates of this log's lines in the attempt with number
        `attempt`. `started_t` is the Unix time in seconds at which the attempt started.

        The first call for an attempt makes its Clock and sets it to `started_t`, or to the Unix
        time in seconds of the last reading of this log if that is later. Later calls return the
        same Clock.
        """
        if attempt not in self.clocks:
            self.clocks[attempt] = Clock(max(started_t, self.read_t or 0.0))
        return self.clocks[attempt]


class FollowedRun:
    """One run whose logs are read as they grow. `log` is a RunLog with what the logs of the run's
    newest attempt have said so far.

    It is not thread-safe; RunFollower, which uses it, holds the lock.
    """

    def __init__(self, streams: Streams, runs: Runs, run: Run) -> None:
        self._streams, self._runs, self._run = streams, runs, run
        self._trainer = runs.trainer(run.spec)
        self._sources: dict[str, Source] = {}
        self._looked_m = float("-inf")
        self._metrics: Path | None = None
        self._at_rest = False
        self._busy_m = self._busy_logs_m = time.monotonic()
        self._polled_m = float("-inf")
        self._brought = 0
        self._path = runs.home.run(run.name) / "followed.json"
        saved = read_passing(self._path) or {"log": None, "sources": {}, "metrics": None}
        self._saved_sources: dict[str, Any] = saved["sources"]
        self.log = RunLog(run=run.name, attempt=0)
        if saved["log"]:
            self.log = RunLog.from_dict(saved["log"])
        self._steps = StepLog(
            streams, runs.home.state / "steps" / run.name, self._trainer, run.name, saved["metrics"]
        )
        self._changed = False
        self._saved_m = float("-inf")
        if self.log.attempt:
            self._steps.anchor(self.log.attempt, self.log.last_read_t)
            for record in self._steps.known(self.log.attempt):
                self.log.history.add(record, None)

    @property
    def quiet(self) -> bool:
        """Return True if no poll of the last ten seconds has brought more than 16 KiB of log lines.
        This is usual between two steps; quiet logs are then polled less often.
        """
        return time.monotonic() - self._busy_logs_m > _QUIET_AFTER_S

    def growing(self) -> list[str]:
        """Return paths that lead to the newest files of the run's logs while lines may come: see
        `LogStream.growing`. Return an empty list if the logs are not read any more.
        """
        if self._at_rest:
            return []
        found = []
        for source in self._sources.values():
            path = source.stream.growing()
            if path is not None:
                found.append(path)
        return found

    def poll(self, deadline: float, on_line: OnLine | None, *, grown: bool = False) -> None:
        """Read the new lines of the run's logs, at most until second `deadline` of the monotonic
        clock. `on_line`, if it is not None, is called for each line: with the run, its attempt, the
        id of its trainer, the source (for example "trainer"), the parsed line, and the line as
        evidence. Do nothing if the run has no attempt, or if its last attempt has ended and its
        logs have not grown for 5 seconds. Quiet logs are not looked at again within 0.75 s, unless
        `grown` says that a log has grown.

        Raises SpoolFull if step records, read in this call or an earlier one, find no room in the
        stream steps/<run>; these records are kept in memory and written by a later call. An error
        in one line is raised only after all lines of the same chunk were read.
        """
        attempt = self._run.attempt
        if attempt is None:
            return
        if attempt.number > self.log.attempt:
            self._begin(attempt)
        self._steps.flush()
        if self._at_rest:
            return
        now = time.monotonic()
        if not grown and now - self._polled_m < (_QUIET_EVERY_S if self.quiet else 0.0):
            return
        self._polled_m = now
        if now - self._looked_m >= _SOURCES_S:
            self._looked_m = now
            self._expect(attempt)
        news = self._read_all(deadline, on_line)
        for record in (
            self._steps.feed_metrics(self._metrics, attempt) if self._metrics is not None else ()
        ):
            self.log.record(record)
            news = True
        self._steps.flush()
        if self._brought > _LITTLE:
            self._busy_logs_m = now
        self._brought = 0
        if news or attempt.end is None or self._runs.membership.living(self._run.name):
            self._busy_m = now
        self._at_rest = now - self._busy_m >= _REST_S  # its streams stay readable
        self._changed |= news
        self.save(now=self._at_rest)

    def save(self, *, now: bool = False) -> None:
        """Save the place up to which each log was read, and the contents of `log`, to followed.json
        in the run's directory in the agent's home. The file is written at most every 15 s, or at
        once with `now`.

        Nothing is saved while a step record waits to be written to its stream, because a restarted
        agent would then not read that step again.
        """
        moment = time.monotonic()
        if (
            not self._changed
            or not self._steps.written
            or (moment - self._saved_m < _SAVE_S and not now)
        ):
            return
        for name, source in self._sources.items():
            self._saved_sources[name] = {
                "cursor": source.cursor,
                "line": source.line,
                "t": source.read_t,
            }
        value = {
            "log": self.log.as_dict(),
            "sources": self._saved_sources,
            "metrics": self._steps.metrics_place,
        }
        write_json(self._path, value, durable=False)
        self._changed, self._saved_m = False, moment

    def _begin(self, attempt: Attempt) -> None:
        """Start with an empty log for a new attempt."""
        self._trainer = self._runs.trainer(self._run.spec)
        self.log = RunLog(run=self._run.name, attempt=attempt.number)
        self._steps.anchor(attempt.number, attempt.started_t)
        self._at_rest, self._looked_m = False, float("-inf")
        self._busy_m = self._busy_logs_m = time.monotonic()

    def _expect(self, attempt: Attempt) -> None:
        """Make a stream of every log that this attempt has or will have."""
        self._metrics = self._trainer.metrics_path(self._run.spec)
        own = self._runs.attempt_directory(self._run.name, attempt.number)
        for found in self._logs(attempt):
            source = self._sources.get(found.source) or self._add(found.source)
            if found.path.parent == own or _is_of(found.path, attempt):
                source.stream.follow(found.path, attempt.number)

    def _logs(self, attempt: Attempt) -> list[LogSource]:
        """Return the logs of this attempt with their paths: the trainer's, the launcher's output
        and the container's output.
        """
        spec = self._run.spec
        logs = self._trainer.log_sources(spec)
        # A component that is no launcher writes only to its standard output, so that is its log.
        name = spec.component
        if name in ("rl", "sft"):
            name = self._trainer.layout(spec).own_log
        own: Path | None = (
            self._runs.attempt_directory(self._run.name, attempt.number) / "launcher.log"
        )
        if attempt.adopted:
            own = _standard_output(attempt.launcher)
        if own is not None:
            logs = [LogSource(name, own), *logs]
        if (box := self._of_container(attempt)) is not None:
            logs = [*logs, LogSource(name if box.trainers else BOX, box.path)]
        return logs

    def _of_container(self, attempt: Attempt) -> ContainerLog | None:
        """Return the log of what the attempt's container prints, after reading what is new from
        Docker. None if there is no container.

        It is the trainer's own log if an adopted trainer prints to the container's standard output.
        """
        box = self._runs.container_log(self._run, attempt)
        if box is None:
            return None
        if (
            attempt.adopted
            and attempt.launcher is not None
            and attempt.launcher.alive()
            and (first := processes.first_of(attempt.launcher.pid))
        ):
            box.printed_by(attempt.launcher.pid, first)
        before = box.problem
        if box.poll(ended=attempt.end is not None):
            self._busy_m = time.monotonic()
        if box.problem and box.problem != before:
            gap = Cursor(0, 0).gap(None, box.problem)
            self._runs.note_gap(f"log/{self._run.name}/{BOX}", gap)
        return box

    def _add(self, name: str) -> Source:
        """Make the stream of one log and return its source. It continues at the saved place."""
        run = self._run
        kept = (
            storage(self._trainer.layout(run.spec).output_dir, run.name)
            / "logs"
            / "followed"
            / name
        )
        stream_name = f"log/{run.name}/{name}"
        stream = LogStream(
            stream_name,
            kept,
            self._runs.home.run(run.name) / "logs" / f"{name}.json",
            timestamp=lambda raw: self._trainer.parse_line(name, raw).timestamp,
            on_gap=lambda gap: self._runs.note_gap(stream_name, gap),
        )
        self._streams.add(stream_name, stream)
        saved = self._saved_sources.get(name, {"cursor": START, "line": 0, "t": None})
        self._sources[name] = source = Source(
            name=name, stream=stream, cursor=saved["cursor"], line=saved["line"], read_t=saved["t"]
        )
        return source

    def _read_all(self, deadline: float, on_line: OnLine | None) -> bool:
        """Read the sources in turn, a chunk each, until nothing is left or the time is up. Return
        True if there was anything.
        """
        for source in self._sources.values():
            if source.stream.poll():
                # This poll has seen the news for which others wait.
                self._streams.notify(source.stream.name)
        waiting = [source for source in self._sources.values() if self._read(source, on_line)]
        news = bool(waiting)
        while waiting and time.monotonic() < deadline:
            waiting = [source for source in waiting if self._read(source, on_line)]
        return news

    def _read(self, source: Source, on_line: OnLine | None) -> bool:
        """Read one chunk of a source. Return True if there was one."""
        chunk = source.stream.read(source.cursor, _CHUNK)
        live = time.monotonic() - source.read_m < _LIVE_S and not chunk.more
        if not chunk.more:
            source.read_m = time.monotonic()
        if chunk.repeats or chunk.next == source.cursor:
            return False
        start, following = Cursor.parse(chunk.start), Cursor.parse(chunk.next)
        if chunk.data and self._too_early(source, start):
            self._busy_m = time.monotonic()  # no rest before these lines are read
            return False
        if start.generation != source.place.generation:
            source.line = 0
        skipped = bool(chunk.data) and source.backlog() > _BACKLOG.get(source.name, _OTHER_BACKLOG)
        if skipped:
            self.log.skipped[source.name] = self.log.skipped.get(source.name, 0) + len(chunk.data)
            source.line += chunk.data.count(b"\n")
        failure = None
        if chunk.data and not skipped:
            failure = self._take(source, chunk, start, live, on_line)
        if following.generation != start.generation:
            source.line = 0
        source.cursor, source.read_t = chunk.next, time.time()
        if failure is not None:
            raise failure
        return True

    def _take(
        self, source: Source, chunk: Chunk, start: Cursor, live: bool, on_line: OnLine | None
    ) -> Exception | None:
        """Read the lines of a chunk and return the first error, or None. The caller raises the
        error once the cursor is behind the chunk, so that a line that cannot be read is not read
        for ever.
        """
        failure: Exception | None = None
        first_seen, expected, path = source.file_of(start.generation)
        attempt = self._attempt_at(first_seen, expected)
        if attempt is None:
            return None
        source.read_of = attempt.number
        self.log.last_activity_m = time.monotonic()
        self._brought += len(chunk.data)
        self._undress(source, start.generation)
        for offset, raw in _lines(chunk.data, start.offset):
            source.line += 1
            place: Place = {
                "source": source.name,
                "stream": source.stream.name,
                "cursor": str(Cursor(start.generation, offset)),
                "file": path,
                "offset": offset,
                "line": source.line,
            }
            try:
                self._line(source, attempt, raw, place, live, on_line)
            except Exception as error:  # noqa: BLE001
                # RunFollower journals the error of one line.
                failure = failure or error
        return failure

    def _undress(self, source: Source, generation: int) -> None:
        """Learn what stands around the lines of a source from the beginning of its present file."""
        if not source.wardrobe.wants(generation):
            return
        head = source.stream.read(str(Cursor(generation, 0)), SAMPLE)

        def parsed(raw: bytes) -> LogLine:
            return self._trainer.parse_line(source.name, raw)

        def known(line: LogLine) -> bool:
            return self._trainer.event(source.name, line) is not None

        if head.start == str(Cursor(generation, 0)):
            source.wardrobe.look(head.data, parsed, known)

    def _attempt_at(self, first_seen: float, expected: int) -> Attempt | None:
        """Return the attempt whose file was first seen at that Unix time: the last one that had
        started by then, or attempt number `expected`, whose log was expected then, if that is a
        later one. None if there is none.

        A path alone does not identify the attempt. 2026-01 uses the same paths in every attempt,
        and a stream that knows the path sees the new file before the agent knows of the new
        attempt. The time alone does not either, because a clock may be set back.
        """
        started = [
            attempt
            for attempt in self._run.attempts
            if attempt.number == expected or attempt.started_t <= first_seen + _BEFORE_S
        ]
        return max(started, key=lambda attempt: attempt.number, default=None)

    def _too_early(self, source: Source, start: Cursor) -> bool:
        """Return True if the file appeared after the end of the last known attempt, and its own
        attempt will be known in a moment.
        """
        first_seen, expected, _ = source.file_of(start.generation)
        attempt = self._attempt_at(first_seen, expected)
        if attempt is None or attempt.end is None:
            return False
        # The only file of an attempt that failed at once is seen after its end. But a further file
        # comes from a start by hand, which can follow within half a second.
        further = source.read_of == attempt.number and start.generation != source.place.generation
        after = first_seen > attempt.end.t + (0.0 if further else _BEFORE_S)
        return after and time.time() - first_seen < _ATTEMPT_KNOWN_S

    def _line(
        self,
        source: Source,
        attempt: Attempt,
        raw: bytes,
        place: Place,
        live: bool,
        on_line: OnLine | None,
    ) -> None:
        """Pass one line to `on_line`, to the step log and to the events of the attempt."""
        if source.wardrobe.worn is not None:
            raw = source.wardrobe.worn.inner(raw)
        line = self._trainer.parse_line(source.name, raw)
        text = short(line.text)
        if on_line is not None:
            on_line(
                self._run.name,
                attempt.number,
                self._run.spec.trainer,
                source.name,
                line,
                {**place, "text": text},
            )
        if source.name in _STEP_SOURCES:
            for record in self._steps.feed(
                source.name, raw, place["cursor"], attempt.number, time.time() if live else None
            ):
                self.log.record(record)
        event = self._trainer.event(source.name, line)
        # The launcher also shows what other logs hold (`tail -F`). Of its output only its own
        # messages count.
        if event is None or (source.name == "launcher" and event.side != "launcher"):
            event = Event("error", source.name) if line.level in _LOUD else None
        moment = _moment(source, attempt, line, live)
        if event is not None and attempt.number == self.log.attempt:
            self.log.add(LogEvent(event=event, m=moment, text=text, **place))


def _moment(source: Source, attempt: Attempt, line: LogLine, live: bool) -> float:
    """Return the monotonic second of a line: now if it was just written, its own time if it is read
    late.
    """
    now = time.monotonic()
    wall = line.timestamp
    if wall is None and line.clock is not None:
        try:
            wall = source.clock(attempt.number, attempt.started_t).resolve(
                line.clock, time.time() if live else None
            )
        except ValueError:
            wall = None  # 99:99:99: two digits each are no time yet
    if live or wall is None:
        return now
    return monotonic_of(wall)


def _lines(data: bytes, offset: int) -> Iterator[tuple[int, bytes]]:
    """Yield each line with its LF, and the offset of its first byte. Only LF ends a line; the CR of
    a progress bar does not.
    """
    begin = 0
    while begin < len(data):
        end = data.find(b"\n", begin) + 1 or len(data)
        yield offset + begin, data[begin:end]
        begin = end


def _is_of(path: Path, attempt: Attempt) -> bool:
    """Return True if the file that is at `path` now belongs to this attempt.

    A file of an earlier attempt stays until the launcher has cleaned up. A file of a later attempt,
    for example one that was started by hand and is not adopted yet, is there once it begins.
    """
    try:
        changed = path.stat().st_mtime
    except FileNotFoundError:
        return True
    return changed >= start_by_clock(attempt) - 1.0 and (
        attempt.end is None or changed <= attempt.end.t + 1.0
    )


def _standard_output(root: Identity | None) -> Path | None:
    """Return the file to which a launcher that was started by hand writes (`nohup ... >
    train.log`). None for a terminal, a pipe or a launcher that has ended.
    """
    if root is None or not root.alive():
        return None
    return processes.open_file(root.pid, 1)
