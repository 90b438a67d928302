"""The checkpoints of a run, asked of its pod or read from a directory, and the sentences that say
how they stand.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from bs4_agent.checkpoints.orders import Order
from bs4_agent.checkpoints.report import report
from bs4_agent.detect.detectors.words import size as bytes_text
from bs4_agent.detect.offline import guess_trainer, spec_of
from bs4_agent.trainers import registry
from bs4_console import ceilings
from bs4_console.errors import UsageError
from bs4_console.pods.state import PodState
from bs4_console.run_log.eta import words

#: A directory in which nothing was written for this long belongs to a run that saves no more.
_LIVE_S = 900.0
_NEXT = "Give the run's own directory, and --trainer where its generation cannot be seen."


class Asks(Protocol):
    """A PodSession or a Channel."""

    async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]: ...


async def of_pod(asks: Asks, run: str) -> dict[str, Any]:
    """Return the report of one run of a pod (see bs4_agent.checkpoints.report), with the
    checkpoints of all its pages. A list without end is cut after `ceilings.PAGES` pages.
    """
    found = await asks.query("checkpoints", "list", run=run)
    rest = found
    for _ in range(ceilings.PAGES):
        if not rest.get("next"):
            break
        after = rest["next"].get("after")
        rest = await asks.query("checkpoints", "list", run=run, after=after)
        found["checkpoints"] += rest["checkpoints"]
    found.pop("next", None)
    return found


def of_directory(path: Path, trainer: str | None = None) -> list[dict[str, Any]]:
    """Reports of the runs in `path`: a run's directory, or an output directory with several.
    UsageError where there is none.
    """
    if not path.is_dir():
        raise UsageError(f"{path} is no directory.", _NEXT)
    root = path.resolve()
    found = trainer or _generation(root)
    runs = (
        [(root, found)]
        if found
        else [(child, _generation(child)) for child in sorted(root.iterdir()) if child.is_dir()]
    )
    reports = []
    for directory, generation in runs:
        if generation:
            reports.append(_read(directory, generation))
    if not reports:
        raise UsageError(f"{path} does not look like a run's directory.", _NEXT)
    return reports


def _generation(directory: Path) -> str | None:
    """What wrote here; where logs and configs are gone, the checkpoints themselves tell."""
    if (known := guess_trainer(directory)) is not None:
        return known
    steps = list((directory / "checkpoints").glob("step_*"))
    if any((step / "orchestrator").is_dir() for step in steps):
        return "prime-rl"
    if steps and ((directory / "weights").is_dir() or (directory / "torchrun").is_dir()):
        return "prime-rl-2026-01"
    if steps:
        return "prime-rl"
    return None


def _read(directory: Path, generation: str) -> dict[str, Any]:
    trainer, spec = registry.get(generation), spec_of(directory, generation)
    found = report(trainer, spec)
    newest = max((one["t"] or 0.0 for one in found["checkpoints"]), default=0.0)
    if time.time() - newest < _LIVE_S:
        return report(trainer, spec, live=True)
    return found


def line(found: Mapping[str, Any]) -> str:
    """How the checkpoints stand, in one line: `step 40 can be resumed, 12m old; 3 sets of 1.2 GiB;
    full in 3h 20m (step 160)`.
    """
    sets = found["checkpoints"]
    whole = [one for one in sets if one["complete"]]
    if not sets:
        return "no checkpoint yet"
    if not whole:
        return f"{len(sets)} checkpoint{_s(sets)}, none complete: nothing can be resumed"
    parts = [
        f"step {found['resumable']} can be resumed{_old(whole[-1])}",
        f"{len(whole)} set{_s(whole)} of {size(whole[-1]['bytes'])}",
    ]
    return "; ".join([*parts, *filter(None, [outlook(found)])])


def outlook(found: Mapping[str, Any]) -> str:
    """When the disk is full, or that it will not be; "" where that cannot be told."""
    seen = found["forecast"]
    if seen["lasts"]:
        if seen["to_come"] is not None:
            return "every save that is to come fits"
        return "the disk lasts"
    if seen["full_t"] is not None:
        return f"full in {words(max(0.0, seen['full_t'] - time.time()))} (step {seen['full_step']})"
    if seen["room"] is not None and found["live"]:
        return f"room for {seen['room']} more"
    return ""


def standing(state: PodState, run: str) -> str:
    """What the pod's disk guard is ordered to do with a run and how it fares, in one line from the
    journal alone; "" without an order.
    """
    record = state.ledger.orders.get(run)
    order = Order.of(record)
    if order is None:
        return ""
    said = state.ledger.guard.get(run)
    text = f"keep-last {order.last}" + (
        f", milestones every {order.milestones}" if order.milestones else ""
    )
    if order.synced:
        text += ", of what is in the store"
    else:
        text += ""
    if said is not None and said["event"] != "relieved":
        return f"{text}; {said['event']}: {said['detail']}"
    done = []
    for action in state.ledger.actions.values():
        if action.kind == "rotate" and action.run == run and action.ended:
            done.append(action)
    if not done:
        return f"{text}; nothing freed yet"
    last = done[-1]
    if last.state == "done":
        return f"{text}; {last.detail}"
    return f"{text}; the last rotation failed: {last.detail}"


def order_text(order: Mapping[str, Any]) -> str:
    """An order as a sentence's part."""
    text = f"the {order['last']} newest complete checkpoints stay"
    if order["at_least"] < order["last"]:
        text += f", {order['at_least']} of them while the disk cannot take the next"
    if order["milestones"]:
        text += f", and every {order['milestones']}th step"
    else:
        text += ""
    return text + (", and what is not yet verified in the store" if order.get("synced") else "")


def foresight(found: Mapping[str, Any], last: int, milestones: int) -> str:
    """What an order would free at once, as a sentence; the pod decides anew, and leaves alone what
    is held, read or in doubt.
    """
    whole = []
    for one in found["checkpoints"]:
        if one["complete"]:
            whole.append(one["step"])
    own = ""
    if milestones and found["trainer_keeps"]:
        own = (
            f" The trainer's own keep_last ({found['trainer_keeps']}) deletes its part of "
            "milestones too; start without it next time."
        )
    oldest = None
    if 2 <= last <= len(whole):
        oldest = whole[-last]
    old = []
    for one in found["checkpoints"]:
        if oldest is not None and one["step"] < oldest:
            old.append(one)
    old = [
        one for one in old if not (milestones and one["complete"] and one["step"] % milestones == 0)
    ]
    if not old:
        return "Nothing is older than these now; from now on older ones are freed for good." + own
    shown = ", ".join(str(one["step"]) for one in old[:8]) + (
        f" and {len(old) - 8} more" if len(old) > 8 else ""
    )
    return (
        f"Freed for good now, and older ones from now on: step{_s(old)} {shown}, "
        f"{size(sum(one['bytes'] for one in old))}." + own
    )


def size(count: float | None) -> str:
    if count is None:
        return "?"
    return bytes_text(count)


def age(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.0f}s"
    return words(seconds)


def _old(one: Mapping[str, Any]) -> str:
    if one["age_s"] is None:
        return ""
    return f", {age(one['age_s'])} old"


def _s(many: list[Any]) -> str:
    if len(many) == 1:
        return ""
    return "s"
