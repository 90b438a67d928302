"""The witness counts what is gone and reads what was trained."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from bs4_practice import witness

LINE = (
    "[default0]:\x1b[2m{clock}\x1b[0m \x1b[32m\x1b[1mSUCCESS\x1b[0m \x1b[32m\x1b[1m\x1b[22mStep "
    "{step} | Time: 1.00s | {rest}\n"
)
REST = (
    "Loss: 0.0012 | Entropy: 0.4 | Mismatch KL: 0.0007 | Grad. Norm: 0.1 | LR: 3.00e-06 | "
    "Throughput: 0 tokens/s | MFU: 0.0% | Peak Mem.: 41.2 GiB\x1b[0m"
)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_moved_and_grown_files_are_not_lost_deleted_and_changed_ones_are(tmp_path: Path) -> None:
    run, trash = tmp_path / "run", tmp_path / ".bs4"
    moved, grown = write(run / "a" / "moved", "one"), write(run / "log", "first line\n")
    deleted, changed = write(run / "deleted", "two"), write(run / "changed", "three")
    write(run / "empty", "")
    before = witness.Snapshot.take([run])
    trash.mkdir()
    moved.rename(trash / "elsewhere")
    grown.write_text("first line\nsecond line\n")
    assert witness.lost(before, [run, trash]) == 0
    deleted.unlink()
    changed.write_text("Three")
    assert witness.lost(before, [run, trash]) == 2
    assert sorted(witness.lost_files(before, [run, trash])) == [str(changed), str(deleted)]
    assert witness.lost(before, [run]) == 3  # where nobody looks, it is nowhere


def test_a_directory_that_cannot_be_listed_is_no_loss_but_an_error(tmp_path: Path) -> None:
    before = witness.Snapshot.take([tmp_path / "absent"])
    assert before.files == ()
    with pytest.raises(NotADirectoryError):
        witness.Snapshot.take([write(tmp_path / "file", "x")])


def test_a_truncated_file_is_lost_and_ignored_ones_never_are(tmp_path: Path) -> None:
    write(tmp_path / "checkpoints" / "shard", "x" * 100)
    write(tmp_path / "rollouts" / "step_1" / "rollouts.bin", "y")
    before = witness.Snapshot.take([tmp_path], ignore=["*/rollouts/*"])
    (tmp_path / "rollouts" / "step_1" / "rollouts.bin").unlink()
    assert witness.lost(before, [tmp_path]) == 0
    write(tmp_path / "checkpoints" / "shard", "x" * 99)
    assert witness.lost(before, [tmp_path]) == 1


def test_steps_of_2026_01_across_attempts_archives_and_midnight(tmp_path: Path) -> None:
    out = tmp_path / "outputs"
    first = write(
        out / "torchrun" / "one_1" / "attempt_0" / "0" / "stdout.log",
        step_lines(("23:59:58", 0), ("23:59:59", 1), ("00:00:01", 2)),
    )
    midnight = time.mktime((2026, 11, 20, 0, 0, 0, 0, 0, -1))
    os.utime(first, (midnight + 2, midnight + 2))
    archived = tmp_path / ".bs4" / "run" / "logs" / "1" / "trainer.stdout"
    archived.parent.mkdir(parents=True)
    os.link(first, archived)
    second = write(tmp_path / ".bs4" / "run" / "trash" / "stdout.log", step_lines(("00:01:00", 2)))
    os.utime(second, (midnight + 61, midnight + 61))
    expected = [(midnight - 2, 0), (midnight - 1, 1), (midnight + 1, 2), (midnight + 60, 2)]
    assert witness.steps(out, "2026-01") == expected
    assert witness.last_step(out, "2026-01") == 2


def step_lines(*steps: tuple[str, int]) -> str:
    other = (
        "[default0]:00:00:00    INFO Saving checkpoint at step 7\n21:36:59 SUCCESS Step 9 | "
        "Time: 4.50s | Reward: 0.3 | Throughput: 1\n"
    )
    return other + "".join(LINE.format(clock=clock, step=step, rest=REST) for clock, step in steps)


def test_steps_of_the_current_generation(tmp_path: Path) -> None:
    rows = (
        '{"step": 1, "time": 10.5, "perf/throughput": 1.0}\n{"step": 1, "time": 10.6, '
        '"optim/lr": 1.0}\n{"step": 2, "time": 11.5, "perf/thr'
    )
    write(tmp_path / "outputs" / "run" / "metrics.jsonl", rows)
    write(
        tmp_path / ".bs4" / "run" / "trash" / "metrics.jsonl",
        '{"step": 7, "time": 3.0, "perf/throughput": 1.0}\n',
    )
    assert witness.steps(tmp_path / "outputs", "current") == [(3.0, 7), (10.5, 1)]
    assert witness.steps(tmp_path / "outputs" / "run", "current", "run") == [(3.0, 7), (10.5, 1)]
    assert witness.steps(tmp_path / "outputs" / "run", "current", "other") == [(10.5, 1)]
    assert witness.last_step(tmp_path / "no" / "such" / "outputs", "current") is None


BATCH = (
    "{clock} SUCCESS Step {step} | Time: 4.50s | Reward: 0.3 | Throughput: {tokens} tokens/s | "
    "Seq. Length: 74.0 tokens/sample | Async Level: {level} | Max. Off-Policy Level: 0\n"
)
AT = time.mktime((2026, 11, 20, 10, 0, 0, 0, 0, -1))


def trainer_lines(*steps: tuple[int, int]) -> str:
    """Lines of (step, throughput), one a second from 10:00:00 on."""
    rest = "Loss: 0.0012 | LR: 3.00e-06 | Throughput: {} tokens/s | MFU: 0.0% | Peak Mem.: 41.2 GiB"
    return "".join(
        LINE.format(clock=f"10:00:0{n}", step=step, rest=rest.format(tokens))
        for n, (step, tokens) in enumerate(steps)
    )


def old_run(root: Path, trainer: str, orchestrator: str) -> Path:
    for name, text in (("trainer.stdout", trainer), ("orchestrator.stdout", orchestrator)):
        path = write(root / "outputs" / "logs" / name, text)
        os.utime(path, (AT + 20, AT + 20))
    return root / "outputs"


def test_steps_of_2026_01_count_with_tokens_and_taken_weights_only(tmp_path: Path) -> None:
    batches = [
        (5, "3116.4", 1, 0),
        (6, "3116.4", 1, 0),
        (7, "3116.4", 1, 1),
        (8, "54.1", 2, 3),
        (9, "0.0", 3, 9),
    ]
    orchestrator = "".join(
        BATCH.format(clock=f"10:00:0{at}", step=step, tokens=tokens, level=level)
        for step, tokens, level, at in batches
    )
    # Step 5 is the first of its process; of 6 and of what was trained after the death of the engine
    # nobody took the weights.
    out = old_run(tmp_path, trainer_lines((5, 0), (6, 13342), (7, 13342), (8, 1078)), orchestrator)
    assert [step for _, step in witness.steps(out, "2026-01")] == [5, 6, 7, 8]
    assert witness.trained_steps(out, "2026-01") == [(AT, 5)]


def test_steps_of_2026_01_without_throughput_or_batch_do_not_count(tmp_path: Path) -> None:
    batches = [(5, "3116.4", 1, 0), (6, "0.0", 1, 0), (7, "3116.4", 1, 1), (9, "3116.4", 1, 3)]
    orchestrator = "".join(
        BATCH.format(clock=f"10:00:0{at}", step=step, tokens=tokens, level=level)
        for step, tokens, level, at in batches
    )
    out = old_run(tmp_path, trainer_lines((5, 0), (6, 13342), (7, 0), (8, 13342)), orchestrator)
    assert [step for _, step in witness.trained_steps(out, "2026-01")] == [5]


def test_steps_of_the_current_generation_count_with_taken_weights_only(tmp_path: Path) -> None:
    rows = [{"step": step, "time": 10.0 + step, "perf/throughput": 1.0} for step in (1, 2, 3)]
    rows += [
        {"step": step, "time": 9.5 + step, "progress/tokens": 600, "off_policy/max": 1.0}
        for step in (1, 2, 3, 4)
    ]
    write(
        tmp_path / "outputs" / "run" / "metrics.jsonl",
        "".join(json.dumps(row) + "\n" for row in rows),
    )
    assert [step for _, step in witness.steps(tmp_path / "outputs", "current")] == [1, 2, 3]
    assert [step for _, step in witness.trained_steps(tmp_path / "outputs", "current")] == [1, 2]
