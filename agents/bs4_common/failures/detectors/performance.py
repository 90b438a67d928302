"""Detectors for where the time of a step goes, and for GPUs that are paid for and idle.

The share of a step in which the trainer waits for rollouts is the trainer's own measurement if it
writes one (metrics.jsonl of the current generation). Otherwise it comes from the step lines of the
two sides (trainer and orchestrator): the trainer works on step N from the moment at which it has
both batch N and its step N - 1 finished.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from bs4_common.credentials.forms import shown_command
from bs4_common.failures.compiled import Parameters
from bs4_common.failures.detectors.reporting import found
from bs4_common.failures.evidence import Evidence, as_evidence
from bs4_common.failures.facts import Facts, Finding, GpuFacts, RunFacts
from bs4_common.failures.series import last, pace_s, series, step_evidence, total
from bs4_common.states import Role, Severity

_TRAINING = ("rank", "trainer")
_SERVING = ("inference", "engine", "worker")
#: "7B", "1.5b", "30B-A3B": the first size in a model's name counts all its weights.
_SIZE = re.compile(r"(?<![\w.])(\d{1,4}(?:\.\d{1,3})?)[bB](?![a-z])")
#: GPUs whose tensor parallelism uses NVLink. All others are assumed to be on PCIe.
_NVLINK = re.compile(r"SXM|HBM3|NVL|\bB[23]00\b|\bGB[23]00\b|\bH200\b", re.IGNORECASE)
_BIG_GPU = re.compile(r"\b(?:H100|H200|B200|GH200)\b")
_UPLOADERS = ("b2", "rclone", "aws", "gsutil", "s5cmd", "azcopy")
#: Seconds, and usual steps. A longer gap between steps counts as one of the catalog's: 15 to 30
#: minutes were measured, with steps of 3 to 5 minutes.
_GAP_S, _GAP_STEPS = 600.0, 3.0


def rollout_share(run: RunFacts, steps: int) -> float | None:
    """Return the share of time, in percent, that the trainer spent waiting for rollouts in the last
    `steps` steps, or None if the logs do not show it for that number of steps.
    """
    waits = last(series(run, "trainer", "wait_s"), steps)
    times = last(series(run, "trainer", "time_s"), steps)
    if not waits or not times or waits[0][0] != times[0][0]:
        return _from_lines(run, steps)
    if total(times) > 0:
        return 100.0 * total(waits) / total(times)
    return None


def _from_lines(run: RunFacts, steps: int) -> float | None:
    """Return that percentage from the step lines of both sides, or None if a line is missing."""
    done = dict(series(run, "trainer", "m"))
    shipped = dict(series(run, "orchestrator", "m"))
    passed = waited = 0.0
    for step in sorted(done)[-steps:]:
        if step - 1 not in done or step not in shipped:
            return None
        passed += done[step] - done[step - 1]
        waited += max(0.0, shipped[step] - done[step - 1])
    if passed > 0 and len(done) > steps:
        return 100.0 * waited / passed
    return None


def rollout_latency_bound(facts: Facts, run: RunFacts, parameters: Parameters) -> Sequence[Finding]:
    """Return a list with one finding (the reported failure, with its evidence) if latency limits
    the run, else an empty list. That is so if the trainer spent more than
    `parameters["rollout_share"]` percent of the last `parameters["steps"]` steps waiting for
    rollouts, while the run's GPUs were used less than `parameters["idle_util"]` percent (mean of
    ten minutes) or its training environment runs code on a remote executor. All three keys must be
    given.
    """
    if _bound(run, int(parameters["steps"]), float(parameters["rollout_share"])) is None:
        return []
    backend = next(
        (
            value
            for key, value in (run.config or {}).items()
            if key.endswith("executor_backend") and value != "local"
        ),
        None,
    )
    serving, training = _mean(facts.gpus, run, _SERVING), _mean(facts.gpus, run, _TRAINING)
    idle = (
        serving is not None
        and serving < float(parameters["idle_util"])
        and (training is None or training < float(parameters["idle_util"]))
    )
    if backend is None and not idle:
        return []
    why = "the GPUs are idle meanwhile"
    if backend is not None:
        why = f"the environment's executor is {backend!r}"
    text = (
        f"More than {float(parameters['rollout_share']):g} % of each step is spent on waiting for "
        f"rollouts, and {why}: it is bound by latency."
    )
    return _found(run, "rollout-latency-bound", text, _breakdown(run), "warning", "root")


def inference_bottleneck(facts: Facts, run: RunFacts, parameters: Parameters) -> Sequence[Finding]:
    """Return a list with one finding (the reported failure, with its evidence) if generation limits
    a running run, else an empty list. That is so if the trainer waited for rollouts for more than
    `rollout_share` percent of the last `bound_steps` steps, its GPUs were used less than
    `idle_util` percent and the inference GPUs at least `busy_util` percent (means of ten minutes).
    Return one also if all these GPUs were used less than `idle_util` percent while steps advance.

    `parameters` must hold these four keys. Nothing is found if the use of the GPUs is unknown.
    """
    serving, training = _mean(facts.gpus, run, _SERVING), _mean(facts.gpus, run, _TRAINING)
    if (
        run.state != "running"
        or serving is None
        or training is None
        or run.trainer_side.steps < int(parameters["bound_steps"])
    ):
        return []
    low = float(parameters["idle_util"])
    share = _bound(run, int(parameters["bound_steps"]), float(parameters["rollout_share"]))
    if share is not None and serving >= float(parameters["busy_util"]) and training < low:
        text = (
            "Generation sets the pace: the inference GPUs are busy, the trainer's wait for most "
            "of each step."
        )
        return _found(run, "inference-bottleneck", text, _breakdown(run), "info", "root")
    if serving < low and training < low and _advances(facts, run):
        text = (
            f"All GPUs of this run are used less than {low:g} % on average, although steps advance."
        )
        return _found(run, "inference-bottleneck", text, _breakdown(run), "info", "root", "idle")
    return []


def tp_slow(facts: Facts, run: RunFacts, parameters: Parameters) -> Sequence[Finding]:
    """Return a list with one finding (the reported failure, with its evidence) if a model with
    fewer than `parameters["billions"]` billion parameters (must be given) is served with tensor
    parallelism, and no GPU of the pod is known to have NVLink. Else return an empty list. The size
    comes from the model's name; without a size in it nothing is found.
    """
    tp = run.setting(
        "inference.vllm.tensor_parallel_size",
        "inference.parallel.tp",
        "actor_rollout_ref.rollout.tensor_model_parallel_size",
    )
    model = run.setting(
        "inference.vllm.model", "inference.model.name", "model.name", "actor_rollout_ref.model.path"
    )
    size = _SIZE.search(str(model)) if model else None
    if (
        not isinstance(tp, int)
        or tp < 2
        or size is None
        or float(size.group(1)) >= float(parameters["billions"])
        or _any_gpu(facts, _NVLINK)
    ):
        return []
    text = (
        f"{model} is served with tensor parallelism over {tp} GPUs that talk over PCIe; it would "
        f"be faster as {tp} servers side by side."
    )
    evidence = [_config(run, f"tensor parallel = {tp}, model = {model}")]
    return _found(run, "tp-slow", text, evidence, "info", "warning")


def offload_slow(facts: Facts, run: RunFacts, parameters: Parameters) -> Sequence[Finding]:
    """Return a list with one finding (the reported failure, with its evidence) if FSDP's offload of
    parameters or optimizer is on, although a GPU of the pod is of a kind with much memory (H100,
    H200, B200, GH200), else an empty list. Nothing is found if the kind of the GPUs is unknown.
    `parameters` is not used.
    """
    keys = sorted(
        key
        for key, value in (run.config or {}).items()
        if key.endswith(("param_offload", "optimizer_offload")) and value in (True, "True", "true")
    )
    if not keys or not _any_gpu(facts, _BIG_GPU):
        return []
    text = (
        f"{', '.join(keys)} moves weights over PCIe at each step; on these GPUs that was "
        "slow and freed no memory that was needed."
    )
    evidence = [_config(run, f"{key} = true") for key in keys]
    return _found(run, "offload-slow", text, evidence, "info", "warning")


def sync_blocks_training(facts: Facts, run: RunFacts, parameters: Parameters) -> Sequence[Finding]:
    """Return a list with one finding (the reported failure, with its evidence) if one of the run's
    own processes is an upload tool, and at least `parameters["occurrences"]` (default 2) unusually
    long gaps between two of the trainer's steps contain the saving of a checkpoint. Else return an
    empty list. A gap is unusually long if it lasts at least ten minutes and three times a usual
    step.
    """
    pace = pace_s(run)
    uploader = next((m for m in run.members if _uploads(m.cmdline)), None)
    if pace is None or uploader is None:
        return []
    saves = run.events_of("save")
    blocked = []
    for earlier, later in pairwise(run.events_of("step", "trainer")):
        if later.m - earlier.m >= max(_GAP_S, _GAP_STEPS * pace):
            blocked += [save for save in saves if earlier.m <= save.m <= later.m][:1]
    if len(blocked) < int(parameters.get("occurrences", 2)):
        return []
    text = (
        "Training stands still after checkpoints while they are uploaded: the upload runs inside "
        "the step."
    )
    evidence = [
        *(e.evidence() for e in blocked[:2]),
        _config(run, shown_command(uploader.cmdline, 200)),
    ]
    return _found(run, "sync-blocks-training", text, evidence, "info", "warning")


def _uploads(cmdline: Sequence[str]) -> bool:
    """Return True if the command is an upload tool."""
    return any(word.rpartition("/")[2] in _UPLOADERS for word in cmdline[:2])


def _bound(run: RunFacts, steps: int, least: float) -> float | None:
    """Return the percentage of waiting in the last `steps` steps, or None if it is not above
    `least`.
    """
    share = rollout_share(run, steps)
    if share is not None and share > least:
        return share
    return None


def _mean(gpus: GpuFacts, run: RunFacts, components: Sequence[str]) -> float | None:
    """Return the mean use, in percent over ten minutes, of the GPUs that these components of the
    run hold, or None if it is unknown.
    """
    mine = gpus.held_by(run, components)
    if not mine or not mine <= gpus.mean_util.keys():
        return None
    return sum(gpus.mean_util[gpu] for gpu in mine) / len(mine)


def _any_gpu(facts: Facts, kind: re.Pattern[str]) -> bool:
    """Return True if the name of any GPU matches."""
    return any(kind.search(name) for name in facts.gpus.names.values())


def _advances(facts: Facts, run: RunFacts) -> bool:
    """Return True if the trainer's last step is less than three usual steps ago."""
    pace, at = pace_s(run), run.trainer_side.last_step_m
    return pace is not None and at is not None and facts.now_m - at < 3.0 * pace


def _breakdown(run: RunFacts) -> list[Evidence]:
    """Return evidence for the parts of the last step whose times are known."""
    parts = []
    for key, word in (
        ("wait_s", "waiting for rollouts"),
        ("compute_s", "computing"),
        ("broadcast_s", "broadcasting"),
        ("save_s", "saving"),
    ):
        if points := series(run, "trainer", key):
            parts.append(f"{word} {points[-1][1]:.1f} s")
    step = run.last_event("step", "trainer")
    evidence = [step.evidence()] if step is not None else []
    if parts:
        evidence.append(step_evidence(run, "trainer", "of the last step: " + ", ".join(parts)))
    return evidence


def _config(run: RunFacts, text: str) -> Evidence:
    """Return evidence from the run's config."""
    return as_evidence("files", text, str(run.spec.config_path))


def _found(
    run: RunFacts,
    failure: str,
    text: str,
    evidence: Sequence[Evidence],
    severity: Severity,
    role: Role,
    what: str = "",
) -> list[Finding]:
    """Return a list with one finding of this module. `what` tells several findings of one failure
    apart.
    """
    return found(failure, run, text, evidence, f"performance:{what}", severity=severity, role=role)
