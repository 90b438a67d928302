"""An upload and the guard do not meet at one step."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bs4_agent.checkpoints import holds
from bs4_agent.checkpoints.holds import alone, hold, holder
from bs4_agent.paths import Home
from bs4_common.errors import Busy


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_what_is_held_is_not_taken(home: Home) -> None:
    assert holder(home, "demo", 5) == ""
    with hold(home, "demo", 5, "upload to the store"):
        assert holder(home, "demo", 5) == "upload to the store"
        with alone(home, "demo", 5) as by:
            assert by == "upload to the store"
        with alone(home, "demo", 10) as by:
            assert by == "", "another step"
        with hold(home, "demo", 5, "a second reader"):
            pass
    with alone(home, "demo", 5) as by:
        assert by == ""


def test_what_is_taken_is_not_held(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holds, "_PATIENCE_S", 0.0)
    with (
        alone(home, "demo", 5),
        pytest.raises(Busy, match="take a newer one"),
        hold(home, "demo", 5, "upload"),
    ):
        pass


def test_two_guards_do_not_take_the_same_step(home: Home) -> None:
    with alone(home, "demo", 5) as first, alone(home, "demo", 5) as second:
        assert (first, second) == ("", "somebody")


def test_a_hold_on_a_name_that_was_taken_away_keeps_somebody_out(home: Home) -> None:
    """An upload that comes while the guard gives up the step again: its lock must be the one that
    the next guard meets.
    """
    held, leave = threading.Event(), threading.Event()

    def upload() -> None:
        with hold(home, "demo", 5, "upload"):
            held.set()
            leave.wait(60)

    with alone(home, "demo", 5):
        thread = threading.Thread(target=upload)
        thread.start()
    assert held.wait(60)
    with alone(home, "demo", 5) as by:
        assert by == "upload"
    leave.set()
    thread.join(60)


def test_a_holder_that_dies_holds_nothing(home: Home) -> None:
    """Pid files of dead uploads kept their step for ever, or were believed to be somebody
    else's.
    """
    code = """if True:
        import sys; sys.path.insert(0, sys.argv[1])
        from pathlib import Path
        from bs4_agent.checkpoints.holds import hold
        from bs4_agent.paths import Home
        with hold(Home(Path(sys.argv[2])), "demo", 5, "upload"):
            print("held", flush=True)
            sys.stdin.read()
    """
    agents = Path(holds.__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(agents), str(home.root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    assert holder(home, "demo", 5) == "upload"
    process.kill()
    process.communicate()
    assert holder(home, "demo", 5) == ""
