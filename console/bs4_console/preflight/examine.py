"""Check a start before it is made: the agent examines the pod, and the config and the model are
judged here.

The result is one list of checks. A launch with a blocking check is refused. An unknown check is
shown and never counts as healthy.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bs4_console.checks.verdict import CRITICAL, OK, UNKNOWN, WARNING
from bs4_console.errors import NotApplicableError, RemoteError
from bs4_console.preflight import config as preflight_config
from bs4_console.preflight import host, start
from bs4_console.preflight import pod as preflight_pod
from bs4_console.preflight import services as preflight_services
from bs4_console.preflight import stack as preflight_stack
from bs4_console.preflight.checks import Check, State, Wanted, number
from bs4_console.preflight.questions import Asks, name_of, sliced

__all__ = ["Asks", "Check", "Preflight", "State", "Wanted", "examine"]

#: How often the pod's clock is read. The quickest answer counts.
_CLOCK_ASKED = 3
#: The failure that another check finds in another way, by rule of the config.
_TWINS = {"R24": "model-unsupported", "R11": "shared-gpu-budget", "R32": "curriculum-noop"}
_LEVELS: Mapping[State, int] = {
    "ok": OK,
    "warning": WARNING,
    "blocking": CRITICAL,
    "unknown": UNKNOWN,
}


@dataclass(frozen=True)
class Preflight:
    """The checks of one preflight, in the order in which they are read. `facts` are the agent's own
    answers by part (pod, run, schema, stack, services).
    """

    checks: tuple[Check, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)
    memory: tuple[str, ...] = ()
    """Lines that say what the run will need of a GPU, with the arithmetic, to be shown beside the
    plan. Empty if only the pod was checked.
    """

    @property
    def blocking(self) -> tuple[Check, ...]:
        """Return the checks that make the start fail or lose work. If there are none, the start may
        be made.
        """
        return tuple(self.of("blocking"))

    def of(self, state: State) -> Sequence[Check]:
        """Return the checks of one state, in order."""
        return [check for check in self.checks if check.state == state]

    @property
    def level(self) -> int:
        """Return the exit code of the worst check: 0 OK, 1 WARNING, 2 CRITICAL (a check blocks), 3
        UNKNOWN. UNKNOWN is worse than WARNING and better than CRITICAL.
        """
        order = (OK, WARNING, UNKNOWN, CRITICAL)
        return max(
            (_LEVELS[check.state] for check in self.checks), key=order.index, default=UNKNOWN
        )


async def examine(asks: Asks, wanted: Wanted, *, timeout: float = 150.0) -> Preflight:
    """Return all checks of one start, or of the pod alone if `wanted` names no start.

    It takes as long as the slowest part on the pod, and `timeout` seconds at most. Importing the
    training stack takes up to a minute the first time; then the result is remembered. A part
    without an answer is unknown.

    Errors of the link are raised as they are; a session makes its link again and goes on. Raises
    NotApplicableError if the agent is too old for the question, and RemoteError if the start makes
    no sense.
    """
    wanted = replace(wanted, pod=name_of(asks) or wanted.pod)
    skew = await _skew(asks)
    config = await _config(asks, wanted) if wanted.complete else []
    facts = await sliced(asks, "look", wanted.body(), timeout)
    pod, run, stack, services, classes = (
        _part(facts, name) for name in ("pod", "run", "stack", "services", "schema")
    )
    checks = preflight_pod.judge(pod, run, wanted)
    checks += preflight_stack.judge(stack, pod, wanted, run)
    memory: list[str] = []
    if wanted.complete:
        memory = await asyncio.to_thread(preflight_config.memory, config, wanted, pod)
        checks += await asyncio.to_thread(preflight_config.judge, config, wanted, pod, run, classes)
        # A detector over the planned run may find what the pod's own checks have found.
        told = {check.id for check in checks if check.is_bad}
        for check in await asyncio.to_thread(start.judge, run, wanted):
            if check.id not in told:
                checks.append(check)
    if wanted.for_verl:
        checks += host.judge(_part(facts, "host"), stack, wanted)
    checks += preflight_services.judge(services, run, wanted, skew)
    return Preflight(tuple(_once(checks)), facts, tuple(memory))


async def _config(asks: Asks, wanted: Wanted) -> list[tuple[str, str]]:
    """Return (path, text) of each file of the config. Empty if the config cannot be read; the
    launch check then says why.
    """
    try:
        named = preflight_config.named(wanted.overrides)
        answer = await asks.query(
            "preflight", "config", config=wanted.config, cwd=wanted.cwd, named=named
        )
    except RemoteError as error:
        if error.type != "bad-config":
            raise
        return []
    files = answer.get("files")
    pairs = []
    for row in files if isinstance(files, list) else ():
        if isinstance(row, list) and len(row) == 2:
            pairs.append((str(row[0]), str(row[1])))
    return pairs


async def _skew(asks: Asks) -> float | None:
    """Return the seconds by which the pod's clock is ahead of ours, by the quickest of a few
    answers. Return None if no answer held a time.
    """
    measured: list[tuple[float, float]] = []
    for _ in range(_CLOCK_ASKED):
        sent = time.time()
        began = time.monotonic()
        try:
            theirs = number((await asks.query("preflight", "clock")).get("t"))
        except RemoteError as error:
            if error.type != "unknown-stream":
                raise
            pod = name_of(asks) or "the pod"
            raise NotApplicableError(
                f"The agent on {pod} is older than this console and knows no preflight.",
                f"Bring the new one: `bs4-console deploy --pod {pod}`.",
            ) from None
        taken = time.monotonic() - began
        if theirs is not None:
            measured.append((taken, theirs - (sent + taken / 2)))
    return min(measured)[1] if measured else None


def _part(facts: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    part = facts.get(name)
    if isinstance(part, Mapping):
        return part
    return None


def _once(checks: Sequence[Check]) -> list[Check]:
    """Return the checks without those that a rule of the config has reported already, with its
    line.
    """
    twins = {_TWINS.get(check.id) for check in checks}
    found = []
    for check in checks:
        if check.state == "ok" or check.id not in twins:
            found.append(check)
    return found
