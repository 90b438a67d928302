"""Detectors for configurations that will fail: shared GPUs, a model that is too big, ignored keys,
colliding directories and drifting names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from bs4_common.credentials.exposed import Exposed, exposures
from bs4_common.failures.compiled import Parameters
from bs4_common.failures.detectors.reporting import GIB, found, live, number, quiet, setting, size
from bs4_common.failures.evidence import as_evidence, file_evidence, process_evidence
from bs4_common.failures.facts import Facts, Finding, RunFacts
from bs4_common.runs.model import Member

Found = Sequence[Finding]

#: `Qwen2.5-7B-Instruct`, `Qwen3-30B-A3B`: the first number counts all parameters, the number after
#: A only the active ones.
_BILLIONS = re.compile(r"(?<![A-Za-z0-9.])(\d{1,4}(?:\.\d{1,3})?)[Bb](?![A-Za-z0-9])")
_QUANTISED = re.compile(r"fp8|int[48]|awq|gptq|mxfp4|[48]-?bit|gpt-oss", re.IGNORECASE)
_BF16, _FP32 = 2.0, 4.0
#: Kinds of exposed keys that one finding names.
_KEYS_TOLD = 8


def shared_gpu_budget(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the settings give
    inference and trainer the same GPU and let inference take more than the share
    `parameters["utilization"]` (0 to 1, default 0.5) of its memory. Else, or if the settings are
    unknown, return an empty list. A run whose trainer has made two steps, without a log line about
    missing GPU memory, gives no finding.
    """
    if quiet(run) or run.config is None:
        return []
    infer, train = _ids(run.setting("inference_gpu_ids")), _ids(run.setting("trainer_gpu_ids"))
    both = sorted(infer & train)
    share = number(
        run.setting("inference.gpu_memory_utilization", "inference.vllm.gpu_memory_utilization")
    )
    share = 0.9 if share is None else share
    limit = float(parameters.get("utilization", 0.5))
    refused = run.events_of("gpu-memory")[:1]
    fits = not refused and run.trainer_side.steps >= 2
    if not both or share <= limit or fits:
        return []
    evidence = [
        setting(
            run, "inference_gpu_ids and trainer_gpu_ids", f"both name {', '.join(map(str, both))}"
        ),
        setting(
            run, "inference.gpu_memory_utilization", f"{share:g}, limit {limit:g} on a shared GPU"
        ),
    ]
    for event in refused:
        evidence.append(event.evidence())
    text = (
        f"Inference may take {100 * share:.0f} % of GPU {both[0]}, on which the trainer stands too."
    )
    return found("shared-gpu-budget", run, text, evidence, "config:shared-gpu")


def model_too_big(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if inference or the
    trainer would need more than `parameters["percent"]` percent (default 90) of the memory of the
    pod's smallest GPU on each of its GPUs, else an empty list. The number of parameters comes from
    the model's name; without one in it, or for a quantised model or a run that has made a step,
    nothing is found.

    The estimate is BF16 weights and 15 % more for inference, and FP32 weights for the trainer, each
    divided by the number of GPUs that hold the weights.
    """
    name = str(
        run.setting("model.name", "trainer.model.name", "actor_rollout_ref.model.path") or ""
    )
    match = _BILLIONS.search(name.rsplit("/", 1)[-1])
    room = min(facts.gpus.total.values(), default=0)
    if match is None or _QUANTISED.search(name) or not room or quiet(run) or run.trainer_side.steps:
        return []
    billions = float(match.group(1)) * 1e9
    trainers = len(_ids(run.setting("trainer_gpu_ids"))) or int(
        number(run.setting("deployment.num_train_gpus")) or 1
    )
    parallel = run.setting("inference.parallel.tp", "inference.vllm.tensor_parallel_size")
    limit = float(parameters.get("percent", 90)) / 100 * room
    needs = {
        "inference": billions * _BF16 * 1.15 / max(number(parallel) or 1, 1),
        "the trainer": billions * _FP32 / max(trainers, 1),
    }
    over = {side: need for side, need in needs.items() if need > limit}
    if not over:
        return []
    evidence = [
        setting(run, "model.name", name),
        as_evidence("gpu", f"{size(room)} a GPU; usable for a model: {size(limit)}"),
    ]
    for side, need in over.items():
        evidence.append(as_evidence("estimate", f"{side} needs about {need / GIB:.0f} GiB a GPU"))
    return found(
        "model-too-big",
        run,
        f"{name} needs about {max(over.values()) / GIB:.0f} GiB a GPU; {size(room)} are there.",
        evidence,
        "config:model",
    )


def curriculum_noop(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the last part of
    a key in the run's settings begins with `curriculum_`, else an empty list. No training
    environment reads keys of this form, so they have no effect. `parameters` is not used.
    """
    keys = sorted(
        key for key in run.config or {} if key.rsplit(".", 1)[-1].startswith("curriculum_")
    )
    if not keys or quiet(run):
        return []
    evidence = [setting(run, key, "nothing reads this key") for key in keys]
    text = f"{keys[0]} is set, and no environment reads it: every step draws from all tasks."
    return found("curriculum-noop", run, text, evidence, "config:curriculum")


def run_rejected(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the trainer of a
    run of prime-rl's version of January 2026 has refused the run's config since this attempt began,
    and has made no step, else an empty list. The refusal is read from configs/error.txt, into which
    the trainer writes its reason. `parameters` is not used.
    """
    around = run.environment
    if (
        around is None
        or not around.rejected
        or around.rejected_t < run.started_t
        or run.trainer_side.steps
        or quiet(run)
    ):
        return []
    path = run.layout.run_dir / "configs" / "error.txt"
    lines = around.rejected.strip().splitlines()
    summary = f"The trainer refused this run: {lines[-1][:200] if lines else 'it does not say why'}"
    return found(
        "run-rejected",
        run,
        summary,
        [file_evidence(path, around.rejected.strip()[:1000])],
        "files:error.txt",
    )


def run_dir_collision(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if another live run
    of this pod writes to the same run directory as this live run, else an empty list. `parameters`
    is not used.
    """
    if not live(run) or run.spec.component != "rl":
        return []
    directory = run.layout.run_dir
    for other in facts.runs:
        same = other.name != run.name and other.layout.run_dir == directory
        if not same or not live(other) or other.spec.component != "rl":
            continue
        evidence = [file_evidence(directory, f"written by {run.name} and {other.name}")]
        for one in (run, other):
            for m in one.alive("launcher"):
                evidence.append(process_evidence(m.identity, f"launcher of {one.name}"))
        text = f"{run.name} and {other.name} write to one directory."
        anchor = f"files:{directory}"
        return found("run-dir-collision", run, text, evidence, anchor, others=(other.name,))
    return []


def secrets_exposed(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the command line
    of any of the run's processes shows a credential, because every user of the machine can read
    command lines, else an empty list. While the run lives, its ended processes count, too. The
    evidence names the option and the process and never holds the credential. `parameters` is not
    used.
    """
    showing: dict[Exposed, list[Member]] = {}
    for member in sorted(run.members, key=lambda member: not member.alive):
        if not member.alive and not live(run):
            break
        shown = member.exposed if member.exposed is not None else exposures(member.cmdline)
        for one in shown:
            showing.setdefault(one, []).append(member)
    if not showing:
        return []
    evidence = []
    for one, members in list(showing.items())[:_KEYS_TOLD]:
        holder = members[0].component or "a process of the run"
        text = f"the command line of {holder} holds what looks like {one} (not shown)"
        if len(members) > 1:
            text += f"; so do {len(members) - 1} more of the run"
        evidence.append(process_evidence(members[0].identity, text))
    first, members = next(iter(showing.items()))
    words = str(first)
    holder = members[0].component or "a process of the run"
    summary = (
        f"{words[0].upper()}{words[1:]} stands in the command line of {holder}, where every user "
        "of the machine can read it."
    )
    return found("secrets-exposed", run, summary, evidence, "argv")


def path_drift(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the run writes
    somewhere else than this pod's records say. Else return an empty list. There are two such cases.

    Either the run has been running for `parameters["after_s"]` seconds (default 180), its launcher
    has started other processes (before that, it may download a model for longer), and none of its
    logs is where it should be. Or checkpoints of the run lie under two prefixes in the object
    store, as the list `remote` of `facts.console` (what only the console can see) shows.
    """
    rows = facts.rows("remote", run)
    prefixes = sorted({str(row["prefix"]) for row in rows if row.get("prefix")})
    if len(prefixes) > 1:
        evidence = []
        for prefix in prefixes:
            evidence.append(as_evidence("store", f"holds steps of {run.name}", prefix))
        text = f"Steps of {run.name} lie under {len(prefixes)} remote prefixes."
        return found("path-drift", run, text, evidence, "remote:" + ",".join(prefixes))
    around = run.environment
    if (
        around is None
        or around.logs_found is not False
        or run.state != "running"
        or quiet(run)
        or run.spec.component != "rl"
        or facts.now_m - run.started_m < float(parameters.get("after_s", 180))
        or {one.component for one in run.living} <= {"launcher", "uv"}
    ):
        return []
    evidence = [file_evidence(run.layout.output_dir, "none of the run's logs is here")]
    for p in around.processes or ():
        if p.cwd not in (None, run.spec.cwd):
            text = f"{p.component} works in {p.cwd}, the record says {run.spec.cwd}"
            evidence.append(process_evidence(p.identity, text))
    text = f"{run.name} has run for minutes and writes nothing to {run.layout.output_dir}."
    return found("path-drift", run, text, evidence, "files:logs")


def phase_switch_lineage(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the run resumes,
    but its model, adapter or W&B run has another name in the settings than in the earlier attempt
    that last recorded these names. With another name, the adapter is not loaded, or the curves on
    W&B break in two. Else, or if either names are unknown, return an empty list. `parameters` is
    not used.
    """
    around = run.environment
    if (
        around is None
        or run.resume is None
        or around.lineage is None
        or around.lineage_before is None
        or quiet(run)
    ):
        return []
    changed, evidence = [], []
    for key in sorted({*around.lineage, *around.lineage_before}):
        now, before = around.lineage.get(key), around.lineage_before.get(key)
        if now != before:
            changed.append(key)
            evidence.append(setting(run, key, f"{now!r}, before {before!r}"))
    if not changed:
        return []
    text = (
        f"This attempt resumes step {run.resume} with another {' and '.join(changed)} than the "
        "one before."
    )
    return found("phase-switch-lineage", run, text, evidence, "config:" + ",".join(changed))


def _ids(value: Any) -> set[int]:
    """Return GPU ids from a TOML list or from the command line's `[0, 1]` or `0,1`. Empty if there
    are none.
    """
    if isinstance(value, (list, tuple)):
        return {int(item) for item in value if str(item).strip().isdigit()}
    if value is not None:
        return {int(word) for word in re.findall(r"\d+", str(value))}
    return set()
