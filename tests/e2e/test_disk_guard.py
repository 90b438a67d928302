"""Two hundred checkpoints on a disk that holds four, with an upload that is slower than writing:
the run lives, and nothing new is lost.

A real run saves every few minutes and the guard looks every five seconds. Here a save takes a
fraction of a second on a machine that may stall for longer, so the rollouts wait, on their way to
the server, until the guard has had its turn: at most as long as PATIENCE_S. Then they go on, guard
or no guard, and the disk is full.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bs4_agent.checkpoints.holds import hold, holder
from bs4_agent.paths import Home
from bs4_common.errors import Busy
from bs4_console.checkpoints import listing
from bs4_practice import disks, faults
from bs4_practice.b2.faults import Fault
from bs4_practice.b2.server import B2Server
from bs4_practice.person import edit_config
from bs4_practice.stage import Stage, staged
from tests.agent.checkpoints.remote.bench import BUCKET, PREFIX, pointed
from tests.e2e import journals
from tests.e2e.killing import kill_agent_at
from tests.e2e.lost_pods import give_key

pytestmark = pytest.mark.beside

SAVES = 200
#: One checkpoint, and a disk for four of them with what else a run writes (logs, 200 batches of 16
#: kB) but never for five.
SAVED_BYTES, DISK_MIB = 8 * disks.MIB, 38
STEP_S = 0.15
PATIENCE_S = 120.0
#: New checkpoints during one upload.
SLOWER = 5
#: And uploads during the run, at least.
UPLOADS = 5


class Gate:
    """Between the orchestrator and the server. The rollouts of batch N, from which step N is
    trained and after which N + 1 is saved, pass when N has been saved and no more lies there than
    the two newest sets and the one that is uploaded.
    """

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
            await asyncio.gather(
                self._pump(reader, to_writer, gated=True),
                self._pump(to_reader, writer),
                return_exceptions=True,
            )
        except OSError:
            pass  # the server is not up yet
        except asyncio.CancelledError:
            pass  # the test is over; a cancelled callback of a server would be logged as a defect
        writer.close()

    async def _pump(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, gated: bool = False
    ) -> None:
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
                    side
                    / "checkpoints"
                    / place.name
                    / "orchestrator"
                    / "buffer"
                    / "rollout_buffer.jsonl",
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
        # Looked at again: on a busy machine a newer one may have become whole, and the old one
        # gone, while the first look was being taken.
        left = self.whole() if gone else now
        self.wrong += [
            f"step {step} went, and {left} was left"
            for step in gone
            if sum(other > step for other in left) < 2
        ]
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
            with (
                contextlib.suppress(Busy),
                hold(Home(home / ".bs4"), "demo", newest, "the test's upload"),
            ):
                if newest in self.whole():
                    await self._send(newest)

    async def _send(self, step: int) -> None:
        before = self.hashes(step)
        while max(self.whole(), default=0) < step + SLOWER:
            await asyncio.sleep(0.05)
        if self.hashes(step) != before:
            self.wrong.append(f"step {step} changed or went while it was being uploaded")
        self.uploaded.append(step)

    def hashes(self, step: int) -> dict[str, str]:
        roots = [
            self.out / "checkpoints",
            self.out / "run_default" / "checkpoints",
            self.out / "run_default" / "broadcasts",
        ]
        files = [
            path
            for root in roots
            for path in (root / f"step_{step}").rglob("*")
            if path.is_file() and path.name != "NCCL_READY"
        ]
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


class SlowStore:
    """A bucket over real HTTP: each upload stands still before its last but smallest files until
    SLOWER new checkpoints are there, and what it reads must lie there untouched all the while.
    """

    def __init__(self, server: B2Server, disk: Disk, home: Path) -> None:
        self._disk, self._home = disk, Home(home / ".bs4")
        self.held: list[int] = []
        self.given_up = 0
        self.over = threading.Event()
        server.bucket(BUCKET)
        server.faults.add(
            Fault(
                "stop", call="b2_upload_file", name="trainer/.metadata", times=None, on=self._stand
            )
        )

    def _stand(self) -> None:
        begun = self._disk.whole()
        [step] = [step for step in begun if holder(self._home, "demo", step)]
        before, deadline = self._disk.hashes(step), time.monotonic() + PATIENCE_S
        while max(self._disk.whole()) < max(begun) + SLOWER and not self.over.is_set():
            if time.monotonic() > deadline:
                self.given_up += 1
                break
            time.sleep(0.05)
        if not self.over.is_set() and self._disk.hashes(step) != before:
            self._disk.wrong.append(f"step {step} changed or went while it was being uploaded")
        self.held.append(step)


@contextlib.asynccontextmanager
async def beside(*tasks: asyncio.Task[None]) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def alive(stage: Stage) -> bool:
    ended = [
        i.failure
        for i in stage.ledger.open_incidents()
        if i.failure in ("disk-full", "checkpoint-write-failed")
    ]
    assert not ended, ended
    assert stage.session.state.runs["demo"].word in ("starting", "running"), (
        stage.session.state.runs["demo"].view.attempt
    )
    return True


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(bool(disks.needs_mounts()), reason=disks.needs_mounts())
async def test_a_run_outlives_its_disk(tmp_path: Path) -> None:
    with B2Server(tmp_path / "b2") as server:
        env = {"BS4_MINIATURE_CHECKPOINT_BYTES": str(SAVED_BYTES), "BS4_B2_REALM": server.url}
        async with staged("prime-rl-2026-01", step_seconds=STEP_S, env=env) as stage:
            out = await asyncio.to_thread(
                disks.give_own_disk, stage, stage.pod.output_dir, DISK_MIB
            )
            disk = Disk(out)
            store = SlowStore(server, disk, stage.pod.home)
            await asyncio.to_thread(give_key, stage.pod, server, write=True, library=True)
            gate = Gate(disk, stage.pod.api_port)
            async with gate.open() as port:
                url = [f"http://127.0.0.1:{port}/v1"]
                edit_config(
                    stage,
                    {"ckpt.interval": 1, "max_async_level": 0, "orchestrator.client.base_url": url},
                )
                await stage.launch(wait=False)
                await stage.must("keep", run="demo", last=2)
                await stage.must("sync", run="demo", to=f"b2://{BUCKET}/{PREFIX}")
                async with beside(asyncio.create_task(disk.watch())):
                    try:
                        enough = lambda: len(disk.saved) >= SAVES and len(store.held) >= UPLOADS  # noqa: E731
                        await stage.until(
                            lambda: alive(stage) and enough(),
                            800,
                            f"checkpoint {SAVES}, {UPLOADS} uploads",
                        )
                    except BaseException:
                        _tell(stage, disk)
                        raise
                    finally:
                        store.over.set()
                    found = await listing.of_pod(stage.session, "demo")
                    assert faults.find(stage.pod, "rank"), "the trainer is there still"
            assert disk.wrong == []
            assert (gate.given_up, store.given_up) == (0, 0)
            # Slower than writing, and yet it comes along.
            assert len(store.held) <= len(disk.saved) // SLOWER + 1
            assert store.held == sorted(set(store.held))
            assert pointed(server) in store.held
            synced = [r for r in journals.records(stage.pod.home) if r["type"] == "sync"]
            assert {r["step"] for r in synced if r["event"] == "step-done"} >= set(store.held[:-1])
            assert [r["detail"] for r in synced if r["event"] == "failed"] == []
            assert found["order"]["last"] == 2
            assert len([one for one in found["checkpoints"] if one["complete"]]) >= 2
            assert "keep-last 2" in listing.standing(stage.session.state, "demo")
            _check_journal(stage, tmp_path, 150)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_the_current_generation_with_its_broadcasts(tmp_path: Path) -> None:
    """On a disk with room: who goes and who stays, also when the agent is killed between moving
    aside and freeing.
    """
    async with staged("prime-rl", step_seconds=STEP_S) as stage:
        edit_config(stage, {"ckpt.interval": 1})
        await stage.launch(wait=False)
        await stage.must("keep", run="demo", last=2, milestones=10)
        disk = Disk(stage.pod.run_dir, flat=True)
        async with beside(asyncio.create_task(disk.watch())):
            async with beside(asyncio.create_task(disk.upload(stage.pod.home))):
                await stage.until(
                    lambda: alive(stage) and len(disk.saved) >= 12, 240, "checkpoint 12"
                )
                await kill_agent_at(
                    stage,
                    lambda: _moved_by(stage),
                    lambda record: record["event"] == "intent" and record["step"] == 1,
                )
                await stage.until(
                    lambda: alive(stage) and len(disk.saved) >= 30 and len(disk.uploaded) >= 2,
                    400,
                    "checkpoint 30",
                )
            await stage.must("stop", run="demo")
            await stage.until(
                lambda: [step for step in disk.whole() if step % 10] == disk.newest(2),
                240,
                "the last rotation",
            )
        assert disk.wrong == []
        assert {10, 20, 30} <= set(disk.whole())
        kept = {int(path.name[5:]) for path in (stage.pod.run_dir / "broadcasts").glob("step_*")}
        assert {10, 20, 30} <= kept
        assert len(kept) <= len(disk.whole()) + 3, (
            "those of kept steps, and what the trainer still uses"
        )
        assert len(journals.agents(stage.pod.home)) == 2, (
            "the order was carried on by the next life"
        )
        trash = stage.pod.project / ".bs4" / "demo" / "trash"
        await stage.until(lambda: not list(trash.glob("*")), 120, "an empty trash")
        await stage.until(
            lambda: not stage.ledger.unfinished("rotate"), 120, "the end of the last rotation"
        )
        _check_journal(stage, tmp_path, 10)


def _moved_by(stage: Stage) -> str | None:
    """The newest rotation."""
    told = [
        r["action"]
        for r in journals.records(stage.pod.home)
        if r["type"] == "action" and r.get("kind") == "rotate"
    ]
    return told[-1] if told else None


def _check_journal(stage: Stage, scratch: Path, sets: int) -> None:
    """Every rotation is an action with what it freed, and none took one of the two newest."""
    told = journals.records(stage.pod.home)
    rotations = [r for r in told if r["type"] == "action" and r.get("kind") == "rotate"]
    for accepted in rotations:
        assert len(accepted["body"]["kept"]) == 2
        assert max(accepted["body"]["steps"]) < min(accepted["body"]["kept"])
    ends = [
        r
        for r in told
        if r["type"] == "action"
        and r["event"] == "done"
        and r["action"] in {a["action"] for a in rotations}
    ]
    freed = [step for end in ends for step in end["result"]["steps"]]
    assert len(freed) == len(set(freed))
    assert len(freed) > sets
    assert journals.problems(stage.pod.home, scratch) == []


def _tell(stage: Stage, disk: Disk) -> None:
    """For the report of a failed test."""
    print(
        "whole",
        disk.whole(),
        "uploaded",
        disk.uploaded[-3:],
        "saved",
        len(disk.saved),
        "wrong",
        disk.wrong,
    )
    for record in journals.records(stage.pod.home)[-40:]:
        print(
            str(
                {
                    k: v
                    for k, v in record.items()
                    if k not in ("b", "prev", "plan", "evidence", "coverage", "argv")
                }
            )[:600]
        )
    print((stage.pod.home / ".bs4" / "agent.log").read_text(errors="replace")[-3000:])
