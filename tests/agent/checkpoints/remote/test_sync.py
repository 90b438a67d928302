"""The agent's side: orders carried out by real workers, killed, started again, gone on with after a
restart of the agent.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import threading
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from bs4_agent.checkpoints import saved
from bs4_agent.checkpoints import sync as module
from bs4_agent.checkpoints.retention import Retention
from bs4_agent.checkpoints.saved import state_of
from bs4_agent.checkpoints.sync import present, wanted
from bs4_agent.checkpoints.sync_order import SyncOrder
from bs4_common.checkpoints.remote.launched import Launched
from bs4_common.checkpoints.remote.manifest import Manifest
from bs4_common.checkpoints.sets import StepSet, set_of, step_sets
from bs4_common.checkpoints.sync_view import SyncView
from bs4_common.errors import BadRequest, SpoolFull
from bs4_common.failures.detectors.stores import sync_daemon_dead
from bs4_common.failures.environment import ConsoleFacts
from bs4_common.ids import ulid
from bs4_common.ledger import Ledger
from bs4_common.runs.model import Attempt
from bs4_practice.b2.faults import Fault
from tests.agent import facts as examples
from tests.agent.checkpoints.remote.bench import LARGE
from tests.agent.checkpoints.remote.syncing import Agent
from tests.agent.checkpoints.trees import old_weights

pytestmark = [pytest.mark.long, pytest.mark.beside]


def test_an_order_is_carried_out_and_goes_on(agent: Agent) -> None:
    agent.bench.save(5)
    agent.order()
    agent.until(lambda: agent.bench.pointed() == 5)
    agent.until(lambda: agent.view.last["event"] == "finished")
    agent.bench.save(10)
    agent.until(lambda: agent.view.pointer == 10)
    assert agent.bench.pointed() == 10
    agent.until(lambda: 10 in agent.view.done)  # told after the pointer was moved
    events = agent.events()
    assert events[:2] == ["ordered", "started"]
    assert {"verified", "pointed", "step-done", "finished"} <= set(events)
    [done] = [
        r
        for r in agent.book.records()
        if r["type"] == "sync" and r["event"] == "step-done" and r["step"] == 10
    ]
    assert done["bytes"] > 0
    assert done["rate"] >= 0


def test_how_the_run_was_started_goes_with_its_steps(agent: Agent) -> None:
    bench = agent.bench
    (bench.spec.cwd / "part.toml").write_text("lr = 1\n")
    words = ("--trainer", "@", "part.toml", "--orchestrator.wandb.id", "o1")
    bench.spec = dataclasses.replace(bench.spec, overrides=words, env={"PRACTICE_WORD": "kept"})
    agent.runs.register(bench.spec)
    bench.save(5)
    agent.order()
    agent.until(lambda: bench.pointed() == 5)
    made = Manifest.decode(bench.bucket()[bench.layout.manifest(5)])
    files = {"part.toml": ".bs4/config/part.toml"}
    assert made.launch == Launched(
        ("--trainer", "@", "part.toml"), {"PRACTICE_WORD": "kept"}, "rl", 1, files
    )
    assert {made.config, *files.values()} <= {file.path for file in made.files}


def _at_the_end_of_an_upload(agent: Agent) -> None:
    """Step 5 is ordered, and its worker waits for the store to finish a large file."""
    agent.bench.save(5, large=LARGE)
    reached = threading.Event()
    agent.bench.server.faults.add(
        Fault("stop", call="b2_finish_large_file", on=reached.set),
        Fault("hang", call="b2_finish_large_file", seconds=3),
    )
    agent.order()
    assert reached.wait(60)


def test_the_worker_gives_way_to_the_run(agent: Agent) -> None:
    _at_the_end_of_an_upload(agent)
    worker = psutil.Process(agent.worker())
    assert worker.nice() == 19
    threads = [psutil.Process(thread.id) for thread in worker.threads()]
    assert len(threads) > 1
    assert {tuple(thread.ionice()) for thread in threads} == {(psutil.IOPRIO_CLASS_BE, 7)}
    agent.until(lambda: agent.view.pointer == 5)


def test_a_worker_that_is_killed_is_started_again(agent: Agent) -> None:
    _at_the_end_of_an_upload(agent)
    os.kill(agent.worker(), signal.SIGKILL)
    agent.until(lambda: agent.view.pointer == 5)
    failed = [r for r in agent.book.records() if r["type"] == "sync" and r["event"] == "failed"]
    assert "ended by signal 9; it is started again" in failed[0]["detail"]
    agent.until(lambda: agent.view.failures == 0)


def test_a_journal_without_room_is_waited_for_and_nothing_is_lost(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No record is left out, and the worker is followed to its end."""
    monkeypatch.setattr(module, "ROOM_S", 0.01)
    written, refused = agent.stream.append_line, Counter[bytes]()

    def append_line(line: bytes, *, sync: bool = False) -> str:
        record = json.loads(line)
        event = record.get("event")
        if record["type"] == "sync" and event not in ("progress", "ordered"):
            refused[event] += 1
            if refused[event] < 4:
                raise SpoolFull("The disk is full.")
        return written(line, sync=sync)

    monkeypatch.setattr(agent.stream, "append_line", append_line)
    agent.bench.save(5)
    agent.order()
    agent.until(lambda: agent.view.last["event"] == "finished")
    assert {"started", "verified", "pointed", "step-done", "finished"} <= set(refused)
    events = [event for event in agent.events() if event != "progress"]
    assert events == ["ordered", *refused]
    assert agent.bench.server.calls["b2_authorize_account"] == 1


def test_a_worker_that_is_to_end_is_not_kept_by_a_journal_without_room(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, full, tried = agent.stream.append_line, threading.Event(), threading.Event()

    def append_line(line: bytes, *, sync: bool = False) -> str:
        if full.is_set():
            tried.set()
            raise SpoolFull("The disk is full.")
        return written(line, sync=sync)

    monkeypatch.setattr(agent.stream, "append_line", append_line)
    agent.bench.save(5)
    agent.bench.server.faults.add(Fault("stop", call="b2_upload_file", on=full.set))
    agent.order()
    assert tried.wait(60)
    agent.end()
    full.clear()
    agent.stream.close()
    agent.load()
    agent.start()
    agent.until(lambda: agent.view.pointer == 5)


def test_a_new_agent_goes_on_where_the_last_one_was(agent: Agent) -> None:
    _at_the_end_of_an_upload(agent)
    pid = agent.worker()
    agent.restart()
    assert not Path(f"/proc/{pid}").exists()
    agent.until(lambda: agent.view.pointer == 5)
    assert agent.bench.pointed() == 5
    large = agent.bench.layout.file(5, "checkpoints/step_5/trainer/__1_0.distcp")
    assert agent.bench.server.received[large] == LARGE // 100_000 * 100_000
    agent.until(lambda: agent.view.last["event"] == "finished")
    agent.end()  # and the worker, which may tell of its end before it comes
    before = agent.bench.server.calls.total()
    agent.restart()
    agent.looks_around()
    assert agent.bench.server.calls.total() == before  # it knows that nothing is to be done


def test_the_store_may_be_away_for_long(agent: Agent) -> None:
    agent.bench.save(5)
    agent.bench.server.faults.add(Fault("full", call="b2_upload_file", times=None))
    agent.order()
    agent.until(lambda: agent.view.failures >= 2)
    alive = [row["alive"] for row in agent.syncs.facts()]
    failed, failures = agent.view.failed, agent.view.failures
    assert failed is not None
    assert failed["error"] == "store-full"
    assert alive == [True] or failures >= module.DEAD_AFTER
    agent.bench.server.faults.clear()
    agent.until(lambda: agent.view.pointer == 5)
    agent.until(lambda: agent.view.failed is None)


def test_a_sync_that_fails_on_and_on_is_a_fact_for_the_detectors(agent: Agent) -> None:
    agent.bench.save(5)
    agent.bench.server.shelf.keys.clear()
    agent.order()
    agent.until(lambda: agent.view.failures >= module.DEAD_AFTER)
    [row] = agent.syncs.facts()
    assert (row["run"], row["alive"], row["pointer"], row["error"]) == (
        "demo",
        False,
        None,
        "store-auth",
    )
    run = examples.healthy(checkpoints=[examples.checkpoint(5)])
    [found] = sync_daemon_dead(examples.facts(run, console=ConsoleFacts(sync=[row])), run, {})
    assert found.failure == "sync-daemon-dead"


def test_a_step_that_keeps_failing_is_no_dead_sync(agent: Agent) -> None:
    agent.bench.save(5)
    link = agent.bench.trainer.layout(agent.bench.spec).trainer_checkpoints / "step_5/trainer/x"
    link.symlink_to("/etc/hostname")
    agent.order()
    agent.until(lambda: agent.view.failures > module.DEAD_AFTER)
    [row] = agent.syncs.facts()
    assert (row["alive"], row["error"]) == (True, "refused")
    # An order that cannot be followed at all is a matter of no step, however many have failed.
    agent.end()
    failed: Any = {"error": "refused", "detail": "The order is lost.", "passing": False}
    for _ in range(module.DEAD_AFTER):
        agent.syncs._failed("demo", failed)
    assert not agent.syncs.facts()[0]["alive"]


@pytest.mark.parametrize(
    ("every", "uploading", "dead"), [(0, False, True), (100, False, False), (0, True, False)]
)
def test_a_pointer_that_is_behind_on_purpose_is_no_dead_sync(
    agent: Agent, every: int, uploading: bool, dead: bool
) -> None:
    agent.end()
    agent.order(every=every)
    agent.book("sync", run="demo", event="pointed", step=5)
    if uploading:
        agent.book("sync", run="demo", event="started", step=10, bytes=1, files=1)
    run = examples.healthy(checkpoints=[examples.checkpoint(5), examples.checkpoint(10)])
    facts = examples.facts(
        run, console=ConsoleFacts(sync=agent.syncs.facts()), now_t=examples.WALL + 7200
    )
    assert bool(sync_daemon_dead(facts, run, {})) is dead


def test_an_order_without_a_key_on_the_pod_says_that_it_waits(agent: Agent) -> None:
    path = agent.bench.home.credentials / "b2.json"
    key = path.read_text()
    path.unlink()
    agent.order()
    told = [one for one in agent.book.ledger.actions.values() if one.kind == "sync"][-1]
    assert told.state == "done"
    assert "waits. There is no key for the store on this pod" in told.detail
    assert "pods setup POD --credentials -" in told.result["waits"]
    assert agent.view.order["to"] == agent.bench.place
    path.write_text(key)
    path.chmod(0o644)
    agent.order()
    told = [one for one in agent.book.ledger.actions.values() if one.kind == "sync"][-1]
    assert "can be read by others" in told.result["waits"]
    path.chmod(0o600)
    agent.order()
    told = [one for one in agent.book.ledger.actions.values() if one.kind == "sync"][-1]
    assert (told.result, "are copied to" in told.detail) == ({}, True)


def test_an_order_that_is_taken_back_ends_its_worker(agent: Agent) -> None:
    agent.bench.save(5, large=LARGE)
    reached = threading.Event()
    agent.bench.server.faults.add(Fault("stop", call="b2_start_large_file", on=reached.set))
    agent.bench.server.faults.add(Fault("slow", call="b2_upload_part", times=None, rate=500_000))
    agent.order()
    assert reached.wait(60)
    pid = agent.worker()
    agent.order(off=True)
    agent.until(lambda: not Path(f"/proc/{pid}").exists())
    assert agent.view.failures == 0
    assert agent.bench.pointed() is None


def test_once_ends_with_the_first_upload(agent: Agent) -> None:
    agent.bench.save(5)
    agent.order(once=True)
    agent.until(lambda: agent.view.last["event"] == "finished")
    assert agent.view.order["to"] is None
    agent.bench.save(10)
    agent.looks_around()
    assert agent.bench.pointed() == 5


def test_the_log_of_an_attempt_that_ended_goes_too(agent: Agent) -> None:
    directory = agent.bench.home.attempt("demo", 1)
    directory.mkdir(parents=True)
    (directory / "launcher.log").write_text("bye\n")
    agent.bench.home.reports.mkdir()
    (agent.bench.home.reports / "demo.1.report.tar.gz").write_bytes(b"report")
    (agent.bench.home.reports / "demo.other.1.report.tar.gz").write_bytes(b"of another run")
    agent.order()
    agent.until(lambda: agent.view.logs)
    names = {name.removeprefix(agent.bench.layout.root) for name in agent.bench.bucket()}
    assert names == {"logs/1/launcher.log", "reports/demo.1.report.tar.gz"}


def test_the_pods_own_pruning_needs_a_key_that_may(agent: Agent) -> None:
    bench = agent.bench
    agent.order(keep_remote=2)
    for step in (5, 10, 15):
        bench.save(step)
        agent.until(lambda step=step: agent.view.pointer == step)
    agent.until(lambda: agent.view.removed == [5])
    for name in list(bench.server.shelf.keys):
        bench.server.shelf.keys[name].capabilities = (
            "listBuckets",
            "listFiles",
            "readFiles",
            "writeFiles",
        )
    bench.save(20)
    agent.until(lambda: "unpruned" in agent.events())
    assert agent.view.failures == 0
    assert bench.pointed() == 20


def test_the_best_step_stays_in_the_store_while_an_order_keeps_it_on_the_disk(agent: Agent) -> None:
    bench = agent.bench
    steps = bench.home.state / "steps" / "demo"
    steps.mkdir(parents=True)
    lines = []
    for step, value in ((5, 0.1), (10, 0.9), (15, 0.2), (20, 0.3), (25, 0.2)):
        lines.append(f'{{"attempt":1,"side":"eval:acc","step":{step},"val":{value}}}\n')
    (steps / "00000001.ndjson").write_text("".join(lines))
    agent.train()
    keep = {"kind": "keep", "run": "demo", "last": 2, "best": "acc"}
    agent.actions.submit({"key": ulid(), **keep}, "alice")
    agent.order(keep_remote=2)
    for step in (5, 10, 15, 20, 25):
        bench.save(step)
        agent.until(lambda step=step: agent.view.pointer == step)
    agent.until(lambda: set(agent.view.removed) == {5, 15})
    # With the order taken back it goes like any other one.
    agent.actions.submit({"key": ulid(), "kind": "keep", "run": "demo", "off": True}, "alice")
    bench.save(30)
    agent.until(lambda: 10 in agent.view.removed)


@pytest.mark.parametrize(
    "body",
    [
        {"to": ""},
        {"to": "s3://demo-bucket"},
        {"to": "b2://demo-bucket/../x"},
        {"keep_remote": 1},
        {"every": -1},
        {"limit_mib": 0},
    ],
)
def test_an_order_that_makes_no_sense_is_refused(agent: Agent, body: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        agent.order(**body)
    assert "demo" not in agent.book.ledger.syncs


def _set(step: int, t: float = 1.0) -> Any:
    return SimpleNamespace(step=step, t=t, state="one")


@pytest.mark.parametrize(
    ("whole", "done", "order", "live", "steps"),
    [
        ([], {}, {}, True, []),
        ([10, 5], {}, {}, True, [10]),
        ([10, 5], {5: "one"}, {}, True, [10]),
        ([10, 5], {10: "one"}, {}, True, []),
        ([10, 5], {5: "one"}, {"every": 10}, True, []),
        ([15, 10, 5], {5: "one"}, {"every": 10}, True, [15]),
        ([10, 5], {5: "one"}, {"every": 10}, False, [10]),
        ([60, 55, 50, 45], {}, {"milestones": 50}, True, [60]),
        # It is the next one that is deleted.
        ([60, 55, 50], {}, {"milestones": 50}, True, [50]),
        # It was overtaken while an earlier one was uploaded, or was gone.
        ([60, 55, 50, 45], {45: "one"}, {"milestones": 50}, True, [50]),
        ([60, 55, 50], {40: "one"}, {"milestones": 50}, True, [50]),
        ([110, 105, 100, 55, 50, 45], {45: "one"}, {"milestones": 50}, True, [50]),
        ([60, 55, 50], {40: "one"}, {"milestones": 50}, False, [60, 50]),
        ([60, 55, 50], {60: "one"}, {"milestones": 50}, True, [50]),
        ([60, 55, 50], {60: "one", 50: "one"}, {"milestones": 50}, True, []),
        ([50, 45], {45: "one"}, {"milestones": 50, "every": 20}, True, [50]),
        ([5], {40: "one"}, {}, True, [5]),
        ([15, 10, 5], {15: "one", 10: "another", 5: "one"}, {}, True, [10]),
        ([15, 10, 5], {15: "another", 10: "another"}, {}, True, [15]),
        ([15, 10, 5], {15: "one", 10: "one", 5: ""}, {}, True, [5]),
        ([15, 10, 5], {15: "one", 5: "one"}, {}, True, []),
    ],
)
def test_what_is_uploaded_next(
    whole: list[int], done: dict[int, str], order: dict[str, Any], live: bool, steps: list[int]
) -> None:
    sets = [_set(step) for step in whole]
    chosen = wanted(
        sets,
        present(sets, None),
        SyncOrder(to="b2://demo-bucket", **order),
        SyncView(done=done),
        {one.step for one in sets if done.get(one.step) == one.state},
        live=live,
    )
    assert [one.step for one in chosen] == steps


def test_a_step_that_was_written_anew_within_a_second_is_uploaded_anew(agent: Agent) -> None:
    agent.bench.save(5)  # the pointer can leave step 10 for this one
    agent.order()
    agent.until(lambda: 5 in agent.view.done)
    agent.bench.save(10)
    agent.until(lambda: 10 in agent.view.done and agent.view.last["event"] == "finished")
    first = agent.view.done[10]
    shard = next(iter(agent.bench.spec.output_dir.rglob("step_10/trainer/*.distcp")))
    saved_t = shard.stat().st_mtime
    shard.write_bytes(b"y" * shard.stat().st_size)
    os.utime(shard, (saved_t + 0.1, saved_t + 0.1))
    agent.until(lambda: agent.view.done[10] != first)


def test_weights_that_are_written_after_the_upload_are_uploaded_too(agent: Agent) -> None:
    bench = agent.bench
    retention = Retention(agent.pod, agent.book, agent.actions)

    def stored(step: int) -> bool:
        one = set_of(step_sets(bench.trainer, bench.spec), step)
        assert one is not None
        return retention._in_store("demo", one)

    bench.save(2)  # the pointer can leave step 5 for this one
    agent.order(weights=True)
    agent.until(lambda: 2 in agent.view.done)
    bench.save(5)
    agent.until(lambda: 5 in agent.view.done)
    agent.until(lambda: stored(5))
    sending, go = threading.Event(), threading.Event()

    def send() -> None:
        sending.set()
        assert go.wait(60)

    bench.server.faults.add(Fault("stop", call="b2_upload_file", name="weights/step_5", on=send))
    old_weights(bench.spec, 5)
    assert not stored(5)
    assert sending.wait(60)
    assert not stored(5)
    go.set()
    agent.until(lambda: stored(5))
    assert bench.layout.file(5, "weights/step_5/model.safetensors") in bench.bucket()
    assert bench.pointed() == 5


def test_each_poll_looks_at_the_newest_step_and_at_one_other_in_turn(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.end()
    bench, looks = agent.bench, list[int]()

    def counted(trainer: Any, spec: Any, one: StepSet, *, weights: bool) -> str:
        looks.append(one.step)
        return state_of(trainer, spec, one, weights=weights)

    agent.order()
    for step in (5, 10, 15, 20):
        bench.save(step)
        one = set_of(step_sets(bench.trainer, bench.spec), step)
        assert one is not None
        state = state_of(bench.trainer, bench.spec, one, weights=False)
        told = {"set_state": state, "rate": 1, "pointed": True, "held": ""}
        agent.book("sync", run="demo", event="step-done", step=step, **told)
    agent.book("sync", run="demo", event="listed", pointer=20, steps=[5, 10, 15, 20], torn=[])
    monkeypatch.setattr(saved, "state_of", counted)
    polls = []
    for _ in range(4):
        looks.clear()
        agent.syncs.round()
        polls.append(list(looks))
    assert polls == [[20, 15], [20, 10], [20, 5], [20, 15]]
    # What has changed is sent when its turn has come, and one that was not uploaded needs no look.
    agent.book("sync", run="demo", event="pruned", steps=[15], bytes=1)
    shard = next(iter(bench.spec.output_dir.rglob("step_5/trainer/*.distcp")))
    shard.write_bytes(b"other")
    started: list[Any] = []
    monkeypatch.setattr(agent.syncs, "_start", lambda name, order, job: started.append(job))
    looks.clear()
    for _ in range(3):
        agent.syncs.round()
    assert looks == [20, 10, 20, 5, 20, 10]
    # The look at step 5 is remembered while another has its turn.
    assert [job["steps"] for job in started] == [[5], [5]]


def _delete(agent: Agent, step: int) -> None:
    """As a trainer's own rotation does."""
    [one] = [one for one in step_sets(agent.bench.trainer, agent.bench.spec) if one.step == step]
    for path in one.directories:
        shutil.rmtree(path)


def test_a_milestone_goes_before_the_newer_steps_that_would_rotate_it_away(agent: Agent) -> None:
    agent.bench.save(45)
    agent.train()
    agent.order(milestones=50)
    agent.until(lambda: 45 in agent.view.done)
    agent.end()
    for step in (50, 55, 60):
        agent.bench.save(step)
    agent.stream.close()
    agent.load()
    agent.train()
    agent.start()
    agent.until(lambda: agent.view.pointer == 60 and 60 in agent.view.done)
    done = []
    for record in agent.book.records():
        if record["type"] == "sync" and record["event"] == "step-done":
            done.append(record["step"])
    assert done == [45, 50, 60]
    assert agent.view.missed == []


def test_a_milestone_that_is_gone_before_its_upload_is_told(agent: Agent) -> None:
    agent.bench.server.faults.add(Fault("full", call="b2_upload_file", times=None))
    agent.train()
    agent.order(milestones=50)
    for step in (50, 55):
        agent.bench.save(step)
    agent.until(lambda: agent.view.due == {50})
    _delete(agent, 50)
    agent.until(lambda: agent.view.missed == [50])
    [told] = [record for record in agent.book.records() if record.get("event") == "missed"]
    assert told["detail"] == "milestone 50 was not uploaded and is gone from the pod"
    agent.restart()
    agent.train()
    assert agent.view.missed == [50]
    # Trained anew, it is a milestone again, and it is no longer missed when it is in the store.
    agent.bench.server.faults.clear()
    agent.bench.save(50, seed="again")
    agent.until(lambda: 50 in agent.view.done)
    assert (agent.view.missed, agent.view.due) == ([], set())
    # What is in the store may go.
    agent.bench.save(60)
    _delete(agent, 50)
    agent.until(lambda: 60 in agent.view.done)
    agent.looks_around()
    assert agent.view.missed == []


def test_a_step_that_cannot_be_uploaded_keeps_no_other_waiting(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BACK_OFF_S", (600.0,))
    agent.bench.save(50)
    agent.train()
    link = agent.bench.trainer.layout(agent.bench.spec).trainer_checkpoints / "step_50/trainer/x"
    link.symlink_to("/etc/hostname")
    agent.order(milestones=50)
    agent.until(lambda: agent.view.failures == 1)
    agent.bench.save(55)
    agent.until(lambda: agent.view.pointer == 55)
    agent.bench.save(60)
    agent.until(lambda: agent.view.pointer == 60)
    assert 50 not in agent.view.done


def test_a_disk_that_is_away_has_missed_nothing(agent: Agent) -> None:
    agent.end()
    agent.order(milestones=50)
    agent.book("sync", run="demo", event="due", step=50, steps=[50])
    agent.syncs.round()
    assert agent.view.missed == []
    agent.bench.save(55)
    agent.bench.server.faults.add(Fault("full", call="b2_upload_file", times=None))
    agent.syncs.round()
    assert agent.view.missed == [50]


def test_a_run_that_was_set_back_by_hand_is_in_the_store_at_its_next_save(agent: Agent) -> None:
    for step in (10, 20, 30):
        agent.bench.save(step)
    agent.order()
    agent.until(lambda: agent.view.pointer == 30)
    agent.train(resumed=10)
    agent.bench.save(15)
    agent.until(lambda: agent.view.pointer == 15)
    assert agent.bench.pointed() == 15


def test_a_milestone_of_the_life_before_does_not_take_the_pointer(agent: Agent) -> None:
    for step in (10, 20, 30):
        agent.bench.save(step)
    agent.train(resumed=10)
    agent.bench.save(15)
    agent.order(milestones=10)
    agent.until(lambda: {10, 15, 20, 30} <= set(agent.view.done))
    assert agent.bench.pointed() == 15


@pytest.mark.parametrize(
    ("resume", "whole", "step"),
    [
        (10, {30: 1.0, 20: 1.0, 10: 1.0}, 30),
        (10, {30: 1.0, 20: 1.0, 15: 60.0, 10: 1.0}, 15),
        (10, {30: 1.0, 20: 70.0, 15: 60.0, 10: 1.0}, 20),
        (10, {30: 80.0, 20: 70.0, 15: 60.0}, 30),
        (30, {30: 1.0, 20: 1.0, 15: 60.0}, 30),
        (None, {30: 1.0, 15: 60.0}, 30),
    ],
)
def test_a_run_that_was_set_back_is_saved_by_what_it_trains_now(
    resume: int | None, whole: dict[int, float], step: int
) -> None:
    """By hand, so that the steps of the life before still lie above it."""
    attempt = Attempt(
        number=2,
        state="running",
        shim=None,
        launcher=None,
        started_t=50.0,
        started_m=50.0,
        resume=resume,
        argv=(),
    )
    newest = present([_set(number, t) for number, t in whole.items()], attempt)
    assert newest is not None
    assert newest.step == step


def test_the_fold_says_the_same_after_a_restart(agent: Agent) -> None:
    agent.bench.save(5)
    agent.order(milestones=50)
    agent.until(lambda: agent.view.last["event"] == "finished")
    again = Ledger(agent.book.records()).syncs["demo"]
    assert (again.pointer, again.done, again.order["milestones"], again.failures) == (
        5,
        agent.view.done,
        50,
        0,
    )
