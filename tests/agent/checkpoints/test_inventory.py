"""Completeness on real directory trees."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bs4_common.checkpoints import inventory as module
from bs4_common.checkpoints.inventory import (
    inventory,
    newest_resumable,
    scan,
    size_of,
    step_directories,
)
from bs4_common.trainers.base import Checkpoint
from tests.agent.checkpoints.trees import (
    NEW,
    OLD,
    new_run,
    old_orchestrator,
    old_run,
    old_step,
    old_trainer,
    put,
    weights,
)


def only(checkpoints: list[Checkpoint]) -> Checkpoint:
    [checkpoint] = checkpoints
    return checkpoint


def above(checkpoints: list[Checkpoint], step: int) -> dict[str, list[Path]]:
    """Return the step directories above `step` by the part that they are listed under."""
    found: dict[str, list[Path]] = {}
    for checkpoint in checkpoints:
        if checkpoint.step > step:
            for part, directory in checkpoint.directories.items():
                found.setdefault(part, []).append(directory)
    return found


def test_nothing_is_there_before_the_first_checkpoint(tmp_path: Path) -> None:
    assert inventory(OLD, old_run(tmp_path)) == []
    assert newest_resumable([]) is None


def test_2026_01_is_complete_with_all_three(tmp_path: Path) -> None:
    spec = old_run(tmp_path)
    old_step(spec, 0)
    checkpoint = only(inventory(OLD, spec))
    assert (checkpoint.step, checkpoint.complete, list(checkpoint.missing)) == (0, True, [])
    assert checkpoint.bytes == 100 + 10 + 7 + len(weights())
    assert set(checkpoint.parts) == {"trainer", "orchestrator", "broadcast"}
    stable = spec.output_dir / "run_default/broadcasts/step_0/STABLE"
    assert checkpoint.newest_mtime == pytest.approx(stable.stat().st_mtime)
    assert newest_resumable([checkpoint]) == checkpoint


@pytest.mark.parametrize(
    ("gone", "missing"),
    [
        ("checkpoints/step_5/trainer/.metadata", "trainer"),
        ("run_default/checkpoints/step_5/orchestrator/progress.pt", "orchestrator"),
        ("run_default/checkpoints/step_5/orchestrator/buffer/rollout_buffer.jsonl", "orchestrator"),
        ("run_default/broadcasts/step_5/STABLE", "broadcast"),
    ],
)
def test_2026_01_each_writers_last_file_counts(tmp_path: Path, gone: str, missing: str) -> None:
    spec = old_run(tmp_path)
    old_step(spec, 5)
    assert only(inventory(OLD, spec)).complete
    (spec.output_dir / gone).unlink()
    checkpoint = only(inventory(OLD, spec))
    assert not checkpoint.complete
    assert list(checkpoint.missing) == [missing]
    assert newest_resumable([checkpoint]) is None


def test_2026_01_a_side_that_is_not_there_at_all(tmp_path: Path) -> None:
    spec = old_run(tmp_path)
    old_orchestrator(spec, 40)
    checkpoint = only(inventory(OLD, spec))
    assert list(checkpoint.missing) == ["trainer", "broadcast"]
    assert set(checkpoint.parts) == {"orchestrator"}


def test_2026_01_nccl_and_skip_buffer_need_less(tmp_path: Path) -> None:
    spec = old_run(tmp_path)
    old_trainer(spec, 5)
    part = old_orchestrator(spec, 5)
    assert not only(inventory(OLD, spec)).complete
    assert only(inventory(OLD, old_run(tmp_path, '[weight_broadcast]\ntype = "nccl"'))).complete
    (part / "buffer/rollout_buffer.jsonl").unlink()
    config = '[weight_broadcast]\ntype = "nccl"\n[orchestrator.ckpt]\nskip_buffer = '
    assert not only(inventory(OLD, old_run(tmp_path, config + "false"))).complete
    assert only(inventory(OLD, old_run(tmp_path, config + "true"))).complete


def test_the_desync_tree_of_the_corpus(tmp_path: Path) -> None:
    """Leftovers without content, as measured: the trainer starts at 40 for them, so they must be
    seen and be movable.
    """
    spec = old_run(tmp_path)
    for step in (20, 40):
        (spec.output_dir / f"run_default/checkpoints/step_{step}/orchestrator").mkdir(parents=True)
    old_step(spec, 20)
    found = inventory(OLD, spec)
    assert [(c.step, c.complete) for c in found] == [(20, True), (40, False)]
    best = newest_resumable(found)
    assert best is not None
    assert best.step == 20
    assert above(found, 20) == {
        "orchestrator": [spec.output_dir / "run_default/checkpoints/step_40"]
    }


def test_above_lists_every_part_once_and_keeps_the_step_itself(tmp_path: Path) -> None:
    spec = old_run(tmp_path)
    for step in (9, 10, 11):
        old_step(spec, step)
    put(spec.output_dir / "weights/step_11/model.safetensors")
    (spec.output_dir / "run_default/checkpoints/step_100").mkdir()
    out = spec.output_dir
    assert above(inventory(OLD, spec), 10) == {
        "trainer": [out / "checkpoints/step_11"],
        "orchestrator": [
            out / "run_default/checkpoints/step_11",
            out / "run_default/checkpoints/step_100",
        ],
        "broadcast": [out / "run_default/broadcasts/step_11"],
        "weights": [out / "weights/step_11"],
    }


def test_the_current_flat_layout_has_one_directory_for_both_halves(tmp_path: Path) -> None:
    spec = new_run(tmp_path)
    root = spec.output_dir / "demo/checkpoints"
    for step in (10, 20):
        put(root / f"step_{step}/trainer/__0_0.distcp", 1)
        put(root / f"step_{step}/trainer/.metadata", 3)
        put(root / f"step_{step}/orchestrator/progress.pt", 5)
    put(root / "step_37/orchestrator/progress.pt", 6)
    put(root / "step_38/orchestrator/progress.pt.abc.tmp")
    found = inventory(NEW, spec)
    assert [(c.step, c.complete, list(c.missing), c.bytes) for c in found] == [
        (10, True, [], 9),
        (20, True, [], 9),
        (37, False, ["trainer"], 6),
        (38, False, ["trainer", "orchestrator"], 3),
    ]
    assert above(found, 20) == {"trainer": [root / "step_37", root / "step_38"]}


def test_the_current_split_layout(tmp_path: Path) -> None:
    big = tmp_path / "big"
    spec = new_run(tmp_path, f'[ckpt]\noutput_dir = "{big}"')
    for step in (10, 20):
        put(big / f"checkpoints/step_{step}/trainer/__0_0.distcp")
        put(big / f"checkpoints/step_{step}/trainer/.metadata")
    put(spec.output_dir / "demo/checkpoints/step_10/orchestrator/progress.pt")
    put(spec.output_dir / "demo/checkpoints/step_30/orchestrator/progress.pt")
    found = inventory(NEW, spec)
    assert [(c.step, list(c.missing)) for c in found] == [
        (10, []),
        (20, ["orchestrator"]),
        (30, ["trainer"]),
    ]
    assert above(found, 10) == {
        "trainer": [big / "checkpoints/step_20"],
        "orchestrator": [spec.output_dir / "demo/checkpoints/step_30"],
    }


def test_only_step_directories_count(tmp_path: Path) -> None:
    for name in ("step_5", "step_x", "step_5.tmp", "astep_6", "step_-1", "step_"):
        (tmp_path / "root" / name).mkdir(parents=True)
    put(tmp_path / "root/step_7")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "root/step_8").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "root/step_9").symlink_to(tmp_path / "nowhere")
    assert sorted(step_directories(tmp_path / "root")) == [5, 8]
    assert step_directories(tmp_path / "missing") == {}
    assert step_directories(tmp_path / "root/step_7") == {}


def test_sizes_do_not_follow_links_out(tmp_path: Path) -> None:
    put(tmp_path / "huge/file", 5000)
    put(tmp_path / "ckpt/a/b", 10)
    (tmp_path / "ckpt/link").symlink_to(tmp_path / "huge")
    (tmp_path / "ckpt/file").symlink_to(tmp_path / "huge/file")
    links = sum(len(str(tmp_path / name)) for name in ("huge", "huge/file"))
    assert size_of(tmp_path / "ckpt")[0] == 10 + links
    assert size_of(tmp_path / "missing") == (0, 0.0)


def test_finished_checkpoints_are_walked_once_and_growing_ones_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked: list[Path] = []

    def walk(path: Path) -> tuple[int, float]:
        walked.append(path)
        return size_of(path)

    monkeypatch.setattr(module, "size_of", walk)
    spec = new_run(tmp_path)
    root = spec.output_dir / "demo/checkpoints"
    put(root / "step_10/trainer/.metadata", 2)
    put(root / "step_10/trainer/__0_0.distcp", 1)
    put(root / "step_10/orchestrator/progress.pt")
    put(root / "step_20/trainer/__0_0.distcp", 10)
    for path in root.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    inventory(NEW, spec)
    walked.clear()
    put(root / "step_20/trainer/__0_0.distcp", 25)
    assert [c.bytes for c in inventory(NEW, spec)] == [6, 25]
    assert walked == [root / "step_20/trainer"]
    # A marker that goes is seen at once, whatever is remembered of the size.
    (root / "step_10/trainer/.metadata").unlink()
    assert not inventory(NEW, spec)[0].complete


def test_a_marker_just_written_does_not_freeze_the_size(tmp_path: Path) -> None:
    spec = new_run(tmp_path)
    part = spec.output_dir / "demo/checkpoints/step_10/trainer"
    put(part / "sub/a", 5)
    put(part / ".metadata", 1)
    assert only(inventory(NEW, spec)).bytes == 6
    put(part / "sub/a", 500)  # does not touch the part's own mtime
    assert only(inventory(NEW, spec)).bytes == 501


def test_trainers_list_the_same(tmp_path: Path) -> None:
    spec = old_run(tmp_path)
    old_step(spec, 3)
    assert OLD.checkpoints(spec) == inventory(OLD, spec) == scan(OLD.parts(spec))
