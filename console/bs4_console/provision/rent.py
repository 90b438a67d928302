"""Rents a machine so that none is ever rented twice, lost sight of, or paid above the confirmed
price.

The order is always: search, plan, confirm, write the intent to disk, send the create once, search
for its exact label until the result is known. A create is never repeated. Another offer is tried
only when the offer before surely left nothing behind. A create in doubt stays in the journal, and
nothing more is rented for its run until it is settled.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from bs4_console.errors import ConsoleError, NotApplicableError, RefusedError
from bs4_console.pods.inventory import Pod
from bs4_console.providers.base import Machine, Offer, Provider, Want, is_ours
from bs4_console.providers.errors import InDoubt, NotAllowed, NotSent, ProviderError, WrongKey
from bs4_console.provision.account import Account, account_of
from bs4_console.provision.book import Book, Intent
from bs4_console.provision.errors import (
    AlreadyThere,
    Dearer,
    NoOffers,
    NotGone,
    NothingMade,
    NotUp,
    OverBudget,
    Unsettled,
)
from bs4_console.provision.plan import PLAN_S, Plan, SearchResult, no_offers
from bs4_console.provision.pod import greets

#: US dollars. Prices that differ by less count as equal, because the providers round.
_CENT = 0.005

__all__ = [
    "AlreadyThere",
    "Dearer",
    "SearchResult",
    "Listed",
    "NoOffers",
    "NotGone",
    "NotUp",
    "NothingMade",
    "OverBudget",
    "Patience",
    "Plan",
    "Provisioner",
    "Unsettled",
]

Say = Callable[[str], None]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How often, and for how long, the provider is polled until a request (to rent or to end a
    machine) has taken effect. `boot_s` is how long a machine may take to start, and `end_s` how
    long it may take to disappear. `poll_s` is the pause between two polls of it. `every_s` is the
    pause between two searches for a machine that may have been made, and `looks` how many such
    searches in a row have to find nothing. All times are in seconds.
    """

    looks: int = 6
    """If it is unclear whether a request has made a machine, so many searches in a row that find
    none mean that none was made.
    """
    refused_looks: int = 2
    """The same number after a request that the provider has refused."""
    every_s: float = 10.0
    list_s: float = 60.0
    """For so many seconds a machine that was just made may be missing in the provider's list."""
    boot_s: float = 1200.0
    end_s: float = 300.0
    poll_s: float = 5.0


@dataclass(frozen=True)
class Listed:
    """One machine of an account (`machine`), together with what this console knows of it. `intent`
    is the attempt by which this console has rented it, and `pod` its name in the inventory (the
    console's list of pods); each is None if there is none. `orphan` is True if the machine has a
    label that a console makes, but nothing here knows the machine.
    """

    machine: Machine
    intent: Intent | None
    pod: str | None
    orphan: bool
    """True if the machine has a label that a console makes, but neither the journal of rented
    machines nor the inventory here knows it. Also true for a second machine with a label that is
    known.
    """


class Provisioner:
    """Searches, rents and ends machines at several providers. `book` is the journal of rented
    machines, and `who` is the name of the person that is written into it. `patience` sets how long
    to wait for providers and machines (None: the defaults). The function `say` is called with a
    sentence for a person about each thing that happens. `spent` takes a run's name and returns what
    that run has cost until now, in US dollars; with None only the machines in `book` count.
    """

    def __init__(
        self,
        providers: Iterable[Provider],
        book: Book,
        who: str,
        *,
        patience: Patience | None = None,
        say: Say = lambda _: None,
        spent: Callable[[str], float] | None = None,
    ) -> None:
        self.providers = {provider.name: provider for provider in providers}
        self.book = book
        self.who = who
        self.patience = patience or Patience()
        self._say = say
        self._spent = spent or (lambda run: book.spent(run=run))

    # Searching

    async def search(self, want: Want) -> SearchResult:
        """Search all providers at the same time for offers of machines that fit `want`, and return
        the offers, cheapest first. If a provider fails, its error is part of the result, and the
        offers of the others are still returned.
        """
        offers, failures = await self._all(lambda provider: provider.offers(want))
        return SearchResult(
            tuple(sorted(offers, key=lambda offer: (offer.price, offer.provider, offer.id))),
            failures,
        )

    async def machines(self) -> tuple[list[Machine], dict[str, ConsoleError]]:
        """Return two things: every machine of every account that has not ended, and {name of a
        provider: error} for the providers that did not answer. The machines at such a provider are
        unknown, so a machine that is missing in the result may exist.
        """
        found, failures = await self._all(lambda provider: provider.machines())
        return [machine for machine in found if machine.state != "ended"], failures

    async def accounts(self) -> tuple[list[Account], dict[str, ConsoleError]]:
        """Return two things: for each account what it can still spend and what its machines cost,
        and {name of a provider: error} for the providers that did not answer.
        """

        async def one(provider: Provider) -> list[Account]:
            return [await account_of(provider)]

        return await self._all(one)

    async def _all(
        self, ask: Callable[[Provider], Awaitable[Sequence[T]]]
    ) -> tuple[list[T], dict[str, ConsoleError]]:
        """Return the answers of all providers in one list, and the errors of those that failed, by
        name.
        """
        asked = list(self.providers.values())
        answers = await asyncio.gather(
            *(ask(provider) for provider in asked), return_exceptions=True
        )
        found: list[T] = []
        failures: dict[str, ConsoleError] = {}
        for provider, answer in zip(asked, answers, strict=True):
            if isinstance(answer, ConsoleError):
                failures[provider.name] = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found += answer
        return found, failures

    async def listing(self, pods: Iterable[Pod]) -> tuple[list[Listed], dict[str, ConsoleError]]:
        """Return two things: the machines of every account with what this console knows of each,
        and {name of a provider: error} for the providers that did not answer. `pods` are the pods
        of the inventory, the console's list of pods.

        The journal of rents is brought up to date: if it was unclear whether an attempt to rent has
        made a machine, and a machine has its label, the attempt is recorded as successful. An
        attempt whose machine no longer exists is closed. Raises UsageError if the journal of rented
        machines is damaged.
        """
        found, failures = await self.machines()
        known = {
            (pod.provider, pod.instance): pod.name for pod in pods if pod.provider and pod.instance
        }
        listed, there = [], set()
        for machine in found:
            there.add((machine.provider, machine.id))
            intent, pod = self.book.by_machine(machine), known.get((machine.provider, machine.id))
            if intent is not None and intent.state in ("open", "doubt", "absent"):
                self.book.note(intent, "adopted", machine=machine.id)
            twin = intent is not None and intent.machine not in (None, machine.id)
            listed.append(
                Listed(
                    machine,
                    intent,
                    pod,
                    twin or (is_ours(machine.label) and intent is None and pod is None),
                )
            )
        for intent in self.book.intents():
            unlisted = (intent.provider, str(intent.machine)) not in there
            if intent.state == "made" and unlisted and intent.provider not in failures:
                # The list may be behind, so the machine itself is polled.
                await self._close_if_gone(intent)
        return listed, failures

    # Renting

    async def plan(
        self,
        want: Want,
        run: str,
        *,
        max_spend: float | None = None,
        hours: float = 24.0,
        fallbacks: int = 2,
        another: bool = False,
        notes: Sequence[str] = (),
    ) -> Plan:
        """Return a plan to rent a machine for `run`: the cheapest offer whose price is allowed, and
        up to `fallbacks` more, to be tried in this order. `want` describes the machine and has the
        highest price. `max_spend` is the most that the whole run may cost in US dollars, and
        `hours` are the planned hours. `another` permits a second machine for a run that has one.
        `notes` are sentences that are shown with the plan.

        Raises NotApplicableError if `want` has no highest price, NoOffers if no offer is cheap
        enough, OverBudget if the run would exceed `max_spend`, and AlreadyThere if the run has a
        machine. Raises UsageError if the journal of rented machines is damaged.
        """
        if want.max_price is None or not math.isfinite(want.max_price) or want.max_price <= 0:
            raise NotApplicableError(
                "Nothing is rented without a price cap.",
                "Give the most that an hour of the whole machine may cost, in US dollars: "
                "--max-price.",
            )
        if not another:
            with self.book.renting(run) as free:
                await self._alone(run, free)
        found = await self.search(want)
        cheap = [offer for offer in found.offers if offer.price <= want.max_price + _CENT]
        if not cheap:
            raise no_offers(want, found)
        spent = self._spent(run)
        most = math.inf if max_spend is None else max_spend
        fit = [offer for offer in cheap if spent + hours * offer.price <= most]
        if not fit:
            raise OverBudget(
                f"{run} has cost ${spent:.2f}; {hours:g} more hours at ${cheap[0].price:.2f} "
                f"are above ${most:.2f}.",
                "Raise the spend cap, or plan fewer hours.",
            )
        return Plan(
            run=run,
            want=want,
            offers=tuple(fit[: fallbacks + 1]),
            max_price=want.max_price,
            max_spend=max_spend,
            hours=hours,
            spent=spent,
            expires_t=time.time() + PLAN_S,
            another=another,
            notes=(
                *notes,
                *(f"{name} could not be asked: {error}" for name, error in found.failures.items()),
            ),
        )

    async def create(
        self, plan: Plan, public_key: str, may: Callable[[], bool] = lambda: True
    ) -> Machine:
        """Rent the first offer of the plan that is still available at its price, and return the
        machine, which exists but has not started yet. `public_key` is the SSH key that will open
        it. `may` is called just before each request that costs money; if it returns False, the
        request is not sent, and the offer counts as one that has failed.

        Raises RefusedError if the plan has expired, its offers are gone, or the run has a machine
        or too little budget. Raises NothingMade if nothing was rented, Unsettled if a machine may
        exist, and Dearer if the machine costs more than the highest price that is allowed.
        """
        if time.time() > plan.expires_t:
            raise RefusedError("Nothing was rented: the plan is too old.", "Make a new one.")
        with self.book.renting(plan.run) as free:
            if not plan.another or not free:
                await self._alone(plan.run, free)
            return await self._one_of(plan, public_key, may)

    async def _one_of(self, plan: Plan, public_key: str, may: Callable[[], bool]) -> Machine:
        refused: list[str] = []
        for planned in plan.offers:
            provider = self.providers.get(planned.provider)
            if provider is None:
                refused.append(f"{planned.provider} is not asked any more")
                continue
            try:
                offer = await self._again(provider, planned, plan)
                await provider.prepare(public_key)
            except ProviderError as error:
                refused.append(str(error))
                continue
            if offer is None:
                refused.append(f"{planned.provider} {planned.id} is taken or dearer now")
                continue
            made = await self._rent(provider, offer, plan, public_key, may)
            if isinstance(made, Machine):
                return made
            refused.append(made)
            self._say(f"{made} Nothing was left behind; the next offer is tried.")
        if all("taken or dearer" in why for why in refused):
            raise RefusedError(
                f"Nothing was rented: the plan has changed. {'; '.join(refused)}.",
                "Make a new one.",
            )
        raise NothingMade(
            f"Nothing was rented; no offer of the plan could be had: {'; '.join(refused)}",
            "Search again.",
        )

    async def _again(self, provider: Provider, planned: Offer, plan: Plan) -> Offer | None:
        """Return the offer as it is now, or None if it is gone or costs more than was confirmed."""
        for offer in await provider.offers(plan.want):
            if (
                offer.key == planned.key
                and offer.price <= min(planned.price, plan.max_price) + _CENT
            ):
                return offer
        return None

    async def _rent(
        self, provider: Provider, offer: Offer, plan: Plan, public_key: str, may: Callable[[], bool]
    ) -> Machine | str:
        """Write one intent and send one create. Return the machine, or a sentence that says why it
        surely was not made. Raises Unsettled or NothingMade, which end the whole plan.
        """
        with self.book.alone():
            if not plan.another:
                _refuse_others(plan.run, self.book.of_run(plan.run))
            if plan.max_spend is not None:
                spent = self._spent(plan.run)
                if spent + plan.hours * offer.price > plan.max_spend + _CENT:
                    raise OverBudget(
                        f"{plan.run} has cost ${spent:.2f} by now, too much for the cap.",
                        "Raise it, or plan fewer hours.",
                    )
            intent = self.book.intend(plan.run, offer, plan.want, self.who)
        self._say(
            f"{offer.provider}: renting {offer.count}x {offer.gpu} at ${offer.price:.2f} an "
            f"hour as {intent.label}."
        )
        try:
            if not may():
                raise NotSent(provider.name, "it is too late to ask for a machine.", "Look again.")
            machine_id = await provider.create(offer, plan.want, intent.label, public_key)
        except InDoubt as error:
            self.book.note(intent, "doubt", why=str(error))
            self._say(str(error))
            machine = await self.settle(intent, self.patience.looks)
            if machine is None:
                raise NothingMade(
                    f"{error.message}. {self.patience.looks} looks found no machine labelled "
                    f"{intent.label}, so it is taken as not made.",
                    "Look at the provider's page if in doubt; then plan again.",
                ) from None
            return machine
        except (WrongKey, NotSent) as error:
            # The request never got as far as the market.
            self.book.note(intent, "refused", why=str(error))
            return str(error)
        except ProviderError as error:
            self.book.note(intent, "doubt", why=str(error))
            return await self.settle(intent, self.patience.refused_looks) or str(error)
        self.book.note(intent, "made", machine=machine_id)
        return await self._made(provider, intent, machine_id, plan.max_price)

    async def _made(
        self, provider: Provider, intent: Intent, machine_id: str, max_price: float
    ) -> Machine:
        """Return the machine that a create named. Raises Unsettled if two machines carry its label,
        and Dearer if it costs more than the cap.
        """
        try:
            machine = await self._labelled(provider, intent)
        except ProviderError as error:
            self._say(f"It was made as {machine_id}, and cannot be looked at yet: {error}")
            return Machine(
                provider=provider.name,
                id=machine_id,
                label=intent.label,
                state="unknown",
                raw_state="not seen yet",
                price=intent.price,
            )
        if machine is None or machine.id != machine_id:
            return Machine(
                provider=provider.name,
                id=machine_id,
                label=intent.label,
                state="starting",
                raw_state="not listed yet",
                price=intent.price,
            )
        if machine.price is not None and machine.price > max_price + _CENT:
            raise Dearer(
                f"{machine.name} costs ${machine.price:.2f} an hour and not ${intent.price:.2f}, "
                f"above the cap of ${max_price:.2f}.",
                "It is kept until you decide; `bs4-console provision terminate "
                f"{machine.name}` ends it.",
                machine,
            )
        return machine

    async def settle(self, intent: Intent, looks: int | None = None) -> Machine | None:
        """Find out whether `intent`, an attempt to rent a machine with an unclear result, has made
        one, by searching the provider for its exact label. If it has, return the machine, and
        record in the journal of rented machines that it was made. If `looks` searches in a row
        (None: `patience.looks`) have found nothing, return None, and record that there is no
        machine.

        Raises Unsettled if the provider does not answer or several machines have the label. The
        result then stays unclear.
        """
        provider = self.providers.get(intent.provider)
        if provider is None:
            raise Unsettled(
                f"{intent.label} may exist at {intent.provider}, which cannot be asked.",
                f"Store its key: `bs4-console provision key {intent.provider}`.",
                intent,
            )
        wanted = self.patience.looks if looks is None else looks
        for look in range(wanted):
            if look:
                await asyncio.sleep(self.patience.every_s)
            try:
                machine = await self._labelled(provider, intent)
            except ProviderError as error:
                raise Unsettled(
                    f"{intent.label} may exist: {error.message}",
                    "Nothing more is rented for this run until `bs4-console provision list` "
                    "can see it.",
                    intent,
                ) from error
            if machine is not None:
                self.book.note(intent, "adopted", machine=machine.id)
                self._say(
                    f"{machine.name} carries {intent.label} and is {machine.raw_state}: it is ours."
                )
                return machine
        self.book.note(intent, "absent", looks=wanted)
        return None

    async def _labelled(self, provider: Provider, intent: Intent) -> Machine | None:
        """Return the machine with exactly the intent's label, or None. Raises Unsettled if several
        machines carry the label.
        """
        same = [
            machine
            for machine in await provider.machines()
            if machine.label == intent.label and machine.state != "ended"
        ]
        if len(same) > 1:
            names = ", ".join(machine.name for machine in same)
            raise Unsettled(
                f"{len(same)} machines carry {intent.label}: {names}. Each costs.",
                "End all but one: `bs4-console provision terminate NAME`.",
                intent,
                same,
            )
        return same[0] if same else None

    async def _alone(self, run: str, free: bool) -> None:
        """Raise AlreadyThere if the run has a machine. Intents in doubt are settled first, and
        intents of machines that are gone are closed.

        `free` is True if no other process rents for this run now, so that an open intent was left
        by a process that died.
        """
        if not free:
            raise AlreadyThere(
                f"A machine for {run} is being rented just now, by another process here.",
                "Wait for its end.",
                (),
            )
        for intent in self.book.of_run(run):
            if intent.state in ("open", "doubt"):
                await self.settle(intent)
            elif intent.state == "made":
                await self._close_if_gone(intent)
        _refuse_others(run, self.book.of_run(run))

    async def _close_if_gone(self, intent: Intent) -> None:
        """Close an intent if its provider can be asked and says that the machine has ended."""
        provider = self.providers.get(intent.provider)
        if provider is None:
            return
        seen = await provider.machine(str(intent.machine))
        if seen is None or seen.state == "ended":
            self.book.note(intent, "gone")

    # Coming up, and the end

    async def up(self, machine: Machine) -> Machine:
        """Wait until the machine runs and its SSH server answers, for at most `patience.boot_s`
        seconds, and return the machine as the provider describes it then. Raises NotUp if that does
        not happen; the machine then still exists and may cost money, unless it has ended. Raises
        Unsettled if it runs and another machine has the same label. Raises UsageError if the
        journal of rented machines is damaged.
        """
        provider = self.providers[machine.provider]
        deadline = time.monotonic() + self.patience.boot_s
        seen_once = not machine.raw_state.startswith("not ")
        said, trouble = "", ""
        end = f"`bs4-console provision terminate {machine.name}` ends it."
        while time.monotonic() < deadline:
            try:
                seen = await provider.machine(machine.id)
            except ProviderError as error:
                trouble = error.message
                await asyncio.sleep(self.patience.poll_s)
                continue
            if seen is None or seen.state == "ended":
                if (
                    seen_once
                    or time.monotonic() > deadline - self.patience.boot_s + self.patience.list_s
                ):
                    if intent := self.book.by_machine(machine):
                        self.book.note(intent, "gone")
                    raise NotUp(
                        f"{machine.name} ended before it was up.", "Take another offer.", None
                    )
                await asyncio.sleep(self.patience.poll_s)
                continue
            machine, seen_once = seen, True
            if machine.raw_state != said:
                said = machine.raw_state
                self._say(f"{machine.name} is {said}.")
            if machine.state == "stopped":
                raise NotUp(
                    f"{machine.name} is {said}: it does not run, and its disk costs.", end, machine
                )
            if (
                machine.state == "running"
                and machine.host
                and machine.port
                and await greets(machine.host, machine.port)
            ):
                if intent := self.book.by_machine(machine):
                    await self._labelled(provider, intent)  # a twin would have shown itself by now
                return machine
            await asyncio.sleep(self.patience.poll_s)
        why = f"; {trouble}" if trouble else ""
        raise NotUp(
            f"{machine.name} is {said or 'not seen'} and answers no SSH after "
            f"{self.patience.boot_s:.0f} s{why}.",
            end,
            machine,
        )

    async def terminate(self, machine: Machine, may: Callable[[], bool] = lambda: True) -> None:
        """End the machine and its disk, and poll until the provider no longer has it. `may` is
        called just before the first request that ends it; if it returns False, no request is sent.

        Raises NotGone if `may` returned False or the machine still exists after `patience.end_s`
        seconds, and RefusedError if the machine now has another label. Raises UsageError if the
        journal of rented machines is damaged.
        """
        provider = self.providers[machine.provider]
        if intent := self.book.by_machine(machine):
            self.book.note(intent, "terminating", machine=machine.id, who=self.who)
        deadline = time.monotonic() + self.patience.end_s
        trouble, ordered = "", False
        while True:
            try:
                seen = await provider.machine(machine.id)
                if seen is None or seen.state == "ended":
                    break
                if not ordered and not may():
                    raise NotGone(
                        f"{machine.name} was not ended: it is too late for that.", "Look again."
                    )
                ordered = True
                if seen.label != machine.label:
                    raise RefusedError(
                        f"{machine.name} is labelled {seen.label} now, not {machine.label}: "
                        "nothing was ended.",
                        "Look again with `provision list`.",
                    )
                # The order is repeated: a second one does no harm, and a machine that is still
                # being provisioned may refuse the first.
                await provider.terminate(seen)
            except (WrongKey, NotAllowed):
                raise
            except ProviderError as error:
                trouble = error.message
            if time.monotonic() > deadline:
                why = f"; {trouble}" if trouble else ""
                raise NotGone(
                    f"{machine.name} is still there after {self.patience.end_s:.0f} s{why}. "
                    "It goes on costing.",
                    "Look at the provider's page, then order it again.",
                )
            await asyncio.sleep(self.patience.poll_s)
        self.book.ended(machine)


def _refuse_others(run: str, intents: Sequence[Intent]) -> None:
    there = [intent for intent in intents if intent.state in ("open", "doubt", "made")]
    if there:
        shown = ", ".join(
            f"{intent.provider}:{intent.machine or '?'} ({intent.state}, {intent.label})"
            for intent in there
        )
        raise AlreadyThere(
            f"{run} has a machine: {shown}.",
            "Use it, end it with `bs4-console provision terminate`, or ask for another one "
            "on purpose.",
            there,
        )
