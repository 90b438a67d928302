"""What steps may read and do on a pod. `pod.Pod` is the live one; tests have their own."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypedDict, TypeVar

from bs4_agent.playbooks.ports import PortHolder
from bs4_common.credentials.forms import shown_command
from bs4_common.failures.compiled import StepSettings
from bs4_common.failures.facts import GpuFacts, Holder, RunFacts
from bs4_common.identity import Identity
from bs4_common.runs.model import Member
from bs4_common.trainers.base import LaunchSpec

V = TypeVar("V")
#: A function that is called with a sentence about the progress of a step.
Say = Callable[[str], None]


class PodActions(Protocol):
    """Everything that the steps of playbooks may read and do on a pod. A method that reads returns
    the state of the moment in which it is called, not one that was stored before. So a plan is made
    from the present state, and a step can check it again before it acts.
    """

    def run_facts(self, run: str) -> RunFacts:
        """Return what is known of the run named `run` at this moment, in the form in which the
        detectors of failures read it.
        """

    def gpu_facts(self) -> GpuFacts:
        """Return what is known of the pod's GPUs at this moment, in the form in which the detectors
        of failures read it.
        """

    def stop(self, run: str, say: Say) -> str:
        """End every process of the run, in the way that its version of the trainer needs, and
        return a sentence about the result. `say` is called with progress messages. Raises
        StepFailed if a process remains, or GPU memory that it held.
        """

    def stop_command(self, run: str) -> str:
        """Return, as text, the shell command with which a person would do what `stop` does."""

    def leftovers(self, run: str) -> Sequence[Member]:
        """Return the processes that ended attempts of `run` have left behind and that are still
        alive. Return an empty sequence if there are none.
        """

    def end(self, targets: Sequence[Identity], say: Say) -> str:
        """End the processes `targets` with SIGTERM, and those that live ten seconds later with
        SIGKILL. Each is identified by pid and start time, so that no other process is hit. `say` is
        called with progress messages. Return a sentence about the result. Raises StepFailed if a
        process survives.
        """

    def archive_logs(self, run: str) -> str:
        """Keep a copy of the run's logs in the archive of logs on the pod, and return a sentence
        about the result.
        """

    def trash(self, run: str, path: Path, key: str, *, everything: bool = False) -> Path:
        """Move `path` into the run's trash, a directory on the same file system in which removed
        files are kept, and return its new path. It gets into a subdirectory that is named after the
        action's key `key`. Raises Refused if `path` is not the run's own, the run is running, or
        `path` has the newest complete checkpoint, and StepFailed if the disk reports an error.

        With `everything`, the newest complete checkpoint is moved too. Only a fresh start may set
        this, after a person has typed the run's name.
        """

    def launch(self, spec: LaunchSpec, key: str) -> int:
        """Start an attempt of a run as the launch `spec` describes, and return the attempt's
        number. `key` is the action's key. If the same action has started an attempt before, start
        nothing and return the number of that attempt.
        """

    def launched(self, run: str, key: str) -> int | None:
        """Return the number of the attempt of `run` that the action `key` has started, or None if
        it has started none.
        """

    def command(self, spec: LaunchSpec) -> Sequence[str]:
        """Return the command line (argv) that a launch of `spec` would execute."""

    def companion(self, run: str) -> RunFacts | None:
        """Return what is known of the inference server that `run` uses, if it was started
        separately and is a run of its own for the agent. Return None if the agent has not seen such
        a server.
        """

    def port_holders(self, run: str) -> Sequence[PortHolder]:
        """Return the processes that now listen on one of the ports of `run`'s servers, the run's
        own processes included. Return an empty sequence if all ports are free.
        """

    def gpu_rivals(self, run: str) -> Sequence[Holder]:
        """Return the processes of other living runs that hold more than a gigabyte on a GPU that
        the next attempt of `run` will use. Return an empty sequence if there are none, or if it is
        not certain which GPUs these are. A run that was alive beside `run` before shares a GPU on
        purpose, and its processes are left out.
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
        """Save `limit` as the soft limit of open files with which every later attempt of `run`
        starts. Running processes keep their limit.
        """

    def remote_step(self, run: str) -> Mapping[str, Any] | None:
        """Return the newest checkpoint of `run` that could be restored from the object store to
        which its checkpoints are copied. The result is a dictionary: `step`, `identity` (the hash
        of the list of its files), `asked` (the request for the restore, as it is written into the
        journal), `aside` (directories to move away), `finals` (directories of the run that will
        have the checkpoint), `bytes` (its size), `missing` (how many of these bytes have to be
        fetched) and `skipped` (newer steps that cannot be restored, with reasons). Return None if
        no object store of the run is known.

        Raises NotApplicable if the object store has no complete checkpoint, and StepFailed if it
        does not answer.
        """

    def restored(self, run: str, parameters: Mapping[str, Any]) -> bool:
        """Return True if the checkpoint of a planned restore is complete on the pod. `parameters`
        are those of the plan's step `restore_set`. Two of them say which checkpoint it is, as
        `remote_step` returned them: `asked` (the request) and `identity` (the hash of the list of
        its files).
        """

    def restore(self, run: str, parameters: Mapping[str, Any], key: str, say: Say) -> str:
        """Fetch the missing files of a checkpoint from the object store, put them where the trainer
        looks for them, and return a sentence about the result. `parameters` are those of the plan's
        step `restore_set`; in them, `asked` and `identity` say which checkpoint it is, as
        `remote_step` returned them. `key` is the action's key; `say` is called with progress
        messages. Raises an AgentError if the restore fails.
        """

    def note(self, run: str, text: str, key: str) -> None:
        """Write the note `text` about `run` into the journal. `key` is the key of the action that
        writes it.
        """

    def noted(self, run: str, text: str, key: str) -> bool:
        """Return True if the action `key` has already written the note `text` about the run."""


class Target(TypedDict, total=False):
    """One concrete thing that a step of a plan acts on: a file or directory, or a process by its
    identity. A target has only those keys that apply to it.
    """

    path: str
    """The path of a file or directory."""
    bytes: int
    """The size of what is at `path`."""
    file: str
    """The path of a file that a set-up writes."""
    directory: str
    """The directory of the checkout that a set-up makes."""
    way: str
    """How a set-up brings the code to the pod, for example "clone"."""
    sha256: str
    """The digest of the file's content, in hex."""
    pid: int
    """The pid of a process; it is identified by this and the next three keys."""
    start_ticks: int
    """When the process started, in clock ticks since the boot."""
    boot_id: str
    """The kernel's id of the boot in which the process was started."""
    pidns: int
    """The inode of the process's pid namespace."""
    component: str | None
    """The process's part in the run, for example "trainer"."""
    dead_run: str
    """The run whose ended attempt has left the process."""


class ShownProcess(TypedDict):
    """A process as a plan shows it to a person: its pid, component and command line."""

    pid: int
    component: str | None
    """Its part in the run, for example "trainer"."""
    command: str


class HashedStep(TypedDict):
    """The part of one step of a plan that the plan's hash covers: its kind, parameters and
    targets.
    """

    kind: str
    parameters: Mapping[str, Any]
    targets: Sequence[Target]


class PlannedRow(HashedStep):
    """One step of a plan as a dictionary of JSON values, as the journal holds it and a console
    shows it. `title` says what the step does, `command` is the shell command that does the same,
    and `shown` are the parameters that a person reads, by name.
    """

    title: str
    command: str
    shown: Mapping[str, Any]


@dataclass(frozen=True)
class Planned:
    """One step of a plan, of the given `kind` (such as "stop_run"). `targets` are the concrete
    things that it acts on, for example [{"path": ...}] or processes. The plan's hash covers `kind`,
    `parameters` and `targets`. `title`, `command` and `shown` (sizes, ages) are only there for the
    person who reads the plan.
    """

    kind: str
    title: str
    command: str
    parameters: Mapping[str, Any]
    targets: Sequence[Target]
    shown: Mapping[str, Any]

    def as_dict(self) -> PlannedRow:
        """Return the planned step as a dictionary of JSON values with its fields, in the form in
        which the journal has it and a console shows it.
        """
        return {
            "kind": self.kind,
            "title": self.title,
            "command": self.command,
            "parameters": dict(self.parameters),
            "targets": [t.copy() for t in self.targets],
            "shown": dict(self.shown),
        }

    @classmethod
    def from_dict(cls, data: PlannedRow) -> Planned:
        """Return the planned step in `data`, a dictionary that `as_dict` has made. Raises KeyError
        if `data` is no such dictionary.
        """
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
    """The things that a step of a playbook works with: one run on one pod, for one action.
    `pod_actions` reads and changes the pod, and `run` is the run's name. `action` is the action's
    key. `resume` is the training step of the checkpoint from which the plan resumes the run, or
    None if there is no such checkpoint. `pause(seconds)` sleeps, and raises Cancelled if the action
    is to end.
    """

    pod_actions: PodActions
    run: str
    action: str
    resume: int | None
    """The newest step that was complete on every side (for prime-rl, trainer and orchestrator) when
    the plan was made, or None.
    """
    pause: Callable[[float], None] = time.sleep
    """Sleeps for a number of seconds; raises Cancelled if the action is to end. Every wait of a
    step uses it.
    """

    def facts(self) -> RunFacts:
        """Return what is known at this moment of the run that the step works on, in the form in
        which the detectors of failures read it.
        """
        return self.pod_actions.run_facts(self.run)


class Step(Protocol):
    """One kind of step of which a playbook's repair can consist, for example "stop the run". First
    `plan` says what would be done. Later, for a plan that a person has confirmed, `done`, `check`
    and `act` are called in this order.
    """

    def plan(self, context: Context, parameters: StepSettings) -> Planned | None:
        """Return what the step would do to the run now, or None if the run does not need the step.
        `context` has the run and the pod, and `parameters` are those that the playbook gives this
        step, by name. Raises NotApplicable if the step cannot be done for this run.
        """

    def done(self, context: Context, planned: Planned) -> bool:
        """Return True if the run is already in the state that the step `planned` would leave. The
        step is then skipped.
        """

    def check(self, context: Context, planned: Planned) -> Sequence[Target]:
        """Return the concrete targets of the step `planned` as they are now, for example [{"path":
        text}] or the identities of processes. They are within the limits that a person has
        confirmed with the plan. Raises PlanChanged if the state of the run does not fit the plan
        any more.
        """

    def act(self, context: Context, planned: Planned, targets: Sequence[Target], say: Say) -> str:
        """Carry out the step `planned` and return a sentence about the result. `targets` are what
        `check` has returned, and `say` is called with progress messages. Raises StepFailed if the
        step does not reach its goal, and Refused if a safety rule forbids it.
        """


class Stepping:
    """Base class of steps for which nothing has to be checked right before they act. Only `done` is
    called, to find out if the step is needed at all.
    """

    def check(self, context: Any, planned: Planned) -> Sequence[Target]:
        """Return the targets of the step `planned` as they are in the plan, without
        checking them.
        """
        return planned.targets


class Waiting(Stepping, ABC):
    """Base class of steps that only wait until something has happened. They change nothing, so a
    newer agent may take over while they wait, and the wait begins again after a restart.
    """

    def done(self, context: Any, planned: Planned) -> bool:
        """Return False: only `wait` can tell whether there is something left to wait for."""
        return False

    @abstractmethod
    def wait(self, context: Any, say: Say) -> str:
        """Wait until what the step waits for has happened, and return a sentence about it. `say` is
        called with progress messages. Raises an AgentError if it will not happen, and Cancelled if
        the action is to end.
        """


class Unheld(Stepping):
    """Base class of steps that change only what no longer belongs to the run, such as what lies in
    its trash. Before such a step, the action gives up its reservation of the run: other actions may
    work on the run, and a stop of the run does not end this action. A newer agent may take over in
    the middle of the step and begins it again, so doing it twice must do no harm. The step does not
    begin before the journal has room for the record that it begins.
    """


def living(facts: RunFacts) -> list[Member]:
    """Return the processes of the run that are alive. `facts` is what is known of the run."""
    return [member for member in facts.members if member.alive]


def shown_processes(members: Sequence[Member]) -> list[ShownProcess]:
    """Return a dictionary for each process, as a plan shows it: its pid, component (for example
    "trainer" or "inference") and command line.
    """
    found: list[ShownProcess] = []
    for m in members:
        found.append(
            {
                "pid": m.identity.pid,
                "component": m.component,
                "command": shown_command(m.cmdline, 200),
            }
        )
    return found


def process_target(identity: Identity) -> Target:
    """Return the process `identity` as a Target, the form in which a step of a plan lists what it
    acts on.
    """
    return {
        "pid": identity.pid,
        "start_ticks": identity.start_ticks,
        "boot_id": identity.boot_id,
        "pidns": identity.pidns,
    }


def targets_at(paths: Iterable[Path | str]) -> list[Target]:
    """Return [{"path": text}] with the given paths, which is the form in which a step of a plan
    names files as its targets.
    """
    return [{"path": str(path)} for path in paths]


def moves_to_trash(paths: Iterable[Path | str]) -> str:
    """Return the `mv` commands, as one text, that move the paths to the run's trash. A plan shows
    them to a person; they are not run.
    """
    return "; ".join(f"mv {path} <trash>/" for path in paths)


def picked(data: Mapping[str, V], *names: str) -> dict[str, V]:
    """Return a dictionary with only the entries of `data` that have these names. Raises KeyError if
    one is missing.
    """
    return {name: data[name] for name in names}


def hashed_steps(steps: Sequence[Planned]) -> list[HashedStep]:
    """Return a dictionary with the kind, parameters and targets of each step. The hash of a plan
    covers these.
    """
    found: list[HashedStep] = []
    for s in steps:
        found.append({"kind": s.kind, "parameters": s.parameters, "targets": list(s.targets)})
    return found


def steps_as_dicts(steps: Sequence[Planned]) -> list[PlannedRow]:
    """Return each planned step as a dictionary, in the form in which the journal has it and a
    console shows it.
    """
    return [step.as_dict() for step in steps]


def steps_from_dicts(rows: Sequence[PlannedRow]) -> list[Planned]:
    """Return the planned steps in `rows`, dictionaries that `steps_as_dicts` has made."""
    return [Planned.from_dict(row) for row in rows]
