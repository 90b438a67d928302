"""Convert a config for prime-rl of January 2026 to the current prime-rl."""

from __future__ import annotations

import math

from bs4_console.configs.families import PARSERS, family, rendered
from bs4_console.configs.findings import Path, path_of
from bs4_console.configs.migration.account import Account
from bs4_console.configs.migration.renames import rename, rest
from bs4_console.configs.rules_current import SHARED
from bs4_console.configs.schema import convert, exists, prefix_of

_FILTERING = path_of("orchestrator.buffer.online_difficulty_filtering")
_TRAIN = (path_of("orchestrator.env"), path_of("orchestrator.train.source"))
_EVAL = (path_of("orchestrator.eval.env"), path_of("orchestrator.eval.source"))
_INVERTED = {"eval_base_model": "skip_first_step", "skip_eval_on_resume": "retrigger_on_resume"}
_COUNTED = {"num_examples": "num_examples", "rollouts_per_example": "group_size"}
#: More GPUs or rollouts than any run has. Larger numbers are not converted.
MOST = 1 << 20


def to_current(account: Account) -> None:
    """Convert a config for prime-rl of January 2026 to the current version. `account` is the
    migration, with the old config as `account.source`. The new config is written to `account.out`,
    and each old value is recorded as taken over or dropped.
    """
    _shared(account)
    _gpus(account)
    _resume(account)
    _changed_meanings(account)
    _in_flight(account)
    _client(account)
    account.invert(("orchestrator", "eval"), _INVERTED)
    filtering = account.read(_FILTERING, "boolean")
    sources = _sources(account, *_TRAIN, filtering is True)
    _sources(account, *_EVAL, False)
    if filtering is True and sources:
        place = (*_TRAIN[1], 0, "curriculum", "gates", "zero_advantage", "type")
        account.settle(_FILTERING, place, "advantage_range")
    elif filtering is not None:
        place = path_of("orchestrator.train.filter_zero_advantages")
        account.settle(_FILTERING, place, filtering)
    name = _model(account)
    if name not in rendered():
        account.put(("orchestrator", "renderer"), default_renderer(name))
    rename(account, forward=True)
    rest(account, True, "the current generation has no such key")


def default_renderer(model: str) -> dict[str, str]:
    """Return the table [renderer] of a config for the model `model`, for which prime-rl has no
    renderer (the code that turns messages into tokens). The table tells prime-rl to use the model's
    own chat template, and which parser for tool calls to use if one is known for the model's
    family.
    """
    renderer = {"name": "default"}
    if PARSERS.get(family(model), ())[:1] == ("hermes",):
        renderer["tool_parser"] = "hermes"
    return renderer


def _model(account: Account) -> str:
    """Return the model's name, or the trainer's default."""
    for place in ("model.name", "orchestrator.model.name"):
        name = account.peek(path_of(place), "string")
        if name:
            return str(name)
    return "Qwen/Qwen3-0.6B"


def _shared(account: Account) -> None:
    """Drop each component's own value that a shared value replaced all along."""
    shared = {**SHARED, "seq_len": ("trainer.model.seq_len", "orchestrator.seq_len")}
    for name, targets in shared.items():
        old = name.replace("monitors.wandb", "wandb")
        if account.get(path_of(old)) is None:
            continue
        for target in targets:
            place = target.replace("monitors.wandb", "wandb")
            place = place.replace("inference.vllm.model", "inference.model.name")
            if not isinstance(account.get(path_of(place)), dict):
                account.drop(path_of(place), f"{old} had replaced it all along")


def _gpus(account: Account) -> None:
    inference, trainer = ("inference_gpu_ids",), ("trainer_gpu_ids",)
    used = []
    for path, place in ((inference, "num_infer_gpus"), (trainer, "num_train_gpus")):
        ids = account.get(path)
        if isinstance(ids, list) and all(convert("integer", item)[1] for item in ids):
            account.settle(path, ("deployment", place), len(ids))
            used.append(set(map(str, ids)))
        elif ids is not None:
            account.drop(path, "it is to be a list of GPU numbers", refuses=True)
    if len(used) == 2 and used[0] & used[1]:
        account.note(trainer, "GPUs cannot be shared any more; inference and trainer get their own")


def _resume(account: Account) -> None:
    top = (*prefix_of(account.component), "resume")
    if not exists(account.new, top):
        return
    for table in ("ckpt", "trainer.ckpt", "orchestrator.ckpt"):
        path = (*path_of(table), "resume_step")
        step = account.read(path, "integer")
        if step is None:
            continue
        if step < 0:
            account.settle(path, top, {})
        else:
            account.settle(path, (*top, "step"), max(step, 1))
        account.note(
            path,
            "the step is kept, but checkpoints of 2026-01 have another layout: check that there "
            "is one to resume",
        )


def _changed_meanings(account: Account) -> None:
    if account.peek(("clean",), "boolean") is True:
        account.drop(("clean",), "clean now deletes the whole run directory, checkpoints too")
    account.drop(("wandb", "offline"), "the shared W&B run cannot be offline")
    # The default was 16 and is 32.
    account.keep_default(path_of("trainer.model.lora"), "alpha", 16.0)
    model = path_of("trainer.model")
    if account.peek((*model, "fsdp_cpu_offload"), "boolean") is True:
        account.keep_default(model, "optim_cpu_offload", False)


def _in_flight(account: Account) -> None:
    path = path_of("orchestrator.oversampling_factor")
    factor = account.read(path, "number")
    if factor is None:
        return
    batch = account.peek(path_of("orchestrator.batch_size"), "integer") or 128
    group = account.peek(path_of("orchestrator.rollouts_per_example"), "integer") or 1
    if not math.isfinite(factor) or abs(factor) > MOST or abs(batch) > MOST:
        account.drop(path, "no number of rollouts comes of it", refuses=True)
        return
    inflight = max(int(batch * factor), group)
    account.settle(path, path_of("orchestrator.concurrency.initial_inflight"), inflight)
    if inflight > 1024 and account.get(path_of("orchestrator.max_concurrent")) is None:
        account.put(path_of("orchestrator.concurrency.max_inflight"), inflight)


def _client(account: Account) -> None:
    path = path_of("orchestrator.client.base_url")
    place = path_of("orchestrator.model.client.base_url")
    urls = account.get(path)
    if isinstance(urls, str):
        account.move(path, place)
    elif isinstance(urls, list) and len(urls) == 1 and isinstance(urls[0], str):
        account.settle(path, place, urls[0])
    elif urls is not None:
        account.drop(
            path,
            "there is one address instead of a list, and this is not one address",
            refuses=True,
        )


def _sources(account: Account, old: Path, new: Path, filtering: bool) -> int:
    """Make a source of every environment, and return how many there are."""
    known = account.count_tables(old)
    if known == 0:
        account.settle(old, new, [])
    count = known or 0
    for number in range(count):
        _source(account, (*old, number), (*new, number))
        if filtering:
            gate = (*new, number, "curriculum", "gates", "zero_advantage")
            account.put((*gate, "type"), "advantage_range")
    return count


def _source(account: Account, path: Path, place: Path) -> None:
    number = place[-1]
    identity = account.read((*path, "id"), "string") or "reverse-text"
    short = identity.rsplit("/", 1)[-1].split("@")[0]
    name = account.read((*path, "name"), "string")
    if name:
        account.settle((*path, "name"), (*place, "name"), name)
    else:
        account.drop((*path, "name"), "a source without a name gets that of its environment")
        account.put((*place, "name"), short if not number else f"{short}-{int(number) + 1}")
    for before, after in _COUNTED.items():
        if exists(account.new, (*place, after)):
            account.move((*path, before), (*place, after))
    account.drop((*path, "skip_first"), "sources skip no examples")
    taskset = (*place, "env", "taskset")
    account.settle((*path, "id"), (*taskset, "id"), short)
    account.put((*taskset, "id"), short)
    if account.get(path) == {}:
        account.settle(path, (*taskset, "id"), short)
    if short != identity:
        account.note(
            (*path, "id"),
            "only the name is kept, without the owner and the version: the package that is "
            "installed decides",
        )
    _arguments(account, (*path, "args"), taskset)
    account.put((*place, "env", "agent", "harness", "id"), "null")
    account.put((*place, "env", "agent", "runtime", "type"), "subprocess")
    account.drop(path, "sources have no such key")


def _arguments(account: Account, path: Path, taskset: Path) -> None:
    arguments = account.read(path, "table")
    if arguments is None:
        return
    if not arguments:
        account.settle(path, taskset, {})
        return
    for key in arguments:
        if key.startswith("curriculum_"):
            account.drop((*path, key), "environments ignore their curriculum arguments")
        else:
            account.move((*path, key), (*taskset, key))
    account.note(path, "kept under env.taskset; check that the taskset has these keys")
