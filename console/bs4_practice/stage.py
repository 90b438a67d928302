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
    """The practice pod did not get to where the scenario begins, or the agent has no plan for
    it.
    """


@dataclass
class Stage:
    """`pod` is the machine, `session` the console's view of it. The witness's own look is in
    `steps` and `files`.
    """

    pod: practice.PracticePod
    session: PodSession
    trainer: str
    _afterwards: list[Callable[[], Any]] = field(default_factory=list)

    def afterwards(self, undo: Callable[[], Any]) -> None:
        """What is to be undone on this machine once the pod is gone; the last first."""
        self._afterwards.append(undo)

    def undo(self) -> None:
        while self._afterwards:
            self._afterwards.pop()()

    @property
    def ledger(self) -> Any:
        return self.session.state.ledger

    def steps(self, output_dir: Path | None = None) -> list[tuple[float, int]]:
        """(wall time, step) of every finished trainer step, as the witness reads it from the
        trainer's own files.
        """
        return witness.steps(output_dir or self.pod.run_dir, self.pod.generation)

    def trained_steps(self, output_dir: Path | None = None) -> list[tuple[float, int]]:
        """Those of `steps` that trained on tokens and whose weights inference took: what a dying
        run prints does not count.
        """
        return witness.trained_steps(output_dir or self.pod.run_dir, self.pod.generation)

    def places(self) -> list[Path]:
        """Where the run's files are: its project, its trash and archive beside the output directory
        included.
        """
        return [self.pod.project]

    async def act(self, kind: str, **body: Any) -> ActionView:
        """Submit an action and wait for its end."""
        last: ActionView | None = None
        async for action in self.session.follow_action(await self.session.submit(kind, **body)):
            last = action
        if last is None:
            raise StageError(f"{kind} never ended.")
        return last

    async def must(self, kind: str, **body: Any) -> ActionView:
        """`act`, where anything but success means that the practice pod itself is at fault."""
        action = await self.act(kind, **body)
        if action.state != "done":
            raise StageError(f"The practice pod could not {kind}: {action.detail}")
        return action

    async def launch(self, name: str = "demo", *, wait: bool = True, **body: Any) -> ActionView:
        """Through the console, as a person would; `preflight=False` is for starts that it would
        refuse.
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
        """The condition's first true value; StageError says what was waited for."""
        try:
            async with asyncio.timeout(timeout):
                while not (value := condition()):
                    await asyncio.sleep(0.1)
                return value
        except TimeoutError:
            raise StageError(f"{what} did not happen within {timeout:.0f} s.") from None

    async def incident(self, failure: str, timeout: float) -> IncidentView:
        """The open incident of this failure, once there is one."""
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
        """A fresh plan for what the incident names; StageError with the agent's reason when it has
        none.
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
    """A pod that is up, with the agent deployed to it over SSH, and everything gone afterwards.
    `settings`: as of `pod.start`.
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
    """A session over real SSH, the pod's key pinned beforehand as a provider's API would give
    it.
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
    return Pod(
        name=pod.name,
        host=pod.host,
        port=pod.port,
        user=pod.user,
        identity_file=str(pod.key_path),
        ssh_config=False,
    )
