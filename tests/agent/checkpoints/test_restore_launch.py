"""A run that is restored goes on as it was started: with its further arguments, its environment and
the config files that both name.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.launch.plan import make
from bs4_common.checkpoints.remote.manifest import Manifest
from bs4_common.trainers import settings
from bs4_common.trainers.base import LaunchSpec
from tests.agent.checkpoints import trees
from tests.agent.checkpoints.restored import PLACE, NewPod, new_pod
from tests.support.remote_sets import put_step

pytestmark = [pytest.mark.long, pytest.mark.beside]

WANDB = {"trainer": "aaaa1111", "orchestrator": "bbbb2222"}
GENERATIONS = {
    "prime-rl-2026-01": (trees.old_run, trees.old_step),
    "prime-rl": (trees.new_run, trees.new_step),
}
WORDS = ("--trainer", "@", "parts/trainer.toml", "--max-steps", "9000")


def started(root: Path, trainer: str) -> LaunchSpec:
    """Step 20 of a run whose config includes another, and whose options name a third."""
    root.mkdir()
    run, step = GENERATIONS[trainer]
    made = run(root, 'toml_files = ["base.toml"]\n[wandb]\nproject = "demo"\n')
    (root / "base.toml").write_text("seq_len = 512\n")
    (root / "parts").mkdir()
    (root / "parts/trainer.toml").write_text("[optim]\nlr = 7e-6\n")
    ids = (
        ("--trainer.wandb.id", "aaaa1111", "--orchestrator.wandb.id", "bbbb2222")
        if trainer == "prime-rl-2026-01"
        else ()
    )
    made = dataclasses.replace(
        made,
        overrides=(*WORDS, *ids),
        env={"PRACTICE_WORD": "kept"} | ({} if ids else {"PRL_RUN_ID": "aaaa1111"}),
    )
    step(made, 20)
    return made


@pytest.fixture(params=["prime-rl-2026-01", "prime-rl"])
def pod(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[NewPod]:
    spec = started(tmp_path / "old", request.param)
    with new_pod(tmp_path, spec, monkeypatch) as made:
        put_step(made.store, PLACE, spec, 20, wandb=WANDB, recorded=True)
        (made.cwd / "bin").mkdir()
        (made.cwd / "bin/uv").write_text("#!/bin/sh\n")
        (made.cwd / "bin/uv").chmod(0o755)
        yield made


def launched(pod: NewPod, result: dict[str, Any]) -> Any:
    body = result["launch"]
    return make(pod.runs, {**body, "env": {**body["env"], "PATH": f"{pod.cwd}/bin:/usr/bin:/bin"}})


def test_it_goes_on_with_its_arguments_its_environment_and_its_files(pod: NewPod) -> None:
    shown = pod.plan()
    assert not pod.out.exists(), "a plan touches nothing"
    assert shown["plan"]["notes"] == []
    end = pod.restore(shown)
    assert end["event"] == "done", end
    assert end["result"]["launch"] == shown["plan"]["launch"]
    plan = launched(pod, end["result"])
    place = pod.cwd / ".bs4/demo/restored/step_20/.bs4/config"
    assert plan.spec.config == place / "rl.toml"
    assert list(plan.spec.overrides[:5]) == [
        "--trainer",
        "@",
        str(place / "parts/trainer.toml"),
        "--max-steps",
        "9000",
    ]
    current = settings.settings_of(plan.spec)
    assert (current.get("trainer.optim.lr"), current.get("seq_len")) == (7e-6, 512), (
        "the files that it names, and those that they include"
    )
    assert plan.environment["PRACTICE_WORD"] == "kept"
    words = " ".join(plan.argv) + str(plan.environment)
    assert words.count("aaaa1111") == 1, "and the same runs at W&B, said once"
    assert words.count("bbbb2222") == (1 if pod.lost.trainer == "prime-rl-2026-01" else 0)


def test_what_is_enrolled_survives_the_agent(pod: NewPod) -> None:
    """Killed behind the fetch, the next life knows the run in the same words; a second restore
    changes nothing of it.
    """
    pod.restore()
    before = pod.runs.get("demo").spec
    assert before.env["PRACTICE_WORD"] == "kept"
    pod.restart()
    assert pod.runs.get("demo").spec == before
    assert pod.restore()["event"] == "done"
    assert pod.runs.get("demo").spec == before


def test_a_directory_that_an_option_names_is_where_it_is_put(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run's own directory comes from its options: by the config alone the step would lie where
    nobody looks.
    """
    (tmp_path / "old").mkdir()
    spec = dataclasses.replace(
        trees.new_run(tmp_path / "old"), overrides=("--run.dir", "demo"), run="other"
    )
    trees.new_step(spec, 20)
    with new_pod(tmp_path, spec, monkeypatch) as pod:
        put_step(pod.store, PLACE, spec, 20, recorded=True)
        end = pod.restore(run="other")
        assert end["event"] == "done", end
        assert (pod.out / "demo/checkpoints/step_20/trainer/.metadata").is_file()


@pytest.mark.parametrize("pod", ["prime-rl"], indirect=True)
def test_what_did_not_travel_is_said_before_it_is_confirmed(pod: NewPod) -> None:
    key = "hf_" + "a" * 34
    trees.new_step(pod.lost, 30)
    spec = dataclasses.replace(pod.lost, overrides=("--orchestrator.client.header", key), env={})
    put_step(pod.store, PLACE, spec, 30, recorded=True)
    shown = pod.plan()
    (note,) = shown["plan"]["notes"]
    assert "the option --orchestrator.client.header" in note
    assert shown["plan"]["launch"]["overrides"] == []
    assert key not in json.dumps(shown)
    trees.new_step(pod.lost, 40)
    put_step(pod.store, PLACE, spec, 40)
    (note,) = pod.plan()["plan"]["notes"]
    assert "have to be given again" in note


@pytest.mark.parametrize("pod", ["prime-rl"], indirect=True)
def test_a_record_that_brings_a_secret_is_refused(pod: NewPod) -> None:
    """Nobody of ours writes one; who can write to the bucket may."""
    trees.new_step(pod.lost, 30)
    put_step(pod.store, PLACE, pod.lost, 30, recorded=True, point=False)
    name = "lab/demo/steps/step_30/manifest.json"
    told = Manifest.decode(pod.store.read(name, 1 << 20))
    assert told.launch is not None
    pod.store.write(
        name,
        dataclasses.replace(
            told, launch=dataclasses.replace(told.launch, env={"WANDB_API_KEY": "x"})
        ).encode(),
    )
    assert "looks like a secret" in pod.plan(step=30)["refused"]
