"""The programs of the current generation's rollouts: their command lines, and when they end."""

from __future__ import annotations

import os
import re
import secrets
import time
from pathlib import Path

import pytest

from bs4_practice import faults, tree
from bs4_practice.miniature.harness import Harness, HarnessError
from bs4_practice.pod import PracticePod
from bs4_practice.tree import Process
from tests.practice.running import Run, Start, trained

_PROXY = re.compile(r"--base-url=http://127\.0\.0\.1:\d+/v1")
_KEY = re.compile(r"--api-key=[A-Za-z0-9_-]{22}")


def programs(pod: PracticePod) -> list[Process]:
    """Return the processes of the pod that have a key in their command line."""
    return [one for one in pod.processes() if any("api-key" in word for word in one.cmdline)]


async def worker_of(pod: PracticePod) -> Process:
    """Return the process that starts the programs. Between fork and exec a program looks like it,
    so it is waited for until there is one.
    """
    found: list[Process] = []

    def alone() -> bool:
        found[:] = faults.find(pod, "env-worker")
        return len(found) == 1

    await faults.until(alone, 60, "one environment worker")
    return found[0]


def started(question: str) -> Process:
    """Return the program below this process that has the question, once its command line can be
    read: the kernel shows none for a moment after exec.
    """
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for one in tree.below(os.getpid()):
            if f"--prompt={question}" in one.cmdline:
                return one
    pytest.fail("no program has the question")


async def held(pod: PracticePod) -> list[Process]:
    """Stop the engine, so that no rollout ends, and return the programs once all have started."""
    for engine in faults.find(pod, "engine"):
        faults.pause(engine)
    seen: list[set[int]] = [set()]

    def settled() -> bool:
        seen.append({one.pid for one in programs(pod)})
        return len(seen[-1]) >= 8 and seen[-1:] * 10 == seen[-10:]

    await faults.until(settled, 60, "a program for each rollout under way")
    return programs(pod)


async def test_each_rollout_is_a_program_with_a_key_of_its_own(start: Start) -> None:
    async with start("current") as pod, Run(pod):
        await trained(pod, 2)
        worker = await worker_of(pod)
        running = await held(pod)
        assert {one.ppid for one in running} == {worker.pid}
        assert len({one.cmdline[3] for one in running}) == len(running)
        for one in running:
            assert Path(one.cmdline[0]).name == "python3"
            assert Path(one.cmdline[1]).parent == pod.home / ".cache/verifiers/runtimes/scripts"
            assert _PROXY.fullmatch(one.cmdline[2])
            assert _KEY.fullmatch(one.cmdline[3])
            assert one.cmdline[-1].startswith("--prompt=")


async def test_a_program_ends_with_its_rollout(start: Start) -> None:
    async with start("current") as pod, Run(pod):
        await trained(pod, 2)
        running = await held(pod)
        for engine in faults.find(pod, "engine"):
            faults.resume(engine)
        await faults.until(lambda: not any(tree.alive(one) for one in running), 60, "their end")
        worker = await worker_of(pod)
        await faults.until(lambda: not zombies(worker.pid), 60, "all of them collected")


def zombies(parent: int) -> list[int]:
    """Return the children of a process that have ended and were not collected."""
    found = []
    for entry in Path("/proc").iterdir():
        process = tree.look(int(entry.name)) if entry.name.isdigit() else None
        if process is not None and process.ppid == parent and process.state == "Z":
            found.append(process.pid)
    return found


async def test_the_programs_end_with_a_worker_that_is_killed(start: Start) -> None:
    async with start("current") as pod, Run(pod):
        await trained(pod, 2)
        running = await held(pod)
        worker = await worker_of(pod)
        assert faults.kill(worker)
        await faults.until(lambda: not any(tree.alive(one) for one in running), 60, "their end")


async def test_januarys_rollouts_have_no_programs(start: Start) -> None:
    async with start("2026-01") as pod, Run(pod):
        await trained(pod, 2)
        assert programs(pod) == []


def test_a_program_that_is_killed_fails_its_rollout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    harness = Harness()
    question = secrets.token_hex(8)
    with pytest.raises(HarnessError, match="exited -9"), harness.program("model", question):
        assert faults.kill(started(question))
    with harness.program("model", question):
        assert tree.alive(started(question))
    assert not [one for one in tree.below(os.getpid()) if f"--prompt={question}" in one.cmdline]
