"""How well a run did on data that it does not train on: the points of each validation, the best
point, and whether its checkpoint still exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import starmap
from typing import TYPE_CHECKING

from bs4_common.foreign_json import finite
from bs4_common.telemetry import EVAL, StepRecord

if TYPE_CHECKING:
    from bs4_common.checkpoints.report import CheckpointReport


@dataclass(kw_only=True)
class Validation:
    """The curve of one validation metric of a run. `points` are [training step, value] pairs,
    oldest first; for a step that was done twice, the later value is used. `lower` is True if a
    smaller value is better (a loss). `best_step` is the step with the best value, `best`; both are
    None without a point.

    `checkpoint` is the state of the best step's checkpoint: complete, torn (a part of it is
    missing), gone (it does not exist) or unknown (it could not be checked), and `checkpoint_why`
    gives the reason or is "". `saved_step` is the best step among those with a complete checkpoint,
    and `saved` its value; both are None if there is no such step or checkpoints could not be
    checked.
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


def curves_of(rows: Iterable[StepRecord]) -> list[Validation]:
    """Return the validation curves in `rows`, the records of a run's training steps, the metric
    with the most points first. Only records with a `side` of "eval:METRIC" are used, whose `val` is
    the value at their `step`; records of the trainer and the orchestrator are ignored. The list is
    empty if there was no validation.
    """
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        side, value = row["side"], finite(row.get("val"))
        if side.startswith(EVAL) and value is not None:
            found.setdefault(side.removeprefix(EVAL), {})[row["step"]] = value
    curves = starmap(_curve, found.items())
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
    """Return the step of the best value, or None if there are no points. Of equal values the
    earliest step counts, because it needed less training.
    """
    return min(
        points, key=lambda step: (points[step] if lower else -points[step], step), default=None
    )


def add_to_report(
    curves: Iterable[Validation], report: CheckpointReport | None, why: str = ""
) -> None:
    """Fill in, for each curve in `curves`, in place, the fields that say whether the checkpoints of
    its best steps exist. `report` is the pod's list of the run's checkpoints, as
    `checkpoints.listing.of_pod` returns it.

    If `report` is None, because the pod could not be asked, each curve gets the checkpoint state
    "unknown", and `why` (a sentence by the caller) becomes its `checkpoint_why`.
    """
    for curve in curves:
        if report is None:
            curve.checkpoint, curve.checkpoint_why = "unknown", why
            continue
        sets = {one["step"]: one for one in report["checkpoints"]}
        own = None if curve.best_step is None else sets.get(curve.best_step)
        curve.checkpoint, curve.checkpoint_why = "gone", ""
        if own is not None:
            curve.checkpoint = "complete" if own["complete"] else "torn"
            missing = own["missing"].items()
            curve.checkpoint_why = "; ".join(f"{name}: {text}" for name, text in missing)
        kept = {}
        for point, value in curve.points:
            if (one := sets.get(int(point))) is not None and one["complete"]:
                kept[int(point)] = value
        curve.saved_step = _best(kept, lower=curve.lower)
        curve.saved = None if curve.saved_step is None else kept[curve.saved_step]


def describe(curve: Validation, most: int = 12) -> list[str]:
    """Return two lines about a curve for a person: one about its best step and that step's
    checkpoint, and one with the newest `most` points. The list is empty if the curve has no points.
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
    shown = []
    for step, value in curve.points[-most:]:
        shown.append(f"{step:.0f}:{value:.4g}")
    before = "... " if len(curve.points) > len(shown) else ""
    return [line, before + "  ".join(shown)]
