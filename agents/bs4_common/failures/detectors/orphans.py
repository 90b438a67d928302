"""Detectors for a launcher that is gone while its children live, and for what a verl driver leaves
behind.
"""

from __future__ import annotations

from collections.abc import Sequence

from bs4_common.credentials.forms import shown_command
from bs4_common.failures.compiled import Parameters
from bs4_common.failures.detectors.reporting import found, quiet
from bs4_common.failures.evidence import as_evidence, process_evidence
from bs4_common.failures.facts import Facts, Finding, RunFacts
from bs4_common.runs.model import Exit

Found = Sequence[Finding]

_WORKERS = ("trainer", "rank", "orchestrator", "inference", "engine", "worker", "env-server")


def launcher_orphans(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the launcher of a
    run has ended and has left its other processes running, for example after SIGHUP. Else return an
    empty list. A launcher that has logged that it ends its processes, or that one of them failed,
    gives no finding. The summary of the finding says whether the run still makes training steps:
    that is so if the last step ended less than `parameters["steps"]` (default 3) usual durations of
    a step ago.
    """
    left = run.alive(*_WORKERS)
    gone = [m for m in run.members if m.component == "launcher"]
    if run.spec.component != "rl" or quiet(run) or not gone or run.alive("launcher") or not left:
        return []
    if any(
        run.last_event(kind, "launcher") for kind in ("terminating", "child-failed", "finished")
    ):
        return []
    evidence = []
    for m in gone:
        text = f"the launcher has ended{_how(run.exit_of(m))}"
        evidence.append(process_evidence(m.identity, text))
    for m in left:
        evidence.append(process_evidence(m.identity, f"{m.component} lives on"))
    names = ", ".join(dict.fromkeys(str(m.component) for m in left))
    anchor = f"pid:{gone[-1].identity.pid}:{gone[-1].identity.start_ticks}"
    text = f"The launcher is gone; {names} of {run.name} go on without it"
    if _moving(facts, run, float(parameters.get("steps", 3))):
        text += ", and steps still come"
    return found("launcher-orphans", run, f"{text}.", evidence, anchor)


def _how(end: Exit | None) -> str:
    """Return " by signal N" or " with code N" for the end of a process, or "" if it is unknown."""
    if end is None:
        return ""
    if end.signal is not None:
        return f" by signal {end.signal}"
    return f" with code {end.code}"


def _moving(facts: Facts, run: RunFacts, steps: float) -> bool:
    """Return True if the trainer's last step is less than `steps` usual steps ago."""
    last, pace = run.trainer_side.last_step_m, run.median_step_s
    return last is not None and pace is not None and facts.now_m - last < steps * pace


def ray_leftovers(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the driver (main
    process) of a verl run has ended and other processes of that attempt still live, else an empty
    list. If one of these processes is a TaskRunner, the run still works, and nothing is found.
    `parameters` is not used.
    """
    if not run.over:
        return []
    left = run.living
    if not left or any("TaskRunner" in " ".join(m.cmdline) for m in left):
        return []
    holding = {h.identity: h for h in facts.gpus.holders}
    evidence = []
    for member in left:
        text = shown_command(member.cmdline, 80)
        if member.identity in holding:
            text += f", on GPU {holding[member.identity].gpu}"
        evidence.append(process_evidence(member.identity, text))
    return found(
        "ray-leftover-processes",
        run,
        f"The driver has ended; {len(left)} processes of its session are left.",
        evidence,
        f"pid:{left[0].identity.pid}",
    )


def resume_mode_not_off(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if verl's setting
    trainer.resume_mode is `off`, `false`, `no` or `none`, else an empty list. verl knows none of
    these four values and resumes nevertheless; `disable` is the right value. `parameters` is not
    used.
    """
    if run.config is None or "trainer.resume_mode" not in run.config or quiet(run):
        return []
    value = run.config["trainer.resume_mode"]
    if str(value).lower() not in ("off", "false", "no", "none"):
        return []
    evidence = [
        as_evidence(
            "config",
            f"trainer.resume_mode: {value!r}; the values are auto, disable and resume_path",
        )
    ]
    first = (run.trainer_side.last_step or 0) - run.trainer_side.steps + 1
    if first > 1:
        evidence.append(as_evidence("steps", f"the first step of this attempt was {first}"))
    return found(
        "resume-mode-not-off",
        run,
        "resume_mode=off does not switch resuming off.",
        evidence,
        "config:resume-mode",
    )


def verl_overshoot(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the last step of
    a verl run is beyond the number of steps in the table `plan` of its config file (key
    plan.steps), and beyond trainer.total_training_steps if that is set. Else, or without
    plan.steps, return an empty list. verl counts epochs unless total_training_steps is set.
    `parameters` is not used.
    """
    planned, step = run.setting("plan.steps"), run.trainer_side.last_step
    total = run.setting("trainer.total_training_steps")
    if planned is None or step is None or quiet(run):
        return []
    if step <= int(planned) or (total is not None and int(total) >= step):
        return []
    evidence = [
        as_evidence("steps", f"step {step}"),
        as_evidence("config", f"planned {planned}; trainer.total_training_steps: {total}"),
    ]
    return found(
        "verl-overshoot",
        run,
        f"The run is at step {step}; {planned} were planned.",
        evidence,
        "steps:overshoot",
    )
