"""The controller of one run. It moves the run to another machine when the run's own is lost, and
ends that machine when the run is done.

One call of `look` polls the signs, judges them, and does at most the work that the verdict allows.
The work is a chain of phases. Each phase is written down before it begins (recovery/state.py) and
is safe to begin again, so whoever holds the lease continues where the last controller stopped. A
machine is rented only for a pod that two independent signs show as lost, and only under the run's
own mode, limits and budget. For one intent at most one machine exists. The controller never ends a
machine that was not rented for the run.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NoReturn

from bs4_common.errors import AgentError
from bs4_common.ids import ulid
from bs4_console.checkpoints.sync import StoreFailed
from bs4_console.errors import FINDING, REFUSED, UNREACHABLE, RefusedError
from bs4_console.pods import liveness
from bs4_console.pods.liveness import Rules, Sign, Verdict, Word
from bs4_console.providers.base import label_of
from bs4_console.recovery.lease import Lease, LeaseHeld
from bs4_console.recovery.recovery_types import (
    Absent,
    DecidedPlan,
    Doubt,
    Failed,
    Hands,
    Limits,
    Outcome,
    RecoveryPlan,
    Report,
    Saved,
)
from bs4_console.recovery.state import (
    GOOD,
    WORKING,
    Attempt,
    Phase,
    Records,
    State,
    Where,
    sound_orders,
)

DAY_S = 86400.0
#: Verdicts in which the lost machine answers again, so that its agent may have resumed the run.
_BACK = ("fine", "rebooted", "hung", "network-only")
#: By verdict, the exit code while the machine is not lost. Any other verdict is a finding.
_CODES: Mapping[Word, int] = {
    "fine": 0,
    "network-only": 0,
    "rebooted": 0,
    "unknown": UNREACHABLE,
}
#: Seconds. A request and the poll after it fit into this time. If a grant has less time left,
#: nothing is rented and nothing is ended.
SPEND_S = 90.0
_BY_HAND = "What may be ended ends with `bs4-console provision terminate`."


@dataclass(kw_only=True)
class Controller:
    """Watches one run and, if its machine is lost, continues the run on a new machine.

    In mode "ask" nothing is rented until a person gives the hash of the shown plan as `confirm`,
    and what the shared state says counts for nothing that was not decided on this machine: no
    recovery is gone on with and no machine is ended because of it. In mode "auto" the plan is
    carried out at once. `hands` does what has to be done on providers, pods
    and the object store, within `limits`. `records` is the saved state of the run. `first` is the
    machine that recover.toml names for the run. `moved` is True if a person says that they have
    moved the run to that machine. With `dry` nothing is written, rented or ended, and the `lease`
    (the right to act for the run, which only one controller has at a time) is not taken. `rules`
    say how much evidence is needed to call a machine lost.
    """

    records: Records
    lease: Lease
    hands: Hands
    first: Where
    limits: Limits
    mode: Literal["ask", "auto"] = "ask"
    rules: Rules = field(default_factory=Rules)
    confirm: str = ""
    moved: bool = False
    dry: bool = False
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    seen: dict[Where, list[Sign]] = field(default_factory=dict)
    """For each machine, the newest observations of it (signs: who saw it, when, and in which state)
    from which it is judged. Those older than the window of `rules` are dropped.
    """

    @property
    def run(self) -> str:
        """Return the name of the run that this controller watches."""
        return self.records.layout.run

    async def poll(self) -> Outcome:
        """Look once at the run and its machine, do the next part of a recovery if one is needed,
        and return the outcome. Raises StoreFailed if the object store does not answer; then nothing
        more is done at this poll.
        """
        try:
            state = await self._load()
            if state.phase in WORKING:
                return await self._go_on(state)
            if state.phase == "finishing":
                return await self._finish_on(state)
            if state.named != self.first.pod or self._other_machine(state):
                if not self.moved or self.dry:
                    return self._elsewhere(state)
                state = await self._move(state)
            if state.phase == "finished":
                return Outcome("finished", f"{self.run} is finished and its machine ended.", 0)
            return await self._watch(state)
        except LeaseHeld as error:
            return Outcome("held", str(error), REFUSED)
        except AgentError as error:
            raise StoreFailed(error) from error

    async def verdict(self, where: Where) -> Verdict:
        """Poll the machine `where`, on which the run is, and return a verdict that says what has
        become of it, such as "hung" or "reclaimed" (taken back by the provider). If the verdict is
        "unknown" or "network-only" (only the network is down) although the provider has answered,
        poll again at intervals, up to `rules.samples` polls in all.
        """
        verdict = await self._see(where)
        pause = self.rules.apart_s / max(1, self.rules.samples - 1)
        for _ in range(self.rules.samples - 1):
            if verdict.word not in ("unknown", "network-only") or not any(
                s.source == "provider" for s in verdict.evidence
            ):
                break
            await self.sleep(pause)
            verdict = await self._see(where)
        return verdict

    async def _see(self, where: Where) -> Verdict:
        found = [*self.seen.get(where, ()), *await self.hands.signs(where)]
        now = self.clock()
        self.seen[where] = [s for s in found if s.t >= now - self.rules.window_s]
        return liveness.judge(where.pod, self.seen[where], now, self.rules)

    async def _load(self) -> State:
        """Return the state from the object store. A pod that no controller rented has the address
        that this machine's inventory has for it.
        """
        state = await asyncio.to_thread(self.records.load)
        state = state or State(run=self.run, where=self.first, since_t=self.wall())
        state = replace(
            state, named=state.named or (self.first.pod if state.where.made else state.where.pod)
        )
        if not state.where.made and state.where.pod == self.first.pod and not state.where.instance:
            state = replace(state, where=replace(self.first, step=state.where.step))
        return state

    def _other_machine(self, state: State) -> bool:
        """Return True if this machine's inventory has another machine under the name of the pod,
        and the pod was not rented by a controller.
        """
        known, here = state.where, self.first
        same = (known.provider, known.instance) == (here.provider, here.instance)
        return (
            not known.made
            and known.pod == here.pod
            and bool(known.instance and here.instance)
            and not same
        )

    async def _save(self, state: State, phase: Phase | None = None, **changes: Any) -> State:
        """Save the state and return it. Only the holder of the lease may save, and only to follow
        the version that it has read. Raises LeaseHeld if another controller was first.
        """
        if phase is not None and phase != state.phase:
            changes |= {"phase": phase, "since_t": self.wall()}
        state = replace(state, **changes)
        await self.lease.guard()
        if not await asyncio.to_thread(self.records.save, state):
            await self._overtaken()
        return state

    async def _unchanged(self) -> None:
        """Renew the lease, and raise LeaseHeld if another controller has changed the state since it
        was read.
        """
        await self.lease.guard()
        if not await asyncio.to_thread(self.records.unchanged):
            await self._overtaken()

    async def _overtaken(self) -> NoReturn:
        """Release the lease and raise LeaseHeld: another controller has acted since the state was
        read, before the lease was taken or while this machine slept.
        """
        await self.lease.release()
        raise LeaseHeld(
            f"Another controller has just changed something about {self.run}.",
            "The next look sees it.",
        )

    def _elsewhere(self, state: State) -> Outcome:
        """Return the outcome for a run whose place differs between the files here and the shared
        state. Only a person knows which of the two is right, because older files on another machine
        look the same.
        """
        was = ""
        if state.named != self.first.pod:
            was = f" (it was {state.named} in recover.toml)"
        text = (
            f"{self.run} is on {self.first} by the files here, and its controllers look after "
            f"{state.where}{was}. Nothing is done until they agree: correct the files, or, if the "
            f"run was moved by hand, say so: recover --run {self.run} --moved."
        )
        return Outcome("stopped", text, FINDING)

    async def _move(self, state: State) -> State:
        """Record that a person has moved the run, and return the state. If the machine before was
        rented, it is ended once the store holds the newest step that was seen on it.
        """
        await self.lease.hold()
        left = state.left
        if state.where.made:
            self.records.decide("end", state.where.label)
            left = (*left, replace(state.where, step=self._known(state)))
        state = await self._save(
            state, "watching", where=self.first, named=self.first.pod, left=left, done=False, why=""
        )
        await self.lease.release()
        return state

    # --- watching

    async def _watch(self, state: State) -> Outcome:
        verdict = await self.verdict(state.where)
        report = None if verdict.lost else await self.hands.report(state.where)
        if report is not None and report.step is not None:
            self.records.note_step(report.step)
        if report is not None and not self.dry:
            state = await self._learn(state, report)
        if state.left and not self.dry:
            state = await self._clear(state)
        if report is not None and report.finished:
            return await self._finish(state, report)
        if state.phase == "stopped" and not self.confirm:
            return Outcome("stopped", f"{self.run} is left alone: {state.why}", FINDING, verdict)
        if not verdict.lost:
            code = _CODES.get(verdict.word, FINDING)
            over = self._affordable(state)[1] if state.where.made else ""
            over = f"{over} {_left_alone(self._undecided(state))}".strip()
            return Outcome(
                "watching",
                f"{verdict.sentence} {over}".rstrip(),
                code or (FINDING if over else 0),
                verdict,
            )
        outcome = await self._plan(state, verdict)
        if outcome.verdict is None or outcome.verdict.lost:
            outcome = replace(outcome, lost=state.where.pod)
        return outcome

    async def _learn(self, state: State, report: Report) -> State:
        """Record what must be known when the pod can no longer answer: its standing orders, and
        whether the run has ended well. Return the state.
        """
        done = report.finished or (state.done and report.step is None)
        learned = replace(state, orders=sound_orders(report.orders) or state.orders, done=done)
        if learned == state:
            return state
        try:
            await self.lease.hold()
        except LeaseHeld:
            return state  # another controller acts; the next look learns it
        state = await self._save(learned)
        await self.lease.release()
        return state

    async def _plan(self, state: State, verdict: Verdict) -> Outcome:
        if state.done:
            return Outcome(
                "finished",
                f"{verdict.sentence} {self.run} had ended well before, so nothing is rented.",
                0,
                verdict,
            )
        saved = await self.hands.saved()
        if saved is None:
            text = (
                f"{verdict.sentence} Nothing of {self.run} is in the object store that could be "
                "restored, so nothing is rented."
            )
            return Outcome("stopped", text, FINDING, verdict)
        idle = state.idle()
        if idle >= self.limits.recoveries and not self.confirm:
            text = (
                f"{idle} recoveries in a row brought no new step: the loop ends here. Read why "
                "before another is confirmed by its plan."
            )
            return Outcome("stopped", text, FINDING, verdict)
        most, why = self._affordable(state)
        if most <= 0:
            return Outcome("stopped", f"{verdict.sentence} {why}", FINDING, verdict)
        plan = self._plan_of(state, saved, most)
        if self.dry or (self.mode == "ask" and not self.confirm):
            chosen = await self.hands.choose(most)
            plan["offer"] = None if chosen is None else chosen.as_dict()
            text = (
                f"{verdict.sentence} The plan {plan['hash'][:16]} waits: confirm it with --plan "
                f"{plan['hash'][:16]}."
            )
            return Outcome("plan", text, 0 if self.dry else REFUSED, verdict, plan)
        if self.confirm and not self._confirms(plan["hash"]):
            raise RefusedError(
                f"Nothing was done: the plan is {plan['hash'][:16]} now, not {self.confirm}.",
                "Look at it again.",
            )
        return await self._rent(state, saved, most, plan, verdict)

    def _affordable(self, state: State) -> tuple[float, str]:
        """Return the highest price in US dollars an hour at which one more hour stays within the
        budgets, and "". Return 0 and the reason if a budget is spent.
        """
        now, state = self.wall(), self._paid(state)
        day = self.limits.per_day - state.spent(now - DAY_S, now)
        whole = self.limits.per_run - state.spent(0.0, now)
        if min(day, whole) <= 0:
            which = f"${self.limits.per_run:.2f} for the run"
            if day <= whole:
                which = f"${self.limits.per_day:.2f} a day"
            return 0.0, (
                f"The budget of {which} is spent, so nothing is rented; raise it in "
                "recover.toml if it shall go on."
            )
        return min(self.limits.max_price, day, whole), ""

    def _paid(self, state: State) -> State:
        """Return the state with each recovery that is known here to have cost something."""
        return replace(state, attempts=self.records.paid(state.attempts))

    def _plan_of(self, state: State, saved: Saved, most: float) -> RecoveryPlan:
        """Return the plan of a recovery. Its hash covers what a person decides on and not the offer
        of the moment, so that the hash stays the same while nothing of that changes.
        """
        now, paid = self.wall(), self._paid(state)
        decided = self._decided_plan(state.where, saved.step, len(state.attempts) + 1)
        known = self._known(state)
        return {
            "run": decided["run"],
            "lost": decided["lost"],
            "step": decided["step"],
            "recovery": decided["recovery"],
            "max_price": decided["max_price"],
            "hash": _hash(decided),
            "most": round(most, 4),
            "bytes": saved.bytes,
            "steps_lost": None if known is None else max(0, known - saved.step),
            "spent_today": round(paid.spent(now - DAY_S, now), 2),
            "spent": round(paid.spent(0.0, now), 2),
        }

    def _decided_plan(self, lost: Where, step: int, recovery: int) -> DecidedPlan:
        """Return what a person decides on with the plan of the run's recovery number `recovery`,
        after the machine `lost` was lost, from the training step `step`.
        """
        return {
            "run": self.run,
            "lost": [lost.pod, lost.provider, lost.instance],
            "step": step,
            "recovery": recovery,
            "max_price": self.limits.max_price,
        }

    def _to_confirm(self, state: State) -> str:
        """Return "" if the recovery that is under way by the shared state may be gone on with: the
        mode is "auto", or a person has confirmed its plan on this machine, now or before. Otherwise
        return the hash of that plan, made again from the state; it names the machine too.
        """
        if self.mode == "auto":
            return ""
        attempt, lost = state.attempt, state.before or state.where
        decided = self._decided_plan(lost, attempt.step_before, len(state.attempts))
        plan, known_by = _hash(decided, attempt.label), _without_price(decided, attempt.label)
        # The work is done on the machine that the confirmed recovery has rented.
        its_own = state.phase == "renting" or state.where.label == attempt.label
        if its_own and self._confirms(plan):
            self.records.decide("recovery", attempt.label, known_by)
        if its_own and self.records.decided("recovery", attempt.label, known_by):
            return ""
        return plan

    def _confirms(self, plan: str) -> bool:
        """Return True if a person confirms the plan with this hash."""
        return len(self.confirm) >= 8 and plan.startswith(self.confirm)

    def _may_end(self, where: Where) -> bool:
        """Return True if the rented machine `where` may be ended as far as the mode is concerned:
        it is "auto", or a controller on this machine has decided it.
        """
        return self.mode == "auto" or self.records.decided("end", where.label)

    def _undecided(self, state: State) -> tuple[Where, ...]:
        """Return the earlier machines that `_may_end` keeps from being ended."""
        return tuple(where for where in state.left if not self._may_end(where))

    def _known(self, state: State) -> int | None:
        """Return the newest step that any controller has seen done, or None."""
        return max(
            (step for step in (state.step, self.records.last_step()) if step is not None),
            default=None,
        )

    # --- renting

    async def _rent(
        self, state: State, saved: Saved, most: float, plan: RecoveryPlan, verdict: Verdict
    ) -> Outcome:
        await self.lease.hold()
        chosen = await self.hands.choose(most)
        if chosen is None or chosen.price > most:
            text = (
                f"{verdict.sentence} No machine is offered at or under ${most:.2f} an hour (the "
                "whole machine); nothing is rented."
            )
            return await self._released(Outcome("stopped", text, FINDING, verdict, plan))
        label = label_of(self.run, ulid())
        attempt = Attempt(
            label=label,
            t=self.wall(),
            provider=chosen.provider,
            price=chosen.price,
            step_before=saved.step,
        )
        before = state
        decided = self._decided_plan(state.where, saved.step, len(state.attempts) + 1)
        self.records.decide("recovery", label, _without_price(decided, label))
        state = await self._save(
            state, "renting", attempts=(*state.attempts, attempt), plan_hash=plan["hash"]
        )
        # The verdict is made again right before money is spent because of it.
        if not (again := await self._see(state.where)).lost:
            await self._save(before)
            return await self._released(
                Outcome("watching", f"{again.sentence} Nothing was rented.", 0, again)
            )
        grant = await self.lease.guard()
        try:
            where = await self.hands.create(chosen, label, lambda: grant.left_s() >= SPEND_S)
        except Absent as error:
            await self._save(before, why=error.message)
            return await self._released(
                Outcome("stopped", f"Nothing was rented: {error}", FINDING, verdict, plan)
            )
        except Doubt as error:
            return Outcome(
                "waiting",
                f"{error} It is looked for by its label {label} before anything else is done.",
                UNREACHABLE,
            )
        return await self._go_on(await self._rented(state, where))

    async def _rented(self, state: State, where: Where) -> State:
        """Record a new machine and return the state. The lost machine may come back by itself (Vast
        does that), so it is remembered, and ended later if it was rented.
        """
        now, old = self.wall(), replace(state.where, step=self._known(state))
        state = state.ended(old, now)
        where = replace(where, made=True, price=where.price or state.attempt.price)
        state = state.with_attempt(instance=where.instance, price=where.price)
        left = state.left
        if old.made:
            self.records.decide("end", old.label)
            left = (*left, old)
        return await self._save(state, "setting-up", where=where, before=old, left=left)

    # --- on the new machine

    async def _go_on(self, state: State) -> Outcome:
        """Continue a recovery from its present phase. Return when it is done, has failed, or waits
        for something that takes longer.
        """
        if self.dry:
            return Outcome("recovering", f"{self.run} is being recovered: {state.phase}.", 0)
        await self.lease.hold()
        if (state := await self._load()).phase not in WORKING:
            await self.lease.release()
            raise LeaseHeld(
                f"Another controller has just ended a recovery of {self.run}.",
                "The next look sees how.",
            )
        if plan := self._to_confirm(state):
            text = self._unconfirmed(state, plan[:16])
            return await self._released(Outcome("plan", text, REFUSED))
        if state.phase == "renting":
            try:
                where = await self.hands.find(state.attempt.label, state.attempt.provider)
            except Absent:
                await self._save(state, "watching", attempts=state.attempts[:-1])
                text = (
                    "The machine that was to be rented does not exist; the next look begins anew."
                )
                return await self._released(Outcome("stopped", text, FINDING))
            except Doubt as error:
                return Outcome("waiting", str(error), UNREACHABLE)
            state = await self._rented(state, where)
        lost = ""
        if state.before is not None:
            lost = state.before.pod
        try:
            while state.phase in WORKING:
                if self.wall() - state.attempt.t > self.limits.ready_s:
                    raise Failed(f"No new step within {self.limits.ready_s / 60:.0f} minutes.")
                going = state.phase
                state = await self._phase(state)
                if state.phase == going:
                    text = f"{self.run} on {state.where.pod}: {going}."
                    return Outcome("recovering", text, 0, lost=lost)
        except Failed as error:
            return await self._failed(state, error)
        text = (
            f"{self.run} goes on at {state.where.pod}: step {state.step} is done, from step "
            f"{state.attempt.step_before}."
        )
        if state.why:
            text += f" Ordered before, and refused there: {state.why}"
        return await self._released(Outcome("recovered", text, 0, lost=lost))

    def _unconfirmed(self, state: State, plan: str) -> str:
        """Return a text about a recovery that only the shared state says is under way: how long its
        machine waits, what it costs by that state, and what a person can do. `plan` is the
        beginning of the hash by which the recovery is confirmed.
        """
        attempt = state.attempt
        waits_s, ready_s = self.wall() - attempt.t, self.limits.ready_s
        text = (
            f"{self.run} is being recovered on {attempt.label} ({state.phase}), and nobody has "
            f"confirmed that on this machine: the plan {plan} waits. By recovery.json the machine "
            f"was rented {max(0.0, waits_s) / 60:.0f} minutes ago at ${attempt.price:.2f} an hour; "
            "it costs that until it is ended, and is not ended while nobody confirms. "
        )
        if waits_s > ready_s:
            return text + (
                f"That is more than the {ready_s / 60:.0f} minutes that a recovery may take: "
                f"recover --run {self.run} --plan {plan} ends it. If you do not know of it, look "
                "who writes to the store, and with `bs4-console provision list` what is rented."
            )
        return text + (
            f"If you know of it, go on with recover --run {self.run} --plan {plan}, or end it "
            "with `bs4-console provision terminate`; else look who writes to the store."
        )

    async def _released(self, outcome: Outcome) -> Outcome:
        """Release the lease and return the outcome."""
        await self.lease.release()
        return outcome

    async def _phase(self, state: State) -> State:
        """Begin or check one phase. Return the state, which has the same phase while the work
        continues.
        """
        where, step = state.where, state.attempt.step_before
        if state.phase == "proving":
            return await self._prove(state)
        if state.phase == "setting-up":
            there = await self.hands.set_up(where)
            if there is None:
                return state
            return await self._save(state, "restoring", where=there)
        if (
            state.phase == "launching"
            and state.before is not None
            and (await self._see(state.before)).word in _BACK
        ):
            raise Failed(f"{state.before.pod} is there again, and its run with it.")
        await self.lease.guard()
        if state.phase == "restoring":
            if await self.hands.restore(where, step):
                return await self._save(state, "launching")
            return state
        if not await self.hands.launch(where, step, state.orders):
            return state
        # After the launch: before a run is resumed, its checkpoint sync does not know that the run
        # was set back on purpose.
        return await self._save(
            state, "proving", why=" ".join(await self.hands.order(where, state.orders))
        )

    async def _prove(self, state: State) -> State:
        """Return the state after checking for a new step, which is the only proof of a good
        recovery. The step comes from the pod, or from the store if the pod does not answer.
        """
        report = await self.hands.report(state.where)
        if report is None and (saved := await self.hands.saved()) is not None:
            report = Report(saved.step)
        if report is None:
            return state
        if report.step is None or report.step <= state.attempt.step_before:
            if report.failed:
                raise Failed(
                    f"{self.run} was started on {state.where.pod} and ended before a new "
                    f"step: {report.failed}"
                )
            return state
        state = state.with_attempt(outcome=GOOD, step_after=report.step)
        return await self._save(state, "watching", step=report.step, before=None)

    async def _failed(self, state: State, error: Failed) -> Outcome:
        """Record a failed recovery and end the machine that was rented for it. That machine costs
        money, and the store has everything that is on it.
        """
        made = state.where
        self.records.decide("end", made.label)
        state = await self._save(state.with_attempt(outcome=error.message), why=error.message)
        gone = await self._end(made)
        left = state.left
        if gone:
            state = state.ended(made, self.wall())
        else:
            left = (*left, replace(made, step=state.attempt.step_before))
        phase: Phase = "stopped" if state.idle() >= self.limits.recoveries else "watching"
        # From here on the lost machine is polled again: it may come back, and a further recovery
        # would be for it.
        left = tuple(w for w in left if w != state.before)
        await self._save(state, phase, where=state.before or made, before=None, left=left)
        text = f"The recovery of {self.run} did not succeed: {error.message}"
        if not gone:
            text += f" {made.pod} is not seen to be gone yet: look at {made.provider}."
        return await self._released(Outcome("stopped", text, FINDING))

    # --- the end

    async def _finish_on(self, state: State) -> Outcome:
        """Continue to end a finished run's machine that has not been seen to be gone. If the run
        was started again on it meanwhile, the controller watches it again.
        """
        report = await self.hands.report(state.where)
        may = self._may_end(state.where)
        if report is None and not (state.told and may):
            verdict = await self.verdict(state.where)
            if not verdict.lost:
                text = (
                    f"{self.run} is finished, and {state.where.pod} cannot be asked whether it was "
                    "started there again; it is left alone."
                )
                return Outcome("finishing", text, UNREACHABLE, verdict)
            if verdict.word == "ended" and not may:
                return await self._gone(state, verdict)
        if report is None or report.finished:
            return await self._finish(state, report)
        if self.dry:
            return Outcome(
                "finishing",
                f"{self.run} was to end, and goes on at {state.where.pod}: it would be "
                "looked after again.",
                0,
            )
        await self.lease.hold()
        await self._save(state, "watching", done=False, told=False)
        text = f"{self.run} was to end, and goes on at {state.where.pod}: it is looked after again."
        return await self._released(Outcome("watching", text, 0))

    async def _gone(self, state: State, verdict: Verdict) -> Outcome:
        """Record that a finished run's machine is gone, which nobody here has decided to end. Only
        the shared state says that it was to go, so nothing is decided and no end is ordered for it.
        """
        text = f"{self.run} is finished, and {state.where.provider} has {state.where} no longer."
        if not self.dry:
            state = await self._clear(state)
            await self.lease.hold()
            await self._save(state.ended(state.where, self.wall()), "finished", told=False)
            await self.lease.release()
        if state.left:
            names = ", ".join(str(where) for where in state.left)
            text += f" Earlier machines were not ended: {names}. {_BY_HAND}"
        return Outcome("finished", text, FINDING if state.left else 0, verdict)

    async def _finish(self, state: State, report: Report | None = None) -> Outcome:
        """End the machine of a run that ended well. The machine is ended only if it was rented, and
        only when the store holds the run's last checkpoint.
        """
        if not state.where.made:
            return Outcome(
                "finished",
                f"{self.run} is finished. {state.where.pod} was not rented here, so it is "
                "left as it is.",
                0,
            )
        if state.phase != "finishing" or not self._may_end(state.where):
            saved = await self.hands.saved()
            last = None if report is None else report.complete
            if last is None or saved is None or saved.step < last:
                what = "unknown" if last is None else last
                there = "nothing" if saved is None else f"step {saved.step}"
                text = (
                    f"{self.run} is finished; its last set (step {what}) is not in the store yet "
                    f"({there} is): {state.where.pod} stays."
                )
                return Outcome("finishing", text, FINDING)
        if self.dry:
            return Outcome(
                "finishing", f"{self.run} is finished: {state.where.pod} would be ended.", 0
            )
        await self.lease.hold()
        if report is not None and await self.hands.report(state.where) != report:
            text = (
                f"Something has changed about {self.run} on {state.where.pod}; the next look "
                "sees what."
            )
            return await self._released(Outcome("finishing", text, FINDING))
        self.records.decide("end", state.where.label)
        state = await self._save(state, "finishing")
        left = self._undecided(state)
        for where in (state.where, *state.left):
            if where in left:
                continue
            if not await self._end(where):
                await self._save(state, told=True)
                text = (
                    f"{where.pod} was told to end and is not seen to be gone; it is looked at "
                    "again."
                )
                return Outcome("finishing", text, UNREACHABLE)
            state = state.ended(where, self.wall())
        await self._save(state, "finished", left=left, told=False)
        text = (
            f"{self.run} is finished, its last set is in the store, and {state.where.pod} "
            f"was ended. {_left_alone(left)}".rstrip()
        )
        return await self._released(Outcome("finished", text, 0))

    async def _clear(self, state: State) -> State:
        """End earlier rented machines once the store holds at least the newest step that was seen
        on them, so that nothing is lost with them. Return the state.
        """
        saved = await self.hands.saved()
        if saved is None:
            return state
        idle = [
            w
            for w in state.left
            if w.step is not None and saved.step >= w.step and self._may_end(w)
        ]
        if not idle:
            return state
        await self.lease.hold()
        await self._unchanged()
        for where in idle:
            if await self._end(where):
                state = await self._save(
                    state.ended(where, self.wall()), left=tuple(w for w in state.left if w != where)
                )
        await self.lease.release()
        return state

    async def close(self) -> None:
        """Give up the run's lease, the right to act for the run that only one controller has at a
        time, so that another controller need not wait until it expires. Raises StoreFailed if the
        object store does not answer.
        """
        try:
            await self.lease.release()
        except AgentError as error:
            raise StoreFailed(error) from error

    async def _end(self, where: Where) -> bool:
        """Order the end of a rented machine. Return True if the provider was seen to have it no
        longer, and False also for a machine that was not rented.
        """
        if not where.made:
            return False
        grant = await self.lease.guard()
        self.records.note(
            "terminate",
            pod=where.pod,
            provider=where.provider,
            instance=where.instance,
            label=where.label,
        )
        return await self.hands.terminate(where, lambda: grant.left_s() >= SPEND_S)


def _hash(plan: DecidedPlan, label: str = "") -> str:
    """Return the hash by which a person confirms a recovery; `label` is that of its machine if one
    may exist already. It covers what is decided on and not the offer of the moment, so that it
    stays the same while nothing of that changes.
    """
    return hashlib.sha256(f"{json.dumps(plan, sort_keys=True)}{label}".encode()).hexdigest()


def _without_price(plan: DecidedPlan, label: str) -> str:
    """Return the hash by which this machine's journal knows a confirmed recovery. It leaves out the
    price cap: that holds when the machine is rented, and a person may change it later.
    """
    return _hash({**plan, "max_price": 0.0}, label)


def _left_alone(left: Sequence[Where]) -> str:
    """Return a sentence about earlier machines that are not ended, because only the shared state
    says that they may be, or "" if there are none.
    """
    if not left:
        return ""
    names = ", ".join(str(where) for where in left)
    return f"Not ended, because that was not decided on this machine: {names}. {_BY_HAND}"
