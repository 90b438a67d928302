"""What runs and rented machines have cost together, by pod, provider or week. An hour of a machine
counts once, whether a run used it or not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Literal

from bs4_console.pods.inventory import Pod
from bs4_console.provision.book import Intent
from bs4_console.run_log import spending
from bs4_console.run_log.spending import Stay

#: What costs can be added up by.
By = Literal["run", "pod", "provider", "week"]


@dataclass(frozen=True, kw_only=True)
class Rented:
    """A machine that this console has rented for the run `run`: its time from `began_t` to
    `until_t`, Unix times in seconds, and its `price` in US dollars an hour. `names` are the pods
    that it is or was, the newest first. `sure` is False if it is not known whether it was made, and
    `gone` is True if it no longer exists.
    """

    provider: str
    names: tuple[str, ...]
    run: str
    price: float
    began_t: float
    until_t: float
    sure: bool
    gone: bool

    def has(self, stay: Stay) -> bool:
        """Return True if the run of `stay` was on this machine."""
        overlap = min(stay.until_t, self.until_t) - max(stay.began_t, self.began_t)
        return stay.pod in self.names and overlap >= 0


@dataclass(frozen=True, kw_only=True)
class Spell:
    """A time that was paid: that of a run on a pod, or one in which no run used a rented machine.
    The run of such a `stay` is "". `provider` is None if nobody knows it, and `machine` is None if
    this console has not rented it.
    """

    stay: Stay
    provider: str | None
    machine: Rented | None


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What was paid: `used` by runs, and `unused`, the time in which no run used a machine that
    this console has rented. `rented` are these machines.
    """

    used: Sequence[Spell]
    unused: Sequence[Spell]
    rented: Sequence[Rented]

    @property
    def stays(self) -> list[Stay]:
        """Return the times of runs on pods, oldest first."""
        return [spell.stay for spell in self.used]

    @property
    def unpriced(self) -> list[str]:
        """Return the names of the runs of which some time has no known price."""
        return sorted({stay.run for stay in self.stays if stay.price is None})

    @property
    def runs(self) -> float:
        """Return what runs have cost, in US dollars. Time that they shared on a pod counts once."""
        return spending.total(self.stays)

    @property
    def idle(self) -> float:
        """Return what rented machines have cost while no run used them, in US dollars."""
        return sum(spell.stay.cost or 0.0 for spell in self.unused)

    @property
    def rent(self) -> float:
        """Return what rented machines have cost, in US dollars, whether runs used them or not."""
        return sum((one.until_t - one.began_t) / 3600 * one.price for one in self.rented)

    @property
    def unsure(self) -> int:
        """Return of how many rented machines it is not known whether they were made."""
        return len([one for one in self.rented if not one.sure])

    @property
    def total(self) -> float:
        """Return all that was paid, in US dollars."""
        return self.runs + self.idle

    def during(self, began_t: float, until_t: float) -> Costs:
        """Return the part that was paid between two Unix times in seconds."""
        rented = []
        for one in self.rented:
            if one.until_t > began_t and one.began_t < until_t:
                begin, end = max(one.began_t, began_t), min(one.until_t, until_t)
                rented.append(replace(one, began_t=begin, until_t=end))
        return Costs(
            used=_during(self.used, began_t, until_t),
            unused=_during(self.unused, began_t, until_t),
            rented=rented,
        )

    def of_runs(self, runs: Collection[str]) -> Costs:
        """Return the part of `runs`: their time on pods, and the machines rented for them."""
        unused = []
        for spell in self.unused:
            if spell.machine is not None and spell.machine.run in runs:
                unused.append(spell)
        return Costs(
            used=[spell for spell in self.used if spell.stay.run in runs],
            unused=unused,
            rented=[one for one in self.rented if one.run in runs],
        )

    def by(self, what: By) -> dict[str | None, Costs]:
        """Return the costs of each run, pod, provider or ISO week ("2026-W49", in local time).
        Weeks are in their order, and the others begin with the dearest. None stands for a provider
        that nobody knows, and for no run.
        """
        if what == "week":
            return self._by_week()
        key = _KEYS[what]
        used, unused = _grouped(self.used, key), _grouped(self.unused, key)
        found = {}
        for name in {**used, **unused}:
            found[name] = Costs(used=used.get(name, []), unused=unused.get(name, []), rented=[])
        return dict(sorted(found.items(), key=lambda item: -item[1].total))

    def _by_week(self) -> dict[str | None, Costs]:
        mondays = set()
        for spell in (*self.used, *self.unused):
            day = monday(date.fromtimestamp(spell.stay.began_t))
            while midnight(day) < spell.stay.until_t:
                mondays.add(day)
                day += timedelta(weeks=1)
        found: dict[str | None, Costs] = {}
        for day in sorted(mondays):
            year, week, _ = day.isocalendar()
            following = day + timedelta(weeks=1)
            found[f"{year}-W{week:02}"] = self.during(midnight(day), midnight(following))
        return found


def costs(
    stays: Iterable[Stay], intents: Iterable[Intent], known: Sequence[Pod], now: float
) -> Costs:
    """Return what was paid until `now`, a Unix time in seconds. `stays` are the times of runs on
    pods, `intents` the attempts to rent a machine, and `known` the pods of the inventory. A stay
    on a rented machine that is gone ends with it, and one without a price gets the machine's.
    """
    rented = _rented(intents, known, now)
    providers = {pod.name: pod.provider for pod in known}
    used = []
    for stay in stays:
        machine = next((one for one in reversed(rented) if one.has(stay)), None)
        provider = providers.get(stay.pod)
        if machine is not None:
            provider = machine.provider
            if machine.gone:
                stay = replace(stay, until_t=min(stay.until_t, machine.until_t))
            if stay.price is None:
                stay = replace(stay, price=machine.price)
        used.append(Spell(stay=stay, provider=provider, machine=machine))
    unused = []
    for one in rented:
        unused += _unused(one, [spell.stay for spell in used if one.has(spell.stay)])
    return Costs(used=used, unused=unused, rented=rented)


def midnight(day: date) -> float:
    """Return the Unix time in seconds at which `day` begins in local time."""
    return datetime(day.year, day.month, day.day).timestamp()


def monday_of(week: str) -> date:
    """Return the Monday of an ISO week such as "2026-W49"."""
    year, _, number = week.partition("-W")
    return date.fromisocalendar(int(year), int(number), 1)


def monday(day: date) -> date:
    """Return the Monday of the week of `day`."""
    return day - timedelta(days=day.weekday())


def _rented(intents: Iterable[Intent], known: Sequence[Pod], now: float) -> list[Rented]:
    """Return the machines that exist, existed or may exist, oldest first."""
    names: Mapping[tuple[str | None, str | None], str] = {
        (pod.provider, pod.instance): pod.name for pod in known if pod.instance
    }
    found = []
    for intent in intents:
        if intent.state == "absent":
            continue
        machine = (intent.provider, intent.machine)
        pods = dict.fromkeys(name for name in (names.get(machine), intent.pod) if name)
        began = intent.made_t or intent.t
        one = Rented(
            provider=intent.provider,
            names=tuple(pods) or (f"{intent.provider}:{intent.machine or intent.label}",),
            run=intent.run,
            price=intent.price,
            began_t=began,
            until_t=max(began, intent.gone_t or now),
            sure=intent.state in ("made", "gone"),
            gone=intent.state == "gone",
        )
        found.append(one)
    return found


def _unused(machine: Rented, stays: Iterable[Stay]) -> list[Spell]:
    """Return the times of a rented machine that none of `stays` covers."""
    ends = [(stay.began_t, stay.until_t) for stay in stays]
    free, found = machine.began_t, []
    for began, until in [*sorted(ends), (machine.until_t, machine.until_t)]:
        if min(began, machine.until_t) > free:
            stay = Stay(
                run="",
                pod=machine.names[0],
                began_t=free,
                until_t=min(began, machine.until_t),
                price=machine.price,
            )
            found.append(Spell(stay=stay, provider=machine.provider, machine=machine))
        free = max(free, until)
    return found


def _during(spells: Iterable[Spell], began_t: float, until_t: float) -> list[Spell]:
    found = []
    for spell in spells:
        stay = spell.stay
        if stay.until_t > began_t and stay.began_t < until_t:
            begin, end = max(stay.began_t, began_t), min(stay.until_t, until_t)
            found.append(replace(spell, stay=replace(stay, began_t=begin, until_t=end)))
    return found


def _grouped(
    spells: Iterable[Spell], key: Callable[[Spell], str | None]
) -> dict[str | None, list[Spell]]:
    found: dict[str | None, list[Spell]] = {}
    for spell in spells:
        found.setdefault(key(spell), []).append(spell)
    return found


_KEYS: Mapping[By, Callable[[Spell], str | None]] = {
    "run": lambda spell: spell.stay.run or None,
    "pod": lambda spell: spell.stay.pod,
    "provider": lambda spell: spell.provider,
}
