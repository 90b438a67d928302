"""Rules for the config of one component by itself: trainer.toml, orch.toml, infer.toml, sft.toml,
eval.toml.

The values of a component stand in the view under the component's name, as in the config of the
whole training. So the rules of the whole that look at one side only are used here too. What the
sides must have in common cannot be seen in one file. The constraints of sft and eval are those of
their classes at a24ec986b and 559b44772.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from bs4_console.configs import (
    rules_current,
    rules_january,
    rules_launch,
    rules_shared,
    rules_trainer,
)
from bs4_console.configs.catalog import all_of, finding, refuse, refuse_if
from bs4_console.configs.findings import Finding
from bs4_console.configs.rules_shared import january, key_of
from bs4_console.configs.view import View

Rules = Callable[[View], Iterator[Finding]]


def check(view: View, component: str) -> Iterator[Finding]:
    """Yield the findings of every rule about a config of a single program, as opposed to the config
    of a whole training. `component` names the program: trainer, orchestrator, inference, sft or
    eval.
    """
    yield from all_of(_rules(january(view), component), view)
    commands = rules_launch.launches(view)
    yield from rules_launch.spelling(view)
    if january(view):
        yield from rules_launch.stack(commands)
    else:
        yield from rules_launch.deleting(view, commands)


def _rules(old: bool, component: str) -> tuple[Rules, ...]:
    """Return the rules for a component. `old` is True for the generation of January 2026."""
    shared, january_only, current_only = _RULES[component]
    return (*shared, *(january_only if old else current_only))


def model(view: View) -> Iterator[Finding]:
    """Yield a finding if the config names in its table [model] a model whose training failed
    according to the console's registry of models (configs/models.toml).
    """
    name = view.written("model.name")
    if isinstance(name, str):
        yield from rules_shared.blocked_model("model.name", name, view)


def broadcast(view: View) -> Iterator[Finding]:
    """Yield a finding if a trainer's config trains a LoRA adapter and sends weights to the
    inference server by NCCL or NIXL, which cannot send adapters. In a config for prime-rl of
    January 2026, also yield one if weights are sent by NCCL and max_async_level is not 1.
    """
    kind = view.table("trainer.weight_broadcast").get("type", "filesystem")
    place = "trainer.weight_broadcast.type"
    if kind in ("nccl", "nixl") and view.is_table("trainer.model.lora"):
        yield finding(
            "R31" if january(view) else "schema",
            view.line(place),
            f"{kind} does not carry LoRA adapters.",
            'Set weight_broadcast.type = "filesystem".',
        )
    if january(view) and kind == "nccl" and view.number("trainer.max_async_level") != 1:
        yield finding(
            "R31",
            view.line("trainer.max_async_level", place),
            "NCCL weight broadcast works with max_async_level = 1 only.",
        )


def levels(view: View) -> Iterator[Finding]:
    """Yield a finding if the orchestrator gets the weights by NCCL and its max_async_level is not
    1. Yield nothing if the config sets orchestrator.bench (a benchmark).
    """
    kind = view.table("orchestrator.weight_broadcast").get("type", "filesystem")
    place = "orchestrator.max_async_level"
    is_benchmark = view.written("orchestrator.bench") is True
    if kind == "nccl" and view.number(place) != 1 and not is_benchmark:
        yield finding(
            "R31",
            view.line(place, "orchestrator.weight_broadcast"),
            "NCCL weight broadcast works with max_async_level = 1 only.",
        )


def ranks(view: View) -> Iterator[Finding]:
    """Yield a finding if max_lora_rank of the inference server is higher than the highest LoRA rank
    that vLLM can serve.
    """
    place = key_of(view, "inference.max_lora_rank", "inference.vllm.max_lora_rank")
    return rules_shared.served_rank(view, place, "Lower it.")


def eval_january(view: View) -> Iterator[Finding]:
    """Yield findings about a config of an evaluation for prime-rl of January 2026. Yield one if
    neither the base model nor checkpoints are to be evaluated, and one if resume_path is set
    although the table [save] does not set stream = true. Yield one if resume_path, which names a
    single file, is set although there are several environments or checkpoints.
    """
    yield from refuse_if(
        not view.has("weights_dir") and view.written("eval_base") is False,
        view,
        "eval_base",
        "Neither the base model nor checkpoints are evaluated.",
        "Set eval_base = true, or weights_dir.",
    )
    if not view.has("resume_path"):
        return
    yield from refuse_if(
        view.written("save.stream") is not True,
        view,
        "resume_path",
        "resume_path needs results that were saved one by one.",
        "Set [save] stream = true.",
    )
    yield from refuse_if(
        len(view.tables("env")) > 1 or view.has("weights_dir"),
        view,
        "resume_path",
        "resume_path is one file, for one environment and one model.",
        "Evaluate them one at a time.",
    )


def eval_current(view: View) -> Iterator[Finding]:
    """Yield findings about the table [eval] of a config for the current prime-rl: for a source of
    prompts that has no environment, or a name that another source has or that is reserved; for a
    table without any source; and for limits on the number of rollouts in flight (being generated at
    the same time) that contradict each other.
    """
    yield from rules_current.sources_at(view, "eval")
    if view.is_table("eval"):
        yield from rules_current.inflight(view, "eval.concurrency", None)


def replicas(view: View) -> Iterator[Finding]:
    """Yield a finding if weights are sent by NCCL to the inference server and parallel.dp, the
    number of its replicas, is not 1.
    """
    kind = view.table("inference.weight_broadcast").get("type", "filesystem")
    if kind == "nccl" and view.number("inference.parallel.dp") != 1:
        yield finding(
            "R31",
            view.line("inference.parallel.dp"),
            "NCCL weight broadcast works with one inference replica.",
        )


def data(view: View) -> Iterator[Finding]:
    """Yield a finding if the batch size in a config of supervised fine-tuning (SFT) is not a
    multiple of the micro batch size. Yield one if the lists `subsets`, `splits` and `probabilities`
    of its data differ in length.
    """
    size, micro = view.number("data.batch_size"), view.number("data.micro_batch_size")
    size, micro = 128 if size is None else size, 1 if micro is None else micro
    yield from refuse_if(
        micro and size % micro,
        view,
        "data.batch_size",
        f"batch_size = {size:g} is not a multiple of micro_batch_size = {micro:g}.",
        "Change one.",
    )
    counts = {}
    for key in ("subsets", "splits", "probabilities"):
        value = view.written(f"data.{key}")
        if isinstance(value, list):
            counts[key] = len(value)
    if len(set(counts.values())) > 1 and ("subsets" in counts or "splits" in counts):
        said = ", ".join(f"{count} {key}" for key, count in counts.items())
        yield refuse(
            view,
            f"data.{next(iter(counts))}",
            f"{said}: they go together one by one.",
            "Give as many of each.",
        )


def trace(view: View) -> Iterator[Finding]:
    """Yield a finding if a config of supervised fine-tuning (SFT) sets trace_path (record a trace)
    for a training of 10 steps or more. Yield one if it uses the Muon optimizer together with CPU
    offload.
    """
    steps = view.number("max_steps")
    yield from refuse_if(
        view.has("trace_path") and (steps is None or steps >= 10),
        view,
        "trace_path",
        "A trace needs max_steps below 10.",
        "Set it, or remove trace_path.",
    )
    yield from rules_shared.muon_offload(view, "")


def sft_january(view: View) -> Iterator[Finding]:
    """Yield a finding for each value in a config of supervised fine-tuning (SFT) for prime-rl of
    January 2026 that the trainer refuses because it does not go together with another value. An
    example is a seq_len that is not a multiple of 256 although samples are packed by the method
    "stack".
    """
    packing = view.get("data.pack_function") or "cat"
    tokens = view.number("data.seq_len") or 128
    cp = view.number("model.cp") or 1
    yield from refuse_if(
        packing == "stack" and tokens % 256,
        view,
        "data.seq_len",
        f"seq_len = {tokens:g} is not a multiple of 256, which stacking needs.",
        "Change one of the two.",
    )
    yield from refuse_if(
        cp > 1 and packing != "cat",
        view,
        "data.pack_function",
        "Context parallelism packs by cat only.",
        'Set pack_function = "cat".',
    )
    yield from refuse_if(
        cp > 1 and tokens % cp,
        view,
        "data.seq_len",
        f"seq_len = {tokens:g} is not a multiple of cp = {cp:g}.",
        "Change one of the two.",
    )
    yield from refuse_if(
        cp > 1 and (view.number("data.micro_batch_size") or 1) != 1,
        view,
        "data.micro_batch_size",
        "Context parallelism needs micro_batch_size = 1.",
        "Set it.",
    )
    yield from rules_shared.parallel_attention(view, "model.")
    separately = "ckpt.weights.save_adapter_separately"
    yield from refuse_if(
        view.written(separately) is True and not view.has("model.lora"),
        view,
        separately,
        "There is no adapter to save without LoRA.",
        "Remove it.",
    )
    yield from refuse_if(
        view.has("model.fused_lm_head_chunk_size"),
        view,
        "model.fused_lm_head_chunk_size",
        "SFT has no chunked loss in this generation.",
        "Remove it.",
    )
    yield from rules_shared.remote_code(view, "model.")


def sft_current(view: View) -> Iterator[Finding]:
    """Yield a finding for each pair of values in a config of supervised fine-tuning (SFT) for the
    current prime-rl that do not go together: more GPUs than the node has, several nodes without a
    table [slurm], a table [inference] without a table [eval]. Also yield findings about the table
    [eval], and about values of the trainer that do not go together.
    """
    train = view.number("deployment.num_train_gpus") or 1
    node = view.number("deployment.gpus_per_node") or 8
    if view.get("deployment.type") == "multi_node":
        yield from refuse_if(
            not view.has("slurm"),
            view,
            "deployment.type",
            "A deployment over several nodes needs [slurm].",
            "Add it, or use one node.",
        )
    elif train > node:
        yield finding(
            "R25",
            view.line("deployment.num_train_gpus"),
            f"{train:g} GPUs are more than the node's {node:g}.",
        )
    yield from refuse_if(
        view.has("inference") and not view.has("eval"),
        view,
        "inference",
        "[inference] serves the evals only, and there is no [eval].",
        "Add [eval], or remove it.",
    )
    if view.is_table("eval"):
        yield from eval_current(view)
    yield from rules_trainer.trainer_at(view, "")


#: The rules of each component: (both generations, January 2026 only, the current one only). The
#: sides' agreement in resuming is checked in the config of the whole training.
_RULES: Mapping[str, tuple[Sequence[Rules], Sequence[Rules], Sequence[Rules]]] = {
    "orchestrator": (
        (
            rules_shared.answer_length,
            rules_shared.batch,
            rules_shared.model,
            rules_shared.environments,
        ),
        (rules_january.buffer, levels),
        (
            rules_current.batching,
            rules_current.sources,
            rules_current.renderer,
            rules_current.algorithms,
            rules_current.resume_tables,
            rules_current.variables,
        ),
    ),
    "trainer": (
        (rules_shared.offload, rules_shared.model),
        (rules_january.trainer, broadcast),
        (
            rules_trainer.trainer,
            broadcast,
            rules_current.resume_tables,
            rules_current.variables,
        ),
    ),
    "inference": (
        (rules_shared.model, rules_shared.parser, ranks),
        (rules_january.eager, replicas),
        (
            rules_current.inference_nodes,
            rules_current.offloaded_cache,
            rules_current.variables,
        ),
    ),
    "sft": (
        (model, data, trace),
        (sft_january,),
        (rules_current.resume_tables, sft_current, rules_current.variables),
    ),
    "eval": ((model,), (eval_january,), (eval_current,)),
}
