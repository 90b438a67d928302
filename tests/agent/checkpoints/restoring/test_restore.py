"""What a new pod gets back from a store over HTTP: the newest whole step, where its trainer looks
for it, or a reason and nothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.checkpoints.restoring import place
from bs4_agent.checkpoints.restoring.restore import RestoreRequest
from bs4_agent.setup import credentials
from bs4_common.checkpoints.remote.b2 import B2Store
from bs4_common.checkpoints.remote.manifest import Manifest
from bs4_common.checkpoints.remote.source import find
from bs4_common.errors import AgentError, BadRequest, Refused
from bs4_common.identity import Identity
from bs4_common.trainers import registry
from bs4_common.trainers.base import LaunchSpec
from bs4_practice import disks
from bs4_practice.b2.faults import Fault
from tests.agent.checkpoints import trees
from tests.agent.checkpoints.restored import PLACE, STEP, TOML, NewPod, stored_run, tree
from tests.support.remote_sets import put_step

pytestmark = [pytest.mark.long, pytest.mark.beside]

WANDB = {"trainer": "aaaa1111", "orchestrator": "bbbb2222"}


@pytest.fixture(params=["prime-rl-2026-01", "prime-rl"])
def pod(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[NewPod]:
    """Steps 10 and 20 of a run lie in the store, 20 is pointed to."""
    with stored_run(tmp_path, monkeypatch, request.param, 10, 20, wandb=WANDB) as made:
        yield made


def lost(pod: NewPod, step: int) -> dict[str, str]:
    return {name: sha for name, sha in tree(pod.lost.output_dir).items() if f"step_{step}/" in name}


def complete(pod: NewPod) -> list[int]:
    spec = LaunchSpec(
        run="demo",
        trainer=pod.lost.trainer,
        config=pod.lost.config_path,
        cwd=pod.cwd,
        output_dir=pod.out,
    )
    return [one.step for one in registry.get(spec.trainer).checkpoints(spec) if one.complete]


def outcome(pod: NewPod, plan: dict[str, Any]) -> tuple[str, str]:
    """Return how a restore ends, or the error with which it is not accepted: a word and a
    sentence.
    """
    try:
        end = pod.restore(plan)
    except AgentError as error:
        return error.type, error.message
    return end["event"], end["detail"]


def seek(pod: NewPod, step: int | None = None) -> tuple[int | None, dict[int, str]]:
    """(the step that would be restored, why others not), in this process."""
    found = find(pod.store, PLACE, "demo", step)
    return (None if found.chosen is None else found.chosen.step), dict(found.skipped)


def damage(pod: NewPod, step: int) -> None:
    """Other bytes under the name of the trainer's shard."""
    name = next(
        e.name
        for e in pod.store.entries("lab/demo/")
        if f"steps/step_{step}/" in e.name and e.name.endswith(".distcp")
    )
    pod.store.write(name, b"y" * 100)


def test_the_newest_step_is_put_where_its_trainer_looks(pod: NewPod) -> None:
    plan = pod.plan()
    assert plan["plan"]["resume"] == 20
    assert not pod.out.exists(), "a plan touches nothing"
    began_t = time.time()
    end = pod.restore(plan)
    assert end["event"] == "done", end
    old = [
        path
        for path in pod.out.rglob("*")
        if path.is_file() and path.stat().st_mtime < began_t and path.stat().st_size
    ]
    assert old == [], "what is older than the run's start counts as left behind, and goes first"
    assert tree(pod.out) == lost(pod, 20)
    assert complete(pod) == [20]
    launch = end["result"]["launch"]
    assert Path(launch["config"]).read_text() == TOML
    assert (launch["resume"], launch["trainer"]) == (20, pod.lost.trainer)
    spec = pod.runs.get("demo").spec
    if pod.lost.trainer == "prime-rl":
        assert spec.env["PRL_RUN_ID"] == "aaaa1111"
    else:
        assert spec.overrides == (
            "--trainer.wandb.id",
            "aaaa1111",
            "--orchestrator.wandb.id",
            "bbbb2222",
        )
    before, asked = tree(pod.cwd), pod.fetched()
    again = pod.restore()
    assert (again["event"], again["result"]["step"]) == ("done", 20)
    assert tree(pod.cwd) == before, "the same once more finds it, fetches nothing and moves nothing"
    assert pod.fetched() - asked <= 4, "pointer, manifests and config"


def test_nothing_is_put_where_a_run_of_another_name_trains(
    pod: NewPod, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = pod.plan()
    # The attempt below is only in memory, so no processes and files are looked at for it.
    monkeypatch.setattr(pod.runs, "poll", list)
    there = LaunchSpec(
        run="other",
        trainer=pod.lost.trainer,
        config=pod.lost.config_path,
        cwd=pod.cwd,
        output_dir=pod.out,
    )
    trees.another_trains(pod.runs, there)
    word, sentence = outcome(pod, plan)
    if pod.lost.trainer == "prime-rl":
        assert word == "done", "each run has a directory of its own"
        return
    assert "demo and other, which is running, both write to" in sentence
    assert complete(pod) == []


def test_the_launch_path_continues_the_wandb_runs(pod: NewPod) -> None:
    """What a launch of the restored run would be: from step 20, with the ids that the run had."""
    from bs4_agent.launch.plan import make

    (pod.cwd / "bin").mkdir()
    uv = pod.cwd / "bin" / "uv"
    uv.write_text("#!/bin/sh\n")
    uv.chmod(0o755)
    end = pod.restore()
    asked = {**end["result"]["launch"], "env": {"PATH": f"{pod.cwd}/bin:/usr/bin:/bin"}}
    plan = make(pod.runs, asked)
    words = " ".join(plan.argv) + str(plan.environment)
    assert plan.spec.resume == 20
    assert "aaaa1111" in words
    assert ("bbbb2222" in words) is (pod.lost.trainer == "prime-rl-2026-01")


@pytest.mark.parametrize("pod", ["prime-rl-2026-01"], indirect=True)
def test_a_damaged_newest_step_gives_way_to_the_one_before_and_it_is_said(pod: NewPod) -> None:
    damage(pod, 20)
    plan = pod.plan()
    assert plan["plan"]["resume"] == 10
    ((step, why),) = plan["plan"]["skipped"]
    assert step == 20
    assert "__0_0.distcp" in why
    assert pod.restore(plan)["event"] == "done"
    assert complete(pod) == [10]


@pytest.mark.parametrize("pod", ["prime-rl"], indirect=True)
def test_a_manifest_that_the_pointer_does_not_name_is_not_believed(pod: NewPod) -> None:
    name = "lab/demo/steps/step_20/manifest.json"
    told = Manifest.decode(pod.store.read(name, 1 << 20))
    pod.store.write(name, dataclasses.replace(told, created_t=told.created_t + 1).encode())
    found = seek(pod)
    assert found[0] == 10
    assert "not the one that the pointer names" in found[1][20]


@pytest.mark.parametrize("pod", ["prime-rl"], indirect=True)
def test_a_file_that_is_missing_in_the_store_makes_no_step(pod: NewPod) -> None:
    """The scripts before us took every directory that had a name for a checkpoint (1.5: an
    interrupted upload is synced for ever).
    """
    gone = next(
        e for e in pod.store.entries("lab/demo/steps/step_20/") if e.name.endswith("progress.pt")
    )
    pod.store.delete(gone)
    found = seek(pod)
    assert found[0] == 10
    assert "progress.pt" in found[1][20]


@pytest.mark.parametrize("pod", ["prime-rl"], indirect=True)
def test_a_step_above_the_pointer_is_taken_only_when_it_is_named(pod: NewPod) -> None:
    STEP[pod.lost.trainer](pod.lost, 30)
    put_step(pod.store, PLACE, pod.lost, 30, point=False)
    found = seek(pod)
    assert (found[0], list(found[1])) == (20, [30])
    assert seek(pod, 30) == (30, {})


@pytest.mark.parametrize("pod", ["prime-rl"], indirect=True)
def test_no_whole_step_is_an_error_and_never_a_fresh_start(pod: NewPod) -> None:
    """1.7: without optimizer.pt the script before us started afresh under the same run id, in
    silence.
    """
    for step in (10, 20):
        damage(pod, step)
    refused = pod.plan()["refused"]
    assert "nothing is started afresh" in refused
    assert "step 20" in refused
    assert "step 10" in refused
    assert not pod.out.exists()
    assert pod.runs.all() == []


@pytest.mark.parametrize("pod", ["prime-rl"], indirect=True)
def test_what_is_not_there_is_named(pod: NewPod) -> None:
    assert "does not hold step 7" in pod.plan(step=7)["refused"]
    assert "does not hold any step that is whole of other" in pod.plan(run="other")["refused"]
    assert "is not in the store" in pod.plan(**{"from": "b2://no-such-bucket/lab"})["refused"]
    with pytest.raises(BadRequest, match="does not begin with b2://"):
        pod.plan(**{"from": "s3://x"})


@pytest.mark.parametrize("pod", ["prime-rl"], indirect=True)
def test_a_wrong_key_and_no_key_are_told_apart(pod: NewPod) -> None:
    credentials.store("b2", {"key_id": "0" * 24, "key": "K" * 31}, pod.home)
    refused = pod.plan()["refused"]
    assert "refuses this key" in refused
    assert "K" * 31 not in json.dumps(pod.told("plan"))
    (pod.home.credentials / "b2.json").unlink()
    assert "no key" in pod.plan()["refused"]


def test_what_lies_in_the_way_goes_to_the_trash(pod: NewPod) -> None:
    """A dying orchestrator's half of step 20 is on this pod's disk; one of its files is even right,
    and is not fetched again.
    """
    torn = (
        pod.out
        / ("checkpoints" if pod.lost.trainer == "prime-rl-2026-01" else "demo/checkpoints")
        / "step_20/trainer"
    )
    trees.put(torn / "__0_0.distcp", 100)
    trees.put(torn / "note.txt", 5)
    plan = pod.plan()
    assert plan["plan"]["danger"] == "move"
    end = pod.restore(plan)
    assert end["event"] == "done", end
    assert complete(pod) == [20]
    assert not (torn / "note.txt").exists()
    assert len(list((pod.cwd / ".bs4/demo/trash").rglob("note.txt"))) == 1
    assert pod.server.calls["b2_download_file_by_name"] > 0
    asked = [r for r in pod.told("action") if r["event"] == "step-done"]
    assert asked


@pytest.mark.parametrize("pod", ["prime-rl-2026-01"], indirect=True)
def test_something_that_came_between_plan_and_restore_is_not_touched(pod: NewPod) -> None:
    plan = pod.plan()
    late = (
        pod.out
        / ("checkpoints" if pod.lost.trainer == "prime-rl-2026-01" else "demo/checkpoints")
        / "step_20/trainer/mine"
    )
    trees.put(late, 5)
    assert outcome(pod, plan)[0] == "plan-changed"
    assert late.read_bytes() == b"x" * 5


@pytest.mark.skipif(bool(disks.needs_mounts()), reason=disks.needs_mounts())
@pytest.mark.parametrize("pod", ["prime-rl"], indirect=True)
def test_a_full_disk_is_said_before_anything_is_fetched(pod: NewPod) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(pod.cwd)], check=True)
    try:
        before = pod.fetched()
        refused = pod.plan()["refused"]
        assert "Free space there" in refused
        assert pod.fetched() - before <= 4, "pointer, manifests and config only"
        assert list(pod.cwd.iterdir()) == []
        subprocess.run(["mount", "-o", "remount,size=80m", str(pod.cwd)], check=True)
        plan = pod.plan()
        # The room that the plan saw has gone before the restore.
        ballast, before = disks.fill(pod.cwd, disks.MIB), pod.fetched()
        word, sentence = outcome(pod, plan)
        assert (word, "Free space there" in sentence) == ("refused", True), sentence
        assert pod.fetched() == before
        ballast.unlink()
        assert pod.restore()["event"] == "done"
    finally:
        subprocess.run(["umount", "-l", str(pod.cwd)], check=True)


@pytest.mark.parametrize("pod", ["prime-rl"], indirect=True)
def test_the_trainers_own_part_is_put_last(pod: NewPod) -> None:
    spec, where = placed(pod)
    assert (
        where.directories[-1].final.parent
        == registry.get(spec.trainer).layout(spec).trainer_checkpoints
    )


@pytest.mark.parametrize("pod", ["prime-rl"], indirect=True)
def test_a_place_that_no_rename_reaches_is_said_when_the_plan_is_made(
    pod: NewPod, other_mount: Path
) -> None:
    spec, _ = placed(pod)
    checkpoints = registry.get(spec.trainer).layout(spec).trainer_checkpoints
    checkpoints.mkdir(parents=True)
    subprocess.run(["mount", "--bind", str(other_mount), str(checkpoints)], check=True)
    try:
        with pytest.raises(Refused, match=f"{checkpoints} is on another filesystem than"):
            placed(pod)
    finally:
        subprocess.run(["umount", str(checkpoints)], check=True)


def placed(pod: NewPod) -> tuple[LaunchSpec, place.Placement]:
    """Return the run that a restore to this pod would resume, and where each file would go."""
    asked = RestoreRequest.read(
        pod.body()["restore"] | {"trainer": pod.lost.trainer, "config": str(pod.lost.config_path)}
    )
    spec = LaunchSpec(
        run="demo",
        trainer=pod.lost.trainer,
        config=pod.lost.config_path,
        cwd=pod.cwd,
        output_dir=pod.out,
    )
    found = find(pod.store, asked.source, asked.run).chosen
    assert found is not None
    return spec, place.placement(registry.get(spec.trainer), spec, found)


@pytest.mark.parametrize("pod", ["prime-rl-2026-01"], indirect=True)
def test_a_store_that_breaks_off_is_tried_again_and_only_for_what_is_missing(
    pod: NewPod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bs4_agent.checkpoints.restoring.restore.PAUSE_S", 0.05)
    plan = pod.plan()
    pod.server.faults.add(Fault("drop", call="b2_download_file_by_name", skip=2, times=1, after=3))
    end = pod.restore(plan)
    assert end["event"] == "done", end
    assert tree(pod.out) == lost(pod, 20)


@pytest.mark.parametrize("pod", ["prime-rl"], indirect=True)
def test_interrupted_by_a_key_that_is_withdrawn_and_repeated(pod: NewPod) -> None:
    plan = pod.plan()
    good = credentials.stored("b2", pod.home)
    assert good is not None
    credentials.store("b2", {"key_id": "0" * 24, "key": "K" * 31}, pod.home)
    end = pod.restore(plan)
    assert (end["event"], "refuses this key" in end["detail"]) == ("failed", True)
    assert not list(pod.out.rglob("step_20"))
    credentials.store("b2", good, pod.home)
    assert pod.restore()["event"] == "done"


def test_a_seed_layout_whose_other_half_was_never_saved_is_no_checkpoint(
    pod: NewPod, tmp_path: Path
) -> None:
    """1.5, 1.7: RUN/step_N holds the trainer's part alone; a resume from it is refused by name
    instead of tried.
    """
    shard = tmp_path / "shard"
    shard.write_bytes(b"x" * 100)
    sha1 = hashlib.sha1(shard.read_bytes(), usedforsecurity=False).hexdigest()
    for name in ("step_40/trainer/__0_0.distcp", "step_40/trainer/.metadata", "config.toml"):
        pod.store.upload(shard, f"lab/seed/{name}", sha1)
    pod.store.write(
        "lab/seed/latest.json",
        b'{"step": "step_40", "run_id": "seed", "wandb_run_id": "w", "timestamp": '
        b'"2026-01-05T10:00:00Z"}',
    )
    refused = pod.plan(run="seed", trainer=pod.lost.trainer)["refused"]
    assert "has no orchestrator" in refused
    # its directory holds both halves, so a copy of it is the whole step
    if pod.lost.trainer == "prime-rl":
        assert "say it with --trainer" in pod.plan(run="seed")["refused"]
        pod.store.upload(shard, "lab/seed/step_40/orchestrator/progress.pt", sha1)
        pod.store.write("lab/seed/config.toml", TOML.encode())
        end = pod.restore(pod.plan(run="seed", trainer="prime-rl"))
        assert end["event"] == "done", end
        assert (pod.out / "seed/checkpoints/step_40/trainer/.metadata").exists()


@pytest.mark.parametrize("pod", ["prime-rl"], indirect=True)
def test_the_store_is_only_read(pod: NewPod) -> None:
    before = [(e.name, e.version) for e in pod.store.entries("")]
    key = pod.server.key("listFiles", "readFiles", "listBuckets")
    credentials.store("b2", {"key_id": key.id, "key": key.secret}, pod.home)
    assert pod.restore()["event"] == "done"
    assert [(e.name, e.version) for e in pod.store.entries("")] == before
    assert isinstance(pod.store, B2Store)


@pytest.mark.parametrize("pod", ["prime-rl-2026-01"], indirect=True)
@pytest.mark.parametrize("died", ["accepted", "fetched", "half placed"])
def test_an_agent_that_died_on_the_way_is_finished_by_the_next(
    pod: NewPod, monkeypatch: pytest.MonkeyPatch, died: str
) -> None:
    plan = pod.plan()
    monkeypatch.setattr(pod.actions.executor, "start", lambda *_: None)
    key = pod.begin(plan)
    if died != "accepted":
        restoring = pod.actions.kinds.restoring
        prepared = restoring.of(plan["plan"]["steps"][0]["parameters"])
        restoring.fetch(prepared, key, lambda text: None)
        if died == "half placed":
            half = dataclasses.replace(prepared.where, directories=prepared.where.directories[:1])
            place.put(half, lambda path: path)
            assert complete(pod) == [], "half a set is no checkpoint"
    fetched = pod.fetched()
    pod.restart()
    end = pod.ended(key)
    assert end["event"] == "done", end
    assert tree(pod.out) == lost(pod, 20)
    if died != "accepted":
        assert pod.fetched() == fetched, "what was there was not fetched again"


@pytest.mark.parametrize("pod", ["prime-rl-2026-01"], indirect=True)
def test_a_killed_worker_is_started_again_for_what_is_missing(
    pod: NewPod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bs4_agent.checkpoints.restoring.restore.PAUSE_S", 0.05)
    plan = pod.plan()
    reached = threading.Event()
    pod.server.faults.add(
        Fault("stop", call="b2_download_file_by_name", name=".distcp", on=reached.set)
    )
    pod.server.faults.add(
        Fault("hang", call="b2_download_file_by_name", name=".distcp", seconds=30)
    )
    key = pod.begin(plan)
    job = pod.home.setup / "1"
    assert reached.wait(60)
    shim = json.loads((job / "shim.json").read_text())
    assert Identity.from_dict(shim["launcher"]).send(signal.SIGKILL)
    end = pod.ended(key)
    assert end["event"] == "done", end
    assert tree(pod.out) == lost(pod, 20)
    assert sorted(p.name for p in pod.home.setup.iterdir()) == ["1", "2"]
