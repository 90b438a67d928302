"""Which action holds which run: one at a time, and a stop goes before the others."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from bs4_agent.actions.safe_points import SafePoints, Turn
from bs4_common.errors import Busy
from bs4_common.ledger import ActionView, Ledger

#: Seconds that an action waits for one that is about to let go of its run.
LETTING_GO_S = 5.0


class RunLocks:
    """Reserves runs for actions, one action at a time for each run. In place of a run's name there
    may be the name of something else on which only one action may work at a time, such as the
    set-up of the pod. There is one object per pod. `ledger` has the actions by their keys.

    Each action that has reserved something has a Turn: an object by which the action shows that it
    is between two of its steps, and learns that it is to end. `safe_points` counts the actions that
    are inside a step.
    """

    def __init__(self, ledger: Ledger, safe_points: SafePoints) -> None:
        self._ledger, self._safe_points = ledger, safe_points
        self._holding: dict[str, str] = {}
        self._turns: dict[str, Turn] = {}
        """By the key of the action that holds a run."""
        self._heirs: dict[str, str] = {}
        """By run: the stop that holds it next."""
        self._planned: dict[str, ActionView] = {}
        """By key: the actions that hold a run while their plan is made again. They are not accepted
        yet, so the ledger does not have them.
        """
        self._released = threading.Condition()

    def hold(self, run: str, key: str) -> None:
        """Reserve `run` for the action `key`: no other action works on the run until `let_go` is
        called. Wait up to 5 seconds for an action that is about to let go of the run. Raises Busy,
        which names the other action, if the run is reserved for another action or an action that
        stops the run waits for it.
        """
        with self._released:
            self._await_letting_go(run, key)
            holder = self._heirs.get(run) or self._holding.get(run)
            if holder is not None and holder != key:
                raise Busy(_busy(run, self._action(holder)))
            self._take(run, key)

    def hold_to_plan(self, run: str, action: ActionView) -> None:
        """Reserve `run` for `action` while its confirmed plan is made again. The action is not
        accepted yet; call `accept` afterwards to find out if it still may be. Like `hold`, wait up
        to 5 seconds for an action that is about to let go of the run, and raise Busy if the run is
        reserved for another action or an action that stops the run waits for it.
        """
        with self._released:
            self.hold(run, action.key)
            self._planned[action.key] = action

    def accept(self, run: str, key: str) -> None:
        """Do nothing if the action `key`, for which `run` was reserved by `hold_to_plan`, may be
        accepted now. Raises Busy if an action that stops the run waits for it, because that action
        goes first. Raises Cancelled if such an action has come meanwhile and has given up waiting.
        """
        with self._released:
            if (heir := self._heirs.get(run)) is not None:
                raise Busy(_busy(run, self._action(heir)))
            self._turns[key].check()

    def _action(self, key: str) -> ActionView:
        """Return the action with this key, which holds a run or waits for one."""
        return self._ledger.actions.get(key) or self._planned[key]

    def succeed(self, run: str, key: str) -> None:
        """Reserve `run` for the action `key`, which stops the run: at once if no other action has
        it reserved, or else as soon as that action lets go. Return without waiting for that, except
        up to 5 seconds for an action that is about to let go. Raises Busy if another action that
        stops the run has it reserved or waits for it.
        """
        with self._released:
            self._await_letting_go(run, key)
            present = self._heirs.get(run) or self._holding.get(run)
            if present is None:
                self._take(run, key)
                return
            action = self._action(present)
            if action.kind == "stop":
                raise Busy(_busy(run, action))
            self._heirs[run] = key

    def _await_letting_go(self, run: str, key: str) -> None:
        """Wait up to 5 seconds for another action to let go of `run`, if it is about to. It is if
        its end is in the journal: whoever has read of that may submit the next action at once. So
        is a rotation, which holds the run for some milliseconds.
        """

        def settled() -> bool:
            holder = self._holding.get(run, key)
            action = self._ledger.actions.get(holder)
            if holder == key or action is None:
                return True
            return not action.ended and action.kind != "rotate"

        self._released.wait_for(settled, LETTING_GO_S)

    def await_turn(self, run: str, key: str, seconds: float) -> bool:
        """Wait up to `seconds` until `run` is reserved for the action `key`. Return True as soon as
        it is, and False if the time is over before that.
        """
        with self._released:
            return self._released.wait_for(lambda: self._holding.get(run) == key, seconds)

    def holder(self, run: str) -> ActionView | None:
        """Return the action for which `run` is reserved now, or None if there is none. It may not
        be accepted yet (see `hold_to_plan`).
        """
        with self._released:
            key = self._holding.get(run)
            return None if key is None else self._action(key)

    def turn(self, key: str) -> Turn:
        """Return the Turn of the action `key`, with which the action marks its safe points and
        learns that it is to end. If the action has reserved no run, nothing ends it.
        """
        return self._turns.get(key) or Turn(self._safe_points)

    def cancel(self, key: str, who: str) -> None:
        """Tell the action `key` to end at its next safe point (between two of its steps), because
        the person `who` has stopped its run. Do nothing if no run is reserved for the action.
        """
        turn = self._turns.get(key)
        if turn is not None:
            turn.cancel(who)

    def let_go(self, run: str, key: str) -> None:
        """End the reservation of `run` for the action `key`, or its waiting for one. If a stop
        waits for the run, the run is then reserved for the stop. Do nothing if the action neither
        has the run reserved nor waits for it.
        """
        with self._released:
            self._turns.pop(key, None)
            self._planned.pop(key, None)
            if self._heirs.get(run) == key:
                del self._heirs[run]
            if self._holding.get(run) == key:
                del self._holding[run]
                if (heir := self._heirs.pop(run, None)) is not None:
                    self._take(run, heir)
            self._released.notify_all()

    def _take(self, run: str, key: str) -> None:
        """Let the action hold the run and give it a turn."""
        self._holding[run] = key
        self._turns[key] = Turn(self._safe_points, lambda: self.let_go(run, key))

    @contextlib.contextmanager
    def holding(self, run: str, key: str, *, first: bool = False) -> Iterator[None]:
        """Reserve `run` for the action `key` and run the `with` block, which starts the action. The
        reservation stays after the block; the action itself ends it when its work is done. If the
        block raises an error, the reservation ends at once. With `first`, the action is one that
        stops the run, and `succeed` makes the reservation; otherwise `hold` does. Raises Busy if
        that method does.
        """
        if first:
            self.succeed(run, key)
        else:
            self.hold(run, key)
        try:
            yield
        except BaseException:
            self.let_go(run, key)
            raise

    def held(self, run: str) -> bool:
        """Return True if `run` is reserved for an action."""
        return run in self._holding


def _busy(held: str, action: ActionView) -> str:
    """Return a sentence that names the action that holds the run, its time, and what a person can
    do meanwhile.
    """
    since = time.strftime("%H:%M:%S", time.localtime(action.accepted_t))
    sentence = f"{held} is busy: {action.what} by {action.who} since {since}. Wait for it to end"
    # a set-up or a merge does not hold the run itself
    if action.kind == "stop" or held != action.run:
        return f"{sentence}."
    return f"{sentence}, or end it with the run: `bs4-console stop` is accepted meanwhile."
