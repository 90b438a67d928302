"""The plan of a launch: what would be started, from which step and why, and what is moved aside for
it. Planning touches nothing.
"""

from __future__ import annotations

import dataclasses
import json
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bs4_agent.launch.start import startable
from bs4_agent.launch.validation import refuse_incomplete, spec_of
from bs4_agent.playbooks import words
from bs4_agent.playbooks.plan import LIFETIME_S
from bs4_agent.playbooks.pod_actions import (
    Planned,
    PlannedRow,
    steps_as_dicts,
    steps_from_dicts,
)
from bs4_agent.playbooks.steps import move_run, move_steps
from bs4_agent.runs.places import overlapping, refuse_beside, refuse_unmovable, same_run
from bs4_agent.runs.records import spec_as_dict, spec_from_dict
from bs4_agent.runs.registry import Runs
from bs4_common.checkpoints.inventory import newest_resumable, size_of
from bs4_common.digest import sha256
from bs4_common.errors import BadRequest, Refused, RunExists
from bs4_common.failures.compiled import digest
from bs4_common.foreign_json import loads
from bs4_common.runs.model import Run
from bs4_common.trainers import registry, settings
from bs4_common.trainers.base import Checkpoint, LaunchSpec
from bs4_common.trainers.settings import Settings

#: The name in place of a playbook's id in records of plans.
NAME = "launch"
#: The kinds of the steps that keep the logs of the attempt before, and that clear the way.
ARCHIVE, MOVE = "archive_logs", "move_aside"
#: The kind of the step that waits until the run is seen to work.
FIRST_STEP = "first_step"
#: Seconds. A launch without a first step for this long is not called good. Large models load for up
#: to half an hour.
FIRST_STEP_S = 45 * 60.0
#: Components for which a launch can wait: for a step of one side, an answer of the server, or a
#: result of the evaluation.
WATCHED = {
    "rl": "trainer",
    "trainer": "trainer",
    "sft": "trainer",
    "orchestrator": "orchestrator",
    "inference": "inference",
    "eval": "eval",
}
#: For components without steps: what is waited for, and the phrases for the step and the run once
#: it is there.
AWAITED = {
    "inference": ("its server's first answer", "it answers", "serves"),
    "eval": ("its first result", "a result is there", "evaluates"),
}
#: Bytes. A larger file is no registry of configs.
_REGISTRY_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class LaunchPlan:
    """The plan of one launch. A plan made again from the same request on an unchanged pod has the
    same hash.

    `asked` is the request as it came, and `spec` the start of the trainer that it describes.
    `record` is what the console wants to be stored with the run, such as its config and versions;
    the agent does not use it. `config` describes the run's config: its digest, version and model,
    and the names that a continued run must keep. `argv` is the command, and `environment` has the
    variables that are added for it. `attempt` is the number of the run's newest attempt before this
    launch. `tries` is how many launches of this run have ended, also those that made no attempt.
    `why` is a phrase for why training resumes from the checkpoint in `spec` or starts afresh, and
    `notes` are sentences about differences from the attempt before. `moves` are the paths that are
    moved aside, and `typed_name` is True if the person has to type the run's name because
    checkpoints are among them. `steps` are what is done, in this order. The plan can be confirmed
    until `expires_m`, in seconds of the monotonic clock.

    A plan that was read from the journal has everything that is needed to carry it out and to make
    it again. It has no `argv`, `environment` and `tries`, so its hash is not the one that was
    confirmed.
    """

    asked: Mapping[str, Any]
    record: Mapping[str, Any]
    spec: LaunchSpec
    attempt: int
    tries: int = 0
    argv: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    why: str
    notes: Sequence[str]
    moves: Sequence[Path]
    typed_name: bool
    config: Mapping[str, Any]
    steps: Sequence[Planned] = ()
    expires_m: float

    @property
    def hash(self) -> str:
        """Return the hash, in hexadecimal digits, of everything that the launch would do: the spec,
        the command, its environment, the config, what is moved aside, and if the person has to type
        the run's name. It also covers the number of the run's newest attempt and how many launches
        of the run have ended, so that a plan made before another launch has another hash.
        """
        hashed = {
            "launch": spec_as_dict(self.spec),
            "argv": list(self.argv),
            "environment": dict(self.environment),
            "config": self.config["digest"],
            "moves": self._moved,
            "run": self.spec.run,
            "attempt": self.attempt,
            "tries": self.tries,
            "guards": {"typed_name": self.typed_name, "resume": self.spec.resume},
        }
        if any(step.kind == ARCHIVE for step in self.steps):
            # A plan of an agent without that step has other steps, by whose numbers a launch is
            # taken up again.
            hashed["archives"] = True
        return digest(hashed)

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as a dictionary of JSON values, in the form in which the journal (the
        agent's log of actions and incidents) has it and a console shows it.
        """
        spec = self.spec
        return {
            "playbook": NAME,
            "title": _title(spec),
            "danger": "move" if self.typed_name else "none",
            "typed_name": self.typed_name,
            "run": spec.run,
            "attempt": self.attempt,
            "incident": "",
            "resume": spec.resume,
            "why": self.why,
            "notes": list(self.notes),
            "steps": self._shown_steps(),
            "verify": {"first_step": {"within": FIRST_STEP_S}} if self.waits else {},
            "asked": dict(self.asked),
            "record": dict(self.record),
            "config": dict(self.config),
            "spec": spec_as_dict(spec),
            "moves": self._moved,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LaunchPlan:
        """Return the plan in `data`, a dictionary that `as_dict` has made. Raises KeyError,
        TypeError or ValueError if `data` is no such dictionary.
        """
        return cls(
            asked=data["asked"],
            record=data["record"],
            spec=spec_in(data),
            attempt=data["attempt"],
            why=data["why"],
            notes=data["notes"],
            moves=[Path(path) for path in data["moves"]],
            typed_name=data["typed_name"],
            config=data["config"],
            steps=steps_from_dicts(data["steps"]),
            expires_m=0.0,
        )

    @property
    def waits(self) -> bool:
        """Return True if the launch waits until the run is seen to work."""
        return any(step.kind == FIRST_STEP for step in self.steps)

    @property
    def _moved(self) -> list[str]:
        """Return the paths that are moved aside, as text."""
        return [str(path) for path in self.moves]

    def _shown_steps(self) -> list[PlannedRow]:
        """Return the steps as they are shown, with the sizes of what is moved aside. Measuring
        these may take long, so it is not done when a plan is only made to be compared.
        """
        rows = steps_as_dicts(self.steps)
        if self.moves:
            directories = []
            for path in self._moved:
                directories.append({"path": path, "bytes": size_of(Path(path))[0]})
            for row in rows:
                if row["kind"] == MOVE:
                    row["shown"] = {"directories": directories}
        return rows


def make(
    runs: Runs, asked: Mapping[str, Any], *, tries: int = 0, record: Mapping[str, Any] | None = None
) -> LaunchPlan:
    """Return the plan of what a launch would do now; nothing on the pod is changed. `record` is a
    table that is only stored in the plan.

    `asked` is the request. It has the keys that `validation.spec_of` reads, and `fresh`; if that is
    true, everything that the run has written is moved aside. `resume` in it is a step, None to
    start afresh, or "auto" (the default) for the newest complete checkpoint. `tries` is the number
    of launches of this run that have ended; the hash covers it, so that another try has another
    hash.

    Raises BadRequest if the request is malformed, BadConfig if the config cannot be used, RunExists
    if the run lives or its name is another run's, Refused if the launch could lose work or has
    nothing left to train, or if a directory cannot be moved by a rename, NotApplicable if the
    trainer cannot start it, and LaunchFailed if a directory, the program or the container is
    missing.
    """
    resume, fresh = asked.get("resume", "auto"), bool(asked.get("fresh"))
    if fresh and resume not in (None, "auto"):
        raise BadRequest(
            "A start is either afresh or from a step; leave one of --fresh and --resume out."
        )
    spec = spec_of({**asked, "resume": None})
    known = _own(runs, spec)
    why = f"{spec.component} by itself saves and resumes as its own config says"
    moves, typed = [], False
    if spec.component in runs.trainer(spec).resumes:
        found = runs.trainer(spec).checkpoints(spec)
        if not fresh and resume == "auto":
            _refuse_anothers(runs, spec, known, found)
        step, why = _resume(spec, found, resume, fresh=fresh)
        spec = dataclasses.replace(spec, resume=step)
        _refuse_finished(runs, spec)
        moves = _in_the_way(runs, spec, found, fresh=fresh)
        refuse_unmovable(moves, runs.trainer(spec).layout(spec), spec.run)
        refuse_beside(runs, spec)
        typed = bool(moves) and (
            (fresh and bool(found))
            or any(c.complete for c in found if step is not None and c.step > step)
        )
    elif isinstance(resume, int):
        spec = dataclasses.replace(spec, resume=resume)
        why = f"step {resume} was asked for"
    current = settings.settings_of(spec)
    spec = _with_tracking(runs, spec, known, current)
    argv, environment = startable(runs, spec)
    return LaunchPlan(
        asked=asked,
        record=record or {},
        spec=spec,
        attempt=_attempt(known),
        tries=tries,
        argv=argv,
        environment=environment,
        why=why,
        notes=_notes(spec, known),
        moves=moves,
        typed_name=typed,
        config={**_described(spec, current), "max_steps": runs.trainer(spec).max_steps(spec)},
        steps=planned_steps(
            spec,
            moves,
            shlex.join(argv),
            environment,
            archives=known is not None and bool(known.attempts),
        ),
        expires_m=time.monotonic() + LIFETIME_S,
    )


def direct(spec: LaunchSpec, command: str, *, wait: object) -> LaunchPlan:
    """Return the plan of a launch that starts exactly `spec` and moves nothing aside. Nobody
    confirms such a plan, so it has only what carrying it out needs. `command` is the command line,
    for people. If `wait` is true, the launch of a whole training waits for its first step.
    """
    steps = [Planned("start", f"Start {spec.run}", command, {}, [], {})]
    if wait and spec.component == "rl":
        steps.append(_first_step(spec))
    return LaunchPlan(
        asked={},
        record={},
        spec=spec,
        attempt=0,
        why="",
        notes=(),
        moves=(),
        typed_name=False,
        config={},
        steps=steps,
        expires_m=0.0,
    )


def _title(spec: LaunchSpec) -> str:
    """Return what a launch does, as a phrase for people."""
    where = "afresh"
    if spec.resume is not None:
        where = f"from step {spec.resume}"
    what = spec.run
    if spec.component != "rl":
        what = f"{spec.run} ({spec.component} by itself)"
    return f"Start {what} {where}"


def planned_steps(
    spec: LaunchSpec,
    moves: Sequence[Path],
    command: str,
    environment: Mapping[str, str],
    *,
    archives: bool = False,
) -> list[Planned]:
    """Return the steps of a plan that starts `spec`: archive the logs of the attempt before if
    `archives` is true, move `moves` aside if there are any, start the run, and wait until it works
    if that can be seen. `command` is the command line of the start, for people, and `environment`
    the variables that are added for it.
    """
    steps = []
    if archives:
        steps.append(Planned(ARCHIVE, f"Archive the logs of {spec.run}", "", {}, [], {}))
    if moves:
        count = words.directories(len(moves))
        title = f"Move {count} that would confuse this start to the run's trash"
        commands = [f"mv {shlex.quote(str(path))} <trash>/" for path in moves]
        steps.append(Planned(MOVE, title, "; ".join(commands), {}, [], {}))
    shown = {"cwd": str(spec.cwd), "environment": environment}
    steps.append(Planned("start", _title(spec), command, {}, [], shown))
    if spec.component in WATCHED:
        steps.append(_first_step(spec))
    return steps


def _first_step(spec: LaunchSpec) -> Planned:
    """Return the step that waits until the run is seen to work."""
    awaited = AWAITED.get(spec.component, ("the first step",))[0]
    return Planned(FIRST_STEP, f"Wait for {awaited}", "", {}, [], {})


def _attempt(run: Run | None) -> int:
    """Return the number of the run's newest attempt, or 0 if it has none."""
    if run is not None and run.attempt is not None:
        return run.attempt.number
    return 0


def spec_in(plan: Mapping[str, Any]) -> LaunchSpec:
    """Return the launch spec (the description of one start of a trainer) in `plan`, a dictionary
    that `LaunchPlan.as_dict` has made. Raises KeyError if `plan` is no such dictionary.
    """
    return spec_from_dict(plan["spec"])


def free_name(runs: Runs, name: str) -> str:
    """Return a name that no run of the pod has: `name` without a number at its end, followed by the
    lowest free number from 2 on, for example "math-2" for "math".
    """
    stem, dash, number = name.rpartition("-")
    base = stem if dash and number.isdigit() else name
    taken = {run.name for run in runs.all()} | set(runs.unreadable)
    return next(new for n in range(2, len(taken) + 3) if (new := f"{base}-{n}") not in taken)


def _own(runs: Runs, spec: LaunchSpec) -> Run | None:
    """Return the run of this name, or None if the name is free. Raises RunExists, with the next
    free name, if that run lives or is another run.
    """
    known = next((run for run in runs.all() if run.name == spec.run), None)
    if known is None:
        return None
    free = free_name(runs, spec.run)
    if known.live:
        raise RunExists(
            f"{spec.run} runs already (attempt {_attempt(known)}). Stop it first, or start another "
            f"run as {free}."
        )
    mine = (spec.trainer, spec.component, spec.output_dir)
    theirs = (known.spec.trainer, known.spec.component, known.spec.output_dir)
    if known.attempts and mine != theirs:
        raise RunExists(
            f"The name {spec.run} is taken: by {known.spec.component} of {known.spec.trainer} in "
            f"{known.spec.output_dir}. Start this one as {free}, or continue that one with "
            f"{_continued(runs, spec, known)}."
        )
    return known


def _continued(runs: Runs, spec: LaunchSpec, known: Run) -> str:
    """Return the option or command that continues `known` instead. A run that a person started need
    not save where a launch with its name would.
    """
    there = dataclasses.replace(spec, output_dir=known.spec.output_dir)
    if (spec.trainer, spec.component) == (known.spec.trainer, known.spec.component):
        trainer = runs.trainer(known)
        if same_run(trainer.layout(there), trainer.layout(known.spec)):
            return f"--output-dir {known.spec.output_dir}"
    return f"`bs4-console playbook run resume-run --run {known.name}`"


def _refuse_anothers(
    runs: Runs, spec: LaunchSpec, known: Run | None, found: Sequence[Checkpoint]
) -> None:
    """Raise Refused if the checkpoints were written by another run of this pod, so that they are
    not continued under a new name by accident.
    """
    if known is not None and known.attempts:
        return
    for other in runs.all() if found else ():
        if (
            other.name == spec.run
            or not other.attempts
            or other.spec.component not in runs.trainer(other).resumes
        ):
            continue
        if (
            overlapping(runs.trainer(other).layout(other.spec), runs.trainer(spec).layout(spec))
            is not None
        ):
            raise Refused(
                f"{spec.output_dir} holds what {other.name} has written, checkpoints of step "
                f"{found[-1].step} among it. Continue it with --run {other.name}, give {spec.run} "
                "an --output-dir of its own, or move all of it aside with --fresh."
            )


def _resume(
    spec: LaunchSpec, found: Sequence[Checkpoint], resume: object, *, fresh: bool
) -> tuple[int | None, str]:
    """Return (the step to resume from, or None to start afresh; the reason). Raises Refused."""
    newest = newest_resumable(found)
    lacking = "; ".join(
        f"step {c.step} lacks {_missing(c)}" for c in list(found)[-3:] if not c.complete
    )
    more = f"; {lacking}" if lacking else ""
    if fresh:
        what = f"; {_steps(found)} to be moved aside" if found else ", and nothing was saved here"
        return None, f"a start afresh was asked for{what}"
    if isinstance(resume, int) and not isinstance(resume, bool):
        refuse_incomplete(found, resume)
        return resume, f"step {resume} was asked for, and is complete{more}"
    if resume == "auto" and newest is not None:
        parts = " and ".join(newest.parts) or "every part"
        return newest.step, f"step {newest.step} is the newest that is complete ({parts}){more}"
    if not found:
        return None, "nothing was saved here yet"
    what = f", and {lacking}; none can be resumed."
    if newest is not None:
        what = ", which a start afresh would lose sight of."
    raise Refused(
        f"{spec.output_dir} holds {_steps(found)}{what} Start afresh with --fresh, which moves all "
        "of it to the run's trash, or use another --output-dir."
    )


def _missing(checkpoint: Checkpoint) -> str:
    """Return the missing parts of a checkpoint as text: `trainer`, or with a reason `broadcast
    (model.safetensors is cut off)`.
    """
    return " and ".join(
        f"{part} ({why})" if (why := checkpoint.lacking.get(part)) else part
        for part in checkpoint.missing
    )


def _steps(found: Sequence[Checkpoint]) -> str:
    """Return a phrase for checkpoints: "step 40", or "3 checkpoints up to step 40"."""
    if len(found) == 1:
        return f"step {found[0].step}"
    return f"{len(found)} checkpoints up to step {found[-1].step}"


def _refuse_finished(runs: Runs, spec: LaunchSpec) -> None:
    """Raise Refused if the step to resume from is already the config's last step."""
    trainer = runs.trainer(spec)
    last = trainer.max_steps(spec)
    if last is not None and spec.resume is not None and spec.resume >= last:
        name = trainer.traits.last_step_key
        raise Refused(
            f"Step {spec.resume} is complete and the config's {name} is {last}, so nothing is "
            f"left to train. Raise {name}, or start afresh with --fresh."
        )


def _in_the_way(
    runs: Runs, spec: LaunchSpec, found: Sequence[Checkpoint], *, fresh: bool
) -> list[Path]:
    """Return the paths that must be moved aside for this start."""
    layout, resume = runs.trainer(spec).layout(spec), spec.resume
    if fresh or (resume is None and layout.fresh_needs_empty):
        return [path for path in move_run.written(layout) if path.exists()]
    kept = {c.step for c in found if c.complete and resume is not None and c.step <= resume}
    return move_steps.in_the_way(move_steps.selector_of(layout, resume), kept)


def _with_tracking(
    runs: Runs, spec: LaunchSpec, known: Run | None, current: Settings
) -> LaunchSpec:
    """Return the spec with one id for the run at W&B, for as long as the run is continued.

    On 2026-01, trainer and orchestrator get an id each; without ids every attempt makes new runs
    there, and the log only says `W&B run ID is not set`. The current generation takes both ids from
    PRL_RUN_ID, and verl's one logger reads W&B's own variables. Ids that the config or the options
    set are kept.
    """
    before = known.spec if known is not None and spec.resume is not None else None
    given = before.env if before is not None else {}
    seed = f"{runs.home.id()} {spec.run} {spec.output_dir} {_attempt(known)}"
    trainer = runs.trainer(spec)
    if tracked := trainer.tracked(spec, given, _identity(seed, 32)):
        return dataclasses.replace(spec, env={**tracked, **spec.env})
    if not trainer.traits.ids_as_options or spec.component != "rl":
        return spec
    words = list(spec.overrides)
    earlier = settings.parse_arguments(before.overrides) if before is not None else None
    for side in ("trainer", "orchestrator"):
        key = f"{side}.wandb.id"
        if current.first("wandb", f"{side}.wandb") is None or current.get(key) is not None:
            continue
        last = earlier.last(key) if earlier is not None else None
        words += [f"--{key}", str(last or _identity(f"{seed} {side}", 16))]
    return dataclasses.replace(spec, overrides=tuple(words))


def _identity(seed: str, length: int) -> str:
    """Return the first `length` hex digits of the SHA-256 of `seed`."""
    return sha256(seed.encode()).hexdigest()[:length]


def _notes(spec: LaunchSpec, known: Run | None) -> list[str]:
    """Return sentences about what a person may have forgotten: a difference from the attempt
    before.
    """
    if known is None or not known.attempts:
        return []
    notes = []
    if known.spec.config != spec.config:
        notes.append(f"The attempt before used {known.spec.config}.")
    if known.spec.container != spec.container:
        before, now = _place(known.spec), _place(spec)
        notes.append(f"The attempt before ran {before}; this one starts {now}.")
    trainer = registry.get(spec.trainer)
    mine, lost = dict(trainer.options(spec.overrides)), []
    for key, text in trainer.options(known.spec.overrides):
        if key not in mine:
            lost.append(text)
    if lost:
        notes.append(f"The attempt before had {' '.join(lost)}; this one has not.")
    return notes


def _place(spec: LaunchSpec) -> str:
    """Return a phrase for the place in which a launch runs."""
    if spec.container:
        return f"in container {spec.container}"
    return "on the machine itself"


def _described(spec: LaunchSpec, current: Settings) -> dict[str, Any]:
    """Return what the record of the run keeps of its config: digest and version, model, and the
    names that a continued run must keep.
    """
    data: Mapping[str, Any] = {}
    if str(spec.config) not in {path for _, path in current.arguments.nested}:
        data = settings.load_toml(spec.config_path).data
    values = _identity(json.dumps(data, sort_keys=True, default=str), 16)
    model = registry.get(spec.trainer).model(spec, current)
    lora = current.first("orchestrator.lora_name", "orchestrator.model.lora.name")
    version, based_on = _version(spec.config_path, values)
    return {
        "digest": _identity(json.dumps(current.data, sort_keys=True, default=str), 64),
        "values": values,
        "version": version,
        "based_on": based_on,
        "model": str(model or ""),
        "lora_name": str(lora or ""),
    }


def _version(config: Path, values: str) -> tuple[str, str]:
    """Return (version, the version it is based on) of a config from the registry.json beside it,
    which `config history` maintains. The version is found by the config's values. Both are "" if
    there is none.
    """
    path = config.parent / "registry.json"
    try:
        with path.open("rb") as handle:
            configs = loads(handle.read(_REGISTRY_BYTES))["configs"]
        entry = next(fields for name, fields in configs.items() if Path(name).name == config.name)
        for version, fields in entry["versions"].items():
            if fields.get("digest") == values:
                return str(version), str(fields.get("based_on", ""))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration):
        pass  # a record that people keep beside their configs must stop no launch
    return "", ""
