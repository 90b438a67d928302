"""The classes asked about a config on the pod, as its launch would have it, and about one that is
sent and laid out on its own.
"""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.preflight import schema
from bs4_agent.probes import classes
from bs4_common.errors import BadRequest
from bs4_common.trainers.base import LaunchSpec


@pytest.fixture
def asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[str, str, list[str], list[str]]]:
    """(trainer, component, words, what the files named by `@` held), and a training environment
    that is only there to be found.
    """
    told: list[tuple[str, str, list[str], list[str]]] = []

    def answer(
        python: str, trainer: str, component: str, words: list[str], *_: Any
    ) -> dict[str, object]:
        files = [Path(word) for before, word in itertools.pairwise(words) if before == "@"]
        assert all(file.is_absolute() for file in files)
        told.append((trainer, component, list(words), [file.read_text() for file in files]))
        return {"class": "C", "errors": [], "warnings": []}

    monkeypatch.setattr(classes, "probe", answer)
    monkeypatch.delenv("UV_PROJECT_ENVIRONMENT", raising=False)
    python = tmp_path / "prime-rl" / ".venv" / "bin" / "python3"
    python.parent.mkdir(parents=True)
    python.touch()
    (tmp_path / "prime-rl" / "rl.toml").write_text("max_steps = 5\n")
    return told


def spec(tmp_path: Path, **changes: Any) -> LaunchSpec:
    cwd = tmp_path / "prime-rl"
    made = LaunchSpec(
        run="demo",
        trainer="prime-rl-2026-01",
        config=Path("rl.toml"),
        cwd=cwd,
        output_dir=cwd / "outputs",
    )
    return dataclasses.replace(made, **changes)


def test_a_launch_is_judged_by_its_own_command_line(tmp_path: Path, asked: list[Any]) -> None:
    schema.of_launch(spec(tmp_path, overrides=("--trainer.optim.lr", "2e-6"), resume=5), {})
    ((trainer, component, words, files),) = asked
    assert (trainer, component, files) == ("prime-rl-2026-01", "rl", ["max_steps = 5\n"])
    assert words[2:4] == ["--trainer.optim.lr", "2e-6"]
    assert words[words.index("--output-dir") + 1] == "outputs", "its own, below where it runs"
    assert words[words.index("--ckpt.resume-step") + 1] == "5"


def test_of_several_ranks_only_the_words_of_the_program_count(
    tmp_path: Path, asked: list[Any]
) -> None:
    schema.of_launch(spec(tmp_path, component="trainer", processes=4), {})
    assert asked[0][2][0] == "@"


def test_what_would_not_be_launched_is_judged_by_its_config(
    tmp_path: Path, asked: list[Any]
) -> None:
    (tmp_path / "prime-rl" / "rl.toml").write_text("[ckpt]\nresume_step = 3\n")
    schema.of_launch(spec(tmp_path, overrides=("--max-steps", "7")), {})
    assert asked[0][2][2:] == ["--max-steps", "7"]


def test_a_config_that_is_sent_lies_below_a_directory_of_its_own_and_is_gone_afterwards(
    tmp_path: Path, asked: list[Any]
) -> None:
    files = [["/far/away/rl.toml", "a"], ["/far/../../../../../../tmp/base.toml", "b"]]
    body = {
        "trainer": "prime-rl",
        "files": files,
        "overrides": ["--x", "1", "--trainer", "@", "own.toml"],
    }
    (tmp_path / "prime-rl" / "own.toml").write_text("c")
    answer = schema.of_files(body, tmp_path / "prime-rl", {})
    ((_, component, words, held),) = asked
    assert (answer["class"], component, held) == ("C", "rl", ["a", "c"])
    place = Path(words[1])
    assert place.parts[-3:] == ("far", "away", "rl.toml")
    assert "bs4-config-" in str(place)
    assert not place.exists()
    assert words[-1] == str(tmp_path / "prime-rl" / "own.toml")


@pytest.mark.parametrize("files", [None, [], "x", [["only"]], [["a", "b", "c"]]])
def test_what_is_no_list_of_files_is_refused(tmp_path: Path, files: Any) -> None:
    with pytest.raises(BadRequest, match="files"):
        schema.of_files({"trainer": "prime-rl", "files": files}, tmp_path, {})


def test_without_a_training_environment_there_is_nobody_to_ask(tmp_path: Path) -> None:
    assert "no training environment" in str(schema.of_launch(spec(tmp_path), {})["unknown"])
