"""All pods of the console, watched together."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterable

from bs4_console.core.errors import SessionFailed
from bs4_console.core.outside import Lookout
from bs4_console.core.session import PodSession
from bs4_console.core.state import PodState


class Fleet:
    """Starts and stops one session a pod and tells listeners which pod changed. `outside`: also asks W&B about their runs and, of a pod
    that does not answer, its provider, with this machine's keys."""

    def __init__(self, sessions: Iterable[PodSession] = (), *, outside: bool = False) -> None:
        self._lookout = Lookout(lambda: self.pods) if outside else None
        self._looking: list[asyncio.Task[None]] = []
        self.sessions: dict[str, PodSession] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._listeners: list[Callable[[PodState], None]] = []
        for session in sessions:
            self.add(session)

    def add(self, session: PodSession) -> None:
        self.sessions[session.state.name] = session
        session.state.listeners.append(self._changed)

    @property
    def pods(self) -> list[PodState]:
        return [session.state for session in self.sessions.values()]

    def on_change(self, listener: Callable[[PodState], None]) -> None:
        self._listeners.append(listener)

    def _changed(self, pod: PodState) -> None:
        for listener in self._listeners:
            listener(pod)

    def start(self) -> None:
        for name, session in self.sessions.items():
            if name not in self._tasks:
                task = asyncio.create_task(session.run(), name=f"pod {name}")
                task.add_done_callback(functools.partial(self._session_ended, session.state))
                self._tasks[name] = task
        if self._lookout is not None and not self._looking:
            # Not before the first screen is painted: nobody waits for it.
            from bs4_console.core.lost_watch import LostWatch

            watch = LostWatch(lambda: self.pods)
            self._looking = [asyncio.create_task(one.run(), name="outside") for one in (self._lookout, watch)]

    @staticmethod
    def _session_ended(pod: PodState, task: asyncio.Task[None]) -> None:
        """A session runs until it is cancelled. One that ended otherwise is said on its pod."""
        if task.cancelled():
            return
        error = task.exception() or RuntimeError("it returned")
        failure = SessionFailed(pod.name, error)
        pod.link.set(failure.link_state, failure.message, "Start bs4-console again.")
        pod.changed()

    async def stop(self) -> None:
        for looking in self._looking:
            looking.cancel()
        await asyncio.gather(*self._looking, return_exceptions=True)
        self._looking.clear()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()
        await asyncio.gather(*(session.close() for session in self.sessions.values()))
