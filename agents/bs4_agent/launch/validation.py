"""The request to launch a run: its form as data, and what must be true before anything starts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bs4_agent.actions.submission import text, words
from bs4_agent.runs.registry import Runs
from bs4_common.errors import BadRequest, Refused
from bs4_common.ids import safe_name
from bs4_common.trainers import registry
from bs4_common.trainers.base import Checkpoint, LaunchSpec

COMPONENTS = ("rl", "inference", "orchestrator", "trainer", "sft", "eval")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
#: Names under which people keep secrets. Secrets come from the pod's own 0600 files, because a spec
#: is journalled.
_SECRET = re.compile(
    r"(?:^|_)(?:API)?(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:_|$)", re.IGNORECASE
)


def spec_of(body: Mapping[str, Any]) -> LaunchSpec:
    """Return the launch spec that `body`, the body of a launch action, describes. The keys of
    `body` are `run`, `trainer`, `config`, `cwd`, `output_dir`, `resume`, `overrides`, `component`,
    `processes`, `env` and `container`. A relative `cwd` is below the home directory, and a relative
    `output_dir` or `config` below `cwd`. Raises BadRequest, whose message names the wrong field.
    """
    trainer = str(body.get("trainer"))
    if trainer not in registry.ids():
        raise BadRequest(f"There is no trainer {trainer!r}; choose {' or '.join(registry.ids())}.")
    resume = body.get("resume")
    if resume is not None and (type(resume) is not int or resume < 0):
        raise BadRequest(f"{resume!r} is no step to resume from; give a number.")
    component = str(body.get("component") or "rl")
    if component not in COMPONENTS:
        raise BadRequest(f"There is no component {component!r}; choose {', '.join(COMPONENTS)}.")
    processes = body.get("processes", 1)
    if not isinstance(processes, int) or isinstance(processes, bool) or not 1 <= processes <= 64:
        raise BadRequest(f"{processes!r} is no number of processes; give 1 to 64.")
    cwd = Path.home() / text(body.get("cwd"), "cwd")
    return LaunchSpec(
        run=safe_name(text(body.get("run"), "run")),
        trainer=trainer,
        config=Path(text(body.get("config"), "config")),
        cwd=cwd,
        output_dir=cwd / (text(body.get("output_dir"), "output_dir") or "outputs"),
        resume=resume,
        overrides=words(body.get("overrides"), "overrides"),
        component=component,
        processes=processes,
        env=environment(body.get("env") or {}),
        container=text(body.get("container"), "container"),
    )


def environment(given: object) -> dict[str, str]:
    """Check the environment variables `given` that a person adds to a launch, and return them by
    name. Raises BadRequest if `given` is no table, if a name is no name of a variable, or if a name
    looks like that of a secret.
    """
    if not isinstance(given, Mapping):
        raise BadRequest("`env` is no table of names and values; send one.")
    for name in given:
        if not _NAME.fullmatch(str(name)):
            raise BadRequest(f"{name!r} cannot name a variable; use letters, digits and '_'.")
        if _SECRET.search(str(name)):
            raise BadRequest(
                f"{name} looks like a secret, and a launch is written down. Put it on the "
                "pod with `bs4-console pods setup`."
            )
    return {str(name): text(value, f"env.{name}") for name, value in given.items()}


def refuse_incomplete(found: Sequence[Checkpoint], step: int) -> None:
    """Raise Refused if `step` is not among the complete checkpoints in `found`."""
    complete = [str(c.step) for c in found if c.complete]
    if str(step) not in complete:
        raise Refused(
            f"Step {step} is not complete on every side, so it cannot be resumed. "
            f"Complete steps: {', '.join(complete) or 'none'}."
        )


def preflight(runs: Runs, spec: LaunchSpec, *, checked: bool = True) -> None:
    """Raise Refused, with the reason, if a launch of `spec` is known to hang or to lose work: the
    step to resume from is not complete, or later checkpoints are in the way. If `checked` is False,
    this is not checked. Raises BadRequest in any case if no trainer has the id in `spec`.
    """
    trainer = registry.get(spec.trainer)
    if not checked or spec.component not in trainer.resumes:
        return
    found = trainer.checkpoints(spec)
    if spec.resume is not None:
        refuse_incomplete(found, spec.resume)
    last = -1 if spec.resume is None else spec.resume
    leftovers = [c.step for c in found if "orchestrator" in c.directories and c.step > last]
    if leftovers and trainer.traits.awaits_leftovers:
        complete = [c.step for c in found if c.complete]
        way_out = "Move them aside"
        if complete and spec.resume is None:
            way_out = f"Resume with --resume {max(complete)}"
        raise Refused(
            f"Orchestrator checkpoints up to step {max(leftovers)} lie in {spec.output_dir}, and "
            "this generation's trainer would wait for that step for ever (step-desync). "
            f"{way_out}, or use another --output-dir."
        )
