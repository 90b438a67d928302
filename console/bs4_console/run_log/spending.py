"""What runs have cost: the time that each spent on each pod, at that pod's price."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from bs4_console.pods.state import PodState, RunState
from bs4_console.run_log import eta, record_fold


@dataclass(frozen=True, kw_only=True)
class Stay:
    """The time of the run `run` on the pod `pod`, from its first attempt (`began_t`) to its end
    (`until_t`), pauses included. Times are Unix times in seconds. `price` is in US dollars an hour,
    or None if it is not known.
    """

    run: str
    pod: str
    began_t: float
    until_t: float
    price: float | None

    @property
    def cost(self) -> float | None:
        """Return what the stay (the time of the run on the pod, pauses included) costs in US
        dollars, or None if the price is not known.
        """
        return eta.cost(self.price, self.until_t - self.began_t)


def stays(
    pods: Iterable[PodState], present: Collection[str], prices: Mapping[str, float], now: float
) -> list[Stay]:
    """Return one Stay, the time that a run has spent on a pod, for each run on each of `pods`,
    oldest first. `prices` maps the names of runs to prices in US dollars an hour that a person
    noted; they replace the price that was recorded at the launch.

    A stay without a recorded end ends at `now` (Unix time in seconds) if the pod is among
    `present`, the names in the inventory, and was not made anew since; else at the newest training
    step that was read. It never ends before that step, because a pod's clock may be ahead of this
    machine's. If such a run continued on another pod, its stay ends earlier: when it began there,
    or at the newest step on the first pod if that is later.
    """
    found: list[tuple[Stay, float | None]] = []
    for pod in pods:
        for state in pod.runs.values():
            record = record_fold.fold(pod, state)
            if record.started_t is None:
                continue
            until, newest = record.ended_t, None
            if until is None:
                newest = _newest(state, record.started_t)
                until = newest
                if pod.name in present and not pod.former:
                    until = max(now, newest)
            stay = Stay(
                run=state.name,
                pod=pod.name,
                began_t=record.started_t,
                until_t=max(until, record.started_t),
                price=prices.get(state.name, record.price),
            )
            found.append((stay, newest))
    return _moved(sorted(found, key=lambda one: one[0].began_t))


def _moved(stays: list[tuple[Stay, float | None]]) -> list[Stay]:
    """Return the stays, oldest first, with those cut off that a later one of the same run follows.
    Each comes with the time of its newest step, or None if its end is recorded.
    """
    found = []
    for number, (stay, newest) in enumerate(stays):
        later = [other.began_t for other, _ in stays[number + 1 :] if other.run == stay.run]
        until = stay.until_t
        if later and newest is not None:
            until = min(until, max(later[0], newest))
        found.append(replace(stay, until_t=until))
    return found


def filled(stays: Iterable[Stay], written: Mapping[str, float]) -> list[Stay]:
    """Return the stays, with the price that a document gives for a run if the price of none of the
    run's stays is known. `written` maps the names of runs to such prices, in US dollars an hour. A
    document has one price for each run, so of a run on several pods it is not known whose it is.
    """
    found = list(stays)
    priced = {stay.run for stay in found if stay.price is not None}
    filled = []
    for stay in found:
        price = stay.price
        if stay.run not in priced:
            price = written.get(stay.run)
        filled.append(replace(stay, price=price))
    return filled


def total(stays: Iterable[Stay]) -> float:
    """Return the sum of the costs, in US dollars, of `stays`. A stay is the time that a run was on
    one pod; stays whose price is not known are left out. Time in which several runs shared one pod
    counts once.
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
