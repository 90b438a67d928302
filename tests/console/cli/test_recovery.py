"""A failure through the commands alone: check, diagnose, plan, run; on runs that somebody started
by hand.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bs4_practice import faults
from tests.console.cli.conftest import Practice, Result, practising

pytestmark = [pytest.mark.long, pytest.mark.beside]

LIMIT_S = 100.0


def until(look: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + LIMIT_S
    while not (found := look()):
        assert time.monotonic() < deadline, what
        time.sleep(0.2)
    return found


def stopped_after(on: Practice, steps: int) -> int:
    """A run that made some checkpoints and was stopped; the newest step that the trainer saved."""
    assert on.launch().code == 0
    until(lambda: on("runs", "list", "--json").json["runs"][0]["step"] >= steps, f"step {steps}")
    assert on("stop", "--pod", on.pod.name, "--run", "demo", "--confirm", "demo").code == 0
    saved = [
        path.parents[1].name
        for path in (on.pod.run_dir / "checkpoints").glob("step_*/trainer/.metadata")
    ]
    return max(int(name.removeprefix("step_")) for name in saved)


def _written_since(rollouts: Path, started: float) -> bool:
    try:
        return any(path.stat().st_mtime > started for path in rollouts.glob("step_*/*"))
    except FileNotFoundError:
        return False  # the launcher empties the directory while it is looked at


@pytest.fixture(scope="module")
def desync() -> Iterator[Practice]:
    """2026-01, started afresh by hand on top of what an earlier run left: it will never make a
    step.
    """
    with practising("prime-rl-2026-01", "desync", step_seconds=0.05) as on:
        stopped_after(on, 6)
        started = time.time()
        on.do(on.pod.spawn(on.pod.launch_command("--ckpt")))
        rollouts = on.pod.output_dir / "run_default" / "rollouts"
        log = on.pod.output_dir / "logs" / "orchestrator.stdout"
        until(lambda: _written_since(rollouts, started), "rollouts of the new attempt")
        until(lambda: b"barrier" in log.read_bytes(), "the orchestrator's barrier")
        yield on


def named(desync: Practice) -> dict[str, Any]:
    """What check tells as soon as the agent has named it."""

    def critical() -> Result | None:
        done = desync("check", "--pod", "desync", "--json")
        return done if done.code == 2 else None

    told: dict[str, Any] = until(critical, "the incident").json
    return told


def test_check_names_it(desync: Practice) -> None:
    told = named(desync)
    (incident,) = told["pods"][0]["incidents"]
    assert (told["status"], incident["failure"], incident["severity"]) == (
        "CRITICAL",
        "step-desync",
        "critical",
    )
    text = desync("check")
    assert text.code == 2
    assert text.out.startswith("CRITICAL - desync: step-desync: The trainer waits for step ")


def test_diagnose_finds_it_offline_with_its_evidence(desync: Practice, tmp_path: Path) -> None:
    directory = desync.pod.output_dir
    done = desync("diagnose", str(directory), "--json")
    assert done.code == 1
    told = done.json
    assert told["schema"] == "bs4.diagnose/1"
    assert "processes" in told["coverage"]
    (finding,) = told["findings"]
    assert (finding["id"], finding["role"], finding["severity"]) == (
        "step-desync",
        "root",
        "critical",
    )
    for item in finding["evidence"]:
        assert not Path(item["file"]).is_absolute()
        assert (directory / item["file"]).exists()
        if item["line"]:
            data = (directory / item["file"]).read_bytes()
            assert data[: item["offset"]].count(b"\n") == item["line"] - 1
            assert item["offset"] == 0 or data[item["offset"] - 1 : item["offset"]] == b"\n"
    assert any(item["line"] for item in finding["evidence"])

    copy = tmp_path / "copy"
    shutil.copytree(directory, copy)
    assert [f["id"] for f in desync("diagnose", str(copy), "--json").json["findings"]] == [
        "step-desync"
    ]
    text = desync("diagnose", str(directory))
    assert "CRITICAL step-desync (root cause)" in text.out
    assert "playbook show step-desync" in text.out


def test_plan_confirm_by_hash_run_and_train_again(desync: Practice) -> None:
    (incident,) = named(desync)["pods"][0]["incidents"]
    playbook, run = incident["playbook"] or "step-desync", incident["run"]
    pod = ("--pod", "desync", "--run", run)
    plan = desync("playbook", "plan", playbook, *pod, "--json").json
    assert plan["schema"] == "bs4.plan/1"
    assert set(plan) >= {"plan_hash", "expires", "steps"}
    assert plan["expires"] > time.time()
    shown = desync("playbook", "plan", playbook, *pod).out
    assert plan["plan_hash"] in shown
    assert "$ uv run rl @ configs/rl.toml" in shown

    for words in ((), ("--plan", "0" * 64), ("--json",)):
        refused = desync("playbook", "run", playbook, *pod, *words)
        assert refused.code == 4
        assert refused.sentence
    other = desync("playbook", "run", "vllm-silent-death", *pod, "--plan", plan["plan_hash"])
    assert other.code == 4
    assert f"That plan is of {playbook}" in other.sentence
    desync.console.config.joinpath("pods.toml").write_text(
        desync.console.config.joinpath("pods.toml").read_text() + "read_only = true\n"
    )
    locked = desync("playbook", "run", playbook, *pod, "--plan", plan["plan_hash"])
    assert locked.code == 4
    assert "read-only" in locked.sentence
    text = desync.console.config.joinpath("pods.toml").read_text()
    desync.console.config.joinpath("pods.toml").write_text(text.replace("read_only = true\n", ""))

    if playbook == "start-afresh":
        unnamed = desync("playbook", "run", playbook, *pod, "--plan", plan["plan_hash"])
        assert unnamed.code == 4
        assert "typing the run's name" in unnamed.sentence
    done = desync(
        "playbook",
        "run",
        playbook,
        *pod,
        "--plan",
        plan["plan_hash"],
        "--confirm",
        run,
        "--json",
        timeout=240,
    )
    assert done.code == 0, done
    last = done.lines[-1]
    assert (last["schema"], last["state"]) == ("bs4.action/1", "done")
    assert all(step["state"] in ("done", "skipped") for step in last["steps"])
    # That somebody's start by hand has deleted logs stays a warning until the next look at the new
    # attempt.
    until(lambda: desync("check").code == 0 or None, "a check that finds nothing")
    again = desync("playbook", "run", playbook, *pod, "--plan", plan["plan_hash"])
    assert again.code == 4


@pytest.fixture(scope="module")
def partial() -> Iterator[Practice]:
    """The current generation, resumed by hand from a step of which only the orchestrator's half
    exists: it ends at once.
    """
    with practising("prime-rl", "partial", step_seconds=0.05) as on:
        newest = stopped_after(on, 6)
        faults.put_checkpoint(on.pod, newest + 2, ["orchestrator"])
        on.do(on.pod.spawn(on.pod.launch_command("--resume")))
        log = on.pod.run_dir / "logs" / "latest"
        until(
            lambda: any(b"FileNotFoundError" in p.read_bytes() for p in log.rglob("*.log")),
            "the trainer's end",
        )
        yield on


def test_diagnose_finds_the_partial_resume_from_the_run_and_from_its_output_directory(
    partial: Practice,
) -> None:
    for directory, prefix in (
        (partial.pod.run_dir, ""),
        (partial.pod.output_dir, f"{partial.pod.run_name}/"),
    ):
        done = partial("diagnose", str(directory), "--json")
        assert done.code == 1, done
        roots = [f for f in done.json["findings"] if f["role"] == "root" and f["attempt"] == 2]
        assert [f["id"] for f in roots] == ["resume-latest-partial"]
        (finding,) = roots
        assert finding["id"] == "resume-latest-partial"
        line = finding["evidence"][0]
        assert line["file"].startswith(prefix + "logs/")
        data = (directory / line["file"]).read_bytes()
        assert (
            data[line["offset"] :].split(b"\n")[0].decode() == line["text"]
            or "FileNotFoundError" in line["text"]
        )
        assert data[: line["offset"]].count(b"\n") == line["line"] - 1


def test_a_signal_ends_a_watching_command(partial: Practice) -> None:
    process = partial.console.start(
        "logs", "--pod", "partial", "-f", "-n", "0", "--json", stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["stream"] == "log/demo/trainer"
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode != 0
