"""A config of one generation, translated, is one of the other: lint has nothing against it, and
what was lost is said.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bs4_console.configs.document import read_toml
from bs4_console.configs.kinds import component_of
from bs4_console.configs.migrate import migrate
from bs4_console.configs.schema import Checker, exists, prefix_of
from bs4_console.errors import NotApplicableError, UsageError
from tests.console.configs.bases import CURRENT, JANUARY

ROOT = Path(__file__).resolve().parents[3]


def migrated(directory: Path, text: str, to: str) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    file = directory / "config.toml"
    file.write_text(text)
    result = migrate(file, to)
    assert [item.as_dict() for item in result.findings if item.level == "error"] == []
    assert [item for item in result.left if item.refuses] == []
    return tomllib.loads(result.text), result.left_out


def test_to_the_current_generation(tmp_path: Path) -> None:
    data, left_out = migrated(tmp_path, JANUARY, "prime-rl")
    assert data["deployment"] == {"num_infer_gpus": 1, "num_train_gpus": 1}
    assert data["orchestrator"]["group_size"] == 8
    assert data["orchestrator"]["concurrency"] == {"initial_inflight": 256}
    assert data["orchestrator"]["train"]["sampling"] == {
        "max_completion_tokens": 2048,
        "temperature": 0.7,
    }
    assert data["orchestrator"]["model"]["lora"]["name"] == "qwen3-8b-practice"
    (source,) = data["orchestrator"]["train"]["source"]
    assert source["env"]["taskset"] == {
        "id": "some-env",
        "executor_backend": "local",
        "network_access": False,
    }
    assert source["curriculum"]["gates"]["zero_advantage"] == {"type": "advantage_range"}
    assert data["monitors"]["wandb"] == {"project": "practice", "name": "practice-1"}
    assert data["inference"]["vllm"]["enforce_eager"] is True
    assert data["trainer"]["model"]["lora"] == {"rank": 8, "alpha": 32}
    assert {place for place, _ in left_out} == {
        "orchestrator.env[0].id",
        "orchestrator.env[0].args",
        "inference.model.enable_auto_tool_choice",
    }


def test_to_january(tmp_path: Path) -> None:
    data, left_out = migrated(tmp_path, CURRENT, "prime-rl-2026-01")
    assert (data["inference_gpu_ids"], data["trainer_gpu_ids"]) == ([0], [1])
    assert data["orchestrator"]["rollouts_per_example"] == 8
    assert data["orchestrator"]["sampling"]["max_tokens"] == 2048
    assert data["orchestrator"]["env"] == [
        {"id": "some-env", "name": "some-env", "args": {"network_access": False}}
    ]
    assert data["orchestrator"]["lora_name"] == "qwen3-8b-practice"
    assert data["inference"]["model"]["tool_call_parser"] == "hermes"
    assert data["output_dir"] == "outputs/practice-1"
    assert data["wandb"]["name"] == "practice-1"
    assert [place for place, _ in left_out] == ["orchestrator.train.source[0].env.agent.harness.id"]


def test_there_and_back_keeps_what_both_know(tmp_path: Path) -> None:
    file = tmp_path / "there.toml"
    file.write_text(JANUARY)
    there = migrate(file, "prime-rl")
    data, _ = migrated(tmp_path, there.text, "prime-rl-2026-01")
    before = tomllib.loads(JANUARY)
    for name in (
        "ckpt",
        "model",
        "max_steps",
        "inference_gpu_ids",
        "trainer_gpu_ids",
        "wandb",
        "trainer",
    ):
        assert data[name] == before[name], name
    for name in (
        "batch_size",
        "rollouts_per_example",
        "seq_len",
        "lora_name",
        "sampling",
        "buffer",
        "oversampling_factor",
    ):
        assert data["orchestrator"][name] == before["orchestrator"][name], name


def test_what_cannot_be_translated_is_listed(tmp_path: Path) -> None:
    text = JANUARY.replace("clean = false", "clean = true\nmax_async_level = 2").replace(
        "[trainer.optim]", '[trainer.loss]\nratio_type = "token"\n[trainer.optim]'
    )
    text = text.replace("trainer_gpu_ids = [1]", "trainer_gpu_ids = [0]")
    _, left_out = migrated(tmp_path, text, "prime-rl")
    assert {"clean", "max_async_level", "trainer.loss.ratio_type", "trainer_gpu_ids"} <= {
        place for place, _ in left_out
    }
    assert all(reason for _, reason in left_out)


def test_a_value_that_is_refused_there_stays_and_is_named(tmp_path: Path) -> None:
    file = tmp_path / "rl.toml"
    file.write_text(JANUARY.replace("[trainer.model]\n", '[trainer.model]\nattn = "sdpa"\n'))
    done = migrate(file, "prime-rl")
    assert tomllib.loads(done.text)["trainer"]["model"]["attn"] == "sdpa"
    assert [
        "trainer.model.attn" in item.message for item in done.findings if item.level == "error"
    ] == [True]


PARTS = {
    "sft.toml": (
        "sft",
        (
            'max_steps = 5\n[model]\nname = "a/b"\n[data]\nname = "a/c"\nbatch_size = 8\nseq_len '
            "= 1024\n[optim]\nlr = 1e-5\n"
        ),
    ),
    "orch.toml": (
        "orchestrator",
        'batch_size = 64\nseq_len = 2048\n[model]\nname = "a/b"\n[sampling]\nmax_tokens = 512\n',
    ),
    "train.toml": (
        "trainer",
        'max_steps = 5\n[model]\nname = "a/b"\nseq_len = 2048\n[optim]\nlr = 1e-5\n',
    ),
    "infer.toml": ("inference", "[server]\nport = 8001\n[parallel]\ntp = 2\n"),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_parts_own_config_keeps_what_both_generations_have(name: str, tmp_path: Path) -> None:
    component, text = PARTS[name]
    (tmp_path / name).write_text(text)
    done = migrate(tmp_path / name, "prime-rl")
    assert done.component == component
    lost = lost_keys(
        tomllib.loads(text), tomllib.loads(done.text), component, "prime-rl-2026-01", "prime-rl"
    )
    assert lost == []
    assert not {"trainer", "orchestrator"} & tomllib.loads(done.text).keys(), (
        "no empty tables are added"
    )


def test_what_cannot_be_migrated_is_refused(tmp_path: Path) -> None:
    (tmp_path / "eval.toml").write_text(
        'rollouts_per_example = 4\n[model]\nname = "a/b"\n[[env]]\nid = "a/c"\n'
    )
    with pytest.raises(NotApplicableError, match="config of evaluations"):
        migrate(tmp_path / "eval.toml", "prime-rl", "eval")
    (tmp_path / "other.toml").write_text("colour = 1\nsize = 2\n")
    with pytest.raises(UsageError, match="is a config of no part"):
        migrate(tmp_path / "other.toml", "prime-rl")


def lost_keys(
    before: dict[str, Any], after: dict[str, Any], component: str, old: str, new: str
) -> list[str]:
    """Return the keys that both generations have in this component and that the migrated config has
    not.
    """
    there = {path for path, _ in leaves(after)}
    prefix = prefix_of(component)

    def in_both(path: tuple[str, ...]) -> bool:
        return all(exists(generation, (*prefix, *path), component) for generation in (old, new))

    return [
        ".".join(path)
        for path, _ in leaves(before)
        if in_both(path) and not any(o[: len(path)] == path for o in there)
    ]


def leaves(
    table: dict[str, Any], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*above, key))
        else:
            yield (*above, key), value


#: A checkout of the trainer for each generation; their example configs are not ours to ship.
CHECKOUTS = {"prime-rl-2026-01": "BS4_PRIME_RL_2026_01", "prime-rl": "BS4_PRIME_RL"}


@pytest.mark.parametrize("generation", CHECKOUTS)
def test_the_trainers_own_examples_lose_no_key_that_both_generations_have(generation: str) -> None:
    """`BS4_PRIME_RL_2026_01=CHECKOUT BS4_PRIME_RL=CHECKOUT`: checkouts of a24ec986b and
    559b44772.
    """
    checkout = os.environ.get(CHECKOUTS[generation])
    if checkout is None:
        pytest.skip(f"{CHECKOUTS[generation]} names no checkout of {generation}")
    other = "prime-rl" if generation == "prime-rl-2026-01" else "prime-rl-2026-01"
    refused, migrated_files = 0, 0
    for file in [
        path
        for folder in ("configs", "examples")
        for path in Path(checkout, folder).rglob("*.toml")
    ]:
        try:
            done = migrate(file, other)
        except NotApplicableError:
            refused += 1
            continue
        migrated_files += 1
        assert (
            lost_keys(
                tomllib.loads(file.read_text()),
                tomllib.loads(done.text),
                done.component,
                generation,
                other,
            )
            == []
        ), file
    assert migrated_files >= 20
    assert refused <= 33, "only those of evaluations"


@pytest.mark.parametrize("generation", CHECKOUTS)
def test_the_trainers_own_examples_are_recognised(generation: str) -> None:
    checkout = os.environ.get(CHECKOUTS[generation])
    if checkout is None:
        pytest.skip(f"{CHECKOUTS[generation]} names no checkout of {generation}")
    for file in [
        path
        for folder in ("configs", "examples")
        for path in Path(checkout, folder).rglob("*.toml")
    ]:
        document = read_toml(file)
        component = component_of(document, generation)
        assert component is not None, file
        _, problems = Checker(generation, component).check(document.data)
        # Two of them use a key that their own classes refuse.
        assert [
            problem
            for problem in problems
            if problem.kind == "extra" and problem.path[-1] != "extra_body"
        ] == [], file


@pytest.mark.parametrize(
    "file",
    sorted((ROOT / "configs").glob("prime-rl*/*.toml")),
    ids=lambda file: f"{file.parent.name}/{file.stem}",
)
def test_every_config_that_is_shipped(tmp_path: Path, file: Path) -> None:
    migrated(
        tmp_path,
        file.read_text(),
        "prime-rl" if file.parent.name.endswith("2026-01") else "prime-rl-2026-01",
    )
