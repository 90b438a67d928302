"""The checkpoints of one run as data. The same code reads a pod and finished files."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bs4_agent.checkpoints.forecast import Limits, forecast
from bs4_agent.checkpoints.orders import Order
from bs4_agent.checkpoints.sets import StepSet, complete_sets, resolved_configs, step_sets
from bs4_agent.detect import environment_probes
from bs4_agent.errors import BadRequest
from bs4_agent.telemetry.host import disk_usage
from bs4_agent.trainers.base import LaunchSpec, RunLayout, Trainer
from bs4_agent.trainers.settings import UNKNOWN_CONFIG

if TYPE_CHECKING:
    from bs4_agent.pod import Pod

#: The most sets in one answer: a frame's header holds 64 KiB, and a set with four parts takes about
#: 1 KiB.
_PAGE = 40


@dataclass(frozen=True)
class Shape:
    """How a run saves its checkpoints, by the trainer's settings.

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
        the retention order unless `order` is None.
        """
        if order is None:
            return Limits(own_keep=self.own_keep, own_parts=self.own_parts)
        return Limits(order.last, order.milestones, self.own_keep, self.own_parts)


def shape(trainer: Trainer, spec: LaunchSpec, argv: tuple[str, ...] = ()) -> Shape:
    """Return how a run of `trainer` saves its checkpoints. The settings come from the launch
    `spec`, or from the config files that the launcher wrote after it had merged files and options.
    `argv` is the command line of the launcher, () if it is not known.
    """
    layout = trainer.layout(spec)
    flat = environment_probes.flat_settings(spec, argv)
    if flat is None:
        # 2026-01 writes only the orchestrator's settings, but it is the trainer that deletes.
        written = environment_probes.of_files(spec, layout)[0] or {}
        if any(key.startswith("trainer.") for key in written):
            flat = written
    cleaned, parts = {str(layout.trainer_checkpoints)}, set()
    if layout.weights is not None:
        cleaned.add(str(layout.weights))
        parts.add("weights")
    parts.update(rule.name for rule in trainer.parts(spec) if str(rule.root) in cleaned)
    found = flat or {}
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
) -> dict[str, Any]:
    """Return the checkpoints of a run with its disk, forecast and retention order (which a user
    gives to say which checkpoints stay on the pod's disk). `argv` is the launcher's command line,
    () if unknown. `order` is the run's retention order. `live` is True while the run is running,
    and `step_s` the median seconds of a training step.

    The keys of the result are `run`, `trainer`, `output_dir`, `live`, `checkpoints` (newest last),
    `emptied` (the number of older steps that the trainer's own rotation has emptied), `resumable`
    (the newest complete step), `loose` (number and bytes of the steps of which only weights are on
    the disk), `disk`, `forecast`, `order`, `trainer_keeps` and `config`. Sizes are in bytes, times
    are Unix times in seconds, and None means unknown.
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


def as_dict(one: StepSet) -> dict[str, Any]:
    """Return the checkpoint set as a dictionary for the console, with all its parts, its size in
    bytes and its age in seconds.
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


def answer(pod: Pod, op: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a console's query `checkpoints`. `op` is what is asked; its only value is "list".
    `arguments` has the keys `run` (a name) and `after` (a training step; the answer begins with the
    next newer step). Return one page of what `report` returns, with a further key `next`: the
    arguments with which to ask for the next page, or None if this is the last. Raises BadRequest if
    `op` or `after` is malformed.
    """
    if op != "list":
        raise BadRequest(f"{op[:40]!r} is no question about checkpoints; ask list.")
    after = arguments.get("after", -1)
    if type(after) is not int:
        raise BadRequest("list takes `after`, a step.")
    run = pod.runs.get(str(arguments.get("run")))
    trainer, attempt = pod.runs.trainer(run), run.attempt
    view = pod.book.ledger
    found = report(
        trainer,
        run.spec,
        argv=tuple(attempt.argv) if attempt is not None else (),
        order=Order.of(view.orders.get(run.name)),
        live=run.live,
        step_s=pod.follower.recent(run.name).median_step_s(),
    )
    rest = [one for one in found["checkpoints"] if one["step"] > after]
    found |= {"guard": None, "checkpoints": rest[:_PAGE], "next": None}
    if (said := view.guard.get(run.name)) is not None:
        found["guard"] = {key: said.get(key) for key in ("event", "detail", "t")}
    if len(rest) > _PAGE:
        found["next"] = {"run": run.name, "after": rest[_PAGE - 1]["step"]}
    return found


def _config(spec: LaunchSpec, layout: RunLayout) -> list[dict[str, Any]]:
    """Return the configs without which nobody knows what to resume: as given, and as the launcher
    resolved them.
    """
    places = [] if spec.config == UNKNOWN_CONFIG else [spec.config_path]
    places += resolved_configs(layout)
    found = []
    for path in places:
        found.append({"path": str(path), "present": path.is_file()})
    return found


def _count(flat: Mapping[str, Any], *keys: str) -> int | None:
    """Return the first of the settings `keys` that is a positive whole number, or None."""
    for key in keys:
        value = flat.get(key)
        if isinstance(value, str) and value.isdigit():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None
