"""W&B as a witness, over real HTTP: what it says, why it cannot say anything, and where the key
goes.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bs4_console.checks import wandb
from bs4_console.checks.outside import Lookout, Outside, ask, observe
from bs4_console.checks.verdict import OK, UNKNOWN, WARNING, judge, unreachable
from bs4_console.checks.wandb import Account, WandbApi, WandbError, WandbWitness, account
from bs4_console.fleet.watched import Fleet
from bs4_console.pods.observer import Observation
from bs4_console.pods.state import PodState
from tests.support.wandb_server import KEY, WandbServer, wandb_server

OURS = {"side": "trainer", "id": "abc", "project": "proj", "entity": "team", "server": ""}


@pytest.fixture
def server() -> Iterator[WandbServer]:
    with wandb_server() as told:
        yield told


def seen(
    server: WandbServer, *tracked: dict[str, Any], key: str = KEY, timeout: float = 30.0
) -> tuple[Observation, list[dict[str, Any]]]:
    async def go() -> tuple[Observation, list[dict[str, Any]]]:
        async with WandbApi(Account(server.base, key), timeout=timeout) as api:
            witness = WandbWitness(api, "demo", tracked or (OURS,))
            return await witness.observe(), witness.rows

    return asyncio.run(go())


def test_a_run_that_reports(server: WandbServer) -> None:
    server.put("abc", age_s=12, step=7)
    sight, (row,) = seen(server)
    assert (sight.state, sight.step, sight.coverage, sight.raw_state) == (
        "running",
        7,
        "",
        "running",
    )
    age = sight.age_s()
    assert age is not None
    assert 10 < age < 20
    assert (row["run"], row["found"], row["last_step"], row["name"]) == (
        "demo",
        True,
        7,
        "demo-abc",
    )


def test_the_newest_heartbeat_of_its_sides_counts(server: WandbServer) -> None:
    server.put("abc", age_s=3000, step=3)
    server.put("def", age_s=10, step=8)
    sight, rows = seen(server, OURS, {**OURS, "side": "orchestrator", "id": "def"})
    assert (sight.state, sight.step, len(rows)) == ("running", 8, 2)
    age = sight.age_s()
    assert age is not None
    assert age < 20


@pytest.mark.parametrize(
    ("word", "state"),
    [("finished", "stopped"), ("killed", "stopped"), ("crashed", "unknown"), ("queued", "unknown")],
)
def test_a_run_that_reports_no_more(server: WandbServer, word: str, state: str) -> None:
    server.put("abc", state=word, age_s=900)
    sight, _ = seen(server)
    assert (sight.state, sight.raw_state) == (state, word)
    assert bool(sight.coverage) == (state == "unknown")
    assert sight.seen_t is not None


def test_without_an_entity_the_keys_own_is_asked(server: WandbServer) -> None:
    server.put("abc")
    sight, _ = seen(server, {**OURS, "entity": ""})
    assert sight.state == "running"
    assert server.asked[-1]["variables"]["entity"] == "team"


def test_a_run_that_it_does_not_know(server: WandbServer) -> None:
    server.put("other")
    sight, (row,) = seen(server)
    assert (sight.state, sight.seen_t, row["found"]) == ("unknown", None, False)
    assert "team/proj/abc" in sight.coverage
    server.runs.clear()
    assert seen(server)[0].state == "unknown"  # no such project


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (401, "refuses the key"),
        (403, "refuses the key"),
        (502, "answered with 502"),
        (307, "answered with 307"),
    ],
)
def test_a_server_that_does_not_answer_the_question_is_coverage(
    server: WandbServer, fault: int, words: str
) -> None:
    server.put("abc")
    server.fault = fault
    sight, rows = seen(server)
    assert (sight.state, sight.seen_t, rows) == ("unknown", None, [])
    assert words in sight.coverage


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"<html>",
        b"[]",
        b'{"data": 7}',
        b"[" * 100_000,
        b'{"data": {"project": []}}',
        b"\xff\xfe",
    ],
)
def test_what_is_no_answer_of_w_and_b(server: WandbServer, raw: bytes) -> None:
    server.raw = raw
    assert seen(server)[0].state == "unknown"


@pytest.mark.parametrize(
    "fields",
    [
        {"heartbeatAt": None},
        {"heartbeatAt": "soon"},
        {"summaryMetrics": "{"},
        {"summaryMetrics": '{"_step": NaN, "_timestamp": "x"}'},
        {"summaryMetrics": '{"_step": Infinity, "_timestamp": -Infinity}'},
        {"summaryMetrics": '{"_step": 1e400, "_timestamp": 1' + "0" * 400 + "}"},
    ],
)
def test_fields_that_make_no_sense_are_unknown(server: WandbServer, fields: dict[str, Any]) -> None:
    server.put("abc", **fields)
    sight, _ = seen(server)
    assert sight.state == ("unknown" if "heartbeatAt" in fields else "running")
    assert sight.step is None or "heartbeatAt" in fields


def test_a_server_that_is_slow_or_away(server: WandbServer) -> None:
    server.delay_s = 2.0
    sight, _ = seen(server, timeout=0.3)
    assert "did not answer" in sight.coverage
    gone = dataclasses.replace(server, base="http://127.0.0.1:1")
    assert "did not answer (ConnectError)" in seen(gone)[0].coverage


def test_the_key_goes_only_where_this_machine_says(server: WandbServer) -> None:
    """A pod can write any address into its log."""
    with wandb_server() as other:
        sight, _ = seen(server, {**OURS, "server": other.base})
        assert (sight.state, other.headers, server.headers) == ("unknown", [], [])
    assert "reports to" in sight.coverage
    server.put("abc")
    assert seen(server, {**OURS, "server": server.base})[0].state == "running"


def test_the_key_is_never_told(server: WandbServer) -> None:
    server.put("abc")
    server.raw = KEY.encode()
    secret = "f" * 40
    told = [
        repr(Account(server.base, secret)),
        *(str(dataclasses.asdict(seen(server, key=key)[0])) for key in (KEY, secret)),
    ]
    assert not [text for text in told if KEY in text or secret in text]


def netrc(path: Path, host: str, mode: int = 0o600) -> dict[str, str]:
    path.write_text(f"machine {host}\n  login user\n  password {KEY}\n")
    path.chmod(mode)
    return {"NETRC": str(path), "HOME": str(path.parent)}


def test_where_the_key_comes_from(tmp_path: Path) -> None:
    known = netrc(tmp_path / ".netrc", "api.wandb.ai")
    assert account(known) == account({"HOME": known["HOME"]}) == Account(wandb.PUBLIC, KEY)
    # no key for that one
    assert account({**known, "WANDB_BASE_URL": "https://wandb.example.org/"}) is None
    assert account({**known, "WANDB_API_KEY": "k"}) == Account(wandb.PUBLIC, "k")
    assert account({"HOME": str(tmp_path / "nobody")}) is None


def test_a_netrc_file_that_others_read_or_nobody_understands(tmp_path: Path) -> None:
    with pytest.raises(WandbError, match="chmod 600"):
        account(netrc(tmp_path / "open", "api.wandb.ai", 0o644))
    broken = tmp_path / "broken"
    broken.write_text(f"machine api.wandb.ai password {KEY} nonsense {KEY}\n")
    broken.chmod(0o600)
    with pytest.raises(WandbError) as caught:
        account({"NETRC": str(broken)})
    assert KEY not in str(caught.value)


def pod(*, step: int | None = 9, alive: bool = True, tracked: Any = (OURS,)) -> PodState:
    state = PodState(name="pod-a")
    for record in (
        {
            "type": "run",
            "event": "attempt-started",
            "run": "demo",
            "attempt": 1,
            "trainer": "prime-rl",
            "max_steps": 100,
        },
        {
            "type": "run",
            "event": "tracked",
            "run": "demo",
            "attempt": 1,
            "tracker": "wandb",
            "runs": list(tracked),
        },
    ):
        state.apply_journal({"t": time.time(), "b": "boot", **record})
    if step is not None:
        for number in range(step + 1):
            state.apply_step(
                "demo", {"t": time.time(), "side": "trainer", "step": number, "time_s": 1.0}
            )
    sample = {
        "t": time.time(),
        "gpus": {"state": "ok", "devices": []},
        "host": {"disks": []},
        "coverage": {},
    }
    state.apply_telemetry({**sample, "runs": [{"run": "demo", "alive": alive}]})
    state.link.set("up")
    return state


def outside(server: WandbServer, state: PodState) -> Outside:
    async def go() -> Outside:
        async with WandbApi(Account(server.base, KEY)) as api:
            return await observe(state, api)

    return asyncio.run(go())


def test_a_pod_that_answers_outranks_w_and_b(server: WandbServer) -> None:
    state = pod()
    server.put("abc", age_s=5, step=9)
    verdict = judge(state, outside(server, state))
    assert (verdict.level, verdict.incidents) == (OK, [])
    assert "W&B" not in verdict.line()
    assert [s["state"] for s in verdict.as_dict()["sights"]] == ["running"]
    server.put("abc", age_s=1500, step=4)
    verdict = judge(state, outside(server, state))
    assert verdict.level == WARNING
    assert [f.subject for f in verdict.found if f.level == WARNING] == ["W&B of demo"], (
        "nothing is said against the run"
    )
    assert [(i["failure"], i["severity"], i["playbook"]) for i in verdict.incidents] == [
        ("wandb-lag", "info", None)
    ]
    assert any(f.subject == "run demo" and f.level == OK for f in verdict.found)
    server.put("abc", state="crashed", age_s=1500, step=9)
    assert "trust the pod" in judge(state, outside(server, state)).line()


def test_a_pod_that_is_away_and_a_fresh_heartbeat(server: WandbServer) -> None:
    state = pod()
    server.put("abc", age_s=12, step=11)
    verdict = unreachable("pod-a", "No answer.", [], outside(server, state))
    assert verdict.level == UNKNOWN
    assert "at step 11: the run goes on, the link is what is broken" in verdict.line()
    server.put("abc", age_s=7000)
    assert (
        "which does not tell"
        in unreachable("pod-a", "No answer.", [], outside(server, state)).line()
    )
    server.put("abc", state="finished", age_s=30)
    assert "is finished" in unreachable("pod-a", "No answer.", [], outside(server, state)).line()


def test_a_run_that_w_and_b_does_not_know_is_a_warning_about_the_record(
    server: WandbServer,
) -> None:
    server.put("other")
    state = pod()
    verdict = judge(state, outside(server, state))
    assert [i["failure"] for i in verdict.incidents] == ["wandb-run-not-found"]
    assert verdict.level == WARNING


def test_nobody_is_asked_without_a_key_or_an_address(
    server: WandbServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("WANDB_API_KEY", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WANDB_BASE_URL", server.base)
    assert asyncio.run(ask(pod())).coverage == ["W&B: this machine has no key for it"]
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    assert asyncio.run(ask(pod(tracked=()))) == Outside()
    assert server.headers == []
    server.put("abc")
    assert asyncio.run(ask(pod())).sights["demo"].state == "running"


def test_a_console_that_stays_open_says_it_in_the_row_of_the_pod(
    server: WandbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_BASE_URL", server.base)
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    server.put("abc", age_s=5, step=11)
    state = pod()

    async def go() -> None:
        looking = asyncio.create_task(Lookout(lambda: [state], every=0.05).run())
        async with asyncio.timeout(60):
            while not state.sights:
                await asyncio.sleep(0.02)
        looking.cancel()

    asyncio.run(go())
    assert state.worst()[0] == 0, "W&B is never what is wrong with a pod that answers"
    state.link.set("unreachable", "No answer.")
    assert state.worst() == (3, state.worst()[1])
    assert "the run goes on" in state.worst()[1]


def test_a_fleet_asks_only_where_it_is_told_to() -> None:
    async def names(fleet: Fleet) -> set[str]:
        fleet.start()
        running = {task.get_name() for task in asyncio.all_tasks()}
        await fleet.stop()
        return running

    assert "outside" in asyncio.run(names(Fleet(outside=True)))
    assert "outside" not in asyncio.run(names(Fleet()))


def test_the_journal_says_where_a_run_is_shown() -> None:
    state = pod()
    assert state.runs["demo"].view.tracked == [OURS]
    assert json.dumps(judge(state).as_dict()["sights"]) == "[]"
