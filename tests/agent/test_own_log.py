"""The agent's own log on a disk that is full."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

import pytest

from bs4_agent.own_log import OwnLog


def test_a_full_disk_loses_the_text_and_raises_nothing() -> None:
    with pytest.raises(OSError, match="No space left"), open("/dev/full", "w") as full:
        log = OwnLog(full)
        print("lost", file=log)
        try:
            raise ValueError("a defect")
        except ValueError:
            traceback.print_exc(file=log)
        assert log.fileno() == full.fileno()
        print("the same without it", file=full, flush=True)


def test_what_has_room_is_written_at_once(tmp_path: Path) -> None:
    with open(tmp_path / "agent.log", "w") as file:
        print("kept", file=OwnLog(file))
        assert (tmp_path / "agent.log").read_text() == "kept\n"
    assert not isinstance(sys.stderr, OwnLog)
