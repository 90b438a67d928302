"""Words of a launch that are secret: the journal does not have them, and what needs them has."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bs4_common.errors import LaunchFailed
from bs4_common.files import read_json
from bs4_common.ids import ulid
from bs4_common.withheld import Withheld
from tests.agent.actions.stopping import RELAUNCHES, RUN, StoppingAgent
from tests.agent.runs.practice import until

#: One without a form, under a name; one with a form, without a name; one that the pod holds.
NAMED, FORMED, HELD = "cAnAry-of-the-judge-1", "hf_cAnAry" + "a1B2c3D4e5" * 3, "cAnAry/in+netrc=7"
SECRETS = (NAMED, FORMED, HELD)
WORDS = [f"--orchestrator.judge.api-key={NAMED}", "--note", FORMED, "--extra", HELD, "--lr", "1e-6"]


@pytest.fixture
def agent(
    tmp_path: Path, no_process_left: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[StoppingAgent]:
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine api.wandb.ai\n  login user\n  password {HELD}\n")
    monkeypatch.setenv("NETRC", str(netrc))
    made = StoppingAgent(tmp_path)
    yield made
    made.close()


def launch_body(agent: StoppingAgent) -> dict[str, Any]:
    return {**agent.launch_body(), "overrides": WORDS}


def journal_of(agent: StoppingAgent) -> str:
    files = sorted((agent.home.state / "journal").iterdir())
    return "".join(file.read_text() for file in files)


def started_with(agent: StoppingAgent, attempt: int) -> list[str]:
    spec = read_json(agent.home.attempt(RUN, attempt) / "spec.json")
    assert spec is not None
    words: list[str] = spec["launch"]["overrides"]
    return words


def test_the_journal_has_none_and_the_attempt_has_all(agent: StoppingAgent) -> None:
    launch = agent.submit(launch_body(agent), "alice")
    agent.waiting(launch)
    agent.ended(agent.stop())
    written = journal_of(agent)
    assert [secret for secret in SECRETS if secret in written] == []
    shown = [r for r in agent.book.records() if r.get("event") == "attempt-started"]
    assert shown[0]["overrides"] == [
        "--orchestrator.judge.api-key=[redacted: a secret of this pod]",
        "--note",
        "[redacted: a Hugging Face token]",
        "--extra",
        "[redacted: a secret of this pod]",
        "--lr",
        "1e-6",
    ]
    assert started_with(agent, 1) == WORDS
    kept = list(agent.home.withheld.iterdir())
    assert [stat.S_IMODE(path.stat().st_mode) for path in kept] == [0o600] * len(kept)
    assert stat.S_IMODE(agent.home.withheld.stat().st_mode) == 0o700
    assert agent.book._journal.verify() == []


def test_a_plan_that_is_confirmed_after_a_restart_starts_with_the_real_words(
    agent: StoppingAgent,
) -> None:
    launch = agent.submit(launch_body(agent), "alice")
    agent.waiting(launch)
    agent.ended(agent.stop())
    planned = agent.ended(
        agent.submit({"kind": "plan", "playbook": RELAUNCHES, "run": RUN}, "alice")
    )
    assert planned.state == "done", planned.detail
    again = StoppingAgent(agent.root)
    assert again.action(launch).body["overrides"] == WORDS
    body = {"playbook": RELAUNCHES, "run": RUN, "plan_hash": planned.result["plan_hash"]}
    recovery = again.submit({"kind": "playbook", **body}, "alice")
    third = StoppingAgent(agent.root)
    steps = third.action(recovery).body["plan"]["steps"]
    assert [s["parameters"]["overrides"] for s in steps if s["kind"] == "relaunch"] == [WORDS]
    until((again.home.attempt(RUN, 2) / "spec.json").exists)
    again.ended(again.stop())
    assert started_with(again, 2) == WORDS
    assert [secret for secret in SECRETS if secret in journal_of(again)] == []
    third.close()
    again.close()


def test_a_launch_that_is_confirmed_after_a_restart_starts_with_the_real_words(
    agent: StoppingAgent,
) -> None:
    asked = {k: v for k, v in launch_body(agent).items() if k not in ("kind", "preflight")}
    planned = agent.ended(agent.submit({"kind": "plan", "launch": asked}, "alice"))
    assert planned.state == "done", planned.detail
    again = StoppingAgent(agent.root)
    body = {"kind": "launch", "run": RUN, "plan_hash": planned.result["plan_hash"]}
    again.waiting(again.submit(body, "alice"))
    again.ended(again.stop())
    assert started_with(again, 1) == WORDS
    assert [secret for secret in SECRETS if secret in journal_of(again)] == []
    again.close()


def test_a_secret_that_is_named_like_the_run_hides_no_record(agent: StoppingAgent) -> None:
    named = {
        "event": "accepted",
        "run": "math-7b-26",
        "body": {"words": ["--a.token", "math-7b-26"]},
    }
    shown = Withheld(agent.home.withheld, agent.secrets.redacted_values).shown(named)
    assert (shown["run"], shown["event"]) == ("math-7b-26", "accepted")
    assert "math-7b-26" not in str(shown["body"])
    body = {**agent.launch_body(), "overrides": ["--b.token=attempt-started"]}
    agent.waiting(agent.submit(body, "alice"))
    agent.ended(agent.stop())
    events = [r["event"] for r in agent.book.records() if r.get("run") == RUN]
    assert {"accepted", "registered", "attempt-started", "attempt-ended"} <= set(events)


def test_the_same_submission_is_known_after_a_restart(agent: StoppingAgent) -> None:
    body = {"key": ulid(), **launch_body(agent)}
    agent.actions.submit(body, "alice")
    agent.waiting(body["key"])
    agent.ended(agent.stop())
    again = StoppingAgent(agent.root)
    assert again.actions.submit(body, "alice")["state"] == "accepted"
    assert agent.home.attempt(RUN, 1).is_dir()
    assert not agent.home.attempt(RUN, 2).exists()
    again.close()


def test_without_the_real_words_nothing_is_started(agent: StoppingAgent) -> None:
    body = {**agent.launch_body(), "overrides": ["--judge.api-key=[redacted]"]}
    action = agent.ended(agent.submit(body, "alice"))
    assert action.state == "failed"
    assert action.result["error"] == LaunchFailed.type
    assert "write the secret itself" in action.detail
    assert not agent.home.attempt(RUN, 1).exists()


def test_what_is_withheld_goes_with_its_record(agent: StoppingAgent) -> None:
    agent.waiting(agent.submit(launch_body(agent), "alice"))
    agent.ended(agent.stop())
    stray = agent.home.withheld / f"{'0' * 64}.json"
    stray.write_text(json.dumps({"type": "plan"}))
    again = StoppingAgent(agent.root)
    assert not stray.exists()
    assert list(agent.home.withheld.iterdir()) != []
    again.close()


def test_a_standing_order_keeps_its_place_after_a_restart(agent: StoppingAgent) -> None:
    agent.waiting(agent.submit(launch_body(agent), "alice"))
    place = f"b2://bucket/{FORMED}/runs"
    agent.book.append("sync", sync=True, run=RUN, event="ordered", who="alice", to=place)
    assert FORMED not in journal_of(agent)
    again = StoppingAgent(agent.root)
    assert again.book.ledger.syncs[RUN].order["to"] == place
    agent.ended(agent.stop())
    again.close()


def test_what_cannot_be_read_or_removed_keeps_no_agent_from_its_start(agent: StoppingAgent) -> None:
    agent.home.withheld.mkdir(mode=0o700, exist_ok=True)
    (agent.home.withheld / f"{'0' * 64}.json").mkdir()
    again = StoppingAgent(agent.root)
    assert again.book.records() is not None
    again.close()
