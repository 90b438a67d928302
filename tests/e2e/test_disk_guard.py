"""Two hundred checkpoints on a disk that holds four, with an upload that is slower than writing: the run lives, and nothing new is lost.

A real run saves every few minutes and the guard looks every five seconds. Here a save takes a fraction of a second on a machine that may
stall for longer, so the rollouts wait, on their way to the server, until the guard has had its turn: at most as long as PATIENCE_S. Then
they go on, guard or no guard, and the disk is full.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bs4_agent.checkpoints.holds import hold
from bs4_agent.errors import Busy
from bs4_agent.paths import Home
from bs4_console.core import checkpoints
from bs4_console.demo import disks, faults
from bs4_console.demo.person import edit_config
from bs4_console.demo.stage import Stage, staged
from tests.e2e import journals
from tests.e2e.killing import kill_agent_at

pytestmark = pytest.mark.beside

SAVES = 200
#: One checkpoint, and a disk for four of them with what else a run writes (logs, 200 batches of 16 kB) but never for five.
SAVED_BYTES, DISK_MIB = 8 * disks.MIB, 38
STEP_S = 0.15
PATIENCE_S = 60.0
#: New checkpoints during one upload.
SLOWER = 5


class Gate:
    """Between the orchestrator and the server. The rollouts of batch N, from which step N is trained and after which N + 1 is saved, pass
    when N has been saved and no more lies there than the two newest sets and the one that is uploaded."""

    BATCH = 8

    def __init__(self, disk: Disk, port: int) -> None:
        self._disk, self._port = disk, port
        self._asked = 0
        self.given_up = 0

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[int]:
        """Its port."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self._port)
            await asyncio.gather(self._pump(reader, to_writer, gated=True), self._pump(to_reader, writer), return_exceptions=True)
        except OSError:
            pass  # the server is not up yet
        except asyncio.CancelledError:
            pass  # the test is over; a cancelled callback of a server would be logged as a defect
        writer.close()

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, gated: bool = False) -> None:
        try:
            while data := await source.read(65536):
                if gated and b"POST " in data and b"completions" in data:
                    await self._turn()
                target.write(data)
                await target.drain()
        finally:
            target.close()

    async def _turn(self) -> None:
        batch, self._asked = self._asked // self.BATCH, self._asked + 1
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not self._disk.has_room(batch):
                    await asyncio.sleep(0.01)
        except TimeoutError:
            self.given_up += 1


class Disk:
    """What lies there, looked at without the product's own code."""

    def __init__(self, out: Path, *, flat: bool = False) -> None:
        self.out, self._flat = out, flat
        self.saved: set[int] = set()
        self.uploaded: list[int] = []
        self.wrong: list[str] = []
        self._before: list[int] = []

    def whole(self) -> list[int]:
        """Complete steps, oldest first."""
        found = []
        for place in (self.out / "checkpoints").glob("step_*"):
            needed = [place / "trainer" / ".metadata", place / "trainer" / "__0_0.distcp"]
            side = self.out / "run_default"
            needed += (
                [place / "orchestrator" / "progress.pt"]
                if self._flat
                else [
                    side / "checkpoints" / place.name / "orchestrator" / "buffer" / "rollout_buffer.jsonl",
                    side / "broadcasts" / place.name / "STABLE",
                    side / "broadcasts" / place.name / "model.safetensors",
                ]
            )
            if all(path.exists() for path in needed):
                found.append(int(place.name[5:]))
        return sorted(found)

    def newest(self, count: int) -> list[int]:
        """The last ones that were ever whole, milestones not among them."""
        whole = sorted(self.saved)
        return [step for step in whole[-count:] if step % 10]

    def has_room(self, batch: int) -> bool:
        there = len(list((self.out / "checkpoints").glob("step_*")))
        return there <= 3 and max(self.whole(), default=0) >= batch

    def look(self) -> None:
        now = self.whole()
        self.saved |= set(now)
        gone = [step for step in self._before if step not in now]
        self.wrong += [f"step {step} went, and {now} was left" for step in gone if sum(other > step for other in now) < 2]
        self._before = now

    async def watch(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(0.02)

    async def upload(self, home: Path) -> None:
        """The newest whole step, read slowly under a hold; the next one when that is done."""
        while True:
            newest = max(self.whole(), default=None)
            if newest is None or newest in self.uploaded:
                await asyncio.sleep(0.05)
                continue
            with contextlib.suppress(Busy), hold(Home(home / ".bs4"), "demo", newest, "the test's upload"):
                if newest in self.whole():
                    await self._send(newest)

    async def _send(self, step: int) -> None:
        before = self._hashes(step)
        while max(self.whole(), default=0) < step + SLOWER:
            await asyncio.sleep(0.05)
        if self._hashes(step) != before:
            self.wrong.append(f"step {step} changed or went while it was being uploaded")
        self.uploaded.append(step)

    def _hashes(self, step: int) -> dict[str, str]:
        roots = [self.out / "checkpoints", self.out / "run_default" / "checkpoints", self.out / "run_default" / "broadcasts"]
        files = [path for root in roots for path in (root / f"step_{step}").rglob("*") if path.is_file() and path.name != "NCCL_READY"]
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@contextlib.asynccontextmanager
async def beside(*tasks: asyncio.Task[None]) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def alive(stage: Stage) -> bool:
    ended = [i.failure for i in stage.ledger.open_incidents() if i.failure in ("disk-full", "checkpoint-write-failed")]
    assert not ended, ended
    assert stage.session.state.runs["demo"].word in ("starting", "running"), stage.session.state.runs["demo"].view.attempt
    return True


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.skipif(bool(disks.needs_mounts()), reason=disks.needs_mounts())
async def test_a_run_outlives_its_disk(tmp_path: Path) -> None:
    heavy = {"BS4_MINIATURE_CHECKPOINT_BYTES": str(SAVED_BYTES)}
    async with staged("prime-rl-2026-01", step_seconds=STEP_S, env=heavy) as stage:
        out = await asyncio.to_thread(disks.give_own_disk, stage, stage.pod.output_dir, DISK_MIB)
        disk = Disk(out)
        gate = Gate(disk, stage.pod.api_port)
        async with gate.open() as port:
            url = [f"http://127.0.0.1:{port}/v1"]
            edit_config(stage, {"ckpt.interval": 1, "max_async_level": 0, "orchestrator.client.base_url": url})
            await stage.launch(wait=False)
            await stage.must("keep", run="demo", last=2)
            async with beside(asyncio.create_task(disk.watch()), asyncio.create_task(disk.upload(stage.pod.home))):
                try:
                    await stage.until(lambda: alive(stage) and len(disk.saved) >= SAVES, 500, f"checkpoint {SAVES}")
                except BaseException:
                    _tell(stage, disk)
                    raise
                found = await checkpoints.of_pod(stage.session, "demo")
                assert faults.find(stage.pod, "rank"), "the trainer is there still"
        assert disk.wrong == []
        assert gate.given_up == 0
        assert len(disk.uploaded) >= SAVES // (SLOWER * 2)
        assert found["order"]["last"] == 2
        assert len([one for one in found["checkpoints"] if one["complete"]]) >= 2
        assert "keep-last 2" in checkpoints.standing(stage.session.state, "demo")
        _check_journal(stage, tmp_path, 150)


@pytest.mark.long
@pytest.mark.timeout(400)
async def test_the_current_generation_with_its_broadcasts(tmp_path: Path) -> None:
    """On a disk with room: who goes and who stays, also when the agent is killed between moving aside and freeing."""
    async with staged("prime-rl", step_seconds=STEP_S) as stage:
        edit_config(stage, {"ckpt.interval": 1})
        await stage.launch(wait=False)
        await stage.must("keep", run="demo", last=2, milestones=10)
        disk = Disk(stage.pod.run_dir, flat=True)
        async with beside(asyncio.create_task(disk.watch())):
            async with beside(asyncio.create_task(disk.upload(stage.pod.home))):
                await stage.until(lambda: alive(stage) and len(disk.saved) >= 12, 120, "checkpoint 12")
                await kill_agent_at(stage, lambda: _moved_by(stage), lambda record: record["event"] == "intent" and record["step"] == 1)
                await stage.until(lambda: alive(stage) and len(disk.saved) >= 30 and len(disk.uploaded) >= 2, 200, "checkpoint 30")
            await stage.must("stop", run="demo")
            await stage.until(lambda: [step for step in disk.whole() if step % 10] == disk.newest(2), 120, "the last rotation")
        assert disk.wrong == []
        assert {10, 20, 30} <= set(disk.whole())
        kept = {int(path.name[5:]) for path in (stage.pod.run_dir / "broadcasts").glob("step_*")}
        assert {10, 20, 30} <= kept
        assert len(kept) <= len(disk.whole()) + 3, "those of kept steps, and what the trainer still uses"
        assert len(journals.agents(stage.pod.home)) == 2, "the order was carried on by the next life"
        trash = stage.pod.project / ".bs4" / "demo" / "trash"
        await stage.until(lambda: not list(trash.glob("*")), 60, "an empty trash")
        await stage.until(lambda: not stage.ledger.unfinished("rotate"), 60, "the end of the last rotation")
        _check_journal(stage, tmp_path, 10)


def _moved_by(stage: Stage) -> str | None:
    """The newest rotation."""
    told = [r["action"] for r in journals.records(stage.pod.home) if r["type"] == "action" and r.get("kind") == "rotate"]
    return told[-1] if told else None


def _check_journal(stage: Stage, scratch: Path, sets: int) -> None:
    """Every rotation is an action with what it freed, and none took one of the two newest."""
    told = journals.records(stage.pod.home)
    rotations = [r for r in told if r["type"] == "action" and r.get("kind") == "rotate"]
    for accepted in rotations:
        assert len(accepted["body"]["kept"]) == 2
        assert max(accepted["body"]["steps"]) < min(accepted["body"]["kept"])
    ends = [r for r in told if r["type"] == "action" and r["event"] == "done" and r["action"] in {a["action"] for a in rotations}]
    freed = [step for end in ends for step in end["result"]["steps"]]
    assert len(freed) == len(set(freed))
    assert len(freed) > sets
    assert journals.problems(stage.pod.home, scratch) == []


def _tell(stage: Stage, disk: Disk) -> None:
    """For the report of a failed test."""
    print("whole", disk.whole(), "uploaded", disk.uploaded[-3:], "saved", len(disk.saved))
    for record in journals.records(stage.pod.home)[-40:]:
        print(str({k: v for k, v in record.items() if k not in ("b", "prev", "plan", "evidence", "coverage", "argv")})[:600])
    print((stage.pod.home / ".bs4" / "agent.log").read_text(errors="replace")[-3000:])
