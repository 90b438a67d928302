"""A rotation by the executor: what it plans, a crash before and after each of its records, a full
disk, an end before each step, who else acts meanwhile, and what the version before has left.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.actions import executor as executor_module
from bs4_agent.checkpoints import removal
from bs4_agent.checkpoints import retention as guard_module
from bs4_agent.checkpoints.holds import hold
from bs4_common.errors import SpoolFull
from bs4_common.ids import ulid
from bs4_common.ledger import ActionView
from tests.agent.checkpoints.guarded import Guarded
from tests.agent.checkpoints.trees import age, new_run, new_step, put, steps_in
from tests.agent.launch.fake_pod import snapshots
from tests.agent.runs.practice import until

WHOLE = [
    ("accepted", None),
    ("intent", 0),
    ("step-done", 0),
    ("intent", 1),
    ("step-done", 1),
    ("done", None),
]


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Guarded:
    """A run with four checkpoints, of which the order lets two go."""
    monkeypatch.setattr(executor_module, "END_RETRY_S", 0.01)
    (root := tmp_path / "pod").mkdir()
    made = Guarded(root, new_run(root), monkeypatch)
    for step in (10, 20, 30, 40):
        new_step(made.spec, step)
        put(made.out / f"demo/broadcasts/step_{step}/STABLE", 0)
        age(made.spec, step, 1000 - step)
    made.order(last=2)
    return made


def there(demo: Guarded) -> list[int]:
    """Return the steps of which everything is there, and check that of the others nothing is."""
    steps = steps_in(demo.out / "demo/checkpoints")
    assert steps == steps_in(demo.out / "demo/broadcasts")
    return steps


def rotations(demo: Guarded) -> list[ActionView]:
    return [action for action in demo.book.ledger.actions.values() if action.kind == "rotate"]


def events(demo: Guarded, key: str) -> list[tuple[str, int | None]]:
    return [(r["event"], r.get("step")) for r in demo.told("action") if r["action"] == key]


def nothing_is_left(demo: Guarded) -> None:
    """Check that no action holds anything, and that nothing is aside."""
    executor = demo.actions.executor
    executor.join(60)
    assert not executor.locks.held("demo")
    assert executor.safe_points.hold(0.0)
    executor.safe_points.release()
    assert demo.book.ledger.unfinished("rotate") == []
    assert not list(demo.out.parent.glob(".bs4/demo/trash/*"))
    for step in (10, 20, 30, 40):
        with hold(demo.home, "demo", step, "a test"):
            pass


def on(demo: Guarded, event: str, step: int | None, do: Callable[[str], object]) -> None:
    """Call `do` with the key of a rotation when this event of it is in the journal."""

    def heard(record: dict[str, Any]) -> None:
        if record["type"] == "action" and (record["event"], record.get("step")) == (event, step):
            action = demo.book.ledger.actions[record["action"]]
            if action.kind == "rotate":
                do(action.key)

    demo.book.listen(heard)


def test_it_plans_what_the_version_before_has_planned(demo: Guarded) -> None:
    """Recorded with the version before, from the same pod."""
    demo.until(lambda: there(demo) == [30, 40])
    [action] = rotations(demo)
    out, trash = demo.out, demo.out.parent / ".bs4/demo/trash"
    assert action.who == "keep-last 2 by alice"
    assert action.body == {
        "kind": "rotate",
        "run": "demo",
        "order": {"last": 2, "at_least": 2},
        "emergency": False,
        "steps": [10, 20],
        "kept": [40, 30],
        "trash": [str(trash)],
    }
    parts = [("checkpoints", 10), ("broadcasts", 10), ("checkpoints", 20), ("broadcasts", 20)]
    paths = [str(out / f"demo/{part}/step_{step}") for part, step in parts]
    assert [(step.title, step.command) for step in action.steps] == [
        ("Move steps 10, 20 aside", f"mv {' '.join(paths)} {trash}/"),
        ("Free what was moved aside for good", f"rm -r {trash / action.key}"),
    ]
    told = [r for r in demo.told("action") if r["action"] == action.key]
    assert [(r["event"], r.get("step")) for r in told] == WHOLE
    assert [target["path"] for target in told[1]["targets"]] == paths
    assert [target["bytes"] for target in told[1]["targets"]] == [117, 0, 117, 0]
    assert told[2]["detail"] == "4 directories are aside"
    assert action.detail == "234 B freed for good: steps 10, 20"
    assert (action.result["freed"], action.result["steps"]) == (234, [10, 20])
    nothing_is_left(demo)


def test_a_crash_before_and_after_each_record_is_finished_by_the_next_agent(
    demo: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was decided and not begun is decided anew; what is aside is freed."""
    (into := tmp_path / "snapshots").mkdir()
    with monkeypatch.context() as patch:
        snapshots(demo, into, patch)
        demo.until(lambda: there(demo) == [30, 40])
    found = sorted(into.iterdir())
    assert len(found) == 2 * len(WHOLE)
    ends = []
    for snapshot in found:
        demo.stream.close()
        shutil.rmtree(demo.root)
        shutil.copytree(snapshot, demo.root)
        demo.load()
        demo.actions.resume()
        nothing_is_left(demo)
        ends.append([action.state for action in rotations(demo)])
        demo.until(lambda: there(demo) == [30, 40])
        for action in rotations(demo):
            told = [event for event, _ in events(demo, action.key)]
            assert sum(event in ("done", "failed", "interrupted") for event in told) == 1
        nothing_is_left(demo)
    # Until something was moved, nothing of the plan is carried out any more.
    assert ends == [[], *[["interrupted"]] * 3, *[["done"]] * 8]


@pytest.mark.parametrize(
    ("full", "ends"), [(0, []), (1, ["failed"]), *((number, ["done"]) for number in range(2, 6))]
)
def test_a_disk_that_is_full_at_any_record_leaves_nothing_aside(
    demo: Guarded, monkeypatch: pytest.MonkeyPatch, full: int, ends: list[str]
) -> None:
    """Without the intent nothing is moved. What is aside is freed as soon as that can be said."""
    written, tried = demo.stream.append_line, 0

    def append_line(line: bytes, *, sync: bool = False) -> str:
        nonlocal tried
        tried += 1
        if tried - 1 == full:
            raise SpoolFull("The disk is full.")
        return written(line, sync=sync)

    monkeypatch.setattr(demo.stream, "append_line", append_line)
    while tried <= full:
        demo.round()
    nothing_is_left(demo)
    assert [action.state for action in rotations(demo)] == ends
    assert there(demo) == ([30, 40] if ends == ["done"] else [10, 20, 30, 40])


def test_one_that_is_cancelled_before_it_moves_anything_ends(demo: Guarded) -> None:
    on(demo, "accepted", None, lambda key: demo.actions.executor.cancel(key, ulid(), "carol"))
    while not rotations(demo):
        demo.round()
    [action] = rotations(demo)
    assert (action.state, action.detail) == ("interrupted", "cancelled by carol's stop")
    assert there(demo) == [10, 20, 30, 40]
    nothing_is_left(demo)


@pytest.mark.parametrize(("event", "step"), WHOLE[2:5])
def test_nothing_ends_one_that_has_something_aside(
    demo: Guarded, event: str, step: int | None
) -> None:
    on(demo, event, step, lambda key: demo.actions.executor.cancel(key, ulid(), "carol"))
    demo.until(lambda: there(demo) == [30, 40])
    [action] = rotations(demo)
    assert action.state == "done"
    nothing_is_left(demo)


def test_while_it_frees_others_act_on_the_run_and_a_newer_agent_may_take_over(
    demo: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo.pod.stop_command, demo.pod.stop = lambda run: "kill", lambda run, say: "stopped"
    frees, go, real = threading.Event(), threading.Event(), removal.free

    def free(trashes: Sequence[Path], key: str) -> int:
        frees.set()
        assert go.wait(60)
        return real(trashes, key)

    monkeypatch.setattr(removal, "free", free)
    executor = demo.actions.executor
    while not demo.book.ledger.unfinished("rotate"):
        pause = demo.guard.round()
    assert frees.wait(60)
    assert pause is not None
    key = ulid()
    demo.actions.submit({"key": key, "kind": "stop", "run": "demo"}, "bob")
    until(lambda: demo.book.ledger.actions[key].ended)
    assert demo.book.ledger.actions[key].state == "done"
    until(lambda: not executor.locks.held("demo"))
    assert executor.safe_points.hold(60.0)
    executor.safe_points.release()
    assert demo.guard.round() == guard_module.LOOK_S
    assert [action.state for action in rotations(demo)] == ["running"], "one at a time"
    go.set()
    nothing_is_left(demo)
    assert [action.state for action in rotations(demo)] == ["done"]
    assert demo.guard._woken.is_set(), "the run is looked at again at once"


def test_an_upload_that_begins_after_the_decision_comes_first(
    demo: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hold(demo.home, "demo", 20, "upload"):
        with monkeypatch.context() as patch:
            patch.setattr(guard_module, "holder", lambda *step: "")
            demo.look()
        assert rotations(demo) == []
        assert not demo.actions.executor.locks.held("demo")
        with hold(demo.home, "demo", 10, "upload"):
            pass
    demo.until(lambda: there(demo) == [30, 40])


def left(demo: Guarded, **body: Any) -> str:
    """Journal a rotation as the version before has left it while it freed what it had aside."""
    key, trash = ulid(), demo.out.parent / ".bs4/demo/trash"
    put(trash / key / "demo/checkpoints/step_10/part", 100)
    demo.book(
        "action",
        action=key,
        kind="rotate",
        who="keep-last 2 by alice",
        run="demo",
        event="accepted",
        body={"kind": "rotate", "run": "demo", **(body or {"steps": [10], "trash": [str(trash)]})},
        steps=[
            {"title": "Move step 10 aside", "command": "mv"},
            {"title": "Free what was moved aside for good", "command": ""},
        ],
    )
    demo.book("action", action=key, run="demo", event="intent", step=0, targets=[])
    return key


@pytest.mark.parametrize("moved", [True, False])
def test_one_of_the_version_before_is_gone_on_with_although_others_act_by_now(
    demo: Guarded, moved: bool
) -> None:
    key, trash = left(demo), demo.out.parent / ".bs4/demo/trash"
    if moved:
        demo.book("action", action=key, run="demo", event="step-done", step=0, detail="aside")
        demo.book("action", action=key, run="demo", event="intent", step=1, command="rm -r")
    later = ulid()
    demo.book(
        "action", action=later, kind="launch", who="bob", run="demo", event="accepted", body={}
    )
    demo.restart()
    demo.actions.executor.locks.hold("demo", later)
    demo.actions.resume()
    demo.actions.executor.join(60)
    action = demo.book.ledger.actions[key]
    assert (action.state, action.detail) == ("done", "100 B freed for good: step 10")
    assert action.result["freed"] == 100
    assert not list(trash.glob("*"))
    assert there(demo) == [10, 20, 30, 40]
    assert demo.actions.executor.locks.holder("demo") is demo.book.ledger.actions[later]


def test_one_whose_plan_cannot_be_read_after_an_upgrade_ends_with_a_sentence(
    demo: Guarded,
) -> None:
    key = left(demo, steps=[10])
    demo.restart()
    demo.actions.resume()
    demo.actions.executor.join(60)
    action = demo.book.ledger.actions[key]
    assert action.state == "interrupted"
    assert action.detail == "its plan cannot be read any more ('trash'); make a new one"
