"""Whatever a test of runs starts ends with it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.runs.practice import Pod, PracticeTrainer, until
from tests.support.processes import end_marked, marked


@pytest.fixture
def no_process_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every process of the test carries a mark in its environment and is ended after it."""
    mark = f"BS4_TEST_MARK={uuid.uuid4().hex}"
    monkeypatch.setenv(*mark.split("="))
    yield

    def ended() -> bool:
        """Again for those that were forked while the others were being ended."""
        end_marked(mark)
        return not [pid for pid in marked(mark) if pid != os.getpid()]

    until(ended)


@pytest.fixture
def pod(tmp_path: Path, no_process_left: None) -> Pod:
    """An agent's home and a trainer whose launcher only sleeps."""
    return Pod(tmp_path, PracticeTrainer("exec sleep 60"))
