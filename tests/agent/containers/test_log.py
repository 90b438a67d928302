"""What a container prints, asked of a stand-in for Docker's daemon: whose lines they are, and what
they cost of memory, disk and time.
"""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pytest

from bs4_agent.containers import log as container_log
from bs4_agent.containers.log import ContainerLog
from tests.agent.runs.practice import until
from tests.support.container import Docker, moment


@dataclass
class Printing:
    """A container without processes: what is written into `entry` its first process has printed."""

    output: BinaryIO
    entry: BinaryIO
    init: int = 1

    def say(self, *lines: str) -> None:
        self.entry.write("".join(f"{line}\n" for line in lines).encode())


@dataclass
class Bench:
    docker: Docker
    box: Printing
    directory: Path
    began_t: float

    def log(self) -> ContainerLog:
        return ContainerLog("trainer", self.directory, self.began_t)

    def kept(self) -> list[str]:
        paths = (self.directory / "container.log.1", self.directory / "container.log")
        return [line for path in paths if path.exists() for line in path.read_text().splitlines()]

    def printed(self, count: int) -> None:
        """Until the daemon has read that many lines."""
        until(lambda: len(self.docker.printed("trainer")) >= count, 30)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(container_log, "EVERY_S", 0.0)
    monkeypatch.setattr(container_log, "_PAUSES", 0)
    reading, writing = os.pipe()
    box = Printing(os.fdopen(reading, "rb"), os.fdopen(writing, "wb", buffering=0))
    docker = Docker(tmp_path, {"trainer": box})  # type: ignore[dict-item]
    monkeypatch.setenv("PATH", f"{docker.program}:{os.environ['PATH']}")
    directory = tmp_path / "attempt"
    directory.mkdir()
    try:
        yield Bench(docker, box, directory, time.time() - 60)
    finally:
        docker.close()
        box.entry.close()


def polled(log: ContainerLog, condition: Callable[[], object]) -> None:
    def look() -> object:
        log.poll(ended=False)
        return condition()

    until(look, 60)


def test_lines_of_the_containers_next_life_are_not_the_attempts(bench: Bench) -> None:
    """A restart policy starts it again before anybody has looked."""
    log = bench.log()
    bench.box.say("mine", "my last word")
    bench.printed(2)
    bench.docker.finished["trainer"] = moment()
    until(lambda: time.time_ns() > _ns(bench.docker.finished["trainer"]) + 0.2e9, 10)
    bench.box.say("somebody else's: CUDA out of memory")
    bench.printed(3)
    assert log.finish(30)
    assert (bench.kept(), log.problem) == (["mine", "my last word"], "")


def test_what_is_printed_after_the_end_is_not_the_attempts_for_the_next_agent_either(
    bench: Bench,
) -> None:
    bench.box.say("mine")
    bench.printed(1)
    assert bench.log().finish(30)
    bench.box.say("hours later: CUDA out of memory")
    bench.printed(2)
    asked = len(bench.docker.asked)
    assert bench.log().finish(30)
    assert (bench.kept(), len(bench.docker.asked)) == (["mine"], asked)


def test_an_end_that_was_found_is_kept_by_who_asks_next(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent dies between the end and the lines before it."""
    bench.box.say("mine")
    bench.printed(1)
    first = bench.log()
    until(
        lambda: (
            first.poll(ended=True)
            and any(words[0] == "inspect" for words in bench.docker.asked)
            and first._until
        ),
        30,
    )
    bench.box.say("not mine")
    bench.printed(2)
    assert bench.log().finish(30)
    assert bench.kept() == ["mine"]


def test_a_long_answer_is_never_in_memory_as_a_whole(bench: Bench) -> None:
    lines = [f"{number:06d} {'x' * 1000}" for number in range(20_000)]
    for start in range(0, len(lines), 1000):
        bench.box.say(*lines[start : start + 1000])
    bench.printed(len(lines))
    log = bench.log()
    tracemalloc.start()
    try:
        polled(log, lambda: log._size >= 20_000 * 1008)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 << 20, "of an answer of 20 MB"
    assert bench.kept() == lines


def test_its_file_is_rotated_and_nothing_is_missing_or_twice(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_log, "FULL", 3000)
    log = bench.log()
    bench.box.say(*(f"first {number:04d} {'x' * 20}" for number in range(120)))
    bench.printed(120)
    polled(log, lambda: len(bench.kept()) == 120)
    assert (bench.directory / "container.log.1").stat().st_size >= 3000
    assert not (bench.directory / "container.log").exists()
    bench.box.say("second")
    bench.printed(121)
    heir = bench.log()
    polled(heir, lambda: len(bench.kept()) == 121)
    assert bench.kept()[-2:] == [f"first 0119 {'x' * 20}", "second"]


def test_a_full_disk_is_said_and_loses_and_doubles_nothing(bench: Bench) -> None:
    log = bench.log()
    log.path.symlink_to("/dev/full")
    bench.box.say("one", "two")
    bench.printed(2)
    polled(log, lambda: "No space left on device" in log.problem)
    log.path.unlink()
    polled(log, lambda: len(bench.kept()) == 2)
    assert (bench.kept(), log.problem) == (["one", "two"], "")


def test_a_daemon_that_hangs_holds_nobody_up_and_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_log, "ASK_S", 600.0)
    client = tmp_path / "docker"
    client.write_text("#!/bin/sh\nexec sleep 600\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    log = ContainerLog("trainer", tmp_path, 0.0)
    began = time.monotonic()
    assert not log.finish(0.1)
    assert time.monotonic() - began < 60.0
    monkeypatch.setattr(container_log, "ASK_S", 0.1)
    assert log.finish(30)
    assert "docker logs gave no" in log.problem
    assert ContainerLog("trainer", tmp_path, 0.0).finish(0), (
        "what could not be had is not asked for again"
    )


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("2026-01-02T03:04:05.123456789Z\n", 1767323045.123456),
        ("2026-01-02T03:04:05Z", 1767323045.0),
        ("2026-01-02 04:04:05.5 +0100 CET", 1767323045.5),
        ("0001-01-01T00:00:00Z", None),
        ("0001-01-01 00:00:00 +0000 UTC", None),
        ("", None),
    ],
)
def test_moments_as_docker_and_podman_write_them(said: str, expected: float | None) -> None:
    assert container_log._moment(said) == (
        None if expected is None else pytest.approx(expected, abs=1e-5)
    )


def _ns(stamp: str) -> float:
    found = container_log._moment(stamp)
    assert found is not None
    return found * 1e9
