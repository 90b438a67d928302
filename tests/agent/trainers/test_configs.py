"""The shipped configs and stacks: read as the agent reads them, and held against the trainers' own
schemas where these are at hand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import tomlkit

from bs4_common.trainers import FIRST_STEPS, registry
from bs4_common.trainers.base import LaunchSpec
from bs4_common.trainers.launcher import generation
from bs4_common.trainers.settings import settings_of
from tests.agent.trainers.samples import PRIME_RL, SCHEMAS

CONFIGS = Path(__file__).resolve().parents[3] / "configs"
SCHEMA_FILES = {"prime-rl-2026-01": "prime-rl-2026-01.json", "prime-rl": "prime-rl-current.json"}
EXAMPLES = [
    (trainer, path) for trainer in PRIME_RL for path in sorted((CONFIGS / trainer).glob("*.toml"))
]


def load(path: Path) -> dict[str, Any]:
    return tomlkit.parse(path.read_text()).unwrap()


def start(trainer: str, path: Path) -> LaunchSpec:
    return LaunchSpec(
        run="demo", trainer=trainer, config=path, cwd=CONFIGS, output_dir=CONFIGS / "outputs"
    )


def test_every_generation_has_an_example_and_a_stack() -> None:
    """verl runs in images of its own: no stack of it is set up from here, and its example is looked
    at in test_verl_command.py.
    """
    assert (
        {trainer for trainer, _ in EXAMPLES}
        == {id_ for id_ in registry.ids() if registry.get(id_).traits.installed}
        == set(load(CONFIGS / "stacks.toml"))
    )


@pytest.mark.parametrize(("trainer", "path"), EXAMPLES)
def test_examples_launch_without_anything_added_to_their_checkpointing(
    trainer: str, path: Path
) -> None:
    words = registry.get(trainer).command(start(trainer, path))
    assert "--ckpt.interval" not in words
    assert registry.get(trainer).max_steps(start(trainer, path)) == load(path)["max_steps"]


@pytest.mark.parametrize(("trainer", "path"), EXAMPLES)
def test_examples_are_recognised_as_their_generation(
    trainer: str, path: Path, tmp_path: Path
) -> None:
    settings = settings_of(start(trainer, path))
    assert generation(None, tmp_path, settings.arguments, settings) == trainer


@pytest.mark.skipif(not SCHEMAS.is_dir(), reason="the shared schemas are not here")
@pytest.mark.parametrize(("trainer", "path"), EXAMPLES)
def test_examples_fit_their_schema_and_no_other(trainer: str, path: Path) -> None:
    for id_, file in SCHEMA_FILES.items():
        # As the trainers do: what a table does not name takes its default, and both sides exist
        # even when the file leaves them out.
        config = {"trainer": {}, "orchestrator": {}, **load(path)}
        for source in config["orchestrator"].get("train", {}).get("source", []):
            # The schema knows only the fields of every environment; `agent` is one of those that
            # the chosen taskset's class adds (the trainer's own validator accepts this file).
            source["env"].pop("agent", None)
        errors = list(
            jsonschema.Draft202012Validator(json.loads((SCHEMAS / file).read_text())).iter_errors(
                config
            )
        )
        assert bool(errors) == (id_ != trainer), errors


def test_rules_that_the_schema_does_not_know() -> None:
    """R01, R11, R16, R25, R29 and P01 of the rule list, for the examples of both generations."""
    for trainer, path in EXAMPLES:
        settings = settings_of(start(trainer, path))
        group = settings.integer("orchestrator.rollouts_per_example", "orchestrator.group_size")
        batch = settings.integer("orchestrator.batch_size")
        seq_len = settings.integer("trainer.model.seq_len", "seq_len")
        assert batch
        assert group
        assert seq_len
        assert batch % group == 0
        assert seq_len >= (settings.integer("orchestrator.seq_len", "seq_len") or 2048)
        tokens = settings.integer(
            "orchestrator.sampling.max_tokens", "orchestrator.train.sampling.max_completion_tokens"
        )
        assert tokens is not None
        assert tokens <= seq_len
        if trainer == "prime-rl-2026-01":
            shared = set(settings.get("inference_gpu_ids")) & set(settings.get("trainer_gpu_ids"))
            assert not shared or settings.get("inference.gpu_memory_utilization") <= 0.5


def test_stacks_name_versions_and_where_they_come_from() -> None:
    text = (CONFIGS / "stacks.toml").read_text()
    assert "Source of every version" in text
    for id_, stack in load(CONFIGS / "stacks.toml").items():
        assert {
            "title",
            "revision",
            "revision_date",
            "python",
            "vllm",
            "torch",
            "verifiers",
            "entry_point",
        } <= set(stack)
        assert stack["first_step"] == registry.get(id_).first_step == FIRST_STEPS[id_]
