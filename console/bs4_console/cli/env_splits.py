"""The command `envs splits`: sizes of the splits of data sets, and the rows that they share."""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from bs4_console.cli.output import complain, emit, table
from bs4_console.configs import document
from bs4_console.configs.view import View
from bs4_console.errors import FINDING, UNREACHABLE, ConsoleError, UsageError
from bs4_console.setup import dataset_splits as splits
from bs4_console.setup import environment_tools as tools
from bs4_console.setup.dataset_probe import Wanted

#: Seconds. A large data set is read from the disk, and an environment may build its own.
LONGEST_S = 1800.0
#: Seconds for a process to end that was asked to.
_ENDS_S = 10.0
#: Runs a command with an input and returns its exit status and output, on this machine or a pod.
Runs = Callable[[tools.Command, bytes], tuple[int | None, bytes]]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `envs splits` to its parser, except those that all subcommands of `envs`
    have.
    """
    parser.add_argument(
        "places",
        nargs="*",
        metavar="PLACE",
        help="a file (JSON, JSON lines, Parquet), a directory, or a data set of the hub",
    )
    parser.add_argument(
        "--env", action="append", default=[], metavar="ID", help="an installed environment"
    )
    parser.add_argument(
        "--args", default="{}", metavar="JSON", help="the arguments of each --env, as a JSON object"
    )
    parser.add_argument(
        "--config", metavar="FILE", help="what this config trains and evaluates on, of this machine"
    )


#: What the names of files with data end in. A data set of the hub has none of these endings.
_FILES = (".jsonl", ".json", ".csv", ".parquet")


def wanted(options: argparse.Namespace) -> list[Wanted]:
    """Return the data sets that the options of `envs splits` name: files and hub ids, environments,
    and those of a config file. Raises UsageError if they name none, if a file is not on this
    machine, or if an option is not valid.
    """
    try:
        arguments = json.loads(options.args)
    except ValueError:
        arguments = None
    if options.words or not isinstance(arguments, dict):
        raise UsageError(
            f"{' '.join(options.words) or options.args!r} is not understood.",
            '--args takes a JSON object, such as \'{"split": "bench"}\'.',
        )
    found = [Wanted("path", place) for place in options.places]
    for name in options.env:
        found.append(Wanted("environment", name, arguments=arguments))
    if options.config is not None:
        config = document.read_toml(Path(options.config), follow=True)
        for finding in config.findings:
            raise UsageError(f"{options.config}: {finding.message}", "`config lint` says more.")
        found += splits.of_config(View(generation="", document=config, data=config.data))
    if not found:
        raise UsageError("No data set is named.", "Give a PLACE, --env ID, or --config FILE.")
    for place in options.places:
        if options.pod is None and Path(place).suffix in _FILES and not Path(place).exists():
            raise UsageError(
                f"There is no file {place}.", "Give its path, or --pod if it is there."
            )
    return found


def command(options: argparse.Namespace) -> tools.Command:
    """Return the command that starts the Python interpreter of the trainer's checkout, on the pod
    or this machine, as the options say. The interpreter reads the program to run (see
    `dataset_splits.program`) from its standard input. Raises NotApplicableError if the command is
    for this machine and that Python is not there.
    """
    words = ["python3", "-"]
    if options.pod is not None:
        return tools.there(words, options.project or "prime-rl")
    return tools.here(words, Path(options.project or ".").expanduser())


def show(options: argparse.Namespace, place: str, runs: Runs) -> int:
    """Read the data sets that the options name, and print the sizes of their splits and which rows
    they share. `runs` starts the Python program that reads them, on the machine named `place`.
    Return 1 if splits overlap that should not or a config takes more rows than there are, 3 if a
    data set could not be read, else 0. Raises NotApplicableError if the project's Python is not
    there, UsageError if the options name no data set, and RemoteError if the program's answer
    cannot be read.
    """
    asked = splits.program(wanted(options))
    status, output = runs(command(options), asked)
    found = splits.read(output, place)
    wrong = found.wrong()
    unread = [one for one in found.splits if one.error]
    if options.json:
        emit("splits", place=place, splits=found.splits, overlaps=found.overlaps, wrong=wrong)
    else:
        rows = [_row(one) for one in found.splits]
        table(rows, ["use", "data", "split", "rows", "note"])
        for sentence in [*wrong, *splits.pairs(found)]:
            print(sentence)
    if status != 0 or unread:
        complain("A data set could not be read; nothing is known of it.")
        return UNREACHABLE
    return FINDING if wrong else 0


def _row(one: splits.Split) -> list[str]:
    """Return the cells of one split."""
    rows = "?" if one.rows is None else f"{one.rows}"
    taken = "" if one.limit is None else f"{one.limit} are taken"
    note = "; ".join(filter(None, (taken, one.note, one.error)))
    return [one.use or "-", one.place, one.split or "-", rows, note]


class TooLong(ConsoleError):
    """Raised when the data sets were not read within half an hour (LONGEST_S). The command then
    ends with exit code 3, because nothing is known of them.
    """

    exit_code = UNREACHABLE


def here(ran: tools.Command, program: bytes) -> tuple[int | None, bytes]:
    """Run the command `ran` on this machine with `program`, a Python program, as its standard
    input. Return its exit status and its standard output. Its standard error goes to that of this
    process. If the command takes more than half an hour (LONGEST_S), it is ended, and TooLong is
    raised.
    """
    with subprocess.Popen(
        ran.argv, cwd=ran.directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            output, _ = process.communicate(program, timeout=LONGEST_S)
        except subprocess.TimeoutExpired as error:
            _end(process)
            raise TooLong(
                f"The data sets were not read within {LONGEST_S / 60:g} minutes.",
                "Name fewer of them, or a PLACE in place of an environment that builds its own.",
            ) from error
        except BaseException:
            _end(process)
            raise
    return process.returncode, output


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process. It is asked first, because uv passes that on to the Python that it started."""
    process.terminate()
    try:
        process.wait(_ENDS_S)
    except subprocess.TimeoutExpired:
        process.kill()
