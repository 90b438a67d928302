"""Repeat `check`: each cycle gives a verdict on every pod, tells people what changed, and sends a
ping to the dead man's switch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from bs4_console.checks.on_files import judge_files
from bs4_console.checks.outside import ask
from bs4_console.checks.transitions import Notice, Transitions
from bs4_console.checks.verdict import WORDS, Verdict, aggregate, judge, unreachable
from bs4_console.errors import ConsoleError
from bs4_console.pods.observer import link_incidents
from bs4_console.pods.session import PodSession

#: Seconds after which a link error that a person must repair (a key, an agent) is tried again.
STOPPED_S = 300.0


class Judged(Protocol):
    """Something that `watch` can judge again and again: a pod or some files."""

    async def judge(self) -> Verdict:
        """Return the verdict on the state of the pod or files now."""


class WatchedPod:
    """A pod that is judged again and again over one session that stays connected. The caller runs
    the session's `run` as a task. The session must be one that does not install agents.
    """

    def __init__(self, session: PodSession, timeout: float) -> None:
        """Keep the session and the number of seconds that one judgement waits for the pod."""
        self._session = session
        self._timeout = timeout
        self._tried = time.monotonic()

    def retry(self) -> None:
        """Try to connect to the pod again if it is not connected, because a person may have
        repaired what was wrong. If no agent was running on the pod, do so at every call; for any
        other reason do so at most every STOPPED_S (300) seconds. Do nothing if the connection is
        up.
        """
        link = self._session.state.link
        if not link.up and (link.state == "no agent" or time.monotonic() - self._tried > STOPPED_S):
            self._tried = time.monotonic()
            self._session.retry_now()

    async def judge(self) -> Verdict:
        """Return the verdict on the pod's state now. If the pod cannot be reached in time, the
        verdict is UNKNOWN, and its sentence says why the connection failed.
        """
        session, link = self._session, self._session.state.link
        self.retry()
        try:
            await session.synced(self._timeout)
            return judge(session.state, await ask(session.state))
        except ConsoleError as error:
            down_s = time.monotonic() - link.since
            incidents = link_incidents(session.state.name, error.link_state, error.message, down_s)
            return unreachable(session.state.name, str(error), incidents, await ask(session.state))


class WatchedFiles:
    """A log or a run's directory on this machine, as one of the things that the function `watch`
    observes. Each call of `judge` reads the files again and says whether the run is healthy.
    """

    def __init__(self, path: Path, source: str | None, trainer: str | None) -> None:
        self._path, self._source, self._trainer = path, source, trainer

    async def judge(self) -> Verdict:
        """Read the files and return the verdict on them. It is UNKNOWN if they cannot be read."""
        return await asyncio.to_thread(judge_files, self._path, self._source, self._trainer)


class Listener(Protocol):
    """An object that is given the notices of each cycle of `watch` and delivers them, such as a
    checks.delivery.Notifier.
    """

    async def tell(self, notices: Sequence[Notice], level: int, summary: str) -> None:
        """Deliver the notices of one cycle; there may be none. `level` is the worst level of all
        pods (0 OK to 3 UNKNOWN) and `summary` a phrase about them, for a receiver that wants to
        hear something in every cycle.
        """


async def watch(
    watched: Sequence[Judged],
    listener: Listener,
    show: Callable[[Notice], None],
    every: float,
    cycles: int | None = None,
) -> int:
    """Judge every pod or file in `watched` again and again. A cycle begins every `every` seconds,
    and there are `cycles` of them (None: no end). If a level has changed for long enough (see
    Transitions), `show` is called with the notice about it. `listener` is given the notices of each
    cycle, also if there are none. Return the worst level of the last cycle: 0 OK, 1 WARNING, 2
    CRITICAL, 3 UNKNOWN.
    """
    transitions = Transitions()
    due = time.monotonic()
    done = 0
    while True:
        verdicts = await asyncio.gather(*(subject.judge() for subject in watched))
        notices = transitions.observe(verdicts)
        for notice in notices:
            show(notice)
        await listener.tell(notices, transitions.level, summary(verdicts))
        done += 1
        if cycles is not None and done >= cycles:
            return aggregate(verdicts)
        # After a cycle that took longer than `every`, the next one starts at once, and none is made
        # up for.
        due = max(due + every, time.monotonic())
        await asyncio.sleep(due - time.monotonic())


def summary(verdicts: Sequence[Verdict]) -> str:
    """Return how many verdicts have which level, with the names of the pods that are not well, such
    as `2 OK, 1 CRITICAL: pod-c`.
    """
    by_level = {}
    for level in sorted({v.level for v in verdicts}):
        by_level[level] = [v.pod for v in verdicts if v.level == level]
    return ", ".join(
        f"{len(pods)} {WORDS[level]}" + (f": {' '.join(pods)}" if level else "")
        for level, pods in by_level.items()
    )
