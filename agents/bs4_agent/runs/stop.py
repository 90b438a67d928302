"""Stop a run: first by the rules of its trainer's generation, then end every process that is left
by descent, and at last prove that nothing holds a GPU.

Every signal is written to the attempt's stop.json before it is sent. An agent that dies in the
middle and comes back does not send it again, because a second SIGINT breaks off the launcher's own
cleaning up. It waits for the rest of the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bs4_agent.runs import ending
from bs4_agent.runs.ending import Say, Sent
from bs4_agent.runs.registry import Runs
from bs4_common.clock import boot_id, stamp
from bs4_common.errors import StepFailed
from bs4_common.files import read_json, write_json
from bs4_common.identity import Identity
from bs4_common.runs.model import KILL_S, TERM_S, Attempt, Member

#: Seconds to wait after the launcher's end for children that it signalled and did not wait for.
_AFTER_LAUNCHER_S = 5.0
#: Seconds to wait until no process holds a GPU. The driver frees memory within a second of its
#: holder's end.
_GPU_FREE_S = 30.0
#: Processes that were forked while the others were being ended are found by scanning again. A tree
#: that keeps forking cannot be ended in this way.
_SWEEPS = 5
_LOOK_S = 0.5
#: Seconds to wait for the shim's last record, and between two polls. The shim needs milliseconds,
#: and seconds on a machine that is short of cores.
_END_S, _END_LOOK_S = 10.0, 0.05

GpuHolders = Callable[[str], Sequence[Member]]


@dataclass(frozen=True)
class StopStep:
    """One stage of the stop of a run. The signal with the name `signal` (such as "SIGTERM") is sent
    to the processes `targets`. Then the stop waits up to `seconds` seconds for them to end.
    """

    signal: str
    targets: Sequence[Member]
    seconds: float

    @property
    def command(self) -> str:
        """Return the shell command `kill ...` that sends the same signal to the same processes on
        the pod, for a person to read.
        """
        return f"kill -{self.signal.removeprefix('SIG')} " + " ".join(
            str(member.identity.pid) for member in self.targets
        )


@dataclass(kw_only=True)
class StopReport:
    """What a stop of a run did. `sent` are records of the signals that were sent, `left` the
    processes of the run that still live, and `holding` those processes of the run that still hold a
    GPU. The stop has worked if both `left` and `holding` are empty. `seen` is how many processes of
    the run lived at some moment of the stop. Not all of them need a signal: some end because the
    launcher ends them, or because the one they work for has ended.

    `attempt` is the number of the run's newest attempt. `started_t` and `ended_t` are the Unix
    times in seconds at which the stop began and ended.
    """

    run: str
    attempt: int
    started_t: float
    sent: list[Sent] = field(default_factory=list)
    ended_t: float | None = None
    left: Sequence[Member] = ()
    holding: Sequence[Member] = ()
    seen: int = 0

    @property
    def ok(self) -> bool:
        """Return True if the stop has worked: no process of the run lives and none holds a GPU."""
        return not self.left and not self.holding

    @property
    def sentence(self) -> str:
        """Return a sentence, without a full stop, that says that nothing of the run is left, or
        which of its processes still live.
        """
        if self.ok:
            count = len({one.identity for one in self.sent if not one.refused})
            told = f"{_processes(count)} signalled"
            if self.seen > count:
                told = f"{_processes(self.seen)}, {count} of them signalled"
            return f"{self.run} has ended and nothing of it is left ({told})"
        return (
            f"of {self.run} there still live {_names([*self.left, *self.holding])}; a process that "
            "survives KILL waits for the kernel: release the pod if it stays"
        )


class StopRun:
    """A stop of the run with the name `run`. If the agent dies in the middle of a stop, a new
    StopRun of the same run continues it. It does not send again those signals of the trainer's stop
    policy (the signals that its processes get first) that were sent already. Raises UnknownRun if
    there is no such run.

    The function `gpu_holders(run)` returns the processes of the run that hold a GPU now. `scale`
    multiplies the waits; tests shorten them with it.
    """

    def __init__(
        self, runs: Runs, run: str, *, gpu_holders: GpuHolders = lambda run: (), scale: float = 1.0
    ) -> None:
        self._runs = runs
        self._run = runs.get(run)
        self._gpu_holders = gpu_holders
        self._scale = scale
        self._seen: set[Identity] = set()

    def plan(self) -> list[StopStep]:
        """Return the stages of a stop as they would be now: first the signals of the trainer's stop
        policy, then SIGTERM, then SIGKILL. Nothing is sent.

        Every stage lists all of its targets that live now, although a real stop sends a later
        signal only to those that have not ended by then. The list is empty if no process of the run
        lives.
        """
        living = self._living()
        if not living:
            return []
        policy = self._runs.trainer(self._run.spec).stop_policy
        launcher = self._launcher(living) if self._run.live else None
        targets = [launcher] if launcher is not None else []
        if policy.target != "launcher" and self._run.live:
            targets = living
        signals = policy.signals if targets else ()
        return [
            *(StopStep(name, targets, seconds) for name, seconds in signals),
            StopStep("SIGTERM", living, TERM_S),
            StopStep("SIGKILL", living, KILL_S),
        ]

    def done(self) -> bool:
        """Return True if there is nothing to stop: no process of any attempt of the run lives, and
        none holds a GPU.
        """
        return not self._living() and not self._gpu_holders(self._run.name)

    def execute(self, say: Say = lambda text: None) -> StopReport:
        """Stop the run and return what was done. A signal is sent only if processes of the run
        still live; nothing is sent if none lives. `say` is called with a sentence for a person at
        each stage.

        Raises StepFailed if a process of the run still lives or holds a GPU after the last stage.
        The error's message is the report's `sentence`.
        """
        attempt = self._run.attempt
        report = StopReport(run=self._run.name, attempt=self._run.number, started_t=time.time())
        if attempt is not None and not self.done():
            record = _Record(
                self._runs.attempt_directory(self._run.name, attempt.number) / "stop.json"
            )
            if attempt.end is None:
                self._by_policy(record, report, say)
            self._sweep(report, say)
            self._prove(report, say)
            record.finish()
        report.ended_t, report.seen = time.time(), len(self._seen)
        self._settle(report)
        if not report.ok:
            raise StepFailed(report.sentence + ".")
        return report

    def _by_policy(self, record: _Record, report: StopReport, say: Say) -> None:
        """Send the signals of the trainer's stop policy, each once, and wait after each."""
        policy = self._runs.trainer(self._run.spec).stop_policy
        for index, (name, seconds) in enumerate(policy.signals):
            living = self._living()
            if not living:
                return
            targets, launcher = living, None
            if policy.target == "launcher":
                launcher = self._launcher(living)
                if launcher is None:
                    return  # it has ended; who is left does not answer to it any more
                targets = [launcher]
            waited = record.waited(index)
            if waited is None:
                record.begin(index, name, targets)
                self._signal(name, targets, report, say)
                if launcher is not None:
                    self._end_stopped(living, launcher, report, say)
                record.sent()
                waited = 0.0
            self._wait(living, launcher, max(0.0, seconds * self._scale - waited))

    def _wait(self, living: Sequence[Member], launcher: Member | None, seconds: float) -> None:
        """Wait until all have ended, at most `seconds`. If only the launcher was signalled, wait no
        longer than a few seconds after its end.
        """
        deadline = time.monotonic() + seconds
        if launcher is not None:
            ending.wait_gone([launcher.identity], seconds)
            if not launcher.identity.alive():
                deadline = min(deadline, time.monotonic() + _AFTER_LAUNCHER_S * self._scale)
        while (left := self._living()) and time.monotonic() < deadline:
            ending.wait_gone(
                _identities(left),
                min(_LOOK_S, max(0.0, deadline - time.monotonic())),
            )

    def _sweep(self, report: StopReport, say: Say) -> None:
        """End what is left by descent with SIGTERM and SIGKILL, again for processes that were born
        meanwhile.
        """
        before: set[Identity] = set()
        for _ in range(_SWEEPS):
            living = self._living()
            identities = _identities(living)
            if before.issuperset(identities):
                break  # nobody, or only those who survived KILL
            before = set(identities)
            say(f"ending what is left: {_names(living)}")
            sent, _left = ending.end(identities, scale=self._scale, say=say)
            report.sent += sent
        report.left = self._living()

    def _prove(self, report: StopReport, say: Say) -> None:
        """Wait until no member holds a GPU, and note in the report who is left."""
        deadline = time.monotonic() + _GPU_FREE_S * self._scale
        while (holding := self._gpu_holders(self._run.name)) and time.monotonic() < deadline:
            time.sleep(_LOOK_S * self._scale)
        report.holding = list(holding)
        if report.ok:
            say("no process of the run is left and none holds a GPU")

    def _settle(self, report: StopReport) -> None:
        """Wait until the attempt has its end. The shim writes it after its last child has ended,
        and a start before that is refused.
        """
        deadline = time.monotonic() + _END_S
        self._runs.poll()
        while report.ok and self._run.live and time.monotonic() < deadline:
            time.sleep(_END_LOOK_S)
            self._runs.poll()

    def _signal(self, name: str, targets: Sequence[Member], report: StopReport, say: Say) -> None:
        """Send a signal to the targets and note it in the report."""
        report.sent += ending.send_all(_identities(targets), name)
        say(f"sent {name} to {_names(targets)}")

    def _end_stopped(
        self, living: Sequence[Member], launcher: Member | None, report: StopReport, say: Say
    ) -> None:
        """Kill the members that are stopped. A stopped child cannot act on what the launcher tells
        it, and the launcher would wait a minute for each.

        Waking an engine instead would let the run train on while it is being stopped.
        """
        stopped = []
        for one in living:
            if one.state in ("T", "t") and one is not launcher:
                stopped.append(one)
        if stopped:
            self._signal("SIGKILL", stopped, report, say)

    def _living(self) -> list[Member]:
        """Return every living member of any attempt, from a fresh scan of all processes."""
        self._runs.membership.observe(self._runs.table.snapshot(max_age=0.0))
        living = self._runs.membership.living(self._run.name)
        self._seen.update(_identities(living))
        return living

    def _launcher(self, living: Sequence[Member]) -> Member | None:
        """Return the trainer's launcher, or None if it has ended. That is the Python process and
        not the `uv run` around it, which is not proved to pass signals on.
        """
        attempt: Attempt | None = self._run.attempt
        if attempt is None or attempt.launcher is None:
            return None
        named = [
            member
            for member in living
            if member.component == "launcher" and member.attempt == attempt.number
        ]
        if named:
            return max(named, key=lambda member: (member.identity.start_ticks, member.identity.pid))
        return next(
            (
                member
                for member in living
                if member.identity == attempt.launcher and member.component != "uv"
            ),
            None,
        )


class _Record:
    """The file stop.json: which stage of the stop began when and for which processes, and if its
    signals are sent.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        found = read_json(path)
        self._steps: list[dict[str, Any]] = []
        if found is not None and not found["finished"]:
            self._steps = found["steps"]

    def waited(self, index: int) -> float | None:
        """Return the seconds since the signals of this step were sent, by this agent or an earlier
        one. None if they were not all sent.
        """
        for step in self._steps:
            if step["index"] == index and step["sent"] and step["b"] == boot_id():
                return max(0.0, time.monotonic() - float(step["m"]))
        return None

    def begin(self, index: int, name: str, targets: Sequence[Member]) -> None:
        """Write that the step with this index begins and which processes it signals."""
        targeted = [member.identity.as_dict() for member in targets]
        self._steps.append(
            {"index": index, "signal": name, "targets": targeted, "sent": False, **stamp()}
        )
        self._write(finished=False)

    def sent(self) -> None:
        """Write that the signals of the last step are sent."""
        self._steps[-1]["sent"] = True
        self._write(finished=False)

    def finish(self) -> None:
        """Write that the stop is finished."""
        self._write(finished=True)

    def _write(self, *, finished: bool) -> None:
        """Write the file."""
        write_json(self._path, {"steps": self._steps, "finished": finished, **stamp()})


def _processes(number: int) -> str:
    """Return the number of processes as a phrase."""
    return f"{number} process{'' if number == 1 else 'es'}"


def _identities(members: Sequence[Member]) -> list[Identity]:
    """Return the identities of these members."""
    return [member.identity for member in members]


def _names(members: Sequence[Member]) -> str:
    """Return the names of these members, for a sentence."""
    return ", ".join(_name(member) for member in members)


def _name(member: Member) -> str:
    """Return the component and the pid of a member, for a sentence."""
    return (
        f"{member.component or (member.cmdline[0] if member.cmdline else 'a process')} (pid "
        f"{member.identity.pid})"
    )
