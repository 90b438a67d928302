"""The pages at W&B of a run, from what its pod's journal says."""

from __future__ import annotations

import time

from bs4_console.pods.state import PodState
from bs4_console.run_log.record_fold import fold, wandb_links

SIDES = [
    {"side": "trainer", "entity": "team", "project": "proj", "id": "t1", "server": ""},
    {"side": "orchestrator", "entity": "team", "project": "proj", "id": "o1", "server": ""},
    {"side": "orchestrator", "entity": "team", "project": "proj", "id": "o1", "server": ""},
]


def test_the_record_has_the_page_of_each_side() -> None:
    state = PodState(name="pod-a")
    started = {"type": "run", "event": "attempt-started", "run": "demo", "attempt": 1}
    tracked = {"type": "run", "event": "tracked", "run": "demo", "attempt": 1, "runs": SIDES}
    for record in (started, tracked):
        state.apply_journal({"t": time.time(), "b": "boot", **record})
    assert fold(state, state.runs["demo"]).wandb == (
        "https://wandb.ai/team/proj/runs/t1 https://wandb.ai/team/proj/runs/o1"
    )


def test_a_server_of_ones_own_and_what_is_no_page() -> None:
    own = {"entity": "e", "project": "p", "id": "i", "server": "http://wandb.example:8080/"}
    assert wandb_links([own]) == ["http://wandb.example:8080/e/p/runs/i"]
    assert wandb_links([{**own, "entity": None}, {**own, "id": "../x"}]) == []
    assert wandb_links([{**own, "server": "javascript:x"}]) == []
