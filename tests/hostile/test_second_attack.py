"""The second attack, of the end of November 2026: keys that are paths, halves of characters, and
numbers that overflow when they are added.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bs4_agent.actions.submission import Submission
from bs4_agent.checkpoints.removal import free
from bs4_agent.runs import trash
from bs4_common import foreign_json
from bs4_common.errors import BadRequest, KeyReused, Refused
from bs4_common.failures.facts import LogEvent
from bs4_common.ids import is_key, ulid
from bs4_common.ledger import Ledger
from bs4_common.runs.runlog import RunLog
from bs4_common.streams.segments import segments
from bs4_common.trainers.base import Event
from bs4_console.checks.diagnose import diagnose
from bs4_console.pods import mirror, reports
from bs4_console.pods.gate import rules
from tests.agent.actions.stopping import RUN, StoppingAgent
from tests.chaos.records import RECORDS
from tests.console.pods.test_reports import HEAD, JOURNAL, MEMBERS, archive
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
    assert not rules.text("a\ud800")
    assert not rules.name("a\ud800")
    assert rules.text("a\U0001f600")


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


def reached(*steps: int, unordered: bool = True) -> list[int | None]:
    """Return the step at which a run is seen to be after each line that names one of `steps`."""
    log = RunLog(run="demo", attempt=1)
    found = []
    for m, step in enumerate(steps):
        log.add(
            LogEvent(
                event=Event("step", "trainer", {"unordered": unordered}, step),
                m=float(m),
                text="",
                source="trainer",
                stream="",
                cursor="",
                file="",
                offset=0,
                line=0,
            )
        )
        assert log.side("trainer").last_step_m == float(m)
        found.append(log.side("trainer").last_step)
    return found


@pytest.mark.parametrize("unordered", [True, False])
def test_one_line_with_a_huge_step_does_not_move_the_step(unordered: bool) -> None:
    huge = 999_999_999_999
    assert reached(7, 8, huge, 9, 10, unordered=unordered) == [7, 8, 8, 9, 10]
    assert reached(huge, 1, 2, 3, unordered=unordered) == [huge, huge, 2, 3]
    assert reached(7, huge, 8, huge + 5000, 9, unordered=unordered) == [7, 7, 8, 8, 9]


def test_a_step_far_away_is_believed_when_a_second_line_agrees() -> None:
    assert reached(7, 5000, 5001, 5002) == [7, 7, 5001, 5002]


def test_a_submission_cannot_take_the_key_of_what_the_agent_does_itself(tmp_path: Path) -> None:
    agent = StoppingAgent(tmp_path)
    try:
        agent.runs.register(agent.spec())
        key, rotate = ulid(), {"kind": "rotate", "run": "other"}
        agent.actions.executor.accept(Submission(key, rotate, "disk guard"), "other")
        with pytest.raises(KeyReused):
            agent.actions.submit({"key": key, "kind": "note", "run": RUN, "text": "x"}, "bob")
    finally:
        agent.close()


#: What no agent writes in its journal, and what the folds and the screen would stumble over.
ODD_RECORDS = [
    {"type": "incident", "event": "opened", "incident": "i", "run": "r", "attempt": 1},
    {"type": "incident", "event": "updated", "incident": "i1", "coverage": 5},
    {"type": "incident", "event": "opened", "incident": "i", "failure": "f", "run": []},
    {"type": "action", "action": "A", "event": "accepted", "kind": ["launch"]},
    {"type": "action", "action": "A", "event": ["accepted"], "kind": "launch"},
    {"type": "action", "action": "A", "event": "intent", "step": 10**12},
    {"type": "action", "action": "A", "event": "intent", "step": "x"},
    {"type": "run", "event": "registered", "run": []},
    {"type": "report", "event": "written", "run": "r", "attempt": 1, "missing": 5},
]


@pytest.mark.parametrize("record", ODD_RECORDS)
def test_a_report_with_an_odd_record_still_tells_the_rest(
    record: dict[str, object], tmp_path: Path
) -> None:
    line = json.dumps({"t": 30.0, "m": 1.0, "b": "x", "seq": 99, **record}).encode() + b"\n"
    path = archive(
        tmp_path / f"r.1{reports.SUFFIX}", {**MEMBERS, "records/journal/4": JOURNAL + line}
    )
    told = diagnose([path])
    assert [finding["id"] for finding in told["findings"]] == ["cuda-oom"]
    assert [phrase for phrase in told["coverage"] if phrase.startswith("1 records of its journal")]


def test_an_agent_starts_on_a_journal_with_odd_records_behind_its_own(tmp_path: Path) -> None:
    before = StoppingAgent(tmp_path)
    for number in range(2):
        incident = {"incident": f"own {number}", "failure": "f", "run": "r"}
        before.book("incident", event="opened", **incident)
    before.close()
    ((_, segment),) = segments(before.stream.directory)
    lines = [json.dumps({"t": 1.0, "b": "x", **record}).encode() for record in ODD_RECORDS]
    segment.write_bytes(segment.read_bytes() + b"\n".join([*RECORDS, *lines]) + b"\n")
    heir = StoppingAgent(tmp_path)
    try:
        heir.actions.resume()
        told = [incident.id for incident in heir.book.ledger.open_incidents()]
        assert told == ["own 0", "own 1"]
        assert all(action.ended for action in heir.book.ledger.actions.values())
        assert heir.book.ledger.last_t > 2.0
    finally:
        heir.close()


def test_a_record_with_a_bad_time_is_left_out_of_a_report(tmp_path: Path) -> None:
    line = b'{"t":"x","type":"incident","event":"opened","incident":"j","failure":"f","run":"r"}\n'
    path = archive(
        tmp_path / f"r.1{reports.SUFFIX}", {**MEMBERS, "records/journal/4": line + JOURNAL}
    )
    assert [finding["id"] for finding in diagnose([path])["findings"]] == ["cuda-oom"]


@pytest.mark.parametrize("home", ["home", "", "///", "../up", "\u00e9"])
def test_a_report_from_a_home_with_an_odd_name_is_unpacked(home: str, tmp_path: Path) -> None:
    head = json.dumps({**HEAD, "home": home}).encode()
    path = archive(tmp_path / "r", {**MEMBERS, "report.json": head})
    reports.unpack(reports.load(path), tmp_path / "mirror")
    kept = mirror.Mirror(tmp_path / "mirror", write=False)
    assert kept.home == "unnamed"


def test_a_pod_whose_home_is_called_home_is_kept(tmp_path: Path) -> None:
    kept = mirror.Mirror(tmp_path / "mirror")
    kept.use("home")
    assert (kept.home, kept.stopped) == ("unnamed", "")


@pytest.mark.parametrize(
    "odd",
    [
        {"report.json": json.dumps({**HEAD, "missing": 5}).encode()},
        {"records/journal/04": JOURNAL},
        {"log/r/trainer/3.5": b"x\n"},
    ],
)
def test_a_report_with_a_part_twice_or_odd_fields_is_refused(
    odd: dict[str, bytes], tmp_path: Path
) -> None:
    with pytest.raises(reports.UsageError, match="is no crash report"):
        reports.load(archive(tmp_path / "r", {**MEMBERS, **odd}))
