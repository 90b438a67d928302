"""The fleet: a session with each pod of the console."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from bs4_console.checks.outside import Lookout
from bs4_console.errors import ConsoleError, SessionFailed
from bs4_console.pods.inventory import Inventory, Pod
from bs4_console.pods.inventory_watch import InventoryWatch
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import PodState
from bs4_console.turns import Turns

#: Seconds between two polls of the inventory's file.
LOOK_S = 1.0


@dataclass(frozen=True)
class Source:
    """Where a fleet gets its pods from: the inventory (the file that lists them), and `make`, a
    function that returns a new session for a pod.
    """

    inventory: Inventory
    make: Callable[[Pod], PodSession]


class Fleet:
    """All pods that a console shows, with a session for each. It starts and stops the sessions and
    tells listeners which pod changed.

    With `outside`, the fleet also asks W&B about the pods' runs, and providers about pods that do
    not answer, with the API keys on this machine. With a `source`, the fleet follows that source's
    inventory: a session is made for a pod that is added, made anew for a pod whose entry changes,
    and closed for a pod that is removed.
    """

    def __init__(
        self,
        sessions: Iterable[PodSession] = (),
        *,
        outside: bool = False,
        source: Source | None = None,
    ) -> None:
        self._lookout = Lookout(lambda: self.pods) if outside else None
        self._turns = Turns()
        self._looking: list[asyncio.Task[None]] = []
        self._following: asyncio.Task[None] | None = None
        self.sessions: dict[str, PodSession] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._listeners: list[Callable[[PodState], None]] = []
        self._problem_listeners: list[Callable[[str], None]] = []
        self._source = source
        self._entries: dict[str, Pod] = {}
        self._watch = None
        for session in sessions:
            self.add(session)
        if source is not None:
            self._watch = InventoryWatch(source.inventory)
            for pod in source.inventory.list():
                self._enter(pod)

    def _enter(self, pod: Pod) -> None:
        if self._source is not None:
            self._entries[pod.name] = pod
            self.add(self._source.make(pod))

    def add(self, session: PodSession) -> None:
        """Add the session with a pod to the fleet without starting it; the next call of `start`
        does that. The sessions of a fleet take turns to process what their pods send.
        """
        session.take_turns(self._turns)
        self.sessions[session.state.name] = session
        session.state.listeners.append(self._changed)

    @property
    def pods(self) -> list[PodState]:
        """Return the states of all pods, in the order in which they were added."""
        return [session.state for session in self.sessions.values()]

    def pod(self, name: str) -> PodState | None:
        """Return the state of the pod with this name, or None if there is none."""
        session = self.sessions.get(name)
        return None if session is None else session.state

    def on_change(self, listener: Callable[[PodState], None]) -> None:
        """Register `listener`, which is called with the state of a pod each time it changes."""
        self._listeners.append(listener)

    def on_problem(self, listener: Callable[[str], None]) -> None:
        """Register `listener`, which is then called with a sentence if the inventory cannot be read
        while the fleet follows it.
        """
        self._problem_listeners.append(listener)

    def _changed(self, pod: PodState) -> None:
        for listener in self._listeners:
            listener(pod)

    def start(self) -> None:
        """Start every session that does not run yet, and the tasks that follow the inventory and
        ask W&B and providers. It may be called again after sessions were added.
        """
        self._start_sessions()
        if self._watch is not None and self._following is None:
            self._following = asyncio.create_task(self._follow(self._watch), name="inventory")
        if self._lookout is not None and not self._looking:
            # Imported here, so that the first screen does not wait for it.
            from bs4_console.fleet.liveness_watch import LostWatch

            watch = LostWatch(lambda: self.pods)
            self._looking = [
                asyncio.create_task(self._lookout.run(), name="outside"),
                asyncio.create_task(watch.run(), name="outside"),
            ]

    def _start_sessions(self) -> None:
        for name, session in self.sessions.items():
            if name not in self._tasks:
                task = asyncio.create_task(session.run(), name=f"pod {name}")
                task.add_done_callback(functools.partial(self._session_ended, session.state))
                self._tasks[name] = task

    async def _follow(self, watch: InventoryWatch) -> None:
        """Take over the inventory's pods whenever its file changes, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                pods = watch.poll()
                if pods is not None:
                    await self._become({pod.name: pod for pod in pods})
            except ConsoleError as error:
                # The pods read last stay until the file can be read again.
                for listener in self._problem_listeners:
                    listener(
                        "The inventory was changed and cannot be read; the pods stay as "
                        f"they were. {error}"
                    )

    async def _become(self, wanted: dict[str, Pod]) -> None:
        """Close the sessions of pods that are gone or changed, and start sessions for pods that are
        new or changed.
        """
        for name in [name for name, entry in self._entries.items() if wanted.get(name) != entry]:
            await self._remove(name)
        for name, pod in wanted.items():
            if name not in self._entries:
                self._enter(pod)
        self._start_sessions()
        for state in self.pods:
            self._changed(state)

    async def _remove(self, name: str) -> None:
        del self._entries[name]
        session, task = self.sessions.pop(name), self._tasks.pop(name, None)
        if task is not None:
            await _end([task])
        await session.close()
        self._changed(session.state)

    @staticmethod
    def _session_ended(pod: PodState, task: asyncio.Task[None]) -> None:
        """Set the pod's link to an error if its session ended without being cancelled."""
        if task.cancelled():
            return
        error = task.exception() or RuntimeError("it returned")
        failure = SessionFailed(pod.name, error)
        pod.link.set(failure.link_state, failure.message, "Start bs4-console again.")
        pod.changed()

    async def stop(self) -> None:
        """Stop watching all pods: cancel all tasks, wait until they have ended, and close the
        sessions.
        """
        beside = list(self._looking)
        if self._following is not None:
            beside.append(self._following)
        await _end(beside)
        self._looking.clear()
        self._following = None
        await _end(self._tasks.values())
        self._tasks.clear()
        await asyncio.gather(*(session.close() for session in self.sessions.values()))


async def _end(tasks: Collection[asyncio.Task[None]]) -> None:
    """Cancel the tasks and wait for them."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
