"""All that belongs to a step, in both layouts."""

from __future__ import annotations

from pathlib import Path

from bs4_common.checkpoints.sets import complete_sets, step_sets, verify
from tests.agent.checkpoints.trees import (
    NEW,
    OLD,
    new_run,
    new_step,
    old_broadcast,
    old_orchestrator,
    old_run,
    old_step,
    old_trainer,
    old_weights,
    put,
    weights,
)


def test_a_step_of_2026_01_has_four_directories(tmp_path: Path) -> None:
    spec = old_run(tmp_path)
    old_step(spec, 5)
    old_weights(spec, 5)
    [one] = step_sets(OLD, spec)
    assert one.complete
    assert set(one.parts) == {"trainer", "orchestrator", "broadcast", "weights"}
    assert {str(path.relative_to(spec.output_dir)) for path in one.directories} == {
        "checkpoints/step_5",
        "run_default/checkpoints/step_5",
        "run_default/broadcasts/step_5",
        "weights/step_5",
    }
    assert (
        one.bytes
        == sum(part.bytes for part in one.parts.values())
        == 100 + 10 + 7 + len(weights()) + len(weights(200))
    )


def test_broadcasts_of_the_current_generation_are_seen_and_not_needed(tmp_path: Path) -> None:
    spec = new_run(tmp_path)
    new_step(spec, 10)
    broadcast = spec.output_dir / "demo/broadcasts/step_10"
    put(broadcast / "STABLE", 0)
    put(spec.output_dir / "demo/broadcasts/step_12/STABLE", 0)
    sets = step_sets(NEW, spec)
    assert [(one.step, one.complete, one.checkpoint) for one in sets] == [
        (10, True, True),
        (12, False, False),
    ]
    assert broadcast in sets[0].directories
    assert sets[0].parts["broadcast"].why == "no weights"
    assert verify(sets[0]) == "", "nobody resumes from it"


def test_reasons_are_told(tmp_path: Path) -> None:
    spec = old_run(tmp_path)
    old_trainer(spec, 5)
    part = old_orchestrator(spec, 5)
    (part / "buffer/rollout_buffer.jsonl").unlink()
    [one] = step_sets(OLD, spec)
    assert one.missing == {
        "orchestrator": "no buffer/rollout_buffer.jsonl",
        "broadcast": "not there",
    }
    assert verify(one) == "orchestrator: no buffer/rollout_buffer.jsonl"


def test_verifying_looks_at_the_disk_again(tmp_path: Path) -> None:
    spec = old_run(tmp_path)
    old_step(spec, 5)
    [one] = step_sets(OLD, spec)
    assert verify(one) == ""
    (old_broadcast(spec, 5) / "model.safetensors").write_bytes(weights()[:-1])
    assert verify(one).startswith("broadcast: model.safetensors has")
    put(spec.output_dir / "checkpoints/step_5/trainer/__0_0.distcp", 0)
    assert verify(one) == "trainer: __0_0.distcp is empty"


def test_newest_first_by_number_and_not_by_text(tmp_path: Path) -> None:
    """`sort -t_ -k2` on a path with an underscore put step_5 before step_100 and deleted the
    newest.
    """
    spec = old_run(
        tmp_path / "my_run_dir" if (tmp_path / "my_run_dir").mkdir() is None else tmp_path
    )
    for step in (5, 20, 100):
        old_step(spec, step)
    assert [one.step for one in complete_sets(step_sets(OLD, spec))] == [100, 20, 5]
