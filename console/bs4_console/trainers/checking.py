"""Holds beliefs against the source of a trainer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Literal, TypedDict

from bs4_console.trainers.belief import Belief, Believed, Calls, Entry, Message, Place
from bs4_console.trainers.checkout import Code, Source, Unreadable
from bs4_console.trainers.extract import Said
from bs4_console.trainers.look import (
    Lines,
    Reader,
    has_words,
    is_message,
    is_whole,
    kind_of,
    shown,
)
from bs4_console.trainers.texts import words

State = Literal["holds", "moved", "gone", "unknown"]
"""What became of a belief. `moved` means that its place is there and says something else, or that
another place says it now. `gone` means that its place is there and nothing like it is in it.
`unknown` means that it could not be located, which is never proof that it holds.
"""

#: A message that has more than this share of the expected words has been reworded. One with less is
#: another message. Of two words one is enough.
_ALIKE = 0.5
_FEW = 2
#: A message of the same level that begins with as many of the expected words has been reworded too.
_BEGINNING = 3


class VerdictRow(TypedDict):
    """The result of checking one belief (a statement about a trainer's source), as it is printed in
    JSON. `id` and `topic` are those of the belief. `state` is "holds", "moved", "gone" or
    "unknown". `name` is the qualified name of the function or class in `file` in which the belief
    was expected, or "" for the whole file. `note` says what differs, and `weaker` names the feature
    of this program that works worse because of that; each is "" if there is nothing to say.
    """

    id: str
    topic: str
    state: State
    file: str
    """The file in which the belief was expected, as a path in the checkout."""
    name: str
    where: str
    """Where it was found, as "FILE:LINE" or "FILE", or "" if it was found nowhere."""
    note: str
    weaker: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result of checking one belief (a statement about a trainer's source).

    `state` is "holds"; "moved", if its place says something else or another place says it now;
    "gone", if nothing like it is at its place; or "unknown", if that could not be found out. `file`
    is the path in the checkout of the file in which the `belief` was found ("" if nowhere), and
    `lines` has the first and last line of each place in that file. `note` says what differs, and
    `weaker` names the feature of this program that works worse because of that; each is "" if there
    is nothing to say.
    """

    belief: Belief
    state: State
    file: str = ""
    lines: Lines = ()
    note: str = ""
    weaker: str = ""

    @property
    def where(self) -> str:
        """Return the place at which the belief (a statement about a trainer's source) was found, as
        "FILE:LINE", or as "FILE" if no line is known. Return "" if it was found nowhere.
        """
        if not self.lines:
            return self.file
        return f"{self.file}:{self.lines[0][0]}"

    def as_dict(self) -> VerdictRow:
        """Return the verdict as a dictionary, in the form in which it is printed as JSON."""
        return {
            "id": self.belief.id,
            "topic": self.belief.topic,
            "state": self.state,
            "file": self.belief.place.file,
            "name": self.belief.place.name,
            "where": self.where,
            "note": self.note,
            "weaker": self.weaker,
        }


def check(checkout: Code, believed: Believed) -> list[Verdict]:
    """Check each belief (a statement about the source) in `believed` with the source `checkout`.
    Return one verdict for each, in the order of the beliefs.
    """
    return _Check(checkout, believed).verdicts()


class _Check:
    """The check of one trainer's beliefs. What is in its place is found first. What is left over is
    compared with the beliefs that were not found, and then looked for elsewhere.
    """

    def __init__(self, checkout: Code, believed: Believed) -> None:
        self._checkout = checkout
        self._believed = believed
        self._reader = Reader()
        self._places = {belief.place for belief in believed.beliefs}
        #: The messages that a belief is known to be about, by file and first line.
        self._taken: set[tuple[str, int]] = set()

    def verdicts(self) -> list[Verdict]:
        """Return the verdicts in the order of the beliefs."""
        verdicts = {}
        for belief in self._believed.beliefs:
            verdict = self._in_place(belief)
            verdicts[belief.id] = verdict
            if verdict.state == "holds":
                self._take(verdict)
        for belief, said in self._reworded(verdicts):
            verdicts[belief.id] = _reworded(belief, said)
            self._take(verdicts[belief.id])
        for belief in self._believed.beliefs:
            if verdicts[belief.id].state in ("gone", "unknown"):
                verdicts[belief.id] = self._elsewhere(belief) or self._unseen(verdicts[belief.id])
        return list(verdicts.values())

    def _take(self, verdict: Verdict) -> None:
        """Note that what was found belongs to a belief."""
        for first, _ in verdict.lines:
            self._taken.add((verdict.file, first))

    def _in_place(self, belief: Belief) -> Verdict:
        """Return what the place of a belief says. It is `unknown` if there is no such place."""
        if isinstance(belief.expected, Entry):
            return self._entry(belief, belief.expected)
        place = belief.place
        try:
            scopes = self._scopes(place)
        except Unreadable as error:
            return _unknown(belief, str(error))
        found = self._reader.look(belief.expected, scopes)
        if found.exact:
            return Verdict(belief=belief, state="holds", file=place.file, lines=found.lines)
        state: State = "moved" if found.note else "gone"
        return Verdict(
            belief=belief,
            state=state,
            file=place.file,
            lines=found.lines,
            note=found.note or f"{place.name or place.file} has nothing like it",
            weaker=belief.feature,
        )

    def _scopes(self, place: Place) -> list[ast.AST]:
        """Return what a place stands for. Raises Unreadable if there is no such place."""
        try:
            source = self._checkout.source(place.file)
        except Unreadable as error:
            raise Unreadable(f"{place.file} {error}") from error
        scopes = source.scope(place.name)
        if not scopes:
            raise Unreadable(f"{place.file} has no {place.name}")
        return scopes

    def _reworded(self, verdicts: dict[str, Verdict]) -> list[tuple[Belief, Said]]:
        """Return which messages are in the places of those that are gone. A message that another
        belief is about is none, and each is given to the belief whose words it has most of.
        """
        pairs = []
        for number, belief in enumerate(self._believed.beliefs):
            expected = belief.expected
            if verdicts[belief.id].state != "gone" or not isinstance(expected, Message):
                continue
            for said in self._reader.messages(expected, self._scopes(belief.place)):
                if (belief.place.file, said.line) not in self._taken:
                    pairs.append((_likeness(expected, said), -number, belief, said))
        pairs.sort(key=lambda pair: pair[:2], reverse=True)
        given: dict[str, tuple[Belief, Said]] = {}
        used = set()
        for score, _, belief, said in pairs:
            key = (belief.place.file, said.line)
            if score > 0 and belief.id not in given and key not in used:
                given[belief.id] = (belief, said)
                used.add(key)
        return list(given.values())

    def _unseen(self, verdict: Verdict) -> Verdict:
        """Return the verdict on a belief that was found nowhere. If only some of the files are at
        hand, what is gone from its place may be in another, and that is unknown.
        """
        if self._checkout.whole or verdict.state == "unknown":
            return verdict
        if isinstance(verdict.belief.expected, Entry):
            return verdict
        return replace(verdict, state="unknown", note=f"{verdict.note}; other files were not read")

    def _elsewhere(self, belief: Belief) -> Verdict | None:
        """Return the verdict on a belief that another place of the checkout fulfils in every word,
        or None if none does. A place of the same name is that of the belief. Of another place it is
        not known whether it does the same.
        """
        if isinstance(belief.expected, Entry) or belief.expected == Calls((), ()):
            return None
        other: Verdict | None = None
        for source in self._checkout.sources(self._believed.code):
            for verdict in self._there(belief, source):
                if not verdict.weaker:
                    return verdict
                other = other or verdict
        return other

    def _there(self, belief: Belief, source: Source) -> Iterator[Verdict]:
        """Yield the verdict on a belief for each place of a file that fulfils it."""
        expected = belief.expected
        same_file = PurePosixPath(source.file).name == PurePosixPath(belief.place.file).name
        weaker = "" if same_file else belief.feature
        if isinstance(expected, Message):
            for said in self._reader.messages(expected, [source.tree]):
                free = (source.file, said.line) not in self._taken
                if free and is_message(expected, said):
                    yield _there(belief, source, ((said.line, said.last_line),), weaker)
            return
        place = Place(source.file, belief.place.name)
        if not place.name or place in self._places:
            return
        if isinstance(expected, Calls) and not expected.are:
            return
        scopes = source.scope(place.name)
        found = self._reader.look(expected, scopes)
        if scopes and found.exact:
            generic = place.name == "main"
            yield _there(belief, source, found.lines, weaker if generic else "")

    def _entry(self, belief: Belief, expected: Entry) -> Verdict:
        """Return the verdict on a belief about a TOML file."""
        file = belief.place.file
        try:
            value = self._checkout.table(file)
        except Unreadable as error:
            return _unknown(belief, f"{file} {error}")
        for part in expected.key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value == expected.value:
            return Verdict(belief=belief, state="holds", file=file)
        state: State = "gone"
        note = f"{file} has no {expected.key}"
        if value is not None:
            state, note = "moved", f"{expected.key} is {shown(str(value))}"
        return Verdict(belief=belief, state=state, file=file, note=note, weaker=belief.feature)


def _unknown(belief: Belief, note: str) -> Verdict:
    """Return the verdict on a belief that could not be located."""
    return Verdict(belief=belief, state="unknown", note=note, weaker=belief.feature)


def _there(belief: Belief, source: Source, lines: Lines, weaker: str) -> Verdict:
    """Return the verdict on a belief that another place of the checkout fulfils."""
    note = "it is here now"
    if weaker:
        note = "this says the same; whether it does the same is not known"
    return Verdict(
        belief=belief, state="moved", file=source.file, lines=lines, note=note, weaker=weaker
    )


def _reworded(belief: Belief, said: Said) -> Verdict:
    """Return the verdict on a belief whose message says something else now."""
    expected = belief.expected
    note = f"says {shown(max(said.ways, key=len))} now"
    if isinstance(expected, Message) and has_words(expected, said):
        note = f"is of kind {said.kind} now"
    return Verdict(
        belief=belief,
        state="moved",
        file=belief.place.file,
        lines=((said.line, said.last_line),),
        note=note,
        weaker=belief.feature,
    )


def _likeness(expected: Message, said: Said) -> float:
    """Return the share of words that an expected message and another have in common, or 0.0 if it
    is too small for the same message. Words that may follow the expected ones do not count.
    """
    ours = words(expected.text)
    best = 0.0
    for way in said.ways:
        theirs = words(way)
        if not ours or not theirs:
            continue
        most = len(ours)
        if is_whole(expected):
            most = max(most, len(theirs))
        share = len(set(ours) & set(theirs)) / most
        same_beginning = len(ours) > _BEGINNING and ours[:_BEGINNING] == theirs[:_BEGINNING]
        if share > _ALIKE or (share == _ALIKE and most <= _FEW):
            best = max(best, share)
        elif same_beginning and said.kind == kind_of(expected):
            best = max(best, min(share, _ALIKE))
    return best
