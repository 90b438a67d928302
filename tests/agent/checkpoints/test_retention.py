"""The disk guard over real trees: what it frees, what it never touches, what it says."""

from __future__ import annotations

import dataclasses
import errno
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.checkpoints import removal, rotation
from bs4_agent.checkpoints import retention as guard_module
from bs4_agent.checkpoints.holds import hold
from bs4_agent.checkpoints.rotation import MoveAside
from bs4_agent.checkpoints.saved import state_of
from bs4_common import ledger
from bs4_common.checkpoints.sets import set_of, step_sets
from bs4_common.errors import BadRequest, Refused, StepFailed
from bs4_common.ids import ulid
from bs4_common.journal import Journal
from bs4_common.mounts import mounted_below
from bs4_common.trainers.base import LaunchSpec
from bs4_common.trainers.settings import UNKNOWN_CONFIG
from tests.agent.checkpoints.guarded import Guarded
from tests.agent.checkpoints.trees import (
    age,
    another_trains,
    new_run,
    new_step,
    old_broadcast,
    old_run,
    old_step,
    old_weights,
    put,
    steps_in,
)


def old(spec: LaunchSpec, *steps: int) -> None:
    """Steps of 2026-01, each written a hundred seconds after the one before it."""
    for number, step in enumerate(reversed(steps)):
        old_step(spec, step)
        old_weights(spec, step)
        age(spec, step, 1000 + 100 * number)


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Guarded:
    """`my_runs` has an underscore, which reversed the order of a script that sorted by text."""
    (tmp_path / "my_runs").mkdir()
    return Guarded(tmp_path, old_run(tmp_path / "my_runs", "[ckpt]\ninterval = 5\n"), monkeypatch)


def trees(demo: Guarded) -> dict[str, list[int]]:
    names = ("checkpoints", "run_default/checkpoints", "run_default/broadcasts", "weights")
    return {name: steps_in(demo.out / name) for name in names}


def everywhere(*steps: int) -> dict[str, list[int]]:
    return {
        name: list(steps)
        for name in ("checkpoints", "run_default/checkpoints", "run_default/broadcasts", "weights")
    }


def left_in_trash(demo: Guarded) -> list[Path]:
    return [path for path in (demo.out.parent / ".bs4").rglob("*") if path.is_file()]


def test_without_an_order_nothing_is_looked_at_and_nothing_goes(demo: Guarded) -> None:
    """Checkpoints that nobody had uploaded were deleted because a default said keep 1."""
    old(demo.spec, 5, 10, 15, 20)
    assert demo.round() is None
    assert trees(demo) == everywhere(5, 10, 15, 20)
    assert [r for r in demo.told() if r["type"] in ("action", "guard")] == []


def test_all_parts_of_all_older_steps_go(demo: Guarded) -> None:
    """The scripts forgot weights and broadcasts, and one that counted with `((n++))` died after its
    first deletion.
    """
    old(demo.spec, 5, 10, 20, 100)
    old_broadcast(demo.spec, 7)
    age(demo.spec, 7, 5000)
    demo.order(last=2)
    demo.look()
    assert trees(demo) == everywhere(20, 100)
    ends = demo.rotations()
    assert {end["event"] for end in ends} == {"done"}
    assert sorted(step for end in ends for step in end["result"]["steps"]) == [5, 7, 10]
    assert left_in_trash(demo) == []
    demo.look()
    assert demo.rotations() == ends, "nothing more to do is no action"


def test_the_best_checkpoint_stays_on_the_disk_with_all_its_parts(demo: Guarded) -> None:
    old(demo.spec, 5, 10, 15, 20)
    steps = demo.home.state / "steps" / "demo"
    steps.mkdir(parents=True)
    rows = []
    for step, reward in ((5, 0.3), (10, 0.59), (15, 0.4), (20, 0.41)):
        rows.append(f'{{"attempt":1,"side":"eval:acc","step":{step},"val":{reward}}}\n')
    (steps / "00000001.ndjson").write_text("".join(rows))
    demo.train(started_s_ago=1e6)
    demo.order(last=2, best="acc")
    demo.until(lambda: trees(demo) == everywhere(10, 15, 20))
    demo.look()
    assert trees(demo) == everywhere(10, 15, 20)
    # A better one lets it go.
    old_step(demo.spec, 25)
    old_weights(demo.spec, 25)
    age(demo.spec, 25, 500)
    with (steps / "00000001.ndjson").open("a") as handle:
        handle.write('{"attempt":1,"side":"eval:acc","step":25,"val":0.7}\n')
    demo.until(lambda: trees(demo) == everywhere(20, 25))


def test_after_a_fresh_start_the_best_checkpoint_is_the_best_of_the_new_attempt(
    demo: Guarded,
) -> None:
    """What the attempt before had said of step 12 made step 15 the best, and 10 was freed."""
    old(demo.spec, 5, 10, 15, 20, 25)
    steps = demo.home.state / "steps" / "demo"
    steps.mkdir(parents=True)
    rows = [(1, 12, 0.9), (2, 5, 0.3), (2, 10, 0.6), (2, 20, 0.4), (2, 25, 0.4)]
    lines = []
    for attempt, step, value in rows:
        lines.append(f'{{"attempt":{attempt},"side":"eval:acc","step":{step},"val":{value}}}\n')
    for step in range(1, 26):
        lines.append(f'{{"attempt":2,"side":"trainer","step":{step}}}\n')
    (steps / "00000001.ndjson").write_text("".join(lines))
    demo.train(started_s_ago=1e6)
    first = demo.run.attempts[0]
    before = dataclasses.replace(first, started_t=first.started_t - 1e6)
    demo.run.attempts = [before, dataclasses.replace(first, number=2)]
    demo.order(last=2, best="acc")
    demo.until(lambda: trees(demo) == everywhere(10, 20, 25))
    demo.look()
    assert trees(demo) == everywhere(10, 20, 25)


def test_the_journal_tells_who_ordered_what_went_and_how_much(demo: Guarded) -> None:
    old(demo.spec, 5, 10, 15)
    size = sum(
        path.stat().st_size
        for path in demo.out.rglob("*")
        if path.is_file() and "step_5" in path.parts
    )
    demo.order(last=2)
    demo.look()
    told = [r for r in demo.told("action") if r["action"] == demo.rotations()[0]["action"]]
    assert [r["event"] for r in told] == [
        "accepted",
        "intent",
        "step-done",
        "intent",
        "step-done",
        "done",
    ]
    assert (told[0]["who"], told[0]["body"]["steps"], told[0]["body"]["kept"]) == (
        "keep-last 2 by alice",
        [5],
        [15, 10],
    )
    assert {Path(t["path"]).name for t in told[1]["targets"]} == {"step_5"}
    assert sum(t["bytes"] for t in told[1]["targets"]) == size
    assert told[-1]["result"]["freed"] == size
    assert told[-1]["detail"].endswith("freed for good: step 5")
    assert Journal(demo.stream).verify() == []


def test_the_current_generation_with_its_broadcasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo = Guarded(tmp_path, new_run(tmp_path), monkeypatch)
    for step in (10, 20, 30):
        new_step(demo.spec, step)
        put(demo.out / f"demo/broadcasts/step_{step}/STABLE", 0)
        age(demo.spec, step, 1000 - step)
    demo.order(last=2)
    demo.look()
    assert (
        steps_in(demo.out / "demo/checkpoints")
        == steps_in(demo.out / "demo/broadcasts")
        == [20, 30]
    )


def test_a_torn_newest_step_keeps_two_whole_ones_behind_it(demo: Guarded) -> None:
    old(demo.spec, 5, 10, 15)
    (demo.out / "run_default/broadcasts/step_15/model.safetensors").unlink()
    demo.order(last=2)
    demo.look()
    assert trees(demo) == everywhere(5, 10, 15)


def test_an_upload_keeps_its_step_until_it_is_done(demo: Guarded) -> None:
    """A checkpoint was deleted while it was uploaded, and the copy in the store stayed broken."""
    old(demo.spec, 5, 10, 15, 20)
    demo.order(last=2)
    with hold(demo.home, "demo", 5, "upload to the store"):
        demo.look()
        assert trees(demo) == everywhere(5, 15, 20)
    demo.look()
    assert trees(demo) == everywhere(15, 20)


def test_what_must_be_in_the_store_first_stays_until_it_is(demo: Guarded) -> None:
    """By the sync's own records of what it verified there; what was written anew since, or went
    from there, is not what was saved.
    """
    old(demo.spec, 5, 10, 15, 20)
    demo.order(last=2, synced=True)
    demo.look()
    assert steps_in(demo.out / "checkpoints") == [5, 10, 15, 20]
    demo.book("sync", run="demo", event="ordered", to="b2://demo-bucket/runs")
    uploaded(demo, 5, 15)
    demo.until(lambda: steps_in(demo.out / "checkpoints") == [10, 15, 20])
    uploaded(demo, 10)
    demo.book("sync", run="demo", event="listed", pointer=15, steps=[15], torn=[])
    demo.look()
    assert steps_in(demo.out / "checkpoints") == [10, 15, 20]
    uploaded(demo, 10)
    demo.until(lambda: steps_in(demo.out / "checkpoints") == [15, 20])
    assert demo.book.ledger.orders["demo"]["synced"] is True


def uploaded(demo: Guarded, *steps: int, weights: bool = False, **fields: Any) -> None:
    """Journal that these steps were verified in the store as they are now, with their `weights` if
    it is so said, or with other `fields`.
    """
    trainer = demo.runs.trainer(demo.spec)
    for step in steps:
        one = set_of(step_sets(trainer, demo.spec), step)
        assert one is not None
        record = {
            "step": step,
            "set_t": one.t,
            "set_state": state_of(trainer, demo.spec, one, weights=weights),
            "rate": 1,
            "pointed": True,
            "held": "",
        }
        demo.book("sync", run="demo", event="step-done", **(record | fields))


@pytest.mark.parametrize(
    "later_s",
    [
        pytest.param(0.3, id="within a second of its save"),
        pytest.param(70.0, id="later, in its place"),
        pytest.param(-3600.0, id="after the clock was set back"),
    ],
)
def test_what_was_written_anew_is_not_what_was_saved(demo: Guarded, later_s: float) -> None:
    """The upload has verified step 5, and then one of its files was written again, of the same
    size.
    """
    old(demo.spec, 5, 10, 15, 20)
    demo.book("sync", run="demo", event="ordered", to="b2://demo-bucket/runs")
    uploaded(demo, 5, 10)
    shard = demo.out / "checkpoints/step_5/trainer/__0_0.distcp"
    saved_t = shard.stat().st_mtime
    shard.write_bytes(b"y" * shard.stat().st_size)
    os.utime(shard, (saved_t + later_s, saved_t + later_s))
    demo.order(last=2, synced=True)
    demo.until(lambda: steps_in(demo.out / "checkpoints") == [5, 15, 20])
    demo.look()
    assert steps_in(demo.out / "checkpoints") == [5, 15, 20]
    uploaded(demo, 5)
    demo.until(lambda: steps_in(demo.out / "checkpoints") == [15, 20])


def test_weights_that_were_written_after_the_upload_are_not_what_was_saved(demo: Guarded) -> None:
    old(demo.spec, 5, 10, 15, 20, 25)
    demo.book("sync", run="demo", event="ordered", to="b2://demo-bucket/runs", weights=True)
    uploaded(demo, 5, 10, 15, weights=True)
    old_weights(demo.spec, 5)
    demo.order(last=2, synced=True)
    demo.until(lambda: steps_in(demo.out / "checkpoints") == [5, 20, 25])
    demo.look()
    assert steps_in(demo.out / "checkpoints") == [5, 20, 25]
    uploaded(demo, 5, weights=True)
    demo.until(lambda: steps_in(demo.out / "checkpoints") == [20, 25])


def test_an_order_that_adds_the_weights_waits_for_them(demo: Guarded) -> None:
    """An order that no longer asks for them needs no other upload, and neither do weights that are
    gone from the disk.
    """
    old(demo.spec, 5, 10, 15, 20, 25)
    demo.book("sync", run="demo", event="ordered", to="b2://demo-bucket/runs", weights=False)
    uploaded(demo, 5)
    uploaded(demo, 10, 15, weights=True)

    def stored() -> list[int]:
        sets = step_sets(demo.runs.trainer(demo.spec), demo.spec)
        return [one.step for one in sets if demo.guard._in_store("demo", one)]

    assert stored() == [5, 10, 15]
    demo.book("sync", run="demo", event="ordered", to="b2://demo-bucket/runs", weights=True)
    assert stored() == [10, 15]
    shutil.rmtree(demo.out / "weights/step_5")
    assert stored() == [5, 10, 15]


def test_a_state_that_the_uploading_agent_did_not_record_is_not_known(demo: Guarded) -> None:
    """Agents of the version before have recorded its time only."""
    old(demo.spec, 5, 10, 15, 20)
    demo.book("sync", run="demo", event="ordered", to="b2://demo-bucket/runs")
    uploaded(demo, 5, set_state="")
    uploaded(demo, 10)
    demo.order(last=2, synced=True)
    demo.until(lambda: steps_in(demo.out / "checkpoints") == [5, 15, 20])
    demo.look()
    assert steps_in(demo.out / "checkpoints") == [5, 15, 20]


def test_a_process_that_reads_a_step_keeps_it(demo: Guarded) -> None:
    old(demo.spec, 5, 10, 15, 20)
    shard = demo.out / "checkpoints/step_5/trainer/__0_0.distcp"
    mapped = demo.out / "run_default/broadcasts/step_10/model.safetensors"
    code = (
        "import mmap, sys\nshard = open(sys.argv[1], 'rb')\nwith open(sys.argv[2], 'rb') as f:\n"
        "    held = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\nprint('reads', flush=True)\n"
        "sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, shard, mapped], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"reads\n"
    demo.processes = {process.pid: None}
    demo.order(last=2)
    demo.look()
    assert trees(demo) == everywhere(5, 10, 15, 20)
    process.communicate()
    demo.look()
    assert trees(demo) == everywhere(15, 20)


def test_a_step_that_changes_is_left_alone(demo: Guarded) -> None:
    old(demo.spec, 5, 10, 15)
    demo.order(last=2)
    extra = demo.out / "checkpoints/step_5/trainer/late"
    for number in range(4):
        put(extra, number + 1)
        os.utime(extra, (1_700_000_000, 1_700_000_000 + number))
        demo.round()
        assert trees(demo) == everywhere(5, 10, 15)
    demo.until(lambda: trees(demo) == everywhere(10, 15))


def test_a_trainer_that_cleans_itself_is_not_raced(demo: Guarded) -> None:
    """Its rmtree of a directory that somebody has taken away ends the run."""
    Path(demo.spec.config_path).write_text("[ckpt]\ninterval = 5\nkeep_last = 3\n")
    old(demo.spec, 5, 10, 15)
    # 15 was saved in this life; 5 and 10 it has found and will delete now
    demo.train(started_s_ago=1090)
    demo.order(last=2)
    demo.look()
    assert trees(demo) == everywhere(5, 10, 15)
    old_step(demo.spec, 20)  # it has gone on: 5 and 10 are forgotten
    demo.until(lambda: trees(demo)["checkpoints"] == [15, 20])
    assert trees(demo)["weights"] == [15]


def test_a_start_that_may_read_any_of_them_is_waited_for(demo: Guarded) -> None:
    old(demo.spec, 5, 10, 15)
    demo.train(started_s_ago=10, last_step=None)
    demo.order(last=2)
    demo.look()
    assert trees(demo) == everywhere(5, 10, 15)
    assert demo.said() == [], "nothing to say: it is a matter of minutes"
    demo.train(started_s_ago=10, last_step=16)
    demo.look()
    assert trees(demo) == everywhere(10, 15)


def test_a_config_that_nobody_can_read_is_no_permission(demo: Guarded) -> None:
    old(demo.spec, 5, 10, 15)
    Path(demo.spec.config_path).write_text("[ckpt\n")
    demo.train()
    demo.order(last=2)
    demo.look()
    assert trees(demo) == everywhere(5, 10, 15)
    [(event, detail)] = demo.said()
    assert event == "refused"
    assert "cannot be read" in detail


def test_the_orchestrators_settings_alone_do_not_tell_what_the_trainer_deletes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An adopted run whose config nobody knows: 2026-01 writes down orch.toml only."""
    spec = dataclasses.replace(old_run(tmp_path), config=UNKNOWN_CONFIG)
    demo = Guarded(tmp_path, spec, monkeypatch)
    old(spec, 5, 10, 15)
    (demo.out / "run_default/configs").mkdir()
    (demo.out / "run_default/configs/orch.toml").write_text("max_steps = 5\n[ckpt]\ninterval = 5\n")
    demo.train()
    demo.order(last=2)
    demo.look()
    assert trees(demo) == everywhere(5, 10, 15)
    assert demo.said()[0][0] == "refused"


def test_two_runs_in_one_place_are_left_alone(demo: Guarded) -> None:
    old(demo.spec, 5, 10, 15)
    demo.train()
    other = demo.runs.register(
        LaunchSpec(
            run="other",
            trainer=demo.spec.trainer,
            config=demo.spec.config,
            cwd=demo.spec.cwd,
            output_dir=demo.out,
        )
    )
    other.attempts = demo.run.attempts
    demo.order(last=2)
    demo.look()
    assert trees(demo) == everywhere(5, 10, 15)
    assert "both write to" in demo.said()[0][1]


def test_an_order_for_a_run_that_has_stopped_frees_nothing_of_another_that_trains_there(
    demo: Guarded,
) -> None:
    old(demo.spec, 5, 10, 15)
    other = demo.runs.register(
        LaunchSpec(
            run="other",
            trainer=demo.spec.trainer,
            config=demo.spec.config,
            cwd=demo.spec.cwd,
            output_dir=demo.out,
        )
    )
    demo.train()
    other.attempts, demo.run.attempts = demo.run.attempts, []
    demo.order(last=2)
    demo.look()
    assert trees(demo) == everywhere(5, 10, 15)
    assert "both write to" in demo.said()[0][1]


def test_what_is_mounted_below_a_step_is_not_the_runs(tmp_path: Path) -> None:
    (mounted := tmp_path / "a b").mkdir()
    assert mounted_below(mounted) is None
    assert mounted_below(Path("/")) == "/"
    assert mounted_below(Path("/proc").resolve()) == "/proc"


def test_in_doubt_nothing_goes_and_it_is_said_once(
    demo: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    old(demo.spec, 5, 10, 15)
    monkeypatch.setattr(
        guard_module, "verify", lambda one: "trainer: __0_0.distcp is empty" if one.step > 5 else ""
    )
    demo.order(last=2)
    demo.look()
    assert trees(demo) == everywhere(5, 10, 15)
    [(event, detail)] = demo.said()
    assert event == "refused"
    assert "1 of 2 checkpoints that must stay can be verified; in doubt: step 15" in detail


def test_a_link_is_not_followed_and_the_rest_goes(demo: Guarded, tmp_path: Path) -> None:
    old(demo.spec, 5, 10, 15, 20)
    elsewhere = tmp_path / "elsewhere"
    (demo.out / "checkpoints/step_5").rename(elsewhere)
    (demo.out / "checkpoints/step_5").symlink_to(elsewhere)
    demo.order(last=2)
    demo.look()
    assert trees(demo) == everywhere(5, 15, 20)
    assert (elsewhere / "trainer/__0_0.distcp").exists()


def test_orders_live_through_a_restart_and_can_be_taken_back(demo: Guarded) -> None:
    old(demo.spec, 5, 10, 15)
    demo.order(last=2, milestones=5)
    demo.restart()
    assert demo.book.ledger.orders["demo"]["milestones"] == 5
    demo.look()
    assert trees(demo) == everywhere(5, 10, 15)
    demo.order(last=2)
    demo.order(off=True)
    assert demo.round() is None
    assert trees(demo) == everywhere(5, 10, 15)
    with pytest.raises(BadRequest, match="at least 2"):
        demo.order(last=1)


@pytest.mark.parametrize("done", ["nothing", "one directory", "all moved", "half deleted"])
def test_a_killed_rotation_is_finished_by_the_next_life(
    demo: Guarded, monkeypatch: pytest.MonkeyPatch, done: str
) -> None:
    """kill -9 at each moment: what was moved aside is freed, the rest goes with the next rotation,
    and nothing newer is touched.
    """
    old(demo.spec, 5, 10, 15, 20)

    class Killed(BaseException):
        pass

    # It ends the thread of the action without a word, as the death of the agent does.
    monkeypatch.setattr(threading, "excepthook", lambda of: None)
    real_move, real_free = removal.move, removal.free

    def move(wanted: Sequence[removal.Move], key: str) -> None:
        real_move(
            wanted if done in ("all moved", "half deleted") else wanted[: done == "one directory"],
            key,
        )
        if done in ("nothing", "one directory"):
            raise Killed

    def free(trashes: Sequence[Path], key: str) -> int:
        if done == "half deleted":
            for path in [*trashes[0].rglob("*.distcp")]:
                path.unlink()
        raise Killed

    monkeypatch.setattr(removal, "move", move)
    monkeypatch.setattr(removal, "free", free)
    demo.order(last=2)
    demo.until(lambda: demo.book.ledger.unfinished("rotate"))
    monkeypatch.setattr(removal, "move", real_move)
    monkeypatch.setattr(removal, "free", real_free)
    demo.restart()
    assert len(demo.book.ledger.unfinished("rotate")) == 1
    demo.actions.resume()
    demo.actions.executor.join(60)
    [key] = [r["action"] for r in demo.told("action") if r.get("kind") == "rotate"]
    end = [r for r in demo.told("action") if r["action"] == key][-1]
    assert end["event"] == ("interrupted" if done == "nothing" else "done")
    assert demo.book.ledger.unfinished("rotate") == []
    assert left_in_trash(demo) == []
    demo.until(lambda: trees(demo) == everywhere(15, 20))


def test_while_somebody_acts_on_the_run_the_guard_waits(demo: Guarded) -> None:
    old(demo.spec, 5, 10, 15)
    key = ulid()
    demo.book(
        "action", action=key, kind="playbook", who="bob", run="demo", event="accepted", body={}
    )
    demo.actions.executor.locks.hold("demo", key)
    demo.order(last=2)
    demo.look()
    assert trees(demo) == everywhere(5, 10, 15)
    demo.actions.executor.locks.let_go("demo", key)
    demo.look()
    assert trees(demo) == everywhere(10, 15)


def test_nobody_is_refused_because_the_guard_renames_something(
    demo: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    old(demo.spec, 5, 10, 15)
    demo.pod.stop_command, demo.pod.stop = lambda run: "kill", lambda run, say: "stopped"
    moving, go = threading.Event(), threading.Event()
    real = removal.move

    def move(wanted: Sequence[removal.Move], key: str) -> None:
        moving.set()
        go.wait(60)
        real(wanted, key)

    monkeypatch.setattr(removal, "move", move)
    demo.order(last=2)
    looks = threading.Thread(target=demo.until, args=(demo.rotations,))
    looks.start()
    assert moving.wait(60)
    threading.Timer(0.1, go.set).start()
    key = ulid()
    demo.actions.submit({"key": key, "kind": "stop", "run": "demo"}, "bob")
    looks.join(60)
    demo.actions.executor.join(60)
    assert demo.book.ledger.actions[key].state == "done"


def test_one_broken_run_does_not_keep_the_others_from_their_order(demo: Guarded) -> None:
    """A missing login ended the whole clean-up daemon, and the disk filled."""
    old(demo.spec, 5, 10, 15)
    demo.book("order", run="another", who="bob", last=2, at_least=2, milestones=0)
    demo.order(last=2)
    demo.look()
    assert trees(demo) == everywhere(10, 15)
    assert demo.book.ledger.guard["another"]["event"] == "refused"


def test_a_rotation_that_fails_says_so_and_is_not_tried_at_every_look(
    demo: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    old(demo.spec, 5, 10, 15)

    def refuse(*names: object, **where: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(removal, "rename", refuse)
    demo.order(last=2)
    demo.look()
    demo.look()
    [end] = demo.rotations()
    assert end["event"] == "failed"
    assert "Operation not permitted" in end["detail"]
    assert trees(demo) == everywhere(5, 10, 15)


def _starts(demo: Guarded) -> None:
    demo.train(0.0, last_step=None)


def _another_trains_there(demo: Guarded) -> None:
    another_trains(
        demo.runs,
        LaunchSpec(
            run="other",
            trainer=demo.spec.trainer,
            config=demo.spec.config,
            cwd=demo.spec.cwd,
            output_dir=demo.out,
        ),
    )


def _is_written_again(demo: Guarded) -> None:
    (demo.out / "checkpoints/step_5/trainer/__0_0.distcp").write_bytes(b"of another life")


def _is_ordered_otherwise(demo: Guarded) -> None:
    demo.order(last=3)


@pytest.mark.parametrize(
    "happens", [_starts, _another_trains_there, _is_written_again, _is_ordered_otherwise]
)
def test_what_happens_between_the_look_and_the_rename(
    demo: Guarded, monkeypatch: pytest.MonkeyPatch, happens: Callable[[Guarded], None]
) -> None:
    old(demo.spec, 5, 10, 15)
    check = MoveAside.check

    def later(*arguments: Any) -> Any:
        happens(demo)
        return check(*arguments)

    monkeypatch.setattr(MoveAside, "check", later)
    demo.order(last=2)
    demo.until(demo.rotations)
    assert [end["event"] for end in demo.rotations()] == ["failed"]
    assert trees(demo) == everywhere(5, 10, 15)


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(errno.EPERM, "Operation not permitted"),
        Refused("It was replaced by a link."),
    ],
)
def test_what_a_failed_rotation_has_moved_aside_is_freed(
    demo: Guarded, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    old(demo.spec, 5, 10, 15)
    real, moved = removal.rename, 0

    def rename(source: Path, target: Path) -> None:
        nonlocal moved
        if moved:
            raise error
        moved += 1
        real(source, target)

    monkeypatch.setattr(removal, "rename", rename)
    demo.order(last=2)
    demo.until(demo.rotations)
    [end] = demo.rotations()
    assert end["event"] == "failed"
    assert "What was aside already was freed" in end["detail"]
    assert left_in_trash(demo) == []


class Space:
    """Free bytes as the test says, whatever the machine's disk has."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free = 10**6
        for module in (guard_module, rotation):
            monkeypatch.setattr(module, "disk_usage", self.usage)

    def usage(self, path: Path) -> dict[str, Any]:
        return {"path": str(path), "free": self.free, "used": 1, "total": 10**7}


def test_an_emergency_says_what_is_in_the_way_and_goes_as_far_as_it_was_told(
    demo: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    old(demo.spec, 5, 10, 15, 20, 25)
    space = Space(monkeypatch)
    demo.train(started_s_ago=5000)
    demo.order(last=4)
    demo.look()
    assert trees(demo) == everywhere(10, 15, 20, 25)
    space.free = 100
    demo.look()
    assert trees(demo) == everywhere(10, 15, 20, 25), "four were ordered, and four stay"
    [(event, detail)] = demo.said()
    assert event == "emergency"
    assert "Complete sets that must stay: 10, 15, 20, 25." in detail
    assert "--at-least 2" in detail
    demo.order(last=4, at_least=2)
    with hold(demo.home, "demo", 10, "upload to the store"):
        demo.look()
        assert trees(demo) == everywhere(10, 20, 25)
        assert "held by upload to the store" in demo.said()[-1][1]
    demo.look()
    assert trees(demo) == everywhere(20, 25)
    space.free = 10**6
    demo.look()
    assert demo.said()[-1][0] == "relieved"
    count = len(demo.said())
    demo.look()
    assert len(demo.said()) == count, "what has not changed is not said again"


def test_of_a_thousand_rotations_the_last_are_remembered(
    demo: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal has them all; the agent has 30 MB."""
    monkeypatch.setattr(ledger, "ROTATIONS_KEPT", 2)
    demo.order(last=2)
    for step in range(5, 40, 5):
        old(demo.spec, step)
        age(demo.spec, step, 1000 - step)
        demo.look()
    ends = [end["action"] for end in demo.rotations()]
    assert len(ends) == 5
    for told in (demo.book.ledger, ledger.Ledger(demo.book.records())):
        assert [key for key, action in told.actions.items() if action.kind == "rotate"] == ends[-2:]


def test_a_checkpoint_tree_under_a_mount_of_its_own(demo: Guarded, other_mount: Path) -> None:
    old(demo.spec, 5, 10, 15)
    (demo.out / "checkpoints").rename(demo.out / "aside")
    moved = other_mount / "checkpoints"
    subprocess.run(["cp", "-a", str(demo.out / "aside"), str(moved)], check=True)
    (demo.out / "checkpoints").symlink_to(moved)
    demo.order(last=2)
    demo.look()
    assert steps_in(moved) == [10, 15]
    assert not list(other_mount.rglob("*step_5*"))
    [end] = demo.rotations()
    assert end["result"]["steps"] == [5]


@pytest.mark.parametrize(
    ("trash", "key"),
    [("/tmp/somewhere/else", "01M818D6KXQQYK1K5RPBY49NN0"), ("/x/.bs4/demo/trash", "")],
)
def test_only_a_trash_of_ours_is_ever_deleted(trash: str, key: str) -> None:
    with pytest.raises(Exception, match="nothing was deleted"):
        removal.free([Path(trash)], key)


def test_deleting_follows_no_link_and_counts_what_it_frees(tmp_path: Path) -> None:
    trash, key = tmp_path / ".bs4/demo/trash", ulid()
    put(tmp_path / "outside/file", 10)
    put(trash / key / "checkpoints/step_5/a", 100)
    put(trash / key / "checkpoints/step_5/kept-elsewhere", 50)
    (tmp_path / "other-name").hardlink_to(trash / key / "checkpoints/step_5/kept-elsewhere")
    (trash / key / "link").symlink_to(tmp_path / "outside")
    link = (trash / key / "link").lstat().st_size
    assert removal.free([trash], key) == 100 + link
    assert (tmp_path / "outside/file").exists()
    assert (tmp_path / "other-name").exists()
    assert not (trash / key).exists()
    assert removal.free([trash], key) == 0


def test_a_trash_that_cannot_be_emptied_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trash, key = tmp_path / ".bs4/demo/trash", ulid()
    put(trash / key / "a")

    def refuse(path: Path, *, ours: Path) -> int:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(removal, "remove", refuse)
    with pytest.raises(StepFailed, match="delete it by hand"):
        removal.free([trash], key)


def test_an_agent_without_an_order_loads_nothing_of_this() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import bs4_agent.daemon\n"
        "print(*sorted(m for m in sys.modules if '.checkpoints.' in m))"
    )
    agents = Path(removal.__file__).parents[2]
    loaded = subprocess.run(
        [sys.executable, "-c", code, str(agents)], capture_output=True, text=True, check=True
    ).stdout
    names = {name.rpartition(".")[2] for name in loaded.split()}
    assert names == {"content", "intent", "inventory", "sync_view"}
