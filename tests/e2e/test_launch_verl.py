"""verl from an empty practice pod to its first step with one command and one confirmation; killed,
and resumed without a lost step.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bs4_practice import faults
from bs4_practice.pod import PracticePod
from tests.agent.runs.practice import until
from tests.console.cli.conftest import Result, practising

pytestmark = pytest.mark.beside

WORDS = ("trainer.max_actor_ckpt_to_keep=3",)
WHOLE = ("launch", "configs/rl.toml", "--pod", "bare", "--run", "demo")


def attempts(pod: PracticePod) -> list[dict[str, Any]]:
    """The launches that were ever made, as they lie on the pod's disk."""
    found = (pod.home / ".bs4" / "runs" / "demo" / "attempts").glob("[0-9]*/spec.json")
    return [json.loads(path.read_text()) for path in sorted(found)]


def steps(pod: PracticePod, attempt: int) -> list[int]:
    """Of verl's own file of one attempt; its last line may be half written."""
    try:
        whole = (pod.run_dir / f"metrics.{attempt}.jsonl").read_text().split("\n")[:-1]
    except FileNotFoundError:
        return []
    return [json.loads(line)["step"] for line in whole]


def saved(pod: PracticePod) -> int:
    """The newest step that verl says is whole; 0 for none, or while it writes the number."""
    try:
        return int((pod.run_dir / "checkpoints" / "latest_checkpointed_iteration.txt").read_text())
    except (FileNotFoundError, ValueError):
        return 0


def gone(pod: PracticePod, *names: str) -> Callable[[], bool]:
    return lambda: not any(faults.find(pod, name) for name in names)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_from_an_empty_pod_to_a_first_step_then_killed_and_resumed() -> None:
    with practising("verl", "bare", step_seconds=0.3) as practice:
        pod = practice.pod
        assert not (pod.home / ".bs4").exists()

        def launched(*options: str) -> Result:
            return practice(*WHOLE, *options, "--", *WORDS, timeout=280.0)

        shown = launched("--plan", "--json")
        assert shown.code == 0, shown
        # Nobody said which trainer, nor where it is: the config is Hydra's.
        command = next(step["command"] for step in shown.json["steps"] if step["kind"] == "start")
        assert "-m verl.trainer.main_ppo" in command
        assert all(f" {word} " in command for word in WORDS)
        assert f"trainer.default_local_dir={pod.run_dir}/checkpoints" in command
        # The miniature has none of the real trainer's source.
        assert {
            check["id"]
            for check in shown.json["checks"]
            if check["state"] in ("blocking", "unknown")
        } == {"trainer-source"}
        unconfirmed = launched()
        assert unconfirmed.code == 4
        assert "confirm the plan with --yes" in unconfirmed.sentence
        assert attempts(pod) == []

        done = launched("--yes")
        assert done.code == 0, done
        assert "demo trains: step " in done.out
        assert steps(pod, 1)
        again = launched("--yes")
        assert (again.code, "nothing was started" in again.out) == (0, True)

        until(lambda: saved(pod) >= 5, 240)
        faults.kill(faults.find(pod, "launcher")[0])
        until(gone(pod, "launcher", "task-runner", "ray-worker"), 240)
        kept, trained = saved(pod), steps(pod, 1)
        assert kept >= 5
        assert trained == list(range(1, trained[-1] + 1))
        # Ray's agents outlive the driver. They are ended by name of their run, and then the same
        # command goes on.
        assert (
            practice(
                "stop", "--pod", "bare", "--run", "demo", "--confirm", "demo", timeout=280.0
            ).code
            == 0
        )
        resumed = launched("--yes")
        assert resumed.code == 0, resumed
        assert f"step {kept} is the newest that is complete" in resumed.out
        until(lambda: bool(steps(pod, 2)), 240)
        assert steps(pod, 2)[0] == kept + 1
        assert steps(pod, 1) == trained
        first, second = attempts(pod)
        assert (first["launch"]["resume"], second["launch"]["resume"]) == (None, kept)
        assert first["launch"]["overrides"] == second["launch"]["overrides"] == list(WORDS)
        assert (
            f"trainer.resume_from_path={pod.run_dir}/checkpoints/global_step_{kept}"
            in second["argv"]
        )
        assert [
            Path(word).name for word in second["argv"] if word.startswith("hydra.run.dir=")
        ] == ["2"]
