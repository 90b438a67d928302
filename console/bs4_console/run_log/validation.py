"""How a run did on what it does not train on: the points of each validation, the best of them, and
whether its checkpoint still exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bs4_agent.trainers.steps import EVAL


@dataclass(kw_only=True)
class Validation:
    """One metric. `points`: [step, value], oldest first; of a step that was done twice the later
    value. `lower`: less is better (a loss).

    `checkpoint` of the best step: complete, torn, gone (it is not there), unknown (nobody could
    look). `saved_step`: the best step whose checkpoint is complete, with its value; None where
    there is none or nobody could look.
    """

    metric: str
    points: list[list[float]] = field(default_factory=list)
    lower: bool = False
    best_step: int | None = None
    best: float | None = None
    checkpoint: str = "unknown"
    checkpoint_why: str = ""
    saved_step: int | None = None
    saved: float | None = None


def of(rows: Iterable[Mapping[str, Any]]) -> list[Validation]:
    """From the records of steps/<run> whose side is an evaluation's; the metric with the most
    points first.
    """
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        side, step, value = row.get("side"), row.get("step"), row.get("val")
        known = isinstance(value, int | float) and not isinstance(value, bool)
        if isinstance(side, str) and side.startswith(EVAL) and isinstance(step, int) and known:
            values = found.setdefault(side.removeprefix(EVAL), {})
            values[step] = float(value)  # type: ignore[arg-type]
    curves = []
    for metric, points in found.items():
        curves.append(_curve(metric, points))
    return sorted(curves, key=lambda curve: -len(curve.points))


def _curve(metric: str, points: Mapping[int, float]) -> Validation:
    lower = metric.endswith("loss")
    curve = Validation(
        metric=metric, points=[[step, points[step]] for step in sorted(points)], lower=lower
    )
    step = _best(points, lower=lower)
    curve.best_step, curve.best = step, None if step is None else points[step]
    return curve


def _best(points: Mapping[int, float], *, lower: bool) -> int | None:
    """The step of the best value, the earliest of equals: it was trained for less."""
    return min(
        points, key=lambda step: (points[step] if lower else -points[step], step), default=None
    )


def look(curves: Iterable[Validation], report: Mapping[str, Any] | None, why: str = "") -> None:
    """Fill in what is known of the checkpoints; `report` as `checkpoints.of_pod` gives it, None
    (and `why`) where nobody could look.
    """
    for curve in curves:
        if report is None:
            curve.checkpoint, curve.checkpoint_why = "unknown", why
            continue
        sets = {}
        for one in report["checkpoints"]:
            sets[one["step"]] = one
        own = sets.get(curve.best_step)
        if own is None:
            curve.checkpoint = "gone"
        elif own["complete"]:
            curve.checkpoint = "complete"
        else:
            curve.checkpoint = "torn"
        missing = own["missing"] if own is not None else {}
        curve.checkpoint_why = "; ".join(f"{name}: {text}" for name, text in missing.items())
        kept = {}
        for step, value in curve.points:
            if step in sets and sets[step]["complete"]:
                kept[int(step)] = value
        curve.saved_step = _best(kept, lower=curve.lower)
        if curve.saved_step is None:
            curve.saved = None
        else:
            curve.saved = kept[curve.saved_step]


def words(curve: Validation, most: int = 12) -> list[str]:
    """A line about the best step and its checkpoint, and one with the points, the newest `most` of
    them.
    """
    if curve.best_step is None:
        return []
    told = {
        "complete": "its checkpoint is there, complete",
        "torn": f"its checkpoint is torn ({curve.checkpoint_why})",
        "gone": "it has no checkpoint",
        "unknown": (
            "whether its checkpoint is there is not "
            f"known{f' ({curve.checkpoint_why})' if curve.checkpoint_why else ''}"
        ),
    }[curve.checkpoint]
    line = f"{curve.metric}: best {curve.best:.4g} at step {curve.best_step}; {told}"
    if curve.saved_step is not None and curve.saved_step != curve.best_step:
        line += f"; best with a checkpoint: {curve.saved:.4g} at step {curve.saved_step}"
    shown = curve.points[-most:]
    before = ""
    if len(curve.points) > len(shown):
        before = "... "
    return [line, before + "  ".join(f"{step:.0f}:{value:.4g}" for step, value in shown)]
