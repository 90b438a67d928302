"""The provider as an external observer of a pod's machine. Its observation is never by itself a
ground for an action.

A key of another account also gets the answer "no such machine". That is one more reason why a lost
pod needs a second sign.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

import httpx

from bs4_console import providers
from bs4_console.errors import ConsoleError
from bs4_console.pods.inventory import Pod
from bs4_console.pods.observer import Observation, SightState
from bs4_console.providers.base import Machine, MachineState, Provider

#: Seconds for one poll, its repeated requests included.
LOOK_S = 45.0
_STATES: Mapping[MachineState, SightState] = {
    "running": "running",
    "stopped": "stopped",
    "ended": "gone",
}


class ProviderObserver:
    """Observes one machine through the API of its provider (see ExternalObserver). `make` is a
    function that returns a new adapter for the provider, given an HTTP client. It is called once
    for each poll, and the client is closed afterwards.
    """

    def __init__(
        self,
        provider: str,
        machine_id: str,
        make: Callable[[httpx.AsyncClient], Provider] | None = None,
    ) -> None:
        self.name = provider
        self._machine_id = machine_id
        self._make = make or (lambda client: providers.make(provider, client))

    async def observe(self) -> Observation:
        """Ask the provider once about the machine, for at most 45 seconds, and return what it says.
        Nothing is raised if that fails: the returned `state` is then "unknown", and `detail` has
        the reason.
        """
        try:
            async with asyncio.timeout(LOOK_S), httpx.AsyncClient() as client:
                seen = await self._make(client).machine(self._machine_id)
        except ConsoleError as error:
            return Observation(
                state="unknown",
                detail=error.message,
                seen_t=None,
                coverage=f"what {self.name} says of the machine",
                next_step=error.next_step,
            )
        except TimeoutError:
            return Observation(
                state="unknown",
                detail=f"{self.name} did not answer in {LOOK_S:.0f} s.",
                seen_t=None,
                coverage=f"what {self.name} says of the machine",
            )
        return _sight(self.name, self._machine_id, seen)


def witness_of(pod: Pod) -> ProviderObserver | None:
    """Return an object that asks the provider about the machine of `pod`. Return None if the
    inventory (the console's list of pods) names no provider and machine for the pod, or if this
    console cannot use the provider.
    """
    if pod.provider not in providers.NAMES or not pod.instance:
        return None
    return ProviderObserver(pod.provider, pod.instance)


def _sight(name: str, machine_id: str, seen: Machine | None) -> Observation:
    now = time.time()
    if seen is None:
        return Observation(
            state="gone",
            detail=f"{name} knows no machine {machine_id}.",
            seen_t=now,
            raw_state="no such machine",
        )
    state = _STATES.get(seen.state, "unknown")
    return Observation(
        state=state,
        detail=f"{name} says that machine {machine_id} is {seen.raw_state}.",
        seen_t=now,
        coverage="whether the machine runs" if state == "unknown" else "",
        raw_state=seen.raw_state,
    )
