"""The detectors over a run that is only planned."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bs4_agent.launch import gpus
from bs4_agent.preflight import planned, pod_probe
from bs4_common.failures.compiled import Library
from bs4_common.failures.detectors import DETECTORS
from bs4_common.failures.facts import GpuFacts, RunFacts
from bs4_common.trainers import registry
from bs4_common.trainers.base import LaunchSpec
from bs4_console.failures import playbooks
from tests.agent.facts import facts, healthy

OLD = "prime-rl-2026-01"


@pytest.fixture(scope="module")
def library() -> Library:
    return Library(playbooks.compile_all())


def spec(root: Path, config: str, **changes: Any) -> LaunchSpec:
    (root / "rl.toml").write_text(config)
    return LaunchSpec(
        run="new",
        trainer=OLD,
        config=Path("rl.toml"),
        cwd=root,
        output_dir=root / "outputs",
        **changes,
    )


def found(
    root: Path,
    library: Library,
    start: LaunchSpec,
    before: dict[str, str] | None = None,
    **changes: Any,
) -> set[str]:
    run = planned.run_facts(start, registry.get(OLD), {"HF_HOME": str(root / "hf")}, before)
    return {row["failure"] for row in planned.findings(facts(**changes), run, root, library)} - {
        "disk-high",
        "disk-full",
    }


def test_every_planned_detector_exists_and_has_a_playbook(library: Library) -> None:
    assert set(DETECTORS) >= planned.PLANNED
    used = set()
    for playbook in library:
        if any(playbook.applies_to(name) for name in (OLD, "prime-rl", "verl")):
            used.add(playbook.detector)
    assert used >= planned.PLANNED


def test_a_clean_start_has_no_findings(tmp_path: Path, library: Library) -> None:
    assert found(tmp_path, library, spec(tmp_path, '[model]\nname = "Qwen/Qwen3-0.6B"\n')) == set()


def test_what_the_settings_say_is_found_before_the_start(tmp_path: Path, library: Library) -> None:
    config = """
inference_gpu_ids = [0]
trainer_gpu_ids = [0]
[model]
name = "Qwen/Qwen3-32B"
[[orchestrator.env]]
id = "bs"
[orchestrator.env.args]
curriculum_phases = 4
[inference]
gpu_memory_utilization = 0.9
"""
    gpus = GpuFacts(
        state="ok", pids="local", used={0: 0}, total={0: 80 << 30}, errors={0: "GPU is lost"}
    )
    assert found(tmp_path, library, spec(tmp_path, config), gpus=gpus) == {
        "shared-gpu-budget",
        "model-too-big",
        "curriculum-noop",
        "gpu-off-bus",
    }


@pytest.mark.parametrize("where", ["nowhere", "half"])
def test_an_adapter_that_is_not_there_or_not_whole(
    tmp_path: Path, library: Library, where: str
) -> None:
    adapter = tmp_path / "half"
    adapter.mkdir()
    (adapter / "adapter_config.json").touch()
    (tmp_path / "grpo.toml").write_text('[actor_rollout_ref.model]\npath = "Qwen/Qwen3-4B"\n')
    word = f"+actor_rollout_ref.model.lora_adapter_path={tmp_path / where}"
    start = LaunchSpec(
        run="new",
        trainer="verl",
        config=Path("grpo.toml"),
        cwd=tmp_path,
        output_dir=tmp_path / "outputs",
        overrides=[word],
    )

    def seen(spec: LaunchSpec) -> set[str]:
        run = planned.run_facts(spec, registry.get("verl"), {"HF_HOME": str(tmp_path / "hf")})
        return {row["failure"] for row in planned.findings(facts(), run, tmp_path, library)}

    assert "adapter-incomplete" in seen(start)
    if where == "half":
        (adapter / "adapter_model.safetensors").touch()
        assert "adapter-incomplete" not in seen(start)
    # Paths of a container mean nothing here.
    assert "adapter-incomplete" not in seen(dataclasses.replace(start, container="verl"))


def test_a_resume_of_what_is_not_there_and_under_another_name(
    tmp_path: Path, library: Library
) -> None:
    start = spec(tmp_path, '[model]\nname = "new/name"\n', resume=7)
    (tmp_path / "outputs" / "checkpoints" / "step_5" / "trainer").mkdir(parents=True)
    assert found(tmp_path, library, start, {"model.name": "old/name"}) == {
        "wandb-step-as-checkpoint",
        "phase-switch-lineage",
    }


def test_checkpoints_that_are_not_listed_are_counted() -> None:
    def saved(step: int) -> Any:
        return SimpleNamespace(step=step, complete=step != 2, bytes=7)

    told = pod_probe.listed([saved(step) for step in range(1, 21)])
    assert [row["step"] for row in told["checkpoints"]] == list(range(5, 21))
    assert told["older"] == {"complete": 3, "incomplete": 1}
    few = pod_probe.listed([saved(1), saved(2)])
    assert (len(few["checkpoints"]), few["older"]) == (2, {"complete": 0, "incomplete": 0})


def test_a_directory_that_another_living_run_writes(tmp_path: Path, library: Library) -> None:
    start = spec(tmp_path, "")
    layout = registry.get(OLD).layout(start)
    other = healthy(name="other", layout=layout)
    assert found(tmp_path, library, start, runs=[other]) == {"run-dir-collision"}


def test_half_written_dataset_caches_count_where_the_launch_would_look(
    tmp_path: Path, library: Library
) -> None:
    torn = tmp_path / "hf" / "datasets" / "abc.incomplete"
    torn.mkdir(parents=True)
    os.utime(torn, (1, 1))
    assert found(tmp_path, library, spec(tmp_path, ""), now=1000.0) == {"dataset-cache-partial"}


@pytest.mark.parametrize(
    ("settings", "modules"),
    [
        ({"orchestrator.env.0.id": "owner/beautiful-soup-env@0.1.2"}, ["beautiful_soup_env"]),
        (
            {
                "orchestrator.train.source.0.env.taskset.id": "reverse-text",
                "orchestrator.train.source.0.env.agent.harness.id": "null",
            },
            ["reverse_text"],
        ),
        (
            {
                "orchestrator.env.0.id": "a",
                "orchestrator.eval.env.0.id": "a",
                "orchestrator.eval.env.1.id": "b-c",
            },
            ["a", "b_c"],
        ),
        ({"model.id": "x", "wandb.id": "y"}, []),
    ],
)
def test_the_packages_that_a_run_will_import(settings: dict[str, Any], modules: list[str]) -> None:
    run = cast(RunFacts, SimpleNamespace(config=settings))
    assert pod_probe.modules(run) == modules


@pytest.mark.parametrize(
    ("trainer", "config", "ids"),
    [
        (OLD, "[inference]\nenforce = 1\n", [0, 1]),
        (OLD, "trainer_gpu_ids = [2, 3]\n", [2, 3]),
        (OLD, "inference_gpu_ids = [0]\ntrainer_gpu_ids = [0]\n[inference.model]\na = 1\n", [0]),
        ("prime-rl", "[deployment]\nnum_infer_gpus = 2\n[inference.vllm]\na = 1\n", [0, 1, 2]),
        ("prime-rl", "[deployment]\nnum_infer_gpus = 2\nnum_train_gpus = 2\n", [0, 1]),
        ("prime-rl", "[inference.vllm]\na = 1\n", [0, 1]),
    ],
)
def test_the_gpus_that_a_start_will_use(
    tmp_path: Path, trainer: str, config: str, ids: list[int]
) -> None:
    start = dataclasses.replace(spec(tmp_path, config), trainer=trainer)
    assert gpus.gpu_ids(planned.run_facts(start, registry.get(trainer), {})) == ids


@pytest.mark.parametrize(
    ("config", "needed"),
    [
        ("seq_len = 1\n", False),
        ('[wandb]\nproject = "p"\n', True),
        ('[wandb]\nproject = "p"\noffline = true\n', False),
        ("[trainer.wandb]\n", True),
        ('[monitors.wandb]\nname = "n"\n', True),
    ],
)
def test_whether_wandb_is_asked(tmp_path: Path, config: str, needed: bool) -> None:
    assert (
        pod_probe.needs_wandb(planned.run_facts(spec(tmp_path, config), registry.get(OLD), {}))
        is needed
    )
