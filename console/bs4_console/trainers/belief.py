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
    """A place in the source of a trainer: `file` is a path in the checkout, and `name` the
    qualified name of a function or class in it, or "" for the whole file.
    """

    file: str
    name: str = ""

    def __str__(self) -> str:
        if self.name:
            return f"{self.file} {self.name}"
        return self.file


@dataclass(frozen=True)
class Logged:
    """The expectation that the trainer's source code calls a logger at `level` with the message
    `text`. If `whole` is False, more text may follow the message.

    The agent reads log lines by rules, each with a template that is written like the line. `rules`
    are the templates of the rules that read this message. It is empty if there is one rule, whose
    template is `text`.
    """

    level: Level
    text: str
    rules: tuple[str, ...] = ()
    whole: bool = True


@dataclass(frozen=True)
class Printed:
    """The expectation that the trainer's source code calls `print` or `pprint` with the text
    `text`. If `whole` is False, more text may follow.

    The agent reads log lines by rules, each with a template that is written like the line. `rules`
    are the templates of the rules that read this text. It is empty if there is one rule, whose
    template is `text`.
    """

    text: str
    rules: tuple[str, ...] = ()
    whole: bool = True


@dataclass(frozen=True)
class Raised:
    """The expectation that the trainer's source code raises the exception `error` with the message
    `text`.

    The agent reads log lines by rules, each with a template that is written like the line. `rules`
    are the templates of the rules that read this message. It is empty if there is one rule, whose
    template is `text`.
    """

    error: str
    text: str
    rules: tuple[str, ...] = ()


@dataclass(frozen=True)
class Texts:
    """The expectation that the trainer's source code has strings of these wordings (`texts`), each
    as a string of its own. In a wording, `<name>` stands for a value that the program puts in, and
    what is in braces may be missing.

    The agent reads log lines by rules, each with a template that is written like the line. `rules`
    are the templates of the rules that read these texts. It is empty if no rule reads them.
    """

    texts: tuple[str, ...]
    rules: tuple[str, ...] = ()


@dataclass(frozen=True)
class Constants:
    """The expectation that the trainer's source code has each of these strings (`texts`) exactly as
    it is written here. Signs like `<` and `{` have no meaning of their own here, as they have in
    `Texts`.
    """

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Words:
    """The expectation that the trainer's source code has a list of strings in which the texts
    `words` occur in this order. Other strings may be between them.
    """

    words: tuple[str, ...]


@dataclass(frozen=True)
class Calls:
    """The expectation that the source code, at the place of the belief, calls certain functions.
    `of` has the names of these functions, without a module or object before the name: "exit" for
    `sys.exit`. `are` lists the calls of them, in the order of the source. There must be no other
    call of a function in `of`.

    Each entry of `are` is the name of the function, followed by names or constants that must occur
    in its arguments, such as "exit 1" for `sys.exit(1)`. If `are` is empty, none of the functions
    may be called.
    """

    of: tuple[str, ...]
    are: tuple[str, ...]


@dataclass(frozen=True)
class Fields:
    """The expectation that a class of the trainer declares the fields `fields`. Each is a pair of
    the field's name and its default as Python prints it, or "" if the default does not matter.
    """

    fields: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Entry:
    """The expectation that a TOML file has the text `value` under the dotted key `key`."""

    key: str
    value: str


Message = Logged | Printed | Raised
Expected = Message | Texts | Constants | Words | Calls | Fields | Entry


@dataclass(frozen=True, kw_only=True)
class Belief:
    """One statement about the source of a trainer on which this program relies: that `expected` is
    found at `place`. `id` identifies it among the statements about this trainer, and `topic` says
    what it is about, such as "line" for a log line. `feature` says which part of this program works
    worse if the statement is not true.
    """

    id: str
    topic: Topic
    place: Place
    expected: Expected
    feature: str


@dataclass(frozen=True, kw_only=True)
class Known:
    """A commit or release of a trainer with whose source the beliefs (statements about the source)
    were compared.

    `commit` is the commit's hash, or the place from which a release was taken, and `version` its
    name. `date` is its date, as YYYY-MM-DD. `read` is True if the beliefs were written from this
    source, and False if they were only checked with it.
    """

    commit: str
    version: str
    date: str
    read: bool


@dataclass(frozen=True, kw_only=True)
class Believed:
    """All beliefs that this program has of one trainer. A belief is a statement about the trainer's
    source code. `id` is the
    id of the trainer, such as "verl", and `title` its name for a person. `code` has the folders of
    the checkout with its Python code. `known` are the commits and releases with which the beliefs
    were compared.
    """

    id: str
    title: str
    code: tuple[str, ...]
    known: tuple[Known, ...]
    beliefs: tuple[Belief, ...]


def line(key: str, place: Place, expected: Message | Texts, feature: str) -> Belief:
    """Return a belief (a statement about the trainer's source) about a log line. `key` becomes its
    id, `place` is where the line is written, `expected` is what is written there, and `feature` is
    the part of this program that needs it.
    """
    return Belief(id=key, topic="line", place=place, expected=expected, feature=feature)


def belief(
    key: str, topic: Topic, file: str, name: str, expected: Expected, feature: str
) -> Belief:
    """Return a belief (a statement about the trainer's source) about the function or class `name`
    in `file`. `key` becomes its id, `topic` is what it is about, `expected` is what should be
    there, and `feature` is the part of this program that needs it.
    """
    place = Place(file, name)
    return Belief(id=key, topic=topic, place=place, expected=expected, feature=feature)
