"""Keeps groups of episodes under way while the gate is open, and makes batches of those that came
back whole.
"""

from __future__ import annotations

import queue
import threading
import uuid
from dataclasses import dataclass, field
from typing import Any

from .. import rollouts
from ..lines import Message
from ..log import Logger

_MAX_EMPTY_BATCHES = 10
_MAX_ZERO_OUTPUT = 10


@dataclass
class Batch:
    """A training batch that is being collected. `effective` has the episodes that the trainer is to
    train on. `arrived` is how many episodes came back for it, and `errors` how many of them had
    failed.
    """

    effective: list[Message] = field(default_factory=list)
    arrived: int = 0
    errors: int = 0


class Dispatcher:
    """Has groups of episodes (answers to one prompt) generated, and makes training batches of them.
    `sources` maps the name of an environment to the object that sends groups to it. A group has
    `group_size` episodes, and a batch `batch_size`; at most `max_inflight` episodes are under way.
    With `filter_zero_advantages` a batch in which all advantages are 0 is dropped.

    New groups are begun only while the event `gate` is set. `examples` is how many were begun.
    """

    def __init__(
        self,
        sources: dict[str, rollouts.Groups],
        group_size: int,
        batch_size: int,
        max_inflight: int,
        log: Logger,
        *,
        filter_zero_advantages: bool = True,
    ) -> None:
        self._sources = sources
        self._names = list(sources)
        self._group_size = group_size
        self._batch_size = batch_size
        self._max_inflight = min(max_inflight, 2 * batch_size)
        self._log = log
        self._inflight: dict[str, tuple[str, int]] = {}
        self._arrived: queue.SimpleQueue[tuple[str, list[Message]]] = queue.SimpleQueue()
        self._pending = Batch()
        self._filter_zero_advantages = filter_zero_advantages
        self._zero_output_units = 0
        self._zero_output_windows = 0
        self._empty_in_a_row = 0
        self.gate = threading.Event()
        self.gate.set()
        self.closed = False
        self.examples = 0
        for groups in sources.values():
            threading.Thread(target=self._collect, args=(groups,), daemon=True).start()

    def _collect(self, groups: rollouts.Groups) -> None:
        while True:
            self._arrived.put(groups.results.get())

    def fill(self, version: int) -> None:
        """Begin new groups until as many episodes are under way as are allowed. `version` is the
        number of the policy that generates them. Does nothing while the event `gate` is not set
        (the orchestrator clears it while it waits for a newer policy), or after `close`.
        """
        while (
            self.gate.is_set()
            and not self.closed
            and (len(self._inflight) + 1) * self._group_size <= self._max_inflight
        ):
            name = self._names[self.examples % len(self._names)]
            identity = str(uuid.uuid4())
            self._inflight[identity] = (name, version)
            self._sources[name].submit(identity, self.examples, self._group_size)
            self.examples += 1

    def next_episodes(self, seconds: float) -> list[Message]:
        """Wait up to `seconds` for a group that is finished, and return its episodes. Each gets the
        keys "group" (the group's id), "env" (the environment's name) and "policy" (the number of
        the policy when the group was begun). Returns [] if no group has come.
        """
        try:
            identity, group = self._arrived.get(timeout=seconds)
        except queue.Empty:
            return []
        name, version = self._inflight.pop(identity, ("", 0))
        for episode in group:
            episode |= {"group": identity, "env": name, "policy": version}
            if "error" in episode:
                kind, text = episode["error"]
                self._log.warning(
                    f"Trace failed in group {identity} ({name}) — {kind}: {text}",
                    "dispatcher.py::608",
                )
        return group

    def add(self, group: list[Message], step: int) -> Batch | None:
        """Add a finished group to the batch that is being collected. Return the batch if it is full
        now, otherwise None. `step` is the step for which the batch is collected, and is used in
        messages.

        Raises RuntimeError if so many groups in a row had only failed episodes that they would have
        filled ten batches, or if all advantages were 0 in ten batches in a row.
        """
        good = [episode for episode in group if "error" not in episode]
        self._pending.arrived += len(group)
        self._pending.errors += len(group) - len(good)
        if not good:
            self._note_zero_output(len(group))
            return None
        self._zero_output_units = self._zero_output_windows = 0
        advantages = rollouts.advantages([episode["reward"] for episode in good])
        self._pending.effective += [
            {**episode, "advantage": value} for episode, value in zip(good, advantages, strict=True)
        ]
        if len(self._pending.effective) < self._batch_size:
            return None
        if self._filter_zero_advantages and not any(
            episode["advantage"] for episode in self._pending.effective
        ):
            self._note_empty_batch(step)
            return None
        self._empty_in_a_row = 0
        batch, self._pending = self._pending, Batch()
        return batch

    def _note_zero_output(self, count: int) -> None:
        """Count episodes of a group of which none can be trained on (train_sink.py:312-340 of
        559b44772).
        """
        self._zero_output_units += count
        windows = self._zero_output_units // self._batch_size
        if windows <= self._zero_output_windows:
            return
        self._zero_output_windows = windows
        self._log.warning(
            f"No admitted train payload after {self._zero_output_units} finalized units "
            f"(consecutive zero-output batch equivalents: {windows}/{_MAX_ZERO_OUTPUT})",
            "train_sink.py::329",
        )
        if windows >= _MAX_ZERO_OUTPUT:
            raise RuntimeError(
                f"{windows} consecutive zero-output batch equivalents — check the curriculum "
                "admission policy, task difficulty, and staleness drops."
            )

    def _note_empty_batch(self, step: int) -> None:
        """Drop a batch in which no answer is better than another (orchestrator.py:641-653 of
        559b44772).
        """
        self._pending.effective = []
        self._empty_in_a_row += 1
        self._log.warning(
            f"Step {step}: empty train batch after {self._pending.arrived} finalized episodes "
            f"(consecutive empty batches: {self._empty_in_a_row}/{_MAX_EMPTY_BATCHES})",
            "orchestrator.py::642",
        )
        if self._empty_in_a_row >= _MAX_EMPTY_BATCHES:
            text = (
                f"{self._empty_in_a_row} consecutive empty train batches — check algorithm "
                "credit and task difficulty."
            )
            raise RuntimeError(text)

    def view(self) -> str:
        """Return a line for the log about the batch that is being collected and the episodes under
        way. The orchestrator writes one at regular intervals.
        """
        have, inflight = len(self._pending.effective), len(self._inflight) * self._group_size
        share = have / self._batch_size
        return (
            f"Train batch {have}/{self._batch_size} ({share:.1%}); {inflight} inflight episodes "
            f"(train={inflight}, eval=0)"
        )

    def close(self) -> int:
        """Begin no more groups (a group has the episodes that answer one prompt), and no longer
        wait for those that are being generated. Return how many episodes are given up by that.
        """
        self.closed = True
        cancelled = len(self._inflight) * self._group_size
        self._inflight.clear()
        return cancelled

    def state(self) -> dict[str, Any]:
        """Return the part of the orchestrator's checkpoint that says how far the data set was used,
        as {"examples": number}. The number counts the groups that were begun; a group is the
        rollouts of one example.
        """
        return {"examples": self.examples}
