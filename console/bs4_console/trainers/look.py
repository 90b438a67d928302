"""Compares what is expected of a place in the source with what the place says."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from bs4_console.trainers import extract
from bs4_console.trainers.belief import (
    Calls,
    Constants,
    Expected,
    Fields,
    Logged,
    Message,
    Printed,
    Texts,
    Words,
)
from bs4_console.trainers.extract import Said
from bs4_console.trainers.texts import HOLE, pattern

#: First and last lines of what was found.
Lines = tuple[tuple[int, int], ...]
_T = TypeVar("_T")
#: Characters of the trainer's text that are shown.
_SHOWN = 160


@dataclass(frozen=True)
class Found:
    """The result of looking for something expected at a place of the source. `exact` is True if it
    is found as expected. `note` then is ""; otherwise it says what is found instead, and is "" if
    there is nothing like it. `lines` are the first and last line of each thing that was found.
    """

    exact: bool
    lines: Lines = ()
    note: str = ""


NOTHING = Found(exact=False)


class Reader:
    """Reads parts of a trainer's source (scopes: the syntax trees of files, functions and classes),
    and remembers what it has read.
    """

    def __init__(self) -> None:
        self._read: dict[tuple[object, ast.AST], list[Any]] = {}

    def all(self, take: Callable[[ast.AST], list[_T]], scopes: Sequence[ast.AST]) -> list[_T]:
        """Apply `take`, a function of the module extract, to each of the scopes, and return what it
        finds in all of them as one list.
        """
        found: list[_T] = []
        for scope in scopes:
            key = (take, scope)
            if key not in self._read:
                self._read[key] = take(scope)
            found += self._read[key]
        return found

    def messages(self, expected: Message, scopes: Sequence[ast.AST]) -> list[Said]:
        """Return the messages in these scopes that are of the same sort as `expected`, the message
        that the trainer's source should have: those that are logged, printed, or given to
        exceptions.
        """
        if isinstance(expected, Logged):
            return self.all(extract.logged, scopes)
        if isinstance(expected, Printed):
            return self.all(extract.printed, scopes)
        return self.all(extract.raised, scopes)

    def look(self, expected: Expected, scopes: Sequence[ast.AST]) -> Found:
        """Look in these scopes (parts of the source) for what the console expects there, such as a
        log message, a field or an exit code, and return how and on which lines it was found. If an
        expected message is not there, the result is the constant NOTHING (not found, without a
        note): this method does not look for another message that may have taken its place.
        """
        if isinstance(expected, Message):
            said = self.messages(expected, scopes)
            lines = []
            for one in said:
                if is_message(expected, one):
                    lines.append((one.line, one.last_line))
            if lines:
                return Found(exact=True, lines=tuple(lines))
            return NOTHING
        if isinstance(expected, Texts):
            wordings = {text: pattern(text) for text in expected.texts}
            return _texts(wordings, self.all(extract.texts, scopes))
        if isinstance(expected, Constants):
            wordings = {text: re.compile(re.escape(text)) for text in expected.texts}
            return _texts(wordings, self.all(extract.constants, scopes))
        if isinstance(expected, Words):
            return _words(expected, self.all(extract.lists, scopes))
        if isinstance(expected, Calls):
            return _calls(expected, self.all(extract.calls, scopes))
        if isinstance(expected, Fields):
            return _fields(expected, self.all(extract.fields, scopes))
        raise TypeError(f"{type(expected).__name__} is not looked for in Python files")


def is_message(expected: Message, said: Said) -> bool:
    """Return True if the message `said` in the source is the expected one: it has the same words
    and the same kind (a logger's level, an exception, or printed).
    """
    return said.kind == kind_of(expected) and has_words(expected, said)


def kind_of(expected: Message) -> str:
    """Return the kind of `expected`, a message that the trainer's source should have: the level of
    the logger, the name of the exception, or `PRINTED`.
    """
    if isinstance(expected, Logged):
        return expected.level
    if isinstance(expected, Printed):
        return extract.PRINTED
    return expected.error


def is_whole(expected: Message) -> bool:
    """Return True if `expected`, a message that the trainer's source should have, must be the whole
    text there. Return False if more text may follow it.
    """
    return not isinstance(expected, Logged | Printed) or expected.whole


def has_words(expected: Message, said: Said) -> bool:
    """Return True if the message `said`, which was found in the trainer's source, has the words of
    `expected`, the message that should be there. Its kind (such as a logger's level) is not
    compared.
    """
    return _fits(pattern(expected.text, whole=is_whole(expected)), said)


def _fits(wording: re.Pattern[str], said: Said) -> bool:
    """Return True if a text can be of this wording."""
    return any(wording.fullmatch(way) for way in said.ways)


def _texts(wordings: Mapping[str, re.Pattern[str]], said: Sequence[Said]) -> Found:
    """Return whether each of the texts is there."""
    lines = []
    missing = []
    for text, wording in wordings.items():
        fitting = [one for one in said if _fits(wording, one)]
        if not fitting:
            missing.append(text)
        for one in fitting:
            lines.append((one.line, one.last_line))
    if not missing:
        return Found(exact=True, lines=tuple(lines))
    if not any(extract.is_text(one) for one in said):
        return NOTHING
    return Found(exact=False, lines=tuple(lines), note=f"does not say {_listed(missing)}")


def _words(expected: Words, found: Sequence[list[Said]]) -> Found:
    """Return whether a list, or several of them, have the words in their order."""
    best = NOTHING
    exact: Lines = ()
    for elements in found:
        missing, lines = _in_order(expected.words, elements)
        if not missing:
            exact += lines
        elif len(lines) > len(best.lines):
            best = Found(exact=False, lines=lines, note=f"has no {_listed(missing)} in its place")
    if exact:
        return Found(exact=True, lines=exact)
    return best


def _in_order(wanted: Sequence[str], elements: Sequence[Said]) -> tuple[list[str], Lines]:
    """Return which of the words are not in the list in their order, and where the others are."""
    missing, lines = [], []
    start = 0
    for word in wanted:
        expression = pattern(word)
        for index in range(start, len(elements)):
            if _fits(expression, elements[index]):
                lines.append((elements[index].line, elements[index].last_line))
                start = index + 1
                break
        else:
            missing.append(word)
    return missing, tuple(lines)


def _calls(expected: Calls, made: Sequence[extract.Called]) -> Found:
    """Return whether exactly the expected calls are made."""
    calls = [call for call in made if call.name in expected.of]
    lines = tuple((call.line, call.last_line) for call in calls)
    if not calls and expected.are:
        return NOTHING
    if len(calls) != len(expected.are):
        names = " or ".join(expected.of)
        note = f"calls {names} {len(calls)} times, not {len(expected.are)}"
        return Found(exact=False, lines=lines, note=note)
    for call, item in zip(calls, expected.are, strict=True):
        name, *mentions = item.split()
        if call.name != name or not call.mentions.issuperset(mentions):
            note = f"does not call {item!r} in its place"
            return Found(exact=False, lines=lines, note=note)
    return Found(exact=True, lines=lines)


def _fields(expected: Fields, found: Sequence[extract.Declared]) -> Found:
    """Return whether a class declares the expected fields."""
    declared = {field.name: field for field in found}
    lines, notes = [], []
    for name, default in expected.fields:
        field = declared.get(name)
        if field is None:
            notes.append(f"has no field {name}")
            continue
        lines.append((field.line, field.last_line))
        if default and field.default != default:
            notes.append(f"{name} is {shown(field.default or 'computed')}, not {default}")
    if not notes:
        return Found(exact=True, lines=tuple(lines))
    if not declared:
        return NOTHING
    return Found(exact=False, lines=tuple(lines), note="; ".join(notes))


def _listed(texts: Sequence[str]) -> str:
    """Return some texts of ours for a note."""
    return ", ".join(repr(text) for text in texts)


def shown(text: str) -> str:
    """Return `text`, which comes from a trainer's source, in the form for a note: in one line, cut
    if it is long, and with `<>` in the place of each value.
    """
    line = " ".join(text.replace(HOLE, "<>").split())
    if len(line) > _SHOWN:
        line = line[:_SHOWN] + "..."
    return repr(line)
