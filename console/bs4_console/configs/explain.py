"""Explain what the schema refuses: as the rule that knows the mistake, or as `schema` if no rule
does.
"""

from __future__ import annotations

from typing import Any

from bs4_console.configs.catalog import finding
from bs4_console.configs.findings import Edit, Finding, Path, dotted, names_of
from bs4_console.configs.names import nearest, of_other_generation
from bs4_console.configs.schema import Problem, exists
from bs4_console.configs.view import View

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


def explain(view: View, problem: Problem) -> Finding:
    """Return the finding for one problem of the schema."""
    line = view.at(problem.path)
    if problem.kind == "extra":
        return _unknown(view, problem, line)
    if problem.kind == "ignored":
        words, _ = nearest(view.generation, problem.path, problem.known, view.component)
        message = (
            f"{dotted(problem.path)} is not a key here; the trainer ignores it without a word."
        )
        return finding("schema", line, message, words or "Remove it.", level="warning")
    if problem.kind == "missing":
        return finding(
            "schema",
            line,
            f"{problem.wanted} is missing{_inside(problem.path[:-1])}.",
            "Add it; an empty table is enough where all has defaults.",
        )
    return _wrong_value(view, problem, line)


def _inside(path: Path) -> str:
    if path:
        return f" in [{dotted(path)}]"
    return ""


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
    if names in (
        ("orchestrator", "env"),
        ("orchestrator", "train", "source"),
        ("orchestrator", "eval", "env"),
        ("orchestrator", "eval", "source"),
    ):
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
    remove = (Edit("remove", path),)
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
    if (
        key == "experimental"
        and parent == ("trainer", "model")
        and isinstance(problem.value, dict)
        and "lora" in problem.value
    ):
        line = view.at((*path, "lora"))
        return finding(
            "R03",
            line,
            "[trainer.model.experimental.lora] has moved to [trainer.model.lora].",
            edits=_experimental(view, problem),
        )
    if key == "lora" and parent in (
        (),
        ("trainer",),
        ("model",),
        ("orchestrator",),
        ("trainer", "experimental"),
        ("inference",),
    ):
        moved: tuple[Edit, ...]
        if view.has("trainer.model.lora") or not isinstance(problem.value, dict):
            moved = ()
        else:
            moved = (Edit("move", path, to=("trainer", "model", "lora")),)
        return finding(
            "R03",
            line,
            f"[{where}] is not a table of this trainer; LoRA is [trainer.model.lora].",
            edits=moved,
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
    if old:
        found = _of_january(problem, names, line, remove)
        if found:
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
    inside = {}
    if isinstance(problem.value, dict):
        inside = problem.value
    settings = []
    for key in inside:
        if exists(view.generation, (*problem.path[:-1], key), view.component):
            settings.append(key)
    if any(view.has(dotted((*problem.path[:-1], key))) for key in settings):
        return ()
    moves = []
    for key in settings:
        moves.append(Edit("move", (*problem.path, key), to=(*problem.path[:-1], key)))
    return (*moves, Edit("remove", problem.path))


def _misspelt(view: View, problem: Problem, line: int) -> Finding:
    path, names = problem.path, names_of(problem.path)
    words, right = nearest(view.generation, path, problem.known, view.component)
    edits: tuple[Edit, ...] = ()
    there = (
        right
        and not view.has(dotted((*names[:-1], right)))
        and exists(view.generation, (*path[:-1], right), view.component)
    )
    if there and _sure(names[-1], right):
        edits = (Edit("move", path, to=(*path[:-1], right)),)
    return finding(
        "schema",
        line,
        f"{dotted(path)} is not a key of this trainer.",
        words or "Remove it.",
        edits=edits,
    )


def _of_january(
    problem: Problem, names: tuple[str, ...], line: int, remove: tuple[Edit, ...]
) -> Finding | None:
    """Return the finding of the rule that knows this unknown key in January 2026, or None if no
    rule does.
    """
    key, parent, where = names[-1], names[:-1], dotted(problem.path)
    if key == "top_p" and "sampling" in parent:
        return finding("R05", line, f"{where} is refused by the trainer.", edits=remove)
    if key in _MASKS:
        return finding("R06", line, f"{where} is refused by the trainer.", edits=remove)
    if key == "lora_name":
        move = (Edit("move", problem.path, to=("orchestrator", "lora_name")),)
        return finding(
            "R04", line, f"{where} belongs to [orchestrator].", edits=move, level="error"
        )
    if parent == ("orchestrator", "buffer") and key == "type":
        edits = (
            *remove,
            Edit("set", ("orchestrator", "buffer", "online_difficulty_filtering"), value=True),
        )
        return finding(
            "R07",
            line,
            f"{where} is refused: the buffer has no kinds.",
            edits=edits if "difficulty" in str(problem.value) else (),
        )
    if key == "oversampling_factor":
        move = (Edit("move", problem.path, to=("orchestrator", "oversampling_factor")),)
        return finding("R07", line, f"{where} belongs to [orchestrator].", edits=move)
    if key == "online_difficulty_filtering":
        move = (
            Edit(
                "move", problem.path, to=("orchestrator", "buffer", "online_difficulty_filtering")
            ),
        )
        return finding("R07", line, f"{where} belongs to [orchestrator.buffer].", edits=move)
    if (
        key in _VLLM
        and (not parent or parent[0] == "inference")
        and parent != ("inference", "vllm")
    ):
        return finding("R13", line, f"{where} is refused by the trainer.", edits=remove)
    if key in _LOADING and (not parent or parent[0] == "inference"):
        return finding("R14", line, f"{where} is refused by the trainer.", edits=remove)
    if names in _ENVIRONMENTS:
        return finding("R12", line, f"[{where}] is not where environments are.")
    if parent == ("orchestrator", "env"):
        return finding(
            "R12",
            line,
            f"{where} is refused: an environment has id and args, and its settings go into args.",
        )
    return None


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
    from bs4_console.configs.names import RENAMES

    name = dotted(path)
    for rename in RENAMES:
        if view.generation == "prime-rl":
            source, target = (rename.old, rename.new)
        else:
            source, target = (rename.new, rename.old)
        if (
            source == name
            and rename.moved
            and target
            and not isinstance(view.written(name), dict)
            and not view.has(target)
        ):
            return (Edit("move", path, to=tuple(target.split("."))),)
    return ()


def _sure(wrong: str, right: str) -> bool:
    """Return True if `wrong` is one slip of the finger away from `right`: one letter differs, is
    missing or is too many, or - stands for _.
    """
    if wrong.replace("-", "_") == right:
        return True
    if abs(len(wrong) - len(right)) > 1:
        return False
    if len(wrong) > len(right):
        longer, shorter = (wrong, right)
    else:
        longer, shorter = (right, wrong)
    if len(longer) == len(shorter):
        return sum(a != b for a, b in zip(wrong, right, strict=True)) == 1
    return any(longer[:n] + longer[n + 1 :] == shorter for n in range(len(longer)))


def _shown(value: Any) -> str:
    """Return a value for a message, in at most 60 characters."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        if value:
            return "true"
        return "false"
    if isinstance(value, str):
        text = f'"{value}"'
    else:
        text = str(value)
    if len(text) < 60:
        return text
    return text[:57] + "..."
