"""From a pod's name to a session with it: the one place where transport and mirror meet."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import getpass
import os
import socket
import sys
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import TYPE_CHECKING, Literal

from bs4_console.cli.output import complain
from bs4_console.errors import RefusedError
from bs4_console.fleet.watched import Fleet, Source
from bs4_console.locations import data_dir
from bs4_console.pods.inventory import Inventory, Pod
from bs4_console.pods.mirror import Mirror
from bs4_console.pods.port import Transport
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import PodState

if TYPE_CHECKING:
    import argparse

    from bs4_console.transport.login import Passphrases

#: Seconds for which a command tries to get a lost link back before it gives up.
PATIENCE_S = 60.0


def who() -> str:
    """Who acts, as claimed: recorded in the pod's journal, proof of nothing."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def ask_passphrase(path: str) -> str | None:
    """Asks on the terminal for the passphrase of one key file; None where there is no terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    return getpass.getpass(f"Passphrase for {path}: ")


@functools.cache
def _passphrases() -> Passphrases:
    """One memory of passphrases for all pods: a key is asked for once."""
    from bs4_console.transport.login import Passphrases

    return Passphrases(ask_passphrase)


def transport(pod: Pod) -> Transport:
    """SSH, or a subprocess for the machine one sits on."""
    if pod.is_local:
        from bs4_console.transport.local import LocalTransport

        return LocalTransport(pod)
    from bs4_console.transport.hostkeys import HostKeys
    from bs4_console.transport.ssh import SshTransport

    return SshTransport(pod, HostKeys(), passphrases=_passphrases())


Keep = Literal["all", "records", "nothing"]


def session(
    pod: Pod, *, deploy: bool = True, keep: Keep = "all", read_only: bool = False
) -> PodSession:
    """Return a session with a pod.

    `keep` says what of the pod is kept on this machine: all that is read (the screen), the records
    of its runs (commands, so that a run that no screen has seen has a record too), or nothing.
    `read_only`: nothing is done to the pod, so no agent is brought there either; one that is there
    is asked.
    """
    read_only = read_only or pod.read_only
    state = PodState(name=pod.name, address=pod.address, read_only=read_only)
    mirror = Mirror(
        data_dir() / "pods" / pod.name, write=keep != "nothing", records_only=keep == "records"
    )
    return PodSession(state, lambda: transport(pod), mirror, who(), deploy=deploy and not read_only)


def to_act_on(options: argparse.Namespace) -> Pod:
    """The pod that a command wants to change; RefusedError, before anything is sent, where console
    or pod are read-only.
    """
    pod = Inventory().get(options.pod)
    if options.read_only:
        raise RefusedError(
            f"Nothing was done to {pod.name}: this console was started with --read-only.",
            "Start it without, to act.",
        )
    if pod.read_only:
        raise RefusedError(
            f"Nothing was done to {pod.name}: it is read-only here.",
            "Remove read_only from it in pods.toml, to act.",
        )
    return pod


def pods(name: str | None) -> Sequence[Pod]:
    """The named pod, or all of the inventory."""
    inventory = Inventory()
    if name:
        return [inventory.get(name)]
    return inventory.list()


def fleet(read_only: bool = False) -> Fleet:
    return Fleet(
        outside=True, source=Source(Inventory(), functools.partial(session, read_only=read_only))
    )


@contextlib.asynccontextmanager
async def linked(
    pod: Pod, *, deploy: bool = True, timeout: float = 60.0
) -> AsyncIterator[PodSession]:
    """A session that is connected and has read the pod's state; the link's own error when it cannot
    be.

    A link that is lost later is made again for up to a minute, as what runs on the pod goes on;
    then its error ends the block.
    """
    live = session(pod, deploy=deploy, keep="records")
    life = asyncio.create_task(live.run_once(PATIENCE_S))
    try:
        await _first(life, live.synced(timeout))
        live.state.listeners.append(_Link(pod.name).look)
        async with _ending_with(life):
            yield live
    finally:
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)
        await live.close()


async def _first(life: asyncio.Task[None], ready: Coroutine[None, None, None]) -> None:
    """Until `ready`, or the error of whichever fails first."""
    waiting = asyncio.create_task(ready)
    try:
        await asyncio.wait((life, waiting), return_when=asyncio.FIRST_COMPLETED)
        if life.done():
            life.result()
        await waiting
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


@contextlib.asynccontextmanager
async def _ending_with(life: asyncio.Task[None]) -> AsyncIterator[None]:
    """The block is cancelled when `life` fails, and raises its error (as asyncio.timeout does with
    its own).
    """
    body = asyncio.current_task()
    if body is None:
        raise RuntimeError("a session needs a task")
    failed: list[BaseException] = []

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            failed.append(error)
            body.cancel()

    life.add_done_callback(ended)
    try:
        yield
    except asyncio.CancelledError:
        if failed and body.uncancel() == 0:
            raise failed[0] from None
        raise
    finally:
        life.remove_done_callback(ended)


class _Link:
    """Says on stderr when the link is lost and when it is back."""

    def __init__(self, name: str) -> None:
        self._name, self._up = name, True

    def look(self, state: PodState) -> None:
        link = state.link
        if link.up and not self._up:
            complain(f"{self._name} is connected again.")
            self._up = True
        elif self._up and not link.up and link.detail:
            complain(f"{link.detail} {link.next_step}".strip())
            self._up = False


def is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def ask(question: str) -> str:
    """One line from the terminal, stripped; empty when it ended instead (Ctrl-D). The question goes
    to stderr: stdout may be a file.
    """
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip()
