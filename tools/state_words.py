"""Fail when code compares a state with a word that no type knows.

mypy refuses `run.state == "losst"` where the state is a Literal, but not
`run.state in ("ended", "losst")`, and nothing where a record is still a dict. So every word that
is compared with something called `state`, `kind`, `role` and the like must stand in one of the
`Literal` aliases of the code.

Usage: python tools/state_words.py
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("agents", "console")
#: The practice world and the config rules compare with the words of the trainers.
LEFT_OUT = (
    "console/bs4_console/configs/",
    "console/bs4_practice/",
)
STATES = {
    "event",
    "health",
    "kind",
    "mode",
    "outcome",
    "phase",
    "proof",
    "role",
    "severity",
    "state",
    "verdict",
}


@dataclass(frozen=True)
class Unknown:
    """A word with which the code compares a state, although no Literal type of the code has that
    word. `path` and `line` say where the comparison is. `name` is the name of what is compared,
    such as "state" or "kind".
    """

    path: Path
    line: int
    name: str
    word: str


def main() -> int:
    """Print each place where the code compares a state with a word that no Literal of the code has.
    Return 1 if there is one, else 0.
    """
    found = check(list(source_files(ROOT)))
    for unknown in found:
        place = f"{unknown.path.relative_to(ROOT)}:{unknown.line}"
        print(
            f'{place}: no type knows the word "{unknown.word}" that `{unknown.name}` is compared '
            "with. Correct it, or add it to its Literal (agents/bs4_common/states.py).",
            file=sys.stderr,
        )
    return 1 if found else 0


def source_files(root: Path) -> Iterator[Path]:
    """Yield the Python files of the project at `root` in which words are looked for: those of the
    console and the agent, without the config rules and the practice pods.
    """
    for folder in SOURCES:
        for path in sorted((root / folder).rglob("*.py")):
            if not path.relative_to(root).as_posix().startswith(LEFT_OUT):
                yield path


def check(paths: list[Path]) -> list[Unknown]:
    """Return each word with which these Python files compare a state (a name in STATES) and that
    no `Literal[...]` in the files has. The words are in the order of the files.
    """
    trees = {path: ast.parse(path.read_text()) for path in paths}
    known: set[str] = set()
    for tree in trees.values():
        known.update(literal_words(tree))
    found: list[Unknown] = []
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare):
                for name, constant in compared(node):
                    word = str(constant.value)
                    if word and word not in known:
                        found.append(Unknown(path, constant.lineno, name, word))
    return found


def literal_words(tree: ast.AST) -> Iterator[str]:
    """Yield each string in a `Literal[...]`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and name_of(node.value) == "Literal":
            for constant in strings(node.slice):
                yield str(constant.value)


def compared(node: ast.Compare) -> Iterator[tuple[str, ast.Constant]]:
    """Yield (name, constant) for each string constant with which `node` compares a variable, field
    or key that has one of the names in STATES, such as "state" or "kind". For
    `run.state in ("ended", "lost")` the name is "state", and the constants are those two words.
    Yield nothing for other comparisons.
    """
    sides = [node.left, *node.comparators]
    names = [name for name in map(name_of, sides) if name in STATES]
    for name in names[:1]:
        for side in sides:
            for constant in strings(side):
                yield name, constant


def name_of(node: ast.AST) -> str:
    """Return the name under which the expression `node` reads a value. It is "state" for each of
    `a.state`, `state`, `record["state"]` and `record.get("state")`. Return "" for any other
    expression.
    """
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    if isinstance(node, ast.Call) and name_of(node.func) == "get" and node.args:
        first = node.args[0]
        return str(first.value) if isinstance(first, ast.Constant) else ""
    return ""


def strings(node: ast.AST) -> Iterator[ast.Constant]:
    """Yield the strings of a constant, or of a literal tuple, list or set."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        for element in node.elts:
            yield from strings(element)


if __name__ == "__main__":
    sys.exit(main())
