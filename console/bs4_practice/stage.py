"""A practice pod with a console on it: the same session, the same actions, nothing
short-circuited.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bs4_console.errors import ConsoleError
from bs4_console.pods.inventory import Pod
from bs4_console.pods.mirror import Mirror
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import ActionView, IncidentView, PlanView, PodState
from bs4_console.transport.hostkeys import HostKeys
from bs4_console.transport.ssh import SshTransport
from bs4_practice import pod as practice
from bs4_practice import witness

#: Trainer ids of the command line -> the miniature's generations.
GENERATIONS = {"prime-rl-2026-01": "2026-01", "prime-rl": "current", "verl": "verl"}


class StageError(ConsoleError):
    """Raised when the practice pod did not get to where the scenario begins, or the agent has no
    plan for it.
    """


@dataclass
class Stage:
    """A practice pod with a console connected to it. `pod` is the machine, `session` the console's
    view of it, and `trainer` the trainer's id. `steps` and `trained_steps` say what really happened
    on the pod, without the console and the agent.
    """

    pod: practice.PracticePod
    session: PodSession
    trainer: str
    _afterwards: list[Callable[[], Any]] = field(default_factory=list)

    def afterwards(self, undo: Callable[[], Any]) -> None:
        """Have `undo()` called when the pod is gone, to take back something that was done to this
        machine. What was registered last is called first.
        """
        self._afterwards.append(undo)

    def undo(self) -> None:
        """Call everything that `afterwards` registered, the last first, and forget it."""
        while self._afterwards:
            self._afterwards.pop()()

    @property
    def ledger(self) -> Any:
        """Return the console's view of the agent's journal of incidents, plans and actions on this
        pod.
        """
        return self.session.state.ledger

    def steps(self, output_dir: Path | None = None) -> list[tuple[float, int]]:
        """Return every finished trainer step as (wall clock seconds, step), oldest first, as the
        trainer's own files in `output_dir` (the run's directory unless given) show them.
        """
        return witness.steps(output_dir or self.pod.run_dir, self.pod.generation)

    def trained_steps(self, output_dir: Path | None = None) -> list[tuple[float, int]]:
        """Return those of `steps` that trained on tokens and whose weights inference took. What a
        dying run prints does not count.
        """
        return witness.trained_steps(output_dir or self.pod.run_dir, self.pod.generation)

    def places(self) -> list[Path]:
        """Return the directories that hold the run's files: the pod's project, with the run's trash
        and archive beside the output directory.
        """
        return [self.pod.project]

    async def act(self, kind: str, **body: Any) -> ActionView:
        """Submit the action `kind` with the fields `body`, wait until the action has ended, and
        return its last state. Raises StageError if the action never ended, and the console's errors
        if the agent refused the action.
        """
        last: ActionView | None = None
        async for action in self.session.follow_action(await self.session.submit(kind, **body)):
            last = action
        if last is None:
            raise StageError(f"{kind} never ended.")
        return last

    async def must(self, kind: str, **body: Any) -> ActionView:
        """Carry out the action `kind` as `act` does, and return its last state. Raises StageError
        if the action did not succeed, which means that the practice pod itself is at fault.
        """
        action = await self.act(kind, **body)
        if action.state != "done":
            raise StageError(f"The practice pod could not {kind}: {action.detail}")
        return action

    async def launch(self, name: str = "demo", *, wait: bool = True, **body: Any) -> ActionView:
        """Launch the run `name` through the console, as a person would, and return the last state
        of the launch. With `wait` True the launch ends only when the run has begun to train. `body`
        holds other fields of the launch; `preflight=False` skips the checks before a start, for
        starts that they would refuse. Raises StageError if the launch fails.
        """
        spec = {
            "run": name,
            "trainer": self.trainer,
            "config": "configs/rl.toml",
            "cwd": self.pod.project.name,
            "output_dir": "outputs",
        }
        return await self.must("launch", **{**spec, "wait": wait, **body})

    async def until(self, condition: Callable[[], Any], timeout: float, what: str) -> Any:
        """Call `condition` every 100 ms until it returns a true value, and return that value.
        Raises StageError if `timeout` seconds pass first; `what` begins the message, "<what> did
        not happen within 60 s."
        """
        try:
            async with asyncio.timeout(timeout):
                while not (value := condition()):
                    await asyncio.sleep(0.1)
                return value
        except TimeoutError:
            raise StageError(f"{what} did not happen within {timeout:.0f} s.") from None

    async def incident(self, failure: str, timeout: float) -> IncidentView:
        """Wait until there is an open incident of the failure with the id `failure`, and return it.
        Raises StageError with the other open incidents if that takes longer than `timeout` seconds.
        """
        try:
            found: IncidentView = await self.until(
                lambda: next(
                    (i for i in self.ledger.open_incidents() if i.failure == failure), None
                ),
                timeout,
                f"the incident {failure}",
            )
        except StageError as error:
            others = ", ".join(sorted(i.failure for i in self.ledger.open_incidents())) or "none"
            raise StageError(f"{error.message} Open are: {others}.") from None
        return found

    async def plan(self, incident: IncidentView) -> PlanView:
        """Have the agent make a fresh plan of the playbook that `incident` names, and return the
        plan. Raises StageError with the agent's reason if it makes none.
        """
        action = await self.must(
            "plan", playbook=incident.playbook, run=incident.run, incident=incident.id
        )
        view: PlanView = self.ledger.plans[action.result["plan_hash"]]
        return view


@contextlib.asynccontextmanager
async def staged(
    trainer: str,
    *,
    step_seconds: float = 0.3,
    pace: float = 0.5,
    foreign_pids: Any = False,
    name: str = "practice",
    **settings: Any,
) -> AsyncIterator[Stage]:
    """Start a practice pod of `trainer` with the agent deployed to it over SSH, and yield the stage
    on which a scenario is played. Everything is gone afterwards. `settings` are further arguments
    of `pod.start`.
    """
    with tempfile.TemporaryDirectory(prefix="bs4-") as directory:
        root = Path(directory)
        own = {"step_seconds": step_seconds, "foreign_pids": foreign_pids, "pace": pace, **settings}
        pod = await practice.start(name, GENERATIONS[trainer], root / "p", **own)
        stage: Stage | None = None
        try:
            session = connect(pod, root / "known_hosts")
            life = asyncio.create_task(session.run())
            try:
                await session.synced(60.0)
                stage = Stage(pod, session, trainer)
                yield stage
            finally:
                life.cancel()
                await asyncio.gather(life, return_exceptions=True)
        finally:
            await pod.stop()
            if stage is not None:
                stage.undo()


def connect(pod: practice.PracticePod, known_hosts: Path, mirror: Path | None = None) -> PodSession:
    """Return a session to `pod` over SSH that is not started yet. The pod's host key is written to
    `known_hosts` beforehand, as a provider's API would give it. What the agent sends is kept below
    `mirror`, or nowhere if that is None.
    """
    hostkeys = HostKeys(known_hosts)
    hostkeys.pin(pod.name, pod.known_host_key)
    entry = inventory_entry(pod)
    return PodSession(
        PodState(name=pod.name, address=entry.address),
        lambda: SshTransport(entry, hostkeys),
        Mirror(mirror),
        "demo",
    )


def inventory_entry(pod: practice.PracticePod) -> Pod:
    """Return `pod` as an entry of the console's list of pods."""
    return Pod(
        name=pod.name,
        host=pod.host,
        port=pod.port,
        user=pod.user,
        identity_file=str(pod.key_path),
        ssh_config=False,
    )
