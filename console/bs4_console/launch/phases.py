"""Phased runs: one run goes through several configs under the same name and adapter. Each phase
continues from a complete checkpoint of the phase before.

A phase file is TOML on the console's machine:

    run = "qwen-8b"                      # one name, one output directory, one lineage
    trainer = "prime-rl-2026-01"
    output_dir = "outputs/qwen-8b"       # cwd and output_dir as for `launch`
    [[phases]]
    name = "bootstrap"
    config = "configs/bootstrap.toml"    # on the pod
    until = { step = 200 }               # or { reward = 0.3, steps = 20 }, or { by = "hand" };
                                         # the last phase needs none
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from bs4_console.checkpoints import listing
from bs4_console.errors import RefusedError, UsageError
from bs4_console.launch import guide
from bs4_console.launch.guide import LaunchRequest
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import PlanView, PodState, RunState
from bs4_console.trainers import registry
from bs4_console.typed_json import record


@dataclass(frozen=True)
class Until:
    """The condition that ends a phase of a phased run. With `step`, the phase ends when the
    checkpoint of that training step is complete. With `reward`, it ends when the mean reward of the
    last `steps` training steps is at least `reward`. With `by_hand`, a person ends it. At most one
    of these is set; if none is, the phase lasts until the run ends.
    """

    step: int | None = None
    reward: float | None = None
    steps: int = 0
    by_hand: bool = False

    def words(self) -> str:
        """Return, as words for a person, the condition that ends the phase, such as "step 300 is
        saved". They complete a sentence that begins with "until".
        """
        if self.step is not None:
            return f"step {self.step} is saved"
        if self.reward is not None:
            return f"the reward is {self.reward:g} over {self.steps} steps"
        if self.by_hand:
            return "somebody says so"
        return "the run ends"


@dataclass(frozen=True)
class Phase:
    """One phase of a phased run: its `name`, the path `config` of its config on the pod, the
    condition `until` that ends it, and `overrides`, further command-line arguments for the trainer.
    """

    name: str
    config: str
    until: Until
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class Phases:
    """The contents of a phase file: the name of a `run`, its `trainer` and its directories on the
    pod (`cwd` and `output_dir`), and `phases`, in which it is trained one after the other, each
    with a config of its own.
    """

    run: str
    trainer: str
    cwd: str
    output_dir: str
    phases: tuple[Phase, ...]

    def asked(self, phase: Phase) -> LaunchRequest:
        """Return the request that launches the run with the config and the further arguments of
        `phase`.
        """
        return LaunchRequest(
            run=self.run,
            trainer=self.trainer,
            config=phase.config,
            cwd=self.cwd,
            output_dir=self.output_dir,
            overrides=phase.overrides,
        )

    def after(self, phase: Phase) -> Phase | None:
        """Return the phase of this run that is trained after `phase`, or None if `phase` is the
        last one. Raises ValueError if it is no phase of this run.
        """
        at = self.phases.index(phase) + 1
        if at < len(self.phases):
            return self.phases[at]
        return None


@dataclass(frozen=True)
class Standing:
    """How far a phased run has come. `phase` is the phase that was launched last, or None before
    the first launch. `due` is True if the next phase may be started: the condition that ends the
    present one is met, and there is a complete checkpoint to continue from. `why` says in words why
    `due` is True or False. `resumable` is the newest training step with a complete checkpoint, or
    None. `live` is True while the run is alive.
    """

    phase: Phase | None
    due: bool
    why: str
    resumable: int | None
    live: bool


def read(file: Path) -> Phases:
    """Read a phase file on this machine, check it, and return it. Raises UsageError, which names
    the wrong place, if it is not a valid phase file, and OSError if it cannot be read.
    """
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file} is not TOML: {error}.", "Correct that line.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8 text.", "Save it as UTF-8.") from None
    _only(file, data, ("run", "trainer", "cwd", "output_dir", "phases"), "the top")
    for key in ("run", "trainer"):
        if not isinstance(data.get(key), str) or not data[key]:
            raise UsageError(f"{file} has no {key}.", f'Add {key} = "..." at its top.')
    if data["trainer"] not in registry.TRAINERS:
        raise UsageError(
            f"{file}: there is no trainer {data['trainer']!r}.",
            f"Choose {' or '.join(registry.TRAINERS)}.",
        )
    tables = data.get("phases")
    if (
        not isinstance(tables, list)
        or not tables
        or not all(isinstance(table, dict) for table in tables)
    ):
        raise UsageError(f"{file} has no [[phases]].", "Write one for each config.")
    found = []
    for number, table in enumerate(tables, 1):
        found.append(_phase(file, number, table, last=number == len(tables)))
    if len({phase.name for phase in found}) != len(found):
        raise UsageError(f"{file}: two phases have the same name.", "Give each its own.")
    cwd = str(data.get("cwd", registry.of(data["trainer"]).home))
    output_dir = str(data.get("output_dir", "outputs"))
    return Phases(data["run"], data["trainer"], cwd, output_dir, tuple(found))


def _phase(file: Path, number: int, table: Mapping[str, Any], *, last: bool) -> Phase:
    where = f"phase {number}"
    _only(file, table, ("name", "config", "until", "overrides"), where)
    if not isinstance(table.get("config"), str):
        raise UsageError(
            f"{file}: {where} names no config.", 'Add config = "..." (a path on the pod).'
        )
    overrides = table.get("overrides", [])
    if not isinstance(overrides, list) or not all(isinstance(word, str) for word in overrides):
        raise UsageError(
            f"{file}: overrides of {where} is no list of words.",
            'Write overrides = ["--max-steps", "300"].',
        )
    name = str(table.get("name") or Path(table["config"]).stem)
    return Phase(
        name, table["config"], _until(file, where, table.get("until"), last=last), tuple(overrides)
    )


def _until(file: Path, where: str, given: Any, *, last: bool) -> Until:
    if given is None and last:
        return Until()
    if not isinstance(given, dict):
        raise UsageError(
            f"{file}: {where} does not say when it is over.",
            'Add until = { step = N }, or { by = "hand" }.',
        )
    match given:
        case {"step": int(step), **rest} if not rest and step > 0:
            return Until(step=step)
        case {"reward": int() | float() as reward, "steps": int(steps), **rest} if (
            not rest and steps > 0
        ):
            return Until(reward=float(reward), steps=steps)
        case {"by": "hand", **rest} if not rest:
            return Until(by_hand=True)
    raise UsageError(
        f"{file}: until of {where} is {given}.",
        'Write { step = N }, { reward = X, steps = N } or { by = "hand" }.',
    )


def _only(file: Path, table: Iterable[str], known: Sequence[str], where: str) -> None:
    """Raise UsageError if the table has a key that is not in `known`."""
    for key in table:
        if key not in known:
            raise UsageError(
                f"{file}: {where} has {key!r}, which nobody reads.",
                f"It may have {', '.join(known)}.",
            )


def launched(state: PodState, wanted: Phases) -> tuple[Phase | None, guide.PlannedConfig]:
    """Return the phase in which the run was last launched, and what is known of that launch's
    config (such as its model and adapter). If the run was never launched, return None and an empty
    record. `wanted` is the phase file. Raises UsageError if the last launch belongs to no phase of
    that file.
    """
    started = []
    for action in guide.launches(state, wanted.run):
        if "attempt" in action.result:
            started.append(action)
    if not started:
        return None, {}
    plan = max(started, key=attrgetter("accepted_t")).body.get("plan") or {}
    name = str(plan.get("record", {}).get("phase", ""))
    for phase in wanted.phases:
        if phase.name == name:
            return phase, record(plan.get("config"), guide.PlannedConfig)
    what = f"its last launch was of phase {name!r}" if name else "it was launched without phases"
    raise UsageError(
        f"{wanted.run} is no run of this file: {what}.",
        "Take its own phase file, or another name for the run.",
    )


async def standing(live: PodSession, wanted: Phases) -> Standing:
    """Return in which phase of the phase file `wanted` the run is now and whether the phase's
    condition is met, from the pod's journal (the agent's log of actions and incidents), the records
    of training steps and the checkpoints. Raises UsageError if the run was launched with a phase
    that the file does not have. Raises ChannelLost or Unreachable if there is no connection.
    """
    phase, _ = launched(live.state, wanted)
    if phase is None:
        return Standing(None, False, "it was not started yet", None, False)
    run = live.state.runs[wanted.run]
    alive = run.view.attempt is not None and run.view.attempt.ended_t is None
    newest = (await guide.asked_again(live, lambda: listing.of_pod(live, wanted.run)))["resumable"]
    due, why = _due(phase.until, run, newest)
    return Standing(phase, due, why, newest, alive)


def _due(until: Until, run: RunState, newest: int | None) -> tuple[bool, str]:
    """Return True if the condition holds and a complete checkpoint exists, and the reason why."""
    saved = f"step {newest} is the newest that is complete"
    if newest is None:
        saved = "nothing is saved complete yet"
    if until.step is not None:
        return newest is not None and newest >= until.step, f"{saved}, {until.step} is wanted"
    if until.reward is not None:
        rewards = [value for _, value in run.series("reward")][-until.steps :]
        if len(rewards) < until.steps:
            return False, f"{len(rewards)} of {until.steps} steps have a reward"
        mean = sum(rewards) / len(rewards)
        return (
            mean >= until.reward and newest is not None,
            f"the mean reward of the last {until.steps} steps is {mean:.4f}; {saved}",
        )
    return False, "it is switched by hand (--now)" if until.by_hand else "it is the last phase"


async def plan_of(
    live: PodSession,
    wanted: Phases,
    phase: Phase,
    price: float | None,
    environment: guide.Environment | None = None,
) -> PlanView:
    """Ask the pod for a plan that launches the run of the phase file `wanted` in `phase`, and
    return the plan. `price` is that of the pod in US dollars an hour, or None. `environment` is
    what is recorded with the launch about the software on the pod (versions of packages and the
    trainer's commit), or None to record nothing. Raises RefusedError if the phase would train
    another adapter or model than the one before, or if there is no complete checkpoint to continue
    from. Raises RefusedError or NotApplicableError, with the agent's reason, if the agent makes no
    plan, and UsageError if the run was launched with a phase that the file does not have.
    """
    before, theirs = launched(live.state, wanted)
    view = await guide.plan(
        live, wanted.asked(phase), price=price, phase=phase.name, **(environment or {})
    )
    if before is None or before == phase:
        return view
    ours = record(view.plan["config"], guide.PlannedConfig)
    for key, what in (("lora_name", "adapter"), ("model", "model")):
        here, there = str(ours.get(key, "")), str(theirs.get(key, ""))
        if here != there:
            raise RefusedError(
                f"{phase.config} names the {what} {here or '(none)'}, the run has "
                f"{there or '(none)'}.",
                f"Keep the {what} through all phases: a switch goes on with what was trained.",
            )
    if view.plan["resume"] is None:
        raise RefusedError(
            f"{wanted.run} has no complete checkpoint that {phase.name} could go on from.",
            "Let the phase before it save one.",
        )
    return view
