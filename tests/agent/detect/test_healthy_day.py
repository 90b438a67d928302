"""Healthy runs of hours, replayed at speed through the whole engine with all playbooks: not one
incident.
"""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_common.failures import matcher
from bs4_common.failures.compiled import Library
from bs4_common.failures.engine import Engine, Transition
from bs4_common.failures.environment import Disk
from bs4_common.failures.facts import Facts, GpuFacts, Holder, LogEvent, ServerProbe
from bs4_common.runs.runlog import RunLog
from bs4_common.trainers import registry
from bs4_common.trainers.base import Checkpoint, LogLine
from bs4_common.trainers.lines import parse
from bs4_common.trainers.steps import StepReader
from tests.agent.facts import checkpoint, healthy, identity, member
from tests.playbooks.library import cases_in, library, playbook_files
from tests.support.healthy_day import Attempt, HealthyDay, Said
from tests.support.miniature_lines import Pen

GENERATIONS = ("prime-rl-2026-01", "prime-rl")
GIB = 1 << 30
#: What a day has to hold, as the generation's grammar reads it: that grammar is proved on the real
#: programs' lines.
_BOTH = {
    "step",
    "eval-start",
    "eval",
    "save",
    "starting",
    "ready",
    "waiting-inference",
    "rate-limited",
    "heartbeat",
    "resume",
}
KINDS = {
    "prime-rl-2026-01": _BOTH | {"start-step", "barrier"},
    "prime-rl": _BOTH | {"holding", "policy-update", "low-trainable"},
}
RUN = "demo"


#: The second of the (local) day at which each simulated time begins, whenever the test is run: half
#: past ten in the evening, so that midnight is in it.
BEGIN_S = 22.5 * 3600


class Clock:
    """The day's time as wall and as monotonic seconds; it lies in the past, so that nothing of it
    is in the future.
    """

    def __init__(self, seconds: float) -> None:
        latest = int(time.time() - seconds - 120)
        there = time.localtime(latest)
        of_day = there.tm_hour * 3600 + there.tm_min * 60 + there.tm_sec
        self.wall0 = latest - (of_day - BEGIN_S) % 86400
        self._offset = time.monotonic() - time.time()
        self.t = 0.0

    def m(self, t: float | None = None) -> float:
        return self.wall0 + (self.t if t is None else t) + self._offset


class Replay:
    """Feeds a day's lines as the agent's followers do and looks as its watcher does."""

    def __init__(self, trainer: str, clock: Clock, library: Library, look_s: float) -> None:
        self.engine = Engine(list(library))
        self.opened: list[tuple[float, Transition]] = []
        self.looks = 0
        self.kinds: set[str] = set()
        self._trainer, self._clock, self._look_s = registry.get(trainer), clock, look_s
        self._saves: list[tuple[int, float, float]] = []

    def play(self, attempt: Attempt) -> RunLog:
        log, reader = RunLog(run=RUN, attempt=attempt.number), StepReader(self._trainer, RUN)
        reader.anchor(attempt.number, self._clock.wall0 + attempt.start)
        lines, rows, number = iter(attempt.lines), iter(attempt.metrics), 0
        line, row = next(lines, None), next(rows, None)
        # What the last attempt had begun to save when it was stopped is gone: the console moves it
        # aside before it resumes.
        self._saves = [s for s in self._saves if s[2] <= attempt.start] + attempt.saves
        t = attempt.start
        while t < attempt.end:
            t += self._look_s
            while line is not None and line.t <= t:
                number += 1
                self._clock.t = line.t
                self._line(attempt, log, reader, line.source, line.raw, number)
                line = next(lines, None)
            while row is not None and row[0] <= t:
                for record in reader.feed_metrics(json.dumps(row[1]).encode(), attempt.number):
                    log.record(record)
                row = next(rows, None)
            self._clock.t = t
            self._look(self._facts(attempt, log, t))
        # Ended by its owner: the next attempt begins half a minute later.
        self._look(self._facts(attempt, log, t, state="ended", stop_requested=True))
        return log

    def _line(
        self,
        attempt: Attempt,
        log: RunLog,
        reader: StepReader,
        source: str,
        raw: bytes,
        number: int,
    ) -> None:
        line = self._trainer.parse_line(source, raw)
        stream = f"log/{RUN}/{source}"
        place = {
            "source": source,
            "stream": stream,
            "cursor": f"{attempt.number}:{number}",
            "file": "",
            "offset": 0,
            "line": number,
        }
        self.engine.feed(
            RUN, attempt.number, self._trainer.id, source, line, {**place, "text": line.text[:300]}
        )
        event = self._trainer.event(source, line)
        if event is None or (source == "launcher" and event.side != "launcher"):
            return
        self.kinds.add(event.kind)
        log.last_activity_m = self._clock.m()
        if source in ("trainer", "orchestrator"):
            for record in reader.feed(source, raw, place["cursor"], attempt.number):
                log.record(record)
        log.add(LogEvent(event=event, m=self._clock.m(), text=line.text[:300], **place))

    def _checkpoints(self, t: float) -> list[Checkpoint]:
        """The three newest, as keep_last has them; the one that is being written has no trainer's
        half yet.
        """
        there = [(step, end) for step, begin, end in self._saves if begin <= t][-3:]
        return [
            dataclasses.replace(
                checkpoint(step, t >= end), newest_mtime=self._clock.wall0 + min(t, end)
            )
            for step, end in there
        ]

    def _look(self, facts: Facts) -> None:
        self.looks += 1
        for transition in self.engine.evaluate(facts):
            if transition.event == "opened":
                self.opened.append((self._clock.t, transition))

    def _facts(self, attempt: Attempt, log: RunLog, t: float, **changes: object) -> Facts:
        now = self._clock.m(t)
        run = healthy(
            self._trainer.id,
            attempt=attempt.number,
            started_m=self._clock.m(attempt.start),
            started_t=self._clock.wall0 + attempt.start,
            trainer_side=log.side("trainer"),
            orchestrator_side=log.side("orchestrator"),
            median_step_s=log.median_step_s(),
            last_activity_m=log.last_activity_m,
            events=log.events,
            history=log.history.records(),
            checkpoints=self._checkpoints(t),
            members=_members(),
            server=ServerProbe(
                url="http://localhost:8000",
                ever_ok_m=now,
                health="ok",
                health_m=now,
                answer="ok",
                answer_m=now,
            ),
            resume=attempt.resume,
            config={
                "model.name": "Qwen/Qwen3-8B",
                "inference.model.tool_call_parser": "hermes",
                "ckpt.interval": 10,
                "ckpt.keep_last": 3,
            },
        )
        return Facts(
            now_m=now,
            now_t=self._clock.wall0 + t,
            runs=[dataclasses.replace(run, **changes)],
            gpus=_gpus(),
            disks=[_disk()],
            shm=Disk(path="/dev/shm", used=8, total=16, free=8),
        )


def _members() -> list[object]:
    names = ("launcher", "inference", "engine", "orchestrator", "trainer", "rank")
    return [member(10 + n, name) for n, name in enumerate(names)]


def _gpus() -> GpuFacts:
    """Used at twice the share that counts as idle."""
    holders = [
        Holder(
            identity=identity(12),
            gpu=0,
            mem=60 * GIB,
            cmdline=("engine",),
            run=RUN,
            component="engine",
            dead_run=None,
            same_user=True,
        ),
        Holder(
            identity=identity(15),
            gpu=1,
            mem=40 * GIB,
            cmdline=("rank",),
            run=RUN,
            component="rank",
            dead_run=None,
            same_user=True,
        ),
    ]
    name = "NVIDIA H100 80GB HBM3"
    return GpuFacts(
        state="ok",
        pids="local",
        used={0: 60 * GIB, 1: 40 * GIB},
        total={0: 80 * GIB, 1: 80 * GIB},
        holders=holders,
        names={0: name, 1: name},
        util={0: 30.0, 1: 30.0},
        power={0: 0.3, 1: 0.3},
        mean_util={0: 70.0, 1: 70.0},
    )


def _disk() -> Disk:
    return Disk(
        path="/home/u",
        used=45 * GIB,
        total=100 * GIB,
        free=55 * GIB,
        read_only=False,
        growth=0.0,
        runs=(RUN,),
    )


@pytest.fixture(scope="module", name="library")
def fixture_library() -> Library:
    return library()


@pytest.fixture(scope="module")
def quotes() -> Sequence[str]:
    """The text of every line that makes some playbook speak, out of all cases: what a model may say
    about errors.
    """
    texts = []
    for path in playbook_files():
        for case in cases_in(path).get("positive", ()):
            for raw in str(case["log"]).splitlines():
                texts += [
                    text.strip()
                    for text in parse(case["source"], raw.encode()).text.splitlines()
                    if len(text) > 8
                ]
    return list(dict.fromkeys(texts))


def halves(library: Library, trainer: str) -> list[tuple[str, bytes]]:
    """(source, raw line): of each signature that wants a line so many times, half as many, out of
    the cases' own lines.
    """
    signatures = [
        (signature, p) for p in library if p.applies_to(trainer) for signature in p.signatures
    ]
    found: dict[int, list[tuple[str, bytes]]] = {}
    for path in playbook_files():
        for case in cases_in(path).get("positive", ()):
            for raw in (
                str(case["log"]).encode().splitlines()
                if case.get("trainer", trainer) == trainer
                else ()
            ):
                line = registry.get(trainer).parse_line(case["source"], raw)
                hits = [
                    i for i, (s, _) in enumerate(signatures) if _matches(s, case["source"], line)
                ]
                if hits and all(signatures[i][0].get("count", 1) > 1 for i in hits):
                    for i in hits:
                        found.setdefault(i, []).append((case["source"], raw))
    out = []
    for i, lines in found.items():
        half = signatures[i][0]["count"] // 2
        out += (lines * half)[:half]
    return out


def _matches(signature: Mapping[str, Any], source: str, line: LogLine) -> bool:
    if source.partition("-")[0] not in signature["source"]:
        return False
    return (
        line.level in signature.get("levels", [line.level])
        and re.search(signature["pattern"], line.text, re.ASCII) is not None
    )


def test_there_are_counted_signatures_to_visit_at_half(library: Library) -> None:
    assert halves(library, "prime-rl")


@pytest.fixture
def replayed(
    monkeypatch: pytest.MonkeyPatch, library: Library, quotes: Sequence[str]
) -> Callable[..., Replay]:
    def run(
        trainer: str,
        hours: float,
        restarts: int,
        *,
        json_lines: bool = False,
        change: Callable[[Attempt], None] | None = None,
    ) -> Replay:
        clock = Clock(hours * 3600)
        monkeypatch.setattr(matcher, "time", SimpleNamespace(monotonic=clock.m, time=time.time))
        pen = Pen(monkeypatch, "debug", json_lines=json_lines)
        replay = Replay(trainer, clock, library, 2.0)
        half = halves(library, trainer)
        for attempt in HealthyDay(trainer, pen, clock.wall0, quotes).attempts(hours, restarts):
            attempt.lines += [
                Said(attempt.start + 1000 + n / 10, source, raw)
                for n, (source, raw) in enumerate(half)
            ]
            attempt.lines.sort(key=lambda line: line.t)
            if change is not None:
                change(attempt)
            replay.play(attempt)
        return replay

    return run


def told(replay: Replay) -> str:
    return "\n".join(
        f"{t:.0f} s {t_.finding.failure}: {t_.finding.summary}\n   {t_.finding.evidence[:1]}"
        for t, t_ in replay.opened
    )


@pytest.mark.long
@pytest.mark.beside
@pytest.mark.parametrize("trainer", GENERATIONS)
def test_two_healthy_hours_are_silent(replayed: Callable[..., Replay], trainer: str) -> None:
    replay = replayed(trainer, 2.0, 1)
    assert replay.looks > 3500
    assert not replay.opened, told(replay)
    assert replay.kinds >= KINDS[trainer], (
        "the trainer's own grammar no longer reads what the day is made of"
    )


@pytest.mark.long
@pytest.mark.beside
def test_two_healthy_hours_in_json_are_silent(replayed: Callable[..., Replay]) -> None:
    replay = replayed("prime-rl", 2.0, 0, json_lines=True)
    assert not replay.opened, told(replay)


@pytest.mark.beside
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "trainer",
    [
        # A day is a minute and a half of one core: the long suite has one of them.
        pytest.param("prime-rl-2026-01", marks=pytest.mark.rounds),
        pytest.param("prime-rl", marks=pytest.mark.long),
    ],
)
def test_a_healthy_day_is_silent(replayed: Callable[..., Replay], trainer: str) -> None:
    replay = replayed(trainer, 24.0, 4)
    assert replay.looks > 43_000
    assert not replay.opened, told(replay)


@pytest.mark.long
@pytest.mark.beside
@pytest.mark.parametrize("trainer", GENERATIONS)
def test_the_day_is_one_that_can_fail(replayed: Callable[..., Replay], trainer: str) -> None:
    """The same day with both sides silent from the end of some step on: found within three of its
    steps.
    """
    silent: list[float] = []

    def cut(attempt: Attempt) -> None:
        step = re.compile(rb"Step 25 \|")
        silent.append(
            next(
                line.t
                for line in attempt.lines
                if line.source == "orchestrator" and step.search(line.raw)
            )
        )
        attempt.lines = [
            line
            for line in attempt.lines
            if line.t <= silent[0] or line.source not in ("trainer", "orchestrator")
        ]

    replay = replayed(trainer, 1.0, 0, change=cut)
    assert [t.finding.failure for _, t in replay.opened] == ["run-stalled"]
    assert replay.opened[0][0] - silent[0] < 3 * 60
