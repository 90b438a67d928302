"""wait_until: waits, with a time limit, until a condition of the machine holds."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bs4_agent.errors import StepFailed
from bs4_agent.playbooks.world import Context, Planned

_LOOK_S = 0.5
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_NEXT = {
    "disk-free": (
        "Free space on that mount (old steps that are in the object store first), then try again."
    ),
    "port-free": "See who holds it with `ss -ltnp`, then try again.",
    "server-ready": "Read the inference log.",
}


class WaitUntil:
    """Waits for a condition. `disk-free`: less than `percent` of the file system of the run's
    output is used. `port-free`: no process listens on a port of the run. `server-ready`: the run's
    inference server answers /health with 200.
    """

    def plan(self, context: Context, parameters: Mapping[str, Any]) -> Planned:
        """Return the planned wait."""
        hashed = {
            "condition": parameters["condition"],
            "percent": int(parameters.get("percent", 85)),
            "within": seconds(parameters.get("within", "5m")),
        }
        return Planned(
            "wait_until",
            f"Wait until {_words(hashed)} (at most {hashed['within']:.0f} s)",
            "",
            hashed,
            [],
            {},
        )

    def done(self, context: Context, planned: Planned) -> bool:
        """Return True if the condition holds."""
        return _holds(context, planned.parameters)

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
        """Poll until the condition holds, and return it in words. Raises StepFailed after the
        planned number of seconds.
        """
        deadline = time.monotonic() + planned.parameters["within"]
        while time.monotonic() < deadline:
            if _holds(context, planned.parameters):
                return f"{_words(planned.parameters)}"
            context.pause(_LOOK_S)
        raise StepFailed(
            f"It did not come about within {planned.parameters['within']:.0f} s that "
            f"{_words(planned.parameters)}. " + _NEXT[planned.parameters["condition"]]
        )


def _words(parameters: Mapping[str, Any]) -> str:
    """Return the condition in words."""
    return {
        "disk-free": f"less than {parameters['percent']} % of the run's disk is used",
        "port-free": "the run's ports are free",
        "server-ready": "the inference server is ready",
    }[str(parameters["condition"])]


def _holds(context: Context, parameters: Mapping[str, Any]) -> bool:
    """Return True if the condition holds now."""
    condition = parameters["condition"]
    if condition == "port-free":
        return not context.world.port_holders(context.run)
    if condition == "server-ready":
        return context.world.server_answers(context.run)
    return used_percent(context.facts().layout.output_dir) < int(parameters["percent"])


def used_percent(path: Path) -> float:
    """Return how full the file system of `path` is for an ordinary user, in percent, as df counts.
    If `path` does not exist, the nearest existing directory above it counts.
    """
    there = next(p for p in (path, *path.parents) if p.exists())
    status = os.statvfs(there)
    used = status.f_blocks - status.f_bfree
    return 100.0 * used / max(1, used + status.f_bavail)


def seconds(text: Any) -> float:
    """Return a duration in seconds. A text like "90s", "10m" or "2h" is converted; a number is in
    seconds already.
    """
    if isinstance(text, (int, float)):
        return float(text)
    return float(text[:-1]) * _SECONDS[text[-1]]
