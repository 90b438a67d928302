"""The kinds of statements that this program makes about the source of a trainer.

A text in a belief is written as in the rules for log lines: `<name>` stands for something that the
program puts in, and `{...}` may be missing. A place is a file and a qualified name in it. Line
numbers are never part of a belief, because they change with every commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Topic = Literal[
    "line", "metric", "layout", "title", "command", "exit", "shutdown", "config", "resume", "clean"
]
"""What a belief is about: a log line, the keys of metrics, where files lie, a process title, a
command line, exit codes, how processes are ended, config classes, what a resume reads, what is
removed at a start.
"""

Level = Literal["DEBUG", "INFO", "SUCCESS", "WARNING", "ERROR"]


@dataclass(frozen=True)
class Place:
    """A file, by its path in the checkout, and the qualified name of a function or class in it. The
    name is "" for the whole file.
    """

    file: str
    name: str = ""

    def __str__(self) -> str:
        if self.name:
            return f"{self.file} {self.name}"
        return self.file


@dataclass(frozen=True)
class Logged:
    """Expects a call of a logger at `level` that makes the message `text`.

    With `whole` False more may follow. `rules` are the templates of the rules for log lines that
    read this message, if they are written in another way than `text`.
    """

    level: Level
    text: str
    rules: tuple[str, ...] = ()
    whole: bool = True


@dataclass(frozen=True)
class Printed:
    """Expects a call of `print` or `pprint` with the text `text`. `rules` and `whole` are as in
    Logged.
    """

    text: str
    rules: tuple[str, ...] = ()
    whole: bool = True


@dataclass(frozen=True)
class Raised:
    """Expects that the exception `error` is raised with the message `text`. `rules` is as in
    Logged.
    """

    error: str
    text: str
    rules: tuple[str, ...] = ()


@dataclass(frozen=True)
class Texts:
    """Expects each of these texts as a string of its own."""

    texts: tuple[str, ...]
    rules: tuple[str, ...] = ()


@dataclass(frozen=True)
class Constants:
    """Expects each of these strings exactly as it is written, signs like `<` and `{` included."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Words:
    """Expects a list of strings that has these texts in this order. Others may lie between them."""

    words: tuple[str, ...]


@dataclass(frozen=True)
class Calls:
    """Expects exactly these calls of the functions `of`, in this order.

    Each of `are` is the function's last name and names or constants that occur in its arguments, as
    "exit 1" for `sys.exit(1)`. An empty `are` expects that none of the functions is called.
    """

    of: tuple[str, ...]
    are: tuple[str, ...]


@dataclass(frozen=True)
class Fields:
    """Expects that a class declares these fields. The second of each pair is the default as Python
    prints it, or "" if it does not matter.
    """

    fields: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Entry:
    """Expects that a TOML file has the text `value` under the dotted key `key`."""

    key: str
    value: str


Message = Logged | Printed | Raised
Expected = Message | Texts | Constants | Words | Calls | Fields | Entry


@dataclass(frozen=True, kw_only=True)
class Belief:
    """One statement about the source of a trainer.

    `id` names it within its trainer. `feature` says what of this program works worse if it does not
    hold.
    """

    id: str
    topic: Topic
    place: Place
    expected: Expected
    feature: str


@dataclass(frozen=True, kw_only=True)
class Known:
    """A commit or release of a trainer whose source the beliefs were read from or checked with.

    `date` is the commit's, as YYYY-MM-DD. `read` is True where the beliefs were read from it.
    """

    commit: str
    version: str
    date: str
    read: bool


@dataclass(frozen=True, kw_only=True)
class Believed:
    """All that is believed of one trainer. `id` is the trainer's id, `code` the folders of the
    checkout that hold its Python code.
    """

    id: str
    title: str
    code: tuple[str, ...]
    known: tuple[Known, ...]
    beliefs: tuple[Belief, ...]


def line(key: str, place: Place, expected: Message | Texts, feature: str) -> Belief:
    """Return a belief about a log line, whose id is `key`."""
    return Belief(id=key, topic="line", place=place, expected=expected, feature=feature)


def belief(
    key: str, topic: Topic, file: str, name: str, expected: Expected, feature: str
) -> Belief:
    """Return a belief about the place `name` of `file`, whose id is `key`."""
    place = Place(file, name)
    return Belief(id=key, topic=topic, place=place, expected=expected, feature=feature)
