"""The command `pods`: the inventory, and whether each pod can be reached."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import os
import sys
import time
from pathlib import Path

from bs4_console.cli import boot_hook, pod_key, setup, sync
from bs4_console.cli.output import complain, emit, table
from bs4_console.cli.sessions import ask, can_ask, host_keys, is_terminal, pods, session, transport
from bs4_console.errors import HostKeyUnknown, LinkError, LooksOnly, RefusedError, UsageError
from bs4_console.pods import placed_keys
from bs4_console.pods.inventory import Inventory, Pod
from bs4_console.pods.state import PodState
from bs4_console.run_log import hardware


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pods` and its subcommands to its parser."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    add = verbs.add_parser("add", help="remember a pod and confirm its host key")
    add.add_argument("name", help="how to call it, here and on the screen")
    add.add_argument(
        "host",
        help="HOST, USER@HOST, USER@HOST:PORT, an alias of ~/.ssh/config, or `local` for this "
        "machine",
    )
    add.add_argument("--port", type=int, help="SSH port")
    add.add_argument("--user", help="login name")
    add.add_argument("--identity", metavar="FILE", help="private key file")
    add.add_argument("--jump", metavar="USER@HOST[:PORT]", help="ProxyJump, several with commas")
    acting = add.add_mutually_exclusive_group()
    acting.add_argument("--read-only", action="store_true", help="no action will be possible on it")
    acting.add_argument(
        "--may-act",
        action="store_true",
        help="actions will be possible on it (the default, which a terminal asks about)",
    )
    add.add_argument(
        "--price",
        type=float,
        metavar="DOLLARS",
        help="what it costs an hour; launches and the run log say what a run costs",
    )
    add.add_argument(
        "--notes",
        default="",
        metavar="TEXT",
        help="what else to remember, such as the type and region of a machine rented by hand",
    )
    add.add_argument(
        "--fingerprint",
        metavar="SHA256:...",
        help="accept this host key and no other, without asking",
    )
    add.add_argument(
        "--no-connect",
        action="store_true",
        help="only remember it; the key is confirmed by `pods test` later",
    )
    verbs.add_parser("list", help="all pods of the inventory")
    show = verbs.add_parser("show", help="all that is known of one pod")
    remove = verbs.add_parser(
        "remove", help="forget a pod and its host key; nothing is done on the pod"
    )
    test = verbs.add_parser(
        "test", help="connect, confirm an unknown host key, and say what is there"
    )
    test.add_argument(
        "--fingerprint",
        metavar="SHA256:...",
        help="accept this host key and no other, without asking",
    )
    for verb in (show, remove, test):
        verb.add_argument("name", help="which pod of the inventory")
    imports = verbs.add_parser("import", help="take over the hosts of ~/.ssh/config")
    imports.add_argument("aliases", nargs="*", help="only these; without any, all of them")
    imports.add_argument("--config", metavar="FILE", help="instead of ~/.ssh/config")
    make = verbs.add_parser(
        "setup",
        help="make a bare pod ready to train: uv, prime-rl, environments, limits, credentials; a "
        "plan first",
    )
    setup.configure(make)
    send = verbs.add_parser(
        "sync", help="bring a directory of code to a pod, by rsync or SFTP; a plan first"
    )
    sync.configure(send)
    hook = verbs.add_parser(
        "boot-hook",
        help="what starts the agent again when the pod comes back: is it there, print it, put it "
        "there",
    )
    boot_hook.configure(hook)
    key = verbs.add_parser(
        "key", help="print the line for authorized_keys with which a key may look and not act"
    )
    pod_key.configure(key)
    for verb in verbs.choices.values():
        verb.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(options: argparse.Namespace) -> int:
    """Run the subcommand of `pods` that `options.verb` names, and return its exit code. `add`,
    `list`, `show`, `remove` and `import` manage the inventory, this console's list of pods; `test`
    connects to a pod. `sync`, `setup`, `boot-hook` and `key` have modules of their own. The code is
    0 if the subcommand succeeded.
    """
    waiting = {"setup": setup.run, "boot-hook": boot_hook.run}
    if options.verb in waiting:
        return asyncio.run(waiting[options.verb](options))
    verbs = {
        "add": _add,
        "list": _list,
        "show": _show,
        "remove": _remove,
        "test": _test,
        "import": _import,
        "sync": sync.run,
        "key": pod_key.run,
    }
    return verbs[options.verb](options)


def _add(options: argparse.Namespace) -> int:
    """Add a pod to the inventory and confirm its host key. Return the exit code."""
    pod = _pod(options)
    if can_ask(options) and not (options.read_only or options.may_act):
        answer = ask(f"Only look at {pod.name}, and never act on it? Type yes, or Enter for no: ")
        pod = dataclasses.replace(pod, read_only=answer == "yes")
    Inventory().add(pod)
    if options.no_connect or pod.is_local:
        return _print(pod, options.json)
    try:
        return asyncio.run(_contact(pod, options.fingerprint, options.json))
    except LinkError as error:
        # The pod stays in the inventory: usually the machine is still booting, and nothing was
        # trusted.
        complain(
            f"{error} {pod.name} is in the inventory; `bs4-console pods test {pod.name}` "
            "tries again."
        )
        return error.exit_code


def _pod(options: argparse.Namespace) -> Pod:
    """Return the pod that the command line describes. Raises UsageError if the port is wrong."""
    if options.host == "local":
        return Pod(
            name=options.name,
            host="localhost",
            provider="local",
            read_only=options.read_only,
            price=options.price,
            notes=options.notes,
        )
    user, _, host = options.host.rpartition("@")
    port = options.port
    if host.count(":") == 1:
        host, _, text = host.partition(":")
        if not text.isdigit():
            raise UsageError(f"{text!r} is not a port.", "Write HOST:PORT with a number.")
        port = port or int(text)
    return Pod(
        name=options.name,
        host=host,
        port=port,
        user=options.user or user or None,
        identity_file=_whole(options.identity),
        jump=options.jump,
        read_only=options.read_only,
        price=options.price,
        notes=options.notes,
    )


def _whole(identity: str | None) -> str | None:
    """Return the whole path of a key file, because the next command may run in another directory.
    Raises UsageError if there is no such file.
    """
    if identity is None:
        return None
    path = Path(os.path.normpath(Path(identity).expanduser().absolute()))
    if not path.is_file():
        raise UsageError(f"There is no key file {path}.", "Give --identity with the private key.")
    return str(path)


def _test(options: argparse.Namespace) -> int:
    """Connect to a pod and print what is there. Return the exit code."""
    return asyncio.run(_contact(Inventory().get(options.name), options.fingerprint, options.json))


async def _contact(pod: Pod, fingerprint: str | None, as_json: bool) -> int:
    """Connect to a pod and return the exit code. An unknown host key is shown and pinned only after
    a person's yes, or if it is the expected one. The agent is not deployed.
    """
    link = transport(pod)
    looks_only = False
    try:
        while True:
            started = time.monotonic()
            try:
                done = await link.run(["uname", "-sm"])
                machine = done.stdout.decode("utf-8", "replace").strip()
                break
            except LooksOnly:
                machine, looks_only = "", True
                break
            except HostKeyUnknown as error:  # of the pod, or of a jump host before it
                _confirm(error, pod, fingerprint)
                host_keys().pin(error.entry, error.key)
        seconds = time.monotonic() - started
    finally:
        await link.close()
    if as_json:
        emit(
            "pod-test",
            pod=pod.name,
            reachable=True,
            seconds=round(seconds, 3),
            machine=machine,
            looks_only=looks_only,
        )
    else:
        what = machine
        if looks_only:
            what = "the key of this login may only look"
        print(f"{pod.name} answers in {seconds:.2f} s ({what}).")
    return 0


def _confirm(error: HostKeyUnknown, pod: Pod, expected: str | None) -> None:
    """Raise RefusedError unless the host key is the expected one or a person accepts it."""
    again = f"`bs4-console pods test {pod.name} --fingerprint {error.fingerprint}`"
    if expected == error.fingerprint:
        return
    if expected is not None:
        raise RefusedError(
            f"{error.entry} shows the host key {error.fingerprint}, not {expected}. It was not "
            "trusted and nothing was sent."
        )
    if not is_terminal():
        raise RefusedError(error.message, f"{error.next_step} Without a terminal: {again}.")
    sys.stderr.write(f"{error.message}\n{error.next_step}\n")
    if ask("Is this its key? Type yes: ") != "yes":
        raise RefusedError("The key was not trusted and nothing was sent.", f"Later: {again}.")


def _fields(pod: Pod) -> dict[str, str | float | bool | tuple[str, ...]]:
    """Return the fields of a pod that are set in the inventory."""
    known = dataclasses.asdict(pod).items()
    found = {}
    for key, value in known:
        if value not in (None, "", ()):
            found[key] = value
    return found


def _print(pod: Pod, as_json: bool) -> int:
    """Print one pod, and return 0."""
    if as_json:
        emit("pod", **_fields(pod))
    else:
        print(f"{pod.name}: {pod.address or pod.host}" + (" (read-only)" if pod.read_only else ""))
    return 0


def _list(options: argparse.Namespace) -> int:
    """Print the inventory, and return 0."""
    known = pods(None)
    if options.json:
        emit("pods", pods=[_fields(pod) for pod in known])
    elif not known:
        print("No pod is known yet. Add one with `bs4-console pods add NAME HOST`.")
    else:
        table(
            [
                [p.name, p.address, p.provider or "", "read-only" if p.read_only else "", p.notes]
                for p in known
            ],
            ["name", "address", "provider", "", "notes"],
        )
    return 0


def _show(options: argparse.Namespace) -> int:
    """Print everything that is known of one pod, and return 0. The pod is not contacted."""
    from bs4_console.transport.hostkeys import fingerprint

    pod = Inventory().get(options.name)
    live = session(pod, keep="nothing")
    live.replay()
    keys = [f"{key.split()[0]} {fingerprint(key)}" for key in host_keys().pinned(pod.name)]
    runs = [
        {"name": run.name, "state": run.word, "step": run.step} for run in live.state.runs.values()
    ]
    on_it = [str(key) for key in placed_keys.placed(live.state.ledger)]
    age = live.state.age()
    machine = _machine(pod, live.state)
    if options.json:
        emit(
            "pod",
            **_fields(pod),
            machine=machine,
            disks=hardware.disks(live.state),
            host_keys=keys,
            placed_keys=on_it,
            runs=runs,
            seen_s=None if age is None else round(age, 1),
        )
        return 0
    for key, value in _fields(pod).items():
        print(f"{key:14} {value}")
    for key, value in machine.items():
        print(f"{key:14} {value}")
    for line in hardware.disks(live.state):
        print(f"{'disk':14} {line}")
    for line in keys:
        print(f"{'host key':14} {line}")
    for line in on_it:
        print(f"{'key on it':14} {line}")
    for run in runs:
        print(
            f"{'run':14} {run['name']} ({run['state']}, last step {run['step']}) as last seen"
            + (f" {age:.0f} s ago" if age else "")
        )
    return 0


def _machine(pod: Pod, state: PodState) -> dict[str, str]:
    """Return what is known of a pod's machine: what its newest telemetry says, and the type and
    region of the offer by which this console rented it.
    """
    from bs4_console.provision.book import Book

    found = hardware.seen(state)
    for intent in Book().intents() if pod.instance else ():
        if (intent.provider, intent.machine) == (pod.provider, pod.instance):
            offer = intent.offer
            found["type"] = f"{offer.get('count')} x {offer.get('gpu')}, offer {offer.get('id')}"
            found["region"] = str(offer.get("region") or "unknown")
    return found


def _remove(options: argparse.Namespace) -> int:
    """Remove a pod and its host key from this machine, and return 0."""
    pod = Inventory().remove(options.name)
    forgotten = host_keys().forget(pod.name)
    if options.json:
        emit("pod-removed", pod=pod.name, host_key_forgotten=forgotten)
    else:
        print(
            f"{pod.name} is forgotten here, with its host key. Nothing was done on the pod; "
            "what was read from it is kept."
        )
    return 0


def _import(options: argparse.Namespace) -> int:
    """Add hosts of an SSH config to the inventory, and return 0."""
    from bs4_console.pods.ssh_aliases import candidates, default_path

    path = Path(options.config).expanduser() if options.config else default_path()
    found = candidates(path)
    by_name = {pod.name: pod for pod in found.pods}
    for name in options.aliases:
        if name not in by_name:
            raise UsageError(
                f"{path} has no host {name!r} that could be a pod.",
                f"It has {', '.join(by_name) or 'none'}.",
            )
    inventory = Inventory()
    there = {pod.name for pod in inventory.list()}
    added, known = [], []
    for name in options.aliases or by_name:
        if name in there:
            known.append(name)
        else:
            inventory.add(by_name[name])
            added.append(name)
    if options.json:
        skipped = [{"alias": alias.name, "reason": reason} for alias, reason in found.skipped]
        emit("pods-import", added=added, known=known, skipped=skipped)
        return 0
    for name in options.aliases or by_name:
        if name in added:
            print(f"{name} added; `bs4-console pods test {name}` confirms its host key.")
        else:
            complain(f"{name} is in the inventory already; left as it is.")
    for alias, reason in found.skipped:
        complain(f"{alias.name} ({alias.file} line {alias.line}) was left out: {reason}")
    return 0
