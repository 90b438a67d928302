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
        """Return what the stay costs in US dollars, or None if the price is not known."""
        return eta.cost(self.price, self.until_t - self.began_t)


def stays(
    pods: Iterable[PodState], present: Collection[str], prices: Mapping[str, float], now: float
) -> list[Stay]:
    """Return one Stay for each run on each of `pods`, oldest first. `prices` maps the names of runs
    to prices in US dollars an hour that a person noted; they replace the price that was recorded at
    the launch.

    A run without a recorded end is taken to last until `now` (Unix time in seconds) if its pod is
    among `present`, the names in the inventory. If its pod is not in the inventory any more, it is
    taken to have lasted until the newest training step that was read.
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
    """Return the parts of these stays that lie after the Unix time `t` in seconds. A stay that
    ended before `t` is left out.
    """
    return [replace(stay, began_t=max(stay.began_t, t)) for stay in stays if stay.until_t > t]


def total(stays: Iterable[Stay]) -> float:
    """Return the sum of the costs, in US dollars, of all stays whose price is known. Time in which
    several runs shared one pod counts once.
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
