"""What is asked for when a run is launched: the request as data, and what must be true before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bs4_agent.errors import BadRequest, Refused
from bs4_agent.paths import safe_name
from bs4_agent.runs.registry import Runs
from bs4_agent.trainers import registry
from bs4_agent.trainers.base import LaunchSpec


def spec_of(body: Mapping[str, Any]) -> LaunchSpec:
    """The launch spec in an action's body; relative paths count from the home directory (cwd) and from cwd (output_dir, config)."""
    trainer = str(body.get("trainer"))
    if trainer not in registry.ids():
        raise BadRequest(f"There is no trainer {trainer!r}; choose {' or '.join(registry.ids())}.")
    resume = body.get("resume")
    if resume is not None and (not isinstance(resume, int) or resume < 0):
        raise BadRequest(f"{resume!r} is no step to resume from; give a number.")
    cwd = Path.home() / str(body.get("cwd") or "")
    return LaunchSpec(
        run=safe_name(str(body.get("run") or ""), "run"),
        trainer=trainer,
        config=Path(str(body.get("config") or "")),
        cwd=cwd,
        output_dir=cwd / str(body.get("output_dir") or "outputs"),
        resume=resume,
        overrides=tuple(str(word) for word in body.get("overrides") or ()),
        component=str(body.get("component") or "rl"),
    )


def preflight(runs: Runs, spec: LaunchSpec, *, checked: bool = True) -> None:
    """Refused, with the reason, when this start is known to hang or to lose work. `checked=False` leaves the checkpoint rules out."""
    if not checked or spec.component != "rl":
        return
    trainer = registry.get(spec.trainer)
    found = trainer.checkpoints(spec)
    complete = [c.step for c in found if c.complete]
    if spec.resume is not None and spec.resume not in complete:
        have = ", ".join(map(str, complete)) or "none"
        raise Refused(f"Step {spec.resume} is not complete on every side, so it cannot be resumed. Complete steps: {have}.")
    leftovers = [c.step for c in found if "orchestrator" in c.directories and (spec.resume is None or c.step > spec.resume)]
    if leftovers and spec.trainer == "prime-rl-2026-01":
        way_out = f"Resume with --resume {max(complete)}" if complete and spec.resume is None else "Move them aside"
        raise Refused(
            f"Orchestrator checkpoints up to step {max(leftovers)} lie in {spec.output_dir}, and this generation's trainer would wait for "
            f"that step for ever (step-desync). {way_out}, or use another --output-dir."
        )
