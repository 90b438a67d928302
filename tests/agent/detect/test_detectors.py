"""Each detector on facts: what it must name, and the near misses on which it must stay silent."""

from __future__ import annotations

import dataclasses

import pytest

from bs4_common.failures.detectors import DETECTORS
from bs4_common.failures.facts import GpuFacts, Holder, ServerProbe, Side, StepFiles
from tests.agent.facts import NOW, WALL, checkpoint, event, facts, healthy, identity, member
from tests.playbooks.library import library

GIB = 1 << 30


PARAMETERS = {playbook.detector: playbook.parameters for playbook in library() if playbook.detector}


def found(name, run, **changes):
    return list(DETECTORS[name](facts(run, **changes), run, PARAMETERS[name]))


@pytest.mark.parametrize("name", DETECTORS)
@pytest.mark.parametrize("trainer", ["prime-rl-2026-01", "prime-rl"])
def test_a_healthy_run_is_left_alone(name, trainer):
    assert found(name, healthy(trainer)) == []


def desynced(**changes):
    files = StepFiles(
        orchestrator_checkpoints={20: WALL - 500, 40: WALL - 400}, rollouts={0: WALL - 50}
    )
    return healthy(
        files=files,
        trainer_side=Side(),
        orchestrator_side=Side(0, NOW - 50, 1),
        checkpoints=[],
        **changes,
    )


def test_desync_on_a_fresh_start_with_leftovers():
    (finding,) = found(
        "step-desync", desynced(events=[event("barrier", "orchestrator", "Hit async barrier")])
    )
    assert "step 40" in finding.summary
    assert "step 0" in finding.summary
    assert finding.playbook == "start-afresh", (
        "no step is complete on every side, so there is nothing to resume"
    )
    assert any(e["source"] == "orchestrator" for e in finding.evidence)


def test_desync_after_a_resume_below_the_leftovers():
    run = dataclasses.replace(
        desynced(),
        files=StepFiles({20: WALL - 500, 40: WALL - 400}, {20: WALL - 5}),
        checkpoints=[checkpoint(20)],
    )
    (finding,) = found("step-desync", run)
    assert finding.playbook is None


def test_no_desync_when_the_awaited_step_is_written():
    assert (
        found(
            "step-desync",
            dataclasses.replace(desynced(), files=StepFiles({0: WALL - 500}, {0: WALL - 50})),
        )
        == []
    )


def test_no_desync_once_the_packer_packed():
    run = desynced()
    packed = dataclasses.replace(
        run, files=dataclasses.replace(run.files, rank_files={0: WALL - 40})
    )
    assert found("step-desync", packed) == []


def test_no_desync_from_checkpoints_that_this_attempt_wrote():
    run = dataclasses.replace(
        desynced(), files=StepFiles({5: WALL - 10}, {0: WALL - 50, 5: WALL - 12})
    )
    assert found("step-desync", run) == []


@pytest.mark.parametrize(
    ("trainer", "detectors"),
    [
        ("prime-rl-2026-01", {"step-desync", "stale-checkpoint-deadlock"}),
        ("prime-rl", {"resume-latest-partial"}),
        ("verl", {"ray-leftover-processes", "resume-mode-not-off", "verl-overshoot"}),
    ],
)
def test_what_only_one_trainer_can_have_is_looked_for_in_its_runs_alone(trainer, detectors):
    """These detectors do not look which trainer it is: `applies` of their playbooks says it."""
    for playbook in library():
        if playbook.detector in detectors:
            assert playbook.applies == {trainer}, playbook.id
            detectors = detectors - {playbook.detector}
    assert not detectors


def test_no_desync_after_the_end():
    assert found("step-desync", dataclasses.replace(desynced(), state="ended")) == []
    assert found("step-desync", dataclasses.replace(desynced(), stop_requested=True)) == []


def test_partial_latest_checkpoint():
    failure = event(
        "fatal",
        "trainer",
        "FileNotFoundError: Checkpoint not found at /o/checkpoints/step_37/trainer",
    )
    run = healthy(
        "prime-rl",
        trainer_side=Side(),
        checkpoints=[checkpoint(30), checkpoint(37, False)],
        events=[failure],
    )
    (finding,) = found("resume-latest-partial", run)
    assert "37" in finding.summary
    assert finding.playbook is None
    assert found("resume-latest-partial", dataclasses.replace(run, events=[])) == [], (
        "a partial newest step alone is normal while training"
    )
    assert (
        found("resume-latest-partial", dataclasses.replace(run, trainer_side=Side(31, NOW, 1)))
        == []
    )


def blocked(holder, **gpu):
    run = healthy(
        trainer_side=Side(),
        events=[
            event("gpu-memory", "inference", "Free memory on device cuda:0 is less than desired")
        ],
    )
    gpus = GpuFacts(
        state="ok",
        pids=gpu.pop("pids", "local"),
        used={0: 70 * GIB},
        total={0: 80 * GIB},
        holders=[holder],
    )
    return found("stale-gpu-process", run, gpus=gpus)


def holder(**changes):
    base = Holder(
        identity=identity(99),
        gpu=0,
        mem=60 * GIB,
        cmdline=("VLLM::EngineCore",),
        run=None,
        component=None,
        dead_run="demo",
        same_user=True,
    )
    return dataclasses.replace(base, **changes)


def test_stale_process_of_a_dead_run():
    (finding,) = blocked(holder())
    assert "pid 99" in finding.summary
    assert "left behind by demo" in finding.summary


def test_a_stranger_is_named_as_a_stranger():
    (finding,) = blocked(holder(dead_run=None))
    assert "no run known here" in finding.summary


def test_unknown_memory_is_said_to_be_unknown():
    (finding,) = blocked(holder(mem=None), pids="foreign")
    assert finding.coverage
    assert "in use" in finding.summary


def test_no_stale_process_when_a_live_run_holds_it_or_it_is_small_or_nothing_was_refused():
    assert blocked(holder(run="other", dead_run=None)) == []
    assert blocked(holder(mem=500_000_000)) == []
    run = healthy(trainer_side=Side())
    assert (
        found(
            "stale-gpu-process",
            run,
            gpus=GpuFacts(
                state="ok", pids="local", used={0: 70 * GIB}, total={}, holders=[holder()]
            ),
        )
        == []
    )


def without(component, run=None):
    run = run or healthy()
    members = [
        dataclasses.replace(m, alive=False) if m.component == component else m for m in run.members
    ]
    return dataclasses.replace(run, members=members)


def test_inference_ended_and_the_launcher_went_on():
    (finding,) = found("inference-silent", without("inference"))
    assert finding.failure == "vllm-silent-death"
    assert "pid 11" in finding.evidence[0]["text"]


def wound_down(run, *more):
    """`run` in the launcher's clean-up: the trainer has finished, and only the launcher lives."""
    members = [dataclasses.replace(m, alive=m.component == "launcher") for m in run.members]
    events = [event("finished", "trainer", "RL trainer finished!", m=NOW - 30), *more]
    return dataclasses.replace(run, members=members, events=events)


def test_the_launcher_ends_the_server_once_the_work_is_done():
    trouble = event("inference-lost", "inference", "EngineCore died", m=NOW - 10)
    assert found("inference-silent", wound_down(healthy(), trouble)) == []


def test_a_server_that_died_before_the_good_end_is_named():
    died = event("inference-lost", "inference", "EngineCore died", m=NOW - 40)
    (finding,) = found("inference-silent", wound_down(healthy(), died))
    assert finding.failure == "vllm-silent-death"


@pytest.mark.parametrize("living", ["trainer", "rank", "orchestrator"])
def test_a_server_that_is_still_needed_is_missed_after_the_trainers_last_line(living):
    done = wound_down(healthy())
    run = dataclasses.replace(done, members=[*done.members, member(15, living)])
    (finding,) = found("inference-silent", run)
    assert finding.failure == "vllm-silent-death"


def test_inference_that_failed_loudly_is_another_failure():
    run = without(
        "inference",
        healthy(
            events=[event("child-failed", "launcher", "Error: Inference failed with exit code 1")]
        ),
    )
    assert found("inference-silent", run) == []


def test_inference_before_it_was_ever_ready_is_a_slow_start():
    run = without("inference", healthy(orchestrator_side=Side(), trainer_side=Side()))
    assert found("inference-silent", run) == []


def test_hung_engine_needs_two_unanswered_tokens_and_a_healthy_face():
    hung = ServerProbe(
        url="http://localhost:8000",
        ever_ok_m=NOW - 50,
        health="ok",
        health_m=NOW,
        answer="timeout",
        answer_m=NOW,
        failures=2,
    )
    (finding,) = found("inference-silent", healthy(server=hung))
    assert "answers nothing" in finding.summary
    assert found("inference-silent", healthy(server=dataclasses.replace(hung, failures=1))) == []


def test_separate_server_that_vanished():
    gone = ServerProbe(
        url="http://localhost:8000", ever_ok_m=NOW - 50, health="refused", health_m=NOW
    )
    apart = [member(10, "launcher"), member(13, "orchestrator"), member(14, "trainer")]
    (finding,) = found("inference-silent", healthy(server=gone, members=apart))
    assert "separately started" in finding.summary
    never = dataclasses.replace(gone, ever_ok_m=None)
    assert found("inference-silent", healthy(server=never, members=apart)) == []


def test_nothing_is_said_of_a_run_that_is_being_stopped():
    assert (
        found("inference-silent", dataclasses.replace(without("inference"), stop_requested=True))
        == []
    )
