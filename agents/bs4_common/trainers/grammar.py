"""Rules that give log lines a meaning. Each rule counts only in its own log, at its own level, and
only if the whole line fits.

A pattern is written as the line itself: `Step <step:i> | Time: <time_s>s{ | Max Vio: <max_vio>}`.
`<name>` is a number, `<name:i>` an integer, `<name:d>` a duration such as `3m 3s`, `<name:w>` a
word, `<name:t>` any text. A name that begins with `_` is not kept. `{...}` is optional. Everything
else matches itself.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from bs4_common.foreign_json import recorded
from bs4_common.states import EventKind
from bs4_common.trainers.base import Event, LogLine

#: A number as Python's `f` and `e` formats print it, NaN and infinities included.
NUMBER = r"-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|nan|inf)"
DURATION = r" *(?:\d+ms|\d+(?:\.\d+)?s|\d+m \d+s|\d+h \d+m|\d+d \d+h)"
_TYPES = {"": NUMBER, "i": r"-?\d{1,15}", "d": DURATION, "w": r"\S+", "t": r".+?"}
_PLACEHOLDER = re.compile(r"<([a-z_0-9]+)(?::([idwt]))?>")
_LONG = 9

Placeholder = Literal["", "i", "d", "w", "t"]
"""The type of a placeholder: a number, an integer, a duration, a word, or any text."""
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")


def pattern(template: str) -> tuple[re.Pattern[str], Mapping[str, str]]:
    """Return two things: the template of a rule as a compiled regular expression, and a mapping
    from the names in the template to the types of their values: "" (a number), "i" (an integer),
    "d" (a duration), "w" (a word) or "t" (any text). The template is the text of a log line with
    `<name>` or `<name:type>` in the place of each value.
    """
    types: dict[str, str] = {}
    pieces: list[str] = []
    position = 0
    for match in _PLACEHOLDER.finditer(template):
        pieces.append(_literal(template[position : match.start()]))
        name, kind = match.group(1), match.group(2) or ""
        types[name] = kind
        pieces.append(f"(?P<{name}>{_TYPES[kind]})")
        position = match.end()
    pieces.append(_literal(template[position:]))
    return re.compile("".join(pieces)), types


def _telling(template: str) -> str:
    """Return a text that every line of this template holds literally. It contains nothing optional
    and nothing that JSON escapes. It is the first that is long enough, because templates begin with
    what is special to them and end with what others have too.
    """
    certain = re.sub(r"\{[^{}]*\}", "\0", re.sub(r"\{[^{}]*\{[^{}]*\}[^{}]*\}", "\0", template))
    parts = re.split(r"[^ -~]|[\"\\/]", _PLACEHOLDER.sub("\0", certain))
    for part in parts:
        if len(part) >= _LONG:
            return part
    return max(parts, key=len)


def _literal(text: str) -> str:
    """Return `text` as an expression that matches itself, except that braces enclose an optional
    part.
    """
    return "".join({"{": "(?:", "}": ")?"}.get(char) or re.escape(char) for char in text)


def number(text: str) -> float | str:
    """Convert `text`, which is a number as a log line has it, to a float. NaN and infinities become
    the strings "nan", "inf" and "-inf", because JSON has none of them. A number too large for a
    float, such as 1e400, is an infinity. Raises ValueError if `text` is no number.
    """
    if text.endswith("nan"):
        return "nan"
    return recorded(float(text))


def seconds(text: str) -> float:
    """Return the number of seconds in a duration such as `250ms`, `31.3s`, `3m 3s`, `1h 3m` or `2d
    4h`.
    """
    return sum(float(amount) * _UNITS[unit] for amount, unit in _PART.findall(text))


def _value(text: str, kind: str) -> Any:
    """Return the value of a placeholder of this kind."""
    if kind == "i":
        return int(text)
    if kind == "d":
        return recorded(seconds(text))
    if kind in ("w", "t"):
        return text
    return number(text)


@dataclass(frozen=True)
class Rule:
    """The meaning of one kind of log line.

    A line fits the rule if three things are so: it is in the log of `source` (trainer,
    orchestrator, inference or launcher), it has exactly the level `level` ("" for a line without a
    level, such as the last of a traceback), and its text fits `template`. If `whole` is False, more
    text may follow. A line that fits means an event of kind `kind`, whose values are those in the
    places of the template, and the `constants`.
    """

    source: str
    level: str
    template: str
    kind: EventKind
    constants: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = True


class Grammar:
    """The rules by which the log lines of one version of a trainer are understood as events: each
    rule says which lines mean which event.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules: dict[
            tuple[str, str], list[tuple[Rule, re.Pattern[str], Mapping[str, str]]]
        ] = {}
        for rule in rules:
            expression, types = pattern(rule.template)
            self._rules.setdefault((rule.source, rule.level), []).append((rule, expression, types))

    def words(self, source: str, passing: Collection[str]) -> list[str]:
        """Return a list of texts for a fast first filter of the log `source`: every line that means
        an event contains at least one of them, so lines that contain none need not be parsed. If ""
        is among the texts, any line may mean an event. Lines that mean only events of a kind in
        `passing` need not contain any of the texts.
        """
        side, texts = _side(source), set()
        for (where, _), known in self._rules.items():
            for rule, _, _ in known:
                if where == side and rule.kind not in passing:
                    texts.add(_telling(rule.template))
        return sorted(texts)

    def event(self, source: str, line: LogLine) -> Event | None:
        """Return what a line of the log `source` means, or None if no rule fits."""
        side = _side(source)
        # The launcher's output contains what `tail` shows of the trainer's log. torchrun's prefix
        # identifies those lines.
        if side == "launcher" and line.rank is not None:
            return None
        first, newline, rest = line.text.partition("\n")
        event = self._match(side, line.level, first)
        if not newline:
            return event
        # A JSON line carries its traceback. The last line of that would be a line of its own in a
        # plain log.
        error = rest.rstrip().rpartition("\n")[2].strip()
        cause = self._match(side, "", error)
        if cause is not None and (event is None or cause.kind == "gpu-memory"):
            return cause
        if event is not None and event.kind == "fatal":
            return Event(event.kind, event.side, {**event.values, "error": error}, event.step)
        return event

    def _match(self, side: str, level: str, text: str) -> Event | None:
        """Return the event of the first rule that fits, or None."""
        for rule, expression, types in self._rules.get((side, level), ()):
            match = expression.fullmatch(text) if rule.whole else expression.match(text)
            if match is not None:
                return _event(rule, side, match, types)
        return None


def _event(rule: Rule, side: str, match: re.Match[str], types: Mapping[str, str]) -> Event:
    """Return the event of a rule and its match."""
    values = dict(rule.constants)
    for name, text in match.groupdict().items():
        if text is not None and not name.startswith("_"):
            values[name] = _value(text, types[name])
    step = values.pop("step", None)
    return Event(rule.kind, side, values, step)


def _side(source: str) -> str:
    """Return the side that writes this log."""
    if source.startswith("inference"):
        return "inference"
    return source


def finished_sides(events: Sequence[Event]) -> set[str]:
    """Return the sides, such as "trainer", that have written their final line, which is so if an
    event of kind `finished` of that side is among `events`. The set is empty if there is no such
    event.

    The launcher's final line does not prove that training is complete, because the launcher also
    writes it after the orchestrator has given up its clean-up with `os._exit(0)`.
    """
    return {event.side for event in events if event.kind == "finished"}
