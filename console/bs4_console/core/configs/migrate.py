"""migrate: a config of one prime-rl generation in the names of the other. What has no translation
is listed with the reason.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

import tomlkit

from bs4_console.core.configs.diff import values
from bs4_console.core.configs.document import Document, read_text
from bs4_console.core.configs.families import PARSERS, family, rendered
from bs4_console.core.configs.findings import Finding, Path, dotted, names_of
from bs4_console.core.configs.kinds import chosen
from bs4_console.core.configs.lint import lint_document
from bs4_console.core.configs.names import RENAMES
from bs4_console.core.configs.rules_current import SHARED
from bs4_console.core.configs.schema import exists, prefix_of, tables
from bs4_console.core.configs.toml_lines import lines_of
from bs4_console.core.errors import NotApplicableError


@dataclass
class Migrated:
    """`component`: whose config it is. `left_out`: (place, reason) of what was not taken over, each
    a key that the other generation does not have; `findings`: what lint says of the result.
    """

    text: str
    component: str
    left_out: list[tuple[str, str]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def migrate(file: File, to: str, component: str | None = None) -> Migrated:
    """Return a config in the names of the other generation, and what lint says of it there.

    `component` says whose config it is; it is told from the keys and the name where it is not
    given. A value that the other generation refuses stays, and lint names it. UsageError when the
    file is not TOML, or is a config of no part that is known; NotApplicableError for one of
    evaluations.
    """
    source = copy.deepcopy(values(file))
    found = chosen(source, file, _other(to), component)
    if found == "eval":
        raise NotApplicableError(
            f"{file} is a config of evaluations, which the two generations build from "
            "different tables.",
            "Write it anew for the other one; nothing was changed.",
        )
    out, left_out = _in_names_of(to, found, source)
    head = "".join(line + "\n" for line in _head(read_text(file)))
    text = head + tomlkit.dumps(out)
    document = Document(
        file=file, text=text, data=tomlkit.parse(text).unwrap(), lines=lines_of(text)
    )
    return Migrated(text, found, left_out, lint_document(document, to, component=found))


def _other(generation: str) -> str:
    return "prime-rl-2026-01" if generation == "prime-rl" else "prime-rl"


def _in_names_of(
    to: str, component: str, source: dict[str, Any]
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the config as the other generation names its keys, and what it has no key for with the
    reason.
    """
    prefix = prefix_of(component)
    if component == "sft":
        # A program of its own, with a schema of its own: none of the renames of the whole are
        # theirs.
        own = _Work(source, component)
        own.rest(to, f"{component} of the other generation has no such key")
        return own.out, own.left_out
    work = _Work({component: source} if prefix else source)
    if to == "prime-rl":
        _to_current(work)
    else:
        _to_january(work)
    if not prefix:
        return work.out, work.left_out
    elsewhere = [
        (name, "it belongs to the config of the whole there")
        for name in work.out
        if name != component
    ]
    bare = [(place.removeprefix(f"{component}."), reason) for place, reason in work.left_out]
    return work.out.get(component, {}), [*bare, *elsewhere]


def _head(text: str) -> list[str]:
    """The comments at the top, without launch lines of the other generation."""
    head = []
    for line in text.split("\n"):
        if not line.startswith("#") and line.strip():
            break
        if " @" not in line and "--" not in line:
            head.append(line)
    return head


class _Work:
    """`data` is emptied as its values are taken into `out`."""

    def __init__(self, data: dict[str, Any], component: str = "rl") -> None:
        self.data = data
        self.component = component
        self.out: dict[str, Any] = {}
        self.left_out: list[tuple[str, str]] = []

    def get(self, place: str) -> Any:
        value: Any = self.data
        for name in place.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        return value

    def take(self, place: str) -> Any:
        """The value, removed; None when it is not there."""
        *tables, key = place.split(".")
        table = self.get(".".join(tables)) if tables else self.data
        return table.pop(key, None) if isinstance(table, dict) else None

    def put(self, place: str, value: Any) -> None:
        table = self.out
        *tables, key = place.split(".")
        for name in tables:
            table = table.setdefault(name, {})
        table[key] = value

    def skip(self, place: str, reason: str) -> None:
        if self.take(place) is not None:
            self.left_out.append((place, reason))

    def move(self, place: str, to: str) -> None:
        value = self.take(place)
        if value is not None:
            self.put(to, value)

    def rest(self, generation: str, reason: str) -> None:
        """What is left: kept where the other generation has the same key at the same place."""

        def walk(table: dict[str, Any], path: Path) -> None:
            for key, value in table.items():
                here = (*path, key)
                known = exists(generation, here, self.component)
                if (
                    isinstance(value, dict)
                    and value
                    and not (known and self._is_free(generation, here))
                ):
                    walk(value, here)
                elif known:
                    self.put(dotted(here), value)
                elif not isinstance(value, dict):
                    self.left_out.append((dotted(here), reason))

        walk(self.data, ())

    def _is_free(self, generation: str, path: Path) -> bool:
        """Return whether the keys of a table are the user's own (headers, extra_body)."""
        return names_of(path) not in tables(generation, self.component)


def _renames(work: _Work, forward: bool) -> None:
    for rename in sorted(RENAMES, key=lambda item: -item.old.count(".")):
        source, target = (rename.old, rename.new) if forward else (rename.new, rename.old)
        if rename.moved and source and target and not isinstance(work.get(source), dict):
            work.move(source, target)
    for rename in RENAMES:
        if (
            rename.moved
            and forward
            and isinstance(work.get(rename.old), dict)
            and rename.old.endswith(("wandb", "prime_monitor"))
        ):
            for key, value in list(work.get(rename.old).items()):
                place = f"{rename.new}.{key}"
                if exists("prime-rl", tuple(place.split("."))):
                    work.put(place, value)
                    work.take(f"{rename.old}.{key}")
            if not work.get(rename.old):
                work.take(rename.old)
        if (
            rename.moved
            and not forward
            and rename.new
            and isinstance(work.get(rename.new), dict)
            and rename.old.endswith("wandb")
        ):
            work.put(rename.old, {})
            for key in ("project", "name", "offline"):
                work.move(f"{rename.new}.{key}", f"{rename.old}.{key}")


def _to_current(work: _Work) -> None:
    for shared, targets in {
        **SHARED,
        "seq_len": ("trainer.model.seq_len", "orchestrator.seq_len"),
    }.items():
        old = shared.replace("monitors.wandb", "wandb")
        for target in targets:
            place = target.replace("monitors.wandb", "wandb").replace(
                "inference.vllm.model", "inference.model.name"
            )
            if (
                work.get(old) is not None
                and work.get(place) is not None
                and not isinstance(work.get(place), dict)
            ):
                work.take(place)  # the shared value had replaced it all along
    _gpus_to_current(work)
    step = work.take("ckpt.resume_step")
    if isinstance(step, int):
        work.put("resume", {} if step < 0 else {"step": max(step, 1)})
        work.left_out.append(
            (
                "ckpt.resume_step",
                (
                    "the step is kept, but checkpoints of 2026-01 have another layout: check "
                    "that there is one to resume"
                ),
            )
        )
    if work.get("clean") is True:
        work.skip("clean", "clean now deletes the whole run directory, checkpoints too")
    if work.get("wandb.offline") is not None:
        offline = work.take("wandb.offline")
        if offline:
            work.left_out.append(("wandb.offline", "the shared W&B run cannot be offline"))
    if (
        isinstance(work.get("trainer.model.lora"), dict)
        and work.get("trainer.model.lora.alpha") is None
    ):
        work.put("trainer.model.lora.alpha", 16.0)  # the default was 16 and is 32
    if work.get("trainer.model.fsdp_cpu_offload") is True:
        work.put("trainer.model.optim_cpu_offload", False)
    batch, factor = (
        work.get("orchestrator.batch_size") or 128,
        work.take("orchestrator.oversampling_factor"),
    )
    if isinstance(factor, int | float) and isinstance(batch, int):
        inflight = max(int(batch * factor), work.get("orchestrator.rollouts_per_example") or 1)
        work.put("orchestrator.concurrency.initial_inflight", inflight)
        if inflight > 1024 and work.get("orchestrator.max_concurrent") is None:
            work.put("orchestrator.concurrency.max_inflight", inflight)
    urls = work.get("orchestrator.client.base_url")
    if isinstance(urls, list) and len(urls) == 1:
        work.take("orchestrator.client.base_url")
        work.put("orchestrator.model.client.base_url", urls[0])
    for old, new in (
        ("eval_base_model", "skip_first_step"),
        ("skip_eval_on_resume", "retrigger_on_resume"),
    ):
        value = work.take(f"orchestrator.eval.{old}")
        if isinstance(value, bool):
            work.put(f"orchestrator.eval.{new}", not value)
    filtering = work.take("orchestrator.buffer.online_difficulty_filtering")
    _sources_to_current(work, "orchestrator.env", "orchestrator.train.source", filtering is True)
    _sources_to_current(work, "orchestrator.eval.env", "orchestrator.eval.source", False)
    name = work.get("model.name") or work.get("orchestrator.model.name") or "Qwen/Qwen3-0.6B"
    if name not in rendered():
        work.put("orchestrator.renderer", default_renderer(name))
    _renames(work, forward=True)
    for rename in RENAMES:
        if not rename.moved and not isinstance(work.get(rename.old), dict):
            work.skip(rename.old, rename.note or "no such key")
    work.rest("prime-rl", "the current generation has no such key")
    if isinstance(work.get("inference"), dict):
        work.out.setdefault("inference", {})


def default_renderer(model: str) -> dict[str, Any]:
    """What renders a model that no renderer is made for: its own chat template, and the parser of
    its family for tools.
    """
    parsers = PARSERS.get(family(model), ())
    return (
        {"name": "default", "tool_parser": parsers[0]}
        if parsers[:1] == ("hermes",)
        else {"name": "default"}
    )


def _gpus_to_current(work: _Work) -> None:
    inference, trainer = work.take("inference_gpu_ids"), work.take("trainer_gpu_ids")
    if (
        isinstance(inference, list)
        and isinstance(trainer, list)
        and set(map(str, inference)) & set(map(str, trainer))
    ):
        work.left_out.append(
            (
                "trainer_gpu_ids",
                "GPUs cannot be shared any more; inference and trainer get their own",
            )
        )
    for used, place in ((inference, "num_infer_gpus"), (trainer, "num_train_gpus")):
        if isinstance(used, list):
            work.put(f"deployment.{place}", len(used))


def _sources_to_current(work: _Work, old: str, new: str, filtering: bool) -> None:
    entries = work.take(old)
    sources = []
    for n, entry in enumerate(entries if isinstance(entries, list) else []):
        identity = str(entry.get("id", "reverse-text"))
        short = identity.rsplit("/", 1)[-1].split("@")[0]
        source: dict[str, Any] = {
            "name": entry.get("name") or (short if not n else f"{short}-{n + 1}")
        }
        for before, after in (
            ("num_examples", "num_examples"),
            ("rollouts_per_example", "group_size"),
        ):
            if entry.get(before) is not None:
                source[after] = entry[before]
        if entry.get("skip_first"):
            work.left_out.append((f"{old}[{n}].skip_first", "sources skip no examples"))
        if filtering:
            source["curriculum"] = {"gates": {"zero_advantage": {"type": "advantage_range"}}}
        arguments = {
            key: value
            for key, value in (entry.get("args") or {}).items()
            if not key.startswith("curriculum_")
        }
        agent = {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}}
        source["env"] = {"taskset": {"id": short, **arguments}, "agent": agent}
        if arguments:
            work.left_out.append(
                (
                    f"{old}[{n}].args",
                    "kept under env.taskset; check that the taskset has these keys",
                )
            )
        sources.append(source)
    if sources:
        work.put(new, sources)


def _to_january(work: _Work) -> None:
    infer, train = (
        work.take("deployment.num_infer_gpus") or 1,
        work.take("deployment.num_train_gpus") or 1,
    )
    if work.get("deployment.type") == "multi_node":
        work.skip("deployment.type", "several nodes are started by hand in 2026-01")
    else:
        work.take("deployment.type")
        work.put("inference_gpu_ids", list(range(infer)))
        work.put("trainer_gpu_ids", list(range(infer, infer + train)))
    resume = work.take("resume")
    if isinstance(resume, dict):
        if resume.get("dir"):
            work.left_out.append(("resume.dir", "2026-01 resumes from its own directory only"))
        else:
            work.put("ckpt.resume_step", resume.get("step", -1))
    name = work.take("run.name")
    if isinstance(name, str):
        work.put("output_dir", f"{work.take('output_dir') or 'outputs'}/{name}")
    work.put("clean", bool(work.take("clean")))
    if (
        isinstance(work.get("trainer.model.lora"), dict)
        and work.get("trainer.model.lora.alpha") is None
    ):
        work.put("trainer.model.lora.alpha", 32.0)  # the default is 32 and was 16
    if work.get("inference.vllm.tool_call_parser") == "auto":
        work.take("inference.vllm.tool_call_parser")
    elif work.get("inference.vllm.tool_call_parser") is not None:
        work.put("inference.model.enable_auto_tool_choice", True)
    batch, inflight = (
        work.get("orchestrator.batch_size") or 128,
        work.take("orchestrator.concurrency.initial_inflight"),
    )
    if isinstance(inflight, int) and isinstance(batch, int):
        work.put("orchestrator.oversampling_factor", max(inflight / batch, 1.0))
    url = work.take("orchestrator.model.client.base_url")
    if isinstance(url, str):
        work.put("orchestrator.client.base_url", [url])
    for new, old in (
        ("skip_first_step", "eval_base_model"),
        ("retrigger_on_resume", "skip_eval_on_resume"),
    ):
        value = work.take(f"orchestrator.eval.{new}")
        if isinstance(value, bool):
            work.put(f"orchestrator.eval.{old}", not value)
    _sources_to_january(work, "orchestrator.train.source", "orchestrator.env")
    _sources_to_january(work, "orchestrator.eval.source", "orchestrator.eval.env")
    if work.take("orchestrator.train.filter_zero_advantages") is True:
        work.put("orchestrator.buffer.online_difficulty_filtering", True)
    _renames(work, forward=False)
    for place in (
        "orchestrator.algo",
        "orchestrator.renderer",
        "orchestrator.token_batch_size",
        "slurm",
        "env_vars",
        "dry_run",
    ):
        work.skip(place, "2026-01 has nothing for it")
    work.rest("prime-rl-2026-01", "2026-01 has no such key")
    if isinstance(work.get("inference"), dict):
        work.out.setdefault("inference", {})


def _sources_to_january(work: _Work, new: str, old: str) -> None:
    entries = work.take(new)
    environments = []
    for n, source in enumerate(entries if isinstance(entries, list) else []):
        env = source.get("env") or {}
        taskset = dict(env.get("taskset") or {})
        entry: dict[str, Any] = {"id": taskset.pop("id", "") or env.get("id", "")}
        if source.get("name"):
            entry["name"] = source["name"]
        if old.endswith("eval.env"):
            for before, after in (
                ("num_examples", "num_examples"),
                ("group_size", "rollouts_per_example"),
            ):
                if source.get(before) is not None:
                    entry[after] = source[before]
        if taskset:
            entry["args"] = taskset
        if (source.get("curriculum") or {}).get("gates"):
            work.put("orchestrator.buffer.online_difficulty_filtering", True)
        for key in set(source) - {"name", "env", "curriculum", "num_examples", "group_size"}:
            work.left_out.append(
                (f"{new}[{n}].{key}", "2026-01 has one setting for all environments")
            )
        if set(env) - {"taskset", "id"}:
            work.left_out.append(
                (
                    f"{new}[{n}].env",
                    (
                        "harness, runtime and agents belong to the environment's own package in "
                        "2026-01"
                    ),
                )
            )
        environments.append(entry)
    if environments:
        work.put(old, environments)
