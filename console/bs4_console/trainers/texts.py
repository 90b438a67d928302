"""The strings that a piece of source makes, with a sign where it puts in a value.

`f"Step {n} of {m or 'all'}"` makes two: "Step # of #" and "Step # of all", where # is `HOLE`. A
variable is followed to the strings that its function gives it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

#: Stands for a value that the program puts in. It occurs in no message.
HOLE = "\ufffc"
#: Alternatives of one string, and characters of each.
WAYS_MOST = 32
LENGTH_MOST = 4000
_DEPTH_MOST = 25
_PERCENT = re.compile(r"%(?:\(\w{1,40}\))?[-+ #0]*\d{0,4}(?:\.\d{1,4})?[a-zA-Z]")
_BRACES = re.compile(r"\{[^{}]{0,80}\}")
_PLACEHOLDER = re.compile(r"<[a-z_0-9]+(?::[idwt])?>")
_HOLES = re.compile(f"{HOLE}+")


@dataclass(frozen=True)
class Variable:
    """The strings that a function assigns to one of its variables (`ways`), and the numbers of the
    lines in which it does so (`lines`).
    """

    ways: list[str]
    lines: tuple[int, ...]


Given = Mapping[str, Variable]


def pattern(template: str, *, whole: bool = True) -> re.Pattern[str]:
    """Return a regular expression that matches the strings of the wording `template`, as the
    function `made` returns them.

    In a template, `<name>` stands for one value, which `made` writes as the character `HOLE`, and
    text in braces may be missing. If `whole` is False, more text may follow. As a value is matched
    by that one character, a search takes time in proportion to the length of the string.
    """
    text = _PLACEHOLDER.sub(HOLE, template)
    pieces = []
    for char in text:
        pieces.append({"{": "(?:", "}": ")?"}.get(char) or re.escape(char))
    if not whole:
        pieces.append(".*")
    return re.compile("".join(pieces), re.DOTALL)


def words(text: str) -> list[str]:
    """Return the words of a text or of a template (a text with `<name>` in the place of values),
    each once, in lower case and in the order in which they occur. The names in `<...>` are no
    words.
    """
    found = re.findall(r"[a-z][a-z.]+", _PLACEHOLDER.sub(" ", text).lower())
    return list(dict.fromkeys(found))


def made(node: ast.AST, given: Given, depth: int = 0) -> list[str]:
    """Return the strings that the expression `node` can have as its value, at most 32 of them
    (WAYS_MOST). `given` has the strings of variables by the variables' names. A part whose value is
    not known becomes the character `HOLE`. Callers leave `depth` out; with it the function counts
    how deep it has called itself for parts of the expression.
    """
    if depth > _DEPTH_MOST:
        return [HOLE]
    if isinstance(node, ast.Constant):
        return [node.value[:LENGTH_MOST] if isinstance(node.value, str) else HOLE]
    if isinstance(node, ast.JoinedStr):
        return joined(made(part, given, depth + 1) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return made(node.value, given, depth + 1)
    if isinstance(node, ast.IfExp):
        return _unique(made(node.body, given, depth + 1) + made(node.orelse, given, depth + 1))
    if isinstance(node, ast.BoolOp):
        found: list[str] = []
        for value in node.values[:8]:
            found += made(value, given, depth + 1)
        return _unique(found)
    if isinstance(node, ast.Name):
        variable = given.get(node.id)
        return [HOLE] if variable is None else variable.ways
    if isinstance(node, ast.BinOp):
        return _operated(node, given, depth)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _formatted(node.func, given, depth)
    return [HOLE]


def _formatted(function: ast.Attribute, given: Given, depth: int) -> list[str]:
    """Return the strings of `"...".format(...)`. Those of another call are `HOLE`."""
    if function.attr != "format" or not isinstance(function.value, ast.Constant):
        return [HOLE]
    return [_BRACES.sub(HOLE, text) for text in made(function.value, given, depth + 1)]


def _operated(node: ast.BinOp, given: Given, depth: int) -> list[str]:
    """Return the strings of `a + b` and of `a % b`. Those of other operators are `HOLE`."""
    if isinstance(node.op, ast.Add):
        both = (made(node.left, given, depth + 1), made(node.right, given, depth + 1))
        return joined(both)
    if isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
        return [_PERCENT.sub(HOLE, text) for text in made(node.left, given, depth + 1)]
    return [HOLE]


def joined(parts: Iterable[list[str]]) -> list[str]:
    """Return every string that is made of one string from each of `parts`, in their order, but at
    most 32 of them (WAYS_MOST). Unknown values (the character `HOLE`) that follow one another
    become one.
    """
    ways = [""]
    for part in parts:
        longer = []
        for way in ways:
            for text in part:
                longer.append(_HOLES.sub(HOLE, way + text)[:LENGTH_MOST])
        ways = _unique(longer)
    return ways


def _unique(texts: list[str]) -> list[str]:
    """Return the texts without repetitions, at most `WAYS_MOST`."""
    return list(dict.fromkeys(texts))[:WAYS_MOST]


def given_in(scope: ast.AST) -> dict[str, Variable]:
    """Return the strings that the function in `scope` assigns to its variables, as {name:
    Variable}. A variable that is assigned several times has all of these strings. A string to which
    the function later appends text, as by `+=`, is there with and without that text.
    """
    given: dict[str, Variable] = {}
    for node in statements(scope):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for name in _targets(node):
                before = given.get(name, Variable([], ()))
                ways = _unique(before.ways + made(node.value, given))
                given[name] = Variable(ways, (*before.lines, node.lineno))
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
            before = given.get(name, Variable([HOLE], ()))
            more = joined((before.ways, made(node.value, given)))
            given[name] = Variable(_unique(before.ways + more), before.lines)
    return given


def _targets(node: ast.Assign | ast.AnnAssign) -> list[str]:
    """Return the names of the variables that a statement sets."""
    targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
    return [target.id for target in targets if isinstance(target, ast.Name)]


def statements(scope: ast.AST) -> list[ast.stmt]:
    """Return the statements in `scope` in the order of the source. Statements of functions that are
    defined inside it are left out.
    """
    found = [node for node in own(scope) if isinstance(node, ast.stmt)]
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def own(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of the syntax tree `scope`, without those that are in a function
    inside it.
    """
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting.extend(ast.iter_child_nodes(node))


def strings(scope: ast.AST) -> Iterator[ast.expr]:
    """Yield each expression in `scope` that is a string: constants and f-strings. Strings that
    stand alone, as docstrings do, and the parts of an f-string are left out.
    """
    waiting: list[ast.AST] = [scope]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                yield node
            continue
        if isinstance(node, ast.JoinedStr):
            yield node
        for child in ast.iter_child_nodes(node):
            alone = isinstance(node, ast.Expr) and isinstance(child, ast.Constant)
            piece = isinstance(node, ast.JoinedStr) and isinstance(child, ast.Constant)
            if not alone and not piece:
                waiting.append(child)
