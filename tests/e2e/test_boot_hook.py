"""A pod that its provider stops and starts again: the hook starts the agent, and the stored mode
says what becomes of the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bs4_console.launch import guide
from bs4_console.pods import boot_hook
from bs4_console.transport.hostkeys import HostKeys
from bs4_console.transport.ssh import SshTransport
from bs4_practice import pod as practice
from bs4_practice import tree
from bs4_practice.b2.server import B2Server
from bs4_practice.stage import GENERATIONS, Stage, connect, inventory_entry
from tests.e2e import journals, lost_pods

pytestmark = [pytest.mark.beside, pytest.mark.long]
PLAYBOOK = boot_hook.PLAYBOOK


class Machine:
    """One practice pod over several lives, on one disk."""

    def __init__(self, root: Path, trainer: str, server: B2Server) -> None:
        self.root, self.trainer, self.server = root, trainer, server

    async def power_on(self) -> practice.PracticePod:
        return await practice.start(
            "spot",
            GENERATIONS[self.trainer],
            self.root / "p",
            step_seconds=0.3,
            pace=0.5,
            env={"BS4_B2_REALM": self.server.url},
        )

    @contextlib.asynccontextmanager
    async def session(self, pod: practice.PracticePod) -> AsyncIterator[Stage]:
        session = connect(pod, self.root / "known_hosts")
        life = asyncio.create_task(session.run())
        try:
            await session.synced(60.0)
            yield Stage(pod, session, self.trainer)
        finally:
            life.cancel()
            await asyncio.gather(life, return_exceptions=True)


async def hook(pod: practice.PracticePod, root: Path) -> boot_hook.Seen:
    """What this console knows of the pod's hooks."""
    keys = HostKeys(root / "known_hosts")
    keys.pin(pod.name, pod.known_host_key)
    link = SshTransport(inventory_entry(pod), keys)
    try:
        return await boot_hook.probe(link, pod.name)
    finally:
        await link.close()


async def cut_power(pod: practice.PracticePod) -> None:
    """Everything at once: nobody is left who could notice that another one ended."""
    for signum in (signal.SIGSTOP, signal.SIGSTOP, signal.SIGKILL):
        for process in tree.below(pod.pid):
            tree.send(process, signum)
    await pod.stop()


def attempts(pod: practice.PracticePod) -> list[str]:
    return sorted(
        path.parent.name for path in (pod.home / ".bs4/runs/demo/attempts").glob("*/shim.json")
    )


@pytest.mark.timeout(900)
async def test_observe_opens_an_incident_and_auto_restores_and_resumes() -> None:
    trainer = "prime-rl"
    with (
        tempfile.TemporaryDirectory(prefix="bs4-") as directory,
        B2Server(Path(directory) / "b2") as server,
    ):
        server.bucket(lost_pods.BUCKET)
        machine = Machine(Path(directory), trainer, server)
        pod = await machine.power_on()
        try:
            async with machine.session(pod) as stage:
                await lost_pods.train(stage)
                await stage.until(
                    lambda: max((s for _, s in stage.steps()), default=0) >= 5, 240, "step 5"
                )
                seen = await hook(pod, machine.root)
                assert "There is no boot hook" in boot_hook.verdict(seen)[0]
                line = boot_hook.text("vast", seen)
            # The container is told to stop: five seconds, of which the agent needs one, and then
            # everything is gone.
            stopping = await pod.run(["sh", "-c", f"{seen.command} --stopping"])
            assert stopping.exit_status == 0, stopping
            await pod.stop()
            (word,) = [r for r in journals.records(pod.home) if r["type"] == "intent"]
            assert word["runs"][0]["local_step"] >= 2

            pod = await machine.power_on()
            assert (await pod.run(["sh", "-c", line])).exit_status == 0
            async with machine.session(pod) as stage:
                incident = await stage.incident(PLAYBOOK, 120)
                assert "SIGTERM" in str(incident.evidence)
                assert attempts(pod) == ["1"], "observe starts nothing"
                assert (await hook(pod, machine.root)).worked
                asked = guide.LaunchRequest(run="demo", trainer=trainer, config="configs/rl.toml")
                await guide.start(stage.session, await guide.plan(stage.session, asked))
                lost_pods.give_key(pod, server, write=True, library=True)
                await stage.must("sync", run="demo", to=lost_pods.URL)
                await stage.until(
                    lambda: (view := stage.ledger.syncs.get("demo")) and view.pointer,
                    240,
                    "a synced checkpoint",
                )
                await stage.must("mode", run="demo", playbook=PLAYBOOK, mode="auto")
            # Outbid: no signal, no word; and the volume with the checkpoints does not come back.
            await cut_power(pod)
            shutil.rmtree(pod.run_dir)
            reached = max(lost_pods.pointed(server), 1)

            pod = await machine.power_on()
            assert (await pod.run(["sh", "-c", line])).exit_status == 0
            async with machine.session(pod) as stage:
                await stage.until(
                    lambda: [s for _, s in stage.steps() if s > reached + 1],
                    300,
                    "steps after the restore",
                )
                assert attempts(pod) == ["1", "2", "3"]
                assert min(s for _, s in stage.steps()) in (reached, reached + 1)
                action = await stage.until(
                    lambda: next(
                        (
                            a
                            for a in stage.ledger.actions.values()
                            if a.playbook == PLAYBOOK and a.kind == "playbook"
                        ),
                        None,
                    ),
                    60,
                    "the action that did it",
                )
                await stage.until(lambda: action.ended, 180, "the verdict")
                assert (action.state, action.who) == ("done", "mode auto"), action.detail
        finally:
            await pod.stop()
