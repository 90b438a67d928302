from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bs4_common.streams import search
from bs4_common.streams.budget import Budget
from tests.agent.streams.tiny import TinyHome


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[TinyHome]:
    home = TinyHome(tmp_path / "home")
    home.settings()
    yield home
    home.close()


@pytest.fixture
def in_one_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query takes the time that it needs and is answered at once. A slice of 50 ms may end on a
    busy machine before anything was read, and the answer is then only a part.
    """
    monkeypatch.setattr(Budget, "spent", Budget.cancelled)
    monkeypatch.setattr(search, "REGEX_SLICE_S", 60.0)
