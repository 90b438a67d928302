"""The TOML file that a verl launch from here takes, under the same rules as a script of Hydra's words."""

from __future__ import annotations

from pathlib import Path

import pytest

from bs4_console.core.configs.lint import lint

EXAMPLES = sorted((Path(__file__).resolve().parents[4] / "configs/verl").glob("*.toml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_are_clean(path: Path) -> None:
    assert lint(path, "verl") == []


def found(tmp_path: Path, text: str) -> list[tuple[str, str, int]]:
    path = tmp_path / "verl.toml"
    path.write_text(text)
    return [(finding.id, finding.level, finding.line) for finding in lint(path, "verl")]


def test_a_mode_that_is_none_and_saving_that_is_off(tmp_path: Path) -> None:
    text = '[trainer]\n# a comment\nresume_mode = "off"\nsave_freq = -1\nmax_actor_ckpt_to_keep = 3\ntotal_training_steps = 9\n'
    assert found(tmp_path, text) == [("V02", "error", 3), ("V06", "warning", 4)]


def test_a_broken_file_is_one_finding(tmp_path: Path) -> None:
    assert found(tmp_path, "[trainer\n") == [("toml", "error", 1)]


def test_a_plus_is_hydras(tmp_path: Path) -> None:
    """Adapter settings are new to verl's config."""
    head = "[trainer]\ntotal_training_steps = 9\nsave_freq = 5\nmax_actor_ckpt_to_keep = 3\n[actor_rollout_ref.model]\n"
    assert ("V05", "error", 6) in found(tmp_path, head + 'lora_adapter_path = "/a"\n')
    assert "V05" not in [id_ for id_, _, _ in found(tmp_path, head + '"+lora_adapter_path" = "/a"\n')]


def test_what_is_missing_is_told_at_its_table(tmp_path: Path) -> None:
    assert ("V01", "warning", 3) in found(tmp_path, "[data]\n\n[trainer]\nsave_freq = 5\nmax_actor_ckpt_to_keep = 3\n")
