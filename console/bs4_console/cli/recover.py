"""The command `recover`: watch runs whose machine may be lost, and continue them on another machine
as far as recover.toml allows.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from bs4_console import assets, files
from bs4_console.checkpoints.listing import size
from bs4_console.cli import sessions
from bs4_console.cli.actions import tell_incident
from bs4_console.cli.output import complain, emit
from bs4_console.errors import (
    FINDING,
    REFUSED,
    UNREACHABLE,
    ConsoleError,
    RefusedError,
    UsageError,
)
from bs4_console.locations import data_dir, private
from bs4_console.pods import placed_keys
from bs4_console.pods.inventory import Inventory, Pod
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import PodState
from bs4_console.recovery import config as controller_config
from bs4_console.recovery.config import RunConfig
from bs4_console.setup import credentials as secrets

if TYPE_CHECKING:
    from bs4_console.provision.rent import Provisioner
    from bs4_console.recovery.controller import Controller
    from bs4_console.recovery.recovery_types import Outcome

#: The file that each choice of --print is printed from.
_PRINTED = {"systemd": "systemd.service", "cron": "cron.txt", "github": "github.yml"}
#: Seconds between two polls of a recovery that waits for a phase.
_STEP_S = 5.0
#: The exit codes of single runs, worst last, to choose the exit code of several runs.
_WORSE = (0, REFUSED, UNREACHABLE, FINDING)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `recover` to its parser."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--once", action="store_true", help="one look, and what follows from it (the default)"
    )
    how.add_argument("--watch", action="store_true", help="look again and again, until Ctrl-C")
    how.add_argument(
        "--print",
        choices=tuple(_PRINTED),
        help="print a systemd unit, a crontab line or a GitHub workflow, and end",
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="which runs, for how much (default: recover.toml beside pods.toml)",
    )
    parser.add_argument("--run", dest="name", metavar="NAME", help="only this run of it")
    parser.add_argument(
        "--plan", metavar="HASH", help="confirm the plan of --run that an earlier look has shown"
    )
    parser.add_argument(
        "--moved",
        action="store_true",
        help="--run was moved by hand to the pod that its table names now",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="look, show what would be done, and do nothing"
    )
    parser.add_argument(
        "--every",
        type=float,
        default=60.0,
        metavar="S",
        help="with --watch: seconds between two looks (default: 60)",
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=480.0,
        metavar="S",
        help="with --once: for how long a recovery is followed (default: 480)",
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing while all is well")
    parser.add_argument("--json", action="store_true", help="JSON objects instead of text")


def run(options: argparse.Namespace) -> int:
    """Look once at each run of recover.toml whose machine may be lost, recover it if the file
    allows that, and return the worst exit code of the runs: 0 the run is well, 1 it was not
    recovered, 3 its state is unknown, 4 a plan waits to be confirmed. With --watch, look again and
    again until cancelled. With --print, only print a systemd unit, a crontab line or a GitHub
    workflow for this command. Raises RefusedError if the console is read-only, except with
    --dry-run, and UsageError for a run that the file does not name.
    """
    if options.print:
        text = (assets.find("configs") / "recover" / _PRINTED[options.print]).read_text(
            encoding="utf-8"
        )
        print(text.replace("@BS4_CONSOLE@", shutil.which("bs4-console") or "bs4-console"), end="")
        return 0
    if (options.plan or options.moved) and not options.name:
        raise UsageError("--plan and --moved are said of one run.", "Name it with --run.")
    if options.read_only and not options.dry_run:
        raise RefusedError(
            "Nothing was done: this console was started with --read-only.", "Look with --dry-run."
        )
    known = controller_config.read(options.config)
    if options.name and options.name not in known:
        raise UsageError(f"There is no run {options.name} in it.", f"It names {', '.join(known)}.")
    chosen = [known[options.name]] if options.name else list(known.values())
    if options.watch:
        asyncio.run(_watch(options, chosen))
        return 0
    return asyncio.run(_once(options, chosen))


async def _watch(options: argparse.Namespace, chosen: Sequence[RunConfig]) -> None:
    """Watch each run until cancelled. An error of one run is printed and the run is tried again; it
    ends no other run. Raises UsageError only if all runs are configured wrongly.
    """
    wrong: set[str] = set()

    async def one(config: RunConfig) -> None:
        said = ""
        while True:
            try:
                async with controller_of(options, config) as controller:
                    while True:
                        outcome = await controller.poll()
                        wrong.discard(config.run)
                        said = _tell(options, config, outcome, said)
                        await asyncio.sleep(
                            _STEP_S if outcome.word == "recovering" else options.every
                        )
            except ConsoleError as error:
                if isinstance(error, UsageError):
                    wrong.add(config.run)
                    if len(wrong) == len(chosen):
                        raise
                if str(error) != said:
                    said = str(error)
                    complain(f"{config.run}: {said}")
            await asyncio.sleep(options.every)

    await asyncio.gather(*(one(config) for config in chosen))


async def _once(options: argparse.Namespace, chosen: Sequence[RunConfig]) -> int:
    """Look at each run once, and follow a recovery for up to --patience seconds. Return the worst
    exit code.
    """

    async def one(config: RunConfig) -> int:
        try:
            async with controller_of(options, config) as controller:
                deadline = asyncio.get_running_loop().time() + options.patience
                said = ""
                while True:
                    outcome = await controller.poll()
                    said = _tell(options, config, outcome, said)
                    if outcome.word != "recovering" or asyncio.get_running_loop().time() > deadline:
                        await controller.close()
                        return outcome.exit_code
                    await asyncio.sleep(_STEP_S)
        except ConsoleError as error:
            complain(f"{config.run}: {error}")
            return error.exit_code

    codes = await asyncio.gather(*(one(config) for config in chosen))
    return max(codes, key=lambda code: _WORSE.index(code) if code in _WORSE else len(_WORSE))


def _tell(options: argparse.Namespace, config: RunConfig, outcome: Outcome, said: str) -> str:
    """Print the outcome if it is new, and return its sentence for the next comparison."""
    quiet = options.quiet and outcome.exit_code == 0 and outcome.word == "watching"
    keys, sentence = _to_rotate(outcome)
    if options.json and not quiet:
        emit(
            "recovery",
            run=config.run,
            outcome=outcome.word,
            sentence=outcome.sentence,
            code=outcome.exit_code,
            verdict=outcome.verdict,
            plan=outcome.plan,
            lost=outcome.lost or None,
            rotate=keys,
        )
    elif outcome.sentence != said and not quiet:
        print(f"{config.run}: {outcome.sentence}", flush=True)
        for line in _plan_lines(outcome):
            print(f"  {line}")
        if sentence:
            print(f"  {sentence}")
    return outcome.sentence


def _to_rotate(outcome: Outcome) -> tuple[list[str], str]:
    """Return the keys that were on the pod that was lost, and the sentence that says to rotate
    them. Both are empty if no pod was lost.
    """
    if not outcome.lost:
        return [], ""
    keys = placed_keys.placed(sessions.kept_state(outcome.lost).ledger)
    return [str(key) for key in keys], placed_keys.rotation(outcome.lost, keys)


def _plan_lines(outcome: Outcome) -> list[str]:
    """Return the lines about an outcome's plan."""
    plan = outcome.plan
    if plan is None:
        return []
    offer = plan.get("offer")
    lost = "unknown" if plan["steps_lost"] is None else plan["steps_lost"]
    lines = [
        f"restore step {plan['step']} ({size(plan['bytes'])}); steps lost: {lost}",
        (
            f"rent at or under ${plan['most']:.2f} an hour; spent ${plan['spent_today']:.2f} "
            f"today, ${plan['spent']:.2f} in all"
        ),
    ]
    if offer is not None:
        lines.append(
            f"now: {offer['provider']} {offer['count']}x {offer['gpu']} at ${offer['price']:.2f} "
            "an hour"
        )
    elif "offer" in plan:
        lines.append("now: no such offer")
    return lines


@contextlib.asynccontextmanager
async def controller_of(
    options: argparse.Namespace, config: RunConfig
) -> AsyncIterator[Controller]:
    """Open, for the length of an `async with` block, the controller that watches the run of
    `config` and moves it to another machine if its own is lost. Raises RefusedError if another
    process on this machine controls the run already. Raises UsageError if a value of `config`
    cannot be used.
    """
    from bs4_console.checkpoints.sync import open_store, place_of
    from bs4_console.checks import outside
    from bs4_console.recovery.controller import Controller
    from bs4_console.recovery.lease import Lease
    from bs4_console.recovery.recovery_io import RealHands
    from bs4_console.recovery.state import Records, Where

    place = private(data_dir() / "recover" / config.run)
    with files.alone(
        place / "lock", f"Another `recover` looks after {config.run} on this machine."
    ):
        given = _credentials(config)
        bucket = place_of(config.store)
        store = await asyncio.to_thread(open_store, bucket, given)
        address = f"b2://{bucket.bucket}/{config.layout.recovery}"
        records = Records(store=store, layout=config.layout, directory=place, place=address)
        lease = Lease(
            store,
            config.layout,
            sessions.who(),
            mine=records.leases(),
            note=lambda version: records.note("lease", version=version),
        )
        first = Where(pod=config.pod)
        for pod in Inventory().list():
            if pod.name == config.pod:
                first = Where(
                    pod=pod.name,
                    provider=pod.provider or "",
                    instance=pod.instance or "",
                    price=pod.price,
                )
        hands = RealHands(
            config=config,
            store=store,
            reach=_Reach(),
            provisioner=lambda only: _provisioner(config, only),
            public_key=_public_key(config),
            credentials=given,
            outside=outside.ask,
            tell=functools.partial(tell_incident, as_json=options.json),
        )
        yield Controller(
            records=records,
            lease=lease,
            hands=hands,
            first=first,
            limits=config.limits,
            mode="auto" if config.mode == "auto" else "ask",
            confirm=options.plan or "",
            moved=options.moved,
            dry=options.dry_run,
        )


def _credentials(config: RunConfig) -> secrets.Credentials:
    """Return the credentials that recover.toml names for a run. Raises UsageError if there are
    none.
    """
    if not config.credentials:
        raise UsageError(
            f"{config.run} has no credentials in recover.toml.",
            "Name a private file with the store's key there.",
        )
    return secrets.read(files.private_text(Path(config.credentials).expanduser()).splitlines())


def _public_key(config: RunConfig) -> str:
    """Return the public key for new machines. Raises UsageError if it cannot be read."""
    path = Path(f"{config.identity_file}.pub").expanduser()
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} cannot be read.",
            "Name the SSH key that opens new machines as identity_file in recover.toml.",
        ) from error


@contextlib.asynccontextmanager
async def _provisioner(config: RunConfig, only: str) -> AsyncIterator[Provisioner]:
    """Open a Provisioner while the block runs: for the provider `only`, or for all that
    recover.toml names if `only` is "". `only` need not be in recover.toml any more, because a
    machine there must still be looked after.
    """
    import httpx

    from bs4_console import providers
    from bs4_console.providers import keys
    from bs4_console.provision.rent import Provisioner
    from bs4_console.recovery.recovery_io import KeyedBook

    async with httpx.AsyncClient() as client:
        names = (only,) if only else config.providers or keys.known()
        yield Provisioner(
            [providers.make(name, client) for name in names],
            KeyedBook(),
            sessions.who(),
            say=complain,
        )


class _Reach:
    """Reaches pods over SSH, with this machine's inventory, keys and mirror."""

    def linked(
        self, pod: Pod, *, deploy: bool, timeout: float
    ) -> AbstractAsyncContextManager[PodSession]:
        """Open a session with a pod."""
        return sessions.linked(pod, deploy=deploy, timeout=timeout)

    def kept(self, pod: Pod) -> PodState:
        """Return a pod's state as this machine has kept it."""
        return sessions.kept_state(pod.name)

    def pinned(self, pod: str) -> Sequence[str]:
        """Return the pinned host keys of a pod."""
        return sessions.host_keys().pinned(pod)

    def pin(self, pod: str, key: str) -> None:
        """Pin a host key for a pod."""
        sessions.host_keys().pin(pod, key)

    async def store_ready(self, pod: Pod) -> None:
        """Install b2sdk on a pod if it is not there."""
        reached = sessions.transport(pod)
        try:
            await reached.bring_store_library(lambda text: complain(f"{pod.name}: {text}"))
        finally:
            await reached.close()
