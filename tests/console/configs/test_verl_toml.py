"""The TOML file that a verl launch from here takes, under the same rules as a script of Hydra's
words.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bs4_console.configs.lint import lint
from bs4_console.configs.view import Given

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "configs/verl").glob("*.toml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_are_clean(path: Path) -> None:
    assert lint(path, "verl", component="sft" if "-sft-" in path.name else "rl") == []


def found(tmp_path: Path, text: str) -> list[tuple[str, str, int]]:
    path = tmp_path / "verl.toml"
    path.write_text(text)
    return [(finding.id, finding.level, finding.line) for finding in lint(path, "verl")]


def test_a_mode_that_is_none_and_saving_that_is_off(tmp_path: Path) -> None:
    text = (
        '[trainer]\n# a comment\nresume_mode = "off"\nsave_freq = -1\nmax_actor_ckpt_to_keep = '
        "3\ntotal_training_steps = 9\n"
    )
    assert found(tmp_path, text) == [("V02", "error", 3), ("V06", "warning", 4)]


def test_a_broken_file_is_one_finding(tmp_path: Path) -> None:
    assert found(tmp_path, "[trainer\n") == [("toml", "error", 1)]


def test_a_plus_is_hydras(tmp_path: Path) -> None:
    """Adapter settings are new to verl's config."""
    head = (
        "[trainer]\ntotal_training_steps = 9\nsave_freq = 5\nmax_actor_ckpt_to_keep = 3\n"
        "[actor_rollout_ref.model]\n"
    )
    assert ("V05", "error", 6) in found(tmp_path, head + 'lora_adapter_path = "/a"\n')
    assert "V05" not in [
        id_ for id_, _, _ in found(tmp_path, head + '"+lora_adapter_path" = "/a"\n')
    ]


def test_what_is_missing_is_told_at_its_table(tmp_path: Path) -> None:
    assert ("V01", "warning", 3) in found(
        tmp_path, "[data]\n\n[trainer]\nsave_freq = 5\nmax_actor_ckpt_to_keep = 3\n"
    )


SFT = (
    "[trainer]\nsave_freq = 5\ntotal_epochs = 2\nmax_ckpt_to_keep = 3\n[model]\npartial_pretrain "
    '= "a/b"\n[optim]\nlr = 1e-6\n'
)


def test_an_sft_ends_with_its_epochs_and_limits_its_checkpoints_by_another_key(
    tmp_path: Path,
) -> None:
    assert found(tmp_path, SFT) == []
    assert found(tmp_path, SFT.replace("total_epochs = 2\n", "")) == [("V01", "warning", 1)]
    assert found(tmp_path, SFT.replace("max_ckpt_to_keep", "max_actor_ckpt_to_keep")) == [
        ("V06", "warning", 1)
    ]
    assert found(tmp_path, SFT.replace("save_freq = 5", 'resume_mode = "off"\nsave_freq = 5')) == [
        ("V02", "error", 2)
    ]


def test_a_script_that_starts_an_sft_is_read_too(tmp_path: Path) -> None:
    script = tmp_path / "sft.sh"
    script.write_text(
        "torchrun --nproc_per_node=2 -m verl.trainer.fsdp_sft_trainer \\\n  "
        "model.partial_pretrain=a/b trainer.total_epochs=2 \\\n"
        "  trainer.save_freq=50 trainer.max_ckpt_to_keep=3 trainer.default_local_dir=/d "
        "trainer.resume_mode=off\n"
    )
    assert [(finding.id, finding.line) for finding in lint(script, "verl")] == [("V02", 3)]


def test_settings_of_the_adapter_have_their_plus_wherever_the_word_stands(tmp_path: Path) -> None:
    head = (
        "[trainer]\ntotal_training_steps = 9\nsave_freq = 5\nmax_actor_ckpt_to_keep = 3\n"
        "[data.custom_cls.config.adapter_config]\n"
    )
    assert found(tmp_path, head + "num_tasks_per_case = 9\n") == [("V05", "error", 6)]
    assert found(tmp_path, head + '"+num_tasks_per_case" = 9\n') == []


def test_the_words_of_the_launch_win_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "verl.toml"
    path.write_text(
        "[trainer]\ntotal_training_steps = 9\nsave_freq = -1\nmax_actor_ckpt_to_keep = 3\n"
        "[actor_rollout_ref]\n"
    )

    def said(*words: str) -> list[tuple[str, int]]:
        command = " ".join(["env A=1 python3 -u -m verl.trainer.main_ppo", *words])
        return [(finding.id, finding.line) for finding in lint(path, "verl", Given(launch=command))]

    assert said() == [("V06", 3)]
    assert said("trainer.save_freq=5") == []
    assert said("trainer.save_freq=5", "trainer.resume_mode=off") == [("V02", 1)]
    assert said("trainer.save_freq=5", "~trainer.total_training_steps") == [("V01", 2)]
    assert said(
        "trainer.save_freq=5",
        "actor_rollout_ref.model.lora_adapter_path=/a",
        "actor_rollout_ref.rollout.load_format=safetensors",
        "actor_rollout_ref.model.use_shm=True",
    ) == [("V05", 1)]


def test_variables_are_no_settings(tmp_path: Path) -> None:
    text = '[environment]\nREWARD_ADAPTER = "x"\n[plan]\nsteps = 9\n'
    text += "[trainer]\ntotal_training_steps = 9\nsave_freq = 5\nmax_actor_ckpt_to_keep = 3\n"
    assert found(tmp_path, text) == []
