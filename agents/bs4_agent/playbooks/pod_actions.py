"""What steps may read and do on a pod. `pod.Pod` is the live one; tests have their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bs4_agent.playbooks.ports import PortHolder
from bs4_common.credentials.forms import shown_command
from bs4_common.failures.facts import GpuFacts, Holder, RunFacts
from bs4_common.identity import Identity
from bs4_common.runs.model import Member
from bs4_common.trainers.base import LaunchSpec


class PodActions(Protocol):
    """Everything that the steps of playbooks may read and do on a pod. Every read returns the state
    of this moment, because plans are made from it and a step's preconditions are checked against
    it.
    """

    def run_facts(self, run: str) -> RunFacts:
        """Return what is known of the run at this moment, in the form that detectors read."""

    def gpu_facts(self) -> GpuFacts:
        """Return what is known of the pod's GPUs at this moment, in the form in which detectors
        read it.
        """

    def stop(self, run: str, say: Callable[[str], None]) -> str:
        """End every process of the run in the way that its trainer generation needs, and return a
        sentence about the result. `say` receives progress messages. Raises StepFailed if a process
        or its GPU memory remains.
        """

    def stop_command(self, run: str) -> str:
        """Return the command with which a person would do what `stop` does, as text."""

    def leftovers(self, run: str) -> Sequence[Member]:
        """Return the processes of ended attempts of `run` that are still alive."""

    def end(self, targets: Sequence[Identity], say: Callable[[str], None]) -> str:
        """End these processes: SIGTERM, after ten seconds SIGKILL. Each is identified by pid and
        start time, so that no other process is hit. Return a sentence about the result.
        """

    def archive_logs(self, run: str) -> str:
        """Keep a copy of the run's logs in its archive on the pod, and return a sentence about the
        result.
        """

    def trash(self, run: str, path: Path, key: str, *, everything: bool = False) -> Path:
        """Move `path` with one rename into the run's trash directory on the same file system, under
        the action's key, and return its new path. Raises Refused if `path` is not the run's own,
        the run is running, or `path` holds the newest complete checkpoint, and StepFailed if the
        disk reports an error.

        `everything` permits the newest complete checkpoint too. Only a fresh start may set it,
        after a person has typed the run's name.
        """

    def launch(self, spec: LaunchSpec, key: str) -> int:
        """Start an attempt under the action key `key` and return its number. If this key has
        started an attempt before, return the number of that attempt and start nothing.
        """

    def launched(self, run: str, key: str) -> int | None:
        """Return the number of the attempt that was started under the action key `key`, or None if
        there is no such attempt.
        """

    def command(self, spec: LaunchSpec) -> Sequence[str]:
        """Return the command line (argv) that a launch of `spec` would execute."""

    def companion(self, run: str) -> RunFacts | None:
        """Return the facts of the inference server that was started separately and that `run` uses,
        or None if the agent has not seen such a server. The server is a run of its own.
        """

    def port_holders(self, run: str) -> Sequence[PortHolder]:
        """Return the processes that now listen on one of the ports of `run`'s servers, its own
        processes included; empty if all are free.
        """

    def gpu_rivals(self, run: str) -> Sequence[Holder]:
        """Return the processes of other living runs that hold more than a gigabyte on a GPU that
        the next attempt of `run` will use. Empty if it is not certain which GPUs these are. Runs
        that have lived beside `run` before share a GPU by choice, and are left out.
        """

    def server_answers(self, run: str) -> bool:
        """Return True if the run's inference server answers GET /health with HTTP status 200."""

    def shared_memory(self) -> Path:
        """Return the path at which the pod's shared memory is mounted."""

    def nofile(self, run: str) -> int:
        """Return the soft limit of open files with which the next attempt of `run` would start."""

    def hard_nofile(self) -> int:
        """Return the hard limit of open files on the pod, which no process can raise."""

    def set_nofile(self, run: str, limit: int) -> None:
        """Order a soft limit of open files for every later start of `run`. Running processes keep
        theirs.
        """

    def remote_step(self, run: str) -> Mapping[str, Any] | None:
        """Return the newest checkpoint that could be restored from the run's object store, as a
        dictionary: `step`, `identity` (the hash of its manifest), `asked` (the
        request for the restore, as a table for its journal), `aside` (directories to move away),
        `finals` (directories of the run that will hold the checkpoint), `bytes` (its size),
        `missing` (how many of these bytes have to be fetched) and `skipped` (newer steps that
        cannot be restored, with reasons). Return None if no store of the run is
        known.

        Raises NotApplicable if the store has no complete checkpoint, and StepFailed if it does not
        answer.
        """

    def restored(self, run: str, parameters: Mapping[str, Any]) -> bool:
        """Return True if the checkpoint of a planned restore is complete on the pod. `parameters`
        are those of the plan's step `restore_set`; in them, `asked` (the request) and `identity`
        (the manifest's hash) say which checkpoint it is, as `remote_step` returned them.
        """

    def restore(
        self, run: str, parameters: Mapping[str, Any], key: str, say: Callable[[str], None]
    ) -> str:
        """Fetch the missing files of a checkpoint from the store, put them where the trainer looks
        for them, and return a sentence about the result. `parameters` are those of the plan's step
        `restore_set`; in them, `asked` and `identity` say which checkpoint it is, as `remote_step`
        returned them. `key` is the action's key; `say` receives progress messages as text.
        """

    def note(self, run: str, text: str, key: str) -> None:
        """Write a note about the run into the journal, under the action's key."""

    def noted(self, run: str, text: str, key: str) -> bool:
        """Return True if the action `key` has already written the note `text` about the run."""


@dataclass(frozen=True)
class Planned:
    """One step of a plan. `targets` are the concrete things that it acts on, for example [{"path":
    ...}] or processes. The plan's hash covers `kind`, `parameters` and `targets`. `title`,
    `command` and `shown` (sizes, ages) are only there for the person who reads the plan.
    """

    kind: str
    title: str
    command: str
    parameters: Mapping[str, Any]
    targets: Sequence[Mapping[str, Any]]
    shown: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Return the planned step as the dictionary that the journal holds and a console shows."""
        return {
            "kind": self.kind,
            "title": self.title,
            "command": self.command,
            "parameters": dict(self.parameters),
            "targets": [dict(t) for t in self.targets],
            "shown": dict(self.shown),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Planned:
        """Return the planned step in a dictionary that `as_dict` has written."""
        return cls(
            data["kind"],
            data["title"],
            data["command"],
            data["parameters"],
            data["targets"],
            data["shown"],
        )


@dataclass(frozen=True)
class Context:
    """What a step of a playbook works with: one run on one pod, for one action. `action` is the
    action's key. `resume` is the training step of the checkpoint from which the plan resumes the
    run, or None if there is no such checkpoint. `pause(seconds)` sleeps and raises Cancelled if the
    action is to end.
    """

    pod_actions: PodActions
    run: str
    action: str
    resume: int | None
    """The newest step that was complete on every side when the plan was made, or None."""
    pause: Callable[[float], None] = time.sleep
    """Sleeps for a number of seconds; raises Cancelled if the action is to end. Every wait of a
    step uses it.
    """

    def facts(self) -> RunFacts:
        """Return what is known of the run at this moment, in the form that detectors read."""
        return self.pod_actions.run_facts(self.run)


class Step(Protocol):
    """One kind of step that a playbook's fix can use, for example "stop the run". First `plan` says
    what would be done. Later, for a confirmed plan, `done`, `check` and `act` are called in this
    order.
    """

    def plan(self, context: Context, parameters: Mapping[str, Any]) -> Planned | None:
        """Return what the step would do to the run now, or None if the run does not need the step.
        `parameters` are those that the playbook gives this step in its `fix`, by name. Raises
        NotApplicable if the step cannot be done for this run.
        """

    def done(self, context: Context, planned: Planned) -> bool:
        """Return True if the run is already in the state that the planned step would leave; the
        step is then skipped.
        """

    def check(self, context: Context, planned: Planned) -> Sequence[Mapping[str, Any]]:
        """Return the concrete targets of the planned step as they are now, for example [{"path":
        text}] or the identities of processes, within the limits that a person confirmed with the
        plan. Raises PlanChanged if the state of the run does not fit the plan any more.
        """

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Mapping[str, Any]],
        say: Callable[[str], None],
    ) -> str:
        """Carry out the step on `targets`, the result of `check`, and return a sentence about the
        result. `say` receives progress messages. Raises StepFailed if the step does not reach its
        goal, and Refused if a safety rule forbids it.
        """


class Stepping:
    """Base class of steps that need no check before they act, except the check in `done` whether
    the step is needed at all.
    """

    def check(self, context: Any, planned: Planned) -> Sequence[Mapping[str, Any]]:
        """Return the targets of the plan, unchecked."""
        return planned.targets


def living(facts: RunFacts) -> list[Member]:
    """Return the processes of the run that are alive."""
    return [member for member in facts.members if member.alive]


def shown_processes(members: Sequence[Member]) -> list[dict[str, Any]]:
    """Return the pid, component (for example "trainer" or "inference") and command of each process,
    as a plan shows them.
    """
    found = []
    for m in members:
        found.append(
            {
                "pid": m.identity.pid,
                "component": m.component,
                "command": shown_command(m.cmdline, 200),
            }
        )
    return found


def targets_at(paths: Iterable[Path | str]) -> list[dict[str, Any]]:
    """Return [{"path": text}] for the paths, the form in which a step has its targets."""
    return [{"path": str(path)} for path in paths]


def moves_to_trash(paths: Iterable[Path | str]) -> str:
    """Return the `mv` commands, as one text, with which a plan shows that the paths are moved to
    the run's trash.
    """
    return "; ".join(f"mv {path} <trash>/" for path in paths)


def picked(data: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return a dictionary of only the entries of `data` that have these names."""
    return {name: data[name] for name in names}


def hashed_steps(steps: Sequence[Planned]) -> list[dict[str, Any]]:
    """Return the kind, parameters and targets of each step, which the hash of their plan covers."""
    found = []
    for s in steps:
        found.append({"kind": s.kind, "parameters": s.parameters, "targets": list(s.targets)})
    return found


def steps_as_dicts(steps: Sequence[Planned]) -> list[dict[str, Any]]:
    """Return the planned steps as the dictionaries that the journal holds and a console shows."""
    return [step.as_dict() for step in steps]


def steps_from_dicts(rows: Sequence[Mapping[str, Any]]) -> list[Planned]:
    """Return the planned steps in dictionaries that `steps_as_dicts` has written."""
    return [Planned.from_dict(row) for row in rows]
