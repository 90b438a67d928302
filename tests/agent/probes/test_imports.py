"""Imports tried by another interpreter: what fails, what crashes, what takes for ever, and what
prints.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bs4_agent.probes import imports
from bs4_common.errors import StepFailed


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def test_each_module_has_its_own_answer(modules: Path) -> None:
    (modules / "good.py").write_text(
        "import sys\nprint('noise')\nsys.stdout.write('[\"good\", \"lie\"]\\n')\n"
    )
    (modules / "broken.py").write_text("raise RuntimeError('first line\\nsecond line')\n")
    (modules / "leaving.py").write_text("raise SystemExit(3)\n")
    found = imports.probe(sys.executable, ["good", "broken", "leaving", "absent_module"])
    assert found["good"] is None
    assert found["broken"] == "RuntimeError: first line"
    assert found["leaving"] == "SystemExit: 3"
    assert found["absent_module"] == "ModuleNotFoundError: No module named 'absent_module'"


def test_a_crash_loses_only_what_it_crashed_in(modules: Path) -> None:
    (modules / "good.py").write_text("")
    (modules / "crashing.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"
    )
    found = imports.probe(sys.executable, ["good", "crashing", "good2"])
    assert found == {
        "good": None,
        "crashing": "the interpreter died while importing it (signal 11)",
        "good2": "the interpreter died while importing it (signal 11)",
    }


def test_what_takes_too_long_is_ended_and_said(modules: Path) -> None:
    (modules / "slow.py").write_text("import time\ntime.sleep(600)\n")
    assert imports.probe(sys.executable, ["slow"], timeout=1.5) == {
        "slow": "importing it was not done after 2 s"
    }


def test_no_gpu_is_seen_and_no_file_is_written(modules: Path) -> None:
    (modules / "looking.py").write_text(
        "import os\nassert os.environ['CUDA_VISIBLE_DEVICES'] == '' and os.environ['MORE'] == '1'\n"
    )
    assert imports.probe(sys.executable, ["looking"], more={"MORE": "1"}) == {"looking": None}
    assert not list(modules.rglob("*.pyc"))


def test_an_interpreter_that_is_not_there_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match="uv sync"):
        imports.probe(str(tmp_path / "python"), ["json"])
