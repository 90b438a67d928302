"""wait_gpu_free: waits until no process without a live run holds GPU memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bs4_agent.errors import StepFailed
from bs4_agent.playbooks.world import Context, Planned

#: Seconds to wait. The driver frees memory within a second of the holder's end; memory that stays
#: longer needs a reset, which a tenant cannot do.
LIMIT_S = 60.0


class WaitGpuFree:
    """Waits until the GPUs that no live run uses are free."""

    def plan(self, context: Context, parameters: Mapping[str, Any]) -> Planned:
        """Return the planned wait. The parameter `below_mb` is the memory in MB that a free GPU may
        still use.
        """
        limit = int(parameters.get("below_mb", 1000))
        return Planned(
            "wait_gpu_free",
            f"Wait until every free GPU uses less than {limit} MB",
            "",
            {"below_mb": limit},
            [],
            {},
        )

    def done(self, context: Context, planned: Planned) -> bool:
        """Return True if the machine has no GPU, or if no leftover of a dead run holds a GPU and
        every GPU without a live run is below the limit.
        """
        gpus = context.world.gpu_facts()
        if gpus.state == "absent":
            return True
        busy = set()
        for h in gpus.holders:
            if h.run is not None:
                busy.add(h.gpu)
        limit = planned.parameters["below_mb"] * 1_000_000
        left = any(h.run is None and h.dead_run is not None for h in gpus.holders)
        return (
            gpus.state == "ok"
            and not left
            and all(used < limit for gpu, used in gpus.used.items() if gpu not in busy)
        )

    def check(self, context: Context, planned: Planned) -> Sequence[Mapping[str, Any]]:
        """Return no targets."""
        return []

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Mapping[str, Any]],
        say: Callable[[str], None],
    ) -> str:
        """Poll the GPUs until they are free. Raises StepFailed after `LIMIT_S` seconds."""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            if self.done(context, planned):
                return "GPU memory is free"
            context.pause(0.5)
        raise StepFailed(
            f"GPU memory is still in use {LIMIT_S:.0f} s after its holders ended. Only the "
            "provider can reset the GPU: release this pod."
        )
