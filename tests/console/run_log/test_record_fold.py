"""The record that a run keeps itself."""

from __future__ import annotations

from bs4_common.ledger import ActionView
from bs4_console.pods.state import PodState
from bs4_console.run_log import record_fold, report_page
from tests.console.tui import fixtures


def launched(state: str, began_ago: float, updated_ago: float) -> PodState:
    """Return a pod whose run demo was started 600 s before NOW, and a launch at that price."""
    pod = PodState(name="one")
    fixtures.start_run(pod, "demo", "prime-rl", 9000, 600)
    pod.ledger.actions["K"] = ActionView(
        key="K",
        kind="launch",
        who="me",
        run="demo",
        state=state,
        accepted_t=fixtures.NOW - began_ago,
        updated_t=fixtures.NOW - updated_ago,
        body={"plan": {"record": {"price": 2.0}, "config": {"version": "v3"}}},
    )
    return pod


def test_a_launch_that_waits_or_was_ended_has_its_price_and_config() -> None:
    for state in ("running", "failed", "cancelled"):
        pod = launched(state, began_ago=610, updated_ago=30)
        record = record_fold.fold(pod, pod.runs["demo"])
        assert (record.price, record.version) == (2.0, "v3"), state


def test_a_launch_that_started_nothing_is_not_that_of_a_later_start() -> None:
    pod = launched("failed", began_ago=900, updated_ago=800)
    record = record_fold.fold(pod, pod.runs["demo"])
    assert record.price is None
    pod = launched("running", began_ago=500, updated_ago=30)
    assert record_fold.launches(pod, "demo") == {}


def test_an_attempt_that_a_person_stopped_has_not_failed() -> None:
    pod = launched("done", began_ago=600, updated_ago=500)
    fixtures.journal(
        pod, "action", 300, event="accepted", action="S", kind="stop", run="demo", who="root@vm"
    )
    ended = {"event": "attempt-ended", "run": "demo", "code": 1, "good": False}
    fixtures.journal(pod, "run", 290, attempt=1, detail="exit code 1 of the launcher", **ended)
    fixtures.start_run(pod, "demo", "prime-rl", 9000, 200, attempt=2)
    fixtures.journal(pod, "run", 190, attempt=2, detail="its final line is missing", **ended)
    stopped, failed = record_fold.fold(pod, pod.runs["demo"]).attempts
    assert stopped.text.endswith("UTC, stopped by root@vm")
    assert failed.text.endswith("UTC, with exit code 1 its final line is missing")


def attempt(pod: PodState, number: int, ago: float, digest: str, **config: str) -> None:
    """Launch the run demo on a pod, with a config of these values and, if it has one, a version."""
    fixtures.start_run(pod, "demo", "prime-rl", 9000, ago, attempt=number)
    pod.ledger.actions[f"L{number}"] = ActionView(
        key=f"L{number}",
        kind="launch",
        who="me",
        run="demo",
        state="done",
        accepted_t=fixtures.NOW - ago - 1,
        updated_t=fixtures.NOW - ago + 1,
        body={"plan": {"config": {"values": digest, **config}}},
        result={"attempt": number},
    )


def test_an_attempt_says_what_it_was_launched_with_and_a_restore_loses_no_version() -> None:
    old, new = PodState(name="old"), PodState(name="new")
    attempt(old, 1, 900, "1111111100", version="v1")
    attempt(old, 2, 800, "2222222200", version="v2", based_on="v1")
    old.runs["demo"].view.attempts[2].overrides = ["--ckpt.keep-last", "3"]
    attempt(new, 1, 300, "2222222200")
    attempt(new, 2, 200, "3333333300")
    record = record_fold.continued(record_fold.fold(pod, pod.runs["demo"]) for pod in (old, new))
    assert [one.text for one in record.attempts] == [
        "config v1 (11111111)",
        "config v2 (22222222), arguments --ckpt.keep-last 3",
        "config v2 (22222222)",
        "config (33333333)",
    ]
    assert record.version == "", "of the newest config nobody has said a version"
    del new.runs["demo"].view.attempts[2], new.ledger.actions["L2"]
    record = record_fold.continued(record_fold.fold(pod, pod.runs["demo"]) for pod in (old, new))
    assert (record.version, record.lineage) == ("v2", "v1")
    page = report_page.markdown(record, [], "")
    assert "config v2 (22222222), arguments --ckpt.keep-last 3" in page
