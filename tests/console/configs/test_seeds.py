"""The configs that people kept in their notes: each that is known to be wrong is refused by the
rule and on the line that is wrong.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bs4_console.configs.lint import lint
from bs4_console.configs.migrate import migrate

ROOT = Path(__file__).resolve().parents[3]
SEEDS = ROOT.parent / "shared" / "seeds"

pytestmark = pytest.mark.skipif(not SEEDS.is_dir(), reason="the shared corpus is not here")

#: (file, number of its toml block) -> rules that refuse it, each with the text of the line.
REFUSED = {
    ("000", 1): {("R03", "[trainer.model.experimental.lora]"), ("R01", "seq_len = 8192")},
    ("001", 2): {("R03", "[trainer.model.experimental.lora]"), ("R01", "seq_len = 8192")},
    ("001", 3): {("R12", "[orchestrator.env.args]")},
    ("002", 1): {("R12", "[orchestrator.env.args]")},
    ("002", 2): {
        ("toml", 'executor_backend = "local"    # Local subprocess - FAST, use for training')
    },
    ("002", 4): {("R15", "[config]")},
}
#: Whole configs of which the notes say that they ran.
RAN = [("000", 0), ("001", 0), ("001", 1), ("002", 0)]


def block(seed: str, number: int) -> str:
    (file,) = SEEDS.glob(f"{seed}_*.txt")
    return re.findall(r"```toml\n(.*?)```", file.read_text(), re.DOTALL)[number]


@pytest.mark.parametrize(("seed", "number"), REFUSED)
def test_what_is_known_to_be_wrong(tmp_path: Path, seed: str, number: int) -> None:
    text = block(seed, number)
    file = tmp_path / "config.toml"
    file.write_text(text)
    lines = text.split("\n")
    found = {
        (item.id, lines[item.line - 1])
        for item in lint(file, "prime-rl-2026-01")
        if item.level == "error"
    }
    for rule, start in REFUSED[seed, number]:
        assert any(item == rule and line.startswith(start) for item, line in found), found


@pytest.mark.parametrize(("seed", "number"), RAN)
def test_what_ran_passes_and_can_be_migrated(tmp_path: Path, seed: str, number: int) -> None:
    file = tmp_path / "config.toml"
    file.write_text(block(seed, number))
    assert [
        item.as_dict() for item in lint(file, "prime-rl-2026-01") if item.level == "error"
    ] == []
    assert [
        item.as_dict() for item in migrate(file, "prime-rl").findings if item.level == "error"
    ] == []


def test_the_advice_that_turned_out_wrong_is_warned_about(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(block("002", 0))
    assert {"R23", "R29", "R33", "R22", "R19"} <= {
        item.id for item in lint(file, "prime-rl-2026-01")
    }
