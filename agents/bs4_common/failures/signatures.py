"""Log signatures: a pattern counts only in its own source, at its own level, from its own logger,
among its own neighbours.

A quoted error in a completion, an advice line of torch or a warning that cites an errno must never
fire, so a signature without a source is refused when a playbook is compiled.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypedDict

#: Characters of a line that patterns see, so that an unbounded line cannot hold a regular
#: expression for seconds.
LINE_CAP = 4096
#: ASCII: \w, \d and (?i) mean the same letters everywhere, so the bytes of a file can be searched
#: for the words of a pattern.
FLAGS = re.ASCII

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}


class Expression:
    """A regular expression that is compiled at its first use, because most of the hundreds of
    expressions are never needed. `text` is the expression. Every matching line holds one of the
    texts in `needs`; if that is empty, any line may match. `raw` is an expression for the same
    lines before they are parsed, or "".
    """

    __slots__ = ("_compiled", "needs", "raw", "text")

    def __init__(self, text: str, needs: Sequence[str] = (), raw: str = "") -> None:
        """Store the regular expression `text`. Every matching line holds at least one of the texts
        in `needs`; without any, every line must be tried. `raw` is a regular expression that each
        such line matches as it stands in the file, before it is parsed; "" means that it may have
        any form.
        """
        self.text, self.needs, self.raw = text, tuple(needs), raw
        self._compiled: re.Pattern[str] | None = None

    def search(self, text: str) -> re.Match[str] | None:
        """Return the first match in the first 4096 characters of `text`, or None if there is no
        match there.
        """
        if self._compiled is None:
            self._compiled = re.compile(self.text, FLAGS)
        return self._compiled.search(text, 0, LINE_CAP)


Purpose = Literal["pattern", "near", "cleared_by", "only_after", "not_after"]
"""The roles of a signature's expressions."""


if TYPE_CHECKING:
    # Only for the type checker: at run time, each would take 10 KiB of the agent.

    class NearFields(TypedDict, total=False):
        """A `Near` as playbooks.json has it."""

        pattern: str
        before: int
        """Lines, as `after`."""
        after: int
        absent: bool

    class SignatureFields(TypedDict, total=False):
        """A `Signature` as playbooks.json has it. `needs` and `raw` are those of its expressions,
        by the key of the expression.
        """

        source: str | Sequence[str]
        pattern: str
        levels: Sequence[str]
        logger: str
        unless: str
        near: NearFields
        only_after: str
        not_after: str
        where: Mapping[str, str]
        count: int
        within: float
        """Seconds."""
        last: bool
        ends_run: bool
        cleared_by: str
        needs: Mapping[str, Sequence[str]]
        raw: Mapping[str, str]


@dataclass(frozen=True)
class Near:
    """A condition of a log signature on the lines near a matching line: a line at most `before`
    lines above it or `after` lines below it must match `pattern`. With `absent`, no line there may
    match.
    """

    pattern: Expression
    before: int
    after: int
    absent: bool


@dataclass(frozen=True)
class Condition:
    """A condition of a log signature: what a named group of its pattern has matched is read as a
    number and compared with `number`. The condition does not hold if the group matched nothing or
    no number.
    """

    group: str
    compare: Callable[[float, float], bool]
    number: float

    @classmethod
    def parse(cls, group: str, text: str) -> Condition:
        """Return the condition that `text`, such as ">= 0.5", describes for the named group `group`
        of a pattern. Raises KeyError if `text` begins with no known comparison, and ValueError if
        its number is malformed.
        """
        sign = text.rstrip("-.0123456789 ")
        return cls(group, _OPERATORS[sign], float(text[len(sign) :]))

    def holds(self, match: re.Match[str]) -> bool:
        """Return True if the condition holds for `match`, a match of the signature's pattern. The
        text that the named group has matched is read as a number and compared with `number`. Return
        False if the group has matched nothing, or a text that is no number.
        """
        try:
            return self.compare(float(match.group(self.group)), self.number)
        except (TypeError, ValueError):
            return False


@dataclass(frozen=True, kw_only=True)
class Signature:
    """A log signature, which is a pattern of log lines by which a known failure is recognised: one
    entry of `detect.logs` in the playbook of the failure `failure`. It fires, which means that the
    failure is reported, after `count` lines that match, if they lie within `within` seconds of each
    other by the times in the lines.

    A line matches if the log is one of `sources`, its level is in `levels` (an empty set allows
    every level and none), `logger` matches its logger, `pattern` its text, `unless` does not match
    its text, and the conditions `where` and `near` hold. A line that matches `only_after` must have
    come before, and no line that matches `not_after` may have. A line that matches `cleared_by`
    ends the failure. With `last`, the signature holds only while the matching line is the last of
    the log. With `ends_run`, the process that wrote the line ends because of the failure, and the
    finding is a critical root cause.
    """

    failure: str
    sources: frozenset[str]
    pattern: Expression
    levels: frozenset[str] = frozenset()
    logger: Expression | None = None
    unless: Expression | None = None
    near: Near | None = None
    only_after: Expression | None = None
    not_after: Expression | None = None
    where: Sequence[Condition] = ()
    count: int = 1
    within: float | None = None
    last: bool = False
    ends_run: bool = False
    cleared_by: Expression | None = None
    roles: Mapping[str, Expression] = field(default_factory=dict)
    """Every expression that lines must be searched for, by its role."""

    @classmethod
    def from_compiled(cls, failure: str, data: SignatureFields) -> Signature:
        """Return the log signature (pattern of a known failure) that `data`, an entry of a compiled
        playbook, describes. `failure` is the playbook's id.
        """
        needs, raw = data.get("needs", {}), data.get("raw", {})
        source = data["source"]

        def expression(key: str) -> Expression | None:
            text = data.get(key)
            if isinstance(text, str):
                return Expression(text, needs.get(key, ()), raw.get(key, ""))
            return None

        roles: dict[str, Expression] = {}
        for key in ("pattern", "only_after", "not_after", "cleared_by"):
            if (found := expression(key)) is not None:
                roles[key] = found
        near = None
        if "near" in data:
            given, key = data["near"], "near/pattern"
            pattern = Expression(given["pattern"], needs.get(key, ()), raw.get(key, ""))
            sides = given.get("before", 0), given.get("after", 0)
            near = Near(pattern, *sides, given.get("absent", False))
            roles["near"] = pattern
        return cls(
            failure=failure,
            sources=frozenset([source] if isinstance(source, str) else source),
            pattern=roles["pattern"],
            levels=frozenset(data.get("levels", ())),
            logger=expression("logger"),
            unless=expression("unless"),
            near=near,
            only_after=roles.get("only_after"),
            not_after=roles.get("not_after"),
            where=[Condition.parse(group, text) for group, text in data.get("where", {}).items()],
            count=data.get("count", 1),
            within=data.get("within"),
            last=data.get("last", False),
            ends_run=data.get("ends_run", False),
            cleared_by=roles.get("cleared_by"),
            roles=roles,
        )

    def matched(self, role: str, text: str, level: str, logger: str) -> bool:
        """Return True if a line with this text, level and logger, taken by itself, matches the
        expression that has the role `role`, for example "pattern" or "cleared_by".
        """
        if role == "pattern":
            return self.matches(text, level, logger)
        return self.roles[role].search(text) is not None

    def matches(self, text: str, level: str, logger: str) -> bool:
        """Return True if a line, taken by itself, matches the signature's pattern and its
        conditions on the line's level, its logger and the numbers in it. Conditions on other lines
        are not checked.
        """
        if self.levels and level not in self.levels:
            return False
        if self.logger is not None and self.logger.search(logger) is None:
            return False
        match = self.pattern.search(text)
        if match is None or not all(condition.holds(match) for condition in self.where):
            return False
        return self.unless is None or self.unless.search(text) is None
