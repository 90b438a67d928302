"""The practice fleet of `make demo`: one run that trains, one that ends well, and one that fails
after a while.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from bs4_console.errors import ConsoleError
from bs4_console.fleet.watched import Fleet
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import PodState
from bs4_practice import faults
from bs4_practice import pod as practice
from bs4_practice.place import belongs, place
from bs4_practice.stage import connect, shell_words

RUN = "practice"
#: The failing run trains for this many steps of a second first: time to look at a healthy one.
HEALTHY_STEPS = 40


@dataclass(frozen=True)
class Role:
    """The run that one of the three practice pods shows. `trainer` is the trainer's id, and
    `generation` says the same in the form that `pod.start` takes: "current", "2026-01" or "verl".
    `step_seconds` is the duration of a training step in seconds. The run ends after `max_steps`
    steps; with None it does not end by itself. If `fails` is True, `Practice.fail_later` kills its
    inference engine.
    """

    name: str
    trainer: str
    generation: str
    step_seconds: float
    max_steps: int | None = None
    fails: bool = False


ROLES = (
    Role("h100-a", "prime-rl", "current", 2.0),
    Role("h100-b", "prime-rl-2026-01", "2026-01", 0.5, max_steps=12),
    Role("h100-c", "prime-rl-2026-01", "2026-01", 1.0, fails=True),
)


@dataclass
class Practice:
    """Three practice pods with a console: `fleet` has the console's sessions with them, `pods` maps
    the name of each to the pod, and `shells` to the words of the command that opens a shell there.
    """

    fleet: Fleet
    pods: dict[str, practice.PracticePod]
    shells: dict[str, list[str]]
    """The command, as a list of words, that opens a shell on each pod."""

    async def stage(self) -> None:
        """Launch the run of each pod. Returns when each launch has ended; why one failed is shown
        by that pod's session.
        """
        await asyncio.gather(
            *(self._launch(role, self.fleet.sessions[role.name]) for role in ROLES)
        )

    async def fail_later(self, after: int = HEALTHY_STEPS) -> PodState:
        """Wait until the run that is to fail has reached step `after`, and kill its vLLM engine
        while it generates. Return what the console knows of its pod. Raises TimeoutError if the
        engine does not generate within 60 seconds after that step.
        """
        role = next(role for role in ROLES if role.fails)
        state = self.fleet.sessions[role.name].state
        while (run := state.runs.get(RUN)) is None or (run.step or 0) < after:
            await asyncio.sleep(0.5)
        await faults.kill_generating(self.pods[role.name])
        return state

    @staticmethod
    async def _launch(role: Role, session: PodSession) -> None:
        overrides = [] if role.max_steps is None else ["--max-steps", str(role.max_steps)]
        try:
            await session.synced(60.0)
            key = await session.submit(
                "launch",
                run=RUN,
                trainer=role.trainer,
                config="configs/rl.toml",
                cwd="prime-rl",
                output_dir="outputs",
                overrides=overrides,
            )
            async for _ in session.follow_action(key):
                pass
        except ConsoleError as error:
            session.state.progress = error.message
            session.state.changed()


@contextlib.asynccontextmanager
async def three_pods() -> AsyncIterator[Practice]:
    """Start three practice pods, and yield them for the length of a `with` block with a console's
    sessions, which are not started yet. When the block ends, the pods and their files are gone.
    Raises PodError if a pod does not come up.
    """
    with place() as root:
        pods = await _started(root)
        try:
            sessions, shells = [], {}
            for pod in pods:
                belongs(root, pod.pid)
                known_hosts = root / f"known-{pod.name}"
                sessions.append(connect(pod, known_hosts, root / "mirror" / pod.name))
                shells[pod.name] = shell_words(pod, known_hosts)
            fleet = Fleet(sessions)
            try:
                yield Practice(fleet, {pod.name: pod for pod in pods}, shells)
            finally:
                await fleet.stop()  # or its sessions would write to pods that are being ended
        finally:
            await asyncio.gather(*(pod.stop() for pod in pods))


async def _started(root: Path) -> list[practice.PracticePod]:
    """Start the three pods at once, with their files below `root`, and return them. If one does not
    come up or this is cancelled, the others have ended before that is raised.
    """
    starts = []
    for role in ROLES:
        start = practice.start(
            role.name,
            role.generation,
            root / role.name,
            step_seconds=role.step_seconds,
            pace=0.2,
        )
        starts.append(asyncio.create_task(start))
    try:
        return await asyncio.gather(*starts)
    except BaseException:
        for one in starts:
            one.cancel()
        for result in await asyncio.gather(*starts, return_exceptions=True):
            if isinstance(result, practice.PracticePod):
                await result.stop()
        raise
