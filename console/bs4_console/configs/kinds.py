"""Which part of a training a config file is for, told from its keys and, where several fit, from
its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path as File
from typing import Any

from bs4_console.configs.schema import COMPONENTS, Checker, prefix_of
from bs4_console.errors import UsageError

#: Words in a path that name a component.
_WORDS: Mapping[str, str] = {
    "sft": "sft",
    "eval": "eval",
    "evals": "eval",
    "orch": "orchestrator",
    "orchestrator": "orchestrator",
    "train": "trainer",
    "trainer": "trainer",
    "infer": "inference",
    "inference": "inference",
    "rl": "rl",
}
#: Folders above a config whose names count.
_FOLDERS = 4


def component_of(data: Mapping[str, Any], file: File, generation: str) -> str | None:
    """Return the component whose schema knows the most of a config's keys, or None when none knows
    half of those at its top.

    Where several know as many the file's name decides, then its folder's, then the order of
    COMPONENTS, in which the config of the whole comes first.
    """
    misfits = {}
    for component in COMPONENTS:
        misfits[component] = _misfits(data, generation, component)
    least = min(misfits.values())
    if least[0] * 2 > len(data):
        return None
    best = []
    for component in COMPONENTS:
        if misfits[component] == least:
            best.append(component)
    for named in _named(file):
        if named in best:
            return named
    return best[0]


def chosen(data: Mapping[str, Any], file: File, generation: str, component: str | None) -> str:
    """Return the component that was asked for, or the one that the config is for. UsageError when
    that cannot be told.
    """
    found = component or component_of(data, file, generation)
    if found is None:
        raise UsageError(
            f"{file} is a config of no part of {generation} that is known here "
            f"({', '.join(COMPONENTS)}).",
            "Name the part with --component if it is one of them; others cannot be judged.",
        )
    return found


def _misfits(data: Mapping[str, Any], generation: str, component: str) -> tuple[int, int]:
    """Return how many keys at the top of a config a component does not have, and how many there are
    in all.
    """
    _, problems = Checker(generation, component).check(dict(data))
    unknown = set()
    for problem in problems:
        if problem.kind == "extra":
            unknown.add(problem.path)
    top = len(prefix_of(component)) + 1
    return sum(len(path) == top for path in unknown), len(unknown)


def _named(file: File) -> list[str]:
    """Return the components that a path names, its own name before its folders, the nearest
    first.
    """
    found = []
    for part in [file.stem, *(parent.name for parent in list(file.parents)[:_FOLDERS])]:
        for word in part.lower().replace("-", "_").split("_"):
            if word in _WORDS:
                found.append(_WORDS[word])
    return found
