"""Rules of the current prime-rl that go beyond single values. The constraints are those of the
validators of prime-rl at 559b44772.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from bs4_console.configs.catalog import finding
from bs4_console.configs.families import rendered
from bs4_console.configs.findings import Edit, Finding, Path, dotted
from bs4_console.configs.rules_january import RANKS
from bs4_console.configs.schema import load, refused
from bs4_console.configs.view import View

#: Environment variables that the launcher sets itself and refuses in a config.
PROTECTED = {
    "CUDA_VISIBLE_DEVICES",
    "PRL_RUN_ID",
    "PRL_RUN_NAME",
    "WANDB_RUN_ID",
    "WANDB_SHARED_MODE",
    "WANDB_SHARED_LABEL",
    "WANDB_SHARED_PRIMARY",
    "WANDB_SHARED_FINISHER",
}

#: The components' own keys that may not disagree with a shared value, by its key.
SHARED = {
    "model.name": ("trainer.model.name", "inference.vllm.model", "orchestrator.model.name"),
    "model.vlm": ("trainer.model.vlm", "orchestrator.model.vlm"),
    "log.level": ("trainer.log.level", "orchestrator.log.level", "inference.log.level"),
    "log.json_logging": (
        "trainer.log.json_logging",
        "orchestrator.log.json_logging",
        "inference.log.json_logging",
    ),
    "ckpt.output_dir": ("trainer.ckpt.output_dir",),
    **{
        f"ckpt.{key}": (f"trainer.ckpt.{key}", f"orchestrator.ckpt.{key}")
        for key in ("interval", "keep_last", "keep_interval")
    },
    **{
        f"monitors.wandb.{key}": (
            f"trainer.monitors.wandb.{key}",
            f"orchestrator.monitors.wandb.{key}",
        )
        for key in ("project", "entity", "name", "group", "tags", "offline")
    },
    "monitors.file.path": ("trainer.monitors.file.path", "orchestrator.monitors.file.path"),
    "monitors.prime.name": ("orchestrator.monitors.prime.name",),
    "tokenizer.name": ("trainer.tokenizer.name", "orchestrator.tokenizer.name"),
    "tokenizer.trust_remote_code": (
        "trainer.tokenizer.trust_remote_code",
        "orchestrator.tokenizer.trust_remote_code",
    ),
    "tokenizer.chat_template": (
        "trainer.tokenizer.chat_template",
        "orchestrator.tokenizer.chat_template",
        "inference.vllm.chat_template",
    ),
    "rollout_transport": ("trainer.rollout_transport", "orchestrator.rollout_transport"),
    "max_steps": ("trainer.max_steps", "orchestrator.max_steps"),
    "slurm": ("inference.slurm",),
}


def check(view: View) -> Iterator[Finding]:
    """Yield the findings of every rule in this module about the config of a whole training."""
    yield from conflicts(view)
    yield from deployment(view)
    yield from batching(view)
    yield from broadcast(view)
    yield from adapter(view)
    yield from agreement(view)
    yield from resuming(view)
    yield from metrics_port(view)
    yield from sources(view)
    yield from variables(view)
    yield from trainer(view)
    yield from offloaded_cache(view)
    yield from renderer(view)
    yield from algorithms(view)


def refuse(view: View, place: str, message: str, fix: str) -> Finding:
    """Return a finding `schema`: the trainer refuses the value at `place`, a dotted key."""
    return finding("schema", view.line(place), message, fix)


def conflicts(view: View) -> Iterator[Finding]:
    """Yield a finding for each component's value that disagrees with the shared value, and for each
    component's output_dir.
    """
    for shared, targets in SHARED.items():
        for place in targets:
            if view.has(shared) and view.has(place) and view.written(shared) != view.written(place):
                fix = f"Keep {shared} or {place}."
                yield finding(
                    "schema", view.line(place), f"{place} disagrees with the shared {shared}.", fix
                )
    yield from handed_on(view)
    for side in ("trainer", "orchestrator"):
        if view.has(f"{side}.output_dir"):
            yield refuse(
                view,
                f"{side}.output_dir",
                f"{side}.output_dir follows from output_dir and run.name.",
                "Remove it.",
            )


def handed_on(view: View) -> Iterator[Finding]:
    """Yield a finding for each shared value that a component refuses. Components are stricter than
    the shared tables in places.
    """
    for shared, targets in SHARED.items():
        path = tuple(shared.split("."))
        for place in targets if view.has(shared) else ():
            problems = refused(view.generation, tuple(place.split(".")), view.written(shared), path)
            if problems and (not place.startswith("inference.") or view.has("inference")):
                message = (
                    f"{shared} = {view.written(shared)} is handed on to {place}, which is to be "
                    f"{problems[0].wanted}."
                )
                yield refuse(view, shared, message, f"Use {problems[0].wanted}.")
                break


def deployment(view: View) -> Iterator[Finding]:
    """Yield findings about GPUs and nodes: more GPUs than there are, groups that do not divide, and
    what a deployment over several nodes needs.
    """
    place = "deployment"
    if view.get("deployment.type") == "multi_node":
        nodes = view.written("deployment.num_infer_nodes")
        if not view.has("slurm"):
            yield refuse(
                view,
                "deployment.type",
                "A deployment over several nodes needs [slurm].",
                "Add it, or use one node.",
            )
        elif nodes == 0 and view.has("inference"):
            yield refuse(
                view,
                "deployment.num_infer_nodes",
                "No inference nodes, and an [inference] table.",
                "Remove one of the two.",
            )
        elif nodes and not view.has("inference"):
            yield refuse(
                view,
                "deployment.num_infer_nodes",
                "Inference nodes, and no [inference] table.",
                "Add it.",
            )
        return
    train, infer = (
        view.number("deployment.num_train_gpus") or 0,
        view.number("deployment.num_infer_gpus") or 0,
    )
    node = view.number("deployment.gpus_per_node") or 8
    counted = view.line("deployment.num_train_gpus", "deployment.num_infer_gpus", place)
    if train + infer > node:
        yield finding(
            "R25",
            counted,
            f"{train:g} GPUs for the trainer and {infer:g} for inference are more than the "
            f"node's {node:g}.",
        )
    elif view.given.gpus is not None and train + infer > view.given.gpus:
        yield finding(
            "R25", counted, f"{train:g} and {infer:g} GPUs, on a pod with {view.given.gpus}."
        )
    tensor = view.number("inference.vllm.tensor_parallel_size") or 1
    replicas = view.number("inference.vllm.data_parallel_size") or 1
    if view.has("inference") and infer != replicas * tensor and infer % tensor:
        where = "inference.vllm.tensor_parallel_size"
        yield refuse(
            view,
            where,
            f"{infer:g} inference GPUs cannot be split into groups of {tensor:g}.",
            "Make them a multiple of it.",
        )
    kind = None
    if view.has("inference"):
        kind = view.get("inference.deployment.type")
    if kind in ("multi_node", "disaggregated") and not (
        view.has("slurm") or view.has("inference.slurm")
    ):
        yield refuse(
            view,
            "inference.deployment.type",
            "Inference over several nodes needs [slurm].",
            "Add it.",
        )
    if kind == "single_node" and view.written("inference.router.type") == "llm-d":
        yield refuse(
            view,
            "inference.router.type",
            "The llm-d router is for several nodes.",
            'Use "vllm-router".',
        )


def batching(view: View) -> Iterator[Finding]:
    """Yield findings about batch sizes and about rollouts in flight of the orchestrator."""
    if view.has("orchestrator.batch_size") and view.has("orchestrator.token_batch_size"):
        yield refuse(
            view,
            "orchestrator.token_batch_size",
            "batch_size and token_batch_size exclude each other.",
            "Keep one of them.",
        )
    group = view.number("orchestrator.group_size") or 1
    yield from inflight(view, "orchestrator.concurrency", group)


def inflight(view: View, table: str, group: float | None) -> Iterator[Finding]:
    """Yield findings about the limits of rollouts in flight in `table`, a dotted key.

    `group` is the number of rollouts of one prompt, which has to fit into the limits. None means
    that it is not known.
    """
    most = view.get(f"{table}.max_inflight")
    for key in ("max_inflight", "initial_inflight"):
        value = view.get(f"{table}.{key}")
        if group is not None and isinstance(value, int) and value < group:
            yield refuse(
                view,
                f"{table}.{key}",
                f"{key} = {value} is less than a group of {group:g}.",
                "Raise it.",
            )
    for key in ("initial_inflight", "min_inflight"):
        value = view.get(f"{table}.{key}")
        if isinstance(value, int) and isinstance(most, int) and value > most:
            yield refuse(
                view,
                f"{table}.{key}",
                f"{key} = {value} is more than max_inflight = {most}.",
                "Lower it.",
            )


def broadcast(view: View) -> Iterator[Finding]:
    """Yield findings about how weights and rollouts are sent: LoRA, NCCL, quantized transfer, and
    sides that do not match.
    """
    shared = view.table("weight_broadcast").get("type")
    lora = isinstance(view.written("trainer.model.lora"), dict)
    own = view.table("trainer.weight_broadcast").get("type", "filesystem")
    if lora and (shared in ("nccl", "nixl") or own in ("nccl", "nixl")):
        place = "trainer.weight_broadcast.type"
        if shared in ("nccl", "nixl"):
            place = "weight_broadcast.type"
        edits = (Edit("set", tuple(place.split(".")), "filesystem"),)
        yield finding(
            "schema",
            view.line(place),
            "LoRA adapters go by the filesystem only.",
            'Set weight_broadcast.type = "filesystem".',
            edits,
        )
    gpus = (view.number("deployment.num_train_gpus") or 0) + (
        view.number("deployment.num_infer_gpus") or 0
    )
    if view.get("deployment.type") != "multi_node" and (own == "nccl") and gpus < 2:
        yield refuse(
            view,
            "trainer.weight_broadcast.type",
            "NCCL weight broadcast needs at least two GPUs.",
            "Use filesystem.",
        )
    mine, theirs = (
        view.table("trainer.rollout_transport").get("type", "zmq"),
        view.table("orchestrator.rollout_transport").get("type", "zmq"),
    )
    if not view.has("rollout_transport") and mine != theirs:
        place = "orchestrator.rollout_transport"
        if view.has("trainer.rollout_transport"):
            place = "trainer.rollout_transport"
        yield refuse(
            view,
            place,
            "Rollouts are sent one way and awaited another.",
            "Use the shared [rollout_transport].",
        )
    if view.written("weight_broadcast.quantize_in_weight_transfer") is True:
        if not view.has("inference") or view.get("trainer.model.impl") != "custom":
            where = "weight_broadcast.quantize_in_weight_transfer"
            yield refuse(
                view,
                where,
                'Quantized transfer needs [inference] and trainer.model.impl = "custom".',
                "Remove it.",
            )
    elif view.written("inference.vllm.enable_eplb") is True:
        yield refuse(
            view,
            "inference.vllm.enable_eplb",
            "enable_eplb needs quantized NCCL weight transfer.",
            "Remove it.",
        )


def adapter(view: View) -> Iterator[Finding]:
    """Yield findings about LoRA values that differ from the trainer's, and about a rank that vLLM
    does not serve.
    """
    if isinstance(view.written("trainer.model.lora"), dict):
        for key in ("rank", "alpha"):
            place = f"orchestrator.model.lora.{key}"
            if view.has(place) and view.written(place) != view.get(f"trainer.model.lora.{key}"):
                edits = (Edit("remove", tuple(place.split("."))),)
                yield finding(
                    "schema",
                    view.line(place),
                    f"{place} is not the trainer's {key}.",
                    "Remove it; it follows the trainer's.",
                    edits,
                )
    rank = view.number("inference.vllm.max_lora_rank")
    if rank is not None and rank > RANKS:
        yield refuse(
            view,
            "inference.vllm.max_lora_rank",
            f"vLLM serves adapters up to rank {RANKS}.",
            "Lower it.",
        )


def _counts(view: View, shared: str, place: str) -> Any:
    """Return the value that counts at `place`: the component's own, or the shared one, or the
    default.
    """
    if view.has(place):
        return view.written(place)
    if view.has(shared):
        return view.written(shared)
    return view.get(place)


def agreement(view: View) -> Iterator[Finding]:
    """Yield a finding for each value that trainer, orchestrator and inference need to have in
    common and do not.
    """
    trainer_name = _counts(view, "model.name", "trainer.model.name")
    asks = _counts(view, "model.name", "orchestrator.model.name")
    if isinstance(view.written("inference"), dict):
        serves = _counts(view, "model.name", "inference.vllm.model")
        if serves != asks:
            place = "orchestrator.model.name"
            if view.has("inference.vllm.model"):
                place = "inference.vllm.model"
            message = f"The inference server has {serves}, and the orchestrator asks for {asks}."
            yield refuse(view, place, message, "Set model.name once, at the top.")
    elif trainer_name != asks and not str(trainer_name).startswith("Jackmin108/"):
        place = "orchestrator.model.name"
        if view.has("trainer.model.name"):
            place = "trainer.model.name"
        yield refuse(
            view,
            place,
            f"The trainer has {trainer_name}, and the orchestrator {asks}.",
            "Set model.name once, at the top.",
        )
    steps = []
    for side in ("trainer", "orchestrator"):
        steps.append(_counts(view, "max_steps", f"{side}.max_steps"))
    if steps[0] != steps[1]:
        place = "orchestrator.max_steps"
        if view.has("trainer.max_steps"):
            place = "trainer.max_steps"
        yield refuse(
            view,
            place,
            f"max_steps is {steps[0]} for the trainer and {steps[1]} for the orchestrator.",
            "Set max_steps at the top.",
        )
    template = []
    for side in ("trainer", "orchestrator"):
        template.append(_counts(view, "tokenizer.chat_template", f"{side}.tokenizer.chat_template"))
    served = _counts(view, "tokenizer.chat_template", "inference.vllm.chat_template") or template[0]
    if template[0] != template[1] or (view.has("inference") and served != template[0]):
        place = "tokenizer.chat_template"
        for p in SHARED["tokenizer.chat_template"]:
            if view.has(p):
                place = p
                break
        yield refuse(
            view,
            place,
            "chat_template is not the same everywhere.",
            "Set [tokenizer] chat_template at the top.",
        )
    sides = []
    for side in ("trainer", "orchestrator"):
        if isinstance(view.written(f"{side}.ckpt"), dict):
            sides.append(side)
    if not isinstance(view.written("ckpt"), dict) and len(sides) == 1:
        yield refuse(
            view,
            f"{sides[0]}.ckpt",
            "Checkpoints are on for one side only.",
            "Use the shared [ckpt].",
        )
    elif sides or view.has("ckpt"):
        intervals = []
        for side in ("trainer", "orchestrator"):
            intervals.append(_counts(view, "ckpt.interval", f"{side}.ckpt.interval"))
        if intervals[0] != intervals[1]:
            place = "orchestrator.ckpt.interval"
            if view.has("trainer.ckpt.interval"):
                place = "trainer.ckpt.interval"
            yield refuse(
                view,
                place,
                "Trainer and orchestrator checkpoint at different intervals.",
                "Use the shared [ckpt].",
            )
    yield from wandb(view)


def wandb(view: View) -> Iterator[Finding]:
    """Yield findings about W&B: an offline shared run, one side without it, or two different
    projects.
    """
    if view.written("monitors.wandb.offline") is True:
        yield refuse(
            view, "monitors.wandb.offline", "The shared W&B run cannot be offline.", "Remove it."
        )
    if isinstance(view.written("monitors.wandb"), dict):
        return
    sides = []
    for side in ("trainer", "orchestrator"):
        if isinstance(view.written(f"{side}.monitors.wandb"), dict):
            sides.append(side)
    if len(sides) == 1:
        yield refuse(
            view,
            f"{sides[0]}.monitors.wandb",
            "W&B is on for one side only.",
            "Use [monitors.wandb].",
        )
    elif sides and view.get("trainer.monitors.wandb.project") != view.get(
        "orchestrator.monitors.wandb.project"
    ):
        yield refuse(
            view,
            "trainer.monitors.wandb",
            "Trainer and orchestrator have different W&B projects.",
            "Use [monitors.wandb].",
        )


def resume_tables(view: View) -> Iterator[Finding]:
    """Yield findings about each [resume] table by itself: step with dir, or a dir that is no
    checkpoint's step directory.
    """
    for table in ("resume", "trainer.resume", "orchestrator.resume"):
        step, directory = view.written(f"{table}.step"), view.written(f"{table}.dir")
        if step is not None and directory is not None:
            yield refuse(
                view,
                f"{table}.dir",
                f"{table}.step and {table}.dir exclude each other.",
                "Keep one of them.",
            )
        elif isinstance(directory, str) and not re.fullmatch(
            r"step_\d+", directory.rstrip("/").rsplit("/", 1)[-1]
        ):
            yield refuse(
                view,
                f"{table}.dir",
                f"{table}.dir = {directory} is not a checkpoint's step directory.",
                "Name .../checkpoints/step_N.",
            )


def resuming(view: View) -> Iterator[Finding]:
    """Yield findings about resuming: tables that are wrong or differ between the sides, checkpoints
    in another directory, and a dry run that would delete.
    """
    yield from resume_tables(view)
    if not view.has("resume") and view.written("trainer.resume") != view.written(
        "orchestrator.resume"
    ):
        place = "orchestrator.resume"
        if view.has("trainer.resume"):
            place = "trainer.resume"
        yield refuse(
            view, place, "Trainer and orchestrator resume differently.", "Use the shared [resume]."
        )
    resume, step, directory = (
        view.written("resume"),
        view.written("resume.step"),
        view.written("resume.dir"),
    )
    if (
        isinstance(resume, dict)
        and step is None
        and directory is None
        and any(view.has(f"{t}ckpt.output_dir") for t in ("", "trainer."))
    ):
        yield finding(
            "P04",
            view.line("resume"),
            "[resume] without a step, and checkpoints in another directory.",
        )
    if view.written("dry_run") is True:
        for place in ("clean", "resume"):
            if view.written(place) not in (None, False):
                yield finding(
                    "P02",
                    view.line(place),
                    f"dry_run with {place}: it deletes before it stops.",
                    edits=(Edit("remove", ("dry_run",)),),
                )


def metrics_port(view: View) -> Iterator[Finding]:
    """Yield a finding if the trainer's metrics server has a port of the inference server."""
    if not isinstance(view.written("trainer.metrics_server"), dict):
        return
    port, server = (
        view.number("trainer.metrics_server.port"),
        view.number("inference.server.port") or 8000,
    )
    if view.has("inference.backend_port"):
        backend = view.number("inference.backend_port")
    else:
        backend = server + 100
    if port in (server, backend):
        line = view.line("trainer.metrics_server.port", "trainer.metrics_server")
        edit = Edit("set", ("trainer", "metrics_server", "port"), 8009)
        yield finding(
            "P01",
            line,
            f"The metrics server has port {port:g}, which the inference server needs.",
            edits=(edit,),
        )


def sources(view: View) -> Iterator[Finding]:
    """Yield findings about the training and evaluation sources of the orchestrator."""
    yield from sources_at(view, "orchestrator.train")
    yield from sources_at(view, "orchestrator.eval")


def sources_at(view: View, table: str) -> Iterator[Finding]:
    """Yield findings about the sources of one table, a dotted key. An evaluation table without a
    source is refused.
    """
    place = f"{table}.source"
    seen: set[str] = set()
    for n, entry in enumerate(view.tables(place)):
        env = {}
        if isinstance(entry.get("env"), dict):
            env = entry["env"]
        taskset = {}
        if isinstance(env.get("taskset"), dict):
            taskset = env["taskset"]
        path: Path = (*place.split("."), n)
        identity = str(taskset.get("id") or env.get("id") or "")
        if not identity:
            yield finding(
                "schema",
                view.at(path),
                f"{dotted(path)} names no environment.",
                "Set env.taskset.id.",
            )
        name = str(entry.get("name") or identity)
        if name == "agg":
            yield finding(
                "schema", view.at((*path, "name")), '"agg" is a reserved name.', "Choose another."
            )
        if name and name in seen:
            yield finding(
                "schema",
                view.at((*path, "name")),
                f'Two sources are called "{name}".',
                "Give each a name of its own.",
            )
        seen.add(name)
        yield from _pools(view, entry, (*path, "curriculum"))
    if table.endswith("eval") and isinstance(view.written(table), dict) and not view.tables(place):
        yield refuse(
            view, table, f"[{table}] has no source.", f"Add [[{place}]], or remove the table."
        )


def _pools(view: View, entry: dict[str, Any], path: Path) -> Iterator[Finding]:
    """Yield findings about the difficulty pools and gates of one source."""
    curriculum = {}
    if isinstance(entry.get("curriculum"), dict):
        curriculum = entry["curriculum"]
    sampler = curriculum.get("sampler")
    if isinstance(sampler, dict) and sampler.get("type") == "difficulty_pool":
        # Without `pools` the trainer uses its own three.
        written = sampler.get("pools", {"all": {"weight": 1}})
        pools = []
        for pool in (written or {}).values():
            if isinstance(pool, dict):
                pools.append(pool)
        levels = [pool.get("threshold") for pool in pools]
        if (
            not pools
            or len(set(levels)) < len(levels)
            or not any((pool.get("weight") or 0) > 0 for pool in pools)
        ):
            yield finding(
                "schema",
                view.at((*path, "sampler")),
                "The difficulty pools need different thresholds and a weight above 0.",
                "Correct them.",
            )
    gates = curriculum.get("gates")
    for name, gate in (gates if isinstance(gates, dict) else {}).items():
        if isinstance(gate, dict) and (gate.get("reject_min") or 0) > (gate.get("reject_max") or 0):
            yield finding(
                "schema",
                view.at((*path, "gates", name)),
                f"Gate {name} rejects from above to below.",
                "Swap reject_min and reject_max.",
            )


def algorithms(view: View) -> Iterator[Finding]:
    """Yield findings about the algorithms: which model is sampled from, and at which address a
    frozen model is reached.
    """
    found: list[tuple[Path, Any]] = [(("orchestrator", "algo"), view.written("orchestrator.algo"))]
    sources = ("orchestrator", "train", "source")
    for n, entry in enumerate(view.tables(dotted(sources))):
        found.append(((*sources, n, "algo"), entry.get("algo")))
    for path, algo in found:
        if not isinstance(algo, dict):
            continue
        kind, sampling = algo.get("type", "grpo"), algo.get("sampling")
        source = None
        if isinstance(sampling, dict):
            source = sampling.get("source")
        places: tuple[tuple[Path, Any], ...] = (
            ((*path, "sampling", "source"), source),
            ((*path, "teacher"), algo.get("teacher")),
        )
        for place, model in places:
            if isinstance(model, dict) and "base_url" not in model:
                message = (
                    f"{dotted(place)} has no base_url: the trainer hosts no model but the one "
                    "that it trains."
                )
                yield finding("schema", view.at(place), message, "Set base_url.")
        if kind == "sft" and not isinstance(source, dict):
            message = f'{dotted(path)} of type "sft" has no teacher to sample from.'
            yield finding(
                "schema",
                view.at(path),
                message,
                "Set sampling.source to a table with name and base_url.",
            )
        elif kind != "sft" and isinstance(source, dict):
            message = (
                f'{dotted(path)} of type "{kind}" learns from what the trained model samples '
                "itself."
            )
            yield finding(
                "schema",
                view.at(places[0][0]),
                message,
                'Use type = "sft", or remove sampling.source.',
            )
        roles = algo.get("roles")
        if (
            kind == "echo"
            and isinstance(roles, dict)
            and not any(isinstance(role, dict) for role in roles.values())
        ):
            yield finding(
                "schema",
                view.at((*path, "roles")),
                "echo needs a role.",
                "Add [..roles.user], or another one.",
            )


def renderer(view: View) -> Iterator[Finding]:
    """Yield a warning if no renderer is known for the model and the config names none."""
    own, place = (
        "orchestrator.tokenizer.name",
        "tokenizer.name" if view.has("tokenizer.name") else "model.name",
    )
    if view.has(own):
        name = view.written(own)
    else:
        name = _counts(view, place, "orchestrator.model.name")
    if (
        view.get("orchestrator.renderer.name") in (None, "auto")
        and isinstance(name, str)
        and name not in rendered()
    ):
        message = f"No renderer is known to be chosen for {name}; without one the start is refused."
        fix = 'Set orchestrator.renderer.name ("default" with a tool_parser renders any model).'
        yield finding(
            "schema",
            view.line("orchestrator.renderer", own, place, "orchestrator.model.name"),
            message,
            fix,
            level="warning",
        )


def variables(view: View) -> Iterator[Finding]:
    """Yield a finding for each environment variable that only the launcher may set."""
    for table in ("env_vars", "trainer.env_vars", "orchestrator.env_vars", "inference.env_vars"):
        for key in sorted(PROTECTED & set(view.table(table))):
            path = (*table.split("."), key)
            yield finding(
                "schema",
                view.at(path),
                f"{key} is set by the launcher and refused here.",
                "Remove it.",
                (Edit("remove", path),),
            )


def trainer(view: View) -> Iterator[Finding]:
    """Yield findings about values that the trainer's class refuses, in the config of a whole
    training.
    """
    yield from trainer_at(view, "trainer.")


def trainer_at(view: View, top: str) -> Iterator[Finding]:
    """Yield findings about values that the trainer's class refuses.

    `top` is the prefix of the trainer's keys. It is "" for sft, whose config has the same tables at
    the top.
    """
    model = top + "model."
    if view.has(top + "max_steps"):
        steps = view.written(top + "max_steps")
    else:
        steps = view.written("max_steps")
    yield from scheduler(view, top, steps)
    yield from pictures(view, top)
    impl, attention = view.get(model + "impl"), view.get(model + "attn")
    flash = ("flash_attention_4", "auto")
    if view.written(model + "fsdp_cpu_offload") is True:
        if view.get(model + "optim_cpu_offload") is not False or view.has(model + "full_offload"):
            message = (
                "fsdp_cpu_offload and optimizer offload exclude each other, and "
                "optim_cpu_offload is on by default."
            )
            yield refuse(
                view,
                model + "fsdp_cpu_offload",
                message,
                "Set optim_cpu_offload = false, or remove it.",
            )
        if view.table(top + "optim").get("type") == "muon":
            yield refuse(
                view,
                model + "fsdp_cpu_offload",
                "Muon does not go with fsdp_cpu_offload.",
                "Remove one of the two.",
            )
    elif isinstance(view.written(model + "full_offload"), dict):
        if view.get(model + "optim_cpu_offload") is not False:
            yield refuse(
                view,
                model + "full_offload",
                "full_offload and optim_cpu_offload exclude each other.",
                "Set optim_cpu_offload = false.",
            )
        if view.table(top + "optim").get("type", "adamw") not in ("adamw", "sign_sgd"):
            yield refuse(
                view,
                model + "full_offload",
                "full_offload goes with adamw and sign_sgd only.",
                "Change the optimizer.",
            )
    if impl == "hf" and attention in flash:
        yield refuse(
            view, model + "impl", 'impl = "hf" needs attn = "flash_attention_2" or 3.', "Set attn."
        )
    if view.written(model + "trust_remote_code") is True and impl not in ("hf", "auto"):
        yield refuse(
            view,
            model + "trust_remote_code",
            "trust_remote_code needs impl hf or auto.",
            "Remove one of the two.",
        )
    if impl not in ("custom", "auto"):
        for place, off in (("cp", 1), ("ep", 1), ("quantization", None)):
            value = view.written(model + place)
            if value is not None and value not in (off, "auto"):
                yield refuse(
                    view,
                    model + place,
                    f'{place} does not go with impl = "{impl}".',
                    'Set impl = "custom" or "auto".',
                )
        if view.written(model + "ac.mode") == "selective":
            yield refuse(
                view,
                model + "ac.mode",
                'Selective checkpointing needs impl "custom" or "auto".',
                "Change one of the two.",
            )
        if view.written(top + "enable_router_replay") is True:
            yield refuse(
                view,
                top + "enable_router_replay",
                'Router replay needs impl "custom" or "auto".',
                "Change one of the two.",
            )
    if view.written(model + "ac.mode") == "selective" and view.written(model + "ac.targets") == []:
        yield refuse(
            view, model + "ac.targets", "Selective checkpointing needs a target.", "Name one."
        )
    if view.written(model + "ep_comm_backend") == "deepep":
        if isinstance(view.written(model + "ep"), int) and view.written(model + "ep") <= 1:
            yield refuse(view, model + "ep_comm_backend", "deepep needs ep above 1.", "Raise ep.")
        if view.table(model + "quantization").get("type") == "mxfp8":
            yield refuse(
                view,
                model + "ep_comm_backend",
                "MXFP8 needs ep_comm_backend torch.",
                "Change one of the two.",
            )
    if view.has(top + "trace_path") and (not isinstance(steps, int) or steps >= 10):
        yield refuse(
            view,
            top + "trace_path",
            "A trace needs max_steps below 10.",
            "Set it, or remove trace_path.",
        )


def scheduler(view: View, top: str, steps: Any) -> Iterator[Finding]:
    """Yield a finding if the learning rate scheduler does not fit `steps`, the number of training
    steps. `top` is the prefix of the trainer's keys.
    """
    table = view.table(top + "scheduler")
    kind, place = table.get("type"), top + "scheduler.type"
    classes = {"linear": "LinearSchedulerConfig", "cosine": "CosineSchedulerConfig"}
    if kind not in classes:
        return
    known = load(view.generation)["$defs"][classes[kind]]["properties"]
    warmup, decay = (
        table.get(key, known.get(key, {}).get("default", 0))
        for key in ("warmup_steps", "decay_steps")
    )
    if not isinstance(warmup, int) or not isinstance(decay, int):
        return
    if kind == "linear" and not warmup and not decay:
        yield refuse(
            view,
            place,
            "A linear scheduler without warmup_steps and decay_steps changes nothing.",
            'Use type = "constant".',
        )
    elif steps is None and (kind == "cosine" or decay):
        yield refuse(view, place, "This scheduler needs to know max_steps.", "Set max_steps.")
    elif isinstance(steps, int) and kind == "linear" and decay and warmup + decay > steps:
        message = (
            f"warmup_steps = {warmup} and decay_steps = {decay} are more than max_steps = {steps}."
        )
        yield refuse(
            view, top + "scheduler.decay_steps", message, "Lower them; together they fit max_steps."
        )
    elif isinstance(steps, int) and kind == "cosine" and warmup >= steps:
        yield refuse(
            view,
            top + "scheduler.warmup_steps",
            f"warmup_steps = {warmup} is not below max_steps = {steps}.",
            "Lower it.",
        )


def pictures(view: View, top: str) -> Iterator[Finding]:
    """Yield findings about values that training a vision-language model needs. `top` is the prefix
    of the trainer's keys.
    """
    model = top + "model."
    place = "model.vlm"
    if view.has(model + "vlm") or not view.has("model.vlm"):
        place = model + "vlm"
    if not isinstance(view.written(place), dict):
        return
    if view.get(model + "impl") != "custom":
        yield refuse(
            view,
            place,
            'A vision-language model needs impl = "custom".',
            "Set it in the trainer's [model].",
        )
    if any(view.get(model + key) != "bfloat16" for key in ("optimization_dtype", "reduce_dtype")):
        yield refuse(
            view,
            place,
            "A vision-language model is trained in bfloat16.",
            "Set optimization_dtype and reduce_dtype to it.",
        )
    if (view.number(model + "cp") or 1) > 1 and view.get(model + "cp_style") != "ulysses":
        yield refuse(
            view,
            model + "cp",
            "Context parallelism of a vision-language model is by ulysses.",
            'Set cp_style = "ulysses".',
        )
    if view.written(f"{place}.freeze_vision_encoder") is False and isinstance(
        view.written(model + "lora"), dict
    ):
        yield refuse(
            view,
            f"{place}.freeze_vision_encoder",
            "LoRA freezes the vision encoder too.",
            "Remove one of the two.",
        )


def offloaded_cache(view: View) -> Iterator[Finding]:
    """Yield findings about options that do not go with the offloaded KV cache of the inference
    server.
    """
    if isinstance(view.written("inference.kv_cache_offload"), dict):
        place = "inference.kv_cache_offload"
        if not view.has(f"{place}.cpu"):
            yield refuse(view, place, "kv_cache_offload needs a cpu tier.", "Add it.")
        if view.written("inference.vllm.enable_prefix_caching") is False:
            yield refuse(
                view,
                "inference.vllm.enable_prefix_caching",
                "kv_cache_offload needs prefix caching.",
                "Remove one of the two.",
            )
        if view.written("trainer.enable_router_replay") is True:
            yield refuse(
                view,
                place,
                "Router replay does not go with kv_cache_offload.",
                "Remove one of the two.",
            )
        if (
            view.component == "rl"
            and view.written(f"{place}.type") == "mooncake"
            and not view.has("slurm")
        ):
            yield refuse(view, f"{place}.type", "Mooncake needs [slurm].", 'Use type = "native".')
