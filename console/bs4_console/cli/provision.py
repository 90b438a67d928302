"""The command `provision`: compare machines of several providers by their whole price, rent one
exactly once, and end it for certain.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import re
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import httpx

from bs4_console import providers
from bs4_console.cli import run_costs
from bs4_console.cli.first_contact import introduce
from bs4_console.cli.output import complain, emit, finding_code, table
from bs4_console.cli.sessions import ask, can_ask, confirm, host_keys, kept_state, who
from bs4_console.errors import (
    REFUSED,
    UNREACHABLE,
    ConsoleError,
    HostKeyUnknown,
    RefusedError,
    UsageError,
)
from bs4_console.pods import placed_keys
from bs4_console.pods.inventory import Inventory, Pod
from bs4_console.providers import gpus, keys
from bs4_console.providers.base import Machine, Offer, Want
from bs4_console.provision.book import Book
from bs4_console.provision.pod import remember
from bs4_console.provision.rent import Listed, Plan, Provisioner
from bs4_console.suggest import did_you_mean


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `provision` and its subcommands to its parser."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    search = verbs.add_parser(
        "search", help="what can be had now, of all providers with a key, cheapest first"
    )
    _wants(search)
    create = verbs.add_parser(
        "create", help="rent one machine for a run: a plan first, then once and for certain"
    )
    _wants(create)
    create.add_argument(
        "--run", dest="name", metavar="NAME", help="the run that it is for: a run has one machine"
    )
    create.add_argument(
        "--plan",
        nargs="?",
        const="",
        metavar="HASH",
        help="only show the plan; with its hash: carry out just that one",
    )
    create.add_argument(
        "--max-spend",
        type=float,
        metavar="DOLLARS",
        help="refuse when what the run has cost and --hours more exceed it",
    )
    create.add_argument(
        "--hours",
        type=float,
        default=24.0,
        metavar="N",
        help="how long it is planned to be used (default: 24)",
    )
    create.add_argument(
        "--fallbacks",
        type=int,
        default=2,
        metavar="N",
        help="further offers to try when one is surely gone (default: 2)",
    )
    create.add_argument(
        "--another", action="store_true", help="though the run has a machine already"
    )
    create.add_argument(
        "--identity",
        metavar="FILE",
        help="private key to log in with; FILE.pub is what goes there (~/.ssh/id_ed25519)",
    )
    create.add_argument(
        "--pod", metavar="NAME", help="what to call it in the inventory (default: the run's name)"
    )
    create.add_argument(
        "--fingerprint",
        metavar="SHA256:...",
        help="accept this host key and no other, where the provider tells none",
    )
    create.add_argument(
        "--no-wait",
        action="store_true",
        help="end when the machine exists, without waiting for its SSH",
    )
    listing = verbs.add_parser(
        "list", help="every machine of every account, and what this console knows of it"
    )
    listing.add_argument(
        "--orphans",
        action="store_true",
        help="only those that a console made and nothing here knows",
    )
    balance = verbs.add_parser(
        "balance", help="what every account has left, and how long its machines can run on it"
    )
    balance.add_argument(
        "--hours",
        type=float,
        default=24.0,
        metavar="N",
        help="complain about credit that lasts for less (default: 24)",
    )
    terminate = verbs.add_parser(
        "terminate", help="end one machine with its disk, and look until it is gone"
    )
    terminate.add_argument(
        "machine", metavar="MACHINE", help="PROVIDER:ID, its exact label, or its pod's name"
    )
    terminate.add_argument(
        "--confirm",
        metavar="NAME",
        help="the same name as `provision list` shows for it, to end it without being asked",
    )
    for verb in (search, create, listing, balance):
        verb.add_argument(
            "--provider",
            action="append",
            choices=providers.NAMES,
            help="only this one; may be given again",
        )
    key = verbs.add_parser(
        "key",
        help="store a provider's key, read from standard input, in the keyring or a private file",
    )
    key.add_argument("provider", choices=providers.NAMES, help="whose key it is")
    key.add_argument(
        "--file",
        action="store_true",
        help="in a private file although there is a keyring, for a console that nobody unlocks",
    )
    for verb in (search, create, listing, balance, terminate, key):
        verb.add_argument("--json", action="store_true", help="one JSON object instead of text")


def _wants(parser: argparse.ArgumentParser) -> None:
    """Add the options that describe the wanted machine."""
    parser.add_argument("--gpu", metavar="MODEL", help="H100, H100-SXM, A100-80, RTX-4090, ...")
    parser.add_argument(
        "--count", type=int, default=1, metavar="N", help="GPUs in the machine (default: 1)"
    )
    parser.add_argument(
        "--max-price",
        type=float,
        metavar="DOLLARS",
        help="the most that an hour of the whole machine may cost",
    )
    parser.add_argument("--disk", type=int, default=200, metavar="GB", help="disk (default: 200)")
    parser.add_argument(
        "--region", metavar="TEXT", help="a part of the provider's word for the place"
    )
    parser.add_argument(
        "--reliability",
        type=float,
        metavar="0..1",
        help="at least this, where the provider tells it (vast)",
    )
    parser.add_argument(
        "--cuda",
        metavar="VERSION",
        help="at least this, where the provider can choose by it (vast, runpod)",
    )
    parser.add_argument(
        "--interruptible",
        action="store_true",
        help="cheaper, and may be taken away (vast, prime, verda)",
    )
    parser.add_argument(
        "--image",
        metavar="NAME",
        help="in the provider's own words (default: one with SSH and CUDA)",
    )


def run(options: argparse.Namespace) -> int:
    """Run the subcommand of `provision` that `options.verb` names (key, search, create, list,
    balance or terminate), and return its exit code: 0 if it succeeded; 1 if `search` finds no offer
    within the price, `list --orphans` finds a machine, or a `balance` is short; 3 if a provider
    does not answer; 4 if the host key of a new machine is not confirmed. Raises RefusedError if the
    subcommand would rent or end a machine and the console is read-only or nobody confirmed this.
    """
    if options.verb == "key":
        return _key(options)
    verbs = {
        "search": _search,
        "create": _create,
        "list": _list,
        "balance": _balance,
        "terminate": _terminate,
    }
    if options.read_only and (
        options.verb == "terminate" or (options.verb == "create" and options.plan != "")
    ):
        raise RefusedError(
            "Nothing was done: this console was started with --read-only.",
            "Start it without, to act.",
        )
    return asyncio.run(verbs[options.verb](options))


def _want(options: argparse.Namespace) -> Want:
    """Return the machine that the command line describes. Raises UsageError if something is missing
    or wrong.
    """
    if not options.gpu:
        raise UsageError(
            "Which GPU is wanted was not said.", "Give --gpu, for instance --gpu H100 --count 2."
        )
    if options.count < 1 or options.disk < 1:
        raise UsageError(
            "A machine has at least one GPU and 1 GB of disk.", "Correct --count or --disk."
        )
    if options.cuda is not None and not re.fullmatch(r"\d+\.\d+", options.cuda):
        raise UsageError(f"{options.cuda!r} is no CUDA version.", "Write it as 12.8.")
    return Want(
        gpu=options.gpu,
        count=options.count,
        max_price=options.max_price,
        disk_gb=options.disk,
        region=options.region,
        reliability=options.reliability,
        cuda=options.cuda,
        interruptible=options.interruptible,
        image=options.image,
    )


@contextlib.asynccontextmanager
async def provisioner(
    names: Sequence[str] | None, book: Book | None = None
) -> AsyncIterator[Provisioner]:
    """Open a Provisioner, which rents machines, for the length of an `async with` block. `names`
    are the providers at which it may rent; None means every provider for which a key is stored on
    this machine. `book` is the journal of rented machines; None means the console's own. Raises
    UsageError if no provider has a key or a name is that of no provider, and NoKey if one of
    `names` has none.
    """
    chosen = list(names or keys.known())
    if not chosen:
        raise UsageError(
            "There is no key for any provider.",
            f"Store one: `bs4-console provision key` {'|'.join(providers.NAMES)}.",
        )
    async with httpx.AsyncClient() as client:
        yield Provisioner(
            [providers.make(name, client) for name in chosen],
            book or Book(),
            who(),
            say=complain,
            spent=lambda run: run_costs.of_run(run).total,
        )


async def _search(options: argparse.Namespace) -> int:
    """Print the offers. Return 0 if there are any, 3 if there are none and a provider did not
    answer, and 1 otherwise.
    """
    want = _want(options)
    async with provisioner(options.provider) as rent:
        found = await rent.search(want)
    most = math.inf if want.max_price is None else want.max_price
    cheap = [offer for offer in found.offers if offer.price <= most]
    if options.json:
        emit(
            "provision-offers",
            offers=cheap,
            dearer=len(found.offers) - len(cheap),
            failures=_texts(found.failures),
        )
    else:
        for error in found.failures.values():
            complain(str(error))
        if cheap:
            _table(cheap)
        elif found.offers:
            best = found.offers[0]
            print(
                f"Nothing under ${most:.2f} an hour; the cheapest is "
                f"${best.price:.2f} at {best.provider} ({best.region})."
            )
        elif not found.failures:
            print(_nothing(want))
    if found.failures and not found.offers:
        return UNREACHABLE
    return finding_code(not cheap)


def _nothing(want: Want) -> str:
    """Return the sentence for a search without offers. It suggests a name for a GPU that is not
    known.
    """
    said = f"No offer for {want.count}x {want.gpu} fits."
    if gpus.known(want.gpu):
        return (
            f"{said} Try another --count or --disk, or leave out --region, --reliability, --cuda."
        )
    return f"{said} {want.gpu} is no GPU that is known. {did_you_mean(want.gpu, gpus.names())}"


def _texts(failures: Mapping[str, ConsoleError]) -> dict[str, str]:
    """Return the text of each provider's error."""
    return {name: str(error) for name, error in failures.items()}


def _table(offers: Sequence[Offer]) -> None:
    """Print offers as a table."""
    rows = []
    for offer in offers:
        notes = list(offer.notes)
        if offer.interruptible:
            notes.insert(0, "interruptible")
        rows.append(
            [
                offer.provider,
                offer.id,
                f"{offer.count}x {offer.gpu}",
                f"{offer.price:.2f}",
                f"{offer.disk_gb} GB",
                offer.region,
                "" if offer.reliability is None else f"{offer.reliability:.1%}",
                "; ".join(notes),
            ]
        )
    table(rows, ["provider", "offer", "gpus", "$/hour", "disk", "place", "reliable", ""])


async def _create(options: argparse.Namespace) -> int:
    """Rent one machine after its confirmation. Return the exit code."""
    plan = Plan.kept(options.plan) if options.plan else None
    planned_key = "" if plan is None else plan.identity
    identity, public_key = _identity(options.identity or planned_key or None)
    async with provisioner(options.provider) as rent:
        if plan is None:
            plan = await _planned(options, rent)
        if options.plan == "":
            return 0
        if not options.plan:
            if not can_ask(options):
                raise RefusedError(
                    f"Nothing was rented: confirm the plan with --plan {plan.hash[:16]}."
                )
            confirm(
                f"This rents a machine for up to ${plan.max_price:.2f} an hour. Type yes to do "
                "it: ",
                refused="Nothing was rented.",
            )
        name = _free_name(options.pod or plan.pod or plan.run)
        machine = await rent.create(plan, public_key)
        complain(
            f"{machine.name} is rented as {machine.label}; `bs4-console provision terminate "
            f"{machine.name}` ends it."
        )
        if options.no_wait:
            return _made(options, machine, None, None)
        machine = await rent.up(machine)
        pod = remember(machine, name, identity, rent.book)
        told = (
            (options.fingerprint,)
            if options.fingerprint
            else await rent.providers[machine.provider].host_keys(machine)
        )
    return await _meet(options, machine, pod, told)


async def _planned(options: argparse.Namespace, rent: Provisioner) -> Plan:
    """Make, store and print the plan of renting. Raises UsageError if an option is wrong."""
    if not options.name:
        raise UsageError("create needs --run NAME.", "Say which run the machine is for.")
    if not (math.isfinite(options.hours) and options.hours > 0):
        raise UsageError(f"{options.hours:g} hours cannot be planned.", "Give --hours above 0.")
    if options.max_spend is not None and not (
        math.isfinite(options.max_spend) and options.max_spend > 0
    ):
        raise UsageError(f"${options.max_spend:g} is no spend cap.", "Give --max-spend above 0.")
    stays = run_costs.stays_of(options.name)
    unpriced = sorted({stay.pod for stay in stays if stay.price is None})
    notes = []
    if unpriced:
        notes.append(
            f"What {options.name} has cost on {', '.join(unpriced)} is not counted, because no "
            "price is known (`runs note RUN --price USD`)."
        )
    plan = await rent.plan(
        _want(options),
        options.name,
        max_spend=options.max_spend,
        hours=options.hours,
        fallbacks=options.fallbacks,
        another=options.another,
        notes=notes,
    )
    identity = ""
    if options.identity:
        identity = str(Path(options.identity).expanduser().absolute())
    plan = replace(plan, pod=options.pod or "", identity=identity)
    plan.keep()
    if options.json:
        if options.plan == "":
            emit("provision-plan", **plan.as_dict())
        return plan
    print(f"Rent one machine for {plan.run}, the first of these that can be had:")
    _table(plan.offers)
    cap = "" if plan.max_spend is None else f" of ${plan.max_spend:.2f}"
    print(
        f"  {plan.run} has cost ${plan.spent:.2f}; {plan.hours:g} hours more cost up to "
        f"${plan.planned:.2f}{cap}. It runs until ended."
    )
    opened = plan.identity or "~/.ssh/id_ed25519"
    print(f"  It becomes the pod {plan.pod or plan.run}, opened with {opened}.")
    for note in plan.notes:
        print(f"  {note}")
    accounts, failures = await rent.accounts()
    for account in accounts:
        prices = [offer.price for offer in plan.offers if offer.provider == account.provider]
        if prices:
            print(f"  {account.provider}: {account.told(max(prices))}")
    for error in failures.values():
        print(f"  The balance is not known: {error}")
    print(f"  plan {plan.hash}")
    return plan


async def _meet(
    options: argparse.Namespace, machine: Machine, pod: Pod, told: Sequence[str]
) -> int:
    """Connect to the new machine and pin its host key. Return the exit code. The machine exists
    and costs money whatever happens, so every failure prints what is left to do.
    """
    again = f"`bs4-console pods test {pod.name}`"
    try:
        await introduce(pod, told)
    except HostKeyUnknown as error:
        sys.stderr.write(f"{error.message}\n{error.next_step}\n")
        if not can_ask(options) or ask("Is this its key? Type yes: ") != "yes":
            complain(
                f"{pod.name} is in the inventory, its key is not trusted yet: {again} "
                f"--fingerprint {error.fingerprint} does it."
            )
            _made(options, machine, pod, None)
            return REFUSED
        host_keys().pin(error.entry, error.key)
        told = (error.fingerprint,)
        await introduce(pod, told)
    except ConsoleError as error:
        complain(f"{error} {pod.name} is in the inventory; {again} tries again.")
        _made(options, machine, pod, None)
        return error.exit_code
    return _made(options, machine, pod, told)


def _made(
    options: argparse.Namespace, machine: Machine, pod: Pod | None, told: Sequence[str] | None
) -> int:
    """Print the rented machine, and return 0."""
    if options.json:
        emit(
            "provision-machine",
            machine=machine,
            pod=None if pod is None else pod.name,
            trusted=bool(told),
        )
    elif pod is not None and told:
        print(
            f"{pod.name} is up at {pod.address} and its host key is pinned. Next: "
            f"`bs4-console pods setup {pod.name}`."
        )
    return 0


async def _list(options: argparse.Namespace) -> int:
    """Print the machines of every account. Return 3 if a provider did not answer, 1 if --orphans
    is given and there are some, else 0.
    """
    async with provisioner(options.provider) as rent:
        listed, failures = await rent.listing(Inventory().list())
        doubtful = [intent for intent in rent.book.intents() if intent.state in ("open", "doubt")]
    shown = [entry for entry in listed if entry.orphan or not options.orphans]
    if options.json:
        said = ("label", "provider", "run", "why")
        emit(
            "provision-machines",
            machines=[_entry(entry) for entry in shown],
            failures=_texts(failures),
            in_doubt=[{key: getattr(intent, key) for key in said} for intent in doubtful],
        )
    else:
        _print_machines(shown, "No orphans." if options.orphans else "No machines.")
        for intent in doubtful:
            complain(
                f"{intent.provider}: {intent.label} may exist "
                f"({intent.why or 'its create was interrupted'})."
            )
        for error in failures.values():
            complain(str(error))
    if failures:
        return UNREACHABLE
    return finding_code(options.orphans and shown)


async def _balance(options: argparse.Namespace) -> int:
    """Print what every account has left. Returns 3 if a provider did not answer, 1 if the credit of
    one lasts for less than --hours, else 0.
    """
    if not (math.isfinite(options.hours) and options.hours >= 0):
        raise UsageError(f"{options.hours:g} hours cannot be planned.", "Give --hours from 0 on.")
    async with provisioner(options.provider) as rent:
        accounts, failures = await rent.accounts()
    short, told = [], []
    for account in accounts:
        hours = account.hours()
        if hours is not None and hours <= options.hours:
            short.append(account.provider)
        told.append(
            {
                "provider": account.provider,
                "credit": account.balance.credit,
                "prepaid": account.balance.prepaid,
                "rate": account.rate,
                "hours": None if hours == math.inf else hours,
                "told": account.told(),
            }
        )
    if options.json:
        emit(
            "provision-balance",
            accounts=told,
            short=short,
            failures=_texts(failures),
        )
    else:
        for account in accounts:
            print(f"{account.provider}: {account.told()}")
        for error in failures.values():
            complain(str(error))
    if failures:
        return UNREACHABLE
    return finding_code(short)


def _print_machines(shown: Sequence[Listed], nothing: str) -> None:
    """Print machines as a table, or the sentence `nothing` if there are none."""
    rows = []
    for entry in shown:
        machine = entry.machine
        rows.append(
            [
                machine.name,
                machine.label or "",
                machine.raw_state,
                _money(machine.price),
                entry.pod or "",
                _word(entry),
            ]
        )
    if rows:
        table(rows, ["machine", "label", "state", "$/hour", "pod", ""])
    else:
        print(nothing)


def _entry(entry: Listed) -> dict[str, object]:
    """Return a machine of the list as a JSON object."""
    run = None if entry.intent is None else entry.intent.run
    return {**entry.machine.as_dict(), "run": run, "pod": entry.pod, "orphan": entry.orphan}


def _word(entry: Listed) -> str:
    """Return what this console knows of a machine, in a word."""
    if entry.orphan:
        return "orphan"
    if entry.intent is None:
        return ""
    return f"for {entry.intent.run}"


def _money(price: float | None) -> str:
    """Return a price as text, or "?" if it is not known."""
    if price is None:
        return "?"
    return f"{price:.2f}"


async def _terminate(options: argparse.Namespace) -> int:
    """End one machine after its confirmation. Return the exit code."""
    async with provisioner(None) as rent:
        found, failures = await rent.machines()
        machine = _named(options.machine, found, failures)
        name = machine.label or machine.name
        print(
            f"{machine.name}, label {machine.label or 'none'}, {machine.raw_state}, "
            f"${_money(machine.price)} an hour.",
            file=sys.stderr,
        )
        typed = options.confirm
        if typed is None:
            if not can_ask(options):
                raise RefusedError(
                    "Nothing was ended: its disk goes with it.", f"Confirm with --confirm {name}."
                )
            typed = ask(f"It ends with its disk, for good. Type {name} to end it: ")
        if typed not in (name, machine.name):
            raise RefusedError(
                f"Nothing was ended: {typed!r} is not {name}.", "Type the name exactly."
            )
        await rent.terminate(machine)
    forgotten = _forget(machine)
    if options.json:
        emit("provision-terminated", machine=machine.name, label=machine.label, forgotten=forgotten)
        return 0
    print(f"{machine.name} is gone, by {machine.provider}'s own word.")
    for name in forgotten:
        print(
            f"The pod {name} has left the inventory, with its host key. What this machine keeps of "
            "it stays: its journal, its logs, and its runs in `bs4-console runs list`."
        )
        for key in placed_keys.placed(kept_state(name).ledger):
            print(f"A set-up has put the {key} on it: the key is still valid, revoke it if unused.")
    if not forgotten:
        print("No pod of the inventory was on it. Keys that were brought to it are still valid.")
    return 0


def _forget(machine: Machine) -> list[str]:
    """Remove the pods of an ended machine from the inventory with their host keys, and return their
    names. What the console keeps of them (runs, journals, telemetry) stays.
    """
    inventory = Inventory()
    names = []
    for pod in inventory.list():
        if (pod.provider, pod.instance) == (machine.provider, machine.id):
            inventory.remove(pod.name)
            host_keys().forget(pod.name)
            names.append(pod.name)
    return names


def _named(word: str, found: Sequence[Machine], failures: dict[str, ConsoleError]) -> Machine:
    """Return the one machine that `word` names: by PROVIDER:ID, by its whole label, or by its pod.
    Raises UsageError if there are several or none, or the error of a provider that could not be
    asked.
    """
    named = None
    for pod in Inventory().list():
        if pod.name == word and pod.provider and pod.instance:
            named = (pod.provider, pod.instance)
    same = []
    for machine in found:
        if word in (machine.name, machine.label) or named == (machine.provider, machine.id):
            same.append(machine)
    if len(same) > 1:
        raise UsageError(
            f"{word} means {', '.join(machine.name for machine in same)}.",
            "Say which, as PROVIDER:ID.",
        )
    if same:
        return same[0]
    if failures:
        raise next(iter(failures.values()))
    raise UsageError(f"There is no machine {word}.", "`bs4-console provision list` shows all.")


def _key(options: argparse.Namespace) -> int:
    """Store a provider's key, and return 0."""
    wanted = keys.VARIABLES[options.provider]
    if sys.stdin.isatty():
        import getpass

        text = "\n".join(getpass.getpass(f"{name} (not shown): ") for name in wanted)
    else:
        text = sys.stdin.read(4096)
    kept = keys.store(options.provider, text, in_file=options.file)
    if options.json:
        emit(
            "provision-key",
            provider=options.provider,
            file=str(kept.path),
            keyring=kept.keyring,
            why=kept.why,
        )
        return 0
    if kept.keyring:
        print(f"The key for {options.provider} is in the keyring of this system.")
    else:
        print(f"The key for {options.provider} is in {kept.path}, readable for you alone.")
    if kept.why:
        print(f"It is in no keyring: {kept.why}.")
    return 0


def _identity(given: str | None) -> tuple[str | None, str]:
    """Return the private key file for the inventory, and the public key. Raises UsageError if the
    public key cannot be read.
    """
    path = Path(given or "~/.ssh/id_ed25519").expanduser()
    public = path.with_name(path.name + ".pub")
    try:
        words = public.read_text().split()
    except OSError as error:
        raise UsageError(
            f"{public} cannot be read: {error.strerror}.",
            "Give --identity, or make a key: `ssh-keygen -t ed25519`.",
        ) from None
    if len(words) < 2 or not words[0].startswith(("ssh-", "ecdsa-", "sk-")):
        raise UsageError(
            f"{public} holds no public key.",
            "Give --identity with the private key's file; its .pub lies beside it.",
        )
    return str(path.absolute()), " ".join(words[:3])


def _free_name(wanted: str) -> str:
    """Return the name for the new pod. Raises an error before anything is rented if the inventory
    does not accept the name or already has it.
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", wanted).strip("-.")[:60] or "pod"
    Pod(name=name, host="192.0.2.1")
    if any(pod.name == name for pod in Inventory().list()):
        raise UsageError(
            f"A pod named {name} is already there; nothing was rented.",
            "Choose another name with --pod.",
        )
    return name
