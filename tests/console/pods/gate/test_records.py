"""What a record must look like: what agents write passes, what nobody could use is refused with the
field's name.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import bs4_practice
from bs4_console.pods.gate.records import check
from bs4_console.pods.gate.rules import RecordRefused
from bs4_console.pods.mirror import Mirror
from bs4_console.pods.reader import PodReader
from bs4_console.pods.state import INCIDENTS_MOST, RUNS_MOST, PodState

RECORDING = Path(bs4_practice.__file__).parent / "recording" / "pod"
STAMP = {"t": 1.8e9, "m": 5.0, "b": "boot"}
HUGE = int("9" * 400)


def journal(**fields: Any) -> dict[str, Any]:
    return {**STAMP, **fields}


@pytest.mark.parametrize(
    ("stream", "record", "reason"),
    [
        ("journal", [1], "it is not a JSON object"),
        ("journal", {"m": 1.0}, "t is missing"),
        (
            "journal",
            journal(type="run", event="registered", run=7),
            "run is not a name of printable characters, which is not empty: 7",
        ),
        (
            "journal",
            journal(type="run", event="registered", run=None),
            "run is not a name of printable characters, which is not empty: None",
        ),
        ("journal", journal(type="run", event="registered", run="x" * 201), "run is not a name"),
        (
            "journal",
            journal(type="run", event="attempt-started", run="r", attempt="zz"),
            "attempt is not the number of an attempt: 'zz'",
        ),
        (
            "journal",
            {**journal(type="run", event="registered", run="r"), "t": "zz"},
            "t is not a time in wall seconds: 'zz'",
        ),
        (
            "journal",
            {**journal(type="run", event="registered", run="r"), "t": HUGE},
            "t is not .*: an integer of too many digits",
        ),
        (
            "journal",
            {**journal(type="note", run="r"), "t": float("nan")},
            "t is not a time in wall seconds: nan",
        ),
        (
            "journal",
            journal(type="action", action="A", event="intent", step=10**12),
            "step is not the place of a step in an action",
        ),
        (
            "journal",
            journal(type="action", action="A", event="intent", step=float("inf")),
            "step is not the place of a step in an action",
        ),
        (
            "journal",
            journal(type="action", action="A", event="intent"),
            "step is not the place of a step in an action: None",
        ),
        (
            "journal",
            journal(type="action", action="A", event="accepted", steps=[{"title": 1}]),
            "steps is not a list",
        ),
        (
            "journal",
            journal(type="incident", event="opened", incident="i"),
            "failure is not a name",
        ),
        (
            "journal",
            journal(
                type="incident", event="opened", incident="i", failure="f", severity=["critical"]
            ),
            "severity is not a text",
        ),
        (
            "journal",
            journal(type="incident", event="opened", incident="i", failure="f", title={"a": 1}),
            "title is not a text",
        ),
        (
            "journal",
            journal(type="plan", action="A", playbook="p", plan=[1, 2]),
            "plan is not an object",
        ),
        (
            "journal",
            journal(type="plan", action="A", playbook="p", plan={"steps": [{"shown": ["x"]}]}),
            "plan is not an object with the steps of a plan",
        ),
        (
            "journal",
            journal(
                type="plan",
                action="A",
                playbook="p",
                plan={"steps": [{"shown": {"processes": [{"pid": "7"}]}}]},
            ),
            "plan is not an object with the steps of a plan",
        ),
        (
            "journal",
            journal(type="plan", action="A", playbook="p", plan={"steps": [{}] * 1001}),
            "plan is not an object with the steps of a plan",
        ),
        (
            "journal",
            journal(type="plan", action="A", playbook="p", plan={"verify": {"steps_advance": 5}}),
            "plan is not an object with the steps of a plan",
        ),
        (
            "journal",
            journal(type="plan", action="A", playbook="p", plan={"typed_name": "no"}),
            "plan is not an object with the steps of a plan",
        ),
        (
            "journal",
            journal(
                type="incident",
                event="opened",
                incident="i",
                failure="f",
                evidence=[{"file": "/x", "line": "12"}],
            ),
            "evidence is not a list of evidence",
        ),
        ("telemetry", journal(coverage={"gpus": 1}), "coverage is not an object of texts"),
        (
            "journal",
            journal(type="sync", run="r", event="progress", done="x", total=1, rate=1),
            "done is not a finite number",
        ),
        (
            "journal",
            journal(type="report", run="r", attempt=1, event="written", report=5),
            "report is not a text",
        ),
        ("telemetry", journal(gpus=[1, 2]), "gpus is not an object"),
        ("telemetry", journal(gpus={"devices": [1]}), "devices is not a list of objects"),
        (
            "telemetry",
            journal(gpus={"devices": [{"index": 0, "util": float("nan")}]}),
            "util is not a finite number: nan",
        ),
        ("telemetry", journal(host={"disks": [{"path": 1}]}), "path is not a text"),
        ("telemetry", journal(runs=[{"run": 7}]), "run is not a name"),
        (
            "steps/r",
            journal(attempt=1, side="trainer", step="abc"),
            "step is not a step of training: 'abc'",
        ),
        (
            "steps/r",
            journal(attempt=1, side="trainer", step=10**12),
            "step is not a step of training",
        ),
        (
            "steps/r",
            journal(attempt=1, side="trainer", step=float("nan")),
            "step is not a step of training: nan",
        ),
        (
            "steps/r",
            journal(attempt=1, side="trainer", step=[]),
            r"step is not a step of training: \[\]",
        ),
        ("steps/r", journal(attempt=1, side=5, step=1), "side is not a name"),
        (
            "steps/r",
            journal(attempt=1, side="trainer", step=1, loss=float("inf")),
            "loss is not a finite number: inf",
        ),
    ],
)
def test_what_nobody_could_use_is_refused_with_the_field(
    stream: str, record: Any, reason: str
) -> None:
    with pytest.raises(RecordRefused, match=f"^{reason}"):
        check(stream, record)


def test_a_reason_shows_nothing_that_a_terminal_would_act_on() -> None:
    with pytest.raises(RecordRefused) as caught:
        check("journal", journal(type="mode", run="r", playbook="p", mode=["\x1b]52;c;aGk=\x07"]))
    assert str(caught.value).isprintable()


def test_unknown_types_and_fields_pass_for_a_newer_agent() -> None:
    for record in (
        journal(type="weather", rain=[1]),
        journal(type="run", event="moved", run="r", colour={"a": 1}),
    ):
        assert check("journal", record) is record


def test_everything_that_an_agent_has_recorded_passes() -> None:
    """The recorded incident that `demo --recorded` opens: journal, telemetry and steps of a real
    agent.
    """
    (home,) = [path for path in RECORDING.iterdir() if (path / "journal").is_dir()]
    counts = {"journal": 0, "telemetry": 0, "steps/practice": 0}
    for stream in counts:
        for file in (home / stream).glob("*.data"):
            for line in file.read_bytes().splitlines():
                check(stream, json.loads(line))
                counts[stream] += 1
    assert all(count > 10 for count in counts.values()), counts


def test_a_pod_with_too_many_runs_or_incidents_shows_the_first_ones(tmp_path: Path) -> None:
    reader = PodReader(PodState(name="pod"), Mirror(tmp_path, write=False))
    for number in range(RUNS_MOST + 5):
        reader._apply(
            "journal",
            reader.state.apply_journal,
            journal(type="run", event="registered", run=f"r{number}"),
        )
    for number in range(INCIDENTS_MOST + 5):
        record = journal(
            type="incident", event="opened", incident=f"i{number}", failure="f", run="r1", attempt=1
        )
        reader._apply("journal", reader.state.apply_journal, record)
    assert len(reader.state.runs) == RUNS_MOST
    assert len(reader.state.ledger.incidents) == INCIDENTS_MOST
    assert reader.state.notes["journal"].startswith(
        "10 records of journal were refused, the first because the pod has 1,000 runs already;"
    )
    said = set()
    for number in range(2_330):
        record = journal(type="run", event="registered", run=f"more{number}")
        reader._apply("journal", reader.state.apply_journal, record)
        said.add(reader.state.notes["journal"])
    assert reader.state.notes["journal"].startswith("at least 2,300 records of journal were")
    assert len(said) < 90 + 90 + 15, "the sentence of a flood changes ever more rarely"


@pytest.mark.parametrize(
    "kind", ["_init__", "_class__", "_dict__", "forget_rotations", "action_step"]
)
def test_a_type_is_no_way_to_call_any_method_of_the_ledger(kind: str, tmp_path: Path) -> None:
    state = PodState(name="pod")
    state.apply_journal(journal(type="run", event="registered", run="r"))
    state.apply_journal(journal(type=kind, run="r"))
    state.apply_journal(journal(type="sync", event=kind, run="r"))
    assert list(state.runs) == ["r"]
    assert list(state.ledger.runs) == ["r"]
