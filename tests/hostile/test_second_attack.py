"""The second attack, of the end of November 2026: keys that are paths, halves of characters, and
numbers that overflow when they are added.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bs4_agent import foreign_json
from bs4_agent.checkpoints.removal import free
from bs4_agent.errors import BadRequest, Refused
from bs4_agent.ids import is_key, ulid
from bs4_agent.ledger import Ledger
from bs4_agent.runs import trash
from bs4_console.core import records
from tests.agent.actions.stopping import RUN, StoppingAgent
from tests.hostile.test_odd_rows import START, recorded, step_log

#: Each is 26 characters long and would lead out of the trash, or is no name of a directory.
PATHS = [
    "../../../outside".ljust(26, "/"),
    "../../../../escaped/aaaaaa",
    ".".ljust(26, "/"),
    "a" * 25 + "\0",
    "a" * 25 + "\n",
]


@pytest.mark.parametrize("key", PATHS)
def test_nothing_is_freed_under_a_key_that_is_a_path(key: str, tmp_path: Path) -> None:
    place = tmp_path / ".bs4" / "run" / "trash"
    place.mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    with pytest.raises(Refused):
        free([place], key)
    assert (outside / "kept").read_text() == "kept"
    assert place.is_dir()


@pytest.mark.parametrize("key", PATHS)
def test_no_action_and_no_move_takes_a_key_that_is_a_path(key: str, tmp_path: Path) -> None:
    agent = StoppingAgent(tmp_path)
    try:
        agent.runs.register(agent.spec())
        body = {"key": key, "kind": "note", "run": RUN, "text": "x"}
        with pytest.raises(BadRequest, match="26 letters and digits"):
            agent.actions.submit(body, "bob")
        layout = agent.runs.trainer(agent.spec()).layout(agent.spec())
        rollouts = layout.output_dir / "rollouts"
        rollouts.mkdir(parents=True)
        with pytest.raises(Refused):
            trash.trash(agent.runs, RUN, rollouts, stamp_as=key, everything=True)
        assert rollouts.is_dir()
    finally:
        agent.close()


def test_a_key_is_what_ulid_makes() -> None:
    assert is_key(ulid())
    assert not is_key(None)
    assert not is_key(ulid()[:25])


@pytest.mark.parametrize("half", ["\\ud800", "\\uDFFF", "\\ud800\\ud800"])
def test_half_a_character_in_a_log_line_can_be_written(half: str) -> None:
    found = foreign_json.loads(f'{{"{half}": ["CUDA out of memory {half}"]}}')
    assert json.dumps(found, ensure_ascii=False).encode()
    assert "CUDA out of memory" in str(found)


def test_a_whole_character_that_is_escaped_stays() -> None:
    assert foreign_json.loads('"\\ud83d\\ude00 \\\\ud800"') == "\U0001f600 \\ud800"


def test_the_console_refuses_half_a_character() -> None:
    assert not records.text("a\ud800")
    assert not records.name("a\ud800")
    assert records.text("a\U0001f600")


def test_a_command_prints_what_no_encoding_can_write() -> None:
    script = (
        "import sys\n"
        "from bs4_console.cli import main\n"
        "main.main(['--version'])\n"
        "print('before \\ud800 after')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "before \\ud800 after" in done.stdout


OVERFLOWING = [
    b"step:%d - perf/mfu/actor:1e308",
    b"step:%d - response_length/mean:1e308 - prompt_length/mean:1e308",
    b"step:%d - response_length/clip_ratio:1e308",
    b"step:%d - actor/pg_loss:1__0",
]


@pytest.mark.parametrize("odd", OVERFLOWING)
def test_rows_of_verl_that_overflow_hold_up_no_other_row(odd: bytes, tmp_path: Path) -> None:
    steps = step_log(tmp_path, "verl")
    for step in range(200):
        steps.feed("trainer", odd % (1000 + step), f"1:{step}", 1, START)
    steps.feed("trainer", b"step:5 - actor/pg_loss:0.1 - timing_s/step:1.0", "1:900", 1, START)
    steps.flush()
    assert 5 in [record["step"] for record in recorded(tmp_path)]


def test_an_incident_whose_fields_are_null_keeps_what_it_had() -> None:
    ledger = Ledger()
    opened = {
        "type": "incident",
        "event": "opened",
        "incident": "i1",
        "failure": "cuda-oom",
        "run": "demo",
        "evidence": [{"source": "trainer"}],
        "t": 1.0,
    }
    ledger.apply(opened)
    ledger.apply({**opened, "event": "updated", "evidence": None, "summary": None})
    assert ledger.incidents["i1"].evidence == [{"source": "trainer"}]
    assert ledger.incidents["i1"].summary == ""
