"""The trainer's own config classes, asked in an environment of the shape that prime-rl's has: what
they refuse, what they cannot tell, and what is left behind (nothing).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.probes import classes
from bs4_common.errors import StepFailed
from bs4_practice.miniature.install import install_training

GENERATIONS = {"prime-rl-2026-01": "2026-01", "prime-rl": "current"}
UNKNOWN = {"prime-rl-2026-01": "buffer_size", "prime-rl": "rollouts_per_example"}


@pytest.fixture(params=GENERATIONS)
def trainer(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def python(tmp_path: Path, trainer: str) -> str:
    install_training(tmp_path / "prime-rl", sys.executable, GENERATIONS[trainer])
    return str(tmp_path / "prime-rl" / ".venv" / "bin" / "python3")


def config(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "rl.toml"
    file.write_text(text)
    return ["@", str(file)]


def only(python: str, trainer: str, words: list[str]) -> Any:
    """The one error."""
    answer: Any = classes.probe(python, trainer, "rl", words)
    (error,) = answer["errors"]
    return error


def test_they_take_what_is_right_and_refuse_what_is_not(
    tmp_path: Path, trainer: str, python: str
) -> None:
    good = config(tmp_path, "max_steps = 10\n[orchestrator]\nbatch_size = 8\n")
    answer = classes.probe(python, trainer, "rl", good)
    assert (answer.get("errors"), answer.get("unknown")) == ([], None)
    assert str(answer["class"]).endswith("RLConfig")
    bad = config(tmp_path, f"max_steps = 10\n[orchestrator]\n{UNKNOWN[trainer]} = 8\n")
    error = only(python, trainer, bad)
    assert (error["loc"], error["kind"]) == (["orchestrator", UNKNOWN[trainer]], "extra_forbidden")


def test_the_command_line_counts(tmp_path: Path, trainer: str, python: str) -> None:
    words = [*config(tmp_path, "max_steps = 10\n"), "--orchestrator.no-such-key", "3"]
    error = only(python, trainer, words)
    assert error["loc"] == ["orchestrator", "no_such_key"]


def test_what_it_refuses_between_values_has_no_place(
    tmp_path: Path, trainer: str, python: str
) -> None:
    words = config(tmp_path, "[trainer.model]\nseq_len = 1024\n[orchestrator]\nseq_len = 2048\n")
    error = only(python, trainer, words)
    assert (error["loc"], error["kind"]) == ([], "value_error")
    assert "1024" in error["message"]


def test_nothing_is_written_where_the_config_lies(
    tmp_path: Path, trainer: str, python: str
) -> None:
    words = config(tmp_path, "max_steps = 10\n")
    before = sorted(path for path in tmp_path.rglob("*") if "__pycache__" not in path.parts)
    classes.probe(python, trainer, "rl", [*words, "--output-dir", str(tmp_path / "outputs")])
    assert sorted(path for path in tmp_path.rglob("*") if "__pycache__" not in path.parts) == before


def test_where_there_is_no_class_that_is_said(tmp_path: Path, trainer: str, python: str) -> None:
    assert "cannot be imported" in str(classes.probe(python, trainer, "sft", [])["unknown"])
    assert "known here" in str(classes.probe(python, "verl", "rl", [])["unknown"])
    assert "cannot be imported" in str(classes.probe(sys.executable, trainer, "rl", [])["unknown"])
    with pytest.raises(StepFailed, match="cannot be run"):
        classes.probe(str(tmp_path / "no-python"), trainer, "rl", [])


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package prime_rl that a test writes itself."""
    root = tmp_path / "made"
    for place in ("prime_rl", "prime_rl/configs", "prime_rl/utils"):
        (root / place).mkdir(parents=True)
        (root / place / "__init__.py").touch()
    (root / "prime_rl" / "configs" / "rl.py").write_text("class RLConfig:\n    pass\n")
    monkeypatch.setenv("PYTHONPATH", str(root))
    return root / "prime_rl" / "utils" / "config.py"


def test_a_class_that_does_not_come_back_is_not_waited_for(made: Path) -> None:
    made.write_text("import time\n\ndef cli(cls, args):\n    time.sleep(60)\n")
    began = time.monotonic()
    assert "within 1 s" in str(
        classes.probe(sys.executable, "prime-rl", "rl", [], timeout=1.0)["unknown"]
    )
    assert time.monotonic() - began < 20


def test_noise_crashes_and_exits_are_told_apart(made: Path) -> None:
    made.write_text(
        "import sys\n\ndef cli(cls, args):\n    print('{}')\n    sys.stderr.write('usage: "
        "rl\\nrl: error: no --x\\n')\n    sys.exit(2)\n"
    )
    answer = classes.probe(sys.executable, "prime-rl", "rl", ["--x"])
    assert answer["errors"] == [{"loc": [], "kind": "SystemExit", "message": "rl: error: no --x"}]
    made.write_text(
        "def cli(cls, args):\n    raise ModuleNotFoundError(\"taskset 'some-env' not found\")\n"
    )
    answer = classes.probe(sys.executable, "prime-rl", "rl", [])
    assert answer["errors"] == [
        {
            "loc": [],
            "kind": "ModuleNotFoundError",
            "message": "ModuleNotFoundError: taskset 'some-env' not found",
        }
    ]
    made.write_text(
        "import os, signal\n\ndef cli(cls, args):\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert "exit code -9" in str(classes.probe(sys.executable, "prime-rl", "rl", [])["unknown"])


def test_what_a_config_holds_is_not_told(made: Path) -> None:
    """pydantic's errors carry the input; a config may hold what nobody should read."""
    made.write_text(
        "class E(ValueError):\n    def errors(self):\n        return [{'loc': ('a', 1), 'type': "
        "'t', 'msg': 'm', 'input': 'canary'}]\n\n"
        "def cli(cls, args):\n    raise RuntimeError('canary') from E()\n"
    )
    assert classes.probe(sys.executable, "prime-rl", "rl", [])["errors"] == [
        {"loc": ["a", 1], "kind": "t", "message": "m"}
    ]
