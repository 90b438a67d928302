"""What a function, class or file of a trainer's source says, in the form in which beliefs speak of
it. Every function takes a scope, which is a node of the syntax tree, and returns what it found in
the order of the source.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from bs4_console.trainers.texts import HOLE, Given, given_in, joined, made, own, strings

_LEVELS = {
    "debug": "DEBUG",
    "info": "INFO",
    "success": "SUCCESS",
    "warning": "WARNING",
    "error": "ERROR",
    "exception": "ERROR",
}
#: The kind of what is printed and not logged.
PRINTED = "print"
_ARGUMENTS_MOST = 20
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Said:
    """A text in the source of a trainer. `ways` are the strings that it can be when the program
    runs, and `line` and `last_line` its first and last line, counted from 1. `kind` is the level of
    a logger, `PRINTED`, the name of an exception, or "" for any other string.
    """

    kind: str
    ways: tuple[str, ...]
    line: int
    last_line: int


@dataclass(frozen=True)
class Called:
    """A call in the source of a trainer: `name` is the last name of the function, and `mentions`
    has the names and constants that occur in its arguments. It lies in the lines `line` to
    `last_line`, counted from 1, and begins in the column `column`, counted from 0.
    """

    name: str
    mentions: frozenset[str]
    line: int
    last_line: int
    column: int = field(compare=False, default=0)


@dataclass(frozen=True)
class Declared:
    """A field that a class in the source of a trainer declares: its `name`, its `default` as Python
    prints it ("" if it is computed), and the lines `line` to `last_line` in which it lies.
    """

    name: str
    default: str
    line: int
    last_line: int


def logged(scope: ast.AST) -> list[Said]:
    """Return the messages that the code in `scope` passes to a logger, each with its level. The
    list is empty if there are none.
    """
    found = []
    for call, given in _calls_with_strings(scope):
        if isinstance(call.func, ast.Attribute) and call.func.attr in _LEVELS and call.args:
            found.append(_said(_LEVELS[call.func.attr], call.args[0], given, call))
    return _ordered(found)


def printed(scope: ast.AST) -> list[Said]:
    """Return the texts that the code in `scope` prints. Several arguments of one call become one
    text, with a space between them. The list is empty if there are none.
    """
    found = []
    for call, given in _calls_with_strings(scope):
        if _last_name(call.func) not in ("print", "pprint") or not call.args:
            continue
        said = _said(PRINTED, call.args[0], given, call)
        if len(call.args) > 1:
            parts = [list(said.ways)]
            for argument in call.args[1:_ARGUMENTS_MOST]:
                parts += [[" "], made(argument, given)]
            said = Said(PRINTED, tuple(joined(parts)), said.line, said.last_line)
        found.append(said)
    return _ordered(found)


def raised(scope: ast.AST) -> list[Said]:
    """Return the messages of the exceptions that the code in `scope` raises, each with the
    exception's name. Exceptions without a message are left out.
    """
    found = []
    for call, given in _calls_with_strings(scope):
        if isinstance(call.func, ast.Name) and call.args:
            found.append(_said(call.func.id, call.args[0], given, call))
    return _ordered(found)


def texts(scope: ast.AST) -> list[Said]:
    """Return all strings in `scope`, which is the syntax tree of a file, a function or a class. A
    value that an f-string puts in becomes the character `HOLE` if it is not known.
    """
    found = [_said("", node, {}, node) for node in strings(scope)]
    return _ordered(found)


def constants(scope: ast.AST) -> list[Said]:
    """Return the strings that are written in `scope`, the syntax tree of a file, a function or a
    class, exactly as they are written. Of an f-string, these are the pieces between its values.
    """
    found = []
    for node in ast.walk(scope):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            last = node.end_lineno or node.lineno
            found.append(Said("", (node.value,), node.lineno, last))
    return _ordered(found)


def lists(scope: ast.AST) -> list[list[Said]]:
    """Return the lists and tuples in `scope`, the syntax tree of a file, a function or a class,
    each as a list of its elements as texts. Empty ones are left out. An element that is no string
    has a text of which nothing is known (see `is_text`).
    """
    found = []
    for inner, given in _functions(scope):
        for node in own(inner):
            if isinstance(node, ast.List | ast.Tuple) and node.elts:
                found.append([_said("", element, given, element) for element in node.elts])
    return sorted(found, key=lambda elements: elements[0].line)


def calls(scope: ast.AST) -> list[Called]:
    """Return the calls in `scope`, sorted by line, of functions that are called by a name, as in
    `f(x)` or `a.f(x)`.
    """
    found = []
    for inner, _ in _functions(scope):
        assigned: dict[str, set[str]] = {}
        nodes = list(own(inner))
        for node in nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                target = node.targets[0]
                if isinstance(target, ast.Name):
                    assigned.setdefault(target.id, set()).update(_names(node.value))
        for node in nodes:
            if isinstance(node, ast.Call) and _last_name(node.func):
                found.append(_called(node, assigned))
    return sorted(found, key=lambda call: (call.line, call.column))


def fields(scope: ast.AST) -> list[Declared]:
    """Return the fields that the class whose syntax tree is `scope` declares with a type. The list
    is empty if `scope` is no class.
    """
    found: list[Declared] = []
    if not isinstance(scope, ast.ClassDef):
        return found
    for node in scope.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            last = node.end_lineno or node.lineno
            found.append(Declared(node.target.id, _default(node.value), node.lineno, last))
    return found


def _default(value: ast.expr | None) -> str:
    """Return a default as Python prints it, or "" if there is none or it is computed."""
    if isinstance(value, ast.Call) and _last_name(value.func) == "Field":
        value = _field_default(value)
    if isinstance(value, ast.Constant):
        return repr(value.value)
    return ""


def _field_default(call: ast.Call) -> ast.expr | None:
    """Return the default that `Field(...)` is given, or None."""
    for keyword in call.keywords:
        if keyword.arg == "default":
            return keyword.value
    if call.args:
        return call.args[0]
    return None


def _calls_with_strings(scope: ast.AST) -> Iterator[tuple[ast.Call, Given]]:
    """Yield each call with the strings of the variables in its function."""
    for inner, given in _functions(scope):
        for node in own(inner):
            if isinstance(node, ast.Call):
                yield node, given


def _functions(scope: ast.AST) -> Iterator[tuple[ast.AST, Given]]:
    """Yield `scope` and each function in it, with the strings of its variables."""
    yield scope, given_in(scope)
    for node in ast.walk(scope):
        if isinstance(node, _Function) and node is not scope:
            yield node, given_in(node)


def _said(kind: str, text: ast.expr, given: Given, whole: ast.expr) -> Said:
    """Return the text of an expression that lies in the expression `whole`. A message that is a
    variable is taken from where it was put together.
    """
    ways = joined([made(text, given)])
    first = whole.lineno
    variable = given.get(text.id) if isinstance(text, ast.Name) else None
    if variable is not None:
        first = max((line for line in variable.lines if line <= first), default=first)
    return Said(kind, tuple(ways), first, whole.end_lineno or whole.lineno)


def _called(call: ast.Call, assigned: dict[str, set[str]]) -> Called:
    """Return a call. A variable in its arguments also mentions what it was set to."""
    mentions: set[str] = set()
    for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
        for name in _names(argument):
            mentions.add(name)
            mentions.update(assigned.get(name, ()))
    end = call.end_lineno or call.lineno
    return Called(_last_name(call.func), frozenset(mentions), call.lineno, end, call.col_offset)


def _names(node: ast.AST) -> set[str]:
    """Return the names and constants in an expression."""
    found = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            found.add(inner.id)
        elif isinstance(inner, ast.Attribute):
            found.add(inner.attr)
        elif isinstance(inner, ast.Constant):
            found.add(str(inner.value)[:200])
    return found


def _last_name(function: ast.expr) -> str:
    """Return the last name of a called function, as "exit" of `sys.exit`, or ""."""
    if isinstance(function, ast.Name):
        return function.id
    if isinstance(function, ast.Attribute):
        return function.attr
    return ""


def _ordered(found: list[Said]) -> list[Said]:
    """Return the texts in the order of the source."""
    return sorted(found, key=lambda said: (said.line, said.last_line))


def is_text(said: Said) -> bool:
    """Return True if at least a part of the text `said` is known without running the program."""
    return any(way.strip(f"{HOLE} ") for way in said.ways)
