"""`bs4-console`: the screen, and every command."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from bs4_console.cli.output import complain
from bs4_console.errors import UNREACHABLE, USAGE, ConsoleError
from bs4_console.printable import only_printable

#: As a shell says of a command that Ctrl-C ended.
INTERRUPTED = 130

#: Name -> one line of help. The module of a command is imported only when it is used: a health
#: check in cron must start fast.
COMMANDS = {
    "pods": "add, list, show, remove, test and import pods",
    "deploy": "bring the agent to a pod",
    "preflight": "what is wrong with a start before it is made; changes nothing",
    "launch": (
        "look, plan, ask once, start a training run, and call it good when its first step is done"
    ),
    "phases": "a run of several configs: where it is, and the switch to the next one",
    "stop": "end a run with all its processes and prove the GPUs free",
    "logs": "print or follow the logs of a run",
    "runs": "list, show, compare, note, import, export, cost, judge and adopt runs",
    "models": "what is known of models: list, show and verify",
    "checkpoints": "list checkpoints, whole or not, and order how many stay",
    "reports": "list, fetch and open the crash reports that pods wrote",
    "check": "one health verdict, for cron and monitoring",
    "diagnose": "what is wrong with this log or run directory, offline",
    "playbook": "list, show, plan, run and lint playbooks",
    "config": "lint, fix, compare, migrate, make and record training configs",
    "recover": "bring runs on to another machine when their own is lost, within stored limits",
    "provision": (
        "find, rent, list and end machines of Vast.ai, RunPod, Prime Intellect, Lambda and Verda"
    ),
    "completions": "a script that completes this command line in bash, zsh or fish",
    "demo": "practice pods with runs that fail in the real ways",
}


class Parser(argparse.ArgumentParser):
    """Usage errors are one sentence and end with the exit code that is documented for the
    command.
    """

    usage_code = USAGE

    def error(self, message: str) -> NoReturn:
        complain(f"{message}. See `{self.prog} --help`.")
        sys.exit(self.usage_code)


def build(commands: Sequence[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """The parser; only `commands` are filled in."""
    parser = Parser(
        prog="bs4-console",
        description="The terminal that RL engineers keep open while their runs train.",
    )
    parser.add_argument("--version", action="store_true", help="print the version and end")
    parser.add_argument(
        "--read-only",
        action="store_true",
        help="nothing can be changed: the screen and every command refuse to act",
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name, text in COMMANDS.items():
        command = subparsers.add_parser(
            name, help=text, description=text[0].upper() + text[1:] + "."
        )
        if name in commands:
            module = importlib.import_module(f"bs4_console.cli.{name}")
            # Words that no parser knows are refused by the outermost one.
            parser.usage_code = command.usage_code = getattr(module, "USAGE_CODE", USAGE)
            module.configure(command)
            command.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code. Whatever goes wrong is one sentence on stderr; only a defect of ours shows its
    traceback.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # One character that cannot be written must not take the verdict of a pod with it.
            stream.reconfigure(errors="backslashreplace")
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = ""
    for word in arguments:
        if not word.startswith("-"):
            name = word
            break
    with only_printable(sys.stdout, sys.stderr):
        return _guarded(arguments, name)


def _guarded(arguments: list[str], name: str) -> int:
    """Run the command `name` and return its exit code, whatever goes wrong."""
    try:
        return _main(arguments, name)
    except ConsoleError as error:
        complain(str(error))
        # These answer in Nagios' codes, where everything that went wrong on the way is UNKNOWN.
        if name in ("check", "preflight"):
            return UNREACHABLE
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # `bs4-console logs ... | head`: the reader has enough. Python would complain once more when
        # it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        what = error.filename or "A file or socket of this machine"
        complain(
            f"{what} cannot be used: {error.strerror or error}. Check its permissions and "
            "the free space there."
        )
        return UNREACHABLE
    except Exception:  # noqa: BLE001
        # The last line of defence: unknown is 3, while Python's own 1 would say "a finding".
        traceback.print_exc()
        complain("This is a defect of bs4-console; report it with the lines above.")
        return UNREACHABLE


def _main(arguments: list[str], name: str) -> int:
    # argparse would give the words behind `--` to the wrong argument when options stand in between.
    if "--" in arguments:
        own, extra = (arguments[: arguments.index("--")], arguments[arguments.index("--") + 1 :])
    else:
        own, extra = (arguments, None)
    parser = build([name])
    options = parser.parse_args(own)
    if extra is not None:
        if not hasattr(options, "overrides"):
            parser.error("only launch takes further arguments after --")
        options.overrides = extra
    if options.version:
        from bs4_console import __version__

        print(f"bs4-console {__version__}")
        return 0
    if options.command is None:
        return _screen(options.read_only)
    return int(options.run(options))


def _screen(read_only: bool) -> int:
    from bs4_console.cli.sessions import fleet, is_terminal
    from bs4_console.errors import UsageError
    from bs4_console.pods.inventory import Inventory

    if not is_terminal():
        raise UsageError(
            "The screen needs a terminal.",
            "Without one use `bs4-console check` or `bs4-console --help`.",
        )
    if not Inventory().list():
        raise UsageError(
            "No pod is known yet.",
            "Add one with `bs4-console pods add NAME HOST`, or practise with `bs4-console demo`.",
        )
    from bs4_console.tui.app import run

    return run(fleet(read_only), read_only)
