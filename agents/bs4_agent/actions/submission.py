"""What a console submits: an action with its key, its fields, and the person who wants it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bs4_common.errors import BadRequest


@dataclass(frozen=True)
class Submission:
    """An action as a console submitted it. `key` is its key (a ULID). `body` has its `kind` and the
    fields of that kind; they are as the console has sent them, so code checks each of them when it
    reads it. `who` is the person, for the journal. `payload` holds the secrets of a set-up and is
    never written into the journal.
    """

    key: str
    body: Mapping[str, Any]
    who: str
    payload: bytes = field(default=b"", repr=False)

    def table(self, name: str) -> Mapping[str, Any]:
        """Return the JSON object that the body has under the key `name`. Raises BadRequest if it is
        something else or is missing.
        """
        found = self.body.get(name)
        if not isinstance(found, Mapping):
            raise BadRequest(f"`{name}` of a plan is a table; send it so.")
        return found

    def planned(self, plan: Mapping[str, Any]) -> Submission:
        """Return a copy of this submission whose body also has the field `plan`: the given plan,
        which the action carries out.
        """
        return replace(self, body={**self.body, "plan": plan})


def text(given: object, name: str) -> str:
    """Return the text `given`, or "" if it is None; a number is returned as text. Raises BadRequest
    if it is a list, a table or a truth value, or has a character that no path or command line can
    have. `name` is the field that the error's message names.
    """
    if isinstance(given, (bool, Mapping, list, tuple)):
        raise BadRequest(f"`{name}` is no text; send one.")
    found = "" if given is None else str(given)
    if "\0" in found:
        raise BadRequest(
            f"`{name}` has a NUL character, which no path or command has; leave it out."
        )
    return found


def words(given: object, name: str) -> tuple[str, ...]:
    """Return the texts in the list `given`, or () if it is None. Raises BadRequest if it is no list
    or one of its members is no text (see `text`). `name` is the field that the error's message
    names.
    """
    if given is None:
        return ()
    if not isinstance(given, Sequence) or isinstance(given, (str, bytes)):
        raise BadRequest(f"`{name}` is no list of words; send one.")
    return tuple(text(word, name) for word in given)
