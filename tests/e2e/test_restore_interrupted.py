"""A restore whose console is killed, then its agent, then its link cut: every file is fetched once,
and half of it is never a step.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest

from bs4_agent.paths import Home
from bs4_agent.setup.credentials import store as store_credential
from bs4_common.checkpoints.remote.b2 import B2Store
from bs4_common.trainers import registry
from bs4_common.trainers.base import LaunchSpec
from bs4_practice import tree
from bs4_practice.b2.faults import Fault
from bs4_practice.b2.server import B2Server
from bs4_practice.stage import Stage, staged
from tests.agent.checkpoints import trees
from tests.agent.checkpoints.restored import PLACE
from tests.agent.checkpoints.restored import tree as hashes
from tests.console.cli.conftest import Console
from tests.e2e import journals
from tests.support.cable import cable
from tests.support.remote_sets import put_step

pytestmark = [pytest.mark.long, pytest.mark.beside]
TRAINER = "prime-rl-2026-01"  # three directories of a step: the most that can be half there
STEP = 20


class Gate:
    """The store does not answer for the n-th file of the step until it is opened."""

    def __init__(self, server: B2Server, skip: int) -> None:
        self.reached, self._open = threading.Event(), threading.Event()
        server.faults.add(
            Fault("stop", call="b2_download_file_by_name", name="/files/", skip=skip, on=self._hold)
        )

    def _hold(self) -> None:
        self.reached.set()
        self._open.wait(120)

    def open(self) -> None:
        self._open.set()


class Asked:
    """How often each file of the step was asked for; its config, which every plan reads, left
    out.
    """

    def __init__(self, server: B2Server) -> None:
        self.count: Counter[str] = Counter()
        take = server.faults.take

        def counted(call: str, name: str) -> Fault | None:
            if (
                call == "b2_download_file_by_name"
                and f"/step_{STEP}/files/" in name
                and not name.endswith(".toml")
            ):
                self.count[name] += 1
            return take(call, name)

        server.faults.take = counted  # type: ignore[method-assign]


def complete(stage: Stage) -> list[int]:
    spec = LaunchSpec(
        run="demo",
        trainer=TRAINER,
        config=Path("configs/rl.toml"),
        cwd=stage.pod.project,
        output_dir=stage.pod.output_dir,
    )
    return [one.step for one in registry.get(TRAINER).checkpoints(spec) if one.complete]


def restores(home: Path) -> list[str]:
    told = [
        r
        for r in journals.records(home)
        if r["type"] == "action" and r["event"] == "accepted" and r["kind"] == "restore"
    ]
    return [r["action"] for r in told]


@pytest.mark.timeout(900)
async def test_console_killed_agent_killed_and_link_cut(tmp_path: Path) -> None:
    (tmp_path / "lost").mkdir()
    lost = trees.old_run(tmp_path / "lost", '[wandb]\nproject = "demo"\n')
    trees.old_step(lost, STEP)
    with B2Server(tmp_path / "b2") as server:
        server.bucket(PLACE.bucket)
        key = server.key()
        put_step(B2Store.open(PLACE.bucket, key.id, key.secret, at=server.url), PLACE, lost, STEP)
        async with (
            staged(TRAINER, env={"BS4_B2_REALM": server.url}) as stage,
            cable(stage.pod.host, stage.pod.port) as link,
        ):
            pod, console = stage.pod, Console(tmp_path)
            store_credential("b2", {"key_id": key.id, "key": key.secret}, Home(pod.home / ".bs4"))
            console.add(
                pod.name, "127.0.0.1", link.port, pod.user, pod.key_path, pod.known_host_key
            )
            words = [
                "checkpoints",
                "restore",
                "--pod",
                pod.name,
                "--run",
                "demo",
                "--from",
                str(PLACE),
                "--yes",
            ]
            asked, gates = Asked(server), [Gate(server, 3), Gate(server, 5)]
            try:
                # kill -9 of the console in the middle of the files: the pod goes on by itself.
                first = console.start(*words)
                assert await asyncio.to_thread(gates[0].reached.wait, 180)
                first.kill()
                first.communicate()
                (action,) = restores(pod.home)
                assert complete(stage) == []

                # kill -9 of the agent: what fetches is not its child, and goes on to the next
                # files.
                agent = tree.look(journals.agents(pod.home)[-1])
                assert agent is not None
                tree.send(agent, signal.SIGKILL)
                gates[0].open()
                assert await asyncio.to_thread(gates[1].reached.wait, 180)
                assert complete(stage) == []

                # The same command again finds it under way; its link is cut, and comes back.
                second = console.start(*words)
                said = b""
                # before, it would be its first connection that is cut
                while b"is under way" not in said:
                    line = await asyncio.wait_for(asyncio.to_thread(second.stderr.readline), 120)
                    assert line, f"it ended and had said {said!r}"
                    said += line
                assert len(journals.agents(pod.home)) == 2
                await link.pull_out()
                assert complete(stage) == []
                await link.plug_in()
            finally:
                for gate in gates:
                    gate.open()
            out, err = await asyncio.to_thread(second.communicate, None, 280)
            assert second.returncode == 0, (out, err)
            done = await asyncio.to_thread(console, *words)
            assert done.code == 0, done

            assert complete(stage) == [STEP]
            here = {
                name: sha for name, sha in hashes(pod.output_dir).items() if f"step_{STEP}/" in name
            }
            assert here == {
                name: sha
                for name, sha in hashes(lost.output_dir).items()
                if f"step_{STEP}/" in name
            }
            assert restores(pod.home)[0] == action
            assert set(asked.count.values()) == {1}, "no file of the step was fetched twice"
            assert journals.finished_steps(journals.of_action(pod.home, action)) == {0: 1, 1: 1}
            assert journals.problems(pod.home, tmp_path) == []
