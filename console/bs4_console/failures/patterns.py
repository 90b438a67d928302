"""The cost of a log signature, the regular expression by which a playbook recognises its failure in
a log, and the words that a line must hold before the expression can match.

An expression is searched in lines that anybody may have written, in at most `LINE_CAP` characters
of each. It is refused if some line could make Python's backtracking matcher try more than `LIMIT`
ways. The words (literals) let the engine skip almost every line of a log without parsing it. Both
come from the tree that Python's own parser makes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as sre_parse  # type: ignore[attr-defined]
from typing import Any

from bs4_common.failures.signatures import FLAGS, LINE_CAP

#: The number of ways that one line may cost. A way takes about 5 ns, so the worst line takes about
#: 0.15 s.
LIMIT = 3e7
#: Repeats that can be longer than this are counted. Shorter repeats are cheap.
_SHORT = 10
#: The number of ways in which two adjacent repeats may divide a stretch of text between them.
_PAIR = 1e5
#: The least length of a literal. A shorter text would be found in every other line.
MIN_LITERAL = 4
_MAX_EXACT = 24
_MAX_PATHS = 200
_OTHER = 128
_ALL = frozenset(range(_OTHER + 1))


class Refused(ValueError):
    """Raised when a regular expression must not be in a playbook (the description of a known
    failure and its repair), because it could be too slow or is not valid. The text says why, and
    what to write instead.
    """


# --- trees
# --------------------------------------------------------------------------------------------------


#: Characters. The longest pattern that ships has 559. The time of these checks grows with the
#: square.
LONGEST = 4_000
#: What Python raises for a text that is no pattern: beside re.error for a repetition that is too
#: large, for one of more than 4,300 digits, and for deep nesting.
NO_PATTERN = (re.error, OverflowError, ValueError, RecursionError)


def _tree(pattern: str) -> Any:
    """Return the parsed tree of a pattern. Raises Refused if it is no regular expression, or is
    too long.
    """
    if len(pattern) > LONGEST:
        raise Refused(f"has {len(pattern):,} characters, of which {LONGEST:,} are allowed")
    try:
        return sre_parse.parse(pattern, int(FLAGS))
    except NO_PATTERN as bad:
        raise Refused(f"is no regular expression: {bad}") from None


_CATEGORIES = {
    sre.CATEGORY_DIGIT: frozenset(range(48, 58)),
    sre.CATEGORY_SPACE: frozenset(b" \t\n\r\f\v"),
    sre.CATEGORY_WORD: frozenset(c for c in range(128) if chr(c).isalnum() or chr(c) == "_"),
}
_CATEGORIES |= {
    sre.CATEGORY_NOT_DIGIT: _ALL - _CATEGORIES[sre.CATEGORY_DIGIT],
    sre.CATEGORY_NOT_SPACE: _ALL - _CATEGORIES[sre.CATEGORY_SPACE],
    sre.CATEGORY_NOT_WORD: _ALL - _CATEGORIES[sre.CATEGORY_WORD],
}
_LARGE_OPS = (sre.MAX_REPEAT, sre.MIN_REPEAT)


def _code(value: int) -> int:
    """Return a character code; all that are not ASCII become 128."""
    if value < _OTHER:
        return value
    return _OTHER


def _charset(op: Any, value: Any) -> frozenset[int]:
    """Return the characters that a single-character node matches. 128 stands for everything that is
    not ASCII.
    """
    if op is sre.LITERAL:
        return frozenset({_code(value)})
    if op is sre.NOT_LITERAL:
        if value >= _OTHER:
            return _ALL
        return _ALL - {value}
    if op is sre.ANY:
        return _ALL - {10}
    found: set[int] = set()
    negated = False
    for kind, item in value:
        if kind is sre.NEGATE:
            negated = True
        elif kind is sre.LITERAL:
            found.add(_code(item))
        elif kind is sre.RANGE:
            found.update(_code(c) for c in range(item[0], min(item[1], _OTHER) + 1))
        else:
            found |= _CATEGORIES[item]
    if negated:
        return frozenset(_ALL - found | ({_OTHER} if _OTHER in found else set()))
    return frozenset(found)


# --- what it costs
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Piece:
    """A part of one way through a pattern. It matches `least` to `most` of the characters `chars`.
    Fixed text has `most` 1.
    """

    chars: frozenset[int]
    least: int
    most: int

    @property
    def long(self) -> bool:
        """Return True if the piece is a repeat of variable length that can go beyond ten times."""
        return self.most > _SHORT and self.most != self.least


def check_cost(pattern: str) -> None:
    """Raise Refused if there can be a line for which the regular expression `pattern` is very slow,
    that is if it has nested repeats, adjacent repeats that overlap, or very many ways to match in
    all. Also raise Refused if it is not a regular expression or has more than 4,000 characters
    (LONGEST).
    """
    tree = _tree(pattern)
    _check_nodes(tree, inside=False)
    for path in _paths(tree):
        _check_path(path, anchored=_anchored(tree))


def _check_nodes(tree: Any, inside: bool) -> None:
    """Raise Refused if a node of the tree is too expensive. `inside` is True within a repeat."""
    for op, value in tree:
        if op in (sre.POSSESSIVE_REPEAT, sre.ATOMIC_GROUP):
            raise Refused(
                "uses a possessive repeat or an atomic group, which Python 3.10 on pods does "
                "not know; use a bounded class"
            )
        if op in (sre.GROUPREF, sre.GROUPREF_EXISTS):
            raise Refused(
                "refers back to a group, which cannot be matched in bounded time; write the "
                "alternatives out"
            )
        if op in _LARGE_OPS:
            least, most, body = value
            large = most > _SHORT
            if large and inside and least != most:
                raise Refused(
                    "has a repeat inside a repeat, which can take for ever on some lines; "
                    "write one class, [\\w.]+ for (\\w+\\.)+"
                )
            if large and len(body) and body.getwidth()[0] == 0:
                raise Refused(
                    "repeats something that may be empty; let the inner part take at least "
                    "one character"
                )
            _check_nodes(body, inside or large)
        elif op is sre.BRANCH:
            if inside and _overlap(value[1]):
                raise Refused(
                    "repeats alternatives that begin alike, which can take for ever on some "
                    "lines; write one class"
                )
            for alternative in value[1]:
                _check_nodes(alternative, inside)
        elif op is sre.SUBPATTERN:
            _check_nodes(value[-1], inside)
        elif op in (sre.ASSERT, sre.ASSERT_NOT):
            _check_nodes(value[1], inside)


def _overlap(alternatives: Sequence[Any]) -> bool:
    """Return True if two alternatives can begin with the same character."""
    seen: set[int] = set()
    for alternative in alternatives:
        first = _first(alternative)
        if seen & first:
            return True
        seen |= first
    return False


def _first(tree: Any) -> frozenset[int]:
    """Return the characters with which a match of the tree can begin."""
    found: frozenset[int] = frozenset()
    for path in _paths(tree):
        for piece in path:
            found |= piece.chars
            if piece.least:
                break
    return found


def _anchored(tree: Any) -> bool:
    """Return True if every match begins at the start of the line."""
    if not len(tree):
        return False
    op, value = tree[0]
    if op is sre.AT:
        return bool(value in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING))
    if op is sre.SUBPATTERN:
        return _anchored(value[-1])
    if op is sre.BRANCH:
        return all(_anchored(alternative) for alternative in value[1])
    return False


def _paths(tree: Any) -> list[list[_Piece]]:
    """Return the ways through a tree, at most `_MAX_PATHS`. Beyond that, each branch is represented
    by its most expensive alternative.
    """
    ways: list[list[_Piece]] = [[]]
    for op, value in tree:
        choices = _choices(op, value)
        if len(ways) * len(choices) > _MAX_PATHS:
            choices = [max(choices, key=lambda way: sum(piece.long for piece in way))]
        ways = [way + choice for way in ways for choice in choices]
    return ways


def _choices(op: Any, value: Any) -> list[list[_Piece]]:
    """Return the ways through one node."""
    if op in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
        return [[_Piece(_charset(op, value), 1, 1)]]
    if op is sre.SUBPATTERN:
        return _paths(value[-1])
    if op is sre.BRANCH:
        rows = []
        for alternative in value[1]:
            rows.extend(_paths(alternative))
        return rows
    if op in _LARGE_OPS:
        least, most, body = value
        inner = _paths(body)
        if most == 1:
            return [*inner, []]
        chars = frozenset(c for way in inner for piece in way for c in piece.chars)
        width = max(1, body.getwidth()[0])
        return [[_Piece(chars, least * width, min(int(most) * width, LINE_CAP))]]
    return [[]]


def _check_path(path: Sequence[_Piece], *, anchored: bool) -> None:
    """Raise Refused if one way through the pattern is too expensive."""
    prefix = next((n for n, piece in enumerate(path) if piece.most != 1), len(path))
    if not anchored and path and path[0].long and path[0].chars >= _ALL - {10, 13}:
        raise Refused("begins with an unbounded .*, which a search does not need; drop it")
    ways = 1.0 if anchored else LINE_CAP / max(1, prefix)
    repeats, gap, before = 0, 0, None
    for piece in path[prefix:]:
        if not piece.long:
            gap += piece.least
            if before is not None and piece.least and not piece.chars & before.chars:
                before = None
            continue
        if (
            before is not None
            and gap == 0
            and before.chars & piece.chars
            and before.most * piece.most > _PAIR
        ):
            raise Refused(
                "has two open repeats side by side that take the same characters (.*\\s+, "
                "\\w+\\d+); keep one of them"
            )
        if before is not None:
            # The part between them may itself lie inside the text that the first repeat took, and
            # every place of it is another way.
            ways *= min(before.most, LINE_CAP) / max(1, gap)
            repeats += 1
        before, gap = piece, 0
    if before is not None:
        ways *= before.most
        repeats += 1
    for n in range(2, repeats + (0 if anchored else 1) + 1):
        ways /= n  # the places are in order
    if ways > LIMIT:
        raise Refused(
            f"can be tried in {ways:.0e} ways on one line; anchor it with ^ or bound its "
            f"repeats, .{{0,200}} for .*"
        )


# --- which words it needs
# --------------------------------------------------------------------------------------------------


def literals(pattern: str) -> list[str]:
    """Return plain texts such that every line of a log file that the regular expression `pattern`
    matches contains at least one of them. The result is empty if no useful text is certain. If the
    expression ignores case, the texts are in lower case and begin with `(?i)`.

    Only text that is the same in every log format is used. So the texts have no quotes,
    backslashes, slashes, control characters or non-ASCII (JSON lines write them differently). They
    also have nothing that the agent's parser adds to a line, such as `: 50% 3/6 (step 1)` of a
    progress record.
    """
    tree = _tree(pattern)
    folded = bool(tree.state.flags & re.IGNORECASE)
    found, best = _needed(tree, folded)
    usable = [_usable(found or frozenset()), _usable(best)]
    chosen = max((option for option in usable if option), key=_worth, default=frozenset())
    alone = []
    for text, fold in chosen:
        if not any(other in text and other != text for other, _ in chosen):
            alone.append(("(?i)" if fold else "") + text)
    return sorted(alone)


_Text = tuple[str, bool]
_Set = frozenset[_Text]
_UNSAFE = re.compile(r"[^ -~]|[\"\\/%]|\(step|: (?=\d)|\(\d")


def _usable(option: Collection[_Text]) -> _Set:
    """Return the longest safe stretch of every text. Empty if one of the texts has no stretch that
    is long enough.
    """
    chosen: set[_Text] = set()
    for text, fold in option:
        parts = [(part, fold) for part in _UNSAFE.split(text) if len(part.strip()) >= MIN_LITERAL]
        if not parts:
            return frozenset()
        chosen.add(max(parts, key=lambda part: len(part[0])))
    return frozenset(chosen)


def _worth(option: _Set) -> tuple[float, int]:
    """Return how useful a set of texts is, for comparison: long texts and few of them."""
    return (min(min(len(text) for text, _ in option), 12) - 0.5 * len(option), -len(option))


def _needed(tree: Any, folded: bool) -> tuple[_Set | None, _Set]:
    """Return two sets: all texts that the tree can match (None if there are many), and the best set
    of which one text must occur (empty if there is none).
    """
    exact: set[_Text] | None = {("", folded)}
    best: _Set = frozenset()
    whole = True
    for op, value in tree:
        inner, needed = _node(op, value, folded)
        best = _better(best, needed)
        if (
            inner is not None
            and exact is not None
            and len(exact) * max(1, len(inner)) <= _MAX_EXACT
        ):
            exact = {(a + b, fa or fb) for a, fa in exact for b, fb in inner}
            continue
        whole = False
        if exact:
            best = _better(best, frozenset(exact))
        if inner is not None:
            exact = set(inner)
        else:
            exact = {("", folded)}
    if exact:
        best = _better(best, frozenset(exact))
    return (frozenset(exact) if whole and exact is not None else None), best


def _node(op: Any, value: Any, folded: bool) -> tuple[_Set | None, _Set]:
    """Return the two sets of `_needed` for one node."""
    if op is sre.LITERAL:
        char = chr(value)
        return frozenset({(char.lower() if folded else char, folded)}), frozenset()
    if op is sre.IN:
        chars = _charset(op, value)
        if 0 < len(chars) <= 4 and _OTHER not in chars:
            return frozenset(
                (chr(c).lower() if folded else chr(c), folded) for c in chars
            ), frozenset()
        return None, frozenset()
    if op is sre.AT:
        return frozenset({("", folded)}), frozenset()
    if op in (sre.ASSERT, sre.ASSERT_NOT):
        return frozenset({("", folded)}), frozenset()
    if op is sre.SUBPATTERN:
        _, add, drop, body = value
        return _needed(body, (folded or bool(add & re.IGNORECASE)) and not drop & re.IGNORECASE)
    if op is sre.BRANCH:
        return _branch(value[1], folded)
    if op in _LARGE_OPS:
        least, most, body = value
        inner, needed = _needed(body, folded)
        if least == 0:
            return (
                frozenset({*inner, ("", folded)}) if inner is not None and most == 1 else None
            ), frozenset()
        if inner is not None and least == most == 1:
            return inner, needed
        return None, _better(needed, inner or frozenset())
    return None, frozenset()


def _branch(alternatives: Sequence[Any], folded: bool) -> tuple[_Set | None, _Set]:
    """Return the two sets of `_needed` for alternatives."""
    parts = []
    for alternative in alternatives:
        parts.append(_needed(alternative, folded))
    exact: _Set | None = frozenset()
    for inner, _ in parts:
        if inner is None or exact is None or len(exact | inner) > _MAX_EXACT:
            exact = None
        else:
            exact = exact | inner
    union: set[_Text] = set()
    for inner, needed in parts:
        options: list[_Set] = [inner or frozenset(), needed]
        good = [option for option in options if _usable(option)]
        if not good:
            return exact, frozenset()
        union |= max(good, key=lambda option: _worth(_usable(option)))
    return exact, frozenset(union)


def _better(one: _Set, other: _Set) -> _Set:
    """Return the more useful of two sets."""
    first, second = _usable(one), _usable(other)
    if not second:
        if first:
            return one
        return frozenset()
    if not first:
        return other
    if _worth(first) >= _worth(second):
        return one
    return other


# --- what a raw line must look like
# --------------------------------------------------------------------------------------------------

_DEL = 127
_BEGINS = (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING)
_AT_RAW = {**dict.fromkeys(_BEGINS, r"(?<![\w.])"), sre.AT_BOUNDARY: r"\b", sre.AT_END: r"(?!\w)"}


def relaxed(pattern: str) -> str:
    """Return a weaker regular expression than `pattern`, for the raw bytes of a log file. It
    matches every raw line in whose text `pattern` could match, and perhaps more lines. (The text of
    a line is what follows its header of time and level.) Return "" if no useful expression exists.

    The returned expression is meant for lines in which JSON escaped only quotes and line ends, and
    in which every non-ASCII character was replaced by DEL (see the agent's `prefilter.py`). The
    expression has no lookarounds, and only those parts of `pattern` that a line must have in any
    case. `^` and `$` become weaker conditions on the character beside them, because in a raw line
    other characters may stand before and after the text.
    """
    tree = _tree(pattern)
    text = _written(_core(list(tree)))
    if not text:
        return ""
    flags = "".join(
        letter
        for letter, flag in (("i", re.IGNORECASE), ("s", re.DOTALL))
        if tree.state.flags & flag
    )
    if flags:
        text = f"(?{flags}){text}"
    try:
        check_cost(text)  # the expression without its anchor may be too expensive
    except Refused:
        return ""
    return text


def _core(nodes: list[Any]) -> list[Any]:
    """Return the nodes without those that a search need not find at either end. The search would
    try them at every place of a line.
    """
    nodes = _headless(nodes, at_begin=False)
    while nodes and (
        nodes[-1][0] in (sre.ASSERT, sre.ASSERT_NOT)
        or (nodes[-1][0] in _LARGE_OPS and nodes[-1][1][0] == 0)
    ):
        nodes = nodes[:-1]
    return nodes


def _headless(nodes: list[Any], at_begin: bool) -> list[Any]:
    """Return the nodes from the first one on that must be there. `at_begin` is True if only the
    header stands before the first node.
    """
    while nodes and not _telling(nodes[0]):
        op, value = nodes[0]
        if op not in (sre.ASSERT, sre.ASSERT_NOT):
            at_begin = op is sre.AT and value in _BEGINS
        nodes = nodes[1:]
    if not nodes:
        return []
    op, value = nodes[0]
    if op is sre.SUBPATTERN:
        *rest, body = value
        return [(op, (*rest, _headless(list(body), at_begin))), *nodes[1:]]
    if op is sre.BRANCH:
        return [(op, (None, [_headless(list(way), at_begin) for way in value[1]])), *nodes[1:]]
    if at_begin:
        return [(sre.AT, sre.AT_BEGINNING), *nodes]
    return nodes


def _telling(node: Any) -> bool:
    """Return True if a search can begin with the node: it is fixed text, or each of its
    alternatives has some.
    """
    op, value = node
    if op is sre.SUBPATTERN:
        return any(_telling(inner) for inner in value[-1])
    if op is sre.BRANCH:
        return all(any(_telling(inner) for inner in way) for way in value[1])
    return op is sre.LITERAL


def _written(nodes: Sequence[Any]) -> str:
    """Return the nodes as the text of a pattern."""
    return "".join(_write(op, value) for op, value in nodes)


def _write(op: Any, value: Any) -> str:
    """Return one node as the text of a pattern."""
    if op is sre.LITERAL:
        return _char(min(value, _DEL))
    if op is sre.ANY:
        return "."
    if op in (sre.IN, sre.NOT_LITERAL):
        chars = sorted({min(char, _DEL) for char in _charset(op, value)})
        if chars:
            return f"[{''.join(_range(first, last) for first, last in _stretches(chars))}]"
        return "(?!)"
    if op is sre.SUBPATTERN:
        _, add, drop, body = value
        on, off = ("i" if flags & re.IGNORECASE else "" for flags in (add, drop))
        return f"(?{on}{'-' + off if off else ''}:{_written(body)})"
    if op is sre.BRANCH:
        return f"(?:{'|'.join(_written(way) for way in value[1])})"
    if op in _LARGE_OPS:
        least, most, body = value
        times = (
            f"{{{least},"
            f"{'' if most is sre.MAXREPEAT else most}}}{'?' if op is sre.MIN_REPEAT else ''}"
        )
        return f"(?:{_written(body)}){times}"
    if op is sre.AT:
        return _AT_RAW.get(value, "")
    return ""


def _stretches(chars: Sequence[int]) -> list[tuple[int, int]]:
    """Return sorted codes as ranges (first, last)."""
    found: list[tuple[int, int]] = []
    for char in chars:
        if found and found[-1][1] == char - 1:
            found[-1] = (found[-1][0], char)
        else:
            found.append((char, char))
    return found


def _range(first: int, last: int) -> str:
    """Return a range as it is written in a character class."""
    if first == last:
        return _char(first)
    return f"{_char(first)}-{_char(last)}"


def _char(code: int) -> str:
    """Return one character as it is written in a pattern."""
    char = chr(code)
    if char.isalnum() or char in ' _:=,;"/':
        return char
    return f"\\x{code:02x}"


def groups(pattern: str) -> Iterator[str]:
    """Yield the names of the named groups in a regular expression."""
    yield from re.compile(pattern).groupindex
