"""The cable is pulled for half a minute in a flood of lines, and the agent is killed meanwhile:
nothing is lost, nothing is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

import pytest

from bs4_console.errors import LinkError
from bs4_console.pods.mirror import Mirror
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import PodState
from tests.e2e import journals, writer_text
from tests.support.pod import TestPod
from tests.support.transports import transport

CUT_S = 30.0
#: 5,000 lines a second for 45 s: before the cut, through it, and a while after.
RATE, LINES = 5000, 225_000
STREAM = "log/flood/trainer"
DOWN = ("unreachable", "lost")


class Reader:
    """Follows one log by its cursor, as every view of it does, and keeps what came."""

    def __init__(self, session: PodSession) -> None:
        self._session = session
        self.data = bytearray()
        self.gaps: list[object] = []
        self.breaks = 0

    @property
    def lines(self) -> int:
        return self.data.count(b"\n")

    async def follow(self, count: int) -> None:
        cursor = "start"
        while self.lines < count:
            try:
                chunk = await self._session.read_log(STREAM, cursor, wait=5.0, ahead=True)
            except LinkError:
                self.breaks += 1
                await asyncio.sleep(0.2)
                continue
            if chunk.gap:
                self.gaps.append(chunk.gap)
            if not chunk.repeats:
                self.data += chunk.data
            cursor = chunk.next


@contextlib.asynccontextmanager
async def living(session: PodSession):  # type: ignore[no-untyped-def]
    life = asyncio.create_task(session.run())
    try:
        await session.synced(60)
        yield
    finally:
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)


async def until(condition, timeout: float, what: str) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout:g} s in vain for {what}"
        await asyncio.sleep(0.05)


def furnish(pod: TestPod) -> Path:
    """A place to train in, and a `uv` that writes. The pod's home as seen from here."""
    home = pod.root / pod.home.lstrip("/")
    (home / "work").mkdir()
    (home / "work" / "rl.toml").write_text("max_steps = 10\n")
    program = home / ".local" / "bin" / "uv"
    program.parent.mkdir(parents=True)
    program.write_text(writer_text(RATE, LINES))
    program.chmod(0o755)
    return home


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_every_line_comes_once_and_in_order_and_nothing_is_done(
    pod: TestPod, tmp_path: Path
) -> None:
    home = furnish(pod)
    mirror = Mirror(tmp_path / "mirror")
    session = PodSession(
        PodState(name=pod.name), lambda: transport(pod, tmp_path), mirror, "tester"
    )
    async with living(session):
        body = {
            "run": "flood",
            "trainer": "prime-rl-2026-01",
            "config": "rl.toml",
            "cwd": "work",
            "output_dir": "out",
            "wait": False,
        }
        key = await session.submit("launch", **body)
        await until(
            lambda: (
                session.state.ledger.actions[key].ended
                if key in session.state.ledger.actions
                else False
            ),
            120,
            "the launch",
        )
        assert session.state.ledger.actions[key].state == "done", session.state.ledger.actions[
            key
        ].detail
        reader = Reader(session)
        reading = asyncio.create_task(reader.follow(LINES))
        await until(
            lambda: reader.lines > 2 * RATE or reading.done(), 60, "the first two seconds of lines"
        )
        agent = int(session.state.hello["pid"])
        before = len(journals.records(home))

        cut_at = time.monotonic()
        pod.cut()
        try:
            await asyncio.sleep(CUT_S / 3)
            assert pod.run(["kill", "-9", str(agent)]).returncode == 0
            await until(lambda: session.state.link.state in DOWN, 40, "a link that is called down")
            link = session.state.link
            down_after = time.monotonic() - cut_at
            since = link.since
            assert cut_at < since <= time.monotonic()
            over = max(cut_at + CUT_S, time.monotonic() + 5.0)
            while time.monotonic() < over:
                assert (link.state in DOWN, link.since) == (True, since), (
                    "a retry must not hide that it is down, nor since when"
                )
                assert link.detail
                assert session.state.worst()[0] == 3, (
                    "unknown, not critical: a link says nothing about the run"
                )
                await asyncio.sleep(0.05)
        finally:
            pod.restore()
        restored = time.monotonic()
        session.retry_now()
        await until(lambda: session.state.link.up, 120, "the link's return")
        back_after = time.monotonic() - restored
        await asyncio.wait_for(reading, 240)

        numbers = [int(line.split(b"line ")[1][:8]) for line in reader.data.splitlines()]
        assert numbers == list(range(LINES))
        assert reader.gaps == []
        assert reader.breaks > 0, "the link was never felt to be gone"
        assert int(session.state.hello["pid"]) != agent
        told = journals.records(home)[before:]
        assert [r for r in told if r["type"] in ("action", "incident", "plan")] == []
        assert [r["event"] for r in told if r["type"] == "agent"][:1] in (
            ["started"],
            ["restarted"],
        )
        assert journals.problems(home, tmp_path) == []
        assert session.state.ledger.runs["flood"].attempt.state == "running"  # type: ignore[union-attr]
    files = (tmp_path / "mirror").rglob(f"{STREAM}/*.data")
    kept = b"".join(
        path.read_bytes()
        for path in sorted(files, key=lambda p: [int(n) for n in p.stem.split(".")])
    )
    assert kept == bytes(reader.data)
    print(
        f"down was seen after {down_after:.1f} s; {back_after:.1f} s from the cable to the "
        f"agent; {len(kept) / 1e6:.1f} MB, {LINES} lines"
    )
