"""What people wrote about a run on the screen, which the pods' journals keep, in its record."""

from __future__ import annotations

from pathlib import Path

from bs4_console.pods.state import PodState
from bs4_console.run_log.document import RunLog
from bs4_console.run_log.record_fold import continued, fold
from tests.console.tui import fixtures


def noted(name: str, began_ago: float, text: str) -> PodState:
    """Return a pod on which demo began `began_ago` seconds ago, with a note about it."""
    state = PodState(name=name)
    fixtures.start_run(state, "demo", "prime-rl", 9000, began_ago)
    t = fixtures.NOW - began_ago + 1
    note = {"t": t, "b": "boot", "type": "note", "run": "demo", "who": "jo\n# x", "text": text}
    state.apply_journal(note)
    return state


def test_notes_of_all_pods_of_a_run_are_in_its_record_and_in_the_document(tmp_path: Path) -> None:
    pods = (noted("new", 300, "it goes on"), noted("old", 1000, "lowered\n# the rate"))
    record = continued(fold(pod, pod.runs["demo"]) for pod in pods)
    assert [note.text for note in record.notes] == ["lowered # the rate", "it goes on"]
    log = RunLog(tmp_path / "runlog.json")
    log.note("demo", "by command", "jo")
    out = log.export([record])
    _, _, notes = out.partition("#### Notes")
    written = [line.partition("UTC ")[2] for line in notes.splitlines() if line.startswith("- ")]
    assert written == ["jo # x: lowered # the rate", "jo # x: it goes on", "jo: by command"]
