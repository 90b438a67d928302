"""Somebody swaps directories of the trash for links while they are deleted: nothing outside the
trash goes.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from bs4_agent.checkpoints.removal import free
from bs4_agent.errors import Refused, StepFailed

KEY = "0" * 26
ROUNDS, DIRECTORIES, FILES = 10, 60, 20
EXCHANGE = 2


def swap(place: str, names: list[str], begun: Event, enough: Event) -> None:
    """Exchange each directory with the link beside it, again and again, until `enough`."""
    libc = ctypes.CDLL(None, use_errno=True)
    # Held from before: the path to it need not be reachable any more.
    directory = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    while not enough.is_set():
        for name in names:
            libc.renameat2(directory, name.encode(), directory, f"link-{name}".encode(), EXCHANGE)
        begun.set()


def moved_aside(root: Path, outside: Path) -> Path:
    """Make a trash with one step of many directories, and a link to `outside` beside each; return
    the step.
    """
    step = root / ".bs4" / "run" / "trash" / KEY / "step_1"
    step.mkdir(parents=True)
    for number in range(DIRECTORIES):
        (step / f"d{number}").mkdir()
        (step / f"d{number}" / "file").write_text("y")
        (step / f"link-d{number}").symlink_to(outside)
    return step


@pytest.mark.parametrize("number", range(ROUNDS))
def test_no_link_is_followed_while_directories_are_swapped_for_links(
    number: int, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for file in range(FILES):
        (outside / f"precious{file}").write_text("x")
    step = moved_aside(tmp_path, outside)
    begun, enough = multiprocessing.Event(), multiprocessing.Event()
    names = [f"d{entry}" for entry in range(DIRECTORIES)]
    attacker = multiprocessing.Process(target=swap, args=(str(step), names, begun, enough))
    attacker.start()
    try:
        assert begun.wait(30)
        try:
            free([tmp_path / ".bs4" / "run" / "trash"], KEY)
        except StepFailed:
            pass  # refusing is as good as deleting; nothing outside may go
    finally:
        enough.set()
        attacker.join()
    assert len(list(outside.iterdir())) == FILES
    assert free([tmp_path / ".bs4" / "run" / "trash"], KEY) >= 0
    assert not step.exists()


@pytest.mark.parametrize("part", [".bs4", ".bs4/run", ".bs4/run/trash"])
def test_a_trash_that_is_reached_through_a_link_is_left_alone(part: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    step = moved_aside(outside, tmp_path)
    place = tmp_path / "run"
    (place / part).parent.mkdir(parents=True)
    (place / part).symlink_to(outside / part)
    with pytest.raises(StepFailed, match="could not be deleted"):
        free([place / ".bs4" / "run" / "trash"], KEY)
    assert step.is_dir()


def test_what_is_no_trash_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no trash of a run"):
        free([tmp_path], KEY)
