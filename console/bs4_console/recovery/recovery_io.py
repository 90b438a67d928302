"""The controller's actions on the real world: on providers over HTTP, on pods over their sessions,
and on the object store.

The way to reach a pod is given from outside (`Reach`), so this package does not depend on SSH.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from bs4_common.checkpoints.remote import source
from bs4_common.checkpoints.remote.errors import StoreError
from bs4_common.checkpoints.remote.layout import Place
from bs4_common.checkpoints.remote.store import Store
from bs4_common.ids import made_t
from bs4_console.checkpoints import listing
from bs4_console.errors import (
    ConsoleError,
    HostKeyChanged,
    HostKeyUnknown,
    LinkError,
    RefusedError,
    UsageError,
)
from bs4_console.fleet.liveness_probe import at_its_port
from bs4_console.launch import guide as launch
from bs4_console.pods import carried_orders
from bs4_console.pods.inventory import Inventory, Pod
from bs4_console.pods.liveness import Sign, of_sight
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import ActionView, IncidentView, PodState, RunState
from bs4_console.providers.base import Machine, Offer, Want, label_of, ulid_of
from bs4_console.providers.errors import ProviderError
from bs4_console.provision.book import Book, Intent
from bs4_console.provision.observer import ProviderObserver
from bs4_console.provision.pod import greets, pod_of
from bs4_console.provision.rent import (
    Dearer,
    NoOffers,
    NotGone,
    Plan,
    Provisioner,
    Unsettled,
)
from bs4_console.recovery import restore
from bs4_console.recovery.config import RunConfig
from bs4_console.recovery.recovery_types import Absent, Chosen, Doubt, Failed, Report, Saved
from bs4_console.recovery.state import Where
from bs4_console.setup import recipe
from bs4_console.setup.credentials import Credentials

#: Seconds for which one poll waits for an action that continues by itself on the pod.
WAIT_S = 60.0
#: Seconds for connecting to a pod that may be gone, and for the SSH greeting at its address.
LOOK_S, GREET_S = 30.0, 10.0


class Reach(Protocol):
    """What the recovery controller uses to reach pods from this machine: it gives sessions with
    them, their saved states, and their trusted host keys.
    """

    def linked(
        self, pod: Pod, *, deploy: bool, timeout: float
    ) -> AbstractAsyncContextManager[PodSession]:
        """Return an async context manager that yields a connected session with the pod. With
        `deploy`, the agent is installed on the pod if it is missing; `timeout` is in seconds.
        Entering the context manager raises a LinkError if the pod cannot be reached.
        """

    def kept(self, pod: Pod) -> PodState:
        """Return the pod's state as it was saved on this machine when a console has last read it
        from the pod. The pod is not contacted.
        """

    def pinned(self, pod: str) -> Sequence[str]:
        """Return the trusted SSH host keys of the pod on this machine, each as `type base64`. The
        sequence is empty if no key is trusted yet.
        """

    def pin(self, pod: str, key: str) -> None:
        """Save `key` (`type base64`) on this machine as the trusted SSH host key of the pod."""

    async def store_ready(self, pod: Pod) -> None:
        """Install b2sdk, the library with which the agent reads and writes an object store, on the
        pod if it is missing there.
        """


class KeyedBook(Book):
    """A journal of rented machines in which the next attempt to rent one gets the ULID `key`. The
    recovery controller needs this because the label by which the machine can be found contains the
    ULID, and it has already saved that label in the run's shared state.
    """

    key = ""

    def intend(self, run: str, offer: Offer, want: Want, who: str, key: str = "") -> Intent:
        """Write a new intent (an attempt to rent a machine) for `run` to the journal, and return
        it. Nothing is rented here. `offer` is the offer to rent, `want` describes the machine that
        was searched for, and `who` is the name of the person who rents. `key` becomes the ULID (the
        unique id) of the intent. If it is "", the attribute `key` of this journal is used.
        """
        return super().intend(run, offer, want, who, key or self.key)


@dataclass(kw_only=True)
class RealHands:
    """Carries out the recovery controller's actions for one run on real providers, pods and object
    stores. The protocol Hands describes the methods; their argument `where` is always the machine
    on which to act.

    `provisioner(name)` returns a context manager that yields a Provisioner for that provider, or
    for all providers that may be rented from if `name` is "". Its journal must be a KeyedBook.
    """

    config: RunConfig
    store: Store
    reach: Reach
    provisioner: Callable[[str], AbstractAsyncContextManager[Provisioner]]
    public_key: str
    credentials: Credentials = field(default_factory=Credentials)
    inventory: Inventory = field(default_factory=Inventory)
    clock: Callable[[], float] = time.monotonic
    outside: Callable[[PodState], Any] | None = None
    """checks.outside.ask, which polls W&B with this machine's key."""
    tell: Callable[[str, IncidentView], None] | None = None
    """Called once, with the pod's name, for each open incident of the newest attempt while the
    controller waits for a new step.
    """
    _told: set[tuple[str, str]] = field(default_factory=set)
    """The pod and id of each incident that `tell` has received."""
    _known: dict[str, PodState] = field(default_factory=dict)
    """By pod, the state that was read when the pod was last reached."""

    @property
    def run(self) -> str:
        """Return the name of the run for which this object acts."""
        return self.config.run

    # --- looking

    async def signs(self, where: Where) -> Sequence[Sign]:
        """Poll the provider and the pod on the machine `where` once, and return what they showed as
        signs (who saw it, when, and in which state), from which it is judged if the machine is
        lost. If the pod does not answer over its connection, also poll its SSH port, W&B and the
        object store. Raises UsageError if the pod's address is not known, and RefusedError if
        `where` is a machine that was not rented for this run.
        """
        pod = await self._pod(where, look=True)
        found = []
        if where.provider and where.instance:
            # The provider is polled first: the rule needs a pod that does not answer after the
            # provider has said that the machine is gone.
            sight = await ProviderObserver(where.provider, where.instance).observe()
            found.append(of_sight("provider", sight, self.clock()))
        found += (link := await self._of_link(pod, where))
        if link[0].word != "up":
            found += await self._from_outside(pod, found)
        return found

    async def _of_link(self, pod: Pod, where: Where) -> list[Sign]:
        try:
            async with self.reach.linked(pod, deploy=False, timeout=LOOK_S) as live:
                now = self.clock()
                self._known[pod.name] = live.state
                found = [
                    Sign(now, "ssh", "up"),
                    Sign(now, "boot", "", value=str(live.state.hello.get("boot_id") or "")),
                ]
                return found + self._of_run(live.state, now)
        except LinkError as error:
            word = error.link_state
            # This machine may know no host key of a pod that is gone. Another machine that has its
            # address by now is told apart by the key that the controllers wrote down.
            if (
                isinstance(error, HostKeyUnknown)
                and error.entry in ("", pod.name)
                and where.host_key not in ("", error.key)
            ):
                word = HostKeyChanged.link_state
            return [Sign(self.clock(), "ssh", word, error.message)]

    def _of_run(self, state: PodState, now: float) -> list[Sign]:
        run = state.runs.get(self.run)
        if run is None:
            return []
        if run.word in ("finished", "failed", "stopped"):
            return [Sign(now, "run", run.word)]
        for incident in state.ledger.open_incidents(self.run):
            if incident.failure == "run-stalled":
                return [Sign(now, "run", "still", incident.summary, run.step_seen)]
        return [Sign(now, "run", "moving", "", run.step_seen)]

    async def _from_outside(self, pod: Pod, found: Sequence[Sign]) -> list[Sign]:
        """Return signs from the pod's address, from W&B and from the store, and a sign that says
        whether this machine has a network, judged by whether any of them answered.
        """
        port = await at_its_port(pod.host, pod.port or 22, GREET_S)
        signs = [Sign(self.clock(), "port", port)]
        state = self._known.get(pod.name) or self.reach.kept(pod)
        if self.outside is not None and self.run in state.runs:
            sight = (await self.outside(state)).sights.get(self.run)
            if sight is not None:
                signs.append(of_sight("wandb", sight, self.clock()))
        with contextlib.suppress(StoreError):
            newest = await asyncio.to_thread(self._newest)
            signs.append(Sign(self.clock(), "store", "seen", seen_t=newest))
        heard = {s.source for s in (*found, *signs) if s.word != "unknown"}
        word = "down" if heard.isdisjoint(("provider", "wandb", "store")) else "up"
        return [*signs, Sign(self.clock(), "network", word)]

    def _newest(self) -> float | None:
        """Return when the run itself last wrote to the store, in seconds, or None. Files that
        controllers write do not count.
        """
        layout = self.config.layout
        ours = (layout.lease, layout.clock, layout.recovery)
        return max(
            (entry.t for entry in self.store.entries(layout.root) if entry.name not in ours),
            default=None,
        )

    async def report(self, where: Where) -> Report | None:
        """Connect to the pod on the machine `where` and return what it says of the run: its newest
        training step, if and how it has ended, and its standing orders (what a person wants done
        for it until further notice, such as copying its checkpoints). The report has only default
        values if the pod does not know the run. Return None if the pod cannot be reached. Raises
        UsageError if the pod's address is not known, and RefusedError if `where` is a machine that
        was not rented for this run.
        """
        try:
            async with self.reach.linked(
                await self._pod(where, look=True), deploy=False, timeout=LOOK_S
            ) as live:
                run = live.state.runs.get(self.run)
                if run is None:
                    return Report()
                if run.word != "finished":
                    self._tell_incidents(live.state, run)
                    attempt = run.view.attempt
                    why = ""
                    if attempt is not None and run.word in ("failed", "stopped"):
                        why = attempt.detail
                    orders = carried_orders.orders_of(live.state, self.run)
                    return Report(run.step, failed=why, orders=orders)
                sets = (await listing.of_pod(live, self.run))["checkpoints"]
                return Report(
                    run.step,
                    max((one["step"] for one in sets if one["complete"]), default=None),
                    True,
                )
        except LinkError:
            return None

    def _tell_incidents(self, state: PodState, run: RunState) -> None:
        attempt = run.view.attempt
        if self.tell is None or attempt is None:
            return
        for incident in state.ledger.open_incidents(self.run):
            if incident.attempt == attempt.number and (state.name, incident.id) not in self._told:
                self._told.add((state.name, incident.id))
                self.tell(state.name, incident)

    async def saved(self) -> Saved | None:
        """Return the newest training step of the run whose checkpoint in the object store is
        complete and verified, with the size of the checkpoint. Return None if the object store has
        none.
        """
        found = await asyncio.to_thread(
            source.find, self.store, Place.parse(self.config.store), self.run
        )
        if found.chosen is None:
            return None
        return Saved(found.chosen.step, found.chosen.bytes)

    # --- renting

    async def choose(self, most: float) -> Chosen | None:
        """Return the cheapest offer that fits the run and costs at most `most` US dollars an hour,
        or None if there is no such offer. If recover.toml does not set `trust_first_key` for the
        run, only providers whose API shows the SSH host key of a new machine count; raises
        RefusedError if all offers are from others.
        """
        async with self.provisioner("") as provisioner:
            try:
                plan = await provisioner.plan(
                    self.config.want(most),
                    self.run,
                    fallbacks=len(provisioner.providers) * 4,
                    another=True,
                )
            except NoOffers:
                return None
            known = []
            for offer in plan.offers:
                if (
                    self.config.trust_first_key
                    or provisioner.providers[offer.provider].capabilities.host_keys
                ):
                    known.append(offer)
        if not known:
            raise RefusedError(
                "None of the providers with an offer can tell a new machine's host key, and "
                "nobody is there to compare it.",
                "Allow it with trust_first_key = true in recover.toml, or name other "
                "providers there.",
            )
        # One intent has one offer, so that whoever finds its label knows what was rented.
        plan = replace(plan, offers=(known[0],))
        return Chosen(
            known[0].provider, known[0].id, known[0].gpu, known[0].count, known[0].price, plan
        )

    async def create(self, chosen: Chosen, label: str, may: Callable[[], bool]) -> Where:
        """Rent the machine of the offer `chosen` once, under the label `label`, and return it.
        `may` is called just before the request; if it returns False, nothing is sent, and Absent is
        raised. Raises Absent too if it is certain that nothing was rented, and Doubt if a machine
        may exist.
        """
        plan: Plan = chosen.offer
        async with self.provisioner(chosen.provider) as provisioner:
            _keyed(provisioner).key = ulid_of(label) or ""
            try:
                return _where(
                    self._name(label), await provisioner.create(plan, self.public_key, may)
                )
            except (Unsettled, Dearer) as error:
                raise Doubt(error.message, error.next_step) from error
            except ConsoleError as error:
                intent = provisioner.book.of_label(label)
                if intent is not None and intent.state in ("open", "doubt", "made"):
                    raise Doubt(error.message, error.next_step) from error
                raise Absent(error.message, error.next_step) from error

    async def find(self, label: str, provider: str) -> Where:
        """Find the machine with exactly this label at the provider and return it. If a controller
        on another machine has begun to rent it, it is added to this machine's journal. Raises
        Absent if no machine has the label, and Doubt if that cannot be found out.
        """
        if not self._is_ours(label):
            raise Absent(f"No machine for {self.run} is labelled {label}.", "Nothing was rented.")
        async with self.provisioner(provider) as provisioner:
            intent = provisioner.book.of_label(label)
            if intent is None:
                # A controller on another machine wrote the intent. Now this machine's journal has
                # it too.
                offer = Offer(
                    provider=provider,
                    id="",
                    gpu=self.config.gpu,
                    count=self.config.count,
                    price=self.config.max_price,
                    disk_gb=self.config.disk_gb,
                    region="",
                )
                with provisioner.book.alone():
                    intent = provisioner.book.intend(
                        self.run,
                        offer,
                        self.config.want(self.config.max_price),
                        "controller",
                        ulid_of(label) or "",
                    )
            try:
                machine = await provisioner.settle(intent)
            except Unsettled as error:
                raise Doubt(error.message, error.next_step) from error
        if machine is None:
            raise Absent(f"No machine is labelled {label}.", "Nothing was rented.")
        return _where(self._name(label), machine)

    async def terminate(self, where: Where, may: Callable[[], bool]) -> bool:
        """End the machine `where` together with its disk. Return True once the provider no longer
        has it, and False if it still exists or may exist. `may` is called just before the first
        request that ends it; if it returns False, no request is sent, and False is returned. Raises
        RefusedError if the machine with this id has another label.
        """
        async with self.provisioner(where.provider) as provisioner:
            provider = provisioner.providers[where.provider]
            machine = await provider.machine(where.instance)
            if machine is None:
                # A machine counts as gone only if neither its id nor its label finds it at a time
                # when it must be listed. Else it would go on costing money unseen.
                machine = next(
                    (
                        one
                        for one in await provider.machines()
                        if where.label and one.label == where.label
                    ),
                    None,
                )
            if machine is None:
                return not _just_made(where, provisioner.patience.list_s)
            if machine.state == "ended":
                return True
            if not where.label or machine.label != where.label:
                raise RefusedError(
                    f"{machine.name} is labelled {machine.label}, not {where.label}: it is "
                    f"not the one that was rented for {self.run}.",
                    "Nothing was ended; look with `bs4-console provision list`.",
                )
            if not self._is_ours(machine.label):
                raise self._foreign(machine)
            try:
                await provisioner.terminate(machine, may)
            except NotGone:
                return False
        return True

    # --- on the new machine

    async def set_up(self, where: Where) -> Where | None:
        """Do the next part of the preparation of the new machine `where` for the run: its start,
        its host key, the agent and the trainer's environment. Return the machine with its address
        and host key once it is ready, or None while there is more to do. Raises Failed if it cannot
        succeed. Raises UsageError if the pod's address is not known, and NotApplicableError if the
        agent makes no plan.
        """
        met = await self._met(where)
        if met is None:
            return None
        pod = await self._pod(met)
        try:
            async with self.reach.linked(pod, deploy=True, timeout=LOOK_S) as live:
                running = recipe.under_way(live)
                key = running.key if running is not None else ""
                if running is None:
                    view = await recipe.plan(live, self.config.recipe, self.credentials)
                    if recipe.todo(view.plan["steps"]):
                        key = await recipe.begin(live, view.plan_hash, self.credentials)
                if key and not await _ended(live, key):
                    return None
        except LinkError:
            # The machine boots, or the connection is broken. The next poll tries again, within the
            # time of the whole recovery.
            return None
        await self.reach.store_ready(pod)
        return met

    async def _met(self, where: Where) -> Where | None:
        """Return the machine's place once the machine is up and its host key is confirmed, or None
        before that. Raises Failed if it will not come up, costs too much, or shows another host key
        than its provider names.
        """
        async with self.provisioner(where.provider) as provisioner:
            provider = provisioner.providers[where.provider]
            machine = await provider.machine(where.instance)
            if machine is None and _just_made(where, provisioner.patience.list_s):
                return None
            if machine is None or machine.state in ("stopped", "ended"):
                said = "no longer there" if machine is None else machine.raw_state
                raise Failed(f"{where.pod} did not come up: it is {said}.")
            if machine.label is None:
                return None  # Whose it is cannot be seen, so it gets no keys.
            if not self._is_ours(machine.label):
                raise self._foreign(machine)
            if machine.price is not None and machine.price > self.config.max_price * 1.01:
                raise Failed(
                    f"{where.pod} costs ${machine.price:.2f} an hour, above "
                    f"${self.config.max_price:.2f}."
                )
            if (
                machine.state != "running"
                or not machine.host
                or not await greets(machine.host, machine.port or 22, GREET_S)
            ):
                return None
            told = await provider.host_keys(machine)
        pod = pod_of(machine, where.pod, self.config.identity_file or None, where.price)
        if self._listed(pod.name) is None:
            self.inventory.add(pod)
        key = next(iter(self.reach.pinned(pod.name)), "")
        if not key:
            try:
                async with self.reach.linked(pod, deploy=False, timeout=LOOK_S):
                    raise Failed(f"{pod.name} was let in without a confirmed host key.")
            except HostKeyUnknown as error:
                if told and error.fingerprint not in told:
                    raise Failed(
                        f"{pod.name} shows the host key {error.fingerprint}, and its "
                        f"provider names {', '.join(told)}."
                    ) from error
                if not told and not self.config.trust_first_key:
                    return None  # The provider does not show the host key yet.
                self.reach.pin(pod.name, key := error.key)
        return replace(where, host=pod.host, port=pod.port, user=pod.user or "", host_key=key)

    async def restore(self, where: Where, step: int) -> bool:
        """Do the next part of fetching the checkpoint of the training step `step` from the object
        store to the machine `where`. Return True once the checkpoint is complete on the machine,
        and False while there is more to do. Raises Failed if it cannot succeed. Raises RefusedError
        if the agent makes no plan.
        """
        async with self._at(where) as live:
            done = _last(live, restore.NAME, self.run)
            if (
                done is not None
                and done.state == "done"
                and int(done.result["launch"]["resume"]) == step
            ):
                return True
            going = restore.under_way(live, self.run)
            if going is None:
                asked = restore.RestoreRequest(
                    run=self.run,
                    source=self.config.store,
                    step=step,
                    trainer=self.config.trainer,
                    cwd=self.config.cwd,
                    output_dir=self.config.output_dir,
                )
                try:
                    key = await restore.begin(live, await restore.plan(live, asked))
                except restore.NothingToRestore as error:
                    raise Failed(error.message) from error
            else:
                key = going.key
            return await _ended(live, key)

    async def launch(self, where: Where, step: int, orders: Sequence[carried_orders.Order]) -> bool:
        """Resume the run on the machine `where` from the restored training step `step`, with the
        same arguments and the same W&B runs. `orders` are the run's standing orders (what a person
        wants done for it until further notice); further arguments are taken from them if the object
        store has no record of how the run was started. Return True once the launch is submitted, or
        if the run was launched already. Raises Failed if it cannot be started. Raises RefusedError
        or NotApplicableError if the agent makes no plan. Raises ChannelLost or Unreachable if there
        is no connection.
        """
        async with self._at(where) as live:
            done = _last(live, restore.NAME, self.run)
            if done is None or done.state != "done":
                raise Failed(f"{self.run} was not restored on {where.pod}.")
            asked = restore.launch_of(done.result)
            # An older agent saved the checkpoint. Only the orders that the polls have read are
            # known.
            if not restore.recorded(done.result):
                asked = replace(asked, overrides=carried_orders.overrides(orders))
            if (
                launch.trains_already(live.state, asked) is not None
                or launch.under_way(live.state, self.run) is not None
            ):
                return True
            before = _last(live, "launch", self.run)
            if before is not None and before.accepted_t > done.accepted_t:
                raise Failed(f"{self.run} was started on {where.pod} and ended: {before.detail}")
            looked = await launch.prepare(live, asked)
            if looked.blocking:
                raise Failed(
                    f"{where.pod} cannot run {self.run}: {launch.sentence(looked.blocking[0])}"
                )
            view = await launch.plan(live, asked, price=where.price, **looked.environment)
            if launch.must_type(view):
                raise Failed(
                    f"Starting {self.run} would move checkpoints aside, which only a person "
                    "confirms."
                )
            await launch.start(live, view)
            return True

    async def order(self, where: Where, orders: Sequence[carried_orders.Order]) -> Sequence[str]:
        """Give the run on its new machine `where` the standing orders `orders`, which it had on its
        former machine: what a person wants done for it until further notice. The order to copy
        checkpoints to the object store is given in any case. Return a sentence for each order that
        the pod has refused, or an empty sequence if it has refused none. Raises Failed if it has
        refused to copy checkpoints.
        """
        async with self._at(where) as live:
            refused = await carried_orders.renew(
                live, self.run, carried_orders.with_sync(orders, self.config.store)
            )
        if "sync" in refused:
            raise Failed(f"{self.run} would not be saved on {where.pod}: {refused['sync']}")
        return list(refused.values())

    @contextlib.asynccontextmanager
    async def _at(self, where: Where) -> AsyncIterator[PodSession]:
        pod = await self._pod(where)
        async with self.reach.linked(pod, deploy=True, timeout=LOOK_S) as live:
            yield live

    async def _pod(self, where: Where, *, look: bool = False) -> Pod:
        """Return the pod from the inventory. A pod that the inventory lacks is added once its
        provider has confirmed it (see `_confirmed`). With `look`, the pod is only looked at, so an
        unconfirmed one is returned too.

        What the controllers wrote down lies in the object store, where each pod that has a key for
        it can write. So it names no pod but the very machine that was rented for this run. Raises
        RefusedError if it names another one, and UsageError if no address is known.
        """
        pod = self._listed(where.pod)
        if pod is None or (where.made and not pod.provider and not pod.instance):
            return await self._confirmed(where, pod, look=look)
        if where.made and (pod.provider, pod.instance) != (where.provider, where.instance):
            raise self._another(where)
        if where.made and where.host_key and not self.reach.pinned(pod.name):
            self.reach.pin(pod.name, where.host_key)
        return pod

    async def _confirmed(self, where: Where, listed: Pod | None, *, look: bool) -> Pod:
        """Return the pod of a machine that the inventory lacks, and add it, with the address that
        its provider tells and the host key that the controllers wrote down. `listed` is the
        inventory's pod if a person has added it without its provider; it has to have the address
        that the provider tells.

        If the provider has no such machine any more, the pod is returned unconfirmed: as it is in
        the inventory, or else with the address that was written down, and neither added nor
        trusted. With `look`, that is done also if the provider cannot be asked, or if the machine
        has no label of a console (a person may have renamed it).

        Raises RefusedError if the machine was not rented for this run or the provider tells another
        host key, UsageError if no address is known, and without `look` a ProviderError.
        """
        if listed is None and not (where.host and where.provider and where.instance):
            raise UsageError(
                f"There is no pod named {where.pod}.",
                "Name the pod of the run in recover.toml as it is in pods.toml.",
            )
        told: Sequence[str] = ()
        try:
            async with self.provisioner(where.provider) as provisioner:
                provider = provisioner.providers[where.provider]
                machine = await provider.machine(where.instance)
                if machine is not None and self._is_ours(machine.label):
                    told = await provider.host_keys(machine)
        except ProviderError:
            if not look:
                raise
            return self._unconfirmed(where, listed, look=look)
        if machine is not None and not self._is_ours(machine.label):
            if not look or ulid_of(machine.label or "") is not None:
                raise self._foreign(machine)
            return self._unconfirmed(where, listed, look=look)
        if machine is None or not machine.host or not machine.port:
            return self._unconfirmed(where, listed, look=look)
        if told and where.host_key and _fingerprint(where.host_key) not in told:
            raise RefusedError(
                f"{where.pod} has the host key {', '.join(told)} by its provider, and "
                "recovery.json says another.",
                f"Nothing was done; look who writes to {self.config.store}.",
            )
        pod = listed
        if pod is None:
            pod = pod_of(machine, where.pod, self.config.identity_file or None, where.price)
            self.inventory.add(pod)
        elif _address(pod) != (machine.host, machine.port):
            raise self._another(where)
        if where.host_key and not self.reach.pinned(pod.name):
            self.reach.pin(pod.name, where.host_key)
        return pod

    def _unconfirmed(self, where: Where, listed: Pod | None, *, look: bool) -> Pod:
        """Return the pod of a machine that its provider has not confirmed. Raises RefusedError if
        the inventory has a pod of this name that may be another machine.
        """
        if listed is None:
            return Pod(
                name=where.pod,
                host=where.host,
                port=where.port,
                user=where.user or None,
                identity_file=self.config.identity_file or None,
                ssh_config=False,
                provider=where.provider,
                instance=where.instance,
                notes=where.label,
                price=where.price,
            )
        if not look or _address(listed) != (where.host, where.port or 22):
            raise self._another(where)
        return listed

    def _another(self, where: Where) -> RefusedError:
        return RefusedError(
            f"{where.pod} is another machine here than recovery.json says "
            f"({where.provider} {where.instance}).",
            "Nothing was done. If they are the same, write its provider and instance to pods.toml; "
            f"else look who writes to {self.config.store}.",
        )

    def _is_ours(self, label: str | None) -> bool:
        """Return True if a machine has a label that a machine for this run is rented under."""
        made = ulid_of(label or "")
        return made is not None and label == label_of(self.run, made)

    def _foreign(self, machine: Machine) -> RefusedError:
        return RefusedError(
            f"{machine.name} is labelled {machine.label}, so it was not rented for {self.run}, and "
            "recovery.json says so.",
            f"Nothing was done; look who writes to {self.config.store}.",
        )

    def _listed(self, name: str) -> Pod | None:
        """Return the inventory's pod with this name, or None."""
        return next((pod for pod in self.inventory.list() if pod.name == name), None)

    def _name(self, label: str) -> str:
        return f"{self.run[:40]}-{(ulid_of(label) or label)[-6:].lower()}"


def _address(pod: Pod) -> tuple[str, int]:
    """Return the host and the port of a pod."""
    return pod.host, pod.port or 22


def _fingerprint(key: str) -> str:
    """Return the fingerprint of a host key `type base64`, or "" if it is none."""
    try:
        blob = base64.b64decode(key.split()[1], validate=True)
    except (IndexError, ValueError):
        return ""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def _keyed(provisioner: Provisioner) -> KeyedBook:
    if not isinstance(provisioner.book, KeyedBook):
        raise TypeError("the controller's provisioner has a book whose labels it chooses")
    return provisioner.book


def _where(name: str, machine: Machine) -> Where:
    return Where(
        pod=name,
        provider=machine.provider,
        instance=machine.id,
        label=machine.label or "",
        made=True,
        price=machine.price,
    )


def _last(live: PodSession, kind: str, run: str) -> ActionView | None:
    found = [
        a for a in live.state.ledger.actions.values() if a.kind == kind and a.run == run and a.ended
    ]
    return max(found, key=lambda a: a.accepted_t, default=None)


async def _ended(live: PodSession, key: str) -> bool:
    """Wait up to 60 seconds for an action. Return True if it is done, and False if it still runs.
    Raises Failed if it ended otherwise.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(WAIT_S):
            async for action in live.follow_action(key):
                last = action
            if last.state != "done":
                raise Failed(f"{last.kind} on {live.state.name} did not succeed: {last.detail}")
            return True
    return False


def _just_made(where: Where, list_s: float) -> bool:
    """Return True if a machine was rented less than `list_s` seconds ago, by the time in its label,
    so that the provider may not show it yet.
    """
    made = ulid_of(where.label)
    return made is not None and time.time() - made_t(made) < list_s
