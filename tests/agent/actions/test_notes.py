"""A note may carry the standing order of a checklist."""

from __future__ import annotations

from pathlib import Path

import pytest

from bs4_common.errors import BadRequest
from bs4_common.ids import ulid
from bs4_console.pods.gate.records import check
from bs4_console.pods.gate.rules import RecordRefused
from tests.agent.checkpoints.merging.merge_pod import MergePod


def test_the_numbers_of_a_checklist_are_journalled_and_others_are_refused(tmp_path: Path) -> None:
    pod = MergePod(tmp_path)
    body = {"kind": "note", "run": "demo", "text": "list of step 200: all is well"}
    pod.actions.submit({"key": ulid(), **body, "checklist_step": 200}, "alice")
    pod.actions.submit({"key": ulid(), **body, "checklist_every": 0}, "alice")
    noted = [{k: v for k, v in r.items() if k.startswith("checklist")} for r in pod.told("note")]
    assert noted == [{"checklist_step": 200}, {"checklist_every": 0}]
    for wrong in (-1, True, "200", 2.5):
        with pytest.raises(BadRequest, match="is a number of steps"):
            pod.actions.submit({"key": ulid(), **body, "checklist_every": wrong}, "alice")
    assert len(pod.told("note")) == 2
    pod.close()


def test_a_pod_that_sends_another_thing_is_not_believed() -> None:
    good = {"t": 1.0, "type": "note", "run": "demo", "text": "x", "checklist_every": 100}
    assert check("journal", dict(good))["checklist_every"] == 100
    with pytest.raises(RecordRefused, match="checklist_every"):
        check("journal", {**good, "checklist_every": "often"})
