"""The command `docs`: find a topic in the program's own documentation, without a network."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from typing import Any, TypedDict

from bs4_console.cli.output import complain, emit, table
from bs4_console.documentation.catalog import catalog
from bs4_console.documentation.entry import words
from bs4_console.documentation.parameters import Parameter
from bs4_console.documentation.passage import passage
from bs4_console.documentation.search import Found, Hit, Index, search
from bs4_console.errors import FINDING, UsageError

_WIDTH = 100
#: The longest title in the list of further hits.
_TITLE = 60


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `docs` to its parser."""
    parser.add_argument(
        "topic",
        nargs="+",
        metavar="TOPIC",
        help="a parameter (whole or the last part of its name), a failure, a rule such as R19, a "
        "command, an Xid number, an exit code, or any words",
    )
    parser.add_argument(
        "--full", action="store_true", help="all that is said about the best hit, and no other hit"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(options: argparse.Namespace) -> int:
    """Print what the documentation says about `options.topic`, the best hit first. Return 0, or 1
    if nothing is found. Raises UsageError if the topic has neither letters nor digits, and
    ConsoleError if the documentation is not installed.
    """
    topic = " ".join(options.topic)
    if not words(topic):
        raise UsageError(
            f"{topic!r} names no topic.", "Give a word, such as `bs4-console docs keep_last`."
        )
    found = search(topic, Index(catalog()))
    if options.json:
        asked = words(found.corrected or topic)
        hits = []
        for hit in found.hits[: 1 if options.full else None]:
            hits.append(_object(hit, asked, options.full))
        emit(
            "docs",
            topic=topic,
            corrected=found.corrected or None,
            unknown=found.unknown,
            hits=hits,
            nearest=found.nearest,
        )
    if not found.hits:
        complain(_nothing(topic, found))
        return FINDING
    if not options.json:
        _print(topic, found, options.full)
    return 0


def _nothing(topic: str, found: Found) -> str:
    """Return the sentence for a topic about which nothing is found."""
    if found.nearest:
        return f"Nothing is known about {topic!r}. Nearest topics: {', '.join(found.nearest)}."
    return (
        f"Nothing is known about {topic!r}, and no topic is like it. Try one plain word, or "
        "`bs4-console --help` for all commands."
    )


class SetByRow(TypedDict):
    """A config file that comes with a trainer and sets a parameter, in JSON output: the `file`, and
    the `value` that it sets.
    """

    file: str
    value: Any


class SettingRow(TypedDict):
    """What the schema of one trainer says about a parameter of its config, in JSON output.

    `component` is what the config is for: "rl" (a whole training), "sft" or "eval". `type` says in
    words which values are accepted. `default` is the value if the config has none, and has no
    meaning if `has_default` is False. If `required`, a config without the parameter is refused.
    `when` are the values of a key `type` in the same table for which the parameter exists, or empty
    if it always does. `table` is the table that switches the parameter's feature on, and
    `other_name` its name in the other version of prime-rl; each is None if there is none.
    """

    trainer: str
    component: str
    type: str
    has_default: bool
    default: Any
    required: bool
    when: Sequence[str]
    table: str | None
    other_name: str | None
    set_by: Sequence[SetByRow]


class HitRow(TypedDict):
    """One thing that the command `docs` has found, in JSON output. `kind` says what it is, such as
    "command" or "failure". `name` is the name by which a person asks for it, `title` one line about
    it, and `passage` the part of its text that fits the question best. `settings` are the types and
    defaults if it is a parameter, by trainer. `command` is the shell command that shows more.
    """

    kind: str
    name: str
    title: str
    passage: str
    text: str | None
    """The whole text, or None without --full."""
    settings: Sequence[SettingRow]
    command: str


def _object(hit: Hit, asked: tuple[str, ...], full: bool) -> HitRow:
    """Return a hit as an object of the JSON output."""
    entry = hit.entry
    return {
        "kind": entry.kind,
        "name": entry.names[0],
        "title": entry.title,
        "passage": passage(entry, asked, hit.is_named),
        "text": entry.text if full else None,
        "settings": [_setting(setting) for setting in entry.settings],
        "command": entry.command,
    }


def _setting(setting: Parameter) -> SettingRow:
    """Return what one trainer says about a parameter as an object of the JSON output."""
    return {
        "trainer": setting.trainer,
        "component": setting.component,
        "type": setting.type,
        "has_default": setting.has_default,
        "default": setting.default,
        "required": setting.required,
        "when": setting.when,
        "table": setting.table or None,
        "other_name": setting.other_name or None,
        "set_by": [{"file": file, "value": value} for file, value in setting.set_by],
    }


def _print(topic: str, found: Found, full: bool) -> None:
    """Print the hits as text."""
    if found.corrected:
        print(f"{topic!r} occurs nowhere; this is about {found.corrected!r}.\n")
    if found.unknown:
        print(f"Left out, because it occurs nowhere: {', '.join(found.unknown)}.\n")
    best, *others = found.hits
    entry = best.entry
    print(f"{entry.kind}  {entry.names[0]}")
    if full:
        print(f"{entry.title}\n\n{entry.text}")
        return
    _indented(entry.title)
    if entry.settings:
        # The whole of what is known: its types and defaults are what was asked for.
        lines = entry.text.split("\n\n")
    else:
        lines = passage(entry, words(found.corrected or topic), best.is_named).splitlines()
    for line in lines:
        if line != entry.title:
            _indented(line)
    print(f"\n  More: {entry.command}")
    if others:
        print()
        table([_row(hit) for hit in others], ["kind", "also", "title", "more"])


def _indented(text: str) -> None:
    """Print a text below the name of its entry, in lines of at most 100 columns."""
    print(textwrap.fill(text, _WIDTH, initial_indent="  ", subsequent_indent="    "))


def _row(hit: Hit) -> list[str]:
    """Return the row of a further hit."""
    entry = hit.entry
    title = textwrap.shorten(entry.title, _TITLE, placeholder=" ...")
    return [entry.kind, entry.names[0], title, entry.command]
