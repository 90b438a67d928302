"""`checkpoints` without a pod: directories, and what is refused before anything is asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bs4_console.cli.main import main
from tests.agent.checkpoints.trees import old_orchestrator, old_run, old_step


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"BS4_{name}_DIR", str(tmp_path / name))


def test_a_directory_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = old_run(tmp_path)
    old_step(spec, 5)
    (spec.output_dir / "run_default/broadcasts/step_5/model.safetensors").unlink()
    assert main(["checkpoints", "list", str(spec.output_dir), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "bs4.checkpoints/1"
    [one] = found["checkpoints"]
    assert (one["step"], one["complete"], one["missing"]) == (5, False, {"broadcast": "no weights"})
    assert {part["name"] for part in one["parts"]} == {"trainer", "orchestrator", "broadcast"}


def test_a_directory_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = old_run(tmp_path)
    for step in (5, 10):
        old_step(spec, step)
    old_orchestrator(spec, 15)
    assert main(["checkpoints", "list", str(spec.output_dir)]) == 0
    shown = capsys.readouterr().out
    assert "step 10 can be resumed" in shown
    assert "trainer: not there; broadcast: not there" in shown
    assert "disk: " in shown


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["list", "/nowhere"], 2, "no directory"),
        (["list"], 2, "No pod is known yet"),
        (["list", ".", "--pod", "a"], 2, "Give one or the other"),
        (["keep", "--pod", "a", "--run", "demo"], 2, "--off"),
        (["keep", "--pod", "a", "--run", "demo", "--last", "2", "--off"], 2, "--off"),
        (["keep", "--pod", "a", "--run", "demo", "--last", "two"], 2, "invalid int"),
        (["merge", "--pod", "a", "--run", "demo", "--base", "/b"], 2, "--adapter DIR"),
        (["merge", "--pod", "a", "--run", "demo", "--adapter", "/a", "--step", "5"], 2, "or --a"),
    ],
)
def test_what_makes_no_sense(
    words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        found = main(["checkpoints", *words])
    except SystemExit as ended:
        found = int(str(ended.code))
    assert found == code
    assert said in capsys.readouterr().err
