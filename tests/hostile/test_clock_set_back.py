"""A pod's clock is set back while a run trains: the lines of that run still count, and its end is
still known. Otherwise a healthy run looks silent, and a playbook in mode auto restarts it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
from pathlib import Path

import pytest

from bs4_agent.checkpoints.sync import present
from bs4_agent.launch.start import launch
from bs4_agent.runs.outcome import final_events
from bs4_agent.runs.records import start_by_clock
from bs4_common.checkpoints.sets import Part, StepSet
from bs4_common.identity import Identity
from bs4_common.runs.model import Attempt
from tests.agent.runs.conftest import no_process_left, pod  # noqa: F401
from tests.agent.runs.practice import Pod
from tests.agent.runs.test_follower import WRITER, Agent, say
from tests.hostile.test_odd_rows import recorded, row, step_log

#: Seconds by which the clock is set back after the start of the attempt.
BACK_S = 3600.0


def ahead(attempt: Attempt | None) -> Attempt:
    """Return the attempt as it is recorded if it began while the clock was an hour ahead."""
    assert attempt is not None
    attempt.started_t += BACK_S
    return attempt


def an_attempt(resume: int | None = None) -> Attempt:
    return ahead(
        Attempt(
            number=1,
            state="running",
            shim=None,
            launcher=Identity.of(os.getpid()),
            started_t=time.time() - 60.0,
            started_m=time.monotonic() - 60.0,
            resume=resume,
            argv=(),
        )
    )


def saved(step: int, t: float) -> StepSet:
    """Return a complete checkpoint whose files were last written to at the Unix time `t`."""
    part = Part(name="trainer", path=Path("/run"), bytes=1, t=t, why="")
    return StepSet(step=step, complete=True, parts={"trainer": part}, missing={}, directories=[])


def test_the_lines_of_a_run_count_after_the_clock_was_set_back(pod: Pod) -> None:  # noqa: F811
    log = pod.root / "work/alpha/logs/trainer.stdout"
    pod.trainer.program = "while [ ! -e go ]; do sleep 0.02; done\n" + WRITER
    agent = Agent(pod)
    launch(agent.runs, pod.spec(), key="k1")
    ahead(agent.runs.get("alpha").attempt)
    (pod.root / "work/go").touch()
    agent.until(lambda: log.exists() and "starting" in log.read_text())
    say(log, "step 0 0.5")
    agent.until(lambda: agent.steps() == [(1, "trainer", 0)])
    # The clock is right again, and then the log is replaced while it is behind once more.
    log.unlink()
    log.write_text("step 1 0.5\n")
    agent.until(lambda: agent.steps() == [(1, "trainer", 0), (1, "trainer", 1)])
    assert agent.follower.recent("alpha", 1).side("trainer").last_step == 1
    agent.close()


def test_the_rows_of_a_metrics_file_count_after_the_clock_was_set_back(tmp_path: Path) -> None:
    metrics, now = tmp_path / "metrics.jsonl", time.time()
    written = json.loads(row(3))
    metrics.write_text(json.dumps({**written, "time": now}) + "\n")
    log = step_log(tmp_path, "prime-rl")
    log.feed_metrics(metrics, an_attempt())
    log.flush()
    assert [one["step"] for one in recorded(tmp_path)] == [3]


def test_the_final_lines_count_after_the_clock_was_set_back(
    pod: Pod,  # noqa: F811
) -> None:
    log = pod.root / "work/alpha/logs/trainer.stdout"
    log.parent.mkdir(parents=True)
    log.write_text("step 0 0.5\n")
    attempt = an_attempt()
    assert final_events(pod.trainer, pod.spec(), attempt.started_t) == []
    assert final_events(pod.trainer, pod.spec(), start_by_clock(attempt))


def test_a_step_of_the_living_attempt_is_the_present_one_after_the_clock_was_set_back() -> None:
    now = time.time()
    whole = [saved(step, t) for step, t in ((30, now - 7200.0), (20, now), (10, now - 7300.0))]
    assert present(whole, an_attempt(resume=10)) is whole[1]


def test_a_start_is_not_moved_by_a_clock_that_is_right_or_was_set_forward() -> None:
    attempt = an_attempt()
    for started_t in (attempt.started_t - BACK_S, attempt.started_t - 2 * BACK_S):
        right = dataclasses.replace(attempt, started_t=started_t)
        assert start_by_clock(right) == pytest.approx(started_t, abs=1.0)


def test_the_start_of_an_attempt_on_another_machine_is_the_recorded_one() -> None:
    attempt = an_attempt()
    assert attempt.launcher is not None
    elsewhere = dataclasses.replace(attempt.launcher, boot_id="another boot")
    moved = dataclasses.replace(attempt, launcher=elsewhere, started_m=-1e7)
    assert start_by_clock(moved) == attempt.started_t
