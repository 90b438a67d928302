"""A config of one generation, translated, is one of the other: lint has nothing against it, and what was lost is said."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from bs4_console.core.configs.migrate import migrate
from tests.console.core.configs.bases import CURRENT, JANUARY

ROOT = Path(__file__).resolve().parents[4]


def migrated(directory: Path, text: str, to: str) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    file = directory / "config.toml"
    file.write_text(text)
    result = migrate(file, to)
    assert [item.as_dict() for item in result.findings if item.level == "error"] == []
    return tomllib.loads(result.text), result.left_out


def test_to_the_current_generation(tmp_path: Path) -> None:
    data, left_out = migrated(tmp_path, JANUARY, "prime-rl")
    assert data["deployment"] == {"num_infer_gpus": 1, "num_train_gpus": 1}
    assert data["orchestrator"]["group_size"] == 8
    assert data["orchestrator"]["concurrency"] == {"initial_inflight": 256}
    assert data["orchestrator"]["train"]["sampling"] == {"max_completion_tokens": 2048, "temperature": 0.7}
    assert data["orchestrator"]["model"]["lora"]["name"] == "qwen3-8b-practice"
    (source,) = data["orchestrator"]["train"]["source"]
    assert source["env"]["taskset"] == {"id": "some-env", "executor_backend": "local", "network_access": False}
    assert source["curriculum"]["gates"]["zero_advantage"] == {"type": "advantage_range"}
    assert data["monitors"]["wandb"] == {"project": "practice", "name": "practice-1"}
    assert data["inference"]["vllm"]["enforce_eager"] is True
    assert data["trainer"]["model"]["lora"] == {"rank": 8, "alpha": 32}
    assert {place for place, _ in left_out} == {"orchestrator.env[0].args", "inference.model.enable_auto_tool_choice"}


def test_to_january(tmp_path: Path) -> None:
    data, left_out = migrated(tmp_path, CURRENT, "prime-rl-2026-01")
    assert (data["inference_gpu_ids"], data["trainer_gpu_ids"]) == ([0], [1])
    assert data["orchestrator"]["rollouts_per_example"] == 8
    assert data["orchestrator"]["sampling"]["max_tokens"] == 2048
    assert data["orchestrator"]["env"] == [{"id": "some-env", "name": "some-env", "args": {"network_access": False}}]
    assert data["orchestrator"]["lora_name"] == "qwen3-8b-practice"
    assert data["inference"]["model"]["tool_call_parser"] == "hermes"
    assert data["output_dir"] == "outputs/practice-1"
    assert data["wandb"]["name"] == "practice-1"
    assert [place for place, _ in left_out] == ["orchestrator.train.source[0].env"]


def test_there_and_back_keeps_what_both_know(tmp_path: Path) -> None:
    file = tmp_path / "there.toml"
    file.write_text(JANUARY)
    there = migrate(file, "prime-rl")
    data, _ = migrated(tmp_path, there.text, "prime-rl-2026-01")
    before = tomllib.loads(JANUARY)
    for name in ("ckpt", "model", "max_steps", "inference_gpu_ids", "trainer_gpu_ids", "wandb", "trainer"):
        assert data[name] == before[name], name
    for name in ("batch_size", "rollouts_per_example", "seq_len", "lora_name", "sampling", "buffer", "oversampling_factor"):
        assert data["orchestrator"][name] == before["orchestrator"][name], name


def test_what_cannot_be_translated_is_listed(tmp_path: Path) -> None:
    text = JANUARY.replace("clean = false", "clean = true\nmax_async_level = 2").replace(
        "[trainer.optim]", '[trainer.loss]\nratio_type = "token"\n[trainer.optim]'
    )
    text = text.replace("[trainer.model]\n", '[trainer.model]\nattn = "sdpa"\n').replace("trainer_gpu_ids = [1]", "trainer_gpu_ids = [0]")
    _, left_out = migrated(tmp_path, text, "prime-rl")
    assert {"clean", "max_async_level", "trainer.loss.ratio_type", "trainer.model.attn", "trainer_gpu_ids"} <= {
        place for place, _ in left_out
    }
    assert all(reason for _, reason in left_out)


@pytest.mark.parametrize("file", sorted((ROOT / "configs").glob("prime-rl*/*.toml")), ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_every_config_that_is_shipped(tmp_path: Path, file: Path) -> None:
    migrated(tmp_path, file.read_text(), "prime-rl" if file.parent.name.endswith("2026-01") else "prime-rl-2026-01")
