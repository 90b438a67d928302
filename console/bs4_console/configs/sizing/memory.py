"""Estimate how much GPU memory a config needs, with the arithmetic.

The constants reproduce what beautifulsoup-rl measured on its pods in January 2026: 7B with both
sides on one 80 GB GPU took 72 GB; 8B does not train on 24 GB, and 3B does; without activation
checkpointing 7B needs about 20 GB more; a checkpoint of 8B with an adapter is 31 GB, and with the
weights that prime-rl of January 2026 writes beside each one 47 GB. Of verl it is known that 1.5B
trained whole on one 80 GB GPU with a rollout share of 0.65 and did not start with 0.88. An estimate
is a plan and no promise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import TypedDict

import yaml

from bs4_console.configs.diff import valid
from bs4_console.configs.document import BadToml, read_text
from bs4_console.configs.families import billions
from bs4_console.configs.rules_january import common_gpus, ids
from bs4_console.configs.rules_shared import first_model, january, key_of, sequence
from bs4_console.configs.rules_verl import Job, jobs
from bs4_console.configs.schema import Checker
from bs4_console.configs.view import View
from bs4_console.errors import NotApplicableError, UsageError

GIB = 1 << 30
#: Activations of 7B at 4096 tokens without checkpointing, in GiB, and the share of them that
#: checkpointing leaves.
ACTIVATIONS, KEPT = 20.0, 0.1
#: The vocabulary of current models in tokens, the CUDA context and buffers of one process in GiB,
#: and the cache of one token for 8B in bytes.
VOCABULARY, CONTEXT, CACHE = 152_064, 1.5, 147_456
#: The share of a GPU's memory that a trainer can use. Beyond it fragmentation makes it fail.
FULL = 0.95
#: The share of a GPU that verl gives the engine of the rollouts, and its GPUs a node, by default.
VERL_SHARE, VERL_GPUS = 0.5, 8
_ACTOR, _ROLLOUT = "actor_rollout_ref.actor.", "actor_rollout_ref.rollout."


@dataclass(frozen=True)
class Part:
    """One use of GPU memory: its `name`, such as the weights of the model, its size `gib` in GiB,
    and in `arithmetic` a text that says how that size was computed.
    """

    name: str
    gib: float
    arithmetic: str


@dataclass(frozen=True)
class Side:
    """The memory that one program (the trainer, the inference server, or both on one GPU), or one
    phase of verl, needs on each of its GPUs.

    `name` names the program or phase, and `gpus` is the number of its GPUs. `limit` is the memory
    in GiB that it may use on one of them, and `parts` are the uses of that memory.
    """

    name: str
    gpus: int
    parts: list[Part]
    limit: float

    @property
    def gib(self) -> float:
        """Return the memory that the program needs on one GPU, in GiB: the sum of its parts."""
        return sum(part.gib for part in self.parts)

    @property
    def fits(self) -> bool:
        """Return True if the memory that the program needs on one GPU is within its limit."""
        return self.gib <= self.limit


class SideRow(TypedDict):
    """The GPU memory that one program needs (a `Side`), as a JSON object."""

    name: str
    gpus: int
    parts: Sequence[Part]
    limit: float
    """The memory in GiB that the program may use on one GPU."""
    gib: float
    """The memory in GiB that it needs on one GPU."""
    fits: bool
    """True if that is within the limit."""


class EstimateRow(TypedDict):
    """The GPU memory that a config needs (an `Estimate`), as a JSON object."""

    billions: float
    """The number of the model's parameters in 10^9."""
    sides: Sequence[SideRow]
    notes: Sequence[str]
    """Sentences for a person."""
    fits: bool
    """True if every program fits within its limit."""


@dataclass
class Estimate:
    """The GPU memory that a config needs. `sides` has one Side for the trainer, one for the
    inference server if there is one, and one for both together if they share a GPU. For verl it has
    one for each phase. `billions` is the number of the model's parameters in 10^9, and `notes` are
    sentences for a person.
    """

    billions: float
    sides: list[Side]
    notes: list[str] = field(default_factory=list)

    @property
    def fits(self) -> bool:
        """Return True if every program fits within its limit of GPU memory."""
        return all(side.fits for side in self.sides)

    def lines(self, gpu_gib: float) -> list[str]:
        """Return the estimate as lines of text for a person: each part of the memory with how it
        was computed, and then the notes. `gpu_gib` is the memory of one GPU in GiB.
        """
        told = []
        for side in self.sides:
            told.append(f"{side.name} ({side.gpus} GPU{'s' if side.gpus > 1 else ''})")
            for part in side.parts:
                told.append(f"  {part.gib:8.1f} GiB  {part.name}: {part.arithmetic}")
            told.append(
                f"  {side.gib:8.1f} GiB  of {gpu_gib:g} a GPU: "
                f"{'fits' if side.fits else 'DOES NOT FIT'}"
            )
        return [*told, *self.notes]

    def as_dict(self) -> EstimateRow:
        """Return the estimate as a JSON object, in the form in which `config estimate --json`
        prints it. All sizes are in GiB.
        """
        sides: list[SideRow] = []
        for side in self.sides:
            sides.append(
                {
                    "name": side.name,
                    "gpus": side.gpus,
                    "parts": side.parts,
                    "limit": side.limit,
                    "gib": round(side.gib, 1),
                    "fits": side.fits,
                }
            )
        return {"billions": self.billions, "sides": sides, "notes": self.notes, "fits": self.fits}


def estimate(file: File, trainer: str, gpu_gib: float, size: float | None = None) -> Estimate:
    """Return an estimate of the GPU memory that the training with a config file needs.

    `trainer` is the id of the trainer, such as "prime-rl". `gpu_gib` is the memory of one GPU in
    GiB. `size` is the number of the model's parameters in 10^9; None means that it is read from the
    model's name. Raises UsageError if the file cannot be read or is not TOML, or if the size is not
    known. Raises NotApplicableError for two kinds of verl trainings that cannot be estimated:
    supervised fine-tuning (SFT), and trainings with Megatron.
    """
    if trainer == "verl":
        try:
            started = jobs(file, read_text(file), "")
        except (BadToml, yaml.YAMLError, TypeError) as error:
            raise UsageError(f"{file} is no config of verl.", "Lint it.") from error
        if not started:
            raise UsageError(f"Nothing in {file} starts verl.", "Give a verl config or script.")
        return _verl(started[0], gpu_gib, size)
    document = valid(file, follow=trainer == "prime-rl-2026-01")
    values, _ = Checker(trainer).check(document.data)
    return estimate_view(View(trainer, document, values), gpu_gib, size)


def estimate_view(view: View, gpu_gib: float, size: float | None = None) -> Estimate:
    """Return an estimate of the GPU memory that the training with the config `view` needs.
    `gpu_gib` is the memory of one GPU in GiB. `size` is the number of the model's parameters in
    10^9; None means that it is read from the model's name. Raises UsageError if the size is not
    known or `gpu_gib` is not above 0.
    """
    parameters = parameters_of(first_model(view, "Qwen/Qwen3-0.6B"), gpu_gib, size)
    trainers, servers, shared = _gpus(view)
    training = _trainer(view, parameters, max(trainers, 1))
    serving = _inference(view, parameters)
    sides = [Side("trainer", trainers, training, gpu_gib * FULL)]
    each, of = checkpoint_bytes(view)
    notes = [
        f"A checkpoint is about {parameters * each * 1e9 / GIB:.0f} GiB ({parameters:g}B x "
        f"{each:g} bytes: {of}); keep_last + 1 of them have to fit the disk."
    ]
    if view.has("inference"):
        place = key_of(
            view, "inference.gpu_memory_utilization", "inference.vllm.gpu_memory_utilization"
        )
        share = view.number(place) or 0.9
        sides.append(Side("inference", servers, serving, gpu_gib * share))
        if shared:
            both = [
                Part("inference", gpu_gib * share, f"{share:g} x {gpu_gib:g} GiB, taken at start"),
                *training,
            ]
            sides.append(Side("both on one GPU", 1, both, gpu_gib * FULL))
        if _tensor(view) > 1 and parameters < 10:
            notes.append("Below 10B, more replicas answer faster than tensor parallelism.")
    return Estimate(parameters, sides, notes)


def parameters_of(name: str, gpu_gib: float, size: float | None) -> float:
    """Return `size`, or the number of parameters in 10^9 that the model's name says. Raises
    UsageError if neither is known, or if `gpu_gib` is not above 0.
    """
    parameters = size if size is not None else billions(name)
    if parameters is None or parameters <= 0:
        raise UsageError(
            f"The name {name} does not say how large the model is.", "Give --billions."
        )
    if gpu_gib <= 0:
        raise UsageError("A GPU has more than 0 GiB.", "Give --gpu-gib.")
    return parameters


def _verl(job: Job, gpu_gib: float, given: float | None) -> Estimate:
    """Return an estimate for a training of verl, whose actor (FSDP) and engine take turns on the
    same GPUs: first the rollouts, while the actor's weights and optimizer stay, then the update,
    while the engine is asleep. Raises NotApplicableError for an SFT or Megatron, and UsageError
    if the size or the number of GPUs is not known.
    """
    if job.sft or job.get(_ACTOR + "strategy") == "megatron":
        raise NotApplicableError(
            "Memory of verl is estimated for RL with FSDP, and not for an SFT or Megatron.",
            "Lint the config.",
        )
    size = parameters_of(str(job.get("actor_rollout_ref.model.path")), gpu_gib, given)
    counts = ("trainer.n_gpus_per_node", "trainer.nnodes")
    if any(job.get(key) is not None and not job.number(key) for key in counts):
        raise UsageError("On how many GPUs this runs is not known.", f"Give {counts[0]} a number.")
    gpus = int((job.number(counts[0]) or VERL_GPUS) * (job.number(counts[1]) or 1))
    tensor = int(job.number(_ROLLOUT + "tensor_model_parallel_size") or 2)
    if gpus < 1 or tensor < 1:
        raise UsageError("A verl run has at least one GPU, and so has an engine.", "Lint it.")
    tokens = (job.number("data.max_prompt_length") or 512) + (
        job.number("data.max_response_length") or 512
    )
    share = job.number(_ROLLOUT + "gpu_memory_utilization") or VERL_SHARE
    rank = job.number("actor_rollout_ref.model.lora_rank") or 0
    weights = Part("weights", size * 4e9 / gpus / GIB, f"{size:g}B x 4 bytes / {gpus} GPU")
    context = Part("context", CONTEXT, "CUDA and buffers")
    learned, kept = _learned(size, gpus, rank), _moments(size, gpus, rank)
    engine = Part("rollout share", gpu_gib * share, f"{share:g} x {gpu_gib:g} GiB, by the config")
    rolling, updating = [engine], [weights, learned]
    if job.get(_ACTOR + "fsdp_config.param_offload") is not True:
        rolling.append(weights)
    if job.get(_ACTOR + "fsdp_config.optimizer_offload") is not True:
        rolling.append(kept)
    if job.get(_ROLLOUT + "free_cache_engine") is False:
        updating.insert(0, engine)
    loss = job.get(_ACTOR + "use_kl_loss") is True
    compared = loss or job.get("algorithm.use_kl_in_reward") is True
    if (
        compared
        and not rank
        and job.get("actor_rollout_ref.ref.fsdp_config.param_offload") is not True
    ):
        held = f"{size:g}B x 2 bytes / {gpus} GPU"
        reference = Part("reference model", size * 2e9 / gpus / GIB, held)
        rolling.append(reference)
        updating.append(reference)
    at_once, said = tokens * (job.number(_ACTOR + "ppo_micro_batch_size_per_gpu") or 1), "full"
    if job.get(_ACTOR + "use_dynamic_bsz") is True:
        at_once = job.number(_ACTOR + "ppo_max_token_len_per_gpu") or 16384
        said = "packed"
    checkpointed = job.get("actor_rollout_ref.model.enable_gradient_checkpointing") is not False
    updating += [*_passed(size, at_once, checkpointed), context]
    notes = [
        f"Estimated and not measured: {at_once:g} tokens at once in the update ({said} samples; "
        "shorter ones need less). Activations are scaled from what prime-rl took (7B at 4096 "
        "tokens), weights and optimizer are FP32 under FSDP.",
        "Measured with verl: 1.5B trained whole on one 80 GB GPU with a rollout share of 0.65; "
        "with 0.88 it did not start.",
    ]
    if job.get("algorithm.adv_estimator") in (None, "gae"):
        notes.append("The critic of PPO (gae) is not counted; it needs about what the actor does.")
    sides = [
        Side("engine in its share", gpus, _served(size, tensor, tokens), gpu_gib * share),
        Side("during rollouts", gpus, [*rolling, context], gpu_gib * FULL),
        Side("during the update", gpus, updating, gpu_gib * FULL),
    ]
    return Estimate(size, sides, notes)


def _moments(size: float, gpus: int, rank: float) -> Part:
    """Return what of a verl actor's optimizer stays on each GPU between updates: Adam's moments."""
    trained, split = size * 1e9, gpus
    if rank:
        trained, split = _adapter(size, rank), 1
    return Part("optimizer", trained * 8 / split / GIB, f"{trained / 1e6:.0f}M x 8 bytes / {split}")


def checkpoint_bytes(view: View) -> tuple[float, str]:
    """Return how large one checkpoint of a training with this config is. The result is a pair: how
    many bytes on the disk it has for each parameter of the model, and a phrase that says what these
    bytes are, such as "weights and optimizer".

    If an adapter is trained, the trainer saves only the weights. Otherwise it also saves the state
    of the Adam optimizer, which has two numbers for each weight. prime-rl of January 2026 writes
    the weights a second time, in 16 bits, to the directory `weights/step_N`.
    """
    width, of = 4.0, "weights"
    if view.get("trainer.model.optimization_dtype") == "bfloat16":
        width = 2.0
    if not view.is_table("trainer.model.lora") and not view.is_table(
        "trainer.model.experimental.lora"
    ):
        width, of = 3 * width, "weights and optimizer"
    if january(view):
        return width + 2.0, f"{of}, and the weights once more for inference"
    return width, of


def _gpus(view: View) -> tuple[int, int, bool]:
    """Return (trainer GPUs, inference GPUs, whether the two sides share a GPU)."""
    if january(view):
        trainers, servers = ids(view, "trainer_gpu_ids"), ids(view, "inference_gpu_ids")
        return len(trainers), len(servers), view.has("inference") and bool(common_gpus(view))
    trainer = int(view.number("deployment.num_train_gpus") or 1)
    return trainer, int(view.number("deployment.num_infer_gpus") or 1), False


def _tensor(view: View) -> int:
    """Return on how many GPUs each inference server lies (tensor parallelism)."""
    place = key_of(view, "inference.parallel.tp", "inference.vllm.tensor_parallel_size")
    return int(view.number(place) or 1)


def _trainer(view: View, size: float, gpus: int) -> list[Part]:
    """Return what the trainer needs on one of `gpus` GPUs. `size` is the number of parameters in
    10^9.
    """
    tokens = float(sequence(view)[0] or 2048)
    width = 2 if view.get("trainer.model.optimization_dtype") == "bfloat16" else 4
    rank = 0.0
    if view.is_table("trainer.model.lora"):
        rank = view.number("trainer.model.lora.rank") or 16
    return [
        Part("weights", size * 1e9 * width / gpus / GIB, f"{size:g}B x {width} bytes / {gpus} GPU"),
        _learned(size, gpus, rank),
        *_passed(size, tokens, isinstance(view.get("trainer.model.ac"), dict)),
        Part("context", CONTEXT, "CUDA and buffers"),
    ]


def _adapter(size: float, rank: float) -> float:
    """Return the number of parameters of an adapter of this rank."""
    return size * 1e9 * 0.0003 * rank


def _learned(size: float, gpus: int, rank: float) -> Part:
    """Return what training adds to the weights on one of `gpus` GPUs. `rank` is that of the adapter
    that is trained, or 0 if all weights are.
    """
    if rank:
        trained = _adapter(size, rank)
        said = f"rank {rank:g}: {trained / 1e6:.0f}M x 16 bytes"
        return Part("adapter with optimizer", trained * 16 / GIB, said)
    said = f"{size:g}B x 12 bytes / {gpus} GPU"
    return Part("gradients and optimizer", size * 12e9 / gpus / GIB, said)


def _passed(size: float, tokens: float, is_checkpointed: bool) -> list[Part]:
    """Return what a pass of `tokens` tokens through the model needs on one GPU."""
    kept, said = 1.0, f"{ACTIVATIONS:g} GiB x {size:g}/7 x {tokens:g}/4096"
    if is_checkpointed:
        kept, said = KEPT, f"{said} x {KEPT:g} (checkpointed)"
    return [
        Part("activations", ACTIVATIONS * size / 7 * tokens / 4096 * kept, said),
        Part(
            "logits", tokens * VOCABULARY * 8 / GIB, f"{tokens:g} tokens x {VOCABULARY} x 8 bytes"
        ),
    ]


def _inference(view: View, size: float) -> list[Part]:
    """Return what the inference server needs on one GPU. `size` is the number of parameters in
    10^9.
    """
    tensor = _tensor(view)
    place = key_of(view, "inference.model.max_model_len", "inference.vllm.max_model_len")
    return _served(size, tensor, view.number(place) or sequence(view)[1] or 2048)


def _served(size: float, tensor: int, tokens: float) -> list[Part]:
    """Return what an engine over `tensor` GPUs needs on each for one sequence of `tokens`."""
    one = CACHE * size / 8 / tensor
    return [
        Part("weights", size * 2e9 / tensor / GIB, f"{size:g}B x 2 bytes / tp {tensor}"),
        Part(
            "cache for one sequence",
            tokens * one / GIB,
            f"{tokens:g} tokens x {one / 1024:.0f} KiB",
        ),
        Part("context", CONTEXT, "CUDA and buffers"),
    ]
