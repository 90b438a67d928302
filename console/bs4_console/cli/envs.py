"""The command `envs`: environments of the hub and evaluations, by the tools that people have."""

from __future__ import annotations

import argparse
import asyncio
import functools
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bs4_console import models
from bs4_console.cli import env_splits
from bs4_console.cli.main import Parser
from bs4_console.cli.output import complain, emit, finding_code
from bs4_console.cli.sessions import can_ask, confirm, to_act_on, transport
from bs4_console.errors import RefusedError, UsageError
from bs4_console.pods.inventory import Inventory, Pod
from bs4_console.pods.port import Completed
from bs4_console.printable import printable
from bs4_console.secret import know_words
from bs4_console.setup import budgeted_words, tool_tables
from bs4_console.setup import environment_tools as tools
from bs4_console.setup.environment_package import pushed

#: The verbs that are words of `prime env`, and what they do.
PRIME = {
    "push": "bring an environment to the hub (prime env push, which gets all other words)",
    "pull": "take an environment's files from the hub (prime env pull, which gets all other words)",
    "list": "environments of the hub (prime env list, which gets all other words)",
    "info": "what the hub has of an environment (prime env info, which gets all other words)",
    "install": "install an environment of the hub (prime env install, which gets all other words)",
}
#: verifiers' own tools. Some versions lack some of them.
VERIFIERS = ("setup", "eval", "init", "validate", "replay", "debug", "tui")
#: Seconds for a command on a pod. An installation takes minutes, and a synthesis may take hours.
_POD_S, _SYNTHESIS_S = 1800.0, 86400.0
OPENROUTER = "https://openrouter.ai/api/v1"


class _Passing(Parser):
    """A parser that keeps the words that are not its own, in their order, as `words`, for a tool.
    `overrides` has those after `--`, which `main` cuts off.
    """

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str], namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Return the options, with the words for the tool in `words`, and nothing left over."""
        found, words = super().parse_known_args(args, namespace)
        found.words = words
        found.overrides = []
        return found, []


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `envs` and its subcommands to its parser."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=_Passing)
    for name, text in PRIME.items():
        _passing(verbs.add_parser(name, help=text, allow_abbrev=False))
    hosted = verbs.add_parser(
        "eval",
        help="evaluate on the hub's own service (prime eval run --hosted)",
        allow_abbrev=False,
    )
    _passing(hosted)
    verifiers = verbs.add_parser(
        "vf", help="one of verifiers' own tools, such as vf-eval", allow_abbrev=False
    )
    verifiers.add_argument("tool", choices=VERIFIERS, help="which: vf-TOOL")
    _passing(verifiers)
    synthesize = verbs.add_parser(
        "synthesize",
        help="make data with a model, by prime-rl's own program (synthesize, of January 2026)",
        allow_abbrev=False,
    )
    synthesize.add_argument(
        "config", metavar="CONFIG", help="its config, seen from the project; further words go to it"
    )
    _passing(synthesize)
    sandbox = verbs.add_parser(
        "sandbox",
        help="whether packages can be imported where an environment runs the model's code",
        allow_abbrev=False,
    )
    sandbox.add_argument(
        "packages", nargs="+", type=_package, metavar="PACKAGE", help="as Python imports it: bs4"
    )
    sandbox.add_argument(
        "--image",
        metavar="IMAGE",
        help="in a new container of this image, without a network (default: in the project itself)",
    )
    _passing(sandbox)
    splits = verbs.add_parser(
        "splits",
        help="the splits of data sets, their sizes, and the rows that they share; or of a config",
        allow_abbrev=False,
    )
    env_splits.configure(splits)
    _passing(splits)
    _configure_evaluate(
        verbs.add_parser(
            "evaluate",
            help="evaluate on this machine through an OpenAI-compatible endpoint, within a budget",
            allow_abbrev=False,
        )
    )


def _passing(parser: argparse.ArgumentParser) -> None:
    """Add the options of a verb that passes its words on to a tool."""
    parser.add_argument(
        "--pod", metavar="NAME", help="run it in the checkout of this pod (default: here)"
    )
    _placed(parser)


def _placed(parser: argparse.ArgumentParser) -> None:
    """Add the options that every verb has."""
    parser.add_argument(
        "--project",
        metavar="DIR",
        help="the directory to run it in, by `uv run` if it is a project (default: this one; on a "
        "pod prime-rl)",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print the exact command and run nothing"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="one JSON object: the command, with --dry-run, or what `splits` found",
    )


def _configure_evaluate(parser: argparse.ArgumentParser) -> None:
    """Add the options of `envs evaluate`."""
    parser.add_argument("environment", metavar="ENV", help="the installed environment")
    parser.add_argument("--model", required=True, metavar="MODEL", help="its id at the endpoint")
    parser.add_argument(
        "--budget", required=True, type=float, metavar="USD", help="the most that it may cost"
    )
    parser.add_argument(
        "--endpoint", default=OPENROUTER, metavar="URL", help="default: %(default)s"
    )
    parser.add_argument(
        "--key-variable",
        default="OPENROUTER_API_KEY",
        metavar="NAME",
        help="the environment variable that has the key (default: %(default)s)",
    )
    parser.add_argument(
        "--price",
        nargs=2,
        type=float,
        metavar=("IN", "OUT"),
        help="US dollars for a million tokens (default: as `models show` says)",
    )
    for name, default, text in (
        ("examples", 50, "how many examples"),
        ("rollouts", 1, "rollouts of each example"),
        ("turns", 10, "questions of a rollout at most, for the cost"),
        ("tokens-in", 4000, "tokens of a question on average, for the cost"),
        ("max-tokens", 4000, "tokens of an answer at most"),
    ):
        parser.add_argument(
            f"--{name}", type=_count, default=default, metavar="N", help=f"{text} ({default})"
        )
    parser.add_argument(
        "--output", default="outputs", metavar="DIR", help="where results go (default: outputs)"
    )
    parser.add_argument("--yes", action="store_true", help="begin without a question")
    _placed(parser)


def _count(text: str) -> int:
    """Return a number above 0. Raises ArgumentTypeError for anything else."""
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)


def _package(text: str) -> str:
    """Return the name of a package. Raises ArgumentTypeError if Python could not import it."""
    if not all(part.isidentifier() for part in text.split(".")):
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a package")
    return text


def run(options: argparse.Namespace) -> int:
    """Run the tool that the subcommand of `envs` stands for, such as `prime env install` or
    `vf-eval`, on this machine or a pod; with --dry-run only print its command. `splits` runs no
    tool but shows the splits of data sets (see `env_splits.show`).

    Return 0 if the tool ended with 0, else 1. Raises UsageError for --json without --dry-run,
    NotApplicableError if the tool is not installed, and RefusedError if the budget is too small or
    a word for the tool may go past it, nobody confirmed, or the console or the pod is read-only.
    """
    if options.verb == "splits":
        return _splits(options)
    if options.json and not options.dry_run:
        raise UsageError("--json prints the command of --dry-run alone.", "Give both, or neither.")
    # They stand in the command that is shown, and a tool may print them.
    know_words([*options.words, *options.overrides])
    if options.verb == "evaluate":
        return _evaluate(options)
    words = [*_tool(options), *options.words, *options.overrides]
    if options.pod is not None:
        return _on_pod(options, words)
    return _here(options, words)


def _tool(options: argparse.Namespace) -> list[str]:
    """Return the words of the tool that a verb stands for."""
    if options.verb == "vf":
        return [f"vf-{options.tool}"]
    if options.verb == "eval":
        return ["prime", "eval", "run", "--hosted"]
    if options.verb == "synthesize":
        return ["synthesize", "@", options.config]
    if options.verb == "sandbox":
        return tools.importing(options.packages, options.image)
    return ["prime", "env", options.verb]


def _here(options: argparse.Namespace, words: list[str]) -> int:
    """Run the tool on this machine, on this terminal."""
    project = Path(options.project or ".").expanduser()
    command = tools.here(words, project, only_shown=options.dry_run)
    if options.dry_run and options.verb == "push":
        return _show_push(command, options)
    if options.dry_run:
        return _show(command, "this machine", options)
    if options.read_only:
        raise RefusedError(
            "Nothing was run: this console was started with --read-only.", "Start it without."
        )
    complain(f"$ {shlex.join(command.argv)}")
    return finding_code(subprocess.run(command.argv, cwd=command.directory, check=False).returncode)


def _on_pod(options: argparse.Namespace, words: list[str]) -> int:
    """Run the tool in the checkout of a pod, with the pod's own login, and print its output, in
    which secrets are replaced as in everything that is printed, and those of tables too.
    """
    command = tools.there(words, options.project or "prime-rl")
    if options.dry_run:
        return _show(command, Inventory().get(options.pod).name, options)
    timeout = _SYNTHESIS_S if options.verb == "synthesize" else _POD_S
    status, output = _ran_there(to_act_on(options), command, timeout=timeout)
    sys.stdout.write(_shown(output))
    return finding_code(status != 0)


def _shown(output: bytes) -> str:
    """Return what a tool of a pod has printed, without the secrets in its tables."""
    return tool_tables.without_secrets(printable(output.decode(errors="replace")))


def _ran_there(
    pod: Pod, command: tools.Command, program: bytes = b"", timeout: float = _POD_S
) -> tuple[int | None, bytes]:
    """Run a command on a pod with `program` as its input, print its errors, and return its exit
    status and output. Raises NotApplicableError without the tool, UsageError without the directory.
    """
    complain(f"{pod.name} $ {shlex.join(command.argv)}")

    async def ended() -> Completed:
        link = transport(pod)
        try:
            return await link.run(command.on_pod(), stdin=program, timeout=timeout)
        finally:
            await link.close()

    done = asyncio.run(ended())
    sys.stderr.write(_shown(done.stderr))
    if done.exit_status == tools.NO_TOOL:
        raise tools.absent(command.tool, pod.name)
    if done.exit_status == tools.NO_DIRECTORY:
        raise UsageError(
            f"{pod.name} has no directory {command.directory}.", "Name it with --project."
        )
    return done.exit_status, done.stdout


def _splits(options: argparse.Namespace) -> int:
    """Print the splits of data sets, read here or on a pod, or with --dry-run the command that
    reads them.
    """
    if options.dry_run:
        env_splits.wanted(options)
        place = "this machine"
        if options.pod is not None:
            place = Inventory().get(options.pod).name
        return _show(env_splits.command(options), place, options)
    if options.pod is None:
        return env_splits.show(options, "this machine", env_splits.here)
    pod = to_act_on(options)
    return env_splits.show(options, pod.name, functools.partial(_ran_there, pod))


def _show(command: tools.Command, place: str, options: argparse.Namespace) -> int:
    """Print the command, and return 0."""
    if options.json:
        emit("envs-command", place=place, directory=command.directory, argv=command.argv)
    else:
        print(f"on {place}, in {command.directory}:\n  $ {shlex.join(command.argv)}")
    return 0


def _show_push(command: tools.Command, options: argparse.Namespace) -> int:
    """Print the command and what it would bring to the hub. Returns 1 if it would fail or would
    bring a secret there, else 0.
    """
    package = pushed([*options.words, *options.overrides], Path(command.directory))
    if options.json:
        emit(
            "envs-command",
            place="this machine",
            directory=command.directory,
            argv=command.argv,
            package=package,
        )
        return finding_code(package.problems)
    _show(command, "this machine", options)
    print(
        f"{package.name or '?'} {package.version or '?'} from {package.directory}: "
        f"{len(package.files)} files, {package.size} bytes, less what .gitignore names"
    )
    for file in package.files:
        print(f"  {file}")
    if package.dependencies:
        print(f"needs {', '.join(package.dependencies)}")
    for note in package.notes:
        print(f"note: {note}")
    for problem in package.problems:
        complain(problem)
    return finding_code(package.problems)


def _evaluate(options: argparse.Namespace) -> int:
    """Show model, price and budget, and evaluate if they fit and a person agrees."""
    passed = [*options.words, *options.overrides]
    budgeted_words.check(passed)
    planned = tools.Evaluation(
        environment=options.environment,
        model=options.model,
        endpoint=options.endpoint,
        key_variable=options.key_variable,
        examples=options.examples,
        rollouts=options.rollouts,
        turns=options.turns,
        tokens_in=options.tokens_in,
        max_tokens=options.max_tokens,
        price=tools.price_of(models.get(options.model), options.price),
        output=options.output,
    )
    if not options.json:
        print(
            f"{planned.model} at {planned.endpoint}, ${planned.price[0]:g} in and "
            f"${planned.price[1]:g} out for 10^6 tokens\n"
            f"{planned.examples} examples x {planned.rollouts} rollouts x {planned.turns} turns, "
            f"{planned.tokens_in} tokens in and {planned.max_tokens} out at most: "
            f"${planned.most():.2f} of a budget of ${options.budget:.2f}",
            flush=True,
        )
    planned.check(options.budget)
    if not options.dry_run:
        _agreed(options)
    code = _here(options, [*planned.words(), *passed])
    if not options.dry_run:
        complain(f"Read the results: `bs4-console runs evals {planned.output}/RUN`.")
    return code


def _agreed(options: argparse.Namespace) -> None:
    """Raise UsageError without the endpoint's key, and RefusedError if nobody agrees."""
    if not os.environ.get(options.key_variable):
        raise UsageError(
            f"{options.key_variable} is not set.",
            "Export the key of the endpoint under this name, or name another: --key-variable.",
        )
    if not options.yes:
        if not can_ask(options):
            raise RefusedError("Nothing was evaluated: nobody confirmed.", "Confirm with --yes.")
        confirm("Type yes to evaluate: ", refused="Nothing was evaluated.")
