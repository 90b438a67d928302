"""Data classes of runs and their attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bs4_common.credentials.exposed import Exposed
from bs4_common.identity import Identity
from bs4_common.states import RunState
from bs4_common.trainers.base import LaunchSpec

#: Seconds for which a stop waits after SIGTERM. vLLM and torchrun need up to 5 s to end their
#: children.
TERM_S = 10.0
#: Seconds for which it waits after SIGKILL, for the kernel only. A process in uninterruptible sleep
#: (a hung driver, NFS) may never end.
KILL_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Member:
    """A process that is or was part of a run. `component` is its part in the trainer, such as
    "engine", or None if it has no such part.

    `proof` says how the process is known to belong to the run. "descent": it descends from the
    shim, the small process that started the run's launcher. "observed": it was seen in the process
    tree of a run that was started by hand, or in the run's container. `state` is the state letter
    of /proc/PID/stat when the process was last seen. `attempt` is the number of the attempt to
    which it belongs; a leftover belongs to an attempt that has ended. `exposed` are the credentials
    that its command line showed, or None if it was not read.
    """

    identity: Identity
    component: str | None
    cmdline: Sequence[str]
    alive: bool
    proof: str
    attempt: int = 0
    state: str = ""
    exposed: Sequence[Exposed] | None = None
    """The credentials that its whole command line showed (`cmdline` is only the beginning). None if
    the whole command line was not read.
    """


@dataclass(frozen=True)
class Exit:
    """How one process of an attempt ended. Exactly one of `code` (its exit code) and `signal` (the
    number of the signal that ended it) is set; the other is None. `t` is the Unix time in seconds
    and `m` the monotonic second of the end.
    """

    identity: Identity
    component: str | None
    code: int | None
    signal: int | None
    t: float
    m: float


@dataclass(frozen=True)
class End:
    """How an attempt (one start of a run) ended, at the Unix time `t` in seconds. `code` is the
    launcher's exit code and `signal` the number of the signal that ended the launcher; both are
    None if nothing recorded them. `detail` is a sentence about the end.

    `good` is True if the logs have the final lines that the trainer writes when training is
    complete. An exit code of 0 is not enough for that, except for an evaluation.
    """

    code: int | None
    signal: int | None
    t: float
    good: bool
    detail: str


@dataclass(kw_only=True)
class Attempt:
    """One start of a run, with the processes that came of it. The shim is the small process that
    starts the launcher and records how the attempt ends.

    `state` is one of these:
    - starting: the shim has not started the launcher's program yet
    - running, also if the launcher has ended and the trainer or the orchestrator still runs
    - ended; processes that do no training, such as an orphaned engine, may still live
    - lost: the shim has ended and left no record of how the attempt ended

    `key` is the id of the action that started the attempt. An `adopted` attempt, which was started
    by hand, has no shim, and its `launcher` is the process that was found running. `ran` is True if
    the launcher's program was ever started. `resume` is the step from which the trainer resumed, or
    None for a fresh start. The attempt began at `started_t` (Unix time in seconds), which is
    `started_m` in seconds of the monotonic clock. `end` says how the attempt ended; it is None as
    long as it has not.
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
    """A run that the agent knows. `adopted` is True if its newest attempt was started by hand and
    not by the agent. `attempts` are in ascending order of their numbers. `modes` maps the id of a
    playbook (a described failure with its repair) to the mode that was set for it on this run,
    which says whether the repair may run by itself.
    """

    name: str
    spec: LaunchSpec
    adopted: bool
    attempts: list[Attempt] = field(default_factory=list)
    modes: Mapping[str, str] = field(default_factory=dict)

    @property
    def attempt(self) -> Attempt | None:
        """Return the newest attempt, or None if there is none."""
        if self.attempts:
            return self.attempts[-1]
        return None

    @property
    def number(self) -> int:
        """Return the number of the newest attempt, or 0 if there is none."""
        if self.attempts:
            return self.attempts[-1].number
        return 0

    @property
    def live(self) -> bool:
        """Return True if the newest attempt is starting or running."""
        attempt = self.attempt
        return attempt is not None and attempt.state in ("starting", "running")
