"""A look before a start of verl: by its own settings, and in whatever interpreter it is started
with.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bs4_agent.preflight import stack
from bs4_common.trainers import verl_needs
from bs4_common.trainers.base import LaunchSpec


def start(cwd: Path, **more: object) -> LaunchSpec:
    return LaunchSpec(
        run="demo", trainer="verl", config=Path("c.toml"), cwd=cwd, output_dir=cwd / "out", **more
    )  # type: ignore[arg-type]


def interpreter(directory: Path) -> Path:
    path = directory / "bin" / "python3"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(sys.executable)
    return path


def test_the_named_environment_then_the_checkouts_then_the_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cwd = tmp_path / "verl"
    machines = interpreter(tmp_path / "image")
    monkeypatch.setenv("PATH", str(machines.parent))
    # What is started is looked up by whoever starts it; what is looked at needs its path.
    assert verl_needs.interpreter(start(cwd)) == "python3"
    assert verl_needs.interpreter(start(cwd), absolute=True) == str(machines)
    own = interpreter(cwd / ".venv")
    assert verl_needs.interpreter(start(cwd)) == str(own)
    named = interpreter(tmp_path / "named")
    assert verl_needs.interpreter(start(cwd, env={"VIRTUAL_ENV": str(tmp_path / "named")})) == str(
        named
    )


def test_without_an_environment_of_its_own_that_interpreter_is_looked_at(tmp_path: Path) -> None:
    assert stack.probe(tmp_path, [])["python"] is None
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "verl").mkdir()
    (tmp_path / "verl" / "__init__.py").write_text("")
    found = stack.probe(tmp_path, ["verl"], {"PYTHONPATH": str(tmp_path)}, sys.executable)
    assert found["python"] == sys.executable
    assert found["versions"]["python"] == sys.version.split()[0]
    assert found["imports"] == {"verl": None}
    # What was found there is not believed of another place.
    assert (
        stack.probe(tmp_path / "elsewhere", ["verl"], {}, sys.executable)["imports"]["verl"]
        is not None
    )


def test_an_environment_that_was_changed_is_another(tmp_path: Path) -> None:
    python = interpreter(tmp_path)
    before = stack.revision(python)
    (tmp_path / "lib" / "python3.10" / "dist-packages" / "vllm-0.12.0.dist-info").mkdir(
        parents=True
    )
    assert stack.revision(python) != before
