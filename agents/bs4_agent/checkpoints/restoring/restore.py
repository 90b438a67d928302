"""Restores a step from an object store: finds out what would be fetched, from where and to where,
and carries out the steps.

`worker.py` talks to the store. It is a program of its own, because the agent neither has TLS nor
holds the store's key.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, cast

from bs4_agent.checkpoints.remote import process
from bs4_agent.checkpoints.restoring import fetch as restore_fetch
from bs4_agent.checkpoints.restoring import place as restore_place
from bs4_agent.checkpoints.restoring.fetch import VERIFIED, Target
from bs4_agent.checkpoints.restoring.place import Placement
from bs4_agent.jobs import Jobs
from bs4_agent.launch import validation
from bs4_agent.paths import Home
from bs4_agent.runs import trash
from bs4_agent.runs.places import refuse_beside
from bs4_agent.runs.registry import Runs
from bs4_agent.tree.changes import remove
from bs4_common.checkpoints.inventory import texts
from bs4_common.checkpoints.remote.launched import Launched
from bs4_common.checkpoints.remote.layout import Place
from bs4_common.checkpoints.remote.source import (
    RemoteCopy,
    RemoteCopyFields,
    RemoteSet,
    RemoteSetFields,
    kept_config,
)
from bs4_common.checkpoints.tracking import with_tracking
from bs4_common.errors import BadRequest, NotApplicable, PlanChanged, Refused, StepFailed
from bs4_common.failures.detectors.reporting import size as size_text
from bs4_common.files import read_json, write_json
from bs4_common.ids import safe_name, ulid
from bs4_common.runs.model import Run
from bs4_common.trainers import registry
from bs4_common.trainers.base import LaunchSpec

#: Seconds for the listing of a whole run.
FIND_S = 120.0
#: How often a fetch is tried if its worker was killed or the store did not answer, and the seconds
#: between two tries, times the number of the try.
TRIES, PAUSE_S = 3, 5.0
_WORKER = "bs4_agent.checkpoints.restoring.worker"

Say = Callable[[str], None]


#: What a person requests from a restore, as the body of an action has it: nothing of it is checked
#: before `RestoreRequest.read`.
RestoreBody = TypedDict(
    "RestoreBody",
    {
        "run": object,
        "from": object,
        "step": object,
        "trainer": object,
        "cwd": object,
        "output_dir": object,
        "config": object,
    },
    total=False,
)


class LaunchBody(TypedDict):
    """The body of a launch action that continues a restored run. The fields have the same meaning
    as in LaunchSpec.
    """

    run: str
    trainer: str
    config: str
    cwd: str
    output_dir: str
    resume: int
    """The training step of the restored checkpoint."""
    recorded: bool
    """True if the object store knows how the run was started. Otherwise the body has only the
    config, without the further options of the first launch.
    """
    overrides: list[str]
    """The words that follow the config on the command line."""
    env: dict[str, str]
    """Environment variables that are added, by name."""
    component: str
    """The program of the trainer to start; "rl" for the whole trainer."""
    processes: int
    """The number of ranks."""


class Restorable(TypedDict):
    """The checkpoint of training step `step` that a restore would fetch, as the plan of a playbook
    shows it.
    """

    step: int
    identity: str
    """The hash of the step's manifest, which lists its files."""
    asked: RestoreBody
    """The request for the restore, which is checked already."""
    aside: list[str]
    """The directories that would be moved away, because they are in the way."""
    finals: Sequence[str]
    """The directories in which the checkpoint will be."""
    bytes: int
    """The size of the whole checkpoint."""
    missing: int
    """How many of these bytes have to be fetched."""
    skipped: list[list[Any]]
    """A list [step number, reason] for each checkpoint that was not chosen."""


@dataclass(frozen=True, kw_only=True)
class RestoreRequest:
    """What a person requests from one restore of a checkpoint step.

    `source` is the place in the object store. `step` None means the newest complete step there.
    `trainer` "" means the trainer that the stored checkpoint's manifest (the list of its files)
    names, and `config` "" the config that was saved with the step. `cwd` is the directory in which
    the run will be started, relative to the home directory, and `output_dir` is relative to `cwd`.
    """

    run: str
    source: Place
    step: int | None = None
    trainer: str = ""
    cwd: str = ""
    output_dir: str = "outputs"
    config: str = ""

    @classmethod
    def read(cls, body: RestoreBody) -> RestoreRequest:
        """Return the request in `body`, a dictionary that a console has sent in the body of an
        action. Raises BadRequest if it is no valid request.
        """
        step = body.get("step")
        if step is not None and (not isinstance(step, int) or isinstance(step, bool) or step < 0):
            raise BadRequest(f"{step!r} is no step to restore; give a number.")
        return cls(
            run=safe_name(str(body.get("run") or "")),
            source=Place.parse(str(body.get("from") or "")),
            step=step,
            trainer=str(body.get("trainer") or ""),
            cwd=str(body.get("cwd") or ""),
            output_dir=str(body.get("output_dir") or "outputs"),
            config=str(body.get("config") or ""),
        )

    def body(self) -> RestoreBody:
        """Return the request as a dictionary, in the form in which the body of an action has it.
        `read` makes a request of it again.
        """
        return {
            "run": self.run,
            "from": str(self.source),
            "step": self.step,
            "trainer": self.trainer,
            "cwd": self.cwd,
            "output_dir": self.output_dir,
            "config": self.config,
        }


@dataclass(frozen=True)
class Prepared:
    """The checkpoint in the object store that a restore has chosen, `found`, and where all its
    files go, `where`. `asked` is the request. `spec` is the launch that would continue the run,
    with the run's W&B ids. `skipped` has (step, reason) for each checkpoint that was not chosen.
    """

    asked: RestoreRequest
    spec: LaunchSpec
    found: RemoteSet
    where: Placement
    skipped: Sequence[tuple[int, str]]

    @property
    def skipped_rows(self) -> list[list[Any]]:
        """Return the checkpoints in the object store that were passed over when the one to restore
        was chosen, as lists [training step, reason], for a plan in JSON. The step is -1 if the
        reason is about no single checkpoint.
        """
        return [list(one) for one in self.skipped]

    @property
    def launch(self) -> LaunchBody:
        """Return the body of the launch action that continues the run after the restore. It has no
        W&B ids; the launch takes them from the registered run.
        """
        recorded = self.found.launch or Launched()
        return {
            "run": self.spec.run,
            "trainer": self.spec.trainer,
            "config": str(self.spec.config),
            "cwd": str(self.spec.cwd),
            "output_dir": str(self.spec.output_dir),
            "resume": self.found.step,
            "recorded": self.found.launch is not None,
            "overrides": list(recorded.words(lambda path: self.where.configs[path])),
            "env": dict(recorded.env),
            "component": recorded.component,
            "processes": recorded.processes,
        }


class Restoring:
    """Restores checkpoints from the object store to the pod; one object per pod. The transfer runs
    as a process of its own (see `jobs.Jobs`), so it goes on while the agent is replaced or killed.
    """

    def __init__(self, home: Home, runs: Runs, jobs: Jobs) -> None:
        self._home, self._runs, self._jobs = home, runs, jobs

    def find(self, asked: RestoreRequest) -> Prepared:
        """Search the object store for the step that `asked` requests, and return what a restore
        would do now. Nothing is changed except notes about the step, which are files in the agent's
        home directory.

        Raises NotApplicable if the store has no step that can be restored, StepFailed if the store
        cannot be queried, and Refused if a file has no place on this pod (see `place.placement`).
        """
        found = self._ask_store(asked)
        if found.chosen is None:
            what = "any step that is whole" if asked.step is None else f"step {asked.step}"
            told = "; ".join(
                f"step {step}: {why}" if step >= 0 else why for step, why in found.skipped[:8]
            )
            if told:
                told = f" ({told})"
            raise NotApplicable(
                f"{asked.source} does not hold {what} of {asked.run}{told}; nothing was restored "
                "and nothing is started afresh. Look with `bs4-console checkpoints remote`, or "
                "name another place with --from."
            )
        write_json(self._notes(asked.run) / f"{found.chosen.identity}.json", found.chosen.as_dict())
        return self._prepared(asked, found.chosen, found.skipped)

    def again(self, asked: RestoreRequest, identity: str) -> Prepared:
        """Return the result that an earlier `find` had for the request `asked`, without a query to
        the object store; a restarted agent needs this. `identity` is the hash of the list of the
        checkpoint's files, by which the result is found among the agent's notes. Raises PlanChanged
        if these notes are gone. Raises NotApplicable if the step lacks a part that the trainer
        needs.
        """
        data = read_json(self._notes(asked.run) / f"{identity}.json")
        if data is None:
            raise PlanChanged(
                f"What was found of {asked.run} is not on this pod any more; make a new plan."
            )
        return self._prepared(asked, RemoteSet.from_dict(cast("RemoteSetFields", data)), ())

    def of(self, parameters: Mapping[str, Any]) -> Prepared:
        """Return what one step of a restore's plan restores, which an earlier `find` has found.
        `parameters` are the parameters of that step. Their entries `asked` (the request) and
        `identity` (the hash of the list of the checkpoint's files) identify the result of `find`.
        Raises PlanChanged if the agent's notes about that result are gone. Raises NotApplicable if
        the checkpoint lacks a part that the trainer needs.
        """
        return self.again(RestoreRequest.read(parameters["asked"]), parameters["identity"])

    def described(self, body: RestoreBody) -> Restorable:
        """Return what a restore with the request `body` would fetch, for the plan of a playbook.
        Raises the errors of `find`.
        """
        prepared = self.find(RestoreRequest.read(body))
        aside = [] if self.here(prepared) else restore_place.clashing(prepared.where)
        return {
            "step": prepared.found.step,
            "identity": prepared.found.identity,
            "asked": prepared.asked.body(),
            "aside": texts(aside),
            "finals": prepared.where.finals,
            "bytes": prepared.found.bytes,
            "missing": self.missing(prepared)[0],
            "skipped": prepared.skipped_rows,
        }

    def missing(self, prepared: Prepared) -> tuple[int, int]:
        """Return two numbers of bytes: those that would have to be fetched, and those that are free
        on the disk to which they would go.
        """
        return restore_fetch.missing_bytes(self._wanted(prepared)), restore_fetch.free_bytes(
            prepared.where.staging
        )

    def refuse_full(self, prepared: Prepared) -> None:
        """Raise Refused if the bytes that would have to be fetched do not fit on the disk."""
        missing, free = self.missing(prepared)
        if missing and missing + restore_fetch.MARGIN > free:
            raise Refused(
                f"The disk of {prepared.where.staging} has {size_text(free)} free, and "
                f"{size_text(missing)} of step {prepared.found.step} are missing here. Free "
                "space there, or give another --output-dir."
            )

    def fetched(self, prepared: Prepared) -> bool:
        """Return True if every file of the checkpoint is either complete and verified in the
        staging directory, into which files are fetched first, or in its final place.
        """
        staging = prepared.where.staging
        record = read_json(staging / VERIFIED)
        if (
            record is None
            or record.get("identity") != prepared.found.identity
            or restore_fetch.unchanged(staging, record.get("files"), prepared.where.targets)
        ):
            return False
        wanted = self._wanted(prepared)
        if not all(
            target.staged.exists() or restore_fetch.sized(target.present, target.file)
            for target in wanted
        ):
            return False  # a verified file is gone
        return {str(target.staged.relative_to(staging)) for target in wanted} <= set(
            record["files"]
        )

    def _wanted(self, prepared: Prepared) -> Sequence[Target]:
        """Return the files that must be fetched. If the step is complete on the pod, these are only
        the files beside it.
        """
        if self.here(prepared):
            return prepared.where.extra
        return prepared.where.targets

    def fetch(self, prepared: Prepared, key: str, say: Say) -> str:
        """Fetch every missing file into the staging directory, verify it, and return a sentence
        about the result. `key` is the key of the action, and `say` is called with the progress. A
        failure that may pass by itself is retried. Raises StepFailed if the files cannot be
        fetched; its message has the object store's error. Raises NotApplicable if the pod has no
        library for the object store.
        """
        where, found = prepared.where, prepared.found
        prepared.spec.output_dir.mkdir(parents=True, exist_ok=True)
        where.staging.mkdir(mode=0o700, parents=True, exist_ok=True)
        request = self._notes(prepared.asked.run) / f"{found.identity}.fetch.json"
        targets = []
        for one in self._wanted(prepared):
            targets.append(
                [
                    one.file.path,
                    one.file.name,
                    one.file.size,
                    one.file.sha1,
                    one.file.sha256,
                    str(one.staged),
                    None if one.present is None else str(one.present),
                ]
            )
        write_json(
            request,
            {
                "from": str(prepared.asked.source),
                "identity": found.identity,
                "staging": str(where.staging),
                "targets": targets,
            },
        )
        for number in range(1, TRIES + 1):
            answer = request.with_name(f"{found.identity}.{key}.{number}.answer.json")
            try:
                self._jobs.run(
                    key,
                    process.command(self._home, _WORKER, "fetch", str(request), str(answer)),
                    self._home.root,
                    {"BS4_HOME": str(self._home.root)},
                    say,
                )
            except StepFailed as failure:
                told = (read_json(answer) or {}).get("error") or {}
                if number == TRIES or not told.get("passing", not told):
                    raise StepFailed(str(told.get("message") or failure.message)) from failure
                say(f"{told.get('message') or failure.message} It is tried again.")
                time.sleep(PAUSE_S * number)
            else:
                got = int((read_json(answer) or {}).get("fetched", 0))
                return (
                    f"{len(targets)} files verified, {size_text(got)} of "
                    f"{size_text(found.bytes)} had to be fetched"
                )
        raise AssertionError("the last try returns or raises")

    def here(self, prepared: Prepared) -> bool:
        """Return True if the checkpoint step that is to be restored is complete where the trainer
        looks for it, and no directory of it is left in the staging directory.
        """
        found = restore_place.local(
            self._runs.trainer(prepared.spec), prepared.spec, prepared.found.step
        )
        return found is not None and not any(
            one.staged.exists() for one in prepared.where.directories
        )

    def placed(self, prepared: Prepared) -> bool:
        """Return True if the restored checkpoint step is complete in its final place, with nothing
        left in the staging directory (see `here`), and the saved config, with which a launch
        continues the run, is in its final place too.
        """
        return self.here(prepared) and restore_place.beside(prepared.where)

    def put(self, prepared: Prepared, key: str) -> str:
        """Move the fetched files to their final place, register the run, and return a sentence
        about the result. If the restored step is complete in its final place already, only register
        the run.

        Raises Refused if the run is running, PlanChanged if the fetched files have changed or
        another complete copy of the step is in the way, and StepFailed if the step is not complete
        afterwards.
        """
        where, spec, step = prepared.where, prepared.spec, prepared.found.step
        trainer = self._runs.trainer(spec)
        self.refuse_live(spec.run)
        refuse_beside(self._runs, spec)
        if self.placed(prepared):
            self.enrol(prepared)
            return f"step {step} is complete here"
        record = read_json(where.staging / VERIFIED)
        changed = f"{where.staging} is not what was verified"
        if record is not None:
            changed = restore_fetch.unchanged(where.staging, record.get("files"), where.targets)
        if changed:
            raise PlanChanged(f"{changed}; restore it again.")
        if restore_place.in_the_way(where) and restore_place.local(trainer, spec, step) is not None:
            raise PlanChanged(
                f"Step {step} of {spec.run} is complete here by now, and is left as it is; "
                f"launch with --resume {step}."
            )
        self.enrol(prepared)
        # The config goes first: after the last rename, the step counts as complete, and a resume
        # needs its config.
        restore_place.put_beside(where)
        done = restore_place.put(
            where,
            lambda path: trash.trash(self._runs, spec.run, path, stamp_as=key, everything=True),
        )
        if not self.placed(prepared):
            raise StepFailed(
                f"Step {step} was put in its place and is not complete there; `bs4-console "
                "checkpoints list` says what it lacks. Restore an older one with --step."
            )
        remove(where.staging)  # our own receipt and empty directories
        return (
            f"{len(done)} director{'y' if len(done) == 1 else 'ies'} put in place; step {step} "
            "is complete here"
        )

    def enrol(self, prepared: Prepared) -> None:
        """Register the run of the restore `prepared` with the agent, with the W&B ids that the run
        had before, so that its next launch continues the same W&B runs. A run that has attempts on
        this pod is left as it is.
        """
        known = self._known(prepared.spec.run)
        if known is None or not known.attempts:
            self._runs.register(prepared.spec)

    def enrolled(self, prepared: Prepared) -> bool:
        """Return True if the run is registered with the agent as `enrol` would do it, with the same
        trainer, directories and W&B ids, or if the run has attempts on this pod.
        """
        known = self._known(prepared.spec.run)
        return known is not None and (bool(known.attempts) or known.spec == prepared.spec)

    def refuse_live(self, name: str) -> None:
        """Raise Refused if the run `name` is running or processes of its ended attempts are still
        alive.
        """
        run = self._known(name)
        if run is not None and (run.live or self._runs.leftovers(name)):
            raise Refused(
                f"{name} is running, and may write where it would be restored; stop it first."
            )

    def refuse_taken(self, spec: LaunchSpec) -> None:
        """Raise Refused if another run on this pod, with another trainer or output directory,
        already has the name of `spec`.
        """
        run = self._known(spec.run)
        if (
            run is not None
            and run.attempts
            and (run.spec.trainer, run.spec.output_dir) != (spec.trainer, spec.output_dir)
        ):
            raise Refused(
                f"The name {spec.run} is taken here: by {run.spec.trainer} in "
                f"{run.spec.output_dir}. Restore with --output-dir {run.spec.output_dir}."
            )

    def _known(self, name: str) -> Run | None:
        """Return the run with this name, or None if the agent does not know it."""
        return next((run for run in self._runs.all() if run.name == name), None)

    def _ask_store(self, asked: RestoreRequest) -> RemoteCopy:
        """Query the store with the worker and return what it has found. Raises StepFailed if there
        is no answer within `FIND_S` seconds.
        """
        answer = self._notes(asked.run) / f"found-{ulid()}.json"
        argv = process.command(
            self._home, _WORKER, "find", str(asked.source), asked.run, str(answer)
        )
        if asked.step is not None:
            argv.append(str(asked.step))
        try:
            done = subprocess.run(
                argv,
                env={**os.environ, "BS4_HOME": str(self._home.root)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=FIND_S,
                check=False,
            )
            told = read_json(answer)
        except subprocess.TimeoutExpired:
            raise StepFailed(
                f"{asked.source} was not listed within {FIND_S:.0f} s; try again."
            ) from None
        finally:
            answer.unlink(missing_ok=True)
        if told is None:
            said = done.stdout.decode("utf-8", "replace").strip() or "it said nothing"
            raise StepFailed(
                f"The program that asks {asked.source} ended with exit code {done.returncode}: "
                f"{said.splitlines()[-1][:300]}. Try again."
            )
        if (error := told.get("error")) is not None:
            raise StepFailed(str(error["message"]))
        return RemoteCopy.from_dict(cast("RemoteCopyFields", told))

    def _prepared(
        self, asked: RestoreRequest, found: RemoteSet, skipped: Sequence[tuple[int, str]]
    ) -> Prepared:
        """Return the step with its places and its launch spec. Raises NotApplicable if the step
        lacks a part that the trainer needs.
        """
        notes = self._notes(asked.run)
        spec = self._spec(asked, found, lambda path: kept_config(notes, found, path))
        self.refuse_taken(spec)
        trainer = self._runs.trainer(spec)
        lacking = []
        for rule in trainer.parts(spec):
            if rule.required and rule.name not in found.parts:
                lacking.append(rule.name)
        if lacking:
            raise NotApplicable(
                f"Step {found.step} of {asked.run} at {asked.source} has no "
                f"{' and no '.join(lacking)} part, and {spec.trainer} cannot resume without (it "
                f"has: {', '.join(found.parts)}). Restore another step with --step, or name "
                "another place with --from."
            )
        where = restore_place.placement(trainer, spec, found)
        if not asked.config and found.config:
            spec = dataclasses.replace(spec, config=where.configs[found.config])
        words = (found.launch or Launched()).words(lambda path: where.configs[path])
        # The words after the recorded ones are W&B's ids, which depend on the config itself.
        spec = dataclasses.replace(spec, overrides=(*words, *spec.overrides[len(words) :]))
        return Prepared(asked, spec, found, where, skipped)

    def _spec(
        self, asked: RestoreRequest, found: RemoteSet, place: Callable[[str], Path]
    ) -> LaunchSpec:
        """Return what a launch would start. `place` returns the path of a config of the set."""
        trainer = asked.trainer or found.trainer
        if trainer not in registry.ids():
            raise BadRequest(
                f"{asked.source} does not say which trainer wrote {asked.run}; say it with "
                "--trainer."
            )
        config = asked.config or (str(place(found.config)) if found.config else "")
        body: dict[str, Any] = {
            "run": asked.run,
            "trainer": trainer,
            "cwd": asked.cwd,
            "output_dir": asked.output_dir,
            "config": config,
        }
        if (launch := found.launch) is not None:
            body |= {
                "overrides": launch.words(place),
                "env": launch.env,
                "component": launch.component,
                "processes": launch.processes,
            }
        return with_tracking(validation.spec_of(body), found.wandb)

    def _notes(self, run: str) -> Path:
        """Return the directory of our notes about the run."""
        place = self._home.root / "restore" / safe_name(run)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return place
