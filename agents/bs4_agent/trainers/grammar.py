"""Rules that give log lines a meaning: each counts only in its own log, at its own level, and only
when the whole line fits.

A pattern is written as the line itself: `Step <step:i> | Time: <time_s>s{ | Max Vio: <max_vio>}`.
`<name>` is a number, `<name:i>` an integer, `<name:d>` a duration such as `3m 3s`, `<name:w>` a
word, `<name:t>` any text; what is called `<_...>` is passed over; `{...}` may be missing. All else
stands for itself.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from bs4_agent.foreign_json import recorded
from bs4_agent.states import EventKind
from bs4_agent.trainers.base import Event, LogLine

#: What Python's `f` and `e` formats print, NaN and infinities included.
NUMBER = r"-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|nan|inf)"
DURATION = r" *(?:\d+ms|\d+(?:\.\d+)?s|\d+m \d+s|\d+h \d+m|\d+d \d+h)"
_TYPES = {"": NUMBER, "i": r"-?\d{1,15}", "d": DURATION, "w": r"\S+", "t": r".+?"}
_PLACEHOLDER = re.compile(r"<([a-z_0-9]+)(?::([idwt]))?>")
_LONG = 9
Placeholder = Literal["", "i", "d", "w", "t"]
"""What a placeholder stands for: a number, an integer, a duration, a word, any text."""
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")


def pattern(template: str) -> tuple[re.Pattern[str], Mapping[str, str]]:
    """The template as a compiled expression, and the type of each name in it."""
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
    """A text that a line of this template holds as it stands: nothing of what may be missing,
    nothing that JSON writes otherwise. The first that is long enough: templates begin with what is
    their own and end with what others have too.
    """
    certain = re.sub(r"\{[^{}]*\}", "\0", re.sub(r"\{[^{}]*\{[^{}]*\}[^{}]*\}", "\0", template))
    parts = re.split(r"[^ -~]|[\"\\/]", _PLACEHOLDER.sub("\0", certain))
    for part in parts:
        if len(part) >= _LONG:
            return part
    return max(parts, key=len)


def _literal(text: str) -> str:
    """`text` for itself, except that braces open and close an optional part."""
    return "".join({"{": "(?:", "}": ")?"}.get(char) or re.escape(char) for char in text)


def number(text: str) -> float | str:
    """Return a number of a line; NaN and infinities as the strings "nan", "inf" and "-inf", since
    JSON has none of them.

    1e400 is an infinity: a float ends at 1.8e308.
    """
    if text.endswith("nan"):
        return "nan"
    return recorded(float(text))


def seconds(text: str) -> float:
    """`250ms`, `31.3s`, `3m 3s`, `1h 3m`, `2d 4h` in seconds."""
    return sum(float(amount) * _UNITS[unit] for amount, unit in _PART.findall(text))


def _value(text: str, kind: str) -> Any:
    if kind == "i":
        return int(text)
    if kind == "d":
        return recorded(seconds(text))
    if kind in ("w", "t"):
        return text
    return number(text)


@dataclass(frozen=True)
class Rule:
    """One line of a generation. `source`: trainer, orchestrator, inference or launcher; `level`:
    the only level it may have ("" for the lines of a traceback, which have none); `constants` join
    the values of the line. `whole`: false where more text may follow.
    """

    source: str
    level: str
    template: str
    kind: EventKind
    constants: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = True


class Grammar:
    """The rules of one generation, by source and level."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules: dict[
            tuple[str, str], list[tuple[Rule, re.Pattern[str], Mapping[str, str]]]
        ] = {}
        for rule in rules:
            expression, types = pattern(rule.template)
            self._rules.setdefault((rule.source, rule.level), []).append((rule, expression, types))

    def words(self, source: str, passing: Collection[str]) -> list[str]:
        """Texts of which every line of this log holds one whose kind of event is not in `passing`;
        "" among them: any line may.
        """
        side = "inference"
        if not source.startswith("inference"):
            side = source
        rules = []
        for (where, _), known in self._rules.items():
            if where == side:
                for rule, _, _ in known:
                    rules.append(rule)
        return sorted({_telling(rule.template) for rule in rules if rule.kind not in passing})

    def event(self, source: str, line: LogLine) -> Event | None:
        """What the line means in this log, or None."""
        side = "inference"
        if not source.startswith("inference"):
            side = source
        # The launcher's output contains what `tail` shows of the trainer's log; torchrun's prefix
        # gives those lines away.
        if side == "launcher" and line.rank is not None:
            return None
        first, newline, rest = line.text.partition("\n")
        event = self._match(side, line.level, first)
        if not newline:
            return event
        # A JSON line carries its traceback; the last line of it is what a plain log would have as a
        # line of its own.
        error = rest.rstrip().rpartition("\n")[2].strip()
        cause = self._match(side, "", error)
        if cause is not None and (event is None or cause.kind == "gpu-memory"):
            return cause
        if event is not None and event.kind == "fatal":
            return Event(event.kind, event.side, {**event.values, "error": error}, event.step)
        return event

    def _match(self, side: str, level: str, text: str) -> Event | None:
        for rule, expression, types in self._rules.get((side, level), ()):
            if rule.whole:
                match = expression.fullmatch(text)
            else:
                match = expression.match(text)
            if match is not None:
                return _event(rule, side, match, types)
        return None


def _event(rule: Rule, side: str, match: re.Match[str], types: Mapping[str, str]) -> Event:
    found = {}
    for name, text in match.groupdict().items():
        if text is not None and not name.startswith("_"):
            found[name] = text
    values = {**rule.constants, **{name: _value(text, types[name]) for name, text in found.items()}}
    step = values.pop("step", None)
    return Event(rule.kind, side, values, step)


def sides_finished(events: Sequence[Event]) -> bool:
    """Whether both the orchestrator's and the trainer's final line were seen. The launcher's own
    proves nothing: it also comes when the orchestrator's teardown gave up with `os._exit(0)`.
    """
    return {"orchestrator", "trainer"} <= {
        event.side for event in events if event.kind == "finished"
    }
