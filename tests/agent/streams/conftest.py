from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.streams.tiny import TinyHome


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[TinyHome]:
    home = TinyHome(tmp_path / "home")
    home.settings()
    yield home
    home.close()
