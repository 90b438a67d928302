"""Logs of runs as streams, and each step once, whatever is restarted in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

from bs4_agent.launch.start import launch
from bs4_agent.runs import followed_run
from bs4_agent.runs.followed_run import FollowedRun
from bs4_agent.runs.follower import RunFollower
from bs4_agent.runs.registry import Runs
from bs4_agent.streams.registry import Streams
from bs4_common.errors import SpoolFull
from bs4_common.failures.compiled import Library
from bs4_common.failures.engine import Engine
from bs4_common.streams.segments import SegmentStream
from bs4_common.trainers import registry
from bs4_common.trainers.base import Event, LogLine
from bs4_console.failures.playbooks import compile_all
from tests.agent.runs.practice import (
    AGENTS,
    Pod,
    PracticeTrainer,
    ended,
    identity,
    kill,
    lines,
    until,
)

PRIME_RL = registry.get("prime-rl")
#: Makes both logs, then writes what it finds in the file `say` to them, line by line, and ends when
#: it finds `end`.
WRITER = """
mkdir -p "$1/logs"; rm -f "$1"/logs/*; : > "$1/logs/orchestrator.stdout"
echo hello from the launcher
exec 3>>"$1/logs/trainer.stdout"; echo 'starting' >&3; exec sleep 60
"""


class Agent:
    """What the daemon puts together for logs."""

    def __init__(self, pod: Pod) -> None:
        self.runs: Runs = pod.runs()
        self.streams = Streams()
        self.seen: list[tuple[int, str, str]] = []
        self.faults: list[str] = []
        self.follower = RunFollower(
            self.streams, self.runs, on_line=self._line, on_fault=self.faults.append
        )

    def _line(
        self,
        run: str,
        attempt: int,
        trainer: str,
        source: str,
        line: LogLine,
        place: Mapping[str, Any],
    ) -> None:
        if line.text == "poison":
            raise ZeroDivisionError("a defect of ours")
        self.seen.append((attempt, source, line.text))

    def poll(self) -> None:
        self.runs.poll()
        self.follower.poll()

    def until(self, condition: Any) -> Any:
        return until(lambda: [self.poll(), condition()][1])

    def records(self) -> list[dict[str, Any]]:
        stream = self.streams.get("steps/alpha")
        assert isinstance(stream, SegmentStream)
        return list(stream.records())

    def steps(self) -> list[tuple[int, str, int]]:
        return [(record["attempt"], record["side"], record["step"]) for record in self.records()]

    def close(self) -> None:
        self.follower.close()
        self.streams.close()


@pytest.fixture
def log(pod: Pod) -> Path:
    pod.trainer.program = WRITER
    return pod.root / "work/alpha/logs/trainer.stdout"


def say(log: Path, *words: str) -> None:
    with log.open("a") as handle:
        handle.write("".join(f"{word}\n" for word in words))


def test_logs_become_streams_and_step_lines_records(pod: Pod, log: Path) -> None:
    agent = Agent(pod)
    launch(agent.runs, pod.spec(), key="k1")
    agent.until(lambda: log.exists() and "starting" in log.read_text())
    say(log, "step 0 0.5", "noise", "step 1 0.25")
    say(log.with_name("orchestrator.stdout"), "step 0 0.125")
    agent.until(lambda: len(agent.steps()) == 3)
    assert sorted(agent.steps()) == [(1, "orchestrator", 0), (1, "trainer", 0), (1, "trainer", 1)]
    agent.until(lambda: (1, "launcher", "hello from the launcher") in agent.seen)
    assert agent.streams.names() == [
        "log/alpha/launcher",
        "log/alpha/orchestrator",
        "log/alpha/trainer",
        "steps/alpha",
    ]
    assert agent.streams.read("log/alpha/trainer", "start").data == log.read_bytes()
    recent = agent.follower.recent("alpha", 1)
    assert (
        recent.side("trainer").last_step,
        recent.side("trainer").steps,
        recent.side("orchestrator").last_step,
    ) == (1, 2, 0)
    assert abs((recent.sides["trainer"].last_step_t or 0) - time.time()) < 10
    last = [
        event
        for event in recent.events
        if event.event.kind == "step" and event.event.side == "trainer"
    ][-1]
    assert (last.source, last.stream, last.file, last.line, last.text) == (
        "trainer",
        "log/alpha/trainer",
        str(log),
        4,
        "step 1 0.25",
    )
    assert last.offset == log.read_bytes().index(b"step 1")
    assert last.cursor.endswith(f":{last.offset}")
    assert list(agent.records()[0])[:3] == ["t", "m", "b"]
    agent.close()


def test_a_line_that_cannot_be_read_is_reported_once_and_stops_neither_its_run_nor_another(
    pod: Pod, log: Path
) -> None:
    agent = Agent(pod)
    launch(agent.runs, pod.spec(), key="k1")
    launch(agent.runs, pod.spec("beta"), key="k2")
    other = pod.root / "work/beta/logs/trainer.stdout"
    agent.until(
        lambda: (
            "starting" in log.read_text() and "starting" in other.read_text()
            if log.exists() and other.exists()
            else False
        )
    )
    say(log, "step 0 0.5", "poison", "step 1 0.5", "poison")
    agent.until(lambda: len(agent.steps()) == 2)
    say(other, "step 0 0.5")
    agent.until(
        lambda: (1, "trainer", "step 0 0.5") in agent.seen and "steps/beta" in agent.streams.names()
    )
    say(log, "poison", "step 2 0.5")
    agent.until(lambda: len(agent.steps()) == 3)
    assert agent.faults == ["alpha cannot be followed: ZeroDivisionError: a defect of ours"]
    stream = agent.streams.get("steps/beta")
    assert isinstance(stream, SegmentStream)
    agent.until(lambda: [record["step"] for record in stream.records()] == [0])
    agent.close()


def test_a_restart_goes_on_where_it_was(pod: Pod, log: Path) -> None:
    first = Agent(pod)
    launch(first.runs, pod.spec(), key="k1")
    first.until(lambda: log.exists() and "starting" in log.read_text())
    say(log, "step 0 0.5")
    first.until(lambda: first.steps() == [(1, "trainer", 0)])
    first.close()
    say(log, "step 1 0.5")
    second = Agent(pod)
    second.until(lambda: len(second.steps()) == 2)
    assert second.steps() == [(1, "trainer", 0), (1, "trainer", 1)]
    assert (1, "trainer", "step 0 0.5") not in second.seen
    recent = second.follower.recent("alpha")
    assert (recent.side("trainer").last_step, recent.side("trainer").steps) == (1, 2)
    assert [event.text for event in recent.events if event.event.kind == "step"] == [
        "step 0 0.5",
        "step 1 0.5",
    ]
    assert [event.line for event in recent.events if event.event.kind == "step"] == [2, 3]
    second.close()


def test_no_step_is_doubled_or_lost_by_kill_9(pod: Pod, log: Path) -> None:
    """The agent dies in mid-reading, again and again, before it could write down where it was."""
    agent = Agent(pod)
    launch(agent.runs, pod.spec(), key="k1")
    agent.until(lambda: log.exists() and "starting" in log.read_text())
    agent.close()
    program = (
        "import os, sys, time; sys.path[:0] = sys.argv[1:3]\n"
        "from pathlib import Path\n"
        "from tests.agent.runs.practice import Pod, PracticeTrainer\n"
        "from tests.agent.runs.test_follower import Agent\n"
        "agent = Agent(Pod(Path(sys.argv[3]), PracticeTrainer('')))\n"
        "agent.poll(); agent.follower.poll()\n"
        "while True: agent.poll(); time.sleep(0.01); print('read', len(agent.seen), flush=True)\n"
    )
    for round_ in range(3):
        dying = subprocess.Popen(
            [sys.executable, "-c", program, str(AGENTS), str(AGENTS.parent), str(pod.root)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert dying.stdout is not None
        say(log, "noise")
        # what was read by now is on disk, and is written again 5 s later
        _read_until(dying.stdout, 1)
        for step in range(round_ * 50, round_ * 50 + 50):
            say(log, f"step {step} 0.5", "noise")
        _read_until(dying.stdout, 60)
        dying.send_signal(signal.SIGKILL)
        dying.wait()
        dying.stdout.close()
    last = Agent(pod)
    last.until(lambda: len(last.steps()) >= 150)
    last.poll()
    assert last.steps() == [(1, "trainer", step) for step in range(150)]
    last.close()


def test_an_attempts_lines_are_its_own(pod: Pod) -> None:
    """The log of the attempt before lies there until the trainer has cleaned up: its steps do not
    become the new attempt's.
    """
    pod.trainer.program = (
        'while [ -e held ]; do sleep 0.05; done; rm -rf "$1/logs"; mkdir -p "$1/logs"; '
        'echo "step $2 0.5" > "$1/logs/trainer.stdout"'
    )
    held = pod.root / "work/held"
    agent = Agent(pod)
    launch(agent.runs, pod.spec(resume=7), key="k1")
    ended(agent.runs)
    agent.until(lambda: agent.steps() == [(1, "trainer", 7)])
    held.touch()
    launch(agent.runs, pod.spec(resume=9), key="k2")
    agent.poll()
    assert agent.follower.recent("alpha", 2).side("trainer").last_step is None
    held.unlink()
    ended(agent.runs, number=2)
    agent.until(lambda: len(agent.steps()) == 2)
    assert agent.steps() == [(1, "trainer", 7), (2, "trainer", 9)]
    assert agent.follower.recent("alpha", 2).side("trainer").last_step == 9
    assert agent.follower.recent("alpha", 1).side("trainer").last_step is None, (
        "only the newest attempt is kept in memory"
    )
    data = b"".join(iter(_reader(agent.streams, "log/alpha/trainer"), b""))
    assert data == b"step 7 0.5\nstep 9 0.5\n", (
        "one stream spans the attempts; what was deleted is still there"
    )
    agent.close()


def test_a_file_that_appears_right_after_the_end_waits_for_its_own_attempt(
    pod: Pod, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person can start the run again within half a second. Its first lines, and the reason why it
    failed at once, must not count as those of the attempt that has ended.
    """
    pod.trainer.program = 'mkdir -p "$1/logs"; echo "step 7 0.5" > "$1/logs/trainer.stdout"'
    agent = Agent(pod)
    launch(agent.runs, pod.spec(), key="k1")
    ended(agent.runs)
    agent.until(lambda: agent.steps() == [(1, "trainer", 7)])
    # A file at the same path is looked at for a second first.
    monkeypatch.setattr(followed_run, "_BEFORE_S", 60.0)
    # A busy machine may take longer than the run's rest and its next attempt are away.
    monkeypatch.setattr(followed_run, "_REST_S", 3600.0)
    monkeypatch.setattr(followed_run, "_ATTEMPT_KNOWN_S", 3600.0)
    log.unlink()
    log.write_text("step 9 0.5\n")
    stream = agent.streams.get("log/alpha/trainer")
    agent.until(lambda: len(stream.stat()["generations"]) == 2)
    looked = time.monotonic()
    agent.until(lambda: time.monotonic() - looked > 2.0)  # several polls, also of quiet logs
    assert (1, "trainer", "step 9 0.5") not in agent.seen
    agent.close()


def test_a_file_whose_own_attempt_never_becomes_known_is_read_before_the_run_rests(
    pod: Pod, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start by hand that fails within a second is never seen as an attempt."""
    held: list[bool] = []
    judge = FollowedRun._too_early
    monkeypatch.setattr(
        FollowedRun, "_too_early", lambda *given: [held.append(judge(*given)), held[-1]][1]
    )
    monkeypatch.setattr(followed_run, "_REST_S", 60.0)
    pod.trainer.program = 'mkdir -p "$1/logs"; echo "step 7 0.5" > "$1/logs/trainer.stdout"'
    agent = Agent(pod)
    launch(agent.runs, pod.spec(), key="k1")
    ended(agent.runs)
    agent.until(lambda: agent.steps() == [(1, "trainer", 7)])
    log.unlink()
    log.write_text("why it failed\n")
    agent.until(lambda: any(held))
    monkeypatch.setattr(followed_run, "_REST_S", 0.0)
    monkeypatch.setattr(followed_run, "_ATTEMPT_KNOWN_S", 3.0)
    agent.until(lambda: (1, "trainer", "why it failed") in agent.seen)
    agent.close()


def test_a_log_that_lies_there_from_before_our_time_is_not_this_attempts(
    pod: Pod, log: Path
) -> None:
    """A run of somebody else in the same directory, whose log the trainer removes when it gets that
    far.
    """
    log.parent.mkdir(parents=True)
    log.write_text("step 99 0.5\n")
    os.utime(log, (1_700_000_000, 1_700_000_000))
    pod.trainer.program = "while [ ! -e go ]; do sleep 0.02; done\n" + WRITER
    agent = Agent(pod)
    launch(agent.runs, pod.spec(), key="k1")
    for _ in range(5):
        agent.poll()
    assert agent.steps() == []
    (pod.root / "work/go").touch()
    agent.until(lambda: log.exists() and "starting" in log.read_text())
    say(log, "step 0 0.5")
    agent.until(lambda: agent.steps() == [(1, "trainer", 0)])
    agent.close()


def test_a_full_spool_loses_no_step(pod: Pod, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(pod)
    launch(agent.runs, pod.spec(), key="k1")
    agent.until(lambda: log.exists() and "starting" in log.read_text())
    say(log, "step 0 0.5")

    def full(*args: object, **more: object) -> str:
        raise SpoolFull("The disk is full.")

    with monkeypatch.context() as disk:
        disk.setattr(SegmentStream, "append", full)
        with pytest.raises(SpoolFull):
            agent.until(lambda: False)
    assert agent.steps() == []
    agent.until(lambda: agent.steps() == [(1, "trainer", 0)])
    agent.close()


def test_a_gap_in_a_log_is_journalled(pod: Pod, log: Path) -> None:
    """Truncated in place: what was there is gone. The link does not help, the stream says so, and
    the journal gets it.
    """
    agent = Agent(pod)
    launch(agent.runs, pod.spec(), key="k1")
    agent.until(lambda: log.exists() and "starting" in log.read_text())
    say(log, "step 0 0.5")
    agent.until(lambda: agent.steps() == [(1, "trainer", 0)])
    os.truncate(log, 0)
    say(log, "step 1 0.5")
    agent.until(lambda: any(record["type"] == "gap" for record in lines(pod.journal.path)))
    agent.until(lambda: len(agent.steps()) == 2)
    gap = next(record for record in lines(pod.journal.path) if record["type"] == "gap")
    assert gap["stream"] == "log/alpha/trainer"
    assert {"generation", "from", "to", "reason"} <= gap.keys()
    agent.close()


def test_a_huge_backlog_is_passed_over_and_that_is_known(
    pod: Pod, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_run, "_OTHER_BACKLOG", 400_000)
    pod.trainer.program = (
        "head -c 3000000 /dev/zero | tr '\\0' 'x' | fold -w 99; echo; echo the end; exec sleep 60"
    )
    agent = Agent(pod)
    launch(agent.runs, pod.spec(), key="k1")
    launcher = pod.attempt() / "launcher.log"
    until(lambda: launcher.exists() and launcher.read_text().endswith("the end\n"))
    agent.until(lambda: (1, "launcher", "the end") in agent.seen)
    recent = agent.follower.recent("alpha")
    assert 2_000_000 < recent.skipped["launcher"] < 3_000_000
    assert len(agent.seen) < 9000
    agent.close()


def test_an_ended_run_rests_and_stays_readable(
    pod: Pod, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(pod)
    launch(agent.runs, pod.spec(), key="k1")
    agent.until(lambda: log.exists() and "starting" in log.read_text())
    say(log, "step 0 0.5")
    kill(identity(pod.attempt(), "launcher"))
    ended(agent.runs)
    agent.until(lambda: agent.steps() == [(1, "trainer", 0)])
    monkeypatch.setattr(followed_run, "_REST_S", 0.1)
    agent.until(lambda: agent.follower._followed["alpha"]._at_rest)
    log.unlink()
    assert b"step 0" in agent.streams.read("log/alpha/trainer", "start").data
    later = Agent(pod)
    later.poll()
    assert b"step 0" in later.streams.read("log/alpha/trainer", "start").data
    assert later.steps() == [(1, "trainer", 0)]
    agent.close()
    later.close()


class RealLines(PracticeTrainer):
    """The small trainer, whose lines are those of a real one."""

    def parse_line(self, source: str, raw: bytes) -> LogLine:
        return PRIME_RL.parse_line(source, raw)

    def event(self, source: str, line: LogLine) -> Event | None:
        return PRIME_RL.event(source, line)


def test_what_is_put_around_the_lines_of_a_growing_log_is_taken_off(pod: Pod, log: Path) -> None:
    """The file grows behind a prefix that nobody listed. The failure is named by the lines as they
    were written, also by an agent that starts in the middle, and the place is that in the file.
    """
    pod.trainer = RealLines(WRITER.replace("'starting'", "'[1,0]<stderr>:starting'"))
    agent = Agent(pod)
    launch(agent.runs, pod.spec(), key="k1")
    agent.until(lambda: log.exists() and "starting" in log.read_text())
    calm = [f"[1,{n % 4}]<stderr>:12:00:{n:02}    INFO Starting step {n}" for n in range(12)]
    say(log, *calm)
    agent.until(lambda: (1, "trainer", "Starting step 11") in agent.seen)
    assert (1, "trainer", "Starting step 0") in agent.seen
    agent.close()
    engine = Engine(list(Library(compile_all())))
    places: list[Mapping[str, Any]] = []

    def fed(
        run: str, attempt: int, trainer: str, source: str, line: LogLine, place: Mapping[str, Any]
    ) -> None:
        if engine.feed(run, attempt, "prime-rl", source, line, place):
            places.append(place)

    again = Agent(pod)
    again.follower.on_line = fed
    say(log, "[1,2]<stderr>:OSError: [Errno 28] No space left on device")
    again.until(lambda: places)
    assert places[0]["text"] == "OSError: [Errno 28] No space left on device"
    assert places[0]["offset"] == log.read_bytes().rindex(b"[1,2]")
    again.close()


def _read_until(output: IO[str], count: int) -> None:
    """Wait until the agent has read so many lines. Fails if it ends before."""
    for line in output:
        if int(line.split()[1]) >= count:
            return
    raise AssertionError("the agent has ended by itself")


def _reader(streams: Streams, name: str) -> Any:
    cursor = ["start"]

    def read() -> bytes:
        chunk = streams.read(name, cursor[0])
        cursor[0] = chunk.next
        return chunk.data

    return read


def test_a_log_that_grows_is_read_at_once_even_if_it_was_quiet(
    pod: Pod, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(pod)
    launch(agent.runs, pod.spec(), key="k1")
    agent.until(lambda: (1, "trainer", "starting") in agent.seen)
    assert any(Path(path).samefile(log) for path in agent.follower.growing())
    monkeypatch.setattr(followed_run, "_QUIET_AFTER_S", -1.0)
    monkeypatch.setattr(followed_run, "_QUIET_EVERY_S", 1e6)
    agent.follower.poll(grown=True)
    say(log, "step 7 0.5")
    agent.follower.poll()
    assert (1, "trainer", "step 7 0.5") not in agent.seen
    agent.follower.poll(grown=True)
    assert agent.seen.count((1, "trainer", "step 7 0.5")) == 1
    agent.close()


def test_polls_come_early_only_as_often_as_was_saved_up(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    clock = SimpleNamespace(monotonic=lambda: now)
    monkeypatch.setattr("bs4_agent.runs.follower.time", clock)
    follower = RunFollower(Streams(), pod.runs())
    for _ in range(200):
        assert follower.least_pause_s == 0.1
        follower.poll(grown=True)
        now += 0.5  # a poll that was due anyway costs none of them
    now -= 0.5
    for _ in range(60):
        assert follower.least_pause_s == 0.1
        follower.poll(grown=True)
    assert follower.least_pause_s == 0.5
    for passed, saved in ((4.0, 1), (1e6, 60)):
        now += passed
        follower.poll()
        for _ in range(saved):
            assert follower.least_pause_s == 0.1
            follower.poll(grown=True)
        assert follower.least_pause_s == 0.5
