"""`runs report`: a page about one run that one would send to a colleague."""

from __future__ import annotations

import argparse
from pathlib import Path

from bs4_console import files
from bs4_console.cli import run_costs, run_eta
from bs4_console.cli.output import emit
from bs4_console.errors import RefusedError
from bs4_console.run_log import report_page
from bs4_console.run_log.config_texts import ConfigTexts
from bs4_console.run_log.record import RunRecord
from bs4_console.run_log.spending import Stay
from bs4_console.secret import redacted


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `runs report` to its parser, beside the run's name."""
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="where to write it: HTML if its name ends with .html, else Markdown (default: "
        "Markdown on standard output)",
    )
    parser.add_argument("--force", action="store_true", help="write over a file that is there")


def report(record: RunRecord, options: argparse.Namespace) -> int:
    """Write the report of the run of `record`, a page to send to a colleague, and return 0. It is
    written to the file of --output, as HTML if its name ends with .html, else as Markdown; without
    --output it is printed. Raises RefusedError if the file exists and --force is not given. Raises
    OSError if the file cannot be written.
    """
    path: Path | None = options.output
    if path is not None and path.exists() and not options.force:
        raise RefusedError(f"{path} is there already.", "Write over it with --force.")
    write = report_page.markdown
    if path is not None and path.suffix in (".html", ".htm"):
        write = report_page.page
    stays = run_costs.stays_of(record.name) or _written_stay(record)
    text = redacted(write(record, stays, _config(record)))
    if path is not None:
        files.replace(path, text.encode())
    if options.json:
        emit("run-report", run=record.name, text=text, file=None if path is None else str(path))
    elif path is None:
        print(text, end="")
    else:
        print(f"{path} has the report of {record.name}.")
    return 0


def _written_stay(record: RunRecord) -> list[Stay]:
    """Return the time of an imported run on its pod, as `runs eta` computes it, or nothing if it is
    not known.
    """
    seconds = run_eta.lasted(record, record.pace_s) if record.source == "log" else None
    if seconds is None:
        return []
    began = record.started_t or 0.0
    pod = record.pod or "not written"
    return [
        Stay(run=record.name, pod=pod, began_t=began, until_t=began + seconds, price=record.price)
    ]


def _config(record: RunRecord) -> str:
    """Return the text of the newest config that a launch of the run recorded and that was kept on
    this machine. For an imported run, return the configs that its section holds. Return "" if there
    is none.
    """
    for attempt in reversed(record.attempts):
        if attempt.config_digest:
            texts = ConfigTexts(attempt.pod or record.source)
            return texts.text(attempt.config_digest) or ""
    return "\n".join(record.configs.values())
