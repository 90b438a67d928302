"""Commands under their shims: once for an action whatever dies, with their output in one stream."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bs4_agent.jobs import Jobs
from bs4_agent.launch.start import start_shim
from bs4_agent.paths import Home
from bs4_agent.runs.records import shim_holds
from bs4_agent.setup_log import numbers, open_setup_log
from bs4_common.errors import Busy, NotApplicable, StepFailed
from bs4_common.files import read_json
from bs4_common.identity import Identity
from tests.agent.setup.places import KEY

OTHER = "01J00000000000000000000001"


def quiet(text: str) -> None:
    """Nobody listens."""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(tmp_path / ".bs4")
    found.create()
    return found


def jobs(home: Home) -> Jobs:
    return Jobs(home, open_setup_log(home))


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.02)


def test_a_command_runs_once_for_its_action(home: Home, tmp_path: Path) -> None:
    argv = ["sh", "-c", 'echo "$SAID" >> out; echo to the log']
    own = jobs(home)
    own.run(KEY, argv, tmp_path, {"SAID": "a"}, quiet)
    jobs(home).run(KEY, argv, tmp_path, {"SAID": "a"}, quiet)  # as after a death of the agent
    assert (tmp_path / "out").read_text() == "a\n"
    own.run(OTHER, argv, tmp_path, {"SAID": "b"}, quiet)
    assert (tmp_path / "out").read_text() == "a\nb\n"
    log = open_setup_log(home)
    log.poll()
    first = log.read("start", 4096)
    assert first.data.startswith(b"$ sh -c ")
    assert b"to the log" in first.data


def test_a_failure_says_its_last_words(home: Home, tmp_path: Path) -> None:
    argv = [
        "sh",
        "-c",
        r"echo first; printf '\033[31merror: \033[0mno such\rerror: no such revision\n'; exit 3",
    ]
    for _ in range(2):
        with pytest.raises(
            StepFailed, match=r"exit code 3: first / error: no such / error: no such revision\. "
        ):
            jobs(home).run(KEY, argv, tmp_path, {}, quiet)
    assert len(numbers(home.setup)) == 1


def test_what_runs_is_waited_for_and_what_died_with_its_shim_is_run_again(
    home: Home, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    argv = [
        sys.executable,
        "-c",
        f"open({str(tmp_path / 'out')!r}, 'a').write('x'); open({str(gate)!r}).read()",
    ]
    own = jobs(home)
    directory = own._prepare(KEY, argv, tmp_path, {})
    # prepared, and the agent died before its shim was there
    assert own.find(KEY, argv) == directory
    start_shim(directory)
    # It is there before what is written into it.
    until(lambda: (tmp_path / "out").exists() and (tmp_path / "out").read_text() == "x")
    assert own.find(KEY, argv) == directory
    with pytest.raises(Busy, match="still runs"):
        own.refuse_strangers(OTHER)
    own.refuse_strangers(KEY)

    record = read_json(directory / "shim.json")
    assert record is not None
    for who in ("shim", "launcher"):
        os.kill(record[who]["pid"], signal.SIGKILL)
    until(lambda: not shim_holds(directory))
    assert own.find(KEY, argv) is None
    own.refuse_strangers(OTHER)
    again = own._prepare(KEY, argv, tmp_path, {})
    start_shim(again)
    gate.write_text("")  # opens when the second one reads, and ends it
    own.run(KEY, argv, tmp_path, {}, quiet)
    assert (tmp_path / "out").read_text() == "xx"
    assert len(numbers(home.setup)) == 2


def test_a_command_that_hangs_is_ended_with_everything_below_it(home: Home, tmp_path: Path) -> None:
    argv = ["sh", "-c", "sleep 600 & echo $! > child; wait"]
    own = jobs(home)
    with pytest.raises(NotApplicable, match="No command"):
        own.end(quiet)
    failed: list[str] = []

    def work() -> None:
        try:
            own.run(KEY, argv, tmp_path, {}, quiet)
        except StepFailed as error:
            failed.append(error.message)

    thread = threading.Thread(target=work)
    thread.start()
    child = tmp_path / "child"
    until(lambda: child.exists() and child.read_text())
    sleeper = Identity.of(int(child.read_text()))
    assert sleeper is not None
    descendants = home.setup / "1" / "descendants.json"
    until(lambda: descendants.exists() and str(sleeper.pid) in descendants.read_text())
    own.end(quiet)
    thread.join(60)
    assert not sleeper.alive()
    assert failed
    assert "ended with" in failed[0]


def test_only_the_newest_commands_are_kept(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bs4_agent.jobs.KEPT", 2)
    own = jobs(home)
    for _ in range(5):
        own._prepare(KEY, ["true"], tmp_path, {})
    assert numbers(home.setup) == [3, 4, 5]
