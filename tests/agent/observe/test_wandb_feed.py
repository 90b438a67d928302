"""W&B's own logs as lines of a run, and its address in the journal: real files, the real engine."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_agent.book import Book
from bs4_agent.observe.wandb_feed import EVERY_S, WandbFeed
from bs4_common.failures.compiled import Library
from bs4_common.failures.engine import Engine
from bs4_common.identity import Identity
from bs4_common.journal import Journal
from bs4_common.streams.segments import SegmentStream
from bs4_common.trainers import registry
from bs4_common.trainers.base import LaunchSpec
from bs4_console.failures.playbooks import compile_all
from tests.agent.facts import facts, healthy

RETRY = (
    '{"time":"2026-11-20T10:00:%02dZ","level":"INFO","msg":"api: retrying error","error":"Post: '
    'dial tcp: connection refused"}\n'
)
STARTED = '{"time":"2026-11-20T09:59:00Z","level":"INFO","msg":"stream: started"}\n'


class Place:
    """A run's directory, the feed over it, and a clock in our hands."""

    def __init__(self, root: Path) -> None:
        self.now = 1000.0
        self.spec = LaunchSpec(
            run="demo",
            trainer="prime-rl-2026-01",
            config=Path("rl.toml"),
            cwd=root,
            output_dir=root / "out",
        )
        self.attempt = SimpleNamespace(
            number=1,
            end=None,
            started_t=time.time() - 5,
            started_m=time.monotonic() - 5,
            shim=Identity.of(os.getpid()),
        )
        self.runs_ = [SimpleNamespace(name="demo", spec=self.spec, attempt=self.attempt)]
        self.book = Book(Journal(SegmentStream(root / "journal", 1 << 20, 1 << 18)))
        self.book.append(
            "run", event="attempt-started", run="demo", attempt=1, trainer="prime-rl-2026-01"
        )
        self.fed: list[tuple[str, str, int, int, str]] = []
        self.engine = Engine(list(Library(compile_all())))
        (root / "rl.toml").write_text("")
        self.feed = self.begin()

    def begin(self) -> WandbFeed:
        runs: Any = SimpleNamespace(
            all=lambda: self.runs_,
            trainer=lambda run: registry.get((run.spec if hasattr(run, "spec") else run).trainer),
            attempt_directory=lambda run, number: self.spec.cwd / "attempts" / run / str(number),
        )
        return WandbFeed(runs, self.book, self._line, clock=lambda: self.now)

    def _line(
        self, run: str, attempt: int, trainer: str, source: str, line: Any, place: Any
    ) -> None:
        self.fed.append(
            (
                run,
                line.text.split("\n")[0],
                place["offset"],
                place["line"],
                Path(place["file"]).name,
            )
        )
        self.engine.feed(run, attempt, trainer, source, line, place)

    def log(
        self, name: str = "debug-internal.log", root: str = "out", stamp: str = "20261120_100000"
    ) -> Path:
        path = self.spec.cwd / root / "wandb" / f"run-{stamp}-a1" / "logs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return path

    def poll(self) -> None:
        self.now += EVERY_S
        self.feed.poll()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.poll()
    return made


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_lines_come_once_with_their_places_and_whole(place: Place) -> None:
    log = place.log()
    line = RETRY % 1
    append(log, STARTED + line[:30])
    place.poll()
    assert place.fed == [("demo", "stream: started", 0, 1, "debug-internal.log")]
    append(log, line[30:])
    place.poll()
    place.poll()
    assert place.fed[1:] == [("demo", "api: retrying error", len(STARTED), 2, "debug-internal.log")]


def test_it_looks_seldom(place: Place) -> None:
    append(place.log(), STARTED)
    place.now += EVERY_S / 2
    place.feed.poll()
    assert place.fed == []


def test_a_server_that_is_lost_becomes_a_finding_and_no_sign_of_life(place: Place) -> None:
    log = place.log()
    for number in range(5):
        append(log, RETRY % number)
        place.poll()
    found = place.engine.evaluate(facts(healthy("prime-rl-2026-01")), complete=True)
    (item,) = [t.finding for t in found if t.finding.failure == "wandb-unreachable"]
    assert item.evidence[0]["file"] == str(log)
    assert item.evidence[0]["line"] == 1


def test_what_an_earlier_agent_has_read_is_not_read_again(place: Place) -> None:
    log = place.log()
    append(log, STARTED)
    place.feed = place.begin()
    place.poll()
    append(log, RETRY % 1)
    place.poll()
    assert [text for _, text, *_ in place.fed] == ["api: retrying error"]


def test_only_this_attempts_logs(place: Place) -> None:
    old = place.log(stamp="20261118_100000")
    append(old, STARTED)
    os.utime(old, (1, 1))
    place.poll()
    assert place.fed == []
    place.attempt.end = SimpleNamespace(t=time.time() - 60)
    append(place.log(), STARTED)
    place.poll()
    assert place.fed == []


def test_an_earlier_attempts_log_is_not_read_as_this_ones_after_the_clock_was_set_back(
    place: Place,
) -> None:
    place.attempt.started_t += 3600.0
    log = place.log()
    append(log, STARTED)
    earlier = time.time() - 4.0
    os.utime(log, (earlier, earlier))
    place.poll()
    assert place.fed == []
    append(log, RETRY % 1)
    place.poll()
    assert [text for _, text, *_ in place.fed] == ["api: retrying error"]


def test_a_working_directory_of_two_living_runs_is_nobodys(place: Place) -> None:
    other = dataclasses.replace(place.spec, run="other", output_dir=place.spec.cwd / "other")
    place.runs_.append(SimpleNamespace(name="other", spec=other, attempt=place.attempt))
    append(place.log(root="."), STARTED)
    append(place.log("debug-core.log", root="other"), "panic: runtime error: index out of range\n")
    place.poll()
    assert [(run, text) for run, text, *_ in place.fed] == [
        ("other", "panic: runtime error: index out of range")
    ]


def test_a_log_that_was_cut_short_is_read_anew(place: Place) -> None:
    log = place.log()
    append(log, STARTED + STARTED)
    place.poll()
    log.write_text(RETRY % 1)
    place.poll()
    assert [(text, line) for _, text, _, line, _ in place.fed] == [
        ("stream: started", 1),
        ("stream: started", 2),
        ("api: retrying error", 1),
    ]


def test_where_w_and_b_shows_a_run_is_journalled_once_for_each_side(place: Place) -> None:
    logs = place.spec.output_dir / "logs"
    logs.mkdir(parents=True)
    (logs / "trainer.stdout").write_text("wandb: View run at https://wandb.ai/team/proj/runs/t1\n")
    place.poll()
    place.poll()
    (logs / "orchestrator.stdout").write_text(
        "wandb: View run at https://wandb.ai/team/proj/runs/o1\n"
    )
    place.poll()
    place.poll()
    told = [r for r in place.book.records() if r["type"] == "run" and r["event"] == "tracked"]
    assert [[entry["id"] for entry in r["runs"]] for r in told] == [["t1"], ["t1", "o1"]]
    view = place.book.ledger.runs["demo"]
    assert (
        view.tracked_attempt,
        [(e["side"], e["entity"], e["project"]) for e in view.tracked],
    ) == (
        1,
        [("trainer", "team", "proj"), ("orchestrator", "team", "proj")],
    )
