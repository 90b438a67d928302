"""Rules for the config of one component by itself: trainer.toml, orch.toml, infer.toml, sft.toml,
eval.toml.

The values of a component stand in the view under the component's name, as in the config of the
whole training. So the rules of the whole that look at one side only are used here too. What the
sides must have in common cannot be seen in one file. The constraints of sft and eval are those of
their classes at a24ec986b and 559b44772.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bs4_console.configs import rules_current, rules_january, rules_launch, rules_shared
from bs4_console.configs.catalog import finding
from bs4_console.configs.families import known_bad
from bs4_console.configs.findings import Finding
from bs4_console.configs.rules_current import variables
from bs4_console.configs.rules_shared import january
from bs4_console.configs.view import View

Rules = Callable[[View], Iterator[Finding]]


def check(view: View, component: str) -> Iterator[Finding]:
    """Yield the findings of every rule that fits the config of `component`."""
    for rules in _rules(january(view), component):
        yield from rules(view)
    commands = rules_launch.launches(view)
    yield from rules_launch.spelling(view)
    if january(view):
        yield from rules_launch.stack(commands)
    else:
        yield from rules_launch.deleting(view, commands)


def _rules(old: bool, component: str) -> tuple[Rules, ...]:
    """Return the rules for a component. `old` is True for the generation of January 2026."""
    if component == "orchestrator":
        shared: tuple[Rules, ...] = (
            rules_shared.answer_length,
            rules_shared.batch,
            rules_shared.model,
            rules_shared.environments,
        )
        if old:
            return (*shared, rules_january.buffer, levels)
        return (
            *shared,
            rules_current.batching,
            rules_current.sources,
            rules_current.renderer,
            rules_current.algorithms,
            resuming,
            variables,
        )
    if component == "trainer":
        shared = (rules_shared.offload, rules_shared.model)
        if old:
            return (*shared, rules_january.trainer, broadcast)
        return (*shared, rules_current.trainer, broadcast, resuming, variables)
    if component == "inference":
        return (
            rules_shared.model,
            rules_shared.parser,
            ranks,
            *((rules_january.eager, replicas) if old else (inference_current, variables)),
        )
    if component == "sft":
        return (
            model,
            data,
            trace,
            *((sft_january,) if old else (resuming, sft_current, variables)),
        )
    return (model, eval_january if old else eval_current)


def model(view: View) -> Iterator[Finding]:
    """Yield a finding if the model is known to fail. For configs that have [model] at the top."""
    name = view.written("model.name")
    if isinstance(name, str) and (bad := known_bad(name, view.generation)):
        reason, here = bad
        yield finding(
            "R24",
            view.line("model.name"),
            f"{name} cannot be trained: {reason}.",
            level="error" if here else "warning",
        )


def _refuse(view: View, place: str, message: str, fix: str) -> Finding:
    return finding("schema", view.line(place), message, fix)


def broadcast(view: View) -> Iterator[Finding]:
    """Yield findings about the trainer's weight broadcast: LoRA, and the NCCL limit of January
    2026.
    """
    kind = view.table("trainer.weight_broadcast").get("type", "filesystem")
    place = "trainer.weight_broadcast.type"
    if kind in ("nccl", "nixl") and isinstance(view.written("trainer.model.lora"), dict):
        rule = "R31" if january(view) else "schema"
        yield finding(
            rule,
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
    """Yield a finding if the orchestrator's max_async_level does not go with NCCL."""
    kind = view.table("orchestrator.weight_broadcast").get("type", "filesystem")
    place = "orchestrator.max_async_level"
    if (
        kind == "nccl"
        and view.number(place) != 1
        and view.written("orchestrator.bench") is not True
    ):
        yield finding(
            "R31",
            view.line(place, "orchestrator.weight_broadcast"),
            "NCCL weight broadcast works with max_async_level = 1 only.",
        )


def ranks(view: View) -> Iterator[Finding]:
    """Yield a finding if the inference server's adapter rank is higher than vLLM serves."""
    place = "inference.vllm.max_lora_rank"
    if january(view):
        place = "inference.max_lora_rank"
    rank = view.number(place)
    if rank is not None and rank > rules_january.RANKS:
        yield _refuse(
            view, place, f"vLLM serves adapters up to rank {rules_january.RANKS}.", "Lower it."
        )


def resuming(view: View) -> Iterator[Finding]:
    """Yield findings about the [resume] tables of one side. That both sides resume alike is checked
    in the config of the whole training.
    """
    yield from rules_current.resume_tables(view)


def inference_current(view: View) -> Iterator[Finding]:
    """Yield findings about the current generation's inference config: nodes, router, KV cache."""
    kind = view.get("inference.deployment.type")
    if kind in ("multi_node", "disaggregated") and not view.has("inference.slurm"):
        yield _refuse(
            view,
            "inference.deployment.type",
            "Inference over several nodes needs [slurm].",
            "Add it.",
        )
    if kind == "single_node" and view.written("inference.router.type") == "llm-d":
        yield _refuse(
            view,
            "inference.router.type",
            "The llm-d router is for several nodes.",
            'Use "vllm-router".',
        )
    yield from rules_current.offloaded_cache(view)


def eval_january(view: View) -> Iterator[Finding]:
    """Yield findings about an eval config of January 2026."""
    if not view.has("weights_dir") and view.written("eval_base") is False:
        yield _refuse(
            view,
            "eval_base",
            "Neither the base model nor checkpoints are evaluated.",
            "Set eval_base = true, or weights_dir.",
        )
    if not view.has("resume_path"):
        return
    if view.written("save.stream") is not True:
        yield _refuse(
            view,
            "resume_path",
            "resume_path needs results that were saved one by one.",
            "Set [save] stream = true.",
        )
    if len(view.tables("env")) > 1 or view.has("weights_dir"):
        yield _refuse(
            view,
            "resume_path",
            "resume_path is one file, for one environment and one model.",
            "Evaluate them one at a time.",
        )


def eval_current(view: View) -> Iterator[Finding]:
    """Yield findings about the current generation's eval table."""
    yield from rules_current.sources_at(view, "eval")
    if isinstance(view.written("eval"), dict):
        yield from rules_current.inflight(view, "eval.concurrency", None)


def replicas(view: View) -> Iterator[Finding]:
    """Yield a finding if NCCL weight broadcast meets more than one inference replica."""
    kind = view.table("inference.weight_broadcast").get("type", "filesystem")
    if kind == "nccl" and view.number("inference.parallel.dp") != 1:
        yield finding(
            "R31",
            view.line("inference.parallel.dp"),
            "NCCL weight broadcast works with one inference replica.",
        )


def data(view: View) -> Iterator[Finding]:
    """Yield findings about the SFT data: batch sizes that do not divide, and lists of different
    lengths.
    """
    size, micro = view.number("data.batch_size"), view.number("data.micro_batch_size")
    size, micro = 128 if size is None else size, 1 if micro is None else micro
    if micro and size % micro:
        yield _refuse(
            view,
            "data.batch_size",
            f"batch_size = {size:g} is not a multiple of micro_batch_size = {micro:g}.",
            "Change one.",
        )
    lists = {}
    for key in ("subsets", "splits", "probabilities"):
        lists[key] = view.written(f"data.{key}")
    counts = {}
    for key, value in lists.items():
        if isinstance(value, list):
            counts[key] = len(value)
    if len(set(counts.values())) > 1 and ("subsets" in counts or "splits" in counts):
        said = ", ".join(f"{count} {key}" for key, count in counts.items())
        yield _refuse(
            view,
            f"data.{next(iter(counts))}",
            f"{said}: they go together one by one.",
            "Give as many of each.",
        )


def trace(view: View) -> Iterator[Finding]:
    """Yield findings about tracing too many steps, and about Muon with CPU offload."""
    steps = view.number("max_steps")
    if view.has("trace_path") and (steps is None or steps >= 10):
        yield _refuse(
            view, "trace_path", "A trace needs max_steps below 10.", "Set it, or remove trace_path."
        )
    if view.table("optim").get("type") == "muon" and view.written("model.fsdp_cpu_offload") is True:
        yield _refuse(
            view,
            "model.fsdp_cpu_offload",
            "Muon does not go with fsdp_cpu_offload.",
            "Remove one of the two.",
        )


def sft_january(view: View) -> Iterator[Finding]:
    """Yield findings about an SFT config of January 2026."""
    packing = view.get("data.pack_function") or "cat"
    tokens = view.number("data.seq_len") or 128
    cp = view.number("model.cp") or 1
    if packing == "stack" and tokens % 256:
        yield _refuse(
            view,
            "data.seq_len",
            f"seq_len = {tokens:g} is not a multiple of 256, which stacking needs.",
            "Change one of the two.",
        )
    if cp > 1 and packing != "cat":
        yield _refuse(
            view,
            "data.pack_function",
            "Context parallelism packs by cat only.",
            'Set pack_function = "cat".',
        )
    if cp > 1 and tokens % cp:
        yield _refuse(
            view,
            "data.seq_len",
            f"seq_len = {tokens:g} is not a multiple of cp = {cp:g}.",
            "Change one of the two.",
        )
    if cp > 1 and (view.number("data.micro_batch_size") or 1) != 1:
        yield _refuse(
            view,
            "data.micro_batch_size",
            "Context parallelism needs micro_batch_size = 1.",
            "Set it.",
        )
    if cp > 1 and view.get("model.attn") == "sdpa":
        yield _refuse(
            view,
            "model.attn",
            "Context parallelism needs flash attention.",
            'Set attn = "flash_attention_2".',
        )
    if view.written("ckpt.weights.save_adapter_separately") is True and not view.has("model.lora"):
        yield _refuse(
            view,
            "ckpt.weights.save_adapter_separately",
            "There is no adapter to save without LoRA.",
            "Remove it.",
        )
    if view.has("model.fused_lm_head_chunk_size"):
        yield _refuse(
            view,
            "model.fused_lm_head_chunk_size",
            "SFT has no chunked loss in this generation.",
            "Remove it.",
        )
    if view.written("model.trust_remote_code") is True and view.get("model.impl") not in (
        "hf",
        "auto",
    ):
        yield _refuse(
            view,
            "model.trust_remote_code",
            "trust_remote_code needs impl hf or auto.",
            "Remove one of the two.",
        )


def sft_current(view: View) -> Iterator[Finding]:
    """Yield findings about an SFT config of the current generation."""
    train, node = (
        view.number("deployment.num_train_gpus") or 1,
        view.number("deployment.gpus_per_node") or 8,
    )
    if view.get("deployment.type") == "multi_node":
        if not view.has("slurm"):
            yield _refuse(
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
    if view.has("inference") and not view.has("eval"):
        yield _refuse(
            view,
            "inference",
            "[inference] serves the evals only, and there is no [eval].",
            "Add [eval], or remove it.",
        )
    if isinstance(view.written("eval"), dict):
        yield from eval_current(view)
    yield from rules_current.trainer_at(view, "")
