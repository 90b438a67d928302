"""What judges a checkout, `.ci/run`: a test that fails once is a failure."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_nothing_tries_a_failed_test_again() -> None:
    for name in (".ci/run", "Makefile", "pyproject.toml", "requirements.lock", "tests/conftest.py"):
        assert "rerun" not in (ROOT / name).read_text().lower(), name


def test_a_suite_that_hangs_is_cut_off_before_ninety_minutes_are_over() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert 'timeout --kill-after=30 "${TEST_LIMIT:-900}" make test' in lines
    assert 'timeout --kill-after=30 "${TEST_LONG_LIMIT:-3900}" make test-long' in lines
