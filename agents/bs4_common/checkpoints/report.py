"""The checkpoints of one run as data. The same code reads a pod and finished files."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from bs4_common.checkpoints.forecast import ForecastRow, Limits, forecast
from bs4_common.checkpoints.orders import Order
from bs4_common.checkpoints.sets import StepSet, complete_sets, resolved_configs, step_sets
from bs4_common.failures import environment_probes
from bs4_common.files import disk_usage
from bs4_common.telemetry import DiskUsage
from bs4_common.trainers.base import LaunchSpec, RunLayout, Trainer
from bs4_common.trainers.settings import UNKNOWN_CONFIG, FlatSettings


class PartRow(TypedDict):
    """One part of a checkpoint, such as the trainer's, in the report that a console gets."""

    name: str
    path: str
    bytes: int
    complete: bool
    why: str
    """Why the part is not complete, or ""."""


class CheckpointRow(TypedDict):
    """The checkpoint of one step with all its parts, in the report that a console gets."""

    step: int
    complete: bool
    missing: Mapping[str, str]
    """By part: what is missing."""
    parts: Sequence[PartRow]
    bytes: int
    t: float | None
    """Wall-clock seconds since 1970 at which it was written."""
    age_s: float | None


class LooseRow(TypedDict):
    """The number and the size of the steps of which only weights are on the disk and no
    checkpoint.
    """

    steps: int
    """How many steps."""
    bytes: int


class OrderRow(TypedDict):
    """A retention order, which says which checkpoints of a run stay on the disk, in the report that
    a console gets.
    """

    last: int
    """How many of the newest complete checkpoints stay."""
    at_least: int
    """How many of them stay while the disk has no room for the next checkpoint."""
    milestones: int
    """Steps that are multiples of this number stay, or 0."""
    synced: bool
    """True if a checkpoint is deleted only after it was verified in the object store."""
    best: str
    """The metric by which the best checkpoint stays, or ""."""


class GuardRow(TypedDict):
    """What the agent last did or refused to do to follow the retention order of a run (the user's
    rule about which checkpoints stay), and when. `event` is "refused" (nothing may be removed),
    "emergency" (the next checkpoint does not fit on the disk) or "relieved" (it fits again).
    `detail` is a sentence about it.
    """

    event: str
    detail: str | None
    t: float | None
    """Wall-clock seconds since 1970."""


class ConfigRow(TypedDict):
    """The path of a config file that a resume of the run needs, and whether the file exists."""

    path: str
    present: bool


class NextPage(TypedDict):
    """The arguments with which a console requests the next page of a checkpoint report."""

    run: str
    after: int
    """The step after which the page begins."""


class _Report(TypedDict):
    run: str
    trainer: str
    output_dir: str
    live: bool
    checkpoints: list[CheckpointRow]
    """The newest last."""
    emptied: int
    """How many older steps the trainer's own rotation has emptied."""
    resumable: int | None
    """The newest complete step."""
    loose: LooseRow
    disk: DiskUsage
    forecast: ForecastRow
    order: OrderRow | None
    trainer_keeps: int | None
    """How many steps the trainer itself keeps."""
    config: Sequence[ConfigRow]


class CheckpointReport(_Report, total=False):
    """The checkpoints of a run, with the state of its disk and its retention order. Some fields are
    not in every report. Only the agent's answer to a console has `guard` (the last thing that the
    agent did to follow the order) and `next` (how to request the next page, or None). Only a report
    among those of several pods has `pod`, the pod's name.
    """

    guard: GuardRow | None
    next: NextPage | None
    pod: str


@dataclass(frozen=True)
class Shape:
    """How often a run saves checkpoints and which ones the trainer deletes, by the trainer's
    settings.

    `known` is False if the settings could not be read. `interval` is the number of steps between
    two saves, `goal` is max_steps, and `own_keep` is the trainer's own keep_last (None if the
    trainer deletes nothing). `own_roots` and `own_parts` are the directories and the parts of a
    checkpoint that the trainer deletes when they are old.
    """

    known: bool
    interval: int | None
    goal: int | None
    own_keep: int | None
    own_roots: frozenset[str]
    own_parts: frozenset[str]

    def limits(self, order: Order | None) -> Limits:
        """Return the rules by which old checkpoints are removed: the trainer's own, and those of
        the retention order `order` (a user's rule about which checkpoints stay) unless it is None.
        """
        if order is None:
            return Limits(own_keep=self.own_keep, own_parts=self.own_parts)
        return Limits(order.last, order.milestones, self.own_keep, self.own_parts)


def shape(trainer: Trainer, spec: LaunchSpec, argv: tuple[str, ...] = ()) -> Shape:
    """Return how often a run of `trainer` saves checkpoints and which ones the trainer deletes. The
    settings come from the launch `spec`, or from the config files that the launcher wrote after it
    had merged files and options. `argv` is the command line of the launcher, () if it is not known.
    """
    layout = trainer.layout(spec)
    flat = environment_probes.flat_settings(spec, argv)
    if flat is None:
        # 2026-01 writes only the orchestrator's settings, but it is the trainer that deletes.
        written = environment_probes.of_files(spec, layout)[0] or FlatSettings()
        if any(key.startswith("trainer.") for key in written):
            flat = written
    cleaned, parts = {str(layout.trainer_checkpoints)}, set()
    if layout.weights is not None:
        cleaned.add(str(layout.weights))
        parts.add("weights")
    parts.update(rule.name for rule in trainer.parts(spec) if str(rule.root) in cleaned)
    found = flat or FlatSettings()
    return Shape(
        known=flat is not None,
        interval=_count(found, "ckpt.interval", "trainer.ckpt.interval"),
        goal=_count(found, "max_steps", "trainer.max_steps", "orchestrator.max_steps"),
        own_keep=_count(found, "ckpt.keep_last", "trainer.ckpt.keep_last"),
        own_roots=frozenset(cleaned),
        own_parts=frozenset(parts),
    )


def report(
    trainer: Trainer,
    spec: LaunchSpec,
    *,
    argv: tuple[str, ...] = (),
    order: Order | None = None,
    live: bool = False,
    step_s: float | None = None,
) -> CheckpointReport:
    """Return the checkpoints of a run, with the state of its disk, a forecast of when that is full,
    and its retention order. `argv` is the launcher's command line, () if unknown. `order` is the
    retention order (a user's rule about which checkpoints stay). `live` is True while the run is
    running, and `step_s` the median seconds of a training step.

    Sizes are in bytes, times are wall-clock seconds since 1970, and None means unknown.
    """
    sets = step_sets(trainer, spec)
    layout = trainer.layout(spec)
    form = shape(trainer, spec, argv)
    usage = disk_usage(layout.trainer_checkpoints)
    seen = forecast(
        sets,
        usage["free"],
        limits=form.limits(order),
        interval=form.interval,
        step_s=step_s,
        goal=form.goal,
        live=live,
    )
    loose = [one for one in sets if not one.checkpoint]
    whole = complete_sets(sets)
    # One above the newest complete step is just being begun.
    newest = whole[0].step if whole else -1
    emptied = [one.step for one in sets if one.emptied and one.step < newest]
    return {
        "run": spec.run,
        "trainer": trainer.id,
        "output_dir": str(spec.output_dir),
        "live": live,
        "checkpoints": [as_dict(one) for one in sets if one.checkpoint and one.step not in emptied],
        "emptied": len(emptied),
        "resumable": whole[0].step if whole else None,
        "loose": {"steps": len(loose), "bytes": sum(one.bytes for one in loose)},
        "disk": usage,
        "forecast": seen.as_dict(),
        "order": None
        if order is None
        else {
            "last": order.last,
            "at_least": order.at_least,
            "milestones": order.milestones,
            "synced": order.synced,
            "best": order.best,
        },
        "trainer_keeps": form.own_keep,
        "config": _config(spec, layout),
    }


def as_dict(one: StepSet) -> CheckpointRow:
    """Return everything that the disk has of one step as a dictionary for the console, with all its
    parts, its size in bytes and its age in seconds.
    """
    return {
        "step": one.step,
        "complete": one.complete,
        "missing": dict(one.missing),
        "parts": [
            {
                "name": part.name,
                "path": str(part.path),
                "bytes": part.bytes,
                "complete": part.whole,
                "why": part.why,
            }
            for part in one.parts.values()
        ],
        "bytes": one.bytes,
        "t": one.t or None,
        "age_s": round(max(0.0, time.time() - one.t), 1) if one.t else None,
    }


def _config(spec: LaunchSpec, layout: RunLayout) -> list[ConfigRow]:
    """Return the configs without which nobody knows what to resume: as given, and as the launcher
    resolved them.
    """
    places = [] if spec.config == UNKNOWN_CONFIG else [spec.config_path]
    places += resolved_configs(layout)
    found: list[ConfigRow] = []
    for path in places:
        found.append({"path": str(path), "present": path.is_file()})
    return found


def _count(flat: FlatSettings, *keys: str) -> int | None:
    """Return the first of the settings `keys` that is a positive whole number, or None."""
    for key in keys:
        value = flat.get(key)
        if isinstance(value, str) and value.isdigit():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None
