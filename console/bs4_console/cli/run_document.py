"""The commands `runs import`, `runs export` and `runs lessons`: the run log as a document."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import sys
import textwrap
from pathlib import Path

from bs4_console import files
from bs4_console.cli import run_records
from bs4_console.cli.output import emit
from bs4_console.cli.sessions import pods
from bs4_console.errors import RefusedError
from bs4_console.run_log.document import RunLog
from bs4_console.secret import redacted


def take_in(options: argparse.Namespace) -> int:
    """Read the Markdown document about runs that a person keeps by hand (TRAINING_RUNS.md) into the
    run log, this machine's record of runs, and print which runs were added, changed or the same.
    Return 0. Raises RefusedError if the console is read-only, and UsageError if the file cannot be
    read.
    """
    run_records.may_write(options)
    done = RunLog().import_text(run_records.text_of(options.file))
    listed = dataclasses.asdict(done)
    if options.json:
        emit("runs-import", **listed)
        return 0
    for word, names in listed.items():
        for name in names:
            print(f"{word:9}{name}")
    if not (done.added or done.changed or done.same):
        print(
            "No run is in it; its text is kept. A run's heading reads: ### Run: NAME (DATE) "
            "- STATUS"
        )
    return 0


def write_out(options: argparse.Namespace) -> int:
    """Write the run log, this machine's record of runs, as a Markdown document to the file that the
    options name ("-": standard output), and return 0. The pods are queried first, so that it has
    their newest state. Raises RefusedError if the file exists and --force is not given.
    """
    asyncio.run(run_records.look_again(pods(None)))
    own = run_records.own_records()
    log = RunLog()
    noted = log.noted_prices()
    for name, record in log.records().items():
        if name in own and (name in noted or own[name].price is None):
            own[name].price = record.price
    text = redacted(log.export(own.values()))
    if options.json:
        emit("runs-export", markdown=text, runs=list(run_records.records()))
        return 0
    if options.file == "-":
        # As bytes, so that what was imported comes out unchanged, whatever the line ends and the
        # locale.
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
        return 0
    path = Path(options.file)
    if path.exists() and not options.force:
        raise RefusedError(f"{path} is there already.", "Write over it with --force.")
    files.replace(path, text.encode())
    return 0


def lessons(options: argparse.Namespace) -> int:
    """Print the lessons learned that stand in the run document (a person's Markdown notes about
    runs, which `runs import` has read) or were noted for a run by `runs note`. Return 0.
    """
    found = RunLog().lessons()
    if options.json:
        emit("run-lessons", lessons=found)
        return 0
    for one in found:
        print(f"{one.run or one.topic}:")
        print(textwrap.indent(one.text, "  "))
    if not found:
        print(
            "No lesson is known. `runs note RUN TEXT --lesson` writes one down, and "
            "`runs import FILE` takes in those of a document."
        )
    return 0
