"""What steps may look at and do. `pod.Pod` is the live one; tests give their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bs4_agent.detect.facts import GpuFacts, RunFacts
from bs4_agent.identity import Identity
from bs4_agent.playbooks.ports import PortHolder
from bs4_agent.runs.model import Member
from bs4_agent.trainers.base import LaunchSpec


class World(Protocol):
    """Every method looks anew: a plan is made from what is, and preconditions are checked against
    what is.
    """

    def run_facts(self, run: str) -> RunFacts: ...

    def gpu_facts(self) -> GpuFacts: ...

    def stop(self, run: str, say: Callable[[str], None]) -> str:
        """Ends every member by the generation's policy and proves the GPUs free; StepFailed
        otherwise.
        """
        ...

    def stop_command(self, run: str) -> str:
        """What `stop` would do, as a person would type it."""
        ...

    def leftovers(self, run: str) -> Sequence[Member]:
        """Living processes of attempts of `run` that have ended."""
        ...

    def end(self, targets: Sequence[Identity], say: Callable[[str], None]) -> str:
        """TERM, ten seconds, KILL, each by identity."""
        ...

    def archive_logs(self, run: str) -> str: ...

    def trash(self, run: str, path: Path, key: str, *, everything: bool = False) -> Path:
        """One rename into the run's trash, under the action's key; Refused when a rule forbids it.

        `everything` lifts the ban on the newest complete checkpoint: only start-afresh may, after
        the run's name was typed.
        """
        ...

    def launch(self, spec: LaunchSpec, key: str) -> int:
        """Starts (or finds, by key) an attempt; returns its number."""
        ...

    def launched(self, run: str, key: str) -> int | None:
        """The attempt that was started under `key`, if any."""
        ...

    def command(self, spec: LaunchSpec) -> Sequence[str]: ...

    def companion(self, run: str) -> RunFacts | None:
        """The inference server that was started apart and that `run` uses, if the agent has seen
        it.
        """
        ...

    def port_holders(self, run: str) -> Sequence[PortHolder]:
        """Who listens on the ports that `run` serves on, now."""
        ...

    def server_answers(self, run: str) -> bool:
        """Whether the run's inference server answers /health with 200."""
        ...

    def shared_memory(self) -> Path:
        """Where the pod's shared memory is mounted."""
        ...

    def nofile(self, run: str) -> int:
        """The soft limit of open files with which the next attempt of `run` would start."""
        ...

    def hard_nofile(self) -> int: ...

    def set_nofile(self, run: str, limit: int) -> None:
        """A standing order for every later start of `run`."""
        ...

    def remote_step(self, run: str) -> Mapping[str, Any] | None:
        """What could be restored from the run's store: `step`, `identity`, `asked`, `aside`,
        `finals`, `bytes`, `missing`, `skipped`; None where no store of it is known. NotApplicable
        when it holds no whole step; StepFailed when it does not answer.
        """
        ...

    def restored(self, run: str, parameters: Mapping[str, Any]) -> bool:
        """Whether that step is complete here."""
        ...

    def restore(
        self, run: str, parameters: Mapping[str, Any], key: str, say: Callable[[str], None]
    ) -> str:
        """Fetches what is missing of that step and puts it where the trainer looks."""
        ...

    def note(self, run: str, text: str, key: str) -> None: ...

    def noted(self, run: str, text: str, key: str) -> bool: ...


@dataclass(frozen=True)
class Planned:
    """One step as it was planned. Hashed: `kind`, `parameters`, `targets`. Shown only: `title`,
    `command`, `shown` (sizes, ages).
    """

    kind: str
    title: str
    command: str
    parameters: Mapping[str, Any]
    targets: Sequence[Mapping[str, Any]]
    shown: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
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
    """Where a step acts: one run of one world, for one action."""

    world: World
    run: str
    action: str
    resume: int | None
    """The newest step that is complete on every side, decided when the plan was made; None when
    there is none.
    """
    pause: Callable[[float], None] = time.sleep
    """Sleeps for so many seconds; raises Cancelled when the action is to end. For every wait of a
    step.
    """

    def facts(self) -> RunFacts:
        return self.world.run_facts(self.run)


class Step(Protocol):
    """A typed step. `plan` may raise NotApplicable; `check` raises PlanChanged; `act` raises
    StepFailed or Refused.
    """

    def plan(self, context: Context, parameters: Mapping[str, Any]) -> Planned | None:
        """What it would do now; None when this run has no use for the step."""
        ...

    def done(self, context: Context, planned: Planned) -> bool: ...

    def check(self, context: Context, planned: Planned) -> Sequence[Mapping[str, Any]]:
        """The concrete targets right now, within what was confirmed."""
        ...

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Mapping[str, Any]],
        say: Callable[[str], None],
    ) -> str: ...
