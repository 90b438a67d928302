"""The restore of a checkpoint as a kind of action: its plan with a hash, its two steps and its
verification.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from bs4_agent.actions.kind import Outcome, PlannedKind, Underway
from bs4_agent.actions.submission import Submission
from bs4_agent.checkpoints.restoring import place
from bs4_agent.checkpoints.restoring.restore import Prepared, RestoreBody, RestoreRequest, Restoring
from bs4_agent.playbooks.plan import LIFETIME_S
from bs4_agent.playbooks.pod_actions import (
    Planned,
    Target,
    hashed_steps,
    picked,
    steps_as_dicts,
    steps_from_dicts,
    targets_at,
)
from bs4_agent.runs.registry import Runs
from bs4_common.checkpoints.inventory import texts
from bs4_common.errors import PlanChanged
from bs4_common.failures.compiled import digest
from bs4_common.failures.detectors.reporting import size
from bs4_common.withheld import refuse_lost

#: Stands in the place of a playbook's id, so no playbook may have this name.
NAME = "restore"


@dataclass(frozen=True)
class RestorePlan:
    """The plan of one restore of the checkpoint of training step `step` from the object store.
    `asked` is the request. `identity` is the hash of the checkpoint's manifest, the list of its
    files with their sizes and hashes. `shown` has values that a person reads beside the steps:
    `notes`, `bytes`, `missing` and `free` bytes, `skipped` checkpoints, and the `launch` that would
    continue the run. The plan can be confirmed until `expires_m`, in seconds of the monotonic
    clock.
    """

    asked: RestoreRequest
    step: int
    identity: str
    steps: Sequence[Planned]
    shown: Mapping[str, Any]
    expires_m: float = 0.0

    @property
    def hash(self) -> str:
        """Return the hash, in hexadecimal digits, of everything that the restore would do. A person
        confirms the plan by it.
        """
        return digest(
            {
                "restore": self.asked.body(),
                "step": self.step,
                "identity": self.identity,
                "steps": hashed_steps(self.steps),
            }
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as a dictionary of JSON values, in the form in which the journal (the
        agent's log of actions and incidents) has it and a console shows it.
        """
        return {
            "playbook": NAME,
            "title": f"Restore step {self.step} of {self.asked.run} from {self.asked.source}",
            "danger": "move" if self.steps[1].parameters["aside"] else "none",
            "typed_name": False,
            "run": self.asked.run,
            "attempt": 0,
            "resume": self.step,
            "asked": self.asked.body(),
            "identity": self.identity,
            "steps": steps_as_dicts(self.steps),
            "verify": {},
            **self.shown,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RestorePlan:
        """Return the plan in `data`, a dictionary that `as_dict` has made. Its `expires_m` is 0,
        because the dictionary does not contain it. Raises Refused if a value in `data` was replaced
        by a marker such as "[redacted]" because it was a secret.
        """
        refuse_lost([data["asked"], [row["parameters"] for row in data["steps"]]])
        return cls(
            RestoreRequest.read(data["asked"]),
            data["resume"],
            data["identity"],
            steps_from_dicts(data["steps"]),
            picked(data, "skipped", "notes", "bytes", "missing", "free", "launch"),
        )


def make(
    restoring: Restoring, runs: Runs, asked: RestoreRequest, before: RestorePlan | None = None
) -> RestorePlan:
    """Return the plan of what the requested restore would do now. Raises NotApplicable if the
    object store has no such step, and Refused if the run is running or the step does not fit on the
    disk.

    If `before`, an earlier plan, is given, the same checkpoint step is planned again without a
    query to the store, which may be slow. Raises PlanChanged if the agent's notes about that
    checkpoint are gone. Raises StepFailed if the object store cannot be queried.
    """
    runs.poll()
    restoring.refuse_live(asked.run)
    if before is None:
        prepared = restoring.find(asked)
    else:
        prepared = restoring.again(asked, before.identity)
    step, spec = prepared.found.step, prepared.spec
    trainer = runs.trainer(spec)
    here = restoring.here(prepared)
    missing, free = restoring.missing(prepared)
    restoring.refuse_full(prepared)
    notes = []
    if here:
        fetched = "only its config" if missing else "nothing"
        notes.append(
            f"Step {step} is complete here already, so {fetched} is fetched and nothing is moved."
        )
    if newer := place.above(trainer, spec, step):
        notes.append(
            f"Step {newer[-1]} is complete here and newer: a launch resumes that one unless "
            f"it is given --resume {step}."
        )
    if prepared.found.launch is None:
        notes.append(
            "How the run was started is not in the store: further arguments and variables "
            "have to be given again."
        )
    elif left_out := prepared.found.launch.left_out:
        notes.append(f"Of how the run was started the store does not have {'; '.join(left_out)}.")
    return RestorePlan(
        asked,
        step,
        prepared.found.identity,
        planned(prepared, missing, here=here),
        {
            "skipped": prepared.skipped_rows,
            "notes": notes,
            "bytes": prepared.found.bytes,
            "missing": missing,
            "free": free,
            "launch": prepared.launch,
        },
        time.monotonic() + LIFETIME_S,
    )


def planned(prepared: Prepared, missing: int, *, here: bool) -> list[Planned]:
    """Return the two steps of the plan of a restore: fetch the files into a staging directory, and
    rename them to where the trainer looks for them. `prepared` is what is to be restored, and
    `missing` the number of bytes to fetch, which the first step shows. The second step also moves
    away what is in the final places. If `here` is True, the checkpoint is complete in its final
    place already, and that step moves nothing away; both steps are returned all the same.
    """
    found, where = prepared.found, prepared.where
    clashing = [] if here else place.clashing(where)
    files = f"{len(found.files)} files, {size(found.bytes)}"
    if missing:
        files += f", of which {size(missing)} are missing here"
    names = {"step": found.step, "identity": found.identity, "asked": prepared.asked.body()}
    bring = Planned(
        "fetch",
        f"Fetch step {found.step} of {found.run}: {files}",
        f"fetch {prepared.asked.source} -> {where.staging}",
        names,
        [],
        {"staging": str(where.staging), "bytes": found.bytes, "missing": missing},
    )
    parameters = {**names, "directories": where.finals, "aside": texts(clashing)}
    title = f"Put it where {prepared.spec.trainer} looks for it"
    if clashing:
        title += f"; {len(clashing)} that lie there incomplete go to the run's trash"
    moves = [f"mv {path} <trash>/" for path in clashing]
    moves += [f"mv {one.staged} {one.final}" for one in where.directories]
    return [
        bring,
        Planned("place", title, "; ".join(moves), parameters, [], {"directories": texts(clashing)}),
    ]


@dataclass(frozen=True)
class RestoreContext:
    """The object that the steps of a restore get: the code that restores, and what is to be
    restored. `action` is the key of the action to which the steps belong.
    """

    restoring: Restoring
    action: str

    def prepared(self, planned: Planned) -> Prepared:
        """Return what the step `planned` of the plan restores, as it was found when the plan was
        made. Raises PlanChanged if the agent's notes about it, which are files in the agent's home,
        are gone.
        """
        return self.restoring.again(
            RestoreRequest.read(planned.parameters["asked"]), planned.parameters["identity"]
        )


class Fetch:
    """The step that fetches the checkpoint's files from the object store into a staging directory.
    See `playbooks.pod_actions.Step` for the methods.
    """

    def done(self, context: RestoreContext, planned: Planned) -> bool:
        """Return True if all files are fetched and verified already or are in their final place.
        Raises PlanChanged if the agent's notes about the checkpoint are gone.
        """
        prepared = context.prepared(planned)
        return context.restoring.placed(prepared) or context.restoring.fetched(prepared)

    def check(self, context: RestoreContext, planned: Planned) -> Sequence[Target]:
        """Called right before the step `planned` is carried out: check that the files may be
        fetched. Return an empty list, because fetching has no targets (processes or files that
        exist and on which a step acts). Raises Refused if the run is running.
        """
        context.restoring.refuse_live(planned.parameters["asked"]["run"])
        return []

    def act(
        self,
        context: RestoreContext,
        planned: Planned,
        targets: Sequence[Target],
        say: Callable[[str], None],
    ) -> str:
        """Fetch the files and return a sentence about the result. `say` receives progress messages
        as text. Raises StepFailed if a file cannot be fetched. Raises PlanChanged if the agent's
        notes about the checkpoint are gone.
        """
        return context.restoring.fetch(context.prepared(planned), context.action, say)


class Put:
    """The step that moves the fetched files from the staging directory to where the trainer looks
    for them. See `playbooks.pod_actions.Step` for the methods.
    """

    def done(self, context: RestoreContext, planned: Planned) -> bool:
        """Return True if the checkpoint is in its final place and the run is registered with the
        agent. Raises PlanChanged if the agent's notes about the checkpoint are gone.
        """
        prepared = context.prepared(planned)
        return context.restoring.placed(prepared) and context.restoring.enrolled(prepared)

    def check(self, context: RestoreContext, planned: Planned) -> Sequence[Target]:
        """Return the directories that are in the way and will be moved into the run's trash (a
        directory in which removed files are kept). Raises PlanChanged if one of them was not there
        when the plan was made.
        """
        found = texts(place.in_the_way(context.prepared(planned).where))
        if more := sorted(set(found) - set(planned.parameters["aside"])):
            raise PlanChanged(
                f"{more[0]} is there by now, and was not when the plan was made; nothing was "
                "moved. Make a new plan."
            )
        return targets_at(found)

    def act(
        self,
        context: RestoreContext,
        planned: Planned,
        targets: Sequence[Target],
        say: Callable[[str], None],
    ) -> str:
        """Move the files to their final place and return a sentence about the result. Raises
        Refused if the run is running, PlanChanged if the fetched files have changed, and StepFailed
        if the checkpoint is not complete afterwards.
        """
        return context.restoring.put(context.prepared(planned), context.action)


STEPS: Mapping[str, Any] = {"fetch": Fetch(), "place": Put()}


class Restore(PlannedKind[RestorePlan]):
    """The kind of action that restores a checkpoint from the object store to the pod; see
    `actions.kind.Kind` for the methods. `runs` are the runs of this pod.
    """

    name, planner, steps = NAME, "checkpoints restore --plan", STEPS
    keeps_confirmed = True

    def __init__(self, restoring: Restoring, runs: Runs) -> None:
        self._restoring, self._runs = restoring, runs

    def asked(self, asked: Submission) -> tuple[str, Callable[[str], RestorePlan]]:
        """Return two things: the name of the run in the request `asked.body["restore"]`, and a
        function that takes the key of an action, searches the object store and makes the plan for
        it. Raises BadRequest if the request is malformed.
        """
        request = RestoreRequest.read(cast("RestoreBody", asked.table(NAME)))
        return request.run, lambda key: make(self._restoring, self._runs, request)

    def read(self, data: Mapping[str, Any]) -> RestorePlan:
        """Return the plan in `data`, a dictionary that `as_dict` has made."""
        return RestorePlan.from_dict(data)

    def again(self, key: str, confirmed: RestorePlan) -> RestorePlan:
        """Make the plan `confirmed` again for the present state of the pod and the same checkpoint
        step, without a query to the object store, and return the new plan. Raises Refused if the
        run is running or the checkpoint does not fit on the disk, and PlanChanged if the agent's
        notes about the checkpoint are gone. Raises NotApplicable if the step lacks a part that the
        trainer needs.
        """
        return make(self._restoring, self._runs, confirmed.asked, confirmed)

    def context(self, action: Underway[RestorePlan]) -> RestoreContext:
        """Return the RestoreContext (the code that restores, and what is to be restored) with which
        the steps of the restore work.
        """
        return RestoreContext(self._restoring, action.key)

    def verify(self, action: Underway[RestorePlan], context: RestoreContext) -> Outcome:
        """Return the outcome of the action: it has reached its goal if the checkpoint is complete
        on the pod, and otherwise it has not. Raises PlanChanged if the files are gone in which the
        agent has noted what belongs to the checkpoint.
        """
        plan = action.plan
        prepared = self._restoring.again(plan.asked, plan.identity)
        whole = self._restoring.placed(prepared)
        state = "complete here" if whole else "not complete here any more"
        result = {"restored": whole, "step": plan.step, "launch": plan.shown["launch"]}
        return Outcome(whole, f"step {plan.step} is {state}", result)
