"""Write a new config that fits the GPUs, by the estimate of its memory."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path as File

import tomlkit

from bs4_console.configs.document import Document
from bs4_console.configs.families import PARSERS, family, rendered
from bs4_console.configs.findings import Finding
from bs4_console.configs.lint import lint_document
from bs4_console.configs.schema import Checker
from bs4_console.configs.sizing.memory import CONTEXT, GIB, estimate_view, parameters_of
from bs4_console.configs.toml_lines import lines_of
from bs4_console.configs.view import USUAL_PROMPT, View
from bs4_console.errors import NotApplicableError, UsageError

_NAME = re.compile(r"[A-Za-z0-9_-]+")
#: The lines of a new config that train an adapter.
_ADAPTER = "\n[trainer.model.lora]\nrank = 8\nalpha = 32\n"


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What a person wants of a new config.

    `trainer` is the id of the trainer, and `model` the model's name. `gpus` is the number of GPUs
    and `gpu_gib` the memory of each in GiB. `billions` is the number of the model's parameters in
    10^9; None means that it is read from the model's name. `env` is the environment to train on,
    and `env_args` are its own settings, each as a name and a value in TOML. `answer` is the largest
    number of tokens of an answer; None means a number that suits the GPUs. `name` is the name of
    the run; for "", one is made up. With `lora` an adapter is trained, else all weights.
    """

    trainer: str
    model: str
    gpus: int
    gpu_gib: float = 80.0
    billions: float | None = None
    env: str = "reverse-text"
    env_args: tuple[tuple[str, str], ...] = ()
    answer: int | None = None
    name: str = ""
    lora: bool = True


@dataclass(frozen=True)
class Made:
    """A new config: `text` is its TOML, `reasons` are sentences that explain its numbers, and
    `findings` are what `config lint` has to say about it.
    """

    text: str
    reasons: list[str]
    findings: list[Finding]


def new(wish: Wish) -> Made:
    """Return a new config for `wish` that, according to the estimate of its GPU memory, fits on the
    GPUs, with the reasons for its numbers. No file is written.

    Raises NotApplicableError if no config fits, or if a single GPU is wanted for the current
    prime-rl, which needs more. Raises UsageError if the size of the model is not known.
    """
    size = parameters_of(wish.model, wish.gpu_gib, wish.billions)
    if wish.gpus == 1 and wish.trainer == "prime-rl":
        raise NotApplicableError(
            "The current prime-rl gives inference and trainer GPUs of their own.",
            "Give --gpus 2, or use prime-rl-2026-01.",
        )
    text, reasons = _write(wish, size)
    document = Document(
        file=File("config.toml"),
        text=text,
        data=Checker(wish.trainer).check(tomllib.loads(text))[0],
        lines=lines_of(text),
    )
    view = View(wish.trainer, document, document.data)
    sized = estimate_view(view, wish.gpu_gib, size)
    for side in sized.sides:
        if not side.fits:
            raise NotApplicableError(
                f"{wish.model} does not fit: {side.name} needs {side.gib:.0f} GiB of "
                f"{side.limit:.0f}.",
                "Take a smaller model, larger GPUs or more of them.",
            )
    return Made(text, reasons, lint_document(document, wish.trainer))


def argument(text: str) -> tuple[str, str]:
    """Return the name and the value of a setting of an environment from `text`, which a person has
    typed as `NAME=VALUE`. The returned value is TOML; a value that is not TOML becomes a text in
    quotes. Raises UsageError for a name that no setting can have.
    """
    name, equals, value = text.partition("=")
    if not equals or _NAME.fullmatch(name) is None or name == "id":
        raise UsageError(
            f"{text!r} is no setting of an environment.", "Give it as --env-arg NAME=VALUE."
        )
    try:
        if list(tomllib.loads(f"v = {value}")) == ["v"]:
            return name, value.strip()
    except tomllib.TOMLDecodeError:
        pass  # a text without quotes
    return name, tomlkit.string(value).as_string()


def _lengths(wish: Wish) -> tuple[int, int, int]:
    """Return the tokens of a sample that is trained on, of an answer, and of the context."""
    tokens, answer = (2048, 2000) if wish.gpus == 1 else (4096, 2048)
    if wish.answer is None:
        return tokens, answer, 4096
    context = max(4096, _rounded(wish.answer + USUAL_PROMPT))
    return max(tokens, _rounded(wish.answer)), wish.answer, context


def _rounded(tokens: int) -> int:
    """Return the next multiple of 1,024."""
    return -(-tokens // 1024) * 1024


def _write(wish: Wish, size: float) -> tuple[str, list[str]]:
    """Return (text, reasons) of a config with batch sizes and lengths that suit the GPUs."""
    one = wish.gpus == 1
    batch, group, share = 128, 8, 0.9
    tokens, answer, context = _lengths(wish)
    if one:
        batch, group, share = 8, 2, 0.5
    elif wish.gpu_gib < 40:
        batch, group, share = 64, 4, 0.7 if wish.gpu_gib < 30 else 0.8
    servers = 1 if one else max(wish.gpus // 2, 1)
    tensor = 1
    while tensor < servers and size * 2e9 / tensor / GIB + 2 * CONTEXT > wish.gpu_gib * share:
        tensor *= 2
    servers = max(servers // tensor, 1) * tensor
    short = wish.model.rsplit("/", 1)[-1].lower()
    values = _Template(
        model=wish.model,
        name=wish.name or f"{short}-{wish.gpus}gpu",
        batch=batch,
        group=group,
        tokens=tokens,
        answer=answer,
        context=context,
        args="".join(f"{name} = {value}\n" for name, value in wish.env_args),
        share=share,
        servers=servers,
        trainers=1 if one else wish.gpus - servers,
        tensor=tensor,
        one=one,
        parser=(PARSERS.get(family(wish.model)) or ("",))[0],
        env=wish.env,
        lora=wish.lora,
        checkpointing=one or wish.gpu_gib < 60,
    )
    reasons = [
        f"{servers} GPU for inference, {values.trainers} for the trainer"
        + (", the same one" if one else ""),
        f"batch_size {batch} of groups of {group}: what fits {wish.gpu_gib:g} GiB",
        f"{answer} answer tokens and a prompt of {USUAL_PROMPT} fit a context of {context}",
    ]
    return (
        _january_text(values) if wish.trainer == "prime-rl-2026-01" else _current_text(values)
    ), reasons


@dataclass(frozen=True, kw_only=True)
class _Template:
    """What is filled into the text of a new config."""

    model: str
    name: str
    batch: int
    group: int
    tokens: int
    """Of a sample that is trained on."""
    answer: int
    """Tokens."""
    context: int
    """Tokens."""
    args: str
    """The environment's settings, as lines of TOML."""
    share: float
    """Of a GPU's memory, for the inference server."""
    servers: int
    """GPUs for inference."""
    trainers: int
    """GPUs for the trainer."""
    tensor: int
    """GPUs of one inference server."""
    one: bool
    """True if both share one GPU."""
    parser: str
    env: str
    lora: bool
    checkpointing: bool


def _when(wanted: object, text: str) -> str:
    """Return the text if `wanted` is true, or else ""."""
    return text if wanted else ""


def _january_text(v: _Template) -> str:
    last = v.servers + v.trainers
    inference, trainer = list(range(v.servers)), list(range(v.servers, last))
    if v.one:
        inference, trainer = [0], [0]
    adapter = _when(v.lora, _ADAPTER)
    checkpointing = _when(v.checkpointing, "\n[trainer.model.ac]\nfreq = 1\n")
    name = _when(v.lora, f'lora_name = "{v.name}"\n')
    tools = f'enable_auto_tool_choice = true\ntool_call_parser = "{v.parser}"\n'
    parser = _when(v.parser, tools)
    parallel = _when(v.tensor > 1, f"\n[inference.parallel]\ntp = {v.tensor}\n")
    arguments = _when(v.args, f"\n[orchestrator.env.args]\n{v.args}")
    return f"""# Config version: v1
#   VLLM_WORKER_MULTIPROC_METHOD=spawn uv run rl @ {v.name}.toml --output-dir outputs/{v.name}
max_steps = 1000
inference_gpu_ids = {inference}
trainer_gpu_ids = {trainer}

[model]
name = "{v.model}"

[ckpt]
interval = 5
keep_last = 3

[trainer.optim]
lr = 1e-5
weight_decay = 0.0

[trainer.model]
seq_len = {v.tokens}
{checkpointing}{adapter}
[orchestrator]
batch_size = {v.batch}
rollouts_per_example = {v.group}
seq_len = {v.tokens}
{name}
[orchestrator.sampling]
max_tokens = {v.answer}

[orchestrator.buffer]
online_difficulty_filtering = true

[[orchestrator.env]]
id = "{v.env}"
{arguments}
[inference]
gpu_memory_utilization = {v.share}
{parallel}
[inference.model]
max_model_len = {v.context}
enforce_eager = true
{parser}"""


def _current_text(v: _Template) -> str:
    adapter = _when(v.lora, _ADAPTER)
    name = _when(v.lora, f'\n[orchestrator.model.lora]\nname = "{v.name}"\n')
    parser = _when(v.parser, f'tool_call_parser = "{v.parser}"\n')
    parallel = _when(v.tensor > 1, f"tensor_parallel_size = {v.tensor}\n")
    renderer = '\n[orchestrator.renderer]\nname = "default"\n' + _when(
        v.parser == "hermes", 'tool_parser = "hermes"\n'
    )
    renderer = _when(v.model not in rendered(), renderer)
    return f"""# Config version: v1
#   uv run rl @ {v.name}.toml
max_steps = 1000
seq_len = {v.tokens}

[run]
name = "{v.name}"

[model]
name = "{v.model}"

[deployment]
num_infer_gpus = {v.servers}
num_train_gpus = {v.trainers}

[ckpt]
interval = 5
keep_last = 3

[trainer.optim]
lr = 1e-5
weight_decay = 0.0
{adapter}
[orchestrator]
batch_size = {v.batch}
group_size = {v.group}
{name}{renderer}
[orchestrator.train.sampling]
max_completion_tokens = {v.answer}

[[orchestrator.train.source]]
name = "{v.env.rsplit("/", 1)[-1]}"

[orchestrator.train.source.env.taskset]
id = "{v.env.rsplit("/", 1)[-1]}"
{v.args}
[orchestrator.train.source.env.agent.harness]
id = "null"

[orchestrator.train.source.env.agent.runtime]
type = "subprocess"

[inference.vllm]
max_model_len = {v.context}
gpu_memory_utilization = {v.share}
{parallel}{parser}"""
