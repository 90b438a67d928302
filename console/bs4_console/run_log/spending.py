"""What runs have cost: the time that each spent on each pod, at that pod's price."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from bs4_console.pods.state import PodState, RunState
from bs4_console.run_log import eta, record_fold


@dataclass(frozen=True, kw_only=True)
class Stay:
    """The time of a run on one pod, from its first attempt to its end, pauses included, in wall
    seconds. `price` is in US dollars an hour, or None if it is not known.
    """

    run: str
    pod: str
    began_t: float
    until_t: float
    price: float | None

    @property
    def cost(self) -> float | None:
        """The US dollars of the stay, or None if the price is not known."""
        return eta.cost(self.price, self.until_t - self.began_t)


def stays(
    pods: Iterable[PodState], present: Collection[str], prices: Mapping[str, float], now: float
) -> list[Stay]:
    """Return the stay of each run on each of `pods`, oldest first. `prices` are those that a person
    noted, by the run's name; they count in place of what a launch recorded.

    A run without an end goes on until `now` if its pod is among `present`, the names in the
    inventory. Else it ended, as far as is known, with the newest step that was read.
    """
    found = []
    for pod in pods:
        for state in pod.runs.values():
            record = record_fold.fold(pod, state)
            if record.started_t is None:
                continue
            until = record.ended_t
            if until is None:
                until = now if pod.name in present else _newest(state, record.started_t)
            found.append(
                Stay(
                    run=state.name,
                    pod=pod.name,
                    began_t=record.started_t,
                    until_t=max(until, record.started_t),
                    price=prices.get(state.name, record.price),
                )
            )
    return sorted(found, key=lambda stay: stay.began_t)


def since(stays: Iterable[Stay], t: float) -> list[Stay]:
    """Return the part of the stays that is after the wall second `t`."""
    return [replace(stay, began_t=max(stay.began_t, t)) for stay in stays if stay.until_t > t]


def total(stays: Iterable[Stay]) -> float:
    """Return the US dollars of all stays whose price is known. Time that several runs shared on one
    pod counts once.
    """
    spent = 0.0
    paid_until: dict[str, float] = {}
    for stay in sorted(stays, key=lambda stay: stay.began_t):
        if stay.price is None:
            continue
        began = max(stay.began_t, paid_until.get(stay.pod, stay.began_t))
        spent += eta.cost(stay.price, max(0.0, stay.until_t - began)) or 0.0
        paid_until[stay.pod] = max(began, stay.until_t)
    return spent


def _newest(run: RunState, began_t: float) -> float:
    """Return the wall second at which the newest step of a run was written, or `began_t`."""
    steps = [*run.trainer_steps, *run.orchestrator_steps]
    return max((float(step["t"]) for step in steps), default=began_t)
