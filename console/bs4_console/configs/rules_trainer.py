"""Rules of the current prime-rl about the tables of its trainer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bs4_console.configs.catalog import refuse, refuse_if
from bs4_console.configs.findings import Finding
from bs4_console.configs.rules_shared import remote_code
from bs4_console.configs.schema import load
from bs4_console.configs.view import View


def trainer(view: View) -> Iterator[Finding]:
    """Yield a finding for each value in the table [trainer] of a whole training's config that the
    trainer refuses because it does not go together with another value. An example is trace_path
    (record a trace) in a training of 10 steps or more.
    """
    return trainer_at(view, "trainer.")


def trainer_at(view: View, top: str) -> Iterator[Finding]:
    """Yield a finding for each of the trainer's values that the trainer refuses because it does not
    go together with another value. Examples are trace_path (record a trace) in a training of 10
    steps or more, a scheduler that does not fit into max_steps, and a setting with which a
    vision-language model cannot be trained.

    `top` is the prefix of the trainer's keys: "trainer." in the config of a whole training, and ""
    for sft, whose config has the same tables at its top.
    """
    steps = view.written(view.first(top + "max_steps", "max_steps"))
    yield from scheduler(view, top, steps)
    yield from pictures(view, top)
    yield from _offloading(view, top)
    yield from _implementation(view, top)
    model = top + "model."
    selective = view.written(model + "ac.mode") == "selective"
    yield from refuse_if(
        selective and view.written(model + "ac.targets") == [],
        view,
        model + "ac.targets",
        "Selective checkpointing needs a target.",
        "Name one.",
    )
    backend = model + "ep_comm_backend"
    if view.written(backend) == "deepep":
        parallel = view.written(model + "ep")
        yield from refuse_if(
            isinstance(parallel, int) and parallel <= 1,
            view,
            backend,
            "deepep needs ep above 1.",
            "Raise ep.",
        )
        yield from refuse_if(
            view.table(model + "quantization").get("type") == "mxfp8",
            view,
            backend,
            "MXFP8 needs ep_comm_backend torch.",
            "Change one of the two.",
        )
    yield from refuse_if(
        view.has(top + "trace_path") and (not isinstance(steps, int) or steps >= 10),
        view,
        top + "trace_path",
        "A trace needs max_steps below 10.",
        "Set it, or remove trace_path.",
    )


def _offloading(view: View, top: str) -> Iterator[Finding]:
    """Yield findings about ways to offload the trainer's tensors that exclude each other."""
    model = top + "model."
    offloads_optimizer = view.get(model + "optim_cpu_offload") is not False
    optimizer = view.table(top + "optim").get("type", "adamw")
    if view.written(model + "fsdp_cpu_offload") is True:
        yield from refuse_if(
            offloads_optimizer or view.has(model + "full_offload"),
            view,
            model + "fsdp_cpu_offload",
            "fsdp_cpu_offload and optimizer offload exclude each other, and optim_cpu_offload is "
            "on by default.",
            "Set optim_cpu_offload = false, or remove it.",
        )
        yield from refuse_if(
            optimizer == "muon",
            view,
            model + "fsdp_cpu_offload",
            "Muon does not go with fsdp_cpu_offload.",
            "Remove one of the two.",
        )
    elif view.is_table(model + "full_offload"):
        yield from refuse_if(
            offloads_optimizer,
            view,
            model + "full_offload",
            "full_offload and optim_cpu_offload exclude each other.",
            "Set optim_cpu_offload = false.",
        )
        yield from refuse_if(
            optimizer not in ("adamw", "sign_sgd"),
            view,
            model + "full_offload",
            "full_offload goes with adamw and sign_sgd only.",
            "Change the optimizer.",
        )


def _implementation(view: View, top: str) -> Iterator[Finding]:
    """Yield findings about options that the chosen implementation of the model does not have."""
    model = top + "model."
    impl = view.get(model + "impl")
    yield from refuse_if(
        impl == "hf" and view.get(model + "attn") in ("flash_attention_4", "auto"),
        view,
        model + "impl",
        'impl = "hf" needs attn = "flash_attention_2" or 3.',
        "Set attn.",
    )
    yield from remote_code(view, model)
    if impl in ("custom", "auto"):
        return
    for place, off in (("cp", 1), ("ep", 1), ("quantization", None)):
        yield from refuse_if(
            view.written(model + place) not in (None, off, "auto"),
            view,
            model + place,
            f'{place} does not go with impl = "{impl}".',
            'Set impl = "custom" or "auto".',
        )
    yield from refuse_if(
        view.written(model + "ac.mode") == "selective",
        view,
        model + "ac.mode",
        'Selective checkpointing needs impl "custom" or "auto".',
        "Change one of the two.",
    )
    yield from refuse_if(
        view.written(top + "enable_router_replay") is True,
        view,
        top + "enable_router_replay",
        'Router replay needs impl "custom" or "auto".',
        "Change one of the two.",
    )


def scheduler(view: View, top: str, steps: Any) -> Iterator[Finding]:
    """Yield a finding if a linear or cosine scheduler of the learning rate does not fit into
    `steps`, the number of training steps (None: not set). That is so if warm-up and decay together
    are longer than `steps`, if both are 0, or if they need `steps` and it is not set. `top` is the
    prefix of the trainer's keys, such as "trainer.".
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
        yield refuse(
            view,
            top + "scheduler.decay_steps",
            f"warmup_steps = {warmup} and decay_steps = {decay} are more than max_steps = {steps}.",
            "Lower them; together they fit max_steps.",
        )
    elif isinstance(steps, int) and kind == "cosine" and warmup >= steps:
        yield refuse(
            view,
            top + "scheduler.warmup_steps",
            f"warmup_steps = {warmup} is not below max_steps = {steps}.",
            "Lower it.",
        )


def pictures(view: View, top: str) -> Iterator[Finding]:
    """Yield a finding for each value with which a vision-language model cannot be trained: a model
    implementation other than custom, dtypes other than bfloat16, context parallelism of another
    style than ulysses, and LoRA although the vision encoder is not frozen. Yield nothing if the
    config has no [vlm] table. `top` is the prefix of the trainer's keys, such as "trainer.".
    """
    model = top + "model."
    place = view.first(model + "vlm", "model.vlm", model + "vlm")
    if not view.is_table(place):
        return
    yield from refuse_if(
        view.get(model + "impl") != "custom",
        view,
        place,
        'A vision-language model needs impl = "custom".',
        "Set it in the trainer's [model].",
    )
    types = {view.get(model + "optimization_dtype"), view.get(model + "reduce_dtype")}
    yield from refuse_if(
        types != {"bfloat16"},
        view,
        place,
        "A vision-language model is trained in bfloat16.",
        "Set optimization_dtype and reduce_dtype to it.",
    )
    yield from refuse_if(
        (view.number(model + "cp") or 1) > 1 and view.get(model + "cp_style") != "ulysses",
        view,
        model + "cp",
        "Context parallelism of a vision-language model is by ulysses.",
        'Set cp_style = "ulysses".',
    )
    trains_encoder = view.written(f"{place}.freeze_vision_encoder") is False
    yield from refuse_if(
        trains_encoder and view.is_table(model + "lora"),
        view,
        f"{place}.freeze_vision_encoder",
        "LoRA freezes the vision encoder too.",
        "Remove one of the two.",
    )
