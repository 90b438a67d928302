"""Tasks `N + 1`, even ones and odd ones. TINY_FAULT=reward lets the reward raise."""

from __future__ import annotations

import os

import verifiers.v1 as vf


class TinyData(vf.TaskData):
    answer: str
    archetype: str


class TinyTask(vf.Task[TinyData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        if os.environ.get("TINY_FAULT") == "reward":
            raise ZeroDivisionError("division by zero")
        return float(self.data.answer in (trace.last_reply or ""))

    @vf.reward(weight=0.5)
    async def short(self, trace: vf.Trace) -> float:
        return 1.0


class TinyConfig(vf.TasksetConfig):
    num_tasks: int = 6


class TinyTaskset(vf.Taskset[TinyTask, TinyConfig]):
    def load(self) -> list[TinyTask]:
        kinds = ("even", "odd")
        return [
            TinyTask(
                TinyData(idx=n, prompt=f"{n} + 1", answer=str(n + 1), archetype=kinds[n % 2]),
                self.config.task,
            )
            for n in range(self.config.num_tasks)
        ]
