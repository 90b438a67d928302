"""A run that trains, and its checkpoints in a store over real HTTP: by the pod alone, whoever is
killed.
"""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from bs4_agent.paths import Home
from bs4_agent.setup.credentials import store as store_credential
from bs4_console.checkpoints import sync
from bs4_console.transport.deploy_b2 import bring
from bs4_console.transport.hostkeys import HostKeys
from bs4_console.transport.ssh import SshTransport
from bs4_practice import tree
from bs4_practice.b2.faults import Fault
from bs4_practice.b2.server import B2Server
from bs4_practice.person import edit_config
from bs4_practice.stage import Stage, inventory_entry, staged
from tests.agent.checkpoints.remote.bench import BUCKET, PREFIX, RUN, lying_in, pointed
from tests.e2e import journals

pytestmark = [pytest.mark.long, pytest.mark.beside]

STEP_S = 0.3


async def _bring(stage: Stage, scratch: Path) -> None:
    """b2sdk, over SSH, as `checkpoints sync` brings it."""
    hostkeys = HostKeys(scratch / "known_hosts")
    hostkeys.pin(stage.pod.name, stage.pod.known_host_key)
    link = SshTransport(inventory_entry(stage.pod), hostkeys)
    try:
        assert await bring(link, lambda _: None)
        assert not await bring(link, lambda _: None)
    finally:
        await link.close()


def _workers(stage: Stage) -> list[int]:
    """Living sync workers of this pod, by their module and its home."""
    home = str(stage.pod.home / ".bs4")
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            environment = (process / "environ").read_bytes()
        except OSError:
            continue
        mine = (
            f"HOME={stage.pod.home}".encode() in environment.split(b"\0")
            or home.encode() in environment
        )
        if b"bs4_agent.checkpoints.remote.worker" in words and mine:
            found.append(int(process.name))
    return found


@pytest.mark.timeout(900)
@pytest.mark.parametrize("trainer", ["prime-rl-2026-01", "prime-rl"])
async def test_a_run_is_in_the_store_whoever_is_killed(trainer: str, tmp_path: Path) -> None:
    with B2Server(tmp_path / "b2") as server:
        server.bucket(BUCKET)
        key = server.key("listBuckets", "listFiles", "readFiles", "writeFiles")
        async with staged(trainer, step_seconds=STEP_S, env={"BS4_B2_REALM": server.url}) as stage:
            store_credential(
                "b2", {"key_id": key.id, "key": key.secret}, Home(stage.pod.home / ".bs4")
            )
            await _bring(stage, tmp_path)
            edit_config(stage, {"ckpt.interval": 2})
            await stage.launch(wait=False)
            await stage.must("sync", run=RUN, to=f"b2://{BUCKET}/{PREFIX}")
            view = stage.ledger.syncs[RUN]
            await stage.until(lambda: view.pointer is not None, 180, "the first upload")

            # The worker, in the middle of one.
            before = view.pointer
            server.faults.add(Fault("hang", call="b2_upload_file", name=".metadata", seconds=2.0))
            victim = tree.look((await stage.until(lambda: _workers(stage), 120, "a worker"))[0])
            if victim is not None:
                tree.send(victim, signal.SIGKILL)
            await stage.until(lambda: (view.pointer or 0) > (before or 0), 180, "the next upload")
            assert pointed(server) is not None

            # The agent, with kill -9: the shim starts another one, which goes on by itself.
            agent = tree.look(int(stage.session.state.hello["pid"]))
            assert agent is not None
            before = pointed(server)
            tree.send(agent, signal.SIGKILL)
            async with asyncio.timeout(240):
                while (pointed(server) or 0) <= (before or 0) + 2:
                    await asyncio.sleep(0.3)
            await stage.until(
                lambda: len(journals.agents(stage.pod.home)) == 2,
                120,
                "the second life of the agent",
            )

            await stage.must("stop", run=RUN)
            whole = await stage.until(lambda: _newest(stage), 60, "a checkpoint")
            await stage.until(
                lambda: stage.ledger.syncs[RUN].pointer == whole, 180, f"step {whole} in the store"
            )
            await stage.until(
                lambda: any("/logs/1/" in name for name in lying_in(server)),
                120,
                "the logs of the attempt that ended",
            )
            assert pointed(server) == whole
            found = sync.status(stage.session.state, RUN)
            assert found is not None
            assert found["failures"] == 0
            told = json.dumps(journals.records(stage.pod.home))
            assert key.secret not in told
            assert journals.problems(stage.pod.home, tmp_path) == []
            seen = _compare(stage, lying_in(server), whole)
            assert seen >= 3


def _newest(stage: Stage) -> int | None:
    """The newest whole step, by the files themselves."""
    found = []
    for place in (stage.pod.run_dir / "checkpoints").glob("step_*"):
        flat = place / "orchestrator" / "progress.pt"
        apart = (
            stage.pod.run_dir
            / "run_default"
            / "checkpoints"
            / place.name
            / "orchestrator"
            / "buffer"
            / "rollout_buffer.jsonl"
        )
        broadcast = stage.pod.run_dir / "run_default" / "broadcasts" / place.name / "STABLE"
        if (place / "trainer" / ".metadata").exists() and (
            flat.exists() or (apart.exists() and broadcast.exists())
        ):
            found.append(int(place.name[5:]))
    return max(found, default=None)


def _compare(stage: Stage, bucket: dict[str, bytes], step: int) -> int:
    """Every file of the step in the store is byte for byte the one on the pod."""
    base = f"{PREFIX}/{RUN}/steps/step_{step}/files/"
    names = [
        name
        for name in bucket
        if name.startswith(base) and f"/step_{step}/" in name[len(base) - 1 :]
    ]
    for name in names:
        assert (stage.pod.output_dir / name[len(base) :]).read_bytes() == bucket[name], name
    return len(names)
