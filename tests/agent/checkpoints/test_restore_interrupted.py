"""A restore that is cut off anywhere: what is there of it never counts as a checkpoint, and the
same again does only what is missing.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.checkpoints.restoring import place
from bs4_agent.checkpoints.restoring.place import Placement
from bs4_common.trainers import registry
from bs4_common.trainers.base import LaunchSpec
from tests.agent.checkpoints import trees
from tests.agent.checkpoints.restored import TOML, NewPod, stored_run, tree

pytestmark = [pytest.mark.long, pytest.mark.beside]


@pytest.fixture(params=["prime-rl-2026-01", "prime-rl"])
def pod(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[NewPod]:
    """Step 20 of a run lies in the store."""
    with stored_run(tmp_path, monkeypatch, request.param, 20) as made:
        yield made


def complete(pod: NewPod) -> list[int]:
    spec = LaunchSpec(
        run="demo",
        trainer=pod.lost.trainer,
        config=pod.lost.config_path,
        cwd=pod.cwd,
        output_dir=pod.out,
    )
    return [one.step for one in registry.get(spec.trainer).checkpoints(spec) if one.complete]


def whole(pod: NewPod) -> bool:
    """Every byte of the lost step, and the config by the path that a launch is given."""
    here = {name: sha for name, sha in tree(pod.lost.output_dir).items() if "step_20/" in name}
    return tree(pod.out) == here and config(pod).read_text() == TOML


def config(pod: NewPod) -> Path:
    return pod.cwd / ".bs4/demo/restored/step_20/rl.toml"


class Cut(BaseException):
    """kill -9, as far as a thread can feel it: nothing after it is done, and nothing is
    journalled.
    """


def interrupted(pod: NewPod, patch: pytest.MonkeyPatch, cut: Any) -> str:
    """A restore whose agent dies where `cut` (which takes the prepared placement) leaves it; the
    action's key.
    """
    plan = pod.plan()
    with patch.context() as dead:
        dead.setattr(pod.actions.executor, "start", lambda *_: None)
        key = pod.begin(plan)
    restoring = pod.actions.kinds.restoring
    prepared = restoring.of(plan["plan"]["steps"][0]["parameters"])
    restoring.fetch(prepared, key, lambda text: None)
    assert complete(pod) == [], "what is fetched is not in the trainer's sight"
    cut(restoring, prepared, key)
    return key


def directories(where: Placement) -> int:
    return len(where.directories)


def test_no_part_of_the_directories_is_a_checkpoint(
    pod: NewPod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after each rename, and before the last: the config is there by the time that the step
    counts.
    """

    def step_by_step(restoring: Any, prepared: Any, key: str) -> None:
        for count in range(1, directories(prepared.where)):
            part = dataclasses.replace(
                prepared.where, directories=prepared.where.directories[:count]
            )
            place.put(part, lambda path: path)
            assert complete(pod) == [], f"{count} of {directories(prepared.where)} directories"

        def cut(where: Placement, aside: Any) -> Any:
            restored = placing(where, aside)
            assert complete(pod) == [20]
            assert config(pod).read_text() == TOML
            raise Cut(restored)

        placing = place.put
        monkeypatch.setattr(place, "put", cut)
        with pytest.raises(Cut):
            restoring.put(prepared, key)
        monkeypatch.setattr(place, "put", placing)

    key = interrupted(pod, monkeypatch, step_by_step)
    fetched = pod.fetched()
    pod.restart()
    end = pod.ended(key)
    assert end["event"] == "done", end.get("detail")
    assert whole(pod)
    assert Path(end["result"]["launch"]["config"]) == config(pod)
    assert pod.fetched() == fetched, "what was there was not fetched again"


@pytest.mark.parametrize("pod", ["prime-rl-2026-01"], indirect=True)
def test_killed_between_the_trash_and_the_rename(
    pod: NewPod, monkeypatch: pytest.MonkeyPatch
) -> None:
    torn = pod.out / "checkpoints/step_20/trainer"
    trees.put(torn / "note.txt", 5)

    def cut(restoring: Any, prepared: Any, key: str) -> None:
        def never(*_: Any) -> None:
            raise Cut

        with monkeypatch.context() as dead:
            dead.setattr(place, "rename", never)
            with pytest.raises(Cut):
                restoring.put(prepared, key)
        assert complete(pod) == []

    key = interrupted(pod, monkeypatch, cut)
    pod.restart()
    end = pod.ended(key)
    assert end["event"] == "done", end.get("detail")
    assert whole(pod)
    assert len(list((pod.cwd / ".bs4/demo/trash").rglob("note.txt"))) == 1


@pytest.mark.parametrize("pod", ["prime-rl"], indirect=True)
def test_a_step_that_is_whole_here_gets_only_its_config(pod: NewPod) -> None:
    """Its disk was kept and the rest of the machine was not: nothing of the step is fetched or
    moved, and a launch has its config.
    """
    trees.new_step(
        LaunchSpec(
            run="demo",
            trainer=pod.lost.trainer,
            config=Path("rl.toml"),
            cwd=pod.cwd,
            output_dir=pod.out,
        ),
        20,
    )
    before = {path: path.stat().st_ino for path in pod.out.rglob("*") if path.is_file()}
    plan = pod.plan()
    assert plan["plan"]["danger"] == "none"
    assert plan["plan"]["missing"] == len(TOML)
    assert "only its config is fetched" in plan["plan"]["notes"][0]
    end = pod.restore(plan)
    assert end["event"] == "done", end.get("detail")
    assert whole(pod)
    assert {path: path.stat().st_ino for path in pod.out.rglob("*") if path.is_file()} == before
    config(pod).unlink()
    assert pod.restore()["event"] == "done"
    assert whole(pod)


@pytest.mark.parametrize("pod", ["prime-rl-2026-01"], indirect=True)
def test_what_was_half_placed_and_then_removed_is_fetched_again(
    pod: NewPod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A receipt of what was verified is no proof that it is still there."""

    def cut(restoring: Any, prepared: Any, key: str) -> None:
        half = dataclasses.replace(prepared.where, directories=prepared.where.directories[:1])
        (placed,) = place.put(half, lambda path: path)
        shutil.rmtree(placed)

    key = interrupted(pod, monkeypatch, cut)
    pod.restart()
    assert (pod.ended(key)["event"], complete(pod)) == ("plan-changed", []), (
        "what vanished under it is not made good in silence"
    )
    end = pod.restore()
    assert end["event"] == "done", end.get("detail")
    assert whole(pod)
