"""A pod is destroyed in mid-step with all that was on it; on a new one the run goes on from the
store, as the same run at W&B.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from bs4_practice.b2.server import B2Server
from bs4_practice.stage import staged
from tests.console.cli.conftest import Console, Result
from tests.e2e import lost_pods, rented
from tests.e2e.lost_pods import URL

pytestmark = [pytest.mark.beside, pytest.mark.long]
PART = "configs/parts/trainer.toml"
WANDB = {"trainer": "11112222", "orchestrator": "33334444"}


async def typed(console: Console, *words: str) -> Result:
    return await asyncio.to_thread(console, *words, timeout=280.0)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("trainer", ["prime-rl-2026-01", "prime-rl"])
async def test_a_destroyed_pod_goes_on_from_the_newest_step_that_is_whole(
    trainer: str, tmp_path: Path
) -> None:
    with B2Server(tmp_path / "b2") as server:
        server.bucket(lost_pods.BUCKET)
        store, env = lost_pods.open_store(server), {"BS4_B2_REALM": server.url}
        async with staged(trainer, env=env, name="first") as stage:
            part = stage.pod.project / PART
            part.parent.mkdir()
            part.write_text("[optim]\nlr = 7e-6\n")
            await lost_pods.train(
                stage,
                overrides=("--trainer", "@", PART, "--max-steps", "9000"),
                env={"PRACTICE_WORD": "kept"},
            )
            older = await lost_pods.save(stage, store, WANDB)
            await stage.until(
                lambda: max((s for _, s in stage.steps()), default=0) >= older + 3,
                240,
                "a newer checkpoint",
            )
            saved = await lost_pods.save(stage, store, WANDB)
            assert saved > older
            config = stage.pod.config_path.read_text()
        # Gone, with every file. What is left is the store, whose newest step is damaged there.
        name = next(
            e.name
            for e in store.entries(f"lab/demo/steps/step_{saved}/")
            if e.name.endswith(".distcp")
        )
        store.write(name, b"not what it was")
        async with staged(trainer, env=env, name="second") as stage:
            pod, console = stage.pod, Console(tmp_path)
            console.add(pod.name, pod.host, pod.port, pod.user, pod.key_path, pod.known_host_key)
            words = ["checkpoints", "restore", "--pod", pod.name, "--run", "demo", "--from", URL]
            lost_pods.give_key(pod, server)
            refused = await typed(console, *words[:-1], "b2://no-such-bucket", "--yes")
            assert refused.code == 4, refused
            none = await typed(console, *words[:-3], "nobody", "--from", URL, "--yes", "--launch")
            assert (none.code, "nothing is started afresh" in none.err) == (1, True), none
            assert not pod.output_dir.exists()

            shown = (await typed(console, *words, "--plan", "--json")).json
            assert shown["step"] == older
            assert shown["skipped"][0][0] == saved
            done = await typed(console, *words, "--yes", "--launch", "--no-preflight")
            assert done.code == 0, done
            assert "demo trains: step " in done.out
            assert f"step {saved}" in done.out, "it says which newer one was passed over"

            first = min(step for _, step in stage.steps())
            assert older <= first <= older + 1, "it goes on from the restored step"
            told = lost_pods.tracked(pod)
            assert WANDB["trainer"] in told
            assert (WANDB["orchestrator"] in told) is (trainer == "prime-rl-2026-01")
            restored = (
                pod.project / ".bs4" / "demo" / "restored" / f"step_{older}" / ".bs4" / "config"
            )
            assert (restored / "rl.toml").read_text() == config
            started = json.loads(told)
            assert started["launch"]["overrides"][:5] == [
                "--trainer",
                "@",
                f"{restored}/parts/trainer.toml",
                "--max-steps",
                "9000",
            ]
            assert started["env"]["PRACTICE_WORD"] == "kept", (
                "it is started as it was started before"
            )
            assert not (pod.project / PART).exists()
            assert rented.rates(pod) == {"7.00e-06"}, (
                "the trainer has read what came from the store"
            )

            again = await typed(console, *words, "--yes")
            assert again.code == 4, "what runs is not restored over"
