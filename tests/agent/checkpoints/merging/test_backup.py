"""A step is copied beside its target, read back, and put in its place by one rename; an existing
backup is never replaced.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bs4_agent.checkpoints.merging import merge, worker
from bs4_agent.checkpoints.merging.backup import BackingUp
from bs4_agent.checkpoints.merging.merge import MergeRequest
from bs4_common.errors import PlanChanged, Refused, StepFailed
from tests.agent.checkpoints import trees
from tests.agent.checkpoints.merging.merge_pod import MergePod


@pytest.fixture
def pod(no_process_left: None) -> Iterator[MergePod]:
    with tempfile.TemporaryDirectory(prefix="bs4-") as short:
        made = MergePod(Path(short).resolve())
        yield made
        made.close()


def backing_up(pod: MergePod) -> BackingUp:
    return BackingUp(pod.home, pod.runs, None)  # type: ignore[arg-type]


def content(directory: Path) -> dict[str, bytes]:
    """The bytes of every file, by its name from the directory."""
    found = {}
    for path in directory.rglob("*"):
        if path.is_file():
            found[str(path.relative_to(directory))] = path.read_bytes()
    return found


def test_a_step_is_copied_whole_and_its_digests_prove_it(pod: MergePod) -> None:
    pod.save(5)
    step = pod.save(220).parent
    before = content(pod.checkpoints)
    record = pod.plan("backup", step=220)
    plan, target = record["plan"], pod.project / "checkpoints_backup" / "demo" / "global_step_220"
    assert (plan["title"], plan["target"]) == (
        f"Back up step 220 of demo into {target}",
        str(target),
    )
    assert plan["needed"] == sum(map(len, content(step).values()))
    assert "on the disk of the checkpoints" in plan["notes"][0]
    assert not target.parent.exists(), "a plan writes nothing"
    end = pod.merge(record)
    assert (end["event"], end["detail"]) == ("done", f"step 220 is copied to {target}"), end
    copied = content(target)
    sums = copied.pop(worker.SUMS).decode()
    assert json.loads(copied.pop("bs4-backup.json"))["step"] == 220
    assert copied == content(step)
    assert sums == "".join(
        f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(copied.items())
    )
    assert subprocess.run(["sha256sum", "-c", "--quiet", worker.SUMS], cwd=target).returncode == 0
    assert content(pod.checkpoints) == before
    assert not list(target.parent.glob(".*")), "nothing is left beside it"
    assert {a.kind for a in pod.book.ledger.actions.values()} == {"plan", "backup"}


def test_a_backup_is_never_replaced(pod: MergePod) -> None:
    pod.save(5)
    target = Path(pod.merge(pod.plan("backup"))["result"]["target"])
    before = content(target)
    assert "is there already" in pod.plan("backup")["refused"]
    other = Path(pod.merge(pod.plan("backup", target="other/place"))["result"]["target"])
    assert other == pod.project / "other" / "place"
    assert content(target) == before


def test_a_torn_step_and_too_little_space_are_refused(
    pod: MergePod, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = pod.save(5) / "model_world_size_2_rank_1.pt"
    monkeypatch.setattr(merge.fetch, "free_bytes", lambda path: merge.fetch.MARGIN)
    assert "Free space there" in pod.plan("backup")["refused"]
    os.truncate(file, file.stat().st_size // 2)
    assert "torn" in pod.plan("backup", step=5)["refused"]
    assert not (pod.project / "checkpoints_backup").exists()


def test_a_step_that_changes_after_its_plan_is_not_copied(pod: MergePod) -> None:
    actor = pod.save(5)
    plan = pod.plan("backup")
    os.utime(actor / "model_world_size_2_rank_0.pt")
    with pytest.raises(PlanChanged, match="look at the new plan"):
        pod.begin(plan)


def test_a_link_in_a_step_is_refused(pod: MergePod, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("x")
    (pod.save(5) / "link").symlink_to(tmp_path / "elsewhere")
    assert "cannot be copied whole" in pod.plan("backup")["refused"]


def test_a_file_that_changes_while_it_is_copied_leaves_no_backup(tmp_path: Path) -> None:
    source, staging = tmp_path / "step", tmp_path / ".step.copying"
    source.mkdir()
    staging.mkdir()
    (source / "a.pt").write_bytes(b"12345")
    with pytest.raises(PlanChanged, match="has changed meanwhile"):
        worker._copy({"a.pt": [4, 0]}, source, staging / worker.MODEL)


def test_a_copy_that_is_spoilt_before_it_is_placed_is_not_placed(pod: MergePod) -> None:
    pod.save(5)
    backup = backing_up(pod)
    prepared = backup.find(MergeRequest("demo"))
    made = prepared.staging / worker.MODEL
    made.mkdir(parents=True)
    with pytest.raises(StepFailed, match="is not whole any more"):
        backup.place(prepared, "key")
    assert not prepared.target.exists()


def test_the_parts_of_a_step_keep_their_places_where_there_are_several(pod: MergePod) -> None:
    """2026-01 spreads a step over directories, and a resume wants each in its own."""
    spec = dataclasses.replace(trees.old_run(pod.root), run="old")
    pod.runs.register(spec)
    trees.old_step(spec, 10)
    trees.old_weights(spec, 10)
    prepared = backing_up(pod).find(MergeRequest("old"))
    assert prepared.source == spec.output_dir
    assert prepared.target == pod.root / "checkpoints_backup" / "old" / "step_10"
    assert {name.rpartition("/")[0] for name in prepared.files} == {
        "checkpoints/step_10/trainer",
        "run_default/checkpoints/step_10/orchestrator",
        "run_default/checkpoints/step_10/orchestrator/buffer",
        "run_default/broadcasts/step_10",
        "weights/step_10",
    }
    worker._copy(prepared.files, prepared.source, pod.root / "copy")
    copied = content(pod.root / "copy")
    del copied[worker.SUMS]
    assert copied == {name: (spec.output_dir / name).read_bytes() for name in prepared.files}


def test_parts_outside_the_output_directory_are_refused(pod: MergePod, tmp_path: Path) -> None:
    spec = dataclasses.replace(trees.old_run(pod.root), run="old")
    pod.runs.register(spec)
    trees.old_step(spec, 10)
    (spec.output_dir / "checkpoints").rename(tmp_path / "moved")
    (spec.output_dir / "checkpoints").symlink_to(tmp_path / "moved")
    with pytest.raises(Refused, match="lies outside"):
        backing_up(pod).find(MergeRequest("old"))
