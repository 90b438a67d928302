"""What one field of a record from a pod may hold: a rule for each kind of value, and the shape that
a record has by the rules of its fields.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bs4_common.foreign_json import EXACT_INTEGER, TIME_MOST
from bs4_console.printable import one_line

Rule = Callable[[Any], bool]

#: Bytes of a name of a run, a stream, a playbook or a failure.
NAME_BYTES = 200
#: Characters of any other text; entries of a list and members of an object.
TEXT_LENGTH, ENTRIES = 65_536, 10_000
#: The highest step of a run, number of an attempt, and number of steps of one action.
STEP_MOST, ATTEMPT_MOST, ACTION_STEP_MOST = 1_000_000_000, 1_000_000, 1_000


class RecordRefused(ValueError):
    """Raised for a record or an answer from a pod that does not have the fields and types that an
    agent writes. Its text names the field and what is wrong with it.
    """


#: What a value has to be, by the rule that it has to pass.
_WANTED: dict[Rule, str] = {}


def rule(wanted: str) -> Callable[[Rule], Rule]:
    """Return a decorator for functions that check one value of a record from a pod and return True
    if it is right. `wanted` says in words what the value should be, such as "a finite number"; it
    completes the sentence "FIELD is not ..." with which a wrong value is refused.
    """

    def register(passes: Rule) -> Rule:
        _WANTED[passes] = wanted
        return passes

    return register


@rule("a finite number")
def number(value: Any) -> bool:
    """Return True if `value` is an integer of at most 2**53 or a finite float. Booleans are no
    numbers.
    """
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    if isinstance(value, int):
        return abs(value) <= EXACT_INTEGER
    return math.isfinite(value)


@rule("a time in wall seconds")
def wall(value: Any) -> bool:
    """Return True if `value` is a Unix time in seconds that an agent can have written: a number
    from 0 to TIME_MOST.
    """
    return number(value) and 0 <= value <= TIME_MOST


@rule("an integer")
def whole(value: Any) -> bool:
    """Return True if `value` is an integer of at most 2**53, of either sign."""
    return isinstance(value, int) and number(value)


@rule("a step of training")
def step(value: Any) -> bool:
    """Return True if `value` can be the number of a training step: an integer whose absolute value
    is at most STEP_MOST (1,000,000,000). It can be negative: -1 means before the first step.
    """
    return whole(value) and abs(value) <= STEP_MOST


@rule("the number of an attempt")
def attempt(value: Any) -> bool:
    """Return True if `value` is the number of a run's attempt: an integer from 0 to 1,000,000."""
    return whole(value) and 0 <= value <= ATTEMPT_MOST


@rule("the place of a step in an action")
def index(value: Any) -> bool:
    """Return True if `value` can be the place of a step in the list of an action's steps: an
    integer from 0.
    """
    return whole(value) and 0 <= value < ACTION_STEP_MOST


@rule("true or false")
def flag(value: Any) -> bool:
    """Return True if `value` is a boolean."""
    return isinstance(value, bool)


@rule("a text")
def text(value: Any) -> bool:
    """Return True if `value` is a text of at most TEXT_LENGTH (65,536) characters that UTF-8 can
    express.
    """
    return isinstance(value, str) and len(value) <= TEXT_LENGTH and _encodable(value)


def _encodable(value: str) -> bool:
    """Return False for halves of surrogate pairs, which no terminal, file or JSON can take."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


@rule("a name of printable characters, which is not empty")
def name(value: Any) -> bool:
    """Return True if `value` is a text of 1 to NAME_BYTES (200) bytes, in one line and without
    anything that a terminal would act on.
    """
    if not isinstance(value, str) or not _encodable(value) or one_line(value) != value:
        return False
    return 0 < len(value.encode()) <= NAME_BYTES


@rule("an object")
def mapping(value: Any) -> bool:
    """Return True if `value` is a dictionary with at most ENTRIES (10,000) members. The members are
    not checked.
    """
    return isinstance(value, dict) and len(value) <= ENTRIES


@rule("a list of texts")
def texts(value: Any) -> bool:
    """Return True if `value` is a list of at most ENTRIES (10,000) texts, each of which passes
    `text`.
    """
    return isinstance(value, list) and len(value) <= ENTRIES and all(text(entry) for entry in value)


@rule("an object of texts")
def phrases(value: Any) -> bool:
    """Return True if `value` is a dictionary with at most ENTRIES (10,000) members, all of which
    are texts.
    """
    return mapping(value) and all(map(text, value.values()))


@rule("a list of objects")
def objects(value: Any) -> bool:
    """Return True if `value` is a list of at most ENTRIES (10,000) dictionaries. Their members are
    not checked.
    """
    return (
        isinstance(value, list) and len(value) <= ENTRIES and all(mapping(entry) for entry in value)
    )


@rule("a list of steps of training")
def steps(value: Any) -> bool:
    """Return True if `value` is a list of at most ENTRIES (10,000) numbers of training steps."""
    return isinstance(value, list) and len(value) <= ENTRIES and all(step(entry) for entry in value)


@rule("a list of an action's steps, each with a title")
def tasks(value: Any) -> bool:
    """Return True if `value` is a list of the steps of an action: at most ACTION_STEP_MOST (1,000)
    dictionaries, each with a text under the key `title`.
    """
    return (
        objects(value)
        and len(value) <= ACTION_STEP_MOST
        and all(text(entry.get("title")) for entry in value)
    )


@rule("a list of objects that each name a step of training")
def torn(value: Any) -> bool:
    """Return True if `value` is a list that describes incomplete checkpoints: dictionaries, each
    with the number of a training step under the key `step`.
    """
    return objects(value) and all(step(entry.get("step")) for entry in value)


@rule("an object of checks, each with numbers or texts")
def checks(value: Any) -> bool:
    """Return True if `value` says how it is proved that a repair has worked: a dictionary {kind of
    proof: its parameters}, where the parameters are a dictionary of numbers and texts.
    """
    return mapping(value) and all(
        mapping(one) and all(number(entry) or text(entry) for entry in one.values())
        for one in value.values()
    )


@dataclass(frozen=True)
class Shape:
    """The fields that a record from a pod must have (`must`) and may have (`may`), each with the
    rule that its value has to pass. A field of `may` can be missing or null.
    """

    must: Mapping[str, Rule]
    may: Mapping[str, Rule] = field(default_factory=dict)

    def check(self, record: object) -> None:
        """Check a record from a pod. Raise RecordRefused if it is no dictionary, if a field of
        `must` is missing, or if the value of a field in `must` or `may` does not pass its rule. A
        field of `may` can be missing or null, and other fields are accepted.
        """
        if not isinstance(record, dict):
            raise RecordRefused("it is not a JSON object")
        for key, passes in self.must.items():
            if key not in record:
                raise RecordRefused(f"{key} is missing")
            check_field(key, record[key], passes)
        for key, passes in self.may.items():
            value = record.get(key)
            if value is not None:
                check_field(key, value, passes)

    def passes(self, record: object) -> bool:
        """Return True if `record` has this shape: the method `check` raises no error for it."""
        try:
            self.check(record)
        except RecordRefused:
            return False
        return True


def check_field(key: str, value: Any, passes: Rule) -> None:
    """Raise RecordRefused, with the name of the field and its value, if the value of the field
    `key` does not pass its rule.
    """
    if not passes(value):
        raise RecordRefused(f"{key} is not {_WANTED[passes]}: {_shown(value)}")


def _shown(value: Any) -> str:
    """Return the beginning of a value without anything that a terminal would act on."""
    if isinstance(value, int) and not number(value):
        return "an integer of too many digits"
    return ascii(value if not isinstance(value, (str, bytes)) else value[:40])[:60]
