"""Changes a source so that it no longer is as one belief says: a message reworded, a file renamed,
a field renamed, an exit code changed, one more call. Written without the checker's own functions,
except for the lines in which it found what a belief is about.
"""

from __future__ import annotations

import ast
import re

from bs4_console.trainers.belief import (
    Belief,
    Calls,
    Constants,
    Entry,
    Fields,
    Message,
    Texts,
    Words,
)
from bs4_console.trainers.checking import Verdict

MARK = "zqx"


def changed(source: str, verdict: Verdict) -> str:
    """Return `source`, the text of the file that a belief names, so changed that the belief does
    not hold in it. Raises AssertionError if no change is found.
    """
    expected = verdict.belief.expected
    if isinstance(expected, Entry):
        assert source.count(f'"{expected.value}"') == 1
        return source.replace(f'"{expected.value}"', f'"{expected.value}{MARK}"')
    if isinstance(expected, Fields):
        return _renamed_field(source, verdict.belief, expected)
    if isinstance(expected, Calls):
        return _other_call(source, verdict, expected)
    if isinstance(expected, Message):
        return _other_word(source, verdict, expected.text)
    if isinstance(expected, Texts | Constants):
        return _other_word(source, verdict, expected.texts[0])
    assert isinstance(expected, Words)
    return _other_word(source, verdict, expected.words[-2])


def _other_word(source: str, verdict: Verdict, text: str) -> str:
    """Return the source with the longest word of `text` that can be changed followed by a mark, in
    the lines that the belief is about.
    """
    plain = re.sub(r"<[a-z_0-9]+(:[idwt])?>|[{}]", " ", text)
    if isinstance(verdict.belief.expected, Constants):
        plain = text
    lines = source.splitlines(keepends=True)
    found = [rf"(?<=['\"]){re.escape(text)}(?=['\"])"]
    for word in sorted(re.findall(r"[A-Za-z_]+|[:*]+", plain), key=_order):
        # What is called, named or put in stays as it is.
        found.append(rf"(?<![\w({{.]){re.escape(word)}(?![\w(]|\s*=[^=])")
        found.append(re.escape(word))
    for wording in found:
        new = list(lines)
        for first, last in verdict.lines:
            for number in range(first - 1, last):
                new[number] = re.sub(wording, rf"\g<0> {MARK}", lines[number])
        candidate = "".join(new)
        if candidate != source and _strings(candidate) != _strings(source) and _parses(candidate):
            return candidate
    raise AssertionError(f"no word of {text!r} can be changed in {verdict.where}")


def _order(word: str) -> tuple[bool, int]:
    """Return the key by which words are tried: plain ones first, and the longest of them."""
    return "_" in word, -len(word)


def _parses(source: str) -> bool:
    """Return True if this is Python."""
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def _strings(source: str) -> list[str]:
    """Return the constants of a source, or nothing if it is no Python."""
    if not _parses(source):
        return []
    return [
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def _named(tree: ast.Module, name: str) -> ast.AST:
    """Return the function or class with a qualified name."""
    node: ast.AST = tree
    for part in filter(None, name.split(".")):
        node = next(
            inner
            for inner in ast.walk(node)
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and inner.name == part
        )
    return node


def _renamed_field(source: str, belief: Belief, expected: Fields) -> str:
    """Return the source with the first of the expected fields under another name."""
    tree = ast.parse(source)
    owner = _named(tree, belief.place.name)
    assert isinstance(owner, ast.ClassDef)
    for node in owner.body:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        if node.target.id == expected.fields[0][0]:
            node.target.id += MARK
            return ast.unparse(tree)
    raise AssertionError(f"{belief.id} has no field {expected.fields[0][0]}")


class _Doubled(ast.NodeTransformer):
    """Makes each of some calls twice."""

    def __init__(self, lines: tuple[tuple[int, int], ...], names: tuple[str, ...]) -> None:
        self.lines, self.names = lines, names
        self.count = 0

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Double the call if it is one of those."""
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in self.names and (node.lineno, node.end_lineno) in self.lines:
            self.count += 1
            return ast.Tuple([node, node], ast.Load())
        return self.generic_visit(node)


def _other_call(source: str, verdict: Verdict, expected: Calls) -> str:
    """Return the source with another constant in the calls, or with one of them made twice, or with
    a call where none is expected.
    """
    if not expected.are:
        return f"{source}\n{expected.of[0]}(None)\n"
    tree = ast.parse(source)
    wanted = {word for item in expected.are for word in item.split()[1:]}
    constants = [
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and (node.lineno, node.end_lineno) in verdict.lines
        for inner in ast.walk(node)
        if isinstance(inner, ast.Constant) and str(inner.value) in wanted
    ]
    for constant in constants:
        constant.value = 3 if isinstance(constant.value, int) else f"{constant.value}{MARK}"
    if not constants:
        doubled = _Doubled(verdict.lines[:1], expected.of)
        tree = doubled.visit(tree)
        assert doubled.count == 1
    return ast.unparse(ast.fix_missing_locations(tree))
