"""Explain what the schema refuses: as the rule that knows the mistake, or as `schema` if no rule
does.
"""

from __future__ import annotations

from typing import Any

from bs4_console.configs.catalog import finding
from bs4_console.configs.findings import Edit, Finding, Path, dotted, names_of, path_of
from bs4_console.configs.names import RENAMES, nearest, of_other_generation
from bs4_console.configs.schema import Problem, exists
from bs4_console.configs.view import View, table_in

_VLLM = {"enable_prefix_caching", "max_num_seqs", "max_num_batched_tokens"}
_LOADING = {"tokenizer_mode", "config_format", "load_format"}
_MASKS = {"mask_truncated_completions", "zero_truncated_completions"}
_ENVIRONMENTS = {
    ("env",),
    ("environment",),
    ("environments",),
    ("orchestrator", "environment"),
    ("orchestrator", "environments"),
}
#: Where an older trainer had the LoRA table.
_LORA_PARENTS = {
    (),
    ("trainer",),
    ("model",),
    ("orchestrator",),
    ("trainer", "experimental"),
    ("inference",),
}
#: Keys that are arrays of tables.
_LISTS = {
    ("orchestrator", "env"),
    ("orchestrator", "train", "source"),
    ("orchestrator", "eval", "env"),
    ("orchestrator", "eval", "source"),
}
#: The rule and the right path of keys that January 2026 has in another table.
_MOVED = {
    "lora_name": ("R04", ("orchestrator", "lora_name")),
    "oversampling_factor": ("R07", ("orchestrator", "oversampling_factor")),
    "online_difficulty_filtering": (
        "R07",
        ("orchestrator", "buffer", "online_difficulty_filtering"),
    ),
}


def explain(view: View, problem: Problem) -> Finding:
    """Return a finding about `problem`: a value in the config `view` that the trainer's schema
    refuses, or a key that it ignores. The finding has the id of the rule that knows this mistake,
    or `schema` if no rule does, and sentences for a person that say what is wrong and what to do.
    """
    line = view.at(problem.path)
    if problem.kind == "extra":
        return _unknown(view, problem, line)
    if problem.kind == "ignored":
        words, _ = nearest(view.generation, problem.path, problem.known, view.component)
        return finding(
            "schema",
            line,
            f"{dotted(problem.path)} is not a key here; the trainer ignores it without a word.",
            words or "Remove it.",
            level="warning",
        )
    if problem.kind == "missing":
        table = problem.path[:-1]
        inside = f" in [{dotted(table)}]" if table else ""
        return finding(
            "schema",
            line,
            f"{problem.wanted} is missing{inside}.",
            "Add it; an empty table is enough where all has defaults.",
        )
    return _wrong_value(view, problem, line)


def _wrong_value(view: View, problem: Problem, line: int) -> Finding:
    names, old = names_of(problem.path), view.generation == "prime-rl-2026-01"
    where, value = dotted(problem.path), _shown(problem.value)
    if old and names == ("trainer", "model", "ac"):
        edit = Edit("set", problem.path, {"freq": 1})
        return finding(
            "R09",
            line,
            f"trainer.model.ac is {value}, and has to be a table.",
            edits=(edit,) if problem.value not in (False, 0) else (),
        )
    if names in _LISTS:
        return finding(
            "R12",
            line,
            f"{where} is {value}, and has to be an array of tables: [[{dotted(names)}]].",
        )
    if problem.kind == "tag" and problem.value is None:
        return finding("schema", line, f"{where} does not say its kind.", f"Set {problem.wanted}.")
    return finding(
        "schema",
        line,
        f"{where} is {value}, and has to be {problem.wanted}.",
        f"Use {problem.wanted}.",
    )


def _unknown(view: View, problem: Problem, line: int) -> Finding:
    path, names = problem.path, names_of(problem.path)
    key, parent = names[-1], names[:-1]
    old = view.generation == "prime-rl-2026-01"
    where = dotted(path)
    if names in (("config",), (view.component, "config")):
        return finding(
            "R15",
            line,
            "A [config] table is refused by the trainer.",
            edits=_unwrapped(view, problem),
        )
    if view.component in ("sft", "eval"):
        return _misspelt(view, problem, line)
    is_table = isinstance(problem.value, dict)
    if names == ("trainer", "model", "experimental") and is_table and "lora" in problem.value:
        return finding(
            "R03",
            view.at((*path, "lora")),
            "[trainer.model.experimental.lora] has moved to [trainer.model.lora].",
            edits=_experimental(view, problem),
        )
    if key == "lora" and parent in _LORA_PARENTS:
        edit = Edit("move", path, to=("trainer", "model", "lora"))
        return finding(
            "R03",
            line,
            f"[{where}] is not a table of this trainer; LoRA is [trainer.model.lora].",
            edits=(edit,) if is_table and not view.has("trainer.model.lora") else (),
        )
    if key == "fsdp_cpu_offload":
        return finding(
            "R10",
            line,
            f"{where} is not a key of this trainer: it lives under [trainer.model].",
            edits=_offload(view, problem),
        )
    if key == "seq_len":
        return finding(
            "R02",
            line,
            f"{where} is not a key of this trainer: seq_len stands under [orchestrator] and "
            "[trainer.model].",
        )
    if old and (found := _of_january(problem, line)):
        return found
    instead = of_other_generation(view.generation, path)
    if instead:
        other = "the current" if old else "the January 2026"
        return finding(
            "P06",
            line,
            f"{where} is a name of {other} generation: {instead}.",
            edits=_rename(view, path),
        )
    return _misspelt(view, problem, line)


def _unwrapped(view: View, problem: Problem) -> tuple[Edit, ...]:
    """Return the edits that take a [config] table away and keep the settings in it.

    TOML counts every key below the header as the table's, up to the next header, so settings that
    were written for the top of the file stand in it. They go back there. A key that the trainer
    does not have is about the file, and goes with the table. There are no edits if a setting stands
    at the top as well.
    """
    edits = []
    for key in table_in(problem.value):
        place = (*problem.path[:-1], key)
        if not exists(view.generation, place, view.component):
            continue
        if view.has(dotted(place)):
            return ()
        edits.append(Edit("move", (*problem.path, key), to=place))
    return (*edits, Edit("remove", problem.path))


def _misspelt(view: View, problem: Problem, line: int) -> Finding:
    path = problem.path
    words, right = nearest(view.generation, path, problem.known, view.component)
    target = (*path[:-1], right)
    is_free = right and not view.has(dotted(names_of(target)))
    known = is_free and exists(view.generation, target, view.component)
    return finding(
        "schema",
        line,
        f"{dotted(path)} is not a key of this trainer.",
        words or "Remove it.",
        edits=(Edit("move", path, to=target),) if known and _sure(str(path[-1]), right) else (),
    )


def _of_january(problem: Problem, line: int) -> Finding | None:
    """Return the finding of the rule that knows this unknown key in January 2026, or None if no
    rule does.
    """
    names = names_of(problem.path)
    key, parent, where = names[-1], names[:-1], dotted(problem.path)
    remove = Edit("remove", problem.path)
    rule = _unwanted(key, parent)
    if rule:
        return finding(rule, line, f"{where} is refused by the trainer.", edits=(remove,))
    if parent == ("orchestrator", "buffer") and key == "type":
        edits = (remove, Edit("set", (*parent, "online_difficulty_filtering"), value=True))
        return finding(
            "R07",
            line,
            f"{where} is refused: the buffer has no kinds.",
            edits=edits if "difficulty" in str(problem.value) else (),
        )
    if key in _MOVED:
        rule, to = _MOVED[key]
        move = Edit("move", problem.path, to=to)
        return finding(
            rule, line, f"{where} belongs to [{dotted(to[:-1])}].", edits=(move,), level="error"
        )
    if names in _ENVIRONMENTS:
        return finding("R12", line, f"[{where}] is not where environments are.")
    if parent == ("orchestrator", "env"):
        return finding(
            "R12",
            line,
            f"{where} is refused: an environment has id and args, and its settings go into args.",
        )
    return None


def _unwanted(key: str, parent: tuple[str, ...]) -> str:
    """Return the rule that knows a key which January 2026 refuses in its table, or ""."""
    is_server = not parent or parent[0] == "inference"
    if key == "top_p" and "sampling" in parent:
        return "R05"
    if key in _MASKS:
        return "R06"
    if key in _VLLM and is_server and parent != ("inference", "vllm"):
        return "R13"
    if key in _LOADING and is_server:
        return "R14"
    return ""


def _experimental(view: View, problem: Problem) -> tuple[Edit, ...]:
    if view.has("trainer.model.lora"):
        return ()
    move = Edit("move", (*problem.path, "lora"), to=("trainer", "model", "lora"))
    if set(problem.value) == {"lora"}:
        return (move, Edit("remove", problem.path))
    return (move,)


def _offload(view: View, problem: Problem) -> tuple[Edit, ...]:
    if problem.value is not True or view.has("trainer.model.lora"):
        return (Edit("remove", problem.path),)
    if view.has("trainer.model.fsdp_cpu_offload"):
        return ()
    return (Edit("move", problem.path, to=("trainer", "model", "fsdp_cpu_offload")),)


def _rename(view: View, path: Path) -> tuple[Edit, ...]:
    """Return the edit that renames a key, or () if that is not certain. It is certain only for a
    plain value at a plain place; whole generations are for `config migrate`.
    """
    name = dotted(path)
    if view.is_table(name):
        return ()
    for rename in RENAMES:
        target, source = rename.of(view.generation)
        if source == name and rename.moved and target and not view.has(target):
            return (Edit("move", path, to=path_of(target)),)
    return ()


def _sure(wrong: str, right: str) -> bool:
    """Return True if `wrong` is one slip of the finger away from `right`: one letter differs, is
    missing or is too many, or - stands for _.
    """
    if wrong.replace("-", "_") == right:
        return True
    if abs(len(wrong) - len(right)) > 1:
        return False
    if len(wrong) == len(right):
        return sum(a != b for a, b in zip(wrong, right, strict=True)) == 1
    shorter, longer = sorted((wrong, right), key=len)
    return any(longer[:n] + longer[n + 1 :] == shorter for n in range(len(longer)))


def _shown(value: Any) -> str:
    """Return a value for a message, in at most 60 characters."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    text = f'"{value}"' if isinstance(value, str) else str(value)
    if len(text) < 60:
        return text
    return text[:57] + "..."
