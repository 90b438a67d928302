"""Whatever a run goes through, its best checkpoint is never let go while the order stands."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bs4_agent.checkpoints.retention_policy import decide
from bs4_common.checkpoints.best import WINDOW, Lineage, Quality, Start, lineage, quality
from bs4_common.checkpoints.orders import Order
from bs4_common.checkpoints.remote import prune
from bs4_common.checkpoints.remote.pointer import Pointer
from bs4_common.checkpoints.remote.steps import RemoteRun, RemoteStep
from bs4_common.checkpoints.remote.store import Entry
from tests.agent.checkpoints.test_retention_policy import ALONE, one

#: How an attempt begins: afresh; from a checkpoint on the disk, which the agent knows; from one
#: that only the trainer knows; or from one that was restored from the store.
BEGINNINGS = ("afresh", "resumed", "unknown", "restored")


@dataclass(frozen=True)
class Saved:
    """One checkpoint, with the past of its weights: their values by step, and (attempt, the step
    that it really began with), the newest first.
    """

    t: float
    attempt: int
    truth: dict[int, float]
    way: list[tuple[int, int]]


@dataclass
class History:
    """A run with what is true of it, beside what it has recorded."""

    metric: str
    order: Order
    chance: random.Random
    loss: float = 0.0
    """The chance of a step that its records are lost."""
    t: float = 0.0
    step: int = 0
    files: dict[int, Saved] = field(default_factory=dict)
    remote: dict[int, Saved] = field(default_factory=dict)
    """What is in the store."""
    archive: dict[int, Saved] = field(default_factory=dict)
    """What has ever been there."""
    truth: dict[int, float] = field(default_factory=dict)
    """The values of the steps that led to the present weights."""
    way: list[tuple[int, int]] = field(default_factory=list)
    """(attempt, the step that it really began with), the newest first."""
    records: list[dict[str, Any]] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)

    def begin(self, how: str) -> None:
        number, self.t = len(self.starts) + 1, self.t + 50.0
        if self.starts:
            self.starts[-1] = replace(self.starts[-1], end=self.t)
        if how == "restored" and self.archive:
            # Mostly the newest one, and sometimes one that an earlier attempt has left there.
            step = self.chance.choice(sorted(self.archive))
            self.files[step] = replace(self.archive[step], t=self.t + 50.0)
        self.t += 100.0
        self.step, self.truth, self.way = 0, {}, []
        if how != "afresh" and self.files:
            self.step = self.chance.choice(sorted(self.files))
            if how == "restored":
                self.step = max(self.files, key=lambda step: self.files[step].t)
            saved = self.files[self.step]
            self.truth, self.way = dict(saved.truth), list(saved.way)
        known = self.step if self.step and how != "unknown" else None
        self.starts.append(Start(number, known, self.t))
        self.way.insert(0, (number, self.step))

    def train(self, steps: int, save: int, validate: int) -> None:
        number = len(self.starts)
        for _ in range(steps):
            self.step, self.t = self.step + 1, self.t + 1.0
            value = self.chance.random()
            row = {"attempt": number, "step": self.step}
            said: list[dict[str, Any]] = [{**row, "side": "trainer"}]
            if self.metric == "reward":
                said.append({**row, "side": "orchestrator", "reward": value})
                self.truth[self.step] = value
            elif self.step % validate == 0:
                said.append({**row, "side": f"eval:{self.metric}", "val": value})
                self.truth[self.step] = value
            self.records += self.left_of(said)
            if self.step % save == 0:
                saved = Saved(self.t, number, dict(self.truth), list(self.way))
                for place in (self.files, self.archive, self.remote):
                    place[self.step] = saved
                self.obey()

    def left_of(self, said: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What is left of the records of one step, which have one log line or two."""
        if self.chance.random() >= self.loss:
            return said
        if self.metric == "reward":
            return self.chance.choice(([], said[:1], said[1:]))
        return []

    def obey(self) -> None:
        """Do what the order says, and hold the truth against it."""
        written = {step: saved.t for step, saved in self.files.items()}
        way = lineage(self.metric, self.records, self.starts, written)
        decision = decide(
            [one(step, t=t) for step, t in sorted(written.items())],
            self.order,
            ALONE,
            lambda _: "",
            lambda _: "",
            quality=quality(self.metric, way, written),
        )
        freed = {each.step for each in decision.free}
        best = self.best(self.files)
        assert best not in freed, (self, freed)
        for step in freed:
            del self.files[step]
        self.prune(way, quality(self.metric, way, written), best)

    def prune(self, way: Lineage, on_disk: Quality, best: int | None) -> None:
        """Take from the store what may go there."""
        entry = [Entry("x", 1, None, 0.0, "v")]
        steps = []
        for step, saved in sorted(self.remote.items()):
            manifest: Any = SimpleNamespace(created_t=saved.t + 1.0)
            steps.append(RemoteStep(step, saved.t, entry, manifest, ""))
        run = RemoteRun(steps, Pointer(step=self.step, run="demo", t=0.0))
        stored = quality(self.metric, way, prune.stored_t(run))
        stays = prune.stays_for(self.metric, stored, on_disk, run)
        gone = {each.step for each in prune.decide(run, self.order.last, 0, stays).remove}
        assert best not in gone, (self, gone)
        assert self.best(self.remote) not in gone, (self, gone)
        for step in gone:
            del self.remote[step]

    def best(self, files: Mapping[int, Saved]) -> int | None:
        """The best checkpoint of the present weights' own past."""
        found: dict[int, float] = {}
        before = -1
        for step, saved in sorted(files.items()):
            owner = next((number for number, began in self.way if began < step), None)
            if saved.attempt != owner:
                continue  # left behind
            since = step - WINDOW if self.metric == "reward" else before
            own = [self.truth[at] for at in sorted(self.truth) if since < at <= step]
            if own:
                found[step] = sum(own) / len(own) if self.metric == "reward" else own[-1]
            before = step
        sign = -1 if self.metric.endswith("loss") else 1
        return max(found, key=lambda step: (sign * found[step], -step), default=None)


ATTEMPT = st.tuples(
    st.sampled_from(BEGINNINGS),
    st.integers(1, 60),
    st.sampled_from((5, 10, 12)),
    st.sampled_from((3, 5, 8, 25)),
)


@pytest.mark.parametrize("metric", ["reward", "acc", "val/loss"])
@settings(max_examples=100, deadline=None)
@given(
    attempts=st.lists(ATTEMPT, min_size=1, max_size=6),
    last=st.integers(2, 4),
    loss=st.sampled_from((0.0, 0.02, 0.1, 0.5)),
    seed=st.integers(0, 2**32),
)
def test_the_best_checkpoint_is_never_let_go(
    metric: str, attempts: list[tuple[str, int, int, int]], last: int, loss: float, seed: int
) -> None:
    history = History(metric, Order(last, last, best=metric), random.Random(seed), loss)
    for how, steps, save, validate in attempts:
        history.begin(how)
        history.train(steps, save, validate)
