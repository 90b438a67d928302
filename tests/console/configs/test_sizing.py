"""The estimate reproduces what was measured on real pods, and a new config fits and passes lint."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from bs4_console.configs.sizing.memory import estimate
from bs4_console.configs.sizing.new_config import Wish, argument, new
from bs4_console.errors import NotApplicableError, UsageError
from tests.console.configs.bases import JANUARY

OLD, NEW = "prime-rl-2026-01", "prime-rl"


@pytest.mark.parametrize("trainer", [OLD, NEW])
@pytest.mark.parametrize("gpus", [2, 4, 8])
@pytest.mark.parametrize(
    ("model", "gib"),
    [
        ("Qwen/Qwen3-8B", 80),
        ("Qwen/Qwen2.5-3B-Instruct", 24),
        ("meta-llama/Llama-3.2-3B-Instruct", 48),
    ],
)
def test_a_new_config_fits_and_passes(
    tmp_path: Path, trainer: str, gpus: int, model: str, gib: float
) -> None:
    if (trainer, model, gib) == (NEW, "meta-llama/Llama-3.2-3B-Instruct", 48):
        gib = 80
    made = new(Wish(trainer=trainer, model=model, gpus=gpus, gpu_gib=gib))
    assert [item.as_dict() for item in made.findings] == []
    file = tmp_path / "config.toml"
    file.write_text(made.text)
    assert estimate(file, trainer, gib).fits


@pytest.mark.parametrize(
    ("trainer", "gpus", "answer", "context"),
    [(OLD, 2, 4096, 6144), (NEW, 2, 4096, 6144), (OLD, 1, 1800, 4096), (NEW, 2, 1000, 4096)],
)
def test_a_new_config_has_the_settings_and_the_lengths_that_are_wanted(
    trainer: str, gpus: int, answer: int, context: int
) -> None:
    words = (
        "executor_backend=local",
        "timeout_s=30.0",
        'tools=["a", "b"]',
        'hint=say "x"\n[y]',
    )
    settings = {
        "executor_backend": "local",
        "timeout_s": 30.0,
        "tools": ["a", "b"],
        "hint": 'say "x"\n[y]',
    }
    wish = Wish(
        trainer=trainer,
        model="Qwen/Qwen2.5-7B-Instruct",
        gpus=gpus,
        env="me/my-env",
        env_args=tuple(map(argument, words)),
        answer=answer,
    )
    made = new(wish)
    assert [item.as_dict() for item in made.findings] == []
    data = tomllib.loads(made.text)
    if trainer == OLD:
        assert data["orchestrator"]["env"] == [{"id": "me/my-env", "args": settings}]
        assert data["orchestrator"]["sampling"]["max_tokens"] == answer
        assert data["inference"]["model"]["max_model_len"] == context
        assert data["orchestrator"]["seq_len"] >= answer
    else:
        (source,) = data["orchestrator"]["train"]["source"]
        assert source["env"]["taskset"] == {"id": "my-env", **settings}
        assert data["orchestrator"]["train"]["sampling"]["max_completion_tokens"] == answer
        assert data["inference"]["vllm"]["max_model_len"] == context
        assert data["seq_len"] >= answer
    assert f"{answer} answer tokens and a prompt of 1500 fit a context of {context}" in made.reasons


@pytest.mark.parametrize("text", ["no-value", "=1", "a.b=1", "id=other", "a b=1"])
def test_what_is_no_setting_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        argument(text)


def test_one_gpu_took_72_of_80(tmp_path: Path) -> None:
    made = new(Wish(trainer=OLD, model="Qwen/Qwen2.5-7B-Instruct", gpus=1))
    assert made.findings == []
    file = tmp_path / "config.toml"
    file.write_text(made.text)
    both = estimate(file, OLD, 80).sides[-1]
    assert both.name == "both on one GPU"
    assert both.gib == pytest.approx(72, abs=3)


@pytest.mark.parametrize(
    ("trainer", "lora", "gb"),
    [
        (OLD, True, 48),  # measured: 47 GB, of them 31 the trainer's own
        (NEW, True, 32),
        (OLD, False, 112),
        (NEW, False, 96),
    ],
)
def test_a_checkpoint_is_as_large_as_was_measured(
    tmp_path: Path, trainer: str, lora: bool, gb: int
) -> None:
    made = new(Wish(trainer=trainer, model="Qwen/Qwen3-8B", gpus=8, gpu_gib=141, lora=lora))
    file = tmp_path / "config.toml"
    file.write_text(made.text)
    (note,) = [note for note in estimate(file, trainer, 141).notes if "checkpoint" in note]
    assert f"about {gb * 1e9 / (1 << 30):.0f} GiB" in note


def test_8b_does_not_train_on_24_gib() -> None:
    for trainer in (OLD, NEW):
        with pytest.raises(NotApplicableError, match="does not fit"):
            new(Wish(trainer=trainer, model="Qwen/Qwen3-8B", gpus=2, gpu_gib=24))


def test_without_checkpointing_one_gpu_is_too_small(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        JANUARY.replace("[trainer.model.ac]\nfreq = 1\n", "").replace(
            "trainer_gpu_ids = [1]", "trainer_gpu_ids = [0]"
        )
    )
    assert not estimate(file, OLD, 80).fits


def test_what_cannot_be_known_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(JANUARY.replace("Qwen/Qwen3-8B", "owner/mine"))
    with pytest.raises(UsageError, match="--billions"):
        estimate(file, OLD, 80)
    assert estimate(file, OLD, 80, 3).billions == 3
    with pytest.raises(NotApplicableError, match="--gpus 2"):
        new(Wish(trainer=NEW, model="Qwen/Qwen3-8B", gpus=1))


VERL = Path("configs/verl/qwen2.5-math-1.5b-multisignal-1x80gb.toml").read_text()


def _verl(directory: Path, *changes: tuple[str, str]) -> dict[str, dict[str, float]]:
    """Return {side: {part: GiB}} of the changed example, and the sides that do not fit."""
    text = VERL
    for old, new_text in changes:
        assert old in text
        text = text.replace(old, new_text)
    file = directory / "config.toml"
    file.write_text(text)
    done = estimate(file, "verl", 80)
    parts = {side.name: {part.name: part.gib for part in side.parts} for side in done.sides}
    return {**parts, "too large": {side.name: side.gib for side in done.sides if not side.fits}}


def test_verl_with_the_rollout_share_that_ran_and_the_one_that_did_not_start(
    tmp_path: Path,
) -> None:
    measured = "gpu_memory_utilization = 0.65"
    assert _verl(tmp_path)["too large"] == {}
    found = _verl(tmp_path, (measured, "gpu_memory_utilization = 0.88"))
    assert list(found["too large"]) == ["during rollouts"]
    assert found["during rollouts"]["rollout share"] == pytest.approx(70.4)
    small = _verl(tmp_path, (measured, "gpu_memory_utilization = 0.05"))
    assert list(small["too large"]) == ["engine in its share"]


def test_what_of_verl_stays_on_a_gpu(tmp_path: Path) -> None:
    whole = _verl(tmp_path)
    gib = 1.5e9 / (1 << 30)
    assert whole["during rollouts"] == pytest.approx(
        {
            "rollout share": 52,
            "weights": 4 * gib,
            "optimizer": 8 * gib,
            "reference model": 2 * gib,
            "context": 1.5,
        }
    )
    assert whole["during the update"]["gradients and optimizer"] == pytest.approx(12 * gib)
    away = _verl(tmp_path, ("optimizer_offload = false", "optimizer_offload = true"))
    assert "optimizer" not in away["during rollouts"]
    assert away["during the update"] == whole["during the update"]
    split = _verl(tmp_path, ("n_gpus_per_node = 1", "n_gpus_per_node = 2"))
    assert split["during the update"]["weights"] == pytest.approx(2 * gib)
    adapter = ("enable_gradient_checkpointing", "lora_rank = 32\nenable_gradient_checkpointing")
    trained = _verl(tmp_path, adapter)
    assert "reference model" not in trained["during rollouts"]
    assert trained["during the update"]["adapter with optimizer"] < 1
    awake = _verl(
        tmp_path,
        ("tensor_model_parallel_size", "free_cache_engine = false\ntensor_model_parallel_size"),
    )
    assert awake["during the update"]["rollout share"] == 52


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (("n_gpus_per_node = 1", 'n_gpus_per_node = "$GPUS"'), UsageError, "how many GPUs"),
        (("n_gpus_per_node = 1", "n_gpus_per_node = inf"), UsageError, "how many GPUs"),
        (("n_gpus_per_node = 1", "n_gpus_per_node = 0.5"), UsageError, "at least one GPU"),
        (("parallel_size = 1", "parallel_size = -1"), UsageError, "at least one GPU"),
        (("Qwen/Qwen2.5-Math-1.5B", "owner/mine"), UsageError, "--billions"),
        (("[data]", "[data"), UsageError, "no config of verl"),
        (
            ("use_dynamic_bsz", 'strategy = "megatron"\nuse_dynamic_bsz'),
            NotApplicableError,
            "Megatron",
        ),
    ],
)
def test_what_of_verl_is_not_estimated(
    tmp_path: Path, change: tuple[str, str], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        _verl(tmp_path, change)
