"""What CI forgives: a test that fails once is run again and named; more than a few such tests fail the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.second_tries import FORGIVEN

ROOT = Path(__file__).resolve().parents[1]

CONFTEST = """
from tests.support import second_tries
from tests.support.second_tries import pytest_sessionfinish

def pytest_terminal_summary(terminalreporter):
    second_tries.summary(terminalreporter)
"""
FLAKY = """
import pathlib, pytest

@pytest.mark.parametrize("number", range({count}))
def test_late(number, pytestconfig):
    marker = pytestconfig.rootpath / f"tried-{{number}}"
    tried = marker.exists()
    marker.touch()
    assert tried
"""


def session(tmp_path: Path, body: str, *words: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(body)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-c", "pytest.ini", "--rootdir", str(tmp_path), "--reruns", "1", *words]
    return subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True)


def test_one_late_test_is_forgiven_and_named(tmp_path: Path) -> None:
    done = session(tmp_path, FLAKY.format(count=1))
    assert done.returncode == 0, done.stdout
    assert "1 tests failed once and were run a second time" in done.stdout
    assert "test_it.py::test_late[0]" in done.stdout


@pytest.mark.parametrize("words", [(), ("-n", "2")])
def test_many_late_tests_are_a_defect(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = session(tmp_path, FLAKY.format(count=FORGIVEN + 1), *words)
    assert done.returncode == 1, done.stdout


def test_a_test_that_fails_twice_fails_the_run(tmp_path: Path) -> None:
    done = session(tmp_path, "def test_broken():\n    assert False\n")
    assert done.returncode == 1, done.stdout
