"""A practice pod with a console on it: the same session, the same actions, nothing
short-circuited.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bs4_console.errors import ConsoleError
from bs4_console.pods import shell
from bs4_console.pods.inventory import Pod
from bs4_console.pods.mirror import Mirror
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import ActionView, IncidentView, PlanView, PodState
from bs4_console.transport.hostkeys import HostKeys
from bs4_console.transport.ssh import SshTransport
from bs4_practice import pod as practice
from bs4_practice import witness
from bs4_practice.place import belongs, place

#: Trainer ids of the command line -> the miniature's generations.
GENERATIONS = {"prime-rl-2026-01": "2026-01", "prime-rl": "current", "verl": "verl"}

#: Seconds for a new pod to get its agent and to send its state. A busy machine takes some minutes.
_UP_S = 240.0


class StageError(ConsoleError):
    """Raised when something on the practice pod does not happen as the scenario needs it: the pod
    does not reach the state in which it is to be broken, an expected incident does not come, an
    action fails, or the agent makes no plan.
    """


@dataclass
class Stage:
    """A practice pod with a console connected to it. `pod` is the pod, `session` the console's
    session with the pod's agent, and `trainer` the id of the trainer on it, such as "prime-rl".
    `steps` and `trained_steps` say what really happened on the pod, from the trainer's own files
    and without the console and the agent.
    """

    pod: practice.PracticePod
    session: PodSession
    trainer: str
    _afterwards: list[Callable[[], Any]] = field(default_factory=list)

    def afterwards(self, undo: Callable[[], Any]) -> None:
        """Register `undo` to be called when the pod is gone, to take back a change to this machine,
        such as a mounted disk. Functions that were registered later are called earlier.
        """
        self._afterwards.append(undo)

    def undo(self) -> None:
        """Call the functions that `afterwards` registered, the last one first. Each is called only
        once.
        """
        while self._afterwards:
            self._afterwards.pop()()

    @property
    def ledger(self) -> Any:
        """Return the console's view of the agent's journal of incidents, plans and actions on this
        pod.
        """
        return self.session.state.ledger

    def steps(self, output_dir: Path | None = None) -> list[tuple[float, int]]:
        """Return every finished step of the trainer as (seconds since the epoch, step), oldest
        first. It is read from the trainer's own files in `output_dir`; None takes the directory of
        the pod's run.
        """
        return witness.steps(output_dir or self.pod.run_dir, self.pod.generation)

    def trained_steps(self, output_dir: Path | None = None) -> list[tuple[float, int]]:
        """Return those finished steps of the trainer that had tokens to train on and whose weights
        the inference server then took, as (seconds since the epoch, step), oldest first. Steps that
        a failing run only prints do not count. They are read from the trainer's own files in
        `output_dir`; None takes the directory of the pod's run.
        """
        return witness.trained_steps(output_dir or self.pod.run_dir, self.pod.generation)

    def places(self) -> list[Path]:
        """Return the directories that hold all files of the run: the pod's project, in which its
        output directory, its trash and its archive of logs lie.
        """
        return [self.pod.project]

    async def act(self, kind: str, **body: Any) -> ActionView:
        """Have the agent carry out an action, wait until it has ended, and return its last state.
        `kind` is what to do, such as "launch", "stop", "plan" or "playbook", and `body` are its
        arguments, such as `run`. An action that failed is returned too. Raises StageError if the
        action does not end, and another ConsoleError if the agent refuses it.
        """
        last: ActionView | None = None
        async for action in self.session.follow_action(await self.session.submit(kind, **body)):
            last = action
        if last is None:
            raise StageError(f"{kind} never ended.")
        return last

    async def must(self, kind: str, **body: Any) -> ActionView:
        """Have the agent carry out an action as `act` does, which also explains the arguments, and
        return its last state. Raises StageError if the action fails.
        """
        action = await self.act(kind, **body)
        if action.state != "done":
            raise StageError(f"The practice pod could not {kind}: {action.detail}")
        return action

    async def launch(self, name: str = "demo", *, wait: bool = True, **body: Any) -> ActionView:
        """Launch the run `name` through the console, as a person would, and return the last state
        of the launch. With `wait` the launch ends only when the run has begun to train, otherwise
        as soon as it is started. `body` are further arguments of the launch, for example `resume`
        (a step); with `preflight=False` the checks before a launch are skipped. Raises StageError
        if the launch fails.
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
        """Have the agent plan the playbook that repairs `incident`, and return the plan. Raises
        StageError with the agent's reason if it makes none.
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
    """Start a practice pod with the trainer of the id `trainer`, deploy the agent to it over SSH,
    and yield it as a Stage for the length of a `with` block. When the block ends, the pod and its
    files are gone. `step_seconds`, `pace`, `foreign_pids`, `name` and `settings` are passed to
    `bs4_practice.pod.start`. Raises PodError if the pod does not come up.
    """
    with place() as root:
        own = {"step_seconds": step_seconds, "foreign_pids": foreign_pids, "pace": pace, **settings}
        pod = await practice.start(name, GENERATIONS[trainer], root / "p", **own)
        stage: Stage | None = None
        try:
            belongs(root, pod.pid)
            session = connect(pod, root / "known_hosts")
            life = asyncio.create_task(session.run())
            try:
                await session.synced(_UP_S)
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
    """Return a session with the practice pod over SSH, not started yet. The pod's host key is
    written to the file `known_hosts`, as a console does with the key that a provider names. What
    the agent sends is kept in the directory `mirror`; None keeps nothing.
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


def shell_words(pod: practice.PracticePod, known_hosts: Path) -> list[str]:
    """Return the command, as a list of words, that opens a shell on the practice pod. The pod's
    host key is in the file `known_hosts`.
    """
    program, *words = shell.of_pod(inventory_entry(pod))
    # ssh takes the first value of an option that is given twice.
    known = ["-o", f'UserKnownHostsFile="{known_hosts}"', "-o", f"HostKeyAlias={pod.name}"]
    return [program, *known, *words]


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
