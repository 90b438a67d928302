"""vf-eval of verifiers 0.4.0 from PyPI, its result files and its log: `make test-pypi-trainers`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bs4_console.checks.diagnose import diagnose
from bs4_console.run_log import eval_files
from bs4_console.setup import budgeted_words
from bs4_console.setup.environment_tools import Evaluation
from tests.pypi.engine import engine
from tests.support.environments import READY

VERIFIERS = Path(__file__).resolve().parents[2] / "build/verifiers"

pytestmark = [
    pytest.mark.pypi,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not (VERIFIERS / READY).exists(),
        reason="verifiers is not in build/verifiers: `make test-pypi-trainers` does it",
    ),
]
#: Nothing listens on the port of discard.
DOWN = "http://127.0.0.1:9/v1"


def evaluate(root: Path, url: str, fault: str = "") -> Path:
    """Return the directory of an evaluation of six tasks with two rollouts each."""
    words = ["tiny_real", "--no-push", "--no-rich", "-m", "tiny", "--client.base-url", url]
    words += ["--env.agent.runtime.type", "subprocess", "--env.agent.harness.id", "null"]
    done = subprocess.run(
        [VERIFIERS / "bin/vf-eval", *words, "-n", "6", "-r", "2", "-o", "out", "--run.name", "it"],
        cwd=root,
        env={
            **os.environ,
            "HOME": str(root),
            "PATH": f"{VERIFIERS / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(Path(__file__).parent),
            "TINY_FAULT": fault,
        },
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]  # also where every rollout has failed
    return root / "out/it"


def named(evaluation: Path) -> list[dict[str, Any]]:
    """Return what `diagnose` finds in the log of an evaluation without being told what it is."""
    found: list[dict[str, Any]] = diagnose([evaluation / "logs/attempt_1/eval.log"])["findings"]
    return found


def test_a_good_evaluation(tmp_path: Path) -> None:
    with engine() as url:
        evaluation = evaluate(tmp_path, url)
    read = eval_files.read(evaluation)
    assert (read.file, read.is_torn) == (evaluation / "traces.jsonl", False)
    whole, even, odd = eval_files.summaries(read)
    assert {s.environment for s in (whole, even, odd)} == {"tiny_real"}
    assert [(s.archetype, s.examples, s.rollouts, s.errors) for s in (whole, even, odd)] == [
        ("", 6, 12, 0),
        ("even", 3, 6, 0),
        ("odd", 3, 6, 0),
    ]
    # Rewards 1.5 where the answer is right, else half of 1; 2.571 times 0.5164 by the root of 6.
    assert whole.mean == pytest.approx(7 / 6)
    assert (whole.low, whole.high) == (
        pytest.approx(0.6247, abs=1e-3),
        pytest.approx(1.7087, abs=1e-3),
    )
    assert named(evaluation) == []


def test_an_endpoint_that_is_down(tmp_path: Path) -> None:
    evaluation = evaluate(tmp_path, DOWN)
    (whole, *_) = eval_files.summaries(eval_files.read(evaluation))
    assert (whole.examples, whole.rollouts, whole.errors, whole.mean) == (0, 12, 12, None)
    assert [(f["id"], f["source"]) for f in named(evaluation)] == [("inference-unreachable", "env")]


def test_a_reward_that_raises(tmp_path: Path) -> None:
    with engine() as url:
        evaluation = evaluate(tmp_path, url, fault="reward")
    (whole, *_) = eval_files.summaries(eval_files.read(evaluation))
    assert (whole.examples, whole.rollouts, whole.errors, whole.mean) == (0, 12, 12, None)
    line = json.loads((evaluation / "traces.jsonl").read_text().splitlines()[0])
    assert "ZeroDivisionError" in json.dumps(line["traces"][0]["errors"])
    assert [(f["id"], f["source"]) for f in named(evaluation)] == [("reward-fn-crash", "env")]


def resolved(root: Path, words: tuple[str, ...]) -> dict[str, Any]:
    """Return what vf-eval understands of an evaluation within a budget that is followed by
    `words`, as the config that it writes with --dry-run.
    """
    planned = Evaluation(
        environment="tiny_real",
        model="tiny",
        endpoint=DOWN,
        key_variable="KEY",
        examples=5,
        rollouts=2,
        turns=1,
        tokens_in=100,
        max_tokens=300,
        price=(1.0, 1.0),
        output=str(root / "out"),
    )
    argv = [VERIFIERS / "bin/vf-eval", *planned.words()[1:], *words, "--dry-run"]
    subprocess.run(
        argv,
        cwd=root,
        env={**os.environ, "HOME": str(root), "PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        timeout=600,
        check=True,
    )
    (file,) = (root / "out").rglob("configs/resolved/eval.json")
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def test_the_words_that_a_budget_lets_pass_leave_alone_what_it_is_made_of(tmp_path: Path) -> None:
    values = {
        "--select.include.idx": "0:4",
        "--select.exclude.idx": "1",
        "--run.name": "it",
        "--run.dir": "there",
        "--sampling.reasoning-effort": "low",
        "--env.agent.harness.id": "null",
        "--env.agent.runtime.type": "subprocess",
    }
    words = [*sorted(budgeted_words._BARE - {"--resume", "--no-rich"})]
    for name in sorted(budgeted_words._VALUED):
        words += [name, values.get(name, "1")]
    budgeted_words.check(words)
    (tmp_path / "plain").mkdir()
    (tmp_path / "more").mkdir()
    plain = resolved(tmp_path / "plain", ())
    more = resolved(tmp_path / "more", tuple(words))
    for found in (plain, more):
        assert (found["model"], found["num_rollouts"], found["push"]) == ("tiny", 2, False)
        assert (found["select"]["limit"], found["sampling"]["max_tokens"]) == (5, 300)
    assert more["client"] == plain["client"]
    assert more["select"]["include"]["idx"] == ["0:4"]
    assert more["env"]["agent"]["model"] is None
    assert more["env"]["agent"]["sampling"] is None
    for name in ("retries", "taskset"):
        assert more["env"][name] == plain["env"][name]
