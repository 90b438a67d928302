"""One reading of the pod for a planned launch: everything that can be read at once, without
starting a process or calling a service.
"""

from __future__ import annotations

import dataclasses
import itertools
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

from bs4_agent.containers.inside import Box
from bs4_agent.launch import plan as launch_plan
from bs4_agent.launch.gpus import gpu_ids, serves_itself
from bs4_agent.launch.validation import spec_of
from bs4_agent.observe import surroundings
from bs4_agent.pod import Pod
from bs4_agent.preflight import planned
from bs4_agent.runs.records import attempt_numbers
from bs4_common.checkpoints.inventory import newest_resumable
from bs4_common.credentials.exposed import exposed_in
from bs4_common.credentials.forms import shown_command
from bs4_common.errors import AgentError
from bs4_common.failures.compiled import Library
from bs4_common.failures.detectors.reporting import number
from bs4_common.failures.facts import RunFacts
from bs4_common.files import disk_usage
from bs4_common.preflight import (
    FileLimits,
    GpuPart,
    NeededPort,
    PodPart,
    RefusedPlan,
    SavedStep,
    ShownPlan,
    StartBody,
    StartPart,
)
from bs4_common.trainers import registry
from bs4_common.trainers.base import Checkpoint, LaunchSpec

#: The path of shared memory; a container has its own.
_SHARED = "/dev/shm"  # noqa: S108 (it is looked at, and nothing is put there)
#: At most this many holders and steps are listed one by one.
_TOLD = 16
_COMMAND = 160
#: Seconds that a query waits for a reading of the GPUs that is newer than itself; they are read
#: once a second.
FRESH_S = 4.0


def at_pod(
    pod: Pod, run: str, environment: Mapping[str, str], box: Callable[[], Box] | None = None
) -> PodPart:
    """Return the facts about the pod that matter to every launch: the GPUs, the limit of open files
    that `run` would get, shared memory, and the variables in `environment` that change how vLLM
    starts.

    `box` returns the container in which the launch starts, or is None. With it, the limit and the
    shared memory are those of the container, and `container` is its name, or {"unknown": why} if it
    cannot be reached. The GPUs are always those of the machine.
    """
    gpus = _gpus(pod)
    names = ("VLLM_USE_V1", "VLLM_WORKER_MULTIPROC_METHOD")
    if box is None:
        return {
            "gpus": gpus,
            "nofile": {"soft": pod.nofile(run), "hard": pod.hard_nofile()},
            "shm": disk_usage(pod.shared_memory()),
            "environment": {name: environment.get(name) for name in names},
        }
    try:
        inside = box()
    except AgentError as error:
        return {
            "gpus": gpus,
            "container": {"unknown": error.message},
            "nofile": None,
            "shm": None,
            "environment": {},
        }
    theirs = {**inside.environment(), **environment}
    return {
        "gpus": gpus,
        "container": inside.name,
        "nofile": cast(FileLimits, inside.nofile()),
        "shm": {**disk_usage(inside.view.raw(_SHARED)), "path": _SHARED},
        "environment": {name: theirs.get(name) for name in names},
    }


def at_run(
    pod: Pod, library: Library, body: StartBody, environment: Mapping[str, str]
) -> StartPart:
    """Return the facts about the launch that `body` requests, such as its plan, its config's
    settings, its GPUs and its ports. Nothing is started.

    Some trainers have other names for these settings than prime-rl. What such a trainer reports
    (`Trainer.needs`) then replaces what was found, and `python`, `engine` and `bytes_each` may be
    added.
    """
    plan, refused = _plan(pod, body)
    spec = spec_for(body) if plan is None else plan.spec
    trainer = registry.get(spec.trainer)
    number = max(attempt_numbers(pod.runs.home.run(spec.run)), default=0) + 1
    attempts = pod.runs.attempt_directory(spec.run, number).parent
    run = planned.run_facts(spec, trainer, environment, surroundings.names_before(attempts, number))
    shown: ShownPlan | None = None
    command = ""
    secret = exposed_in([str(word) for word in body.get("overrides") or ()])
    if plan is not None:
        shown = {
            "resume": plan.spec.resume,
            "why": plan.why,
            "notes": list(plan.notes),
            "moves": [str(path) for path in plan.moves],
        }
        command = "" if secret else shlex.join(plan.argv)
    found: StartPart = {
        "plan": shown,
        "refused": refused,
        "command": command,
        "secret": secret,
        "findings": planned.findings(pod.collect_facts(), run, pod.shared_memory(), library),
        "keep_last": _setting(run, "ckpt.keep_last", "trainer.ckpt.keep_last"),
        "interval": _setting(run, "ckpt.interval", "trainer.ckpt.interval"),
        "max_steps": _setting(run, "max_steps", "trainer.max_steps"),
        "wandb": needs_wandb(run),
        "model": str(
            run.setting(
                "model.name",
                "trainer.model.name",
                "orchestrator.model.name",
                "inference.model.name",
            )
            or ""
        ),
        "modules": modules(run),
        "gpu_ids": gpu_ids(run),
        **listed(run.checkpoints),
        "ports": _ports(pod, spec, run),
        "serves_itself": serves_itself(run),
        "disk": disk_usage(run.layout.output_dir),
        "cache": disk_usage(
            Path(environment.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
        ),
    }
    found.update(cast(StartPart, trainer.needs(spec)))
    return found


def spec_for(body: StartBody) -> LaunchSpec:
    """Return the launch spec for a launch request `body` for which no plan could be made. The spec
    resumes from the step number in the request's `resume`, or for "auto" from the newest complete
    step. Its `resume` is None if there is no such step. Raises BadRequest if the request is
    malformed or names no trainer.
    """
    resume = body.get("resume")
    spec = spec_of({**body, "resume": resume if isinstance(resume, int) else None})
    if resume != "auto" or body.get("fresh"):
        return spec
    newest = newest_resumable(registry.get(spec.trainer).checkpoints(spec))
    return dataclasses.replace(spec, resume=newest.step if newest is not None else None)


def _plan(pod: Pod, body: StartBody) -> tuple[launch_plan.LaunchPlan | None, RefusedPlan | None]:
    """Return (the plan of a launch, None) or (None, why there is no plan). The plan is made by the
    launch's own code.
    """
    try:
        return launch_plan.make(pod.runs, body), None
    except AgentError as error:
        return None, {"type": error.type, "message": error.message}


def modules(run: RunFacts) -> list[str]:
    """Return the names of the Python packages of the training environments that a launch uses,
    without repeats. `run` has the facts of the launch; its settings name the environments. A
    package's name is derived as the library verifiers does it: the last part of the environment's
    id, with `-` replaced by `_`.
    """
    found: dict[str, None] = {}
    for key, value in (run.config or {}).items():
        named = key.rsplit(".", 1)[-1] == "id" and (".env." in key or ".source." in key)
        if "harness" in key or "runtime" in key or not isinstance(value, str):
            continue
        if named and value:
            found[value.split("@", 1)[0].rsplit("/", 1)[-1].replace("-", "_")] = None
    return list(found)


def needs_wandb(run: RunFacts) -> bool | None:
    """Return True if the launch whose facts are `run` will call W&B, False if not, and None if its
    settings are not known.
    """
    if run.config is None:
        return None
    used = False
    for side, monitors in itertools.product(("", "trainer.", "orchestrator."), ("", "monitors.")):
        table = f"{side}{monitors}wandb"
        if str(run.setting(f"{table}.offline")).lower() == "true":
            return False
        used = used or bool(run.setting(table) or run.under(table))
    return used


def _wait_for_sample(pod: Pod) -> None:
    """Wait until the GPUs were read after this call began, at most `FRESH_S` seconds. Otherwise the
    answer could name a process on a GPU that has just ended.
    """
    began = time.monotonic()
    while (waited := time.monotonic() - began) < FRESH_S:
        age = pod.gpus.latest()["age_s"]
        if age is not None and age < waited:
            return
        time.sleep(0.05)


def _gpus(pod: Pod) -> GpuPart:
    """Return the GPUs of the pod and the processes that hold their memory."""
    _wait_for_sample(pod)
    gpus = pod.gpu_facts()
    sample = pod.gpus.latest()
    return {
        "state": gpus.state,
        "detail": str(sample.get("detail") or ""),
        "driver": sample.get("driver"),
        "pids": gpus.pids,
        "devices": [
            {
                "index": i,
                "used": gpus.used.get(i),
                "total": gpus.total.get(i),
                "error": gpus.errors.get(i),
            }
            for i in sorted({*gpus.total, *gpus.used, *gpus.errors})
        ],
        "holders": [
            {
                "pid": h.identity.pid,
                "gpu": h.gpu,
                "command": shown_command(h.cmdline, _COMMAND),
                "run": h.run,
                "dead_run": h.dead_run,
            }
            for h in gpus.holders[:_TOLD]
        ],
    }


def _ports(pod: Pod, spec: LaunchSpec, run: RunFacts) -> list[NeededPort]:
    """Return every port on which the run will listen."""
    wanted = set(registry.get(spec.trainer).serves(spec))
    for key in (
        "orchestrator.env_server_base_port",
        "trainer.metrics_server.port",
        "metrics_server.port",
    ):
        text = "" if run.config is None else str(run.config.get(key, ""))
        if text.isdigit():
            wanted.add(int(text))
    held = {holder.port: holder for holder in pod.port_openers(wanted)}
    found: list[NeededPort] = []
    for port in sorted(wanted):
        row: NeededPort = {"port": port, "holder": None, "run": None}
        if (holder := held.get(port)) is not None:
            row["holder"], row["run"] = holder.line(), holder.run or holder.dead_run
        found.append(row)
    return found


def _checkpoint(checkpoint: Checkpoint) -> SavedStep:
    return {"step": checkpoint.step, "complete": checkpoint.complete, "bytes": checkpoint.bytes}


def listed(checkpoints: Sequence[Checkpoint]) -> StartPart:
    """Return the fields of an answer about a start that tell of `checkpoints`, which are in the
    order of their steps: the newest one by one, and how many older ones are complete or not.
    """
    older = checkpoints[:-_TOLD]
    whole = sum(checkpoint.complete for checkpoint in older)
    return {
        "checkpoints": [_checkpoint(c) for c in checkpoints[-_TOLD:]],
        "older": {"complete": whole, "incomplete": len(older) - whole},
    }


def _setting(run: RunFacts, *keys: str) -> float | None:
    """Return the first of the settings `keys` that is a number, or None."""
    return number(run.setting(*keys))
