"""The rotation of a run's checkpoints as a kind of action: old ones are moved aside while it holds
the run, and freed for good after it has let go. `retention` decides which ones.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bs4_agent.actions.kind import Kind, Outcome, Underway
from bs4_agent.checkpoints import removal
from bs4_agent.checkpoints.holds import alone
from bs4_agent.paths import Home
from bs4_agent.playbooks.pod_actions import Planned, Say, Stepping, Target, Unheld
from bs4_common.checkpoints.sets import StepSet, numbers
from bs4_common.errors import AgentError, Busy, Interrupted, Refused, StepFailed
from bs4_common.failures.detectors.reporting import size
from bs4_common.files import disk_usage
from bs4_common.ledger import ActionView


def _left() -> None:
    """Refuse to move what an earlier life of the agent has decided to move: it is decided anew."""
    raise Interrupted("it ended before anything was moved")


@dataclass(frozen=True, kw_only=True)
class RotationPlan:
    """What a rotation (an action that removes old checkpoints) does to `run`: it carries out
    `moves` and then deletes what it has moved into the trash directories `trashes`. `numbers` are
    the training steps of the checkpoints, and `steps` the two steps of the action. The function
    `again` raises an AgentError if the checkpoints may not be removed any more, and `freed` is
    called once they are gone.
    """

    run: str
    numbers: Sequence[int]
    trashes: Sequence[Path]
    steps: Sequence[Planned]
    moves: Sequence[removal.Move] = ()
    again: Callable[[], object] = _left
    freed: Callable[[], object] = lambda: None


def plan_of(
    run: str,
    key: str,
    chosen: Sequence[StepSet],
    moves: Sequence[removal.Move],
    *,
    again: Callable[[], object],
    freed: Callable[[], object],
) -> RotationPlan:
    """Return the plan of the action `key`, which removes the checkpoints `chosen` of `run`. `moves`
    are their directories, at least one. The function `again` raises an AgentError if the
    checkpoints may not be removed any more, and `freed` is called once they are gone.
    """
    trashes = removal.trashes(moves)
    sources = shlex.join(str(one.source) for one in moves)
    steps = [
        Planned(
            "move_aside",
            f"Move {in_words(chosen)} aside",
            f"mv {sources} {trashes[0]}/",
            {},
            removal.targets(moves, chosen),
            {},
        ),
        _freeing("Free what was moved aside for good", trashes, key),
    ]
    return RotationPlan(
        run=run,
        numbers=numbers(chosen),
        trashes=trashes,
        steps=steps,
        moves=moves,
        again=again,
        freed=freed,
    )


def _freeing(title: str, trashes: Sequence[Path], key: str) -> Planned:
    """Return the step that frees what the action `key` has moved aside."""
    command = f"rm -r {shlex.join(str(place / key) for place in trashes)}"
    return Planned("free", title, command, {}, [], {})


@dataclass
class RotationContext:
    """The object that the steps of a rotation (an action that removes old checkpoints) get. `alone`
    holds the locks that keep others from reading the checkpoints; it is closed after these were
    moved. `failed` is the error that ended the moving too early, or None. `freed` is the number of
    bytes that this agent has freed, or None before that.
    """

    plan: RotationPlan
    key: str
    alone: ExitStack
    failed: AgentError | None = None
    freed: int | None = None

    def moved(self) -> bool:
        """Return True if a trash directory still has something that this action has moved there."""
        return any((place / self.key).exists() for place in self.plan.trashes)


class MoveAside(Stepping):
    """The step of a rotation that moves checkpoints to the run's trash, a directory in which
    removed files are kept. See `playbooks.pod_actions.Step` for the methods.
    """

    def done(self, context: RotationContext, planned: Planned) -> bool:
        """Return True if this action has moved something before the agent was restarted. What it
        has not moved is left to the next rotation.
        """
        return context.moved()

    def check(self, context: RotationContext, planned: Planned) -> Sequence[Target]:
        """Return the directories of the checkpoints that this step is going to move. Raises Refused
        if one of them may not be removed any more. Raises Interrupted if the agent was restarted
        after it had planned to remove them, because that has to be decided again.
        """
        context.plan.again()
        return planned.targets

    def act(
        self, context: RotationContext, planned: Planned, targets: Sequence[Target], say: Say
    ) -> str:
        """Move the directories of the checkpoints into the run's trash, and return a sentence about
        the result. Raises StepFailed or Refused if none could be moved. If the error comes after
        some were moved, it is only noted in `context.failed`, so that the action still deletes
        these from the trash; no later action would.
        """
        moves = context.plan.moves
        try:
            with context.alone:
                removal.move(moves, context.key)
        except (StepFailed, Refused) as error:
            if not context.moved():
                raise
            context.failed = error
            return f"only some of {len(moves)} directories are aside: {error.message}"
        return f"{len(moves)} directories are aside"


class Free(Unheld):
    """The step of a rotation that deletes for good what the rotation has moved into the trash. 50
    GB may take a minute. See `playbooks.pod_actions.Step` for the methods.
    """

    def done(self, context: RotationContext, planned: Planned) -> bool:
        """Return False, so that the step is always carried out. If nothing is left to delete, it
        takes no time.
        """
        return False

    def act(
        self, context: RotationContext, planned: Planned, targets: Sequence[Target], say: Say
    ) -> str:
        """Delete what this action has moved into the trash, and return a phrase with the size that
        was freed. Raises StepFailed if the disk reports an error, and Refused if a directory
        belongs to another user or is writable by another user.
        """
        context.freed = removal.free(context.plan.trashes, context.key)
        return f"{size(context.freed)} freed"


STEPS: Mapping[str, Any] = {"move_aside": MoveAside(), "free": Free()}


class Rotation(Kind[RotationPlan]):
    """The kind of action that removes old checkpoints of a run; see `actions.kind.Kind` for the
    methods. Only the agent itself begins one. `home` is the agent's home directory.
    """

    name, steps = "rotate", STEPS

    def __init__(self, home: Home) -> None:
        self._home = home
        self._alone: dict[str, ExitStack] = {}

    def left_hold(self, action: ActionView) -> str:
        """Return "", which means that the rest of `action` reserves no run: after a restart of the
        agent it only deletes what it has moved into the trash.
        """
        return ""

    def left(self, action: ActionView) -> RotationPlan:
        """Return a plan of what `action`, which was under way when the agent was restarted, still
        does. It has no `moves`, because nothing more is moved.
        """
        body, (move, free) = action.body, action.steps
        trashes = [Path(place) for place in body["trash"]]
        steps = [
            Planned("move_aside", move.title, move.command, {}, [], {}),
            _freeing(free.title, trashes, action.key),
        ]
        return RotationPlan(run=action.run, numbers=body["steps"], trashes=trashes, steps=steps)

    def keep(self, key: str, plan: RotationPlan, payload: bytes) -> None:
        """Lock the checkpoints of `plan` for the action `key`, so that nobody else reads them until
        they are moved. Raises Busy if somebody reads one already. `payload` is not used.
        """
        locks = self._alone[key] = ExitStack()
        for step in plan.numbers:
            if who := locks.enter_context(alone(self._home, plan.run, step)):
                raise Busy(f"Step {step} of {plan.run} is held by {who}; it goes later.")

    def forget(self, key: str) -> None:
        """Release the locks that `keep` has taken for the action `key`, so that others may read
        those checkpoints that were not moved.
        """
        self._alone.pop(key, ExitStack()).close()

    def context(self, action: Underway[RotationPlan]) -> RotationContext:
        """Return the RotationContext with which the steps work."""
        key = action.key
        return RotationContext(action.plan, key, self._alone.get(key, ExitStack()))

    def verify(self, action: Underway[RotationPlan], context: RotationContext) -> Outcome:
        """Return the outcome of a rotation (the removal of old checkpoints). It has failed if a
        checkpoint could not be moved into the trash. Otherwise `result["freed"]` of the outcome is
        the number of bytes that were freed. That is None if it is not known, because the agent was
        restarted after it had freed them.
        """
        plan, freed = action.plan, "all"
        if context.freed is not None:
            freed = size(context.freed)
        if context.failed is not None:
            detail = f"{context.failed.message} What was aside already was freed ({freed})."
            return Outcome(False, detail, {"error": context.failed.type})
        word = "step" if len(plan.numbers) == 1 else "steps"
        left = disk_usage(plan.trashes[0])["free"] if plan.trashes else None
        return Outcome(
            True,
            f"{freed} freed for good: {word} {', '.join(map(str, plan.numbers))}",
            {"freed": context.freed, "steps": plan.numbers, "free": left},
        )

    def reached(self, plan: RotationPlan) -> None:
        """Call `plan.freed`, the function that is to be called once the checkpoints of the plan are
        deleted.
        """
        plan.freed()


def in_words(sets: Iterable[StepSet]) -> str:
    """Return the training steps of `sets` as a phrase, such as "steps 5, 10", with at most six
    numbers.
    """
    shown = [str(one.step) for one in sets]
    word = "step" if len(shown) == 1 else "steps"
    if len(shown) > 6:
        shown[5:] = [f"{len(shown) - 5} more"]
    return f"{word} {', '.join(shown)}"
