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
    """A batch that is being collected. `effective` holds the episodes that are trained on;
    `arrived` and `errors` count all episodes that came back for the batch, and those among them
    that failed.
    """

    effective: list[Message] = field(default_factory=list)
    arrived: int = 0
    errors: int = 0


class Dispatcher:
    """Keeps groups of episodes under way and makes batches of them. `sources` maps the name of an
    environment to its groups, `batch_size` and `max_inflight` are in episodes, and groups are
    started only while `gate` is set. `examples` counts the groups that were started.
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
        """Start groups up to the limit, for policy `version`. Do nothing while the gate is closed
        or after `close`.
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
        """Wait up to `seconds` for a finished group and return its episodes, each with its
        environment and the policy it started from. The list is empty if none came.
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
        """Take a finished group. Return the batch if it is full now, or None if it is not. `step`
        is the step that the batch is for.

        Raises RuntimeError after ten batches' worth of groups without one good episode, and after
        ten batches without any advantage.
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
        """Return the line that is logged every `log.interval` seconds."""
        have, inflight = len(self._pending.effective), len(self._inflight) * self._group_size
        share = have / self._batch_size
        return (
            f"Train batch {have}/{self._batch_size} ({share:.1%}); {inflight} inflight episodes "
            f"(train={inflight}, eval=0)"
        )

    def close(self) -> int:
        """Start no more groups and give up those under way. Return how many episodes are cancelled
        by that.
        """
        self.closed = True
        cancelled = len(self._inflight) * self._group_size
        self._inflight.clear()
        return cancelled

    def state(self) -> dict[str, Any]:
        """Return what the orchestrator's checkpoint keeps of the data set."""
        return {"examples": self.examples}
