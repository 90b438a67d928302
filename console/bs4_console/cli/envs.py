"""The command `envs`: environments of the hub and evaluations, by the tools that people have."""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bs4_console import models
from bs4_console.cli.main import Parser
from bs4_console.cli.output import complain, emit, finding_code
from bs4_console.cli.sessions import can_ask, confirm, to_act_on, transport
from bs4_console.errors import RefusedError, UsageError
from bs4_console.pods.inventory import Inventory
from bs4_console.setup import environment_tools as tools

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
#: Seconds for a command on a pod. An installation takes minutes.
_POD_S = 1800.0
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
        "--json", action="store_true", help="the command as one JSON object, with --dry-run"
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


def run(options: argparse.Namespace) -> int:
    """Run a tool, or print its command with --dry-run. Return 0 if the tool ended with 0, else 1.
    Raises NotApplicableError if the tool is not installed, and RefusedError if the budget is too
    small, nobody confirmed, or the console or the pod is read-only.
    """
    if options.json and not options.dry_run:
        raise UsageError("--json prints the command of --dry-run alone.", "Give both, or neither.")
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
    return ["prime", "env", options.verb]


def _here(options: argparse.Namespace, words: list[str]) -> int:
    """Run the tool on this machine, on this terminal."""
    command = tools.here(words, Path(options.project or ".").expanduser())
    if options.dry_run:
        return _show(command, "this machine", options)
    if options.read_only:
        raise RefusedError(
            "Nothing was run: this console was started with --read-only.", "Start it without."
        )
    complain(f"$ {shlex.join(command.argv)}")
    return finding_code(subprocess.run(command.argv, cwd=command.directory, check=False).returncode)


def _on_pod(options: argparse.Namespace, words: list[str]) -> int:
    """Run the tool in the checkout of a pod, with the pod's own login, and print what it said."""
    command = tools.there(words, options.project or "prime-rl")
    if options.dry_run:
        return _show(command, Inventory().get(options.pod).name, options)
    pod = to_act_on(options)
    complain(f"{pod.name} $ {shlex.join(command.argv)}")

    async def ended() -> int | None:
        link = transport(pod)
        try:
            done = await link.run(command.on_pod(), timeout=_POD_S)
        finally:
            await link.close()
        sys.stdout.write(done.stdout.decode(errors="replace"))
        sys.stderr.write(done.stderr.decode(errors="replace"))
        return done.exit_status

    status = asyncio.run(ended())
    if status == tools.NO_TOOL:
        raise tools.absent(command.tool, pod.name)
    if status == tools.NO_DIRECTORY:
        raise UsageError(
            f"{pod.name} has no directory {command.directory}.", "Name it with --project."
        )
    return finding_code(status != 0)


def _show(command: tools.Command, place: str, options: argparse.Namespace) -> int:
    """Print the command, and return 0."""
    if options.json:
        emit("envs-command", place=place, directory=command.directory, argv=command.argv)
    else:
        print(f"on {place}, in {command.directory}:\n  $ {shlex.join(command.argv)}")
    return 0


def _evaluate(options: argparse.Namespace) -> int:
    """Show model, price and budget, and evaluate if they fit and a person agrees."""
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
    code = _here(options, [*planned.words(), *options.words, *options.overrides])
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
