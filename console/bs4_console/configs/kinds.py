"""Find out which component of a training a config file is for: from its keys, and from its name if
several components fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path as File

from bs4_console.configs.document import Document
from bs4_console.configs.schema import COMPONENTS, Checker, prefix_of
from bs4_console.errors import UsageError

#: The component that a word in a path names.
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
#: How many folders above a config may name its component.
_FOLDERS = 4


def component_of(document: Document, generation: str) -> str | None:
    """Return for which program of prime-rl a config is: "rl" (the whole training), "trainer",
    "orchestrator", "inference", "sft" or "eval". It is the program whose schema knows the most of
    the config's keys. `generation` is the version of prime-rl: "prime-rl-2026-01", or "prime-rl"
    for the current one. Return None if no schema knows half of the keys at the top of the config.

    If several programs fit equally well, the name of the file decides, then the names of its
    folders, then the order in the list above.
    """
    misfits = {component: _misfits(document, generation, component) for component in COMPONENTS}
    least = min(misfits.values())
    if least[0] * 2 > len(document.data):
        return None
    for component in (*_named(document.file), *COMPONENTS):
        if misfits[component] == least:
            return component
    return None


def chosen(document: Document, generation: str, component: str | None) -> str:
    """Return for which program of prime-rl a config is, such as "rl" (the whole training) or
    "trainer". It is `component` if that is not None. Otherwise it is found out from the config's
    keys and the file's name. `generation` is the version of prime-rl, "prime-rl-2026-01" or
    "prime-rl". Raises UsageError if the config fits no program.
    """
    found = component or component_of(document, generation)
    if found is None:
        raise UsageError(
            f"{document.file} is a config of no part of {generation} that is known here "
            f"({', '.join(COMPONENTS)}).",
            "Name the part with --component if it is one of them; others cannot be judged.",
        )
    return found


def _misfits(document: Document, generation: str, component: str) -> tuple[int, int]:
    """Return (top, all): how many keys at the top of a config a component does not have, and how
    many keys in all.
    """
    _, problems = Checker(generation, component).check(document.data)
    unknown = {problem.path for problem in problems if problem.kind == "extra"}
    top = len(prefix_of(component)) + 1
    return [len(path) for path in unknown].count(top), len(unknown)


def _named(file: File) -> list[str]:
    """Return the components that a path names: in the file's name, then in its folders from the
    nearest on.
    """
    found = []
    for place in (file.with_suffix(""), *list(file.parents)[:_FOLDERS]):
        for word in place.name.lower().replace("-", "_").split("_"):
            if word in _WORDS:
                found.append(_WORDS[word])
    return found
