"""Rules of prime-rl 2026-01 that go beyond single values. The constraints are those of the
validators of prime-rl at a24ec986b.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bs4_console.configs.catalog import finding
from bs4_console.configs.findings import Edit, Finding
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
#: The highest rank of an adapter that vLLM serves.
RANKS = 512


def check(view: View) -> Iterator[Finding]:
    """Yield the findings of every rule in this module about the config of a whole training."""
    yield from gpus(view)
    yield from adapter_name(view)
    yield from checkpoints(view)
    yield from broadcast(view)
    yield from eager(view)
    yield from cleaning(view)
    yield from agreement(view)
    yield from overwritten(view)
    yield from details(view)


def ids(view: View, place: str) -> list[int]:
    """Return the list of GPU numbers at a place, from the file or the default."""
    value = view.get(place)
    if isinstance(value, list):
        rows = []
        for item in value:
            if isinstance(item, int):
                rows.append(item)
        return rows
    return []


def gpus(view: View) -> Iterator[Finding]:
    """Yield findings about GPU numbers: twice the same, not on the pod, or shared by both sides
    without the settings for it.
    """
    inference = []
    if view.has("inference") or view.has("inference_gpu_ids"):
        inference = ids(view, "inference_gpu_ids")
    trainer = ids(view, "trainer_gpu_ids")
    for place, used in (("inference_gpu_ids", inference), ("trainer_gpu_ids", trainer)):
        if len(set(used)) < len(used) or any(number < 0 for number in used):
            yield finding(
                "R25", view.line(place), f"{place} = {used} names a GPU twice or none at all."
            )
        elif view.given.gpus is not None and any(number >= view.given.gpus for number in used):
            yield finding(
                "R25",
                view.line(place, "inference_gpu_ids"),
                f"{place} = {used}, on a pod with {view.given.gpus} GPUs (0 is the first).",
            )
    if (
        view.has("inference_gpu_ids")
        and not inference
        and isinstance(view.written("inference"), dict)
    ):
        yield finding(
            "R25",
            view.line("inference_gpu_ids"),
            "inference_gpu_ids is empty, and an inference server is to be started.",
        )
    common = sorted(set(inference) & set(trainer))
    if common:
        tight = list(shared_gpu(view))
        if tight:
            line = view.line("trainer_gpu_ids", "inference_gpu_ids")
            yield finding(
                "R25",
                line,
                f"Inference and trainer share GPU {', '.join(map(str, common))} without the "
                "settings for it (R11).",
            )
            yield from tight


def shared_gpu(view: View) -> Iterator[Finding]:
    """Yield a finding for each setting that is too large for both sides on one GPU."""
    anchor = view.line("inference_gpu_ids", "trainer_gpu_ids")
    for place, most, right in SMALL:
        value = view.number(place)
        if view.has("seq_len") and place.endswith("seq_len"):
            value, place = view.number("seq_len"), "seq_len"
        if place == "inference.model.max_model_len" and value is None:
            if view.has("max_model_len"):
                value = view.number("max_model_len")
            else:
                value = float("inf")
        if value is not None and value > most:
            if view.has(place):
                said = f"{place} = {value:g}"
            else:
                said = f"{place} is not set"
            edit = Edit("set", tuple(place.split(".")), right)
            yield finding(
                "R11",
                view.line(place) if view.has(place) else anchor,
                f"On one GPU {said}; {most:g} is the most.",
                edits=(edit,),
            )
    for table in ("trainer.model.ac",):
        if not isinstance(view.written(table), dict):
            edit = Edit("set", ("trainer", "model", "ac"), {"freq": 1})
            yield finding(
                "R11",
                anchor,
                "On one GPU the trainer needs activation checkpointing.",
                edits=(edit,),
            )
        elif view.number(f"{table}.freq") != 1:
            edit = Edit("set", ("trainer", "model", "ac", "freq"), 1)
            yield finding(
                "R11",
                view.line(f"{table}.freq"),
                "On one GPU every layer is checkpointed: freq = 1.",
                edits=(edit,),
            )
    if view.written("inference.model.enforce_eager") is not True:
        place = "inference.model.enforce_eager"
        line = view.line(place) if view.has(place) else anchor
        yield finding(
            "R11",
            line,
            "On one GPU the CUDA graphs of vLLM do not fit: enforce_eager.",
            edits=(Edit("set", tuple(place.split(".")), value=True),),
        )


def adapter_name(view: View) -> Iterator[Finding]:
    """Yield a finding if a LoRA adapter has no name."""
    if not isinstance(view.written("trainer.model.lora"), dict):
        return
    if not view.written("orchestrator.lora_name"):
        rank, alpha = view.get("trainer.model.lora.rank"), view.get("trainer.model.lora.alpha")
        if view.has("orchestrator.lora_name"):
            line = view.line("orchestrator.lora_name")
        else:
            line = view.line("trainer.model.lora")
        yield finding(
            "R04",
            line,
            f"The adapter has no name: it becomes r{rank}-a{alpha}, as in every run of that rank.",
        )


def _on(view: View, side: str) -> bool:
    return isinstance(view.written("ckpt"), dict) or isinstance(view.written(f"{side}.ckpt"), dict)


def _ckpt(view: View, side: str, key: str) -> Any:
    value = view.written(f"ckpt.{key}")
    if value is not None:
        return value
    return view.written(f"{side}.ckpt.{key}")


def checkpoints(view: View) -> Iterator[Finding]:
    """Yield findings about checkpoints that only one side sets or that differ between the sides."""
    sides = []
    for side in ("trainer", "orchestrator"):
        if _on(view, side):
            sides.append(side)
    if len(sides) == 1:
        other = "trainer"
        if sides[0] == "trainer":
            other = "orchestrator"
        yield finding(
            "R30",
            view.line(f"{sides[0]}.ckpt"),
            f"[{sides[0]}.ckpt] is set and [{other}.ckpt] is not.",
        )
        return
    for key in ("interval", "resume_step"):
        mine, theirs = _ckpt(view, "trainer", key), _ckpt(view, "orchestrator", key)
        if sides and mine != theirs:
            line = view.line(f"trainer.ckpt.{key}", f"orchestrator.ckpt.{key}")
            yield finding(
                "R30",
                line,
                f"{key} is {_said(mine)} for the trainer and {_said(theirs)} for the orchestrator.",
            )


def _said(value: Any) -> str:
    if value is None:
        return "not set"
    return str(value)


def kinds(view: View) -> dict[str, str]:
    """Return how each side sends or receives weights (`filesystem` or `nccl`), by side. The shared
    table replaces the sides' own.
    """
    sides = (
        ("trainer", "orchestrator", "inference")
        if view.has("inference")
        else ("trainer", "orchestrator")
    )
    shared = view.table("weight_broadcast")
    kind = None
    if isinstance(view.written("weight_broadcast"), dict):
        kind = shared.get("type", "filesystem")
    rows = {}
    for side in sides:
        rows[side] = str(kind or view.table(f"{side}.weight_broadcast").get("type", "filesystem"))
    return rows


def broadcast(view: View) -> Iterator[Finding]:
    """Yield findings about the weight broadcast: sides that disagree, and the limits of NCCL."""
    found = kinds(view)
    places = (
        "weight_broadcast.type",
        "trainer.weight_broadcast.type",
        "orchestrator.weight_broadcast.type",
        "inference.weight_broadcast.type",
    )
    if found["trainer"] != found["orchestrator"]:
        message = (
            f"Weights go by {found['trainer']} from the trainer and by {found['orchestrator']} "
            "to the orchestrator."
        )
        yield finding(
            "schema", view.line(*places[1:]), message, "Use the shared [weight_broadcast]."
        )
    elif found.get("inference", found["trainer"]) != found["trainer"]:
        message = (
            f"The inference server expects weights by {found['inference']}, and the trainer "
            f"sends them by {found['trainer']}."
        )
        yield finding(
            "schema",
            view.line(*places[3:], *places[1:3]),
            message,
            "Use the shared [weight_broadcast].",
            level="warning",
        )
    if "nccl" not in found.values():
        return
    line = view.line(*places)
    if isinstance(view.written("trainer.model.lora"), dict):
        edits = (
            (Edit("set", ("weight_broadcast", "type"), "filesystem"),)
            if view.has("weight_broadcast.type")
            else ()
        )
        yield finding(
            "R31", line, "NCCL weight broadcast does not carry LoRA adapters.", edits=edits
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
    replicas = view.number("inference.parallel.dp") or 1
    if len(inference) != replicas * tensor and tensor and len(inference) % tensor == 0:
        replicas = len(inference) // tensor
    # The server's class checks its replicas before the GPUs are divided.
    own = view.table("inference.weight_broadcast").get("type") == "nccl"
    if own and replicas == 1:
        replicas = view.number("inference.parallel.dp") or 1
    else:
        replicas = replicas
    if view.has("inference") and replicas != 1:
        written = "inference_gpu_ids"
        if view.has("inference.parallel.dp"):
            written = "inference.parallel.dp"
        yield finding(
            "R31",
            view.line(written, *places),
            f"{replicas:g} inference replicas; NCCL weight broadcast works with one.",
        )
    if len(set(inference + trainer)) < 2:
        yield finding("R31", line, "NCCL weight broadcast needs at least two GPUs.")


def eager(view: View) -> Iterator[Finding]:
    """Yield a finding if vLLM's CUDA graphs are on and the sides have GPUs of their own."""
    place = "inference.model.enforce_eager"
    shared = set(ids(view, "inference_gpu_ids")) & set(ids(view, "trainer_gpu_ids"))
    if view.has("inference") and view.written(place) is not True and not shared:
        said = "is off" if view.has(place) else "is not set"
        edit = Edit("set", tuple(place.split(".")), value=True)
        message = f"enforce_eager {said}: CUDA graphs have crashed this generation's vLLM."
        yield finding(
            "R22",
            view.line(place) if view.has(place) else view.line("inference.model", "inference"),
            message,
            edits=(edit,),
        )


def cleaning(view: View) -> Iterator[Finding]:
    """Yield a finding if the start removes logs and rollouts of the run before."""
    resumes = any(
        view.has(f"{table}ckpt.resume_step") for table in ("", "trainer.", "orchestrator.")
    )
    if view.written("clean") is True or (resumes and not view.has("clean")):
        said = "clean is on by default and removes"
        if view.has("clean"):
            said = "clean = true removes"
        if view.has("clean"):
            line = view.line("clean")
        else:
            line = view.line(
                "ckpt.resume_step", "trainer.ckpt.resume_step", "orchestrator.ckpt.resume_step"
            )
        yield finding(
            "P07", line, f"{said} the logs and rollouts of the run before, but not its checkpoints."
        )


def agreement(view: View) -> Iterator[Finding]:
    """Yield a finding for each value that must be equal on both sides and is not set by a shared
    value.
    """
    for shared, mine, theirs, word in (
        ("max_steps", "trainer.max_steps", "orchestrator.max_steps", "max_steps"),
        (
            "max_async_level",
            "trainer.max_async_level",
            "orchestrator.max_async_level",
            "max_async_level",
        ),
        ("model.name", "trainer.model.name", "orchestrator.model.name", "The model"),
        ("wandb.project", "trainer.wandb.project", "orchestrator.wandb.project", "The W&B project"),
    ):
        if shared == "wandb.project" and (
            view.has("wandb") or not (view.has("trainer.wandb") and view.has("orchestrator.wandb"))
        ):
            continue
        if view.has(shared) or (
            shared == "model.name"
            and (view.has("model") or str(view.get(mine)).startswith("Jackmin108/"))
        ):
            continue
        if view.get(mine) != view.get(theirs):
            message = (
                f"{word} is {_said(view.get(mine))} for the trainer and "
                f"{_said(view.get(theirs))} for the orchestrator."
            )
            yield finding(
                "schema", view.line(mine, theirs), message, f"Set {shared} once, at the top."
            )
    name = "inference.model.name"
    if (
        view.has("inference")
        and not view.has("model")
        and view.get(name) != view.get("orchestrator.model.name")
    ):
        message = (
            f"The inference server has {view.get(name)}, and the orchestrator asks for "
            f"{view.get('orchestrator.model.name')}."
        )
        yield finding(
            "schema",
            view.line(name, "orchestrator.model.name"),
            message,
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
    """Yield a warning for each component's value that a shared value replaces in silence."""
    for shared, targets in (
        ("model.name", ("trainer.model.name", "orchestrator.model.name", "inference.model.name")),
        ("max_steps", ("trainer.max_steps", "orchestrator.max_steps")),
        ("max_async_level", ("trainer.max_async_level", "orchestrator.max_async_level")),
        *(
            (f"ckpt.{key}", (f"trainer.ckpt.{key}", f"orchestrator.ckpt.{key}"))
            for key in ("interval", "resume_step", "keep_last", "keep_interval")
        ),
    ):
        for place in targets:
            if view.has(shared) and view.has(place) and view.written(place) != view.written(shared):
                message = (
                    f"{place} = {view.written(place)} is silently replaced by {shared} = "
                    f"{view.written(shared)}."
                )
                yield finding(
                    "schema", view.line(place), message, "Keep one of the two.", level="warning"
                )


def details(view: View) -> Iterator[Finding]:
    """Yield the findings of the remaining validators: GPU groups, adapter ranks, teacher, trainer
    and buffer.
    """

    def refuse(place: str, message: str, fix: str) -> Finding:
        return finding("schema", view.line(place), message, fix)

    inference, tensor = ids(view, "inference_gpu_ids"), view.number("inference.parallel.tp")
    if view.has("inference") and tensor is not None:
        replicas = view.number("inference.parallel.dp") or 1
        if tensor == 0 or (len(inference) != replicas * tensor and len(inference) % tensor):
            place = "inference_gpu_ids"
            if view.has("inference.parallel.tp"):
                place = "inference.parallel.tp"
            yield refuse(
                place,
                f"{len(inference)} inference GPUs cannot be split into groups of {tensor:g} (tp).",
                "Make them a multiple of tp.",
            )
    rank = None
    if view.has("trainer.model.lora"):
        rank = view.number("trainer.model.lora.rank")
    if view.has("inference.max_lora_rank"):
        rank = view.number("inference.max_lora_rank")
        if rank is not None and rank > RANKS:
            yield refuse(
                "inference.max_lora_rank",
                f"vLLM serves adapters up to rank {RANKS}.",
                f"Use {RANKS} or less.",
            )
    elif rank is not None and rank > RANKS and view.has("inference"):
        yield finding(
            "schema",
            view.line("trainer.model.lora.rank"),
            f"vLLM serves adapters up to rank {RANKS}.",
            "Lower it.",
            level="warning",
        )
    if (view.number("trainer.loss.teacher_tau") or 0) > 0 and not (
        view.has("orchestrator.teacher_model") or view.written("teacher_gpu_ids")
    ):
        yield refuse(
            "trainer.loss.teacher_tau",
            "teacher_tau needs a teacher.",
            "Set teacher_gpu_ids or [orchestrator.teacher_model].",
        )
    yield from trainer(view)
    yield from buffer(view)
    yield from _teacher(view)


def trainer(view: View) -> Iterator[Finding]:
    """Yield findings about values that the trainer's own class refuses."""

    def refuse(place: str, message: str, fix: str) -> Finding:
        return finding("schema", view.line(place), message, fix)

    for low, high in (
        ("token_mask_low", "token_mask_high"),
        ("geo_mask_low", "geo_mask_high"),
        ("sequence_mask_low", "sequence_mask_high"),
    ):
        below, above = view.number(f"trainer.loss.{low}"), view.number(f"trainer.loss.{high}")
        if below is not None and above is not None and below >= above:
            if view.has(f"trainer.loss.{low}"):
                place = f"trainer.loss.{low}"
            else:
                place = f"trainer.loss.{high}"
            yield refuse(
                place, f"{low} = {below:g} is not below {high} = {above:g}.", f"Lower {low}."
            )
    cp = view.number("trainer.model.cp") or 1
    if cp > 1 and view.get("trainer.model.attn") == "sdpa":
        yield refuse(
            "trainer.model.attn",
            "Context parallelism needs flash attention.",
            'Set attn = "flash_attention_2".',
        )
    if (
        view.table("trainer.optim").get("type") == "muon"
        and view.written("trainer.model.fsdp_cpu_offload") is True
    ):
        yield refuse(
            "trainer.model.fsdp_cpu_offload",
            "Muon does not go with fsdp_cpu_offload.",
            "Remove one of the two.",
        )
    if view.written("trainer.model.trust_remote_code") is True and view.get(
        "trainer.model.impl"
    ) not in ("hf", "auto"):
        yield refuse(
            "trainer.model.trust_remote_code",
            "trust_remote_code needs impl hf or auto.",
            "Remove one of the two.",
        )
    chunk = view.written("trainer.model.fused_lm_head_chunk_size")
    if isinstance(chunk, int) and chunk < 512:
        yield refuse(
            "trainer.model.fused_lm_head_chunk_size",
            "fused_lm_head_chunk_size is at least 512.",
            "Raise it.",
        )
    yield from _saving(view)


def buffer(view: View) -> Iterator[Finding]:
    """Yield findings about the orchestrator's buffer: thresholds, ratios, and options that need
    rewards.
    """
    table = view.table("orchestrator.buffer")
    easy, hard = (
        view.written("orchestrator.buffer.easy_threshold"),
        view.written("orchestrator.buffer.hard_threshold"),
    )
    line = view.line("orchestrator.buffer.easy_threshold", "orchestrator.buffer")
    if easy is not None and hard is not None and easy <= hard:
        yield finding(
            "schema",
            line,
            f"easy_threshold = {easy} is not above hard_threshold = {hard}.",
            "Raise easy_threshold.",
        )
    ratios = table.get("env_ratios")
    if isinstance(ratios, list):
        count = 1
        if view.has("orchestrator.env"):
            count = len(view.tables("orchestrator.env"))
        if len(ratios) != count:
            yield finding(
                "schema",
                view.line("orchestrator.buffer.env_ratios"),
                f"{len(ratios)} env_ratios for {count} environments.",
                "Give one each.",
            )
        elif any(isinstance(ratio, int | float) and ratio <= 0 for ratio in ratios):
            yield finding(
                "schema",
                view.line("orchestrator.buffer.env_ratios"),
                "env_ratios are above 0.",
                "Raise them.",
            )
    if table.get("skip_verification") is True:
        for key in ("online_difficulty_filtering", "easy_threshold", "hard_threshold"):
            if table.get(key) not in (None, False):
                message = f"skip_verification leaves no rewards for {key}."
                yield finding(
                    "schema",
                    view.line("orchestrator.buffer.skip_verification"),
                    message,
                    "Remove one of the two.",
                )
                return


def _saving(view: View) -> Iterator[Finding]:
    place = "trainer.ckpt.weights.save_adapter_separately"
    if view.written("trainer.bench") is True:
        return  # benchmark mode saves nothing and sets max_steps to 4
    if view.written(place) is True and not view.has("trainer.model.lora"):
        yield finding(
            "schema", view.line(place), "There is no adapter to save without LoRA.", "Remove it."
        )
    if view.has("trainer.trace_path"):
        steps = view.number("trainer.max_steps")
        if steps is None or steps >= 10:
            yield finding(
                "schema",
                view.line("trainer.trace_path"),
                "A trace needs trainer.max_steps below 10.",
                "Set it, or remove trace_path.",
            )


def _teacher(view: View) -> Iterator[Finding]:
    if not view.written("teacher_gpu_ids"):
        return
    if (
        view.has("inference")
        and view.has("teacher_inference")
        and view.get("teacher_inference.server.port") == view.get("inference.server.port")
    ):
        yield finding(
            "schema",
            view.line("teacher_inference.server.port", "teacher_inference"),
            "The teacher has the inference server's port.",
            "Set another.",
        )
    if view.has("teacher_inference"):
        tensor = view.number("teacher_inference.parallel.tp")
    else:
        tensor = view.number("inference.parallel.tp")
    if tensor and len(ids(view, "teacher_gpu_ids")) % tensor:
        yield finding(
            "schema",
            view.line("teacher_gpu_ids"),
            "The teacher's GPUs are no multiple of tp.",
            "Make them one.",
        )
