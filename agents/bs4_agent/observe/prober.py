"""Probing the runs' inference servers without putting load on them: /health often, and a one-token
request only on suspicion.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bs4_agent.probes.vllm import Probe, ProbeFailed, health, metrics, one_token
from bs4_common.errors import Refused
from bs4_common.failures.facts import ServerProbe

#: Seconds between two rounds.
ROUND_S = 2.0
#: Seconds. Each probe is a line in the server's own log.
HEALTH_EVERY_S = 5.0
HEALTH_TIMEOUT_S = 3.0
#: A run is suspicious if nothing moved for this many of its own steps, and never before
#: SUSPICION_MIN_S seconds.
SUSPICION_STEPS = 2.0
SUSPICION_MIN_S = 5.0
#: Seconds: the bounds of the one-token timeout. A busy engine answers one token within a few of its
#: iterations. 30 s is ten times the slowest seen.
TOKEN_TIMEOUT_S = (5.0, 30.0)
TOKEN_EVERY_S = 2.0
#: A server that answers while its run stands still is probed again after this share of the silence:
#: a long evaluation or checkpoint is no reason to probe every two seconds for an hour.
TOKEN_EVERY_SHARE, TOKEN_EVERY_MAX_S = 0.1, 60.0
_COUNTER = "vllm:generation_tokens_total"


@dataclass(frozen=True)
class Watched:
    """One attempt (a start) of a run whose inference server at `url` is probed. If `url` is "", its
    address is not known now. The server is then not probed, and its last answers are kept; but
    while the run makes steps, failures among these answers are forgotten.

    `quiet_s` is how many seconds ago the trainer or the orchestrator last finished a step. `pace_s`
    is how many seconds a step of the run takes (the median), or None if unknown.
    """

    run: str
    attempt: int
    url: str
    quiet_s: float
    pace_s: float | None


class Prober:
    """Probes the inference servers of those runs that `watched` returns, and keeps the last answers
    of each. `run` does all the work on one thread, so a server that hangs only delays the other
    probes.
    """

    def __init__(self, watched: Callable[[], Sequence[Watched]]) -> None:
        self._watched = watched
        self._last: dict[tuple[str, int], ServerProbe] = {}
        self._counter: dict[str, float] = {}

    def probe(self, run: str, attempt: int) -> ServerProbe:
        """Return what the inference server of an attempt answered last. If it was not probed, all
        fields have their defaults ("unknown" or None).
        """
        return self._last.get((run, attempt), ServerProbe())

    def run(self, stop: threading.Event) -> None:
        """Go through the watched servers every two seconds until `stop` is set. The health of a
        server is requested if its last answer is 5 seconds old or older. If a healthy server's run
        has made no step for twice its usual duration (at least 5 seconds), the server is also
        requested to generate one token.
        """
        while not stop.wait(ROUND_S):
            watched = self._watched()
            current = {(w.run, w.attempt) for w in watched}
            for key in self._last.keys() - current:
                del self._last[key]
            for item in watched:
                if not item.url:
                    self._keep(item)
                    continue
                # A server on another machine is not probed, and one whose socket this machine does
                # not open is asked again. Neither keeps the others from being probed.
                with contextlib.suppress(Refused, OSError):
                    self._ask(item)

    def _keep(self, item: Watched) -> None:
        """Keep the last answers of a server that cannot be asked. If its run makes steps, forget
        its failures: it is not dead, and nobody would see it answer again.
        """
        key = (item.run, item.attempt)
        before = self._last.get(key)
        if before is None or _suspicious(item):
            return
        self._last[key] = dataclasses.replace(
            before,
            health="ok" if before.health == "ok" else "unknown",
            answer="unknown",
            failures=0,
        )

    def _ask(self, item: Watched) -> None:
        """Probe the health of one server if it is due, and then try a token if the server is
        healthy.
        """
        key = (item.run, item.attempt)
        before = self._last.get(key, ServerProbe(url=item.url))
        if before.health_m is None or time.monotonic() - before.health_m >= HEALTH_EVERY_S:
            answer = health(item.url, HEALTH_TIMEOUT_S)
            ever = before.ever_ok_m or (time.monotonic() if answer.ok else None)
            before = dataclasses.replace(
                before,
                url=item.url,
                health=_word(answer),
                health_m=time.monotonic(),
                ever_ok_m=ever,
            )
            self._last[key] = before
        if before.ever_ok_m is not None and before.health == "ok":
            self._last[key] = self._ask_for_a_token(item, before)

    def _ask_for_a_token(self, item: Watched, before: ServerProbe) -> ServerProbe:
        """Request one token if the run is suspiciously quiet, and return the updated answers."""
        if not _suspicious(item):
            if before.failures == 0:
                return before
            return dataclasses.replace(before, answer="unknown", failures=0)
        if before.failures:
            pause = TOKEN_EVERY_S
        else:
            pause = min(max(TOKEN_EVERY_S, TOKEN_EVERY_SHARE * item.quiet_s), TOKEN_EVERY_MAX_S)
        if before.answer_m is not None and time.monotonic() - before.answer_m < pause:
            return before
        counted = self._generated(item.url)
        low, high = TOKEN_TIMEOUT_S
        answer = one_token(item.url, min(max(3 * (item.pace_s or 0.0), low), high))
        frozen = counted is not None and self._generated(item.url) == counted
        failed = not answer.ok and answer.error == "timeout" and frozen
        return dataclasses.replace(
            before,
            answer=_word(answer),
            answer_m=time.monotonic(),
            failures=before.failures + 1 if failed else 0,
        )

    @staticmethod
    def _generated(url: str) -> float | None:
        """Return the number of tokens generated so far, or None if the server does not report it. A
        server that is merely busy increases it while our own request waits.
        """
        try:
            return metrics(url, HEALTH_TIMEOUT_S).get(_COUNTER)
        except ProbeFailed:
            return None


def _suspicious(item: Watched) -> bool:
    """Return True if the run has made no step for suspiciously long."""
    return item.quiet_s >= max(SUSPICION_MIN_S, SUSPICION_STEPS * (item.pace_s or 0.0))


def _word(answer: Probe) -> str:
    """Return "ok", or the error word of a failed probe."""
    if answer.ok:
        return "ok"
    return answer.error or "unknown"
