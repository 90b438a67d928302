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

from bs4_common.preflight import Look
from bs4_console.checks.verdict import CRITICAL, OK, UNKNOWN, WARNING
from bs4_console.errors import NotApplicableError, RemoteError
from bs4_console.preflight import config as preflight_config
from bs4_console.preflight import host, start
from bs4_console.preflight import pod as preflight_pod
from bs4_console.preflight import services as preflight_services
from bs4_console.preflight import source as preflight_source
from bs4_console.preflight import stack as preflight_stack
from bs4_console.preflight.checks import Check, State, Wanted
from bs4_console.preflight.questions import Asks, name_of, sliced
from bs4_console.typed_json import number

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
    """The results of one preflight: the checks of a pod, a config and a model before a run is
    started. `checks` are in the order in which a person should read them. `facts` has the parts of
    the agent's answer from which they were made.
    """

    checks: tuple[Check, ...]
    facts: Look = field(default_factory=lambda: Look())
    memory: tuple[str, ...] = ()
    """Lines that say what the run will need of a GPU, with the arithmetic, to be shown beside the
    plan. Empty if only the pod was checked.
    """

    @property
    def blocking(self) -> tuple[Check, ...]:
        """Return the checks with which the start would fail or lose work. If this is empty, the
        start may be made.
        """
        return tuple(self.of("blocking"))

    def of(self, state: State) -> Sequence[Check]:
        """Return the checks with the state `state`, in the order in which a person should read
        them.
        """
        return [check for check in self.checks if check.state == state]

    @property
    def level(self) -> int:
        """Return the level of the worst check, which is also the exit code: 0 OK, 1 WARNING, 2
        CRITICAL (a check blocks the start), 3 UNKNOWN. UNKNOWN is worse than WARNING and less bad
        than CRITICAL. Without any check the level is 3.
        """
        order = (OK, WARNING, UNKNOWN, CRITICAL)
        return max(
            (_LEVELS[check.state] for check in self.checks), key=order.index, default=UNKNOWN
        )


async def examine(asks: Asks, wanted: Wanted, *, timeout: float = 150.0) -> Preflight:
    """Ask a pod's agent about a start, or about the pod alone if `wanted` describes no start, and
    return all checks. It takes as long as the slowest part of the answer, at most `timeout`
    seconds. The first time, the pod may need a minute to import the trainer's libraries; later it
    remembers the result. A part that is missing in the answer gives checks with the state
    "unknown".

    Raises a LinkError if the link is lost and not restored, NotApplicableError if the agent is too
    old for a preflight, and RemoteError if the agent cannot make sense of the start.
    """
    wanted = replace(wanted, pod=name_of(asks) or wanted.pod)
    skew = await _skew(asks)
    config: Sequence[tuple[str, str]] = ()
    if wanted.complete:
        try:
            config = await _config(asks, wanted)
        except RemoteError as error:
            if error.type != "bad-config":
                raise
            # Whatever else would be said would be of a start without this config.
            return Preflight((preflight_config.unread(error.message),))
    source = asyncio.create_task(preflight_source.understood(asks, wanted))
    try:
        facts = await sliced(asks, "look", wanted.body(), timeout)
        understood = await source
    finally:
        source.cancel()
    pod, run, stack = facts.get("pod"), facts.get("run"), facts.get("stack")
    checks = preflight_pod.judge(pod, run, wanted)
    checks += preflight_stack.judge(stack, pod, wanted, run)
    checks += understood
    memory: list[str] = []
    if wanted.complete:
        memory = await asyncio.to_thread(preflight_config.memory, config, wanted, pod)
        checks += await asyncio.to_thread(
            preflight_config.judge, config, wanted, pod, run, facts.get("schema")
        )
        # A detector over the planned run may find what the pod's own checks have found.
        told = {check.id for check in checks if check.is_bad}
        for check in await asyncio.to_thread(start.judge, run, wanted):
            if check.id not in told:
                checks.append(check)
    if wanted.for_machine:
        checks += host.judge(facts.get("host"), stack, wanted)
    checks += preflight_services.judge(facts.get("services"), run, wanted, skew)
    return Preflight(tuple(_once(checks)), facts, tuple(memory))


async def _config(asks: Asks, wanted: Wanted) -> list[tuple[str, str]]:
    """Return (path, text) of each file of the config. Raises RemoteError, of the type "bad-config"
    if the config cannot be read.
    """
    named = preflight_config.named(wanted.overrides)
    answer = await asks.query(
        "preflight", "config", config=wanted.config, cwd=wanted.cwd, named=named
    )
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
