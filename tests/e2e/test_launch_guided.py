"""From a bare pod to a first step with one command and one confirmation; then code, phases and what
the record says of it.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from bs4_practice import bare
from bs4_practice.stage import Stage, staged
from tests.console.cli.conftest import Console, Result

pytestmark = pytest.mark.beside

PHASES = """
run = "demo"
trainer = "{trainer}"
[[phases]]
name = "bootstrap"
config = "configs/rl.toml"
until = {{ step = 5 }}
[[phases]]
name = "primer"
config = "configs/primer.toml"
"""


async def typed(console: Console, words: Sequence[str]) -> Result:
    return await asyncio.to_thread(console, *words, timeout=280.0)


def attempts(stage: Stage) -> list[str]:
    found = (stage.pod.home / ".bs4" / "runs" / "demo" / "attempts").glob("[0-9]*")
    return sorted(path.name for path in found if (path / "shim.json").exists())


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(
    not bare.usable(),
    reason="a bare practice pod is set up from a git repository, and there is no git",
)
@pytest.mark.parametrize("trainer", ["prime-rl-2026-01", "prime-rl"])
async def test_from_a_bare_pod_to_a_first_step_and_through_two_phases(
    trainer: str, tmp_path: Path
) -> None:
    async with staged(trainer, bare=True) as stage:
        pod, console = stage.pod, Console(tmp_path)
        console.add(pod.name, pod.host, pod.port, pod.user, pod.key_path, pod.known_host_key)
        with (console.config / "pods.toml").open("a") as inventory:
            inventory.write("price = 2.5\n")
        phases = tmp_path / "phases.toml"
        phases.write_text(PHASES.format(trainer=trainer))
        made = pod.setup_recipe()
        whole = ["launch", "--phases", str(phases), "--pod", pod.name, "--setup"]
        whole += [
            "--repository",
            made["repository"],
            "--revision",
            made["revision"],
            "--uv",
            made["uv"],
            "--install",
            "primeintellect/reverse-text",
        ]

        shown = await typed(console, [*whole, "--plan"])
        assert shown.code == 0, shown
        unconfirmed = await typed(console, whole)
        assert unconfirmed.code == 4
        assert "Confirm it, and the start with it, with --yes." in unconfirmed.sentence
        assert not (pod.home / "prime-rl").exists()

        # Ctrl-C as soon as the launch is accepted; the same command again watches what that one
        # began.
        first = console.start(*whole, "--yes")
        await stage.until(
            lambda: [a for a in stage.ledger.actions.values() if a.kind == "launch"],
            280,
            "the launch",
        )
        first.send_signal(signal.SIGINT)
        said = await asyncio.to_thread(first.communicate)
        assert first.returncode in (130, 0), said
        done = await typed(console, [*whole, "--yes"])
        assert done.code == 0, done
        assert "demo trains: step " in done.out or "nothing was started" in done.out
        assert attempts(stage) == ["1"]
        again = await typed(console, [*whole, "--yes"])
        assert again.code == 0, again
        assert "nothing was started" in again.out
        assert attempts(stage) == ["1"]

        # Code, by rsync where both sides have it.
        source = tmp_path / "primer"
        source.mkdir()
        (source / "primer.toml").write_text(
            (pod.project / "configs" / "rl.toml").read_text() + "\n# the second phase\n"
        )
        sent = await typed(
            console, ["pods", "sync", pod.name, str(source), "prime-rl/configs", "--yes", "--json"]
        )
        assert sent.code == 0, sent
        told = sent.json
        assert (told["send"], told["gone"]) == (
            ["primer.toml"],
            ["infer.toml", "rl-apart.toml", "rl.toml"],
        )
        assert (pod.project / "configs" / "rl.toml").exists()

        # The switch: not before its condition holds, then once, from a checkpoint, under the same
        # name.
        await stage.until(
            lambda: [s for _, s in stage.steps() if s >= 6], 180, "a checkpoint at step 5"
        )
        switched = await typed(
            console, ["phases", "advance", str(phases), "--pod", pod.name, "--wait", "--yes"]
        )
        assert switched.code == 0, switched
        assert "demo goes from bootstrap to primer" in switched.out
        assert len(attempts(stage)) == 2
        last = await typed(console, ["phases", "advance", str(phases), "--pod", pod.name, "--yes"])
        assert (last.code, "primer is the last phase" in last.sentence) == (2, True)
        assert len(attempts(stage)) == 2
        spec = json.loads(
            (
                pod.home / ".bs4" / "runs" / "demo" / "attempts" / attempts(stage)[-1] / "spec.json"
            ).read_text()
        )["launch"]
        assert spec["config"] == "configs/primer.toml"
        assert spec["resume"] >= 5

        status = (
            await typed(console, ["phases", "status", str(phases), "--pod", pod.name, "--json"])
        ).json
        assert (status["phase"], status["due"], status["live"]) == ("primer", False, True)
