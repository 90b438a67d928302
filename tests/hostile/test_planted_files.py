"""A job puts a pipe, an endless device or a bottomless text where the agent reads a small file: the
agent neither waits for it nor ends.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.runs.outcome import final_events
from bs4_common.checkpoints.inventory import pointed
from bs4_common.failures import environment_probes, wandb_files
from bs4_common.files import read_regular
from bs4_common.trainers import registry
from bs4_common.trainers.base import LaunchSpec
from bs4_common.trainers.settings import BadConfig, load_toml

#: Seconds after which a reader counts as one that waits for ever.
PATIENCE_S = 60.0


def answered(ask: Callable[[], Any]) -> Any:
    """Return what `ask` returns or raises. Fails if it does neither."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(ask())
        except Exception as error:  # noqa: BLE001
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert found, "the reader waits for ever"
    return found[0]


def pipe(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    return path


def endless(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to("/dev/zero")
    return path


@pytest.mark.parametrize("plant", [pipe, endless])
def test_a_config_that_is_no_file_is_an_error_of_the_config(
    plant: Callable[[Path], Path], tmp_path: Path
) -> None:
    config = plant(tmp_path / "rl.toml")
    assert isinstance(answered(lambda: load_toml(config)), BadConfig)


@pytest.mark.parametrize("text", ["a = " + "[" * 5000 + "]" * 5000, f"[{'.'.join('a' * 3000)}]"])
def test_a_config_that_nests_without_an_end_is_an_error_of_the_config(
    text: str, tmp_path: Path
) -> None:
    config = tmp_path / "rl.toml"
    config.write_text(text)
    assert isinstance(answered(lambda: load_toml(config)), BadConfig)


@pytest.mark.parametrize("plant", [pipe, endless])
@pytest.mark.parametrize("name", ["files/wandb-summary.json", "run-abcd.wandb"])
def test_wandb_files_that_are_none_have_no_step(
    plant: Callable[[Path], Path], name: str, tmp_path: Path
) -> None:
    plant(tmp_path / "wandb/run-20261129_000000-abcd" / name)
    [directory] = wandb_files.directories([tmp_path / "wandb"])
    assert answered(lambda: wandb_files.newest_step(directory)) is None


def test_a_summary_that_nests_without_an_end_has_no_step(tmp_path: Path) -> None:
    summary = tmp_path / "wandb/run-20261129_000000-abcd/files/wandb-summary.json"
    summary.parent.mkdir(parents=True)
    summary.write_text('{"_step":' + "[" * 3000 + "]" * 3000 + "}")
    [directory] = wandb_files.directories([tmp_path / "wandb"])
    assert answered(lambda: wandb_files.newest_step(directory)) is None


@pytest.mark.parametrize("plant", [pipe, endless])
def test_a_note_and_a_pointer_that_are_no_files_count_as_absent(
    plant: Callable[[Path], Path], tmp_path: Path
) -> None:
    path = plant(tmp_path / "note")
    assert answered(lambda: environment_probes.text_file(path)) == (None, 0.0)
    assert answered(lambda: pointed(path)) is None


def test_the_final_lines_are_not_waited_for_in_a_pipe(tmp_path: Path) -> None:
    trainer = registry.get("prime-rl-2026-01")
    spec = LaunchSpec(
        run="run",
        trainer=trainer.id,
        config=Path("rl.toml"),
        cwd=tmp_path,
        output_dir=tmp_path / "out",
    )
    for source in trainer.log_sources(spec):
        pipe(source.path)
    assert answered(lambda: final_events(trainer, spec, 0.0)) == []


def test_a_file_that_is_larger_than_it_may_be_is_not_read_whole(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(b"x" * 11)
    assert read_regular(large, 11) == b"x" * 11
    with pytest.raises(OSError, match="too large"):
        read_regular(large, 10)
