"""What judges a checkout, `.ci/run`: a test that fails once is a failure."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_nothing_tries_a_failed_test_again() -> None:
    for name in (".ci/run", "Makefile", "pyproject.toml", "requirements.lock", "tests/conftest.py"):
        assert "rerun" not in (ROOT / name).read_text().lower(), name


def test_the_short_suite_has_ten_minutes_and_the_long_one_fifty() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert 'timeout --kill-after=30 "${TEST_LIMIT:-600}" make test' in lines
    assert 'timeout --kill-after=30 "${TEST_LONG_LIMIT:-3000}" make test-long' in lines
