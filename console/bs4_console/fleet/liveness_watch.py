"""Watches pods that do not answer, for a console that stays open. The signs of each pod are
collected over time and judged by the rules in pods/liveness.py.

The provider is polled often while a pod is silent, rarely while something else is wrong with the
pod, and never while the pod is well. A verdict is only shown. The controller acts on its own
probes.
"""

from __future__ import annotations

import asyncio
import importlib
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from bs4_console.errors import ConsoleError
from bs4_console.pods.inventory import Inventory
from bs4_console.pods.liveness import SILENT, Rules, Sign, Source, Verdict, judge, of_sight
from bs4_console.pods.observer import Observation
from bs4_console.pods.state import Ledger, PodState, RunState

if TYPE_CHECKING:
    from bs4_console.fleet.liveness_probe import PortWord

#: Seconds between two ticks, which collect what this machine knows by itself.
TICK_S = 5.0
#: Seconds between two polls of the provider: while the pod is silent, and while it answers and
#: something is wrong with it.
SILENT_S, WRONG_S = 30.0, 300.0
#: Addresses reserved for documentation. The kernel is asked for a route to them; nothing is sent.
_ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


class Looks(Protocol):
    """The ways to find out something about a pod without the console's link to it: through the
    provider, at the pod's SSH port, and from this machine's own network. Tests use another object.
    """

    async def provider(self, pod: str) -> Observation | None:
        """Ask the provider about the machine of the pod with this name, and return the answer, or
        None if the inventory does not name its provider and machine.
        """

    async def port(self, pod: str) -> PortWord | None:
        """Return what answers at the SSH port of the pod with this name: "open" (an SSH server
        greets), "mute" (the connection is accepted, but no greeting comes), "refused" or "silent"
        (no answer in time). Return None if the pod is not reached directly.
        """

    def network(self) -> bool:
        """Return True if this machine, on which the console runs, has a route to the internet."""


class RealLooks:
    """Finds out something about a pod without the console's link to it: from its provider's API,
    from its SSH port, and from this machine's routes to the internet. `inventory` is the list of
    pods; None means this console's own list.
    """

    def __init__(self, inventory: Inventory | None = None) -> None:
        self._inventory = inventory or Inventory()

    async def provider(self, pod: str) -> Observation | None:
        """Ask the provider about the machine of the pod with this name, and return the answer.
        Return None if the inventory does not name its provider and machine, and an observation in
        state "unknown" if the inventory cannot be read.
        """
        # Importing it takes 0.2 s, because it imports an HTTP client. The thread that answers keys
        # must not wait for that.
        witness = await asyncio.to_thread(importlib.import_module, "bs4_console.provision.observer")
        try:
            known = await asyncio.to_thread(self._inventory.get, pod)
        except ConsoleError as error:
            return Observation(
                state="unknown",
                detail=error.message,
                seen_t=None,
                coverage="which machine of which provider it is",
                next_step=error.next_step,
            )
        asked = witness.witness_of(known)
        sight: Observation | None = None if asked is None else await asked.observe()
        return sight

    async def port(self, pod: str) -> PortWord | None:
        """Return what answers at the SSH port of the pod with this name ("open", "mute", "refused"
        or "silent", see `at_its_port`). Return None if the pod is this machine, is reached through
        a jump host, or is not in the inventory.
        """
        look = await asyncio.to_thread(importlib.import_module, "bs4_console.fleet.liveness_probe")
        try:
            known = await asyncio.to_thread(self._inventory.get, pod)
        except ConsoleError:
            return None
        if known.jump or known.is_local:
            return None
        word: PortWord = await look.at_its_port(known.host, known.port or 22)
        return word

    def network(self) -> bool:
        """Return True if this machine, on which the console runs, has a route to the internet over
        IPv4 or IPv6. Nothing is sent; the kernel's routes are read.
        """
        return any(_has_route(family, address) for family, address in _ELSEWHERE)


def _has_route(family: socket.AddressFamily, address: str) -> bool:
    """Return True if the kernel has a route to the address. Connecting a datagram socket sends
    nothing; the kernel only looks up the route.
    """
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as asked:
            asked.connect((address, 9))
    except OSError:
        return False
    return True


@dataclass(kw_only=True)
class _Known:
    """What the watch knows of one pod: its signs and when the provider was polled. If `ledger` is
    not the pod's ledger any more, another machine answers under the same name.
    """

    ledger: Ledger
    signs: list[Sign] = field(default_factory=list)
    tried: tuple[str, int] = ("", -1)
    boot: str = ""
    heard_t: float = 0.0
    asked: float = float("-inf")
    asking: asyncio.Task[None] | None = None

    def add(self, sign: Sign, *, instead: bool = False) -> None:
        """Append a sign. `instead` replaces the newest sign of the same source if that has the same
        word and value, so that a state that continues is kept once.
        """
        last = self.newest(sign.source)
        if instead and last and (last.word, last.value) == (sign.word, sign.value):
            self.signs.remove(last)
        self.signs.append(sign)

    def newest(self, source: Source) -> Sign | None:
        """Return the newest sign of a source, or None if there is none."""
        return next((sign for sign in reversed(self.signs) if sign.source == source), None)


class LostWatch:
    """Watches all pods for signs that one is lost (its machine is gone or does not answer). It
    keeps two attributes of each PodState up to date: `provider`, what the provider says of the
    pod's machine, and `lost`, the conclusion on the pod. `clock` must be the monotonic clock, in
    seconds, that the sessions use for their links.
    """

    def __init__(
        self,
        pods: Callable[[], Sequence[PodState]],
        looks: Looks | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        rules: Rules | None = None,
    ) -> None:
        self._pods, self._looks = pods, looks or RealLooks()
        self._clock, self._rules = clock, rules or Rules()
        self._known: dict[str, _Known] = {}

    async def run(self) -> None:
        """Check all pods every 5 seconds (TICK_S) until cancelled."""
        try:
            while True:
                self.tick()
                await asyncio.sleep(TICK_S)
        finally:
            asked = self._asked()
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)

    def _asked(self) -> list[asyncio.Task[None]]:
        found = []
        for known in self._known.values():
            if known.asking is not None:
                found.append(known.asking)
        return found

    def tick(self) -> None:
        """Compare what the console knows of each pod now and update `PodState.lost`, the conclusion
        on it. Start to ask the provider about each pod that does not answer (at most every 30
        seconds), and about each pod that answers and has an open incident (at most every 300
        seconds). The provider's answer is not awaited.
        """
        for pod in self._pods():
            if pod.link.state in ("new", "recorded"):
                continue
            known = self._known.get(pod.name)
            if known is None or known.ledger is not pod.ledger:
                asking = known.asking if known is not None else None
                known = self._known[pod.name] = _Known(ledger=pod.ledger, asking=asking)
            self._note(pod, known)
            if self._due(pod, known):
                known.asked = self._clock()
                known.asking = asyncio.create_task(
                    self._ask(pod, known), name=f"what became of {pod.name}"
                )
            self._tell(pod, known)

    async def settled(self) -> None:
        """Wait until the providers have answered all queries that this watch has sent. Only tests
        need this.
        """
        await asyncio.gather(*self._asked())

    # -- signs

    def _note(self, pod: PodState, known: _Known) -> None:
        link, now = pod.link, self._clock()
        known.signs = [sign for sign in known.signs if now - sign.t <= self._rules.window_s]
        if link.up:
            known.add(Sign(now, "ssh", "up"), instead=True)
        elif link.state != "connecting" and known.tried != (link.state, link.attempts):
            # Add a sign for each new attempt to connect, not for the same attempt again.
            known.add(Sign(now, "ssh", link.state, link.detail))
        known.tried = (link.state, link.attempts)
        if (boot := str(pod.latest.get("b") or "")) and boot != known.boot:
            if known.boot:
                known.signs.append(Sign(now, "boot", "", value=known.boot))
                known.signs.append(Sign(now, "boot", "", value=boot))
            known.boot = boot
        if link.up and (run := _newest(pod)) is not None:
            self._note_run(pod, run, known, now)
        sight = max(pod.sights.values(), key=lambda one: one.seen_t or 0.0, default=None)
        if sight is not None and sight.looked_t != known.heard_t:
            known.heard_t = sight.looked_t
            known.add(of_sight("wandb", sight, now))
        if pod.link.state in SILENT and (word := self._network(pod, known)):
            known.add(Sign(now, "network", word), instead=True)

    @staticmethod
    def _note_run(pod: PodState, run: RunState, known: _Known, now: float) -> None:
        """Add a sign of the run's state. A run that is still going counts as moving only after a
        step that came since the link is up, because steps that are read again prove nothing.
        """
        if run.word in ("finished", "failed", "stopped"):
            known.add(Sign(now, "run", run.word), instead=True)
        elif run.step_seen is not None and run.step_seen > pod.link.since:
            known.add(Sign(now, "run", "moving", seen_t=run.step_seen), instead=True)

    def _network(self, pod: PodState, known: _Known) -> str:
        """Return "up" if anybody else answered, "down" if this machine has no route to the
        internet, or "" if neither is known.
        """
        provider = known.newest("provider")
        answered = provider is not None and provider.word != "unknown"
        if answered or any(other.link.up for other in self._pods() if other is not pod):
            return "up"
        return "" if self._looks.network() else "down"

    # -- asking

    def _due(self, pod: PodState, known: _Known) -> bool:
        if known.asking is not None and not known.asking.done():
            return False
        waited = self._clock() - known.asked
        if pod.link.state in SILENT:
            return waited >= SILENT_S
        return waited >= WRONG_S and pod.link.up and bool(pod.ledger.open_incidents())

    async def _ask(self, pod: PodState, known: _Known) -> None:
        sight = await self._looks.provider(pod.name)
        if sight is not None:
            pod.provider = sight
            known.add(of_sight("provider", sight, self._clock()))
        if pod.link.state in SILENT and (word := await self._looks.port(pod.name)) is not None:
            known.add(Sign(self._clock(), "port", word))
        self._tell(pod, known)
        pod.changed()

    # -- the verdict

    def _tell(self, pod: PodState, known: _Known) -> None:
        verdict = self._verdict(pod, known)
        if verdict != pod.lost:
            pod.lost = verdict
            pod.changed()

    def _verdict(self, pod: PodState, known: _Known) -> Verdict | None:
        """Return what is known of a pod that does not answer. For a pod that answers, return a
        verdict only if it has rebooted: the pod itself reports everything else.
        """
        signs = sorted(known.signs, key=lambda sign: sign.t)
        found = judge(pod.name, signs, self._clock(), self._rules)
        rebooted = pod.link.up and found.word == "rebooted"
        if rebooted or pod.link.state in SILENT:
            return found
        return None


def _newest(pod: PodState) -> RunState | None:
    newest, started = None, float("-inf")
    for run in pod.runs.values():
        if run.view.attempt is not None and run.view.attempt.started_t > started:
            newest, started = run, run.view.attempt.started_t
    return newest
