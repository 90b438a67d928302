"""Runs and attempts as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bs4_agent.credentials.exposed import Exposed
from bs4_agent.identity import Identity
from bs4_agent.states import RunState
from bs4_agent.trainers.base import LaunchSpec


@dataclass(frozen=True, kw_only=True)
class Member:
    """A process that is or was of a run.

    `proof`: "descent" (descendant of the shim), "observed" (seen in an adopted root's tree), never
    anything weaker. `state` is the letter of /proc/PID/stat when it was last seen; `attempt` is the
    one it belongs to, which for a leftover is not the run's newest.
    """

    identity: Identity
    component: str | None
    cmdline: Sequence[str]
    alive: bool
    proof: str
    attempt: int = 0
    state: str = ""
    exposed: Sequence[Exposed] | None = None
    """The credentials that its whole command line showed, of which `cmdline` is the beginning;
    None where the whole was not looked at.
    """


@dataclass(frozen=True)
class Exit:
    """How one process of an attempt ended; exactly one of `code` and `signal` is set."""

    identity: Identity
    component: str | None
    code: int | None
    signal: int | None
    t: float
    m: float


@dataclass(frozen=True)
class End:
    """How an attempt ended. `good` needs both final lines; a launcher's exit code 0 alone is not
    good.
    """

    code: int | None
    signal: int | None
    t: float
    good: bool
    detail: str


@dataclass(kw_only=True)
class Attempt:
    """One process life of a run.

    `state`: starting; running (also when only the launcher has ended and trainer or orchestrator go
    on); ended (processes that do no training, an orphaned engine say, may be left: they are members
    that are alive); lost (the shim is gone and left no end). `key` is the action that started it.
    `adopted` attempts have no shim: `launcher` is the root that was found running. `ran`: whether
    the launcher's program was ever executed.
    """

    number: int
    state: RunState
    shim: Identity | None
    launcher: Identity | None
    started_t: float
    started_m: float
    resume: int | None
    argv: Sequence[str]
    end: End | None = None
    key: str = ""
    adopted: bool = False
    ran: bool = True


@dataclass
class Run:
    """A run the agent knows. `adopted`: its newest attempt was started by hand and has no shim."""

    name: str
    spec: LaunchSpec
    adopted: bool
    attempts: list[Attempt] = field(default_factory=list)
    modes: Mapping[str, str] = field(default_factory=dict)

    @property
    def attempt(self) -> Attempt | None:
        if self.attempts:
            return self.attempts[-1]
        return None

    @property
    def live(self) -> bool:
        attempt = self.attempt
        return attempt is not None and attempt.state in ("starting", "running")
