"""Convert a config for the current prime-rl to prime-rl of January 2026."""

from __future__ import annotations

from typing import Any

from bs4_console.configs.findings import Path, path_of
from bs4_console.configs.migration.account import Account
from bs4_console.configs.migration.renames import rename, rest

_TRAIN = (path_of("orchestrator.train.source"), path_of("orchestrator.env"))
_EVAL = (path_of("orchestrator.eval.source"), path_of("orchestrator.eval.env"))
_FILTERING = path_of("orchestrator.buffer.online_difficulty_filtering")
_GROUP = path_of("orchestrator.rollouts_per_example")
_INVERTED = {"skip_first_step": "eval_base_model", "retrigger_on_resume": "skip_eval_on_resume"}
#: Keys without which the training is another one.
_NEEDED = ("orchestrator.algo", "orchestrator.token_batch_size")
_NOT_NEEDED = ("orchestrator.renderer", "slurm", "env_vars")
_NEEDED_OF_SOURCE = ("algo", "ratio", "sampling", "curriculum", "group_size", "num_examples")
#: More GPUs than any machine has. No list of so many is made.
_MOST_GPUS = 1024


def to_january(account: Account) -> None:
    """Convert a config for the current prime-rl to the version of January 2026. `account` is the
    migration, with the old config as `account.source`. The new config is written to `account.out`,
    and each old value is recorded as taken over or dropped.
    """
    _gpus(account)
    _resume(account)
    _directory(account)
    # The default is 32 and was 16.
    account.keep_default(path_of("trainer.model.lora"), "alpha", 32.0)
    _parser(account)
    _in_flight(account)
    _client(account)
    account.invert(("orchestrator", "eval"), _INVERTED)
    _environments(account, *_TRAIN)
    _environments(account, *_EVAL)
    _group_size(account)
    _filter(account)
    rename(account, forward=False)
    for name in (*_NEEDED, *_NOT_NEEDED):
        path = path_of(name)
        plain = account.get(path) in ("None", {"type": "grpo"})
        account.drop(path, "2026-01 has nothing for it", refuses=name in _NEEDED and not plain)
    dry = account.peek(("dry_run",), "boolean") is True
    account.drop(("dry_run",), "2026-01 has nothing for it", refuses=dry)
    rest(account, False, "2026-01 has no such key")


def _gpus(account: Account) -> None:
    deployment: Path = ("deployment",)
    if account.component != "rl":
        return
    if account.get((*deployment, "type")) == "multi_node":
        account.drop(deployment, "several nodes are started by hand in 2026-01", refuses=True)
        return
    account.drop((*deployment, "type"), "one node is all that 2026-01 starts")
    first = 0
    for key, place in (
        ("num_infer_gpus", "inference_gpu_ids"),
        ("num_train_gpus", "trainer_gpu_ids"),
    ):
        path = (*deployment, key)
        count = account.read(path, "integer")
        if count is not None and not 0 <= count <= _MOST_GPUS:
            account.drop(path, "no machine has so many GPUs", refuses=True)
            count = None
        if count is None:
            count = 1
        account.settle(path, (place,), list(range(first, first + count)))
        first += count


def _resume(account: Account) -> None:
    path, place = ("resume",), path_of("ckpt.resume_step")
    resume = account.read(path, "table")
    if resume is None:
        return
    if resume.get("dir") not in (None, "None"):
        account.drop(path, "2026-01 resumes from its own directory only", refuses=True)
        return
    step = account.read((*path, "step"), "integer")
    if step is not None:
        account.settle((*path, "step"), place, step)
    elif "step" not in resume or resume["step"] == "None":
        account.put(place, -1)
        if not resume:
            account.settle(path, place, -1)


def _directory(account: Account) -> None:
    if account.component != "rl":
        return
    name = account.read(("run", "name"), "string")
    if name is not None:
        top = account.read(("output_dir",), "string") or "outputs"
        account.settle(("run", "name"), ("output_dir",), f"{top}/{name}")
        account.settle(("output_dir",), ("output_dir",), f"{top}/{name}")
    clean = account.read(("clean",), "boolean")
    account.put(("clean",), clean is True)
    account.settle(("clean",), ("clean",), clean is True)


def _parser(account: Account) -> None:
    path = path_of("inference.vllm.tool_call_parser")
    parser = account.get(path)
    if parser == "auto":
        account.drop(path, "2026-01 chooses no parser by itself")
    elif parser is not None:
        account.put(path_of("inference.model.enable_auto_tool_choice"), True)


def _in_flight(account: Account) -> None:
    path = path_of("orchestrator.concurrency.initial_inflight")
    inflight = account.read(path, "integer")
    if inflight is None:
        return
    batch = account.peek(path_of("orchestrator.batch_size"), "integer") or 128
    place = path_of("orchestrator.oversampling_factor")
    account.settle(path, place, max(inflight / batch, 1.0))


def _client(account: Account) -> None:
    path = path_of("orchestrator.model.client.base_url")
    place = path_of("orchestrator.client.base_url")
    url = account.get(path)
    if isinstance(url, list):
        account.move(path, place)
        return
    url = account.read(path, "string")
    if url is not None:
        account.settle(path, place, [url])


def _environments(account: Account, new: Path, old: Path) -> None:
    """Make an environment of every source."""
    count = account.count_tables(new)
    if count == 0:
        account.settle(new, old, [])
    for number in range(count or 0):
        _environment(account, (*new, number), (*old, number))


def _environment(account: Account, path: Path, place: Path) -> None:
    evaluates = place[: len(_EVAL[1])] == _EVAL[1]
    _identity(account, path, place)
    name = account.read((*path, "name"), "string")
    if name is not None:
        account.settle((*path, "name"), (*place, "name"), name)
    if evaluates:
        account.move((*path, "num_examples"), (*place, "num_examples"))
        account.move((*path, "group_size"), (*place, "rollouts_per_example"))
    _gates(account, (*path, "curriculum"))
    account.drop(
        (*path, "env"),
        "harness, runtime and agents belong to the environment's own package in 2026-01",
    )
    entry: dict[str, Any] = account.get(path)
    for key in entry:
        if key != "group_size" or evaluates:  # of sources: one for all of them, if they agree
            needed = key in _NEEDED_OF_SOURCE and not evaluates
            account.drop((*path, key), "2026-01 has one setting for all environments", needed)
    if not entry:
        account.settle(path, (*place, "id"), "")


def _identity(account: Account, path: Path, place: Path) -> None:
    env = account.read((*path, "env"), "table") or {}
    taskset: dict[str, Any] = {}
    if "taskset" in env:
        taskset = account.read((*path, "env", "taskset"), "table") or {}
    first = ""
    for source in ((*path, "env", "taskset", "id"), (*path, "env", "id")):
        identity = account.read(source, "string")
        if identity and not first:
            account.settle(source, (*place, "id"), identity)
            first = identity
        elif identity:
            account.drop(
                source,
                "2026-01 has no environment of one package with the taskset of another",
                refuses=identity != first,
            )
        elif identity == "":
            account.drop(source, "it is empty")
    if not first:
        account.put((*place, "id"), "")
    for key in taskset:
        account.move((*path, "env", "taskset", key), (*place, "args", key))


def _gates(account: Account, path: Path) -> None:
    """Turn the gates of a source into the filter of the buffer. A gate that is another filter is
    dropped, and the migration is refused.
    """
    gates = account.peek((*path, "gates"), "table") or {}
    for name, gate in gates.items():
        here = (*path, "gates", name)
        if gate in ({}, {"type": "advantage_range"}):
            account.settle(here, _FILTERING, True)
        else:
            account.drop(here, "2026-01 filters only what has no advantage at all", refuses=True)


def _group_size(account: Account) -> None:
    """Make one group size of those of the training sources. If they differ, they are dropped and
    the migration is refused.
    """
    entries = account.get(_TRAIN[0])
    if not isinstance(entries, list):
        return
    sizes, paths = [], []
    for number, entry in enumerate(entries):
        path = (*_TRAIN[0], number, "group_size")
        if account.open(path):
            paths.append(path)
        if isinstance(entry, dict):
            sizes.append(entry.get("group_size"))
    for path in paths:
        if sizes.count(sizes[0]) == len(sizes):
            account.settle(path, _GROUP, sizes[0])
        else:
            account.drop(
                path,
                "2026-01 has one number of rollouts for all environments, and these differ",
                refuses=True,
            )
    if paths and account.get(_GROUP) is None and _GROUP[-1] in account.out.get("orchestrator", {}):
        account.drop(path_of("orchestrator.group_size"), "the sources have their own")


def _filter(account: Account) -> None:
    path = path_of("orchestrator.train.filter_zero_advantages")
    filters = account.read(path, "boolean")
    if filters is None:
        return
    if not filters and account.out.get("orchestrator", {}).get("buffer"):
        account.drop(path, "2026-01 has one filter, and the gates of the sources ask for it")
        return
    account.settle(path, _FILTERING, filters)
