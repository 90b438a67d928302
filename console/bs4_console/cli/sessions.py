"""Open a session with a pod from its name. This is the one module that combines transport and
mirror.
"""

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
from bs4_console.errors import RefusedError, UsageError
from bs4_console.fleet.watched import Fleet, Source
from bs4_console.locations import data_dir
from bs4_console.pods.inventory import Inventory, Pod
from bs4_console.pods.mirror import Mirror
from bs4_console.pods.port import Transport
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import PodState, RunState

if TYPE_CHECKING:
    import argparse

    from bs4_console.transport.hostkeys import HostKeys
    from bs4_console.transport.login import Passphrases

#: Seconds for which a command tries to reconnect before it gives up.
PATIENCE_S = 60.0


def who() -> str:
    """Return USER@HOST of the person who uses this console. Pods record it in their journals (the
    agents' logs of actions and incidents) as the author of each action. It is only a name and
    proves nothing.
    """
    return f"{getpass.getuser()}@{socket.gethostname()}"


def ask_passphrase(path: str) -> str | None:
    """Ask a person on the terminal for the passphrase of the SSH key file `path`, and return it.
    Return None if there is no terminal.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    return getpass.getpass(f"Passphrase for {path}: ")


@functools.cache
def _passphrases() -> Passphrases:
    """Return the memory of passphrases that all pods share, so that a person types each once."""
    from bs4_console.transport.login import Passphrases

    return Passphrases(ask_passphrase)


def transport(pod: Pod) -> Transport:
    """Return the transport, which is not yet connected, for reaching a pod: SSH, or a subprocess if
    the pod is this machine.
    """
    if pod.is_local:
        from bs4_console.transport.local import LocalTransport

        return LocalTransport(pod)
    from bs4_console.transport.ssh import SshTransport

    return SshTransport(pod, host_keys(), passphrases=_passphrases())


def host_keys() -> HostKeys:
    """Return the store of the host keys that are pinned on this machine. asyncssh, which this store
    needs, is imported only when this is called, because that takes 0.2 seconds.
    """
    from bs4_console.transport.hostkeys import HostKeys

    return HostKeys()


Keep = Literal["all", "records", "nothing"]


def session(
    pod: Pod, *, deploy: bool = True, keep: Keep = "all", read_only: bool = False
) -> PodSession:
    """Return a session with a pod. The session connects only when its `run` or `run_once` is
    called.

    With `deploy` the session may install the agent on the pod. `keep` says what is stored on this
    machine: "all" that is read from the pod (for the screen), only the "records" of the pod's runs
    (for commands, so that a run that no screen has seen has a record too), or "nothing". With
    `read_only` nothing is changed on the pod, so no agent is installed, but one that runs is
    queried.
    """
    read_only = read_only or pod.read_only
    state = PodState(name=pod.name, address=pod.address, read_only=read_only)
    mirror = Mirror(
        data_dir() / "pods" / pod.name, write=keep != "nothing", records_only=keep == "records"
    )
    return PodSession(state, lambda: transport(pod), mirror, who(), deploy=deploy and not read_only)


def kept_state(name: str) -> PodState:
    """Return the state of the pod with this name as it was saved on this machine when a console
    last read from the pod. The pod need not exist any more. No pod is contacted and nothing is
    written.
    """
    pod = Pod(name=name, host="localhost")
    live = session(pod, keep="nothing")
    live.replay()
    return live.state


def to_act_on(options: argparse.Namespace) -> Pod:
    """Return the pod that `options.pod` names, for a command that wants to change that pod. Raises
    RefusedError, before anything is sent, if the console or the pod is read-only.
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


def pod_for_plan(options: argparse.Namespace) -> Pod:
    """Return the pod that `options.pod` names, for a command with --plan. --plan without a hash
    only shows the plan, so the pod and the console may then be read-only. In every other case,
    raises RefusedError if one of the two is read-only.
    """
    if options.plan == "":
        return Inventory().get(options.pod)
    return to_act_on(options)


def run_of(live: PodSession, name: str) -> RunState:
    """Return the state of the pod's run with this name. Raises UsageError, which lists the pod's
    runs, if the pod has no such run.
    """
    if name not in live.state.runs:
        known = ", ".join(sorted(live.state.runs)) or "none"
        raise UsageError(
            f"There is no run named {name} on {live.state.name}.", f"Its runs: {known}."
        )
    return live.state.runs[name]


def pods(name: str | None) -> Sequence[Pod]:
    """Return the pod that is named `name` in the inventory (this console's list of pods), alone, or
    all pods of the inventory if `name` is None. Raises UsageError if no pod has that name.
    """
    inventory = Inventory()
    if name:
        return [inventory.get(name)]
    return inventory.list()


def fleet(read_only: bool = False) -> Fleet:
    """Return a Fleet, which has a session with every pod in the inventory (this console's list of
    pods), for the screen. With `read_only`, no action can be sent to any of the pods.
    """
    return Fleet(
        outside=True, source=Source(Inventory(), functools.partial(session, read_only=read_only))
    )


@contextlib.asynccontextmanager
async def linked(
    pod: Pod, *, deploy: bool = True, timeout: float = 60.0
) -> AsyncIterator[PodSession]:
    """Open a session with the pod for the length of an `async with` block. When the block begins,
    the session is connected and has read the pod's state. `deploy` allows the session to install
    the agent. Raises a LinkError if the pod cannot be reached, or its state cannot be read, within
    `timeout` seconds.

    If the link is lost later, the session reconnects for up to a minute, because the work on the
    pod goes on. If that fails, the block ends with a LinkError.
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
    """Wait until `ready` ends. Raises the error of `life` or `ready`, whichever fails first."""
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
    """Cancel the block when the task `life` fails, and raise its error, as asyncio.timeout does
    with its own.
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
    """Reports on standard error when the link is lost and when it is back."""

    def __init__(self, name: str) -> None:
        self._name, self._up = name, True

    def look(self, state: PodState) -> None:
        """Print a sentence if the link has changed since the last call."""
        link = state.link
        if link.up and not self._up:
            complain(f"{self._name} is connected again.")
            self._up = True
        elif self._up and not link.up and link.detail:
            complain(f"{link.detail} {link.next_step}".strip())
            self._up = False


def is_terminal() -> bool:
    """Return True if a person can be asked, which means that standard input and output are a
    terminal and TERM is not "dumb".
    """
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def can_ask(options: argparse.Namespace) -> bool:
    """Return True if a command may ask a person, because there is a terminal and no --json."""
    return is_terminal() and not options.json


def confirm(question: str, answer: str = "yes", refused: str = "Nothing was done.") -> None:
    """Ask a person `question` on the terminal, and return if they type `answer`. Raises
    RefusedError, with the sentence `refused`, if they type anything else.
    """
    if ask(question) != answer:
        raise RefusedError(refused, "Run it again when you are sure.")


def ask(question: str) -> str:
    """Print `question` on standard error and return one line that a person types on the terminal,
    stripped. Return "" if the input ended (Ctrl-D). Standard output is not used, because it may be
    a file.
    """
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip()
