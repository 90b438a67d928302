"""What steps may read and do on a pod. `pod.Pod` is the live one; tests have their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bs4_agent.credentials.forms import shown_command
from bs4_agent.detect.facts import GpuFacts, RunFacts
from bs4_agent.identity import Identity
from bs4_agent.playbooks.ports import PortHolder
from bs4_agent.runs.model import Member
from bs4_agent.trainers.base import LaunchSpec


class PodActions(Protocol):
    """The pod actions that steps can use. Every method reads the current state: a plan is made from
    the current state, and preconditions are checked against it.
    """

    def run_facts(self, run: str) -> RunFacts:
        """Return the facts of the run as they are now."""

    def gpu_facts(self) -> GpuFacts:
        """Return the facts of the GPUs as they are now."""

    def stop(self, run: str, say: Callable[[str], None]) -> str:
        """End every process of the run by the rules of its trainer generation, and return a
        sentence about the result. `say` receives progress messages. Raises StepFailed if a process
        or its GPU memory remains.
        """
        ...

    def stop_command(self, run: str) -> str:
        """Return what `stop` would do, as the command that a person would type."""
        ...

    def leftovers(self, run: str) -> Sequence[Member]:
        """Return the living processes of attempts of `run` that have ended."""
        ...

    def end(self, targets: Sequence[Identity], say: Callable[[str], None]) -> str:
        """End processes by their identity: SIGTERM, ten seconds, then SIGKILL. Return a sentence
        about the result.
        """
        ...

    def archive_logs(self, run: str) -> str:
        """Archive the logs of the run and return a sentence about the result."""

    def trash(self, run: str, path: Path, key: str, *, everything: bool = False) -> Path:
        """Move `path` with one rename into the run's trash, under the action's key, and return its
        new path. Raises Refused if a rule forbids it.

        `everything` lifts the ban on the newest complete checkpoint. Only start-afresh may use it,
        after a person has typed the run's name.
        """
        ...

    def launch(self, spec: LaunchSpec, key: str) -> int:
        """Start an attempt, or find the attempt that `key` has started, and return its number."""
        ...

    def launched(self, run: str, key: str) -> int | None:
        """Return the number of the attempt that was started under `key`, or None."""
        ...

    def command(self, spec: LaunchSpec) -> Sequence[str]:
        """Return the argv of a launch."""

    def companion(self, run: str) -> RunFacts | None:
        """Return the facts of the inference server that was started apart and that `run` uses, or
        None if the agent has not seen it.
        """
        ...

    def port_holders(self, run: str) -> Sequence[PortHolder]:
        """Return the processes that listen now on the ports on which `run` serves."""
        ...

    def server_answers(self, run: str) -> bool:
        """Return True if the run's inference server answers /health with 200."""
        ...

    def shared_memory(self) -> Path:
        """Return the path at which the pod's shared memory is mounted."""
        ...

    def nofile(self, run: str) -> int:
        """Return the soft limit of open files with which the next attempt of `run` would start."""
        ...

    def hard_nofile(self) -> int:
        """Return the hard limit of open files of the pod."""

    def set_nofile(self, run: str, limit: int) -> None:
        """Order a limit of open files for every later start of `run`."""
        ...

    def remote_step(self, run: str) -> Mapping[str, Any] | None:
        """Return what could be restored from the run's store: `step`, `identity`, `asked`, `aside`,
        `finals`, `bytes`, `missing` and `skipped`. Return None if no store of the run is known.
        Raises NotApplicable if the store has no complete step, and StepFailed if it does not
        answer.
        """
        ...

    def restored(self, run: str, parameters: Mapping[str, Any]) -> bool:
        """Return True if the step in `parameters` is complete on the pod."""
        ...

    def restore(
        self, run: str, parameters: Mapping[str, Any], key: str, say: Callable[[str], None]
    ) -> str:
        """Fetch the missing files of the step, put them where the trainer looks for them, and
        return a sentence about the result.
        """
        ...

    def note(self, run: str, text: str, key: str) -> None:
        """Write a note about the run into the journal, under the action's key."""

    def noted(self, run: str, text: str, key: str) -> bool:
        """Return True if the action `key` has written this note already."""


@dataclass(frozen=True)
class Planned:
    """One step as it was planned. The plan's hash covers `kind`, `parameters` and `targets`;
    `title`, `command` and `shown` (sizes, ages) are only shown.
    """

    kind: str
    title: str
    command: str
    parameters: Mapping[str, Any]
    targets: Sequence[Mapping[str, Any]]
    shown: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Return the step as it is journalled and shown."""
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
        """Return the step that `as_dict` has written."""
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
    """The context of a step: one run on one pod, for one action. `action` is the action's key."""

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
        """Return the facts of the run as they are now."""
        return self.pod_actions.run_facts(self.run)


class Step(Protocol):
    """One kind of step that a playbook can use."""

    def plan(self, context: Context, parameters: Mapping[str, Any]) -> Planned | None:
        """Return what the step would do now, or None if this run does not need it. May raise
        NotApplicable.
        """
        ...

    def done(self, context: Context, planned: Planned) -> bool:
        """Return True if the run already is as the planned step would leave it."""

    def check(self, context: Context, planned: Planned) -> Sequence[Mapping[str, Any]]:
        """Return the concrete targets as they are now, within what was confirmed. Raises
        PlanChanged if they no longer fit the plan.
        """
        ...

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Mapping[str, Any]],
        say: Callable[[str], None],
    ) -> str:
        """Carry out the step on the targets and return a sentence about the result. `say` receives
        progress messages. Raises StepFailed or Refused.
        """


class Stepping:
    """Base class of steps that check nothing beyond what `done` has seen."""

    def check(self, context: Any, planned: Planned) -> Sequence[Mapping[str, Any]]:
        """Return the targets as they were planned."""
        return planned.targets


def living(facts: RunFacts) -> list[Member]:
    """Return the processes of the run that are alive."""
    return [member for member in facts.members if member.alive]


def shown_processes(members: Sequence[Member]) -> list[dict[str, Any]]:
    """Return the pid, component and command of each process, as a plan shows them."""
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
    """Return the paths as the targets of a step."""
    return [{"path": str(path)} for path in paths]


def moves_to_trash(paths: Iterable[Path | str]) -> str:
    """Return the command that a plan shows for moving the paths to the run's trash."""
    return "; ".join(f"mv {path} <trash>/" for path in paths)


def picked(data: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the values in `data` that have these names."""
    return {name: data[name] for name in names}


def hashed_steps(steps: Sequence[Planned]) -> list[dict[str, Any]]:
    """Return the parts of the steps that the hash of their plan covers."""
    found = []
    for s in steps:
        found.append({"kind": s.kind, "parameters": s.parameters, "targets": list(s.targets)})
    return found


def steps_as_dicts(steps: Sequence[Planned]) -> list[dict[str, Any]]:
    """Return the steps as they are journalled and shown."""
    return [step.as_dict() for step in steps]


def steps_from_dicts(rows: Sequence[Mapping[str, Any]]) -> list[Planned]:
    """Return the steps that `steps_as_dicts` has written."""
    return [Planned.from_dict(row) for row in rows]
