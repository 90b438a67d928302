"""diagnose on what verl leaves: its driver's output, its file logger, its directory."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bs4_common.failures.compiled import Playbook
from bs4_common.failures.matcher import Rules
from bs4_console.checkpoints.listing import of_directory
from bs4_console.checks import diagnose as checked
from bs4_console.checks.diagnose import assuming, diagnose
from bs4_console.logs.sources import Wrote, by_content

ESC = "\x1b[36m(TaskRunner pid=22370)\x1b[0m"
GOOD = (
    " - critic/score/mean:0.25 - actor/pg_loss:-0.01 - actor/grad_norm:np.float64(0.15) - "
    "actor/lr:np.float64(1e-06) - timing_s/step:97.1"
)


def steps(first: int, last: int, rest: str = GOOD) -> str:
    return "".join(f"{ESC} step:{n}{rest}\n" for n in range(first, last + 1))


def log(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "2026-01-07 10:00:00,123\tINFO worker.py:1918 -- Started a local Ray instance.\n"
        f"{ESC} Total training steps: 40\n{text}"
    )
    return path


def rows(path: Path, *data: dict[str, Any], first: int = 1) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(
            json.dumps({"step": n, "data": row}, separators=(",", ":")) + "\n"
            for n, row in enumerate(data, first)
        )
    )
    return path


def ids(*paths: Path) -> list[str]:
    return [finding["id"] for finding in diagnose(paths)["findings"]]


@pytest.mark.parametrize("name", ["training.log", "verl_demo.log", "train.log", "nohup.out"])
def test_a_nan_in_any_metric_is_found_with_its_line(tmp_path: Path, name: str) -> None:
    text = (
        steps(1, 4) + f"{ESC} step:5 - critic/score/mean:nan - actor/grad_norm:0.2\n" + steps(6, 6)
    )
    path = log(tmp_path / name, text)
    [finding] = diagnose([path])["findings"]
    assert (finding["id"], finding["source"]) == ("nan-loss", "trainer")
    assert finding["summary"] == "critic/score/mean of step 5 is NaN."
    data = path.read_bytes()
    assert data[finding["evidence"][0]["offset"] :].startswith(f"{ESC} step:5 ".encode())
    assert (
        data[: finding["evidence"][0]["offset"]].count(b"\n") == finding["evidence"][0]["line"] - 1
    )


def test_a_healthy_log_is_silent(tmp_path: Path) -> None:
    """An infinity of another number than loss and gradient is an empty group's minimum."""
    path = log(
        tmp_path / "verl_demo.log", steps(1, 30, GOOD + " - response_length_non_aborted/min:inf")
    )
    found = diagnose([path])
    assert found["findings"] == []
    assert not [phrase for phrase in found["coverage"] if "orchestrator" in phrase]


def test_late_lines_below_the_traceback_are_steps_all_the_same(tmp_path: Path) -> None:
    text = steps(1, 2) + (
        "Error executing job with overrides: ['trainer.save_freq=5']\nTraceback (most recent "
        "call last):\n"
        "ray.exceptions.RayTaskError(ActorDiedError): ray::TaskRunner.run() (pid=22370, "
        "ip=10.0.0.7)\n"
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
    )
    assert ids(log(tmp_path / "verl_demo.log", text + steps(3, 3))) == ["ray-worker-died"]


def test_the_file_loggers_null_is_the_alarm(tmp_path: Path) -> None:
    path = rows(
        tmp_path / "metrics.1.jsonl",
        {"actor/grad_norm": 0.1},
        {"actor/grad_norm": None},
        {"actor/grad_norm": 0.1},
    )
    [finding] = diagnose([path])["findings"]
    assert (finding["id"], finding["evidence"][0]["line"]) == ("nan-loss", 2)


def run(tmp_path: Path, tracker: str = "20") -> Path:
    """The directory of a run with two steps, of which verl came to the end of one, and a file for
    each attempt.
    """
    place = tmp_path / "demo"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", b"x")
    for step in (20, 40):
        directory = place / f"checkpoints/global_step_{step}"
        (directory / "actor").mkdir(parents=True)
        for kind in ("model", "optim", "extra_state"):
            (directory / f"actor/{kind}_world_size_1_rank_0.pt").write_bytes(buffer.getvalue())
        (directory / "data.pt").write_bytes(b"x")
    (place / "checkpoints/latest_checkpointed_iteration.txt").write_text(tracker)
    rows(
        place / "metrics.1.jsonl",
        *[{"actor/pg_loss": 0.5, "actor/grad_norm": 0.1, "timing_s/step": 60.0}] * 41,
    )
    return place


def test_a_run_directory_and_its_checkpoints(tmp_path: Path) -> None:
    place = run(tmp_path)
    [report] = of_directory(place)
    assert (report["trainer"], report["resumable"]) == ("verl", 20)
    assert [(one["step"], one["complete"]) for one in report["checkpoints"]] == [
        (20, True),
        (40, False),
    ]
    assert ids(place) == []  # a moment ago: it is being written
    old = 1_700_000_000
    for path in place.rglob("*"):
        os.utime(path, (old, old))
    [finding] = diagnose([place])["findings"]
    assert finding["id"] == "checkpoint-torn"
    assert "step 40" in finding["summary"]


def test_what_a_run_directory_says_of_its_last_attempt(tmp_path: Path) -> None:
    place = run(tmp_path, tracker="40")
    assert ids(place) == []
    rows(place / "metrics.2.jsonl", {"actor/pg_loss": 0.5}, {"critic/rewards/mean": None}, first=21)
    [finding] = diagnose([place])["findings"]
    assert (finding["id"], finding["attempt"], finding["evidence"][0]["file"]) == (
        "nan-loss",
        2,
        "metrics.2.jsonl",
    )


def test_a_log_beside_the_run_is_its_own(tmp_path: Path) -> None:
    place = run(tmp_path, tracker="40")
    log(
        place / "verl_demo.log",
        steps(1, 41)
        + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has\n",
    )
    assert ids(place) == ["cuda-oom"]


@pytest.mark.parametrize(
    ("text", "wrote"),
    [
        (steps(1, 2), Wrote("trainer", "verl")),
        (f"{ESC} TaskRunner hostname: node, PID: 3\n", Wrote("trainer", "verl")),
        ('{"step":1,"data":{"actor/grad_norm":0.5}}\n', Wrote("trainer", "verl")),
        ("step:5 of the recipe\n", Wrote("")),
        ('{"step": 1, "loss": 0.5}\n', Wrote("")),
    ],
)
def test_what_is_in_it_tells_that_it_is_verls(text: str, wrote: Wrote) -> None:
    assert by_content(text.encode()) == wrote


def test_a_log_of_any_program_needs_the_playbooks_prepared_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def counted(playbooks: Sequence[Playbook]) -> Rules:
        made.append(len(playbooks))
        return Rules(playbooks)

    checked._prepared.cache_clear()
    monkeypatch.setattr(checked, "Rules", counted)
    path = tmp_path / "notes"
    path.write_text("RuntimeError: CUDA error: an illegal memory access was encountered\n")
    assert assuming([path])["assumed"] == {str(path): "trainer"}
    assert len(made) == 1
