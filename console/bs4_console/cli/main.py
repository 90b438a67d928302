"""The program `bs4-console`: it opens the screen or runs a command."""

from __future__ import annotations

import argparse
import importlib
import inspect
import io
import os
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NoReturn

from bs4_console.cli.output import complain
from bs4_console.errors import UNREACHABLE, USAGE, ConsoleError
from bs4_console.printable import only_printable
from bs4_console.secret import know_environment

#: The exit code that a shell reports for a command ended by Ctrl-C.
INTERRUPTED = 130

#: One line of help for each command. A command's module is imported only when it is used, because a
#: health check in cron must start fast.
COMMANDS = {
    "pods": "add, list, show, remove, test and import pods",
    "deploy": "bring the agent to a pod",
    "preflight": "what is wrong with a start before it is made; changes nothing",
    "launch": (
        "look, plan, ask once, start a training run, and call it good when its first step is done"
    ),
    "phases": "a run of several configs: where it is, and the switch to the next one",
    "stop": "stop (kill) a run with all its processes and prove the GPUs free",
    "logs": "print or follow the logs of a run",
    "runs": "list, show, compare, report, note, tag, import, export, cost, judge and adopt runs",
    "models": "what is known of models: list, show and verify",
    "trainers": "which trainers are known, and whether a checkout is as it is believed to be",
    "checkpoints": "list checkpoints, whole or not, and order how many stay",
    "reports": "list, fetch and open the crash reports that pods wrote",
    "check": "one health verdict, for cron and monitoring",
    "watch": "each change of pods and runs as one plain line: the console without a drawn screen",
    "audit": "whether the journals of pods were changed after they were written",
    "diagnose": "what is wrong with this log or run directory, offline",
    "playbook": "list, show, plan, run, try, add and lint playbooks",
    "config": "lint, fix, compare, migrate, make and record training configs",
    "envs": "environments of the hub and evaluations, by prime's and verifiers' own commands",
    "recover": "bring runs on to another machine when their own is lost, within stored limits",
    "provision": (
        "find, rent, list and end machines of Vast.ai, RunPod, Prime Intellect, Lambda and Verda"
    ),
    "docs": (
        "find a parameter, failure, rule, command, Xid number or word in the documentation, offline"
    ),
    "completions": "a script that completes this command line in bash, zsh or fish",
    "demo": "practice pods with runs that fail in the real ways",
}


class Parser(argparse.ArgumentParser):
    """An argument parser that reports a usage error as one sentence on standard error. The program
    then ends with the exit code `usage_code`, which a command may set for itself; it is 2 by
    default.
    """

    usage_code = USAGE
    instead: Mapping[str, str] = MappingProxyType({})
    """By an option that people expect and that the command does not have: the sentence that says
    what to do instead.
    """

    def error(self, message: str) -> NoReturn:
        """Print `message`, the usage error, on standard error and end the program with the exit
        code `usage_code`, which is 2 unless the command has set another.
        """
        known = _unknown_word(message, self.prog) or _said_instead(message, self.instead)
        complain(known or f"{message}. See `{self.prog} --help`.")
        sys.exit(self.usage_code)

    def _match_arguments_partial(
        self, actions: Sequence[argparse.Action], arg_strings_pattern: str
    ) -> list[int]:
        """Return how many words each of `actions` takes here. argparse before Python 3.12.7 fills
        an argument that may be absent before the options that stand between it and its word, and
        then does not know the word: `runs note RUN --lesson TEXT`. Such an argument waits.
        """
        counts = super()._match_arguments_partial(actions, arg_strings_pattern)
        if "A" in arg_strings_pattern[sum(counts) :]:
            while counts and counts[-1] == 0:
                counts.pop()
        return counts


#: Words of other programs, and the commands that do what is meant.
_OTHER_WORDS = {
    "resume": "launch",
    "restart": "launch",
    "start": "launch",
    "run": "launch",
    "kill": "stop",
    "status": "check",
    "health": "check",
    "doctor": "diagnose",
    "ckpt": "checkpoints",
    "fix": "playbook",
}


#: Words that people try as verbs of a command, and the verb that does what they mean.
_OTHER_VERBS = {
    "runs": {"diff": "compare"},
}


def _unknown_word(message: str, program: str) -> str:
    """Return the sentence about a command, or a verb of the command `program`, that does not exist,
    with those that are meant perhaps. Return "" if `message`, argparse's own, is about anything
    else.
    """
    from difflib import get_close_matches  # only a wrong word needs it

    found = re.match(
        r"argument (COMMAND|VERB): invalid choice: '(.*)' \(choose from (.*)\)$", message
    )
    if found is None:
        return ""
    noun, word, listed = found.groups()
    known = re.findall(r"[\w-]+", listed)
    near = get_close_matches(word, known, n=3)
    if noun == "COMMAND" and word in _OTHER_WORDS:
        near = [_OTHER_WORDS[word], *near]
    other_verbs = _OTHER_VERBS.get(program.rpartition(" ")[2], {})
    if noun == "VERB" and word in other_verbs:
        near = [other_verbs[word], *near]
    what = f"{program} has no {noun.lower()} {word!r}."
    meant = f" Close to it: {', '.join(dict.fromkeys(near))}." if near else ""
    return f"{what}{meant} `{program} --help` names all."


def _said_instead(message: str, instead: Mapping[str, str]) -> str:
    """Return the sentence of `instead` about the first word of the command line that it knows and
    that no parser knows. Return "" if `message`, argparse's own, names no such word.
    """
    words = message.removeprefix("unrecognized arguments: ")
    if words == message:
        return ""
    for word in words.split():
        if word in instead:
            return instead[word]
    return ""


def build(commands: Sequence[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """Return the argument parser of the whole program. It knows every command, but only those named
    in `commands` get their options, because each command's options need its module, which takes
    time to import.
    """
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
        command = subparsers.add_parser(name, help=text, description=_sentence(text))
        if name in commands:
            module = importlib.import_module(f"bs4_console.cli.{name}")
            # The outermost parser refuses words that no parser knows, so it gets the same code.
            parser.usage_code = command.usage_code = getattr(module, "USAGE_CODE", USAGE)
            parser.instead = getattr(module, "INSTEAD", parser.instead)
            module.configure(command)
            _describe_verbs(command)
            _code_verbs(command)
            command.set_defaults(run=module.run)
    return parser


def _sentence(text: str) -> str:
    """Return a line of help as a sentence."""
    return f"{text[0].upper()}{text[1:]}."


def _code_verbs(parser: Parser) -> None:
    """Give each verb of a command the command's exit code of a usage error."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                verb.usage_code = parser.usage_code
                _code_verbs(verb)


def _describe_verbs(parser: argparse.ArgumentParser) -> None:
    """Give each verb of a command the line that its command's help has about it, as the first
    sentence of its own help.
    """
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for line in action._choices_actions:
                verb = action.choices[line.dest]
                if line.help and not verb.description:
                    verb.description = _sentence(line.help)
                _describe_verbs(verb)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` names and return its exit code. `argv` is the command line
    without the program's name; None means that of the process.

    Errors are printed on standard error as one sentence and not raised. A traceback is printed only
    for a defect of this program.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A character that cannot be written must not prevent the output of a pod's verdict.
            stream.reconfigure(errors="backslashreplace")
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = next((word for word in arguments if not word.startswith("-")), "")
    know_environment()
    with only_printable(sys.stdout, sys.stderr):
        return _guarded(arguments, name)


def _guarded(arguments: list[str], name: str) -> int:
    """Run the command `name` and return its exit code, whatever goes wrong."""
    try:
        return _main(arguments, name)
    except ConsoleError as error:
        complain(str(error))
        # These commands answer in Nagios' codes, in which every failure on the way is UNKNOWN.
        if name in ("check", "preflight", "trainers"):
            return UNREACHABLE
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # `bs4-console logs ... | head`: the reader has enough. Python would complain once more when
        # it closes standard output.
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
        # The last line of defence: unknown is 3, while Python's own 1 would mean a finding.
        traceback.print_exc()
        complain("This is a defect of bs4-console; report it with the lines above.")
        return UNREACHABLE


def _main(arguments: list[str], name: str) -> int:
    """Parse the command line and run it. `name` is the command's name, or ""."""
    # argparse would give the words behind `--` to the wrong argument if options stand in between.
    end = len(arguments)
    if "--" in arguments:
        end = arguments.index("--")
    parser = build([name])
    options = parser.parse_args(arguments[:end])
    if end < len(arguments):
        if not hasattr(options, "overrides"):
            parser.error("only launch and envs take further arguments after --")
        options.overrides = arguments[end + 1 :]
    if options.version:
        from bs4_console import __version__

        print(f"bs4-console {__version__}")
        return 0
    if options.command is None:
        return _screen(options.read_only)
    code = options.run(options)
    if inspect.iscoroutine(code):
        import asyncio

        return int(asyncio.run(code))
    return int(code)


def _screen(read_only: bool) -> int:
    """Open the screen and return its exit code. Without any pod the screen says how to add one.
    Raises UsageError without a terminal.
    """
    from bs4_console.cli.sessions import fleet, is_terminal
    from bs4_console.errors import UsageError

    if not is_terminal():
        raise UsageError(
            "The screen needs a terminal.",
            "Without one use `bs4-console watch`, `bs4-console check` or `bs4-console --help`.",
        )
    from bs4_console.tui.app import run

    return run(fleet(read_only), read_only)
