"""The commands `runs note` and `runs tag`."""

from __future__ import annotations

import argparse
import re

from bs4_console.cli import run_records
from bs4_console.cli.output import emit
from bs4_console.cli.sessions import who
from bs4_console.errors import UsageError
from bs4_console.run_log.document import RunLog

_TAG = re.compile(r"[\w.-]{1,40}")


def note(options: argparse.Namespace) -> int:
    """Add a note, a lesson, a status or a price to what the run log, this machine's record of runs,
    has of a run, and return 0. Raises RefusedError if the console is read-only, and UsageError if
    there is nothing to write or no such run.
    """
    run_records.may_write(options)
    if not options.text.strip() and options.price is None and options.status is None:
        raise UsageError("There is nothing to write down.", "Give a TEXT, --status or --price.")
    if any(map(_is_half, options.text)):
        raise UsageError("The text is no UTF-8 text.", "Write it in the encoding of the terminal.")
    if options.lesson and options.status is not None:
        raise UsageError("A status is no lesson.", "Write the lesson down by a second `runs note`.")
    if options.price is not None and not 0 <= options.price < 10_000:
        raise UsageError(f"${options.price:g} an hour is no price.", "Give US dollars an hour.")
    record = run_records.record_of(options.record)
    status = (options.status or "").upper()
    record.decided = status
    RunLog().note(
        options.record,
        options.text.strip(),
        who(),
        lesson=options.lesson,
        price=options.price,
        status=status,
    )
    if options.json:
        emit(
            "run-note",
            run=options.record,
            text=options.text.strip(),
            lesson=options.lesson,
            price=options.price,
            status=options.status,
            still_on=record.still_on or None,
        )
    else:
        print(f"Written down for {options.record}.")
        if record.still:
            print(
                f"It is {record.still}: a note ends nothing, `bs4-console stop --pod "
                f"{record.still_on} --run {record.name}` does."
            )
    return 0


def _is_half(letter: str) -> bool:
    """Return True if this stands for a byte of an argument that is no UTF-8."""
    return "\ud800" <= letter <= "\udfff"


def tag(options: argparse.Namespace) -> int:
    """Add tags (words by which a person finds runs again) to a run in the run log, this machine's
    record of runs, or with --remove take them from it. Return 0. Raises RefusedError if the console
    is read-only, and UsageError if a tag is not valid or there is no such run.
    """
    run_records.may_write(options)
    for tag in options.tags:
        if _TAG.fullmatch(tag) is None:
            raise UsageError(
                f"{tag!r} is no tag.", "Give a word of letters, digits, `.`, `_` and `-`."
            )
    run_records.record_of(options.record)
    tags = RunLog().tag(options.record, options.tags, who(), remove=options.remove)
    if options.json:
        emit("run-tag", run=options.record, tags=tags)
    else:
        print(f"{options.record}: {', '.join(tags) or 'no tags'}")
    return 0
