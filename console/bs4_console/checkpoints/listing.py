"""The checkpoints of a run, read from its pod or a directory, and sentences about their state."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from bs4_common.checkpoints.best import Quality, Start, lineage, quality
from bs4_common.checkpoints.forecast import ForecastRow
from bs4_common.checkpoints.orders import Order
from bs4_common.checkpoints.report import (
    CheckpointReport,
    CheckpointRow,
    GuardRow,
    OrderRow,
    PartRow,
    report,
)
from bs4_common.failures.detectors.reporting import size as bytes_text
from bs4_common.failures.offline import guess_trainer, spec_of
from bs4_common.telemetry import DiskUsage
from bs4_common.trainers import registry
from bs4_console import ceilings
from bs4_console.errors import UsageError
from bs4_console.pods.port import Asks
from bs4_console.pods.state import PodState, RunState
from bs4_console.run_log import validation
from bs4_console.run_log.eta import describe

__all__ = ["BestRow", "CheckpointReport", "CheckpointRow"]

#: Seconds. A directory in which nothing was written for longer belongs to a run that saves no more.
_LIVE_S = 900.0
_NEXT = "Give the run's own directory, and --trainer where its generation cannot be seen."


class BestRow(TypedDict):
    """The best complete checkpoint of a run by the metric of its retention order, and the metric's
    value, which for "reward" is the mean of ten steps.
    """

    metric: str
    step: int
    value: float


async def of_pod(asks: Asks, run: str) -> CheckpointReport:
    """Ask a pod for the checkpoint report of its run `run`, and return the report: the run's
    checkpoints, the training step from which it can be resumed, and the forecast of when the disk
    is full (see bs4_common.checkpoints.report). The agent sends a long report in pages, which are
    put together; after 1,000 pages (ceilings.PAGES) the rest is left out.
    """
    found = _report_of(await asks.query("checkpoints", "list", run=run))
    rest = found
    for _ in range(ceilings.PAGES):
        page = rest.get("next")
        if not page:
            break
        after = page.get("after")
        rest = _report_of(await asks.query("checkpoints", "list", run=run, after=after))
        found["checkpoints"] += rest["checkpoints"]
    found.pop("next", None)
    return found


def _report_of(answer: Any) -> CheckpointReport:
    """Return a pod's answer as a report. Its channel has checked it (pods/gate/replies.py). A field
    that the pod has left out is None, as one that it does not know.
    """
    report: Any = _filled(answer, CheckpointReport)
    report["checkpoints"] = [_filled(one, CheckpointRow) for one in report["checkpoints"]]
    for one in report["checkpoints"]:
        one["parts"] = [_filled(part, PartRow) for part in one["parts"] or ()]
    if report.get("guard"):
        report["guard"] = _filled(report["guard"], GuardRow)
    report["disk"] = _filled(report["disk"], DiskUsage)
    report["forecast"] = _filled(report["forecast"], ForecastRow)
    found: CheckpointReport = report
    return found


def _filled(row: Any, kind: type) -> Any:
    """Return a row with None for each field that every row of its kind has and this one lacks. A
    row that is None lacks them all.
    """
    unknown = dict.fromkeys(sorted(kind.__required_keys__))  # type: ignore[attr-defined]
    return {**unknown, **(row or {})}


def of_directory(path: Path, trainer: str | None = None) -> list[CheckpointReport]:
    """Return a checkpoint report for each run in `path`, a directory on this machine: a run's own
    directory, or an output directory with several runs. `trainer` is the trainer's id, such as
    "verl"; None means that trainer and version are found out from the files. Raises UsageError if
    `path` is no directory or has no run.
    """
    if not path.is_dir():
        raise UsageError(f"{path} is no directory.", _NEXT)
    root = path.resolve()
    if found := trainer or _generation(root):
        return [_read(root, found)]
    reports = []
    for child in sorted(root.iterdir()):
        if child.is_dir() and (found := _generation(child)):
            reports.append(_read(child, found))
    if not reports:
        raise UsageError(f"{path} does not look like a run's directory.", _NEXT)
    return reports


def _generation(directory: Path) -> str | None:
    """Return the trainer generation that wrote a directory, or None. If logs and configs are
    missing, the checkpoints themselves tell.
    """
    if (known := guess_trainer(directory)) is not None:
        return known
    for id_ in registry.ids():
        saved = registry.get(id_).traits.saved
        if saved is not None and saved(directory):
            return id_
    return None


def _read(directory: Path, generation: str) -> CheckpointReport:
    """Return the report of one directory. It counts as live if the newest checkpoint is younger
    than _LIVE_S seconds.
    """
    trainer, spec = registry.get(generation), spec_of(directory, generation)
    found = report(trainer, spec)
    newest = max((one["t"] or 0.0 for one in found["checkpoints"]), default=0.0)
    if time.time() - newest < _LIVE_S:
        return report(trainer, spec, live=True)
    return found


def aged(found: CheckpointReport, seconds: float) -> CheckpointReport:
    """Return the checkpoint report `found` as it is `seconds` after it was made: every checkpoint
    is so much older, and all else is the same.
    """
    older: list[CheckpointRow] = []
    for one in found["checkpoints"]:
        age_s = one.get("age_s")
        older.append({**one, "age_s": None if age_s is None else age_s + max(0.0, seconds)})
    return {**found, "checkpoints": older}


def line(found: CheckpointReport) -> str:
    """Return one line about a run's checkpoints, such as `step 40 can be resumed, 12m old;
    3 × 1.2 GiB; full in 3h 20m (step 160)`. `found` is a checkpoint report, as `of_pod`
    and `of_directory` return it.
    """
    sets = found["checkpoints"]
    whole = [one for one in sets if one["complete"]]
    if not sets:
        return "no checkpoint yet"
    if not whole:
        return f"{len(sets)} checkpoint{_s(sets)}, none complete: nothing can be resumed"
    newest = whole[-1]
    text = (
        f"step {found['resumable']} can be resumed{_old(newest)}; "
        f"{len(whole)} × {size(newest['bytes'])}"
    )
    full = outlook(found)
    return f"{text}; {full}" if full else text


def outlook(found: CheckpointReport) -> str:
    """Return a phrase about the disk of a pod: when it will be full, for how many more checkpoints
    there is room, or that all checkpoints to come will fit. Return "" if none of these is known.
    `found` is a checkpoint report, the result of `of_pod`.
    """
    seen = found["forecast"]
    if seen["lasts"]:
        if seen["to_come"] is not None:
            return "room for all to come"
        return "the disk lasts"
    if seen["full_t"] is not None:
        return (
            f"full in {describe(max(0.0, seen['full_t'] - time.time()))} (step {seen['full_step']})"
        )
    if seen["room"] is not None and found["live"]:
        return f"room for {seen['room']} more"
    return ""


def standing(state: PodState, run: str) -> str:
    """Return one line about the order to delete old checkpoints of the run `run` on the pod: which
    checkpoints stay, and which ones were deleted last or why that failed. The line is made only
    from what the pod's journal (the agent's log of actions and incidents) has told. Return "" if no
    such order is in force.
    """
    record = state.ledger.orders.get(run)
    order = Order.of(record)
    if order is None:
        return ""
    said = state.ledger.guard.get(run)
    text = f"keep-last {order.last}"
    if order.milestones:
        text += f", milestones every {order.milestones}"
    if order.best:
        text += f", the best by {order.best}"
    if order.synced:
        text += ", of what is in the store"
    if said is not None and said["event"] != "relieved":
        return f"{text}; {said['event']}: {said['detail']}"
    last = None
    for action in state.ledger.actions.values():
        if action.kind == "rotate" and action.run == run and action.ended:
            last = action
    if last is None:
        return f"{text}; nothing freed yet"
    if last.state == "done":
        return f"{text}; {last.detail}"
    return f"{text}; the last rotation failed: {last.detail}"


def order_text(order: OrderRow) -> str:
    """Return in words which checkpoints stay while `order`, an order to delete the others, is in
    force: for example `the 3 newest complete checkpoints stay, and every 50th step`. The words have
    no capital and no full stop, because they become part of a sentence.
    """
    text = f"the {order['last']} newest complete checkpoints stay"
    if order["at_least"] < order["last"]:
        text += f", {order['at_least']} of them while the disk cannot take the next"
    if order["milestones"]:
        text += f", and every {order['milestones']}th step"
    if order.get("best"):
        text += f", and the best by {order['best']}"
    if order.get("synced"):
        text += ", and what is not yet verified in the store"
    return text


def quality_of(run: RunState, metric: str, found: CheckpointReport) -> Quality:
    """Return how good the run's complete checkpoints are by `metric`, such as "reward". `found` is
    the run's checkpoint report, the result of `of_pod`. Raises UsageError, which names the known
    metrics, if the run has recorded no metric of this name.
    """
    known = [curve.metric for curve in validation.curves_of(run.eval_points)]
    if run.series("reward"):
        known.insert(0, "reward")
    if metric not in known:
        raise UsageError(
            f"Nothing is recorded of {run.name} by the name {metric!r}, so no checkpoint would "
            "be freed.",
            f"Known: {', '.join(known) or 'nothing yet'}.",
        )
    written = {}
    for one in found["checkpoints"]:
        if one["complete"]:
            written[one["step"]] = one["t"] or 0.0
    return judged(run, metric, written)


def judged(run: RunState, metric: str, written: Mapping[int, float]) -> Quality:
    """Return how good the run's checkpoints are by `metric`, such as "reward". `written` has the
    Unix time in seconds at which each was written, by its step. The pod judges them by the same
    rules.
    """
    records = [*run.trainer_steps, *run.orchestrator_steps, *run.eval_points]
    starts = []
    for number, attempt in run.view.attempts.items():
        end = math.inf if attempt.ended_t is None else attempt.ended_t
        starts.append(Start(number, attempt.resume, attempt.started_t, end))
    return quality(metric, lineage(metric, records, starts, written), written)


def protects(state: PodState, run: str, metric: str) -> bool:
    """Return True if the run `run` has a retention order (a user's rule about which old checkpoints
    are deleted on the pod) that keeps the best checkpoint by `metric`, such as "reward". Return
    False if no such order is in force, if it keeps the best by another metric, or if the pod's
    agent is too old to know of metrics.
    """
    order = Order.of(state.ledger.orders.get(run))
    return order is not None and order.best == metric


def freed_now(
    found: CheckpointReport, last: int, milestones: int, judged: Quality | None = None
) -> list[CheckpointRow]:
    """Return the checkpoints that a new order would delete at once, oldest first. `found` is the
    run's checkpoint report, the result of `of_pod`. `last` is how many of the newest complete
    checkpoints stay. Steps that are multiples of `milestones` stay too (0: none). If the order
    keeps the best checkpoint, `judged` says how good they are; those that may be the best stay
    too. This is a forecast: the pod itself decides, and also keeps checkpoints that are in use or
    in doubt.
    """
    best = best_of(judged)
    old = []
    for one in _older(found, last, milestones):
        if one["step"] != best and not _in_doubt(one, judged):
            old.append(one)
    return old


def _older(found: CheckpointReport, last: int, milestones: int) -> list[CheckpointRow]:
    """Return the checkpoints that are older than the newest `last` and are no milestones."""
    whole = [one["step"] for one in found["checkpoints"] if one["complete"]]
    old: list[CheckpointRow] = []
    if not 2 <= last <= len(whole):
        return old
    for one in found["checkpoints"]:
        milestone = milestones and one["complete"] and one["step"] % milestones == 0
        if one["step"] < whole[-last] and not milestone:
            old.append(one)
    return old


def best_of(judged: Quality | None) -> int | None:
    """Return the training step of the best checkpoint by `judged`, or None if no checkpoint has a
    value or `judged` is None.
    """
    if judged is None:
        return None
    return next(iter(judged.best_first()), None)


def best_known(run: RunState, found: CheckpointReport) -> BestRow | None:
    """Return which checkpoint of `run` is the best by the metric of its order, and its value.
    `found` is the run's checkpoint report, the result of `of_pod`. Return None if no order names a
    metric, or if nothing is known by it.
    """
    order = found["order"]
    if not order or not (metric := order.get("best")):
        return None
    try:
        judged = quality_of(run, metric, found)
    except UsageError:  # the run has recorded nothing by this name yet
        return None
    step = best_of(judged)
    if step is None:
        return None
    value = judged.known[step]
    if metric.endswith("loss"):
        value = -value
    return {"metric": metric, "step": step, "value": value}


def _in_doubt(one: CheckpointRow, judged: Quality | None) -> bool:
    """Return True if the complete checkpoint may be the best although nothing is known of it."""
    return judged is not None and one["complete"] and judged.in_doubt(one["step"])


def foresight(
    found: CheckpointReport, last: int, milestones: int, judged: Quality | None = None
) -> str:
    """Return a sentence that says which of the run's checkpoints would be deleted at once by a new
    order that keeps only some of them. The arguments are those of `freed_now`.
    """
    own = ""
    if milestones and found["trainer_keeps"]:
        own = (
            f" The trainer's own keep_last ({found['trainer_keeps']}) deletes its part of "
            "milestones too; start without it next time."
        )
    best = best_of(judged)
    if best is not None:
        own += f" Step {best} is the best now and stays."
        if found["trainer_keeps"] and not milestones:
            own += (
                f" The trainer's own keep_last ({found['trainer_keeps']}) deletes its part of it "
                "all the same; start without it next time."
            )
    doubts = [one for one in _older(found, last, milestones) if _in_doubt(one, judged)]
    if doubts:
        own += f" Without a value, so kept as well: {steps_text(doubts)}."
    old = freed_now(found, last, milestones, judged)
    if not old:
        return "Nothing is older than these now; from now on older ones are freed for good." + own
    return (
        f"Freed for good now, and older ones from now on: {steps_text(old)}, "
        f"{size(sum(one['bytes'] for one in old))}.{own}"
    )


def steps_text(rows: Sequence[CheckpointRow]) -> str:
    """Return the steps of these checkpoints in words, such as "steps 10, 15 and 3 more"."""
    shown = ", ".join(str(one["step"]) for one in rows[:8])
    if len(rows) > 8:
        shown += f" and {len(rows) - 8} more"
    return f"step{_s(rows)} {shown}"


def remarks(found: CheckpointReport) -> list[str]:
    """Return the lines that are printed below the table of a run's checkpoints. They are about
    weights that lie on the disk for steps without a checkpoint, free disk space, how many
    checkpoints the trainer itself keeps, and the order to delete old ones with the last message
    about it. `found` is a checkpoint report, the result of `of_pod`.
    """
    disk, seen, said = found["disk"], found["forecast"], found.get("guard")
    lines = []
    if found["loose"]["steps"]:
        lines.append(
            f"besides: weights and broadcasts of {found['loose']['steps']} other step"
            f"{'' if found['loose']['steps'] == 1 else 's'}, "
            f"{size(found['loose']['bytes'])}"
        )
    if found.get("emptied"):
        lines.append(
            f"besides: {found['emptied']} older steps that the trainer's own rotation has emptied"
        )
    if disk["free"] is not None:
        text = f"disk: {size(disk['free'])} free of {size(disk['total'])}"
        if seen["set_bytes"] and seen["every_steps"]:
            every = f", {age(seen['every_s'])}" if seen["every_s"] else ""
            steps = "step" if seen["every_steps"] == 1 else f"{seen['every_steps']} steps"
            text += f"; {size(seen['set_bytes'])} every {steps}{every}"
        lines.append(text)
        if seen["room"] is not None and seen["set_bytes"] and seen["every_steps"]:
            more = "checkpoint" if seen["room"] == 1 else "checkpoints"
            lines.append(f"room for {seen['room']:,} more {more}")
    if found["trainer_keeps"]:
        lines.append(f"trainer: keeps the {found['trainer_keeps']} newest of its own part")
    if found["order"]:
        lines.append(f"order: {order_text(found['order'])}")
    if said and said["event"] != "relieved":
        lines.append(f"guard: {said['event']}: {said['detail']}")
    return lines


def size(count: float | None) -> str:
    """Return a number of bytes as text, such as "1.2 GiB", or "?" if it is None."""
    if count is None:
        return "?"
    return bytes_text(count)


def age(seconds: float | None) -> str:
    """Return an age in seconds as text, such as "40s" or "3h 20m", or "-" if it is None."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.0f}s"
    return describe(seconds)


def _old(one: CheckpointRow) -> str:
    """Return ", 12m old" for a checkpoint, or "" if its age is not known."""
    if one["age_s"] is None:
        return ""
    return f", {age(one['age_s'])} old"


def _s(many: Sequence[Any]) -> str:
    """Return the plural "s", or "" if there is exactly one item."""
    if len(many) == 1:
        return ""
    return "s"
