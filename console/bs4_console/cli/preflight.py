"""The command `preflight`: find out what is wrong with a start before the start. It changes nothing
and starts nothing.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import replace

from bs4_console.checks.verdict import UNKNOWN, WORDS
from bs4_console.cli.output import emit
from bs4_console.cli.provision import provisioner
from bs4_console.cli.sessions import linked, pods
from bs4_console.errors import UsageError
from bs4_console.pods.inventory import Pod
from bs4_console.preflight import account
from bs4_console.preflight.examine import Check, Preflight, Wanted, examine
from bs4_console.providers import keys
from bs4_console.trainers import registry

#: The exit code of a usage error, in the codes of `check`.
USAGE_CODE = UNKNOWN
#: The order of the states in the output: what must be done comes first.
_ORDER = ("blocking", "unknown", "warning", "ok")
_WORDS = {"ok": "ok", "warning": "WARNING", "blocking": "BLOCKS", "unknown": "UNKNOWN"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `preflight` to its parser."""
    parser.add_argument("--pod", required=True, metavar="NAME", help="which pod of the inventory")
    parser.add_argument(
        "--config",
        default="",
        metavar="PATH",
        help="the training config, as a path on the pod; without it the pod alone",
    )
    parser.add_argument(
        "--trainer",
        choices=tuple(registry.TRAINERS),
        default="",
        help="prime-rl of January 2026, the current one, or verl",
    )
    parser.add_argument(
        "--run", dest="name", default="", metavar="NAME", help="the name that the run would get"
    )
    parser.add_argument(
        "--cwd",
        default="",
        help="where the trainer is installed on the pod (default: ~/prime-rl; of verl ~/verl)",
    )
    parser.add_argument(
        "--output-dir", default="outputs", help="relative to --cwd, or absolute (default: outputs)"
    )
    parser.add_argument(
        "--resume",
        type=int,
        metavar="STEP",
        help="the step to resume from (default: the newest that is complete)",
    )
    parser.add_argument(
        "--fresh", action="store_true", help="as a start afresh, with what lies there moved aside"
    )
    parser.add_argument(
        "--container",
        default="",
        metavar="NAME",
        help="as a start in this container of the pod, whose Python is asked",
    )
    parser.add_argument(
        "--hub-url", metavar="URL", help="a mirror of the hub; the pod's token is sent there"
    )
    parser.add_argument("--wandb-url", metavar="URL", help="a W&B server of one's own")
    parser.add_argument("--b2-url", metavar="URL", help="another address of the object store")
    parser.add_argument(
        "--timeout",
        type=float,
        default=150.0,
        metavar="S",
        help="seconds after which a look counts as unknown (default 150)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(options: argparse.Namespace) -> int:
    """Run the checks before the start of a run, or only those of the pod if --config is not given,
    and print the results. Return the level of the worst result as the exit code: 0 OK, 1 WARNING, 2
    CRITICAL (a check blocks the start), 3 UNKNOWN. Raises UsageError if only one of --config and
    --trainer is given; for a trainer that comes in a container image, such as verl, --trainer may
    be given alone.
    """
    # A machine for verl is checked before a config is chosen, because what it lacks decides which
    # config is possible.
    machine = not options.config and not registry.of(options.trainer).installed
    if bool(options.config) != bool(options.trainer) and not machine:
        raise UsageError(
            "--config and --trainer go together.", "Give both, or neither to look at the pod alone."
        )
    found = asyncio.run(_examine(options))
    if options.json:
        emit(
            "preflight",
            pod=options.pod,
            status=WORDS[found.level],
            code=found.level,
            checks=found.checks,
            blocking=[check.id for check in found.blocking],
        )
    else:
        for check in sorted(found.checks, key=lambda check: _ORDER.index(check.state)):
            _show(check)
        print(_summary(found))
    return found.level


async def _examine(options: argparse.Namespace) -> Preflight:
    """Connect to the pod and return the results of the checks."""
    urls = {"hub": options.hub_url, "wandb": options.wandb_url, "b2": options.b2_url}
    wanted = Wanted(
        trainer=options.trainer,
        config=options.config,
        run=options.name,
        cwd=options.cwd or registry.of(options.trainer).home,
        output_dir=options.output_dir,
        resume=options.resume if options.resume is not None else "auto",
        fresh=options.fresh,
        container=options.container,
        urls={name: url for name, url in urls.items() if url},
    )
    pod = pods(options.pod)[0]
    async with linked(pod, deploy=False) as live:
        found = await examine(live, wanted, timeout=options.timeout)
    return replace(found, checks=(*found.checks, *await _paid(pod)))


async def _paid(pod: Pod) -> list[Check]:
    """Return the check of the account that pays the pod. Empty if the pod is of no provider for
    which this machine has a key.
    """
    if pod.provider is None or pod.provider not in keys.known():
        return []
    async with provisioner([pod.provider]) as rent:
        return account.judge(*await rent.accounts())


def _show(check: Check) -> None:
    """Print one check."""
    print(f"{_WORDS[check.state]:<8} {check.title} ({check.id}): {check.why}")
    if check.fix:
        print(f"{'':<8} -> {check.fix}")


def _summary(found: Preflight) -> str:
    """Return a line with the number of checks in each state."""
    good, warnings, unknown = (len(found.of(state)) for state in ("ok", "warning", "unknown"))
    told = (
        f"{WORDS[found.level]}: {good} ok, {warnings} warnings, {unknown} unknown, "
        f"{len(found.of('blocking'))} blocking."
    )
    if found.blocking:
        return told
    return f"{told} Nothing that was seen stands against it."
