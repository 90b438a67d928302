"""Rules of prime-rl 2026-01 that go beyond single values. The constraints are those of the
validators of prime-rl at a24ec986b.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bs4_console.configs.catalog import all_of, finding, refuse, refuse_if
from bs4_console.configs.findings import Edit, Finding, path_of
from bs4_console.configs.rules_shared import (
    RANKS,
    muon_offload,
    parallel_attention,
    remote_code,
    served_rank,
)
from bs4_console.configs.view import View

#: The limits for both sides on one GPU, as (place, largest value, value to set): what fits 7B in 80
#: GB.
SMALL = (
    ("inference.gpu_memory_utilization", 0.5, 0.5),
    ("orchestrator.batch_size", 8, 8),
    ("orchestrator.rollouts_per_example", 2, 2),
    ("orchestrator.seq_len", 2048, 2048),
    ("trainer.model.seq_len", 2048, 2048),
    ("inference.model.max_model_len", 4096, 4096),
)
SIDES = ("trainer", "orchestrator")


def check(view: View) -> Iterator[Finding]:
    """Yield the findings of every rule in this module about a config of a whole training for
    prime-rl of January 2026.
    """
    return all_of(_RULES, view)


def ids(view: View, place: str) -> list[int]:
    """Return the GPU numbers in the list at `place`, a dotted key of the config. If the config does
    not set the list, return those of the schema's default. Return an empty list if the value is not
    a list.
    """
    value = view.get(place)
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, int)]


def common_gpus(view: View) -> list[int]:
    """Return the numbers of the GPUs that both the trainer and the inference server use, sorted.
    The list is empty if there are none.
    """
    return sorted(set(ids(view, "inference_gpu_ids")) & set(ids(view, "trainer_gpu_ids")))


def gpus(view: View) -> Iterator[Finding]:
    """Yield findings about trainer_gpu_ids and inference_gpu_ids: for a GPU that is named twice or
    that the pod does not have, for an empty list if an inference server is to be started, and for a
    GPU that trainer and inference server share without the settings that sharing needs.
    """
    serves = view.has("inference") or view.has("inference_gpu_ids")
    inference = ids(view, "inference_gpu_ids") if serves else []
    trainer = ids(view, "trainer_gpu_ids")
    for place, used in (("inference_gpu_ids", inference), ("trainer_gpu_ids", trainer)):
        if len(set(used)) < len(used) or min(used, default=0) < 0:
            yield finding(
                "R25", view.line(place), f"{place} = {used} names a GPU twice or none at all."
            )
        elif view.given.gpus is not None and max(used, default=-1) >= view.given.gpus:
            yield finding(
                "R25",
                view.line(place, "inference_gpu_ids"),
                f"{place} = {used}, on a pod with {view.given.gpus} GPUs (0 is the first).",
            )
    if view.has("inference_gpu_ids") and not inference and view.is_table("inference"):
        yield finding(
            "R25",
            view.line("inference_gpu_ids"),
            "inference_gpu_ids is empty, and an inference server is to be started.",
        )
    common = sorted(set(inference) & set(trainer))
    tight = list(shared_gpu(view)) if common else []
    if tight:
        yield finding(
            "R25",
            view.line("trainer_gpu_ids", "inference_gpu_ids"),
            f"Inference and trainer share GPU {', '.join(map(str, common))} without the "
            "settings for it (R11).",
        )
        yield from tight


def shared_gpu(view: View) -> Iterator[Finding]:
    """Yield a finding for each setting that must be changed so that the trainer and the inference
    server fit on one GPU together, for example a seq_len above 2048, or a missing enforce_eager.
    Call this only for a config in which they share a GPU; that is not checked here.
    """
    anchor = view.line("inference_gpu_ids", "trainer_gpu_ids")
    for place, most, right in SMALL:
        value = view.number(place)
        if view.has("seq_len") and place.endswith("seq_len"):
            value, place = view.number("seq_len"), "seq_len"
        if place == "inference.model.max_model_len" and value is None:
            value = view.number("max_model_len") if view.has("max_model_len") else float("inf")
        if value is not None and value > most:
            said = f"{place} = {value:g}" if view.has(place) else f"{place} is not set"
            yield finding(
                "R11",
                view.line_or(place, anchor),
                f"On one GPU {said}; {most:g} is the most.",
                edits=(Edit("set", path_of(place), right),),
            )
    layers = "trainer.model.ac"
    if not view.is_table(layers):
        yield finding(
            "R11",
            anchor,
            "On one GPU the trainer needs activation checkpointing.",
            edits=(Edit("set", path_of(layers), {"freq": 1}),),
        )
    elif view.number(f"{layers}.freq") != 1:
        yield finding(
            "R11",
            view.line(f"{layers}.freq"),
            "On one GPU every layer is checkpointed: freq = 1.",
            edits=(Edit("set", path_of(f"{layers}.freq"), 1),),
        )
    eager_mode = "inference.model.enforce_eager"
    if view.written(eager_mode) is not True:
        yield finding(
            "R11",
            view.line_or(eager_mode, anchor),
            "On one GPU the CUDA graphs of vLLM do not fit: enforce_eager.",
            edits=(Edit("set", path_of(eager_mode), value=True),),
        )


def adapter_name(view: View) -> Iterator[Finding]:
    """Yield a finding if the config trains a LoRA adapter and gives it no name."""
    table = "trainer.model.lora"
    if view.is_table(table) and not view.written("orchestrator.lora_name"):
        rank, alpha = view.get(f"{table}.rank"), view.get(f"{table}.alpha")
        yield finding(
            "R04",
            view.line(view.first("orchestrator.lora_name", table)),
            f"The adapter has no name: it becomes r{rank}-a{alpha}, as in every run of that rank.",
        )


def _ckpt(view: View, side: str, key: str) -> Any:
    """Return a checkpoint setting that counts for a side: the shared one, or its own."""
    return view.written(view.first(f"ckpt.{key}", f"{side}.ckpt.{key}"))


def checkpoints(view: View) -> Iterator[Finding]:
    """Yield a finding if only one of trainer and orchestrator has a [ckpt] table. Yield one if the
    two have different values of `interval`, and one if they have different values of `resume_step`.
    """
    trainer, orchestrator = view.is_table("trainer.ckpt"), view.is_table("orchestrator.ckpt")
    if trainer != orchestrator and not view.is_table("ckpt"):
        side, other = SIDES if trainer else reversed(SIDES)
        yield finding(
            "R30", view.line(f"{side}.ckpt"), f"[{side}.ckpt] is set and [{other}.ckpt] is not."
        )
        return
    is_on = trainer or view.is_table("ckpt")
    for key in ("interval", "resume_step"):
        mine, theirs = _ckpt(view, "trainer", key), _ckpt(view, "orchestrator", key)
        if is_on and mine != theirs:
            yield finding(
                "R30",
                view.line(f"trainer.ckpt.{key}", f"orchestrator.ckpt.{key}"),
                f"{key} is {_said(mine)} for the trainer and {_said(theirs)} for the orchestrator.",
            )


def _said(value: Any) -> str:
    """Return a value for a message."""
    return "not set" if value is None else str(value)


def kinds(view: View) -> dict[str, str]:
    """Return how weights are sent to the inference server: {program: way}. The programs are
    "trainer", "orchestrator" and, if the config has it, "inference". The way is "filesystem" or
    "nccl", as that program's part of the config says, or as a shared table says, if there is one.
    """
    rows = {}
    for side in (*SIDES, "inference") if view.has("inference") else SIDES:
        table = view.first("weight_broadcast", f"{side}.weight_broadcast")
        rows[side] = str(view.table(table).get("type", "filesystem"))
    return rows


def broadcast(view: View) -> Iterator[Finding]:
    """Yield a finding if trainer, orchestrator and inference server send and expect weights in
    different ways. If one of them uses NCCL, also yield one for each setting with which NCCL does
    not work: LoRA, a max_async_level other than 1, and several replicas of the inference server.
    """
    found = kinds(view)
    places = (
        "weight_broadcast.type",
        "trainer.weight_broadcast.type",
        "orchestrator.weight_broadcast.type",
        "inference.weight_broadcast.type",
    )
    if found["trainer"] != found["orchestrator"]:
        yield finding(
            "schema",
            view.line(*places[1:]),
            f"Weights go by {found['trainer']} from the trainer and by {found['orchestrator']} "
            "to the orchestrator.",
            "Use the shared [weight_broadcast].",
        )
    elif found.get("inference", found["trainer"]) != found["trainer"]:
        yield finding(
            "schema",
            view.line(*places[3:], *places[1:3]),
            f"The inference server expects weights by {found['inference']}, and the trainer "
            f"sends them by {found['trainer']}.",
            "Use the shared [weight_broadcast].",
            level="warning",
        )
    if "nccl" in found.values():
        yield from _nccl(view, places)


def _nccl(view: View, places: tuple[str, ...]) -> Iterator[Finding]:
    """Yield findings about the limits of NCCL weight broadcast. `places` are the keys that may
    choose it, the shared one first.
    """
    line = view.line(*places)
    if view.is_table("trainer.model.lora"):
        edit = Edit("set", path_of(places[0]), "filesystem")
        yield finding(
            "R31",
            line,
            "NCCL weight broadcast does not carry LoRA adapters.",
            edits=(edit,) if view.has(places[0]) else (),
        )
    for place in ("max_async_level", "trainer.max_async_level", "orchestrator.max_async_level"):
        if view.has(place) and view.number(place) != 1:
            yield finding(
                "R31",
                view.line(place),
                f"{place} = {view.written(place)}; NCCL weight broadcast works with 1 only.",
            )
            break
    inference, trainer = ids(view, "inference_gpu_ids"), ids(view, "trainer_gpu_ids")
    tensor = int(view.number("inference.parallel.tp") or 1)
    written = view.number("inference.parallel.dp") or 1
    replicas = written
    if len(inference) != replicas * tensor and tensor and len(inference) % tensor == 0:
        replicas = len(inference) // tensor
    # The server's class checks its replicas before the GPUs are divided.
    if view.table("inference.weight_broadcast").get("type") == "nccl" and replicas == 1:
        replicas = written
    if view.has("inference") and replicas != 1:
        yield finding(
            "R31",
            view.line(view.first("inference.parallel.dp", "inference_gpu_ids"), *places),
            f"{replicas:g} inference replicas; NCCL weight broadcast works with one.",
        )
    if len(set(inference + trainer)) < 2:
        yield finding("R31", line, "NCCL weight broadcast needs at least two GPUs.")


def eager(view: View) -> Iterator[Finding]:
    """Yield a finding if the config starts an inference server without enforce_eager = true. The
    server may then use CUDA graphs, which have crashed the vLLM of this version of prime-rl. Yield
    nothing if the server shares a GPU with the trainer, because `shared_gpu` reports it then.
    """
    place = "inference.model.enforce_eager"
    if view.has("inference") and view.written(place) is not True and not common_gpus(view):
        said = "is off" if view.has(place) else "is not set"
        yield finding(
            "R22",
            view.line(view.first(place, "inference.model", "inference")),
            f"enforce_eager {said}: CUDA graphs have crashed this generation's vLLM.",
            edits=(Edit("set", path_of(place), value=True),),
        )


def cleaning(view: View) -> Iterator[Finding]:
    """Yield a finding if a start with this config would remove the logs and rollouts of the run
    that used the same directory earlier. That is so with clean = true. It is also so if the config
    resumes from a step and does not set `clean`, which is on by default.
    """
    steps = ("ckpt.resume_step", "trainer.ckpt.resume_step", "orchestrator.ckpt.resume_step")
    resumes = view.has(view.first(*steps))
    if view.written("clean") is True or (resumes and not view.has("clean")):
        said = "clean = true" if view.has("clean") else "clean is on by default and"
        yield finding(
            "P07",
            view.line_or("clean", view.line(*steps)),
            f"{said} removes the logs and rollouts of the run before, but not its checkpoints.",
        )


def agreement(view: View) -> Iterator[Finding]:
    """Yield a finding for each value that must be equal for trainer and orchestrator (max_steps,
    max_async_level, model name, W&B project, bench) and is not, unless a shared value at the top of
    the config sets it. Also yield one if orchestrator and inference server have different models.
    """
    is_frozen = str(view.get("trainer.model.name")).startswith("Jackmin108/")
    logs_twice = view.has("trainer.wandb") and view.has("orchestrator.wandb")
    for shared, word, is_shared in (
        ("max_steps", "max_steps", view.has("max_steps")),
        ("max_async_level", "max_async_level", view.has("max_async_level")),
        ("model.name", "The model", view.has("model") or is_frozen),
        ("wandb.project", "The W&B project", view.has("wandb") or not logs_twice),
    ):
        mine, theirs = view.get(f"trainer.{shared}"), view.get(f"orchestrator.{shared}")
        if not is_shared and mine != theirs:
            yield finding(
                "schema",
                view.line(f"trainer.{shared}", f"orchestrator.{shared}"),
                f"{word} is {_said(mine)} for the trainer and {_said(theirs)} for the "
                "orchestrator.",
                f"Set {shared} once, at the top.",
            )
    name, asked = "inference.model.name", "orchestrator.model.name"
    serves, asks = view.get(name), view.get(asked)
    if view.has("inference") and not view.has("model") and serves != asks:
        yield finding(
            "schema",
            view.line(name, asked),
            f"The inference server has {serves}, and the orchestrator asks for {asks}.",
            "Set model.name once, at the top.",
        )
    if not view.has("bench") and view.get("trainer.bench") != view.get("orchestrator.bench"):
        yield finding(
            "schema",
            view.line("trainer.bench", "orchestrator.bench"),
            "Only one side is in benchmark mode.",
            "Set bench at the top.",
        )


def overwritten(view: View) -> Iterator[Finding]:
    """Yield a warning for each value that the config sets for the trainer, the orchestrator or the
    inference server and that prime-rl replaces by a different shared value at the top of the
    config. prime-rl does so without a message.
    """
    for shared, own in (
        ("model.name", (*SIDES, "inference")),
        ("max_steps", SIDES),
        ("max_async_level", SIDES),
        ("ckpt.interval", SIDES),
        ("ckpt.resume_step", SIDES),
        ("ckpt.keep_last", SIDES),
        ("ckpt.keep_interval", SIDES),
    ):
        for side in own:
            place = f"{side}.{shared}"
            both = view.has(shared) and view.has(place)
            if both and view.written(place) != view.written(shared):
                yield finding(
                    "schema",
                    view.line(place),
                    f"{place} = {view.written(place)} is silently replaced by {shared} = "
                    f"{view.written(shared)}.",
                    "Keep one of the two.",
                    level="warning",
                )


def details(view: View) -> Iterator[Finding]:
    """Yield findings about values that do not go together: inference GPUs that cannot be divided
    into groups of tp, a LoRA rank above the highest that vLLM can serve, and a loss that needs a
    teacher model although there is none. Also yield those about the table [trainer] and about the
    table [orchestrator.buffer].
    """
    inference, tensor = ids(view, "inference_gpu_ids"), view.number("inference.parallel.tp")
    if view.has("inference") and tensor is not None:
        replicas = view.number("inference.parallel.dp") or 1
        if tensor == 0 or (len(inference) != replicas * tensor and len(inference) % tensor):
            yield refuse(
                view,
                view.first("inference.parallel.tp", "inference_gpu_ids"),
                f"{len(inference)} inference GPUs cannot be split into groups of {tensor:g} (tp).",
                "Make them a multiple of tp.",
            )
    rank = view.number("trainer.model.lora.rank") or 0
    if view.has("inference.max_lora_rank"):
        yield from served_rank(view, "inference.max_lora_rank", f"Use {RANKS} or less.")
    elif view.has("trainer.model.lora") and rank > RANKS and view.has("inference"):
        yield finding(
            "schema",
            view.line("trainer.model.lora.rank"),
            f"vLLM serves adapters up to rank {RANKS}.",
            "Lower it.",
            level="warning",
        )
    has_teacher = view.has("orchestrator.teacher_model") or view.written("teacher_gpu_ids")
    yield from refuse_if(
        (view.number("trainer.loss.teacher_tau") or 0) > 0 and not has_teacher,
        view,
        "trainer.loss.teacher_tau",
        "teacher_tau needs a teacher.",
        "Set teacher_gpu_ids or [orchestrator.teacher_model].",
    )
    yield from trainer(view)
    yield from buffer(view)
    yield from _teacher(view)


def trainer(view: View) -> Iterator[Finding]:
    """Yield a finding for each value in the table [trainer] that the trainer refuses because it
    does not go together with another value. Examples are a lower bound of a mask that is not below
    the upper bound, and context parallelism without flash attention.
    """
    for kind in ("token", "geo", "sequence"):
        low, high = f"{kind}_mask_low", f"{kind}_mask_high"
        places = (f"trainer.loss.{low}", f"trainer.loss.{high}")
        below, above = view.number(places[0]), view.number(places[1])
        if below is not None and above is not None and below >= above:
            yield refuse(
                view,
                view.first(*places),
                f"{low} = {below:g} is not below {high} = {above:g}.",
                f"Lower {low}.",
            )
    yield from parallel_attention(view, "trainer.model.")
    yield from muon_offload(view, "trainer.")
    yield from remote_code(view, "trainer.model.")
    chunk = view.written("trainer.model.fused_lm_head_chunk_size")
    yield from refuse_if(
        isinstance(chunk, int) and chunk < 512,
        view,
        "trainer.model.fused_lm_head_chunk_size",
        "fused_lm_head_chunk_size is at least 512.",
        "Raise it.",
    )
    yield from _saving(view)


def buffer(view: View) -> Iterator[Finding]:
    """Yield findings about the table [orchestrator.buffer]: if easy_threshold is not above
    hard_threshold, if env_ratios does not have one number above 0 for each environment, and if
    skip_verification is set together with an option that needs the rewards of verification.
    """
    place = "orchestrator.buffer"
    table = view.table(place)
    easy, hard = table.get("easy_threshold"), table.get("hard_threshold")
    if easy is not None and hard is not None and easy <= hard:
        yield finding(
            "schema",
            view.line(f"{place}.easy_threshold", place),
            f"easy_threshold = {easy} is not above hard_threshold = {hard}.",
            "Raise easy_threshold.",
        )
    ratios = table.get("env_ratios")
    if isinstance(ratios, list):
        count = len(view.tables("orchestrator.env")) if view.has("orchestrator.env") else 1
        if len(ratios) != count:
            yield refuse(
                view,
                f"{place}.env_ratios",
                f"{len(ratios)} env_ratios for {count} environments.",
                "Give one each.",
            )
        elif any(isinstance(ratio, int | float) and ratio <= 0 for ratio in ratios):
            yield refuse(view, f"{place}.env_ratios", "env_ratios are above 0.", "Raise them.")
    if table.get("skip_verification") is True:
        for key in ("online_difficulty_filtering", "easy_threshold", "hard_threshold"):
            if table.get(key) not in (None, False):
                yield refuse(
                    view,
                    f"{place}.skip_verification",
                    f"skip_verification leaves no rewards for {key}.",
                    "Remove one of the two.",
                )
                return


def _saving(view: View) -> Iterator[Finding]:
    """Yield findings about what the trainer saves."""
    place = "trainer.ckpt.weights.save_adapter_separately"
    if view.written("trainer.bench") is True:
        return  # benchmark mode saves nothing and sets max_steps to 4
    yield from refuse_if(
        view.written(place) is True and not view.has("trainer.model.lora"),
        view,
        place,
        "There is no adapter to save without LoRA.",
        "Remove it.",
    )
    steps = view.number("trainer.max_steps")
    yield from refuse_if(
        view.has("trainer.trace_path") and (steps is None or steps >= 10),
        view,
        "trainer.trace_path",
        "A trace needs trainer.max_steps below 10.",
        "Set it, or remove trace_path.",
    )


def _teacher(view: View) -> Iterator[Finding]:
    """Yield findings about the teacher's port and GPUs."""
    if not view.written("teacher_gpu_ids"):
        return
    port = "teacher_inference.server.port"
    serve_both = view.has("inference") and view.has("teacher_inference")
    if serve_both and view.get(port) == view.get("inference.server.port"):
        yield finding(
            "schema",
            view.line(port, "teacher_inference"),
            "The teacher has the inference server's port.",
            "Set another.",
        )
    server = view.first("teacher_inference", "inference")
    tensor = view.number(f"{server}.parallel.tp")
    if tensor and len(ids(view, "teacher_gpu_ids")) % tensor:
        yield refuse(
            view, "teacher_gpu_ids", "The teacher's GPUs are no multiple of tp.", "Make them one."
        )


_RULES = (
    gpus,
    adapter_name,
    checkpoints,
    broadcast,
    eager,
    cleaning,
    agreement,
    overwritten,
    details,
)
