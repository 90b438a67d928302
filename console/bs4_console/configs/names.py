"""Know the keys that one version of prime-rl has and the other has not, and the nearest key to a
wrong one.

The table holds prime-rl's own changes between a24ec986b (January 2026) and 559b44772 (August 2026).
Neither version accepts a name of the other.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from bs4_console.configs.findings import Path, dotted, names_of
from bs4_console.configs.schema import exists, homes


@dataclass(frozen=True)
class Rename:
    """One key of a config that has different names in two versions of prime-rl.

    `old` is the key in prime-rl of January 2026. `new` is the key in the current prime-rl, or "" if
    that has none. `moved` is True if only the name differs, so that the value can be taken over
    unchanged. `needed` is True if a config from which the key is left out no longer means the same.
    A migration to the current prime-rl that leaves it out then marks the new config as not usable.
    `note` is a remark for a person.
    """

    old: str
    new: str
    moved: bool = True
    note: str = ""
    needed: bool = False

    def ends(self, forward: bool) -> tuple[str, str]:
        """Return this key's two names for a migration: first the name in the config that is
        migrated, then the name in the new config. A name is "" if that version has no such key.
        `forward` is True for a migration from prime-rl of January 2026 to the current one, and
        False for the other direction.
        """
        if forward:
            return (self.old, self.new)
        return (self.new, self.old)

    def of(self, generation: str) -> tuple[str, str]:
        """Return two names of the key: the one in the version of prime-rl with the id `generation`
        ("prime-rl-2026-01", or "prime-rl" for the current one), and the one in the other version. A
        name is "" if that version has no such key.
        """
        return self.ends(generation == "prime-rl-2026-01")


RENAMES = (
    Rename(
        "inference_gpu_ids",
        "deployment.num_infer_gpus",
        False,
        "a number of GPUs instead of their ids",
    ),
    Rename(
        "trainer_gpu_ids",
        "deployment.num_train_gpus",
        False,
        "a number of GPUs instead of their ids",
    ),
    Rename(
        "teacher_gpu_ids",
        "",
        False,
        "a teacher is a frozen model outside, named in orchestrator.algo",
        needed=True,
    ),
    Rename(
        "teacher_inference",
        "",
        False,
        "a teacher is a frozen model outside, named in orchestrator.algo",
        needed=True,
    ),
    Rename("ckpt.resume_step", "resume.step", False, "-1 is an empty [resume] table"),
    Rename(
        "trainer.ckpt.resume_step",
        "resume.step",
        False,
        "one [resume] table for both sides",
        needed=True,
    ),
    Rename(
        "orchestrator.ckpt.resume_step",
        "resume.step",
        False,
        "one [resume] table for both sides",
        needed=True,
    ),
    Rename("trainer.ckpt.weights", "", False, "weights are no longer saved beside checkpoints"),
    Rename("wandb", "monitors.wandb"),
    Rename("trainer.wandb", "trainer.monitors.wandb"),
    Rename("orchestrator.wandb", "orchestrator.monitors.wandb"),
    Rename("orchestrator.prime_monitor", "orchestrator.monitors.prime"),
    Rename("log.file", "", False, "log files are always written"),
    Rename("trainer.log.file", "", False, "log files are always written"),
    Rename("orchestrator.log.file", "", False, "log files are always written"),
    Rename("orchestrator.rollouts_per_example", "orchestrator.group_size"),
    Rename("orchestrator.sampling", "orchestrator.train.sampling"),
    Rename("orchestrator.sampling.max_tokens", "orchestrator.train.sampling.max_completion_tokens"),
    Rename("orchestrator.sampling.temperature", "orchestrator.train.sampling.temperature"),
    Rename("orchestrator.sampling.extra_body", "orchestrator.train.sampling.extra_body"),
    Rename(
        "orchestrator.env",
        "orchestrator.train.source",
        False,
        "id goes to env.taskset.id, args to the taskset's own keys",
    ),
    Rename(
        "orchestrator.eval.env",
        "orchestrator.eval.source",
        False,
        "id goes to env.taskset.id, args to the taskset's own keys",
    ),
    Rename("orchestrator.eval.rollouts_per_example", "orchestrator.eval.group_size"),
    Rename(
        "orchestrator.eval.eval_base_model",
        "orchestrator.eval.skip_first_step",
        False,
        "the sense is inverted",
    ),
    Rename(
        "orchestrator.eval.skip_eval_on_resume",
        "orchestrator.eval.retrigger_on_resume",
        False,
        "the sense is inverted",
    ),
    Rename(
        "orchestrator.eval.sampling.max_tokens", "orchestrator.eval.sampling.max_completion_tokens"
    ),
    Rename(
        "orchestrator.client",
        "orchestrator.model.client",
        False,
        "base_url is one address instead of a list",
    ),
    Rename(
        "orchestrator.client.base_url",
        "orchestrator.model.client.base_url",
        False,
        "one address instead of a list",
    ),
    Rename("orchestrator.client.api_key_var", "orchestrator.model.client.api_key_var"),
    Rename("orchestrator.client.headers", "orchestrator.model.client.headers"),
    Rename("orchestrator.client.timeout", "", False, "there is only wait_for_ready_timeout"),
    Rename("orchestrator.lora_name", "orchestrator.model.lora.name"),
    Rename("max_async_level", "", False, "the lag is fixed at one step"),
    Rename("trainer.max_async_level", "", False, "the lag is fixed at one step"),
    Rename("orchestrator.max_async_level", "", False, "the lag is fixed at one step"),
    Rename("orchestrator.strict_async_level", "", False, "the lag is fixed at one step"),
    Rename("orchestrator.max_concurrent", "orchestrator.concurrency.max_inflight"),
    Rename(
        "orchestrator.oversampling_factor",
        "orchestrator.concurrency.initial_inflight",
        False,
        "rollouts in flight instead of a factor",
    ),
    Rename("orchestrator.workers_per_env", "", False, "each source has serve.pool"),
    Rename(
        "orchestrator.buffer",
        "orchestrator.train.source",
        False,
        "each source has curriculum.sampler and curriculum.gates",
    ),
    Rename(
        "orchestrator.buffer.online_difficulty_filtering",
        "orchestrator.train.filter_zero_advantages",
    ),
    Rename("orchestrator.val", "orchestrator.eval", False, "validation is evaluation"),
    Rename("inference.model", "inference.vllm"),
    Rename("inference.model.name", "inference.vllm.model"),
    Rename("inference.model.dtype", "inference.vllm.dtype"),
    Rename("inference.model.max_model_len", "inference.vllm.max_model_len"),
    Rename("inference.model.enforce_eager", "inference.vllm.enforce_eager"),
    Rename("inference.model.trust_remote_code", "inference.vllm.trust_remote_code"),
    Rename("inference.model.tool_call_parser", "inference.vllm.tool_call_parser"),
    Rename("inference.model.reasoning_parser", "inference.vllm.reasoning_parser"),
    Rename("inference.model.rope_scaling", "inference.vllm.rope_scaling"),
    Rename(
        "inference.model.enable_auto_tool_choice",
        "",
        False,
        "on by itself where a tool_call_parser is known",
    ),
    Rename("inference.parallel", "inference.vllm"),
    Rename("inference.parallel.tp", "inference.vllm.tensor_parallel_size"),
    Rename("inference.parallel.dp", "inference.vllm.data_parallel_size"),
    Rename("inference.enable_lora", "inference.vllm.enable_lora"),
    Rename("inference.max_loras", "inference.vllm.max_loras"),
    Rename("inference.max_cpu_loras", "inference.vllm.max_cpu_loras"),
    Rename("inference.max_lora_rank", "inference.vllm.max_lora_rank"),
    Rename("inference.seed", "inference.vllm.seed"),
    Rename("inference.gpu_memory_utilization", "inference.vllm.gpu_memory_utilization"),
    Rename("inference.api_server_count", "inference.vllm.api_server_count"),
    Rename("max_model_len", "inference.vllm.max_model_len"),
    Rename("trainer.model.tp", "", False, "there is cp, ep and dp_replicate"),
    Rename(
        "trainer.model.fused_lm_head_chunk_size", "trainer.model.fused_lm_head_token_chunk_size"
    ),
    Rename("trainer.max_concurrent_runs", "", False, "a trainer serves one run"),
    Rename("bench", "", False, "the rl command has no benchmark mode", needed=True),
    Rename("trainer.bench", "", False, "the rl command has no benchmark mode", needed=True),
    Rename("orchestrator.bench", "", False, "the rl command has no benchmark mode", needed=True),
    Rename("toml_files", "", False, "a config is one file; give several with @", needed=True),
    *(
        Rename(
            f"trainer.loss.{key}", "", False, "the loss masks with dppo_mask_low and dppo_mask_high"
        )
        for key in (
            "ratio_type",
            "token_mask_high",
            "token_mask_low",
            "geo_mask_high",
            "geo_mask_low",
            "sequence_clip_high",
            "sequence_mask_high",
            "sequence_mask_low",
        )
    ),
    Rename(
        "trainer.loss.teacher_tau",
        "",
        False,
        "a teacher is named in orchestrator.algo",
        needed=True,
    ),
)

_OLD = {rename.old: rename for rename in RENAMES}
_NEW = {rename.new: rename for rename in reversed(RENAMES) if rename.new}
#: The other generation, by generation.
OTHER = {"prime-rl-2026-01": "prime-rl", "prime-rl": "prime-rl-2026-01"}


def of_other_generation(generation: str, path: Path) -> str | None:
    """Find out whether `path`, a key that one version of prime-rl does not know, is a key of the
    other version. If it is, return a phrase that says what to write instead. If not, return None.
    `generation` is the version that does not know the key: "prime-rl-2026-01", or "prime-rl" for
    the current one. A path is a tuple of keys and list indices.
    """
    name = dotted(names_of(path))
    if generation == "prime-rl" and name in _OLD:
        rename = _OLD[name]
        use = f"{rename.new} is its name here" if rename.new else "it is gone"
        return use + (f": {rename.note}" if rename.note else "")
    if generation == "prime-rl-2026-01" and name in _NEW:
        rename = _NEW[name]
        return f"{rename.old} is its name here" + (f" ({rename.note})" if rename.note else "")
    mixed = _in_translated_table(generation, name)
    if mixed:
        return f"{mixed} is its name here"
    if not exists(OTHER[generation], path):
        return None
    for new in _NEW if generation == "prime-rl-2026-01" else ():
        if new.startswith(name + "."):
            return f"{_NEW[new].old} stands for {new} here"
    return "this generation has no such key"


def _in_translated_table(generation: str, name: str) -> str:
    """Return the right name of a key of the other generation that stands in a table of this one, as
    after half a migration. Return "" if the key is no such key.
    """
    table, _, key = name.rpartition(".")
    for rename in RENAMES:
        here, there = rename.of(generation)
        is_there = there.rpartition(".")[2] == key
        if is_there and here and here.rpartition(".")[0] == table and here != name:
            return here
    return ""


def nearest(
    generation: str, path: Path, known: tuple[str, ...], component: str = "rl"
) -> tuple[str, str]:
    """Suggest what a person may have meant with the key at `path`, which the schema does not know.
    Return two texts. The first is a sentence that names a similar key of the same table, or says in
    which other table the key belongs. The second is a similar key of the same table that is nearly
    certain to be the right one. Each is "" if nothing fits.

    `known` are the keys that the table may have. `generation` is "prime-rl-2026-01" or "prime-rl",
    and `component` the program whose schema is used, such as "rl" for the whole training.
    """
    key = str(path[-1])
    table = names_of(path[:-1])
    places = [
        place for place in homes(generation, key, component) if place != dotted((*table, key))
    ]
    for name in difflib.get_close_matches(key, known, n=1, cutoff=0.75):
        return f"Did you mean {name}?", name
    if places:
        best = max(places, key=lambda place: (_common(place.split("."), table), -place.count(".")))
        where = f"in [{best}]" if best else "at the top of the file"
        return f"It lives {where} in this generation.", ""
    for name in difflib.get_close_matches(key, known, n=1, cutoff=0.6):
        return f"Did you mean {name}?", ""
    return "", ""


def _common(place: list[str], table: tuple[str, ...]) -> int:
    """Return how many names from the start `place` and `table` have in common."""
    count = 0
    for mine, theirs in zip(place, table, strict=False):
        if mine != theirs:
            break
        count += 1
    return count
