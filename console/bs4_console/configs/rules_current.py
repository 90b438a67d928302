"""Rules of the current prime-rl that go beyond single values. The constraints are those of the
validators of prime-rl at 559b44772.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from bs4_console.configs import rules_trainer
from bs4_console.configs.catalog import all_of, finding, refuse, refuse_if
from bs4_console.configs.families import rendered
from bs4_console.configs.findings import Edit, Finding, Path, dotted, names_of, path_of
from bs4_console.configs.rules_shared import served_rank
from bs4_console.configs.schema import refused
from bs4_console.configs.view import Table, View, table_in

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

SIDES = ("trainer", "orchestrator")
#: Ways to send weights that carry no LoRA adapter.
_DIRECT = ("nccl", "nixl")


def check(view: View) -> Iterator[Finding]:
    """Yield the findings of every rule in this module about the config of a whole training for the
    current prime-rl.
    """
    return all_of(_RULES, view)


def conflicts(view: View) -> Iterator[Finding]:
    """Yield a finding for each value that the config sets for the trainer, the orchestrator or the
    inference server and that differs from the same value in a shared table. Yield one if output_dir
    is set for the trainer or the orchestrator alone. Also yield one for each shared value that one
    of the three programs would refuse.
    """
    for shared, targets in SHARED.items():
        for place in targets:
            both = view.has(shared) and view.has(place)
            yield from refuse_if(
                both and view.written(shared) != view.written(place),
                view,
                place,
                f"{place} disagrees with the shared {shared}.",
                f"Keep {shared} or {place}.",
            )
    yield from handed_on(view)
    for side in SIDES:
        yield from refuse_if(
            view.has(f"{side}.output_dir"),
            view,
            f"{side}.output_dir",
            f"{side}.output_dir follows from output_dir and run.name.",
            "Remove it.",
        )


def handed_on(view: View) -> Iterator[Finding]:
    """Yield a finding for each value in a shared table of the config, one whose values are handed
    to the trainer, the orchestrator and the inference server, that one of these would refuse. Some
    of them accept less than the shared table does.
    """
    for shared, targets in SHARED.items():
        for place in targets if view.has(shared) else ():
            value = view.written(shared)
            problems = refused(view.generation, names_of(path_of(place)), value, path_of(shared))
            if problems and (not place.startswith("inference.") or view.has("inference")):
                wanted = problems[0].wanted
                yield refuse(
                    view,
                    shared,
                    f"{shared} = {value} is handed on to {place}, which is to be {wanted}.",
                    f"Use {wanted}.",
                )
                break


def deployment(view: View) -> Iterator[Finding]:
    """Yield findings about GPUs and nodes: for more GPUs than the node or the pod has, for
    inference GPUs that cannot be divided into groups of tensor_parallel_size, and for an inference
    server over several nodes whose settings do not fit together. For a deployment over several
    nodes, yield one for each value that it needs and the config does not have.
    """
    if view.get("deployment.type") == "multi_node":
        yield from _nodes(view)
        return
    train = view.number("deployment.num_train_gpus") or 0
    infer = view.number("deployment.num_infer_gpus") or 0
    node = view.number("deployment.gpus_per_node") or 8
    counted = view.line("deployment.num_train_gpus", "deployment.num_infer_gpus", "deployment")
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
    yield from refuse_if(
        view.has("inference") and infer != replicas * tensor and infer % tensor,
        view,
        "inference.vllm.tensor_parallel_size",
        f"{infer:g} inference GPUs cannot be split into groups of {tensor:g}.",
        "Make them a multiple of it.",
    )
    if view.has("inference"):
        yield from inference_nodes(view)


def _nodes(view: View) -> Iterator[Finding]:
    """Yield a finding if a deployment over several nodes lacks something."""
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


def inference_nodes(view: View) -> Iterator[Finding]:
    """Yield a finding if the inference server is spread over several nodes and the config has no
    table [slurm]. Also yield one if the server is on one node and uses the router llm-d, which is
    for several nodes.
    """
    kind = view.get("inference.deployment.type")
    has_slurm = view.has("slurm") or view.has("inference.slurm")
    yield from refuse_if(
        kind in ("multi_node", "disaggregated") and not has_slurm,
        view,
        "inference.deployment.type",
        "Inference over several nodes needs [slurm].",
        "Add it.",
    )
    yield from refuse_if(
        kind == "single_node" and view.written("inference.router.type") == "llm-d",
        view,
        "inference.router.type",
        "The llm-d router is for several nodes.",
        'Use "vllm-router".',
    )


def batching(view: View) -> Iterator[Finding]:
    """Yield a finding if the orchestrator has both batch_size and token_batch_size, of which only
    one may be set. Also yield one for each of its limits on the number of rollouts in flight (being
    generated at the same time) that is above max_inflight, or below the number of rollouts of one
    prompt.
    """
    yield from refuse_if(
        view.has("orchestrator.batch_size") and view.has("orchestrator.token_batch_size"),
        view,
        "orchestrator.token_batch_size",
        "batch_size and token_batch_size exclude each other.",
        "Keep one of them.",
    )
    group = view.number("orchestrator.group_size") or 1
    yield from inflight(view, "orchestrator.concurrency", group)


def inflight(view: View, table: str, group: float | None) -> Iterator[Finding]:
    """Yield a finding for each limit on the number of rollouts in flight (being generated at the
    same time) that is above max_inflight or below `group`. `table` is the dotted key of the table
    with the limits.

    `group` is the number of rollouts of one prompt, which must all fit into the limits. None means
    that it is not known; then nothing is compared with it.
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
        yield from refuse_if(
            isinstance(value, int) and isinstance(most, int) and value > most,
            view,
            f"{table}.{key}",
            f"{key} = {value} is more than max_inflight = {most}.",
            "Lower it.",
        )


def broadcast(view: View) -> Iterator[Finding]:
    """Yield findings about how weights and rollouts are sent: for a LoRA adapter that is not sent
    by the filesystem; for NCCL with less than two GPUs; for a quantized transfer of weights without
    a table [inference] or with another model implementation than "custom"; and for a trainer that
    waits for rollouts by another transport than the one by which the orchestrator sends them.
    """
    shared = view.table("weight_broadcast").get("type")
    own = view.table("trainer.weight_broadcast").get("type", "filesystem")
    if view.is_table("trainer.model.lora") and (shared in _DIRECT or own in _DIRECT):
        place = "weight_broadcast.type" if shared in _DIRECT else "trainer.weight_broadcast.type"
        yield finding(
            "schema",
            view.line(place),
            "LoRA adapters go by the filesystem only.",
            'Set weight_broadcast.type = "filesystem".',
            (Edit("set", path_of(place), "filesystem"),),
        )
    train = view.number("deployment.num_train_gpus") or 0
    infer = view.number("deployment.num_infer_gpus") or 0
    one_node = view.get("deployment.type") != "multi_node"
    yield from refuse_if(
        one_node and own == "nccl" and train + infer < 2,
        view,
        "trainer.weight_broadcast.type",
        "NCCL weight broadcast needs at least two GPUs.",
        "Use filesystem.",
    )
    mine = view.table("trainer.rollout_transport").get("type", "zmq")
    theirs = view.table("orchestrator.rollout_transport").get("type", "zmq")
    yield from refuse_if(
        not view.has("rollout_transport") and mine != theirs,
        view,
        view.first("trainer.rollout_transport", "orchestrator.rollout_transport"),
        "Rollouts are sent one way and awaited another.",
        "Use the shared [rollout_transport].",
    )
    quantized = "weight_broadcast.quantize_in_weight_transfer"
    if view.written(quantized) is True:
        yield from refuse_if(
            not view.has("inference") or view.get("trainer.model.impl") != "custom",
            view,
            quantized,
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
    """Yield a finding for each LoRA value (rank, alpha) of the orchestrator that differs from the
    trainer's, and one if max_lora_rank of the inference server is higher than vLLM can serve.
    """
    for key in ("rank", "alpha") if view.is_table("trainer.model.lora") else ():
        place = f"orchestrator.model.lora.{key}"
        if view.has(place) and view.written(place) != view.get(f"trainer.model.lora.{key}"):
            yield finding(
                "schema",
                view.line(place),
                f"{place} is not the trainer's {key}.",
                "Remove it; it follows the trainer's.",
                (Edit("remove", path_of(place)),),
            )
    yield from served_rank(view, "inference.vllm.max_lora_rank", "Lower it.")


def _counts(view: View, shared: str, place: str) -> Any:
    """Return the value that counts at `place`: the component's own, or the shared one, or the
    default.
    """
    return view.get(view.first(place, shared, place))


def _both(view: View, shared: str, key: str) -> tuple[Any, Any]:
    """Return the values of `key` that count for the trainer and for the orchestrator."""
    return _counts(view, shared, f"trainer.{key}"), _counts(view, shared, f"orchestrator.{key}")


def agreement(view: View) -> Iterator[Finding]:
    """Yield a finding for each value that must be the same for trainer, orchestrator and inference
    server and is not: the model, max_steps, the chat template, and the settings of checkpoints.
    Also yield findings about W&B: if a shared run is offline, if only one of trainer and
    orchestrator uses W&B, or if both use it with different projects.
    """
    mine, asks = _both(view, "model.name", "model.name")
    if view.is_table("inference"):
        serves = _counts(view, "model.name", "inference.vllm.model")
        yield from refuse_if(
            serves != asks,
            view,
            view.first("inference.vllm.model", "orchestrator.model.name"),
            f"The inference server has {serves}, and the orchestrator asks for {asks}.",
            "Set model.name once, at the top.",
        )
    elif mine != asks and not str(mine).startswith("Jackmin108/"):
        yield refuse(
            view,
            view.first("trainer.model.name", "orchestrator.model.name"),
            f"The trainer has {mine}, and the orchestrator {asks}.",
            "Set model.name once, at the top.",
        )
    mine, theirs = _both(view, "max_steps", "max_steps")
    yield from refuse_if(
        mine != theirs,
        view,
        view.first("trainer.max_steps", "orchestrator.max_steps"),
        f"max_steps is {mine} for the trainer and {theirs} for the orchestrator.",
        "Set max_steps at the top.",
    )
    template = "tokenizer.chat_template"
    mine, theirs = _both(view, template, template)
    served = _counts(view, template, "inference.vllm.chat_template") or mine
    yield from refuse_if(
        mine != theirs or (view.has("inference") and served != mine),
        view,
        view.first(*SHARED[template], template),
        "chat_template is not the same everywhere.",
        "Set [tokenizer] chat_template at the top.",
    )
    yield from _checkpoints(view)
    yield from wandb(view)


def sides_with(view: View, key: str) -> list[str]:
    """Return those of the two programs "trainer" and "orchestrator" whose own part of the config
    has the table `key`. The list is empty if neither has it. The dotted key `key` is given without
    the program's name, for example "ckpt" for "trainer.ckpt".
    """
    return [side for side in SIDES if view.is_table(f"{side}.{key}")]


def _checkpoints(view: View) -> Iterator[Finding]:
    """Yield a finding if only one of trainer and orchestrator saves checkpoints, or both at
    different intervals.
    """
    sides = sides_with(view, "ckpt")
    if not view.is_table("ckpt") and len(sides) == 1:
        yield refuse(
            view,
            f"{sides[0]}.ckpt",
            "Checkpoints are on for one side only.",
            "Use the shared [ckpt].",
        )
    elif sides or view.has("ckpt"):
        mine, theirs = _both(view, "ckpt.interval", "ckpt.interval")
        yield from refuse_if(
            mine != theirs,
            view,
            view.first("trainer.ckpt.interval", "orchestrator.ckpt.interval"),
            "Trainer and orchestrator checkpoint at different intervals.",
            "Use the shared [ckpt].",
        )


def wandb(view: View) -> Iterator[Finding]:
    """Yield a finding if the shared W&B run is set to offline, if only one of trainer and
    orchestrator uses W&B, or if both use it with different projects. If the config has the shared
    table [monitors.wandb], the only check is whether that run is set to offline.
    """
    yield from refuse_if(
        view.written("monitors.wandb.offline") is True,
        view,
        "monitors.wandb.offline",
        "The shared W&B run cannot be offline.",
        "Remove it.",
    )
    if view.is_table("monitors.wandb"):
        return
    sides = sides_with(view, "monitors.wandb")
    project = "monitors.wandb.project"
    if len(sides) == 1:
        yield refuse(
            view,
            f"{sides[0]}.monitors.wandb",
            "W&B is on for one side only.",
            "Use [monitors.wandb].",
        )
    elif sides and view.get(f"trainer.{project}") != view.get(f"orchestrator.{project}"):
        yield refuse(
            view,
            "trainer.monitors.wandb",
            "Trainer and orchestrator have different W&B projects.",
            "Use [monitors.wandb].",
        )


def resume_tables(view: View) -> Iterator[Finding]:
    """Yield a finding for each [resume] table (the shared one, the trainer's and the
    orchestrator's) that sets both step and dir, or whose dir is not the directory of a checkpoint's
    step. The tables are not compared with each other.
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
    """Yield a finding for each table [resume] that sets both step and dir, or whose dir is not the
    directory of a checkpoint's step. Also yield one if trainer and orchestrator resume differently,
    and one if the latest step is to be resumed although checkpoints are saved in another directory.
    Yield one if dry_run is set together with clean or resume, because then files are deleted before
    the dry run ends.
    """
    yield from resume_tables(view)
    differs = view.written("trainer.resume") != view.written("orchestrator.resume")
    yield from refuse_if(
        not view.has("resume") and differs,
        view,
        view.first("trainer.resume", "orchestrator.resume"),
        "Trainer and orchestrator resume differently.",
        "Use the shared [resume].",
    )
    latest = view.is_table("resume") and not view.has("resume.step") and not view.has("resume.dir")
    if latest and (view.has("ckpt.output_dir") or view.has("trainer.ckpt.output_dir")):
        yield finding(
            "P04",
            view.line("resume"),
            "[resume] without a step, and checkpoints in another directory.",
        )
    for place in ("clean", "resume") if view.written("dry_run") is True else ():
        if view.written(place) not in (None, False):
            yield finding(
                "P02",
                view.line(place),
                f"dry_run with {place}: it deletes before it stops.",
                edits=(Edit("remove", ("dry_run",)),),
            )


def metrics_port(view: View) -> Iterator[Finding]:
    """Yield a finding if the trainer's metrics server has the same port as the inference server."""
    if not view.is_table("trainer.metrics_server"):
        return
    place = "trainer.metrics_server.port"
    port, server = view.number(place), view.number("inference.server.port") or 8000
    backend = view.number("inference.backend_port")
    if not view.has("inference.backend_port"):
        backend = server + 100
    if port in (server, backend):
        yield finding(
            "P01",
            view.line(place, "trainer.metrics_server"),
            f"The metrics server has port {port:g}, which the inference server needs.",
            edits=(Edit("set", path_of(place), 8009),),
        )


def sources(view: View) -> Iterator[Finding]:
    """Yield findings about the two tables with the orchestrator's sources of prompts,
    orchestrator.train and orchestrator.eval: for a source without an environment, for a name that
    two sources have or that is reserved, and for an evaluation table without any source.
    """
    yield from sources_at(view, "orchestrator.train")
    yield from sources_at(view, "orchestrator.eval")


def sources_at(view: View, table: str) -> Iterator[Finding]:
    """Yield findings about the sources of prompts in the table with the dotted key `table`: for a
    source without an environment, for a name that two sources have or that is reserved, and for an
    evaluation table without any source.
    """
    place = f"{table}.source"
    seen: set[str] = set()
    for n, entry in enumerate(view.tables(place)):
        env = entry.table("env")
        path: Path = (*path_of(place), n)
        identity = str(env.table("taskset").get("id") or env.get("id") or "")
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
    yield from refuse_if(
        table.endswith("eval") and view.is_table(table) and not view.tables(place),
        view,
        table,
        f"[{table}] has no source.",
        f"Add [[{place}]], or remove the table.",
    )


def _pools(view: View, entry: Table, path: Path) -> Iterator[Finding]:
    """Yield findings about the difficulty pools and gates of one source."""
    curriculum = entry.table("curriculum")
    sampler = curriculum.table("sampler")
    if sampler.get("type") == "difficulty_pool":
        # Without `pools` the trainer uses its own three.
        written = sampler.get("pools", {"all": {"weight": 1}}) or {}
        pools = table_in(written).tables().values()
        levels = {pool.get("threshold") for pool in pools}
        weighted = any((pool.get("weight") or 0) > 0 for pool in pools)
        if not pools or len(levels) < len(pools) or not weighted:
            yield finding(
                "schema",
                view.at((*path, "sampler")),
                "The difficulty pools need different thresholds and a weight above 0.",
                "Correct them.",
            )
    for name, gate in curriculum.table("gates").tables().items():
        if (gate.get("reject_min") or 0) > (gate.get("reject_max") or 0):
            yield finding(
                "schema",
                view.at((*path, "gates", name)),
                f"Gate {name} rejects from above to below.",
                "Swap reject_min and reject_max.",
            )


def algorithms(view: View) -> Iterator[Finding]:
    """Yield findings about the algorithm tables (`algo`) of the orchestrator and of each of its
    training sources: for a frozen model without base_url, for the type "sft" without a teacher to
    sample from, and for another type that has such a teacher.
    """
    found: list[tuple[Path, Any]] = [(("orchestrator", "algo"), view.written("orchestrator.algo"))]
    sources = ("orchestrator", "train", "source")
    for n, entry in enumerate(view.tables(dotted(sources))):
        found.append(((*sources, n, "algo"), entry.get("algo")))
    for path, algo in found:
        if isinstance(algo, dict):
            yield from _algorithm(view, path, Table(algo))


def _algorithm(view: View, path: Path, algo: Table) -> Iterator[Finding]:
    """Yield findings about one algorithm's table at `path`."""
    kind = algo.get("type", "grpo")
    source = algo.table("sampling").get("source")
    for place, model in (
        ((*path, "sampling", "source"), source),
        ((*path, "teacher"), algo.get("teacher")),
    ):
        if isinstance(model, dict) and "base_url" not in model:
            yield finding(
                "schema",
                view.at(place),
                f"{dotted(place)} has no base_url: the trainer hosts no model but the one that it "
                "trains.",
                "Set base_url.",
            )
    if kind == "sft" and not isinstance(source, dict):
        yield finding(
            "schema",
            view.at(path),
            f'{dotted(path)} of type "sft" has no teacher to sample from.',
            "Set sampling.source to a table with name and base_url.",
        )
    elif kind != "sft" and isinstance(source, dict):
        yield finding(
            "schema",
            view.at((*path, "sampling", "source")),
            f'{dotted(path)} of type "{kind}" learns from what the trained model samples itself.',
            'Use type = "sft", or remove sampling.source.',
        )
    roles = algo.get("roles")
    if kind == "echo" and isinstance(roles, dict) and not Table(roles).tables():
        yield finding(
            "schema",
            view.at((*path, "roles")),
            "echo needs a role.",
            "Add [..roles.user], or another one.",
        )


def renderer(view: View) -> Iterator[Finding]:
    """Yield a warning if the config names no renderer (the code that turns messages into tokens)
    and prime-rl has no renderer for the model.
    """
    own, asked = "orchestrator.tokenizer.name", "orchestrator.model.name"
    place = view.first("tokenizer.name", "model.name")
    name = view.get(view.first(own, asked, place, asked))
    chosen = view.get("orchestrator.renderer.name") not in (None, "auto")
    if not chosen and isinstance(name, str) and name not in rendered():
        yield finding(
            "schema",
            view.line("orchestrator.renderer", own, place, asked),
            f"No renderer is known to be chosen for {name}; without one the start is refused.",
            'Set orchestrator.renderer.name ("default" with a tool_parser renders any model).',
            level="warning",
        )


def variables(view: View) -> Iterator[Finding]:
    """Yield a finding for each environment variable in the config that only the launcher may set,
    such as CUDA_VISIBLE_DEVICES.
    """
    for table in ("env_vars", "trainer.env_vars", "orchestrator.env_vars", "inference.env_vars"):
        for key in sorted(PROTECTED & set(view.table(table))):
            path = (*path_of(table), key)
            yield finding(
                "schema",
                view.at(path),
                f"{key} is set by the launcher and refused here.",
                "Remove it.",
                (Edit("remove", path),),
            )


def offloaded_cache(view: View) -> Iterator[Finding]:
    """Yield findings about the table [inference.kv_cache_offload], by which a part of the KV cache
    is kept in CPU memory. Yield one if it has no `cpu` tier, and one for each setting that does not
    go together with it: prefix caching off, router replay, and the type Mooncake without a table
    [slurm]. Yield nothing if the config does not have the table.
    """
    place = "inference.kv_cache_offload"
    if not view.is_table(place):
        return
    yield from refuse_if(
        not view.has(f"{place}.cpu"), view, place, "kv_cache_offload needs a cpu tier.", "Add it."
    )
    yield from refuse_if(
        view.written("inference.vllm.enable_prefix_caching") is False,
        view,
        "inference.vllm.enable_prefix_caching",
        "kv_cache_offload needs prefix caching.",
        "Remove one of the two.",
    )
    yield from refuse_if(
        view.written("trainer.enable_router_replay") is True,
        view,
        place,
        "Router replay does not go with kv_cache_offload.",
        "Remove one of the two.",
    )
    is_mooncake = view.written(f"{place}.type") == "mooncake"
    yield from refuse_if(
        view.component == "rl" and is_mooncake and not view.has("slurm"),
        view,
        f"{place}.type",
        "Mooncake needs [slurm].",
        'Use type = "native".',
    )


_RULES = (
    conflicts,
    deployment,
    batching,
    broadcast,
    adapter,
    agreement,
    resuming,
    metrics_port,
    sources,
    variables,
    rules_trainer.trainer,
    offloaded_cache,
    renderer,
    algorithms,
)
