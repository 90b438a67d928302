"""Stop a run: by its generation's own rules first, then whatever is left of it by descent, then
proof that nothing holds a GPU.

Every signal is written to the attempt's stop.json before it is sent. An agent that dies in the
middle and comes back does not send it again (a second SIGINT breaks off the launcher's own cleaning
up) but waits for the rest of the time that it had.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bs4_agent.clock import boot_id, stamp
from bs4_agent.errors import StepFailed
from bs4_agent.identity import Identity
from bs4_agent.runs import ending
from bs4_agent.runs.ending import Say, Sent
from bs4_agent.runs.files import read_json, write_json
from bs4_agent.runs.model import Attempt, Member
from bs4_agent.runs.registry import Runs

#: After the launcher itself has ended, for children that it told to go and did not wait for.
_AFTER_LAUNCHER_S = 5.0
#: The driver frees memory within a second of its holder's end.
_GPU_FREE_S = 30.0
#: Processes that were forked while the others were being ended are found by looking again; a tree
#: that keeps forking is not ours to win.
_SWEEPS = 5
_LOOK_S = 0.5
#: The shim needs milliseconds for its last record, on a machine that is short of cores seconds.
_END_S, _END_LOOK_S = 10.0, 0.05

GpuHolders = Callable[[str], Sequence[Member]]


@dataclass(frozen=True)
class StopStep:
    """One step of a stop: `signal` to `targets`, then up to `seconds` for them to end."""

    signal: str
    targets: Sequence[Member]
    seconds: float

    @property
    def command(self) -> str:
        """As a person would type it."""
        return f"kill -{self.signal.removeprefix('SIG')} " + " ".join(
            str(member.identity.pid) for member in self.targets
        )


@dataclass(kw_only=True)
class StopReport:
    """What a stop did. `left`: members that still live; `holding`: members that still hold a GPU.
    Both empty = it worked.
    """

    run: str
    attempt: int
    started_t: float
    sent: list[Sent] = field(default_factory=list)
    ended_t: float | None = None
    left: Sequence[Member] = ()
    holding: Sequence[Member] = ()

    @property
    def ok(self) -> bool:
        return not self.left and not self.holding

    @property
    def sentence(self) -> str:
        if self.ok:
            count = len({one.identity for one in self.sent if not one.refused})
            return (
                f"{self.run} has ended and nothing of it is left ({count} "
                f"process{'' if count == 1 else 'es'} signalled)"
            )
        members = ", ".join(_name(member) for member in [*self.left, *self.holding])
        return (
            f"of {self.run} there still live {members}; a process that survives KILL waits for "
            "the kernel: release the pod if it stays"
        )


class StopRun:
    """A stop that can be begun again at any point. `gpu_holders(run)`: the members that hold a GPU
    now. `scale` shortens waits in tests.
    """

    def __init__(
        self, runs: Runs, run: str, *, gpu_holders: GpuHolders = lambda run: (), scale: float = 1.0
    ) -> None:
        self._runs = runs
        self._run = runs.get(run)
        self._gpu_holders = gpu_holders
        self._scale = scale

    def plan(self) -> list[StopStep]:
        """The steps as they would be taken now; later ones are for whoever still lives then."""
        living = self._living()
        if not living:
            return []
        policy = self._runs.trainer(self._run.spec).stop_policy
        targets = living
        if policy.target == "launcher" or not self._run.live:
            launcher = None
            if self._run.live:
                launcher = self._launcher(living)
            targets = [launcher] if launcher is not None else []
        steps = []
        for name, seconds in policy.signals:
            if targets:
                steps.append(StopStep(name, targets, seconds))
        return [
            *steps,
            StopStep("SIGTERM", living, ending.TERM_S),
            StopStep("SIGKILL", living, ending.KILL_S),
        ]

    def done(self) -> bool:
        """Nothing of the run lives and nothing of it holds a GPU."""
        return not self._living() and not self._gpu_holders(self._run.name)

    def execute(self, say: Say = lambda text: None) -> StopReport:
        """Take every step that is needed. StepFailed, with the report's sentence, when something of
        the run is left.
        """
        attempt = self._run.attempt
        report = StopReport(
            run=self._run.name,
            attempt=attempt.number if attempt is not None else 0,
            started_t=time.time(),
        )
        if attempt is not None and not self.done():
            record = _Record(
                self._runs.attempt_directory(self._run.name, attempt.number) / "stop.json"
            )
            if attempt.end is None:
                self._by_policy(record, report, say)
            self._sweep(report, say)
            self._prove(report, say)
            record.finish()
        report.ended_t = time.time()
        self._settle(report)
        if not report.ok:
            raise StepFailed(report.sentence + ".")
        return report

    def _by_policy(self, record: _Record, report: StopReport, say: Say) -> None:
        policy = self._runs.trainer(self._run.spec).stop_policy
        for index, (name, seconds) in enumerate(policy.signals):
            living = self._living()
            if not living:
                return
            launcher = self._launcher(living)
            if policy.target == "launcher" and launcher is None:
                return  # it has ended; who is left does not answer to it any more
            if policy.target == "launcher" and launcher is not None:
                targets = [launcher]
            else:
                targets = living
            waited = record.waited(index)
            if waited is None:
                record.begin(index, name, targets)
                self._signal(name, targets, report, say)
                if policy.target == "launcher":
                    self._end_stopped(living, launcher, report, say)
                record.sent()
                waited = 0.0
            self._wait(
                living,
                launcher if policy.target == "launcher" else None,
                max(0.0, seconds * self._scale - waited),
            )

    def _wait(self, living: Sequence[Member], launcher: Member | None, seconds: float) -> None:
        """Until all have ended, or, where only the launcher was told, a little after it has
        ended.
        """
        deadline = time.monotonic() + seconds
        if launcher is not None:
            ending.wait_gone([launcher.identity], seconds)
            if not launcher.identity.alive():
                deadline = min(deadline, time.monotonic() + _AFTER_LAUNCHER_S * self._scale)
        while (left := self._living()) and time.monotonic() < deadline:
            ending.wait_gone(
                [member.identity for member in left],
                min(_LOOK_S, max(0.0, deadline - time.monotonic())),
            )

    def _sweep(self, report: StopReport, say: Say) -> None:
        """TERM and KILL for whoever is left by descent, again for those that were born
        meanwhile.
        """
        before: set[Identity] = set()
        for _ in range(_SWEEPS):
            living = self._living()
            if {member.identity for member in living} <= before:
                break  # nobody, or only those who survived KILL
            before = {member.identity for member in living}
            say("ending what is left: " + ", ".join(_name(member) for member in living))
            sent, _left = ending.end(
                [member.identity for member in living], scale=self._scale, say=say
            )
            report.sent += sent
        report.left = self._living()

    def _prove(self, report: StopReport, say: Say) -> None:
        deadline = time.monotonic() + _GPU_FREE_S * self._scale
        while (holding := self._gpu_holders(self._run.name)) and time.monotonic() < deadline:
            time.sleep(_LOOK_S * self._scale)
        report.holding = list(holding)
        if report.ok:
            say("no process of the run is left and none holds a GPU")

    def _settle(self, report: StopReport) -> None:
        """Until the attempt has its end: the shim writes it down after its last child, and a start
        that comes before that is refused.
        """
        deadline = time.monotonic() + _END_S
        self._runs.poll()
        while report.ok and self._run.live and time.monotonic() < deadline:
            time.sleep(_END_LOOK_S)
            self._runs.poll()

    def _signal(self, name: str, targets: Sequence[Member], report: StopReport, say: Say) -> None:
        sent = []
        for member in targets:
            if (result := ending.send(member.identity, name)) is not None:
                sent.append(result)
        report.sent += sent
        say(f"sent {name} to " + ", ".join(_name(member) for member in targets))

    def _end_stopped(
        self, living: Sequence[Member], launcher: Member | None, report: StopReport, say: Say
    ) -> None:
        """A stopped child cannot act on what the launcher tells it, and the launcher would wait a
        minute for each. Waking an engine would let the run train on while it is being stopped, so
        what is stopped ends here.
        """
        stopped = []
        for member in living:
            if member.state in ("T", "t") and member is not launcher:
                stopped.append(member)
        if stopped:
            self._signal("SIGKILL", stopped, report, say)

    def _living(self) -> list[Member]:
        """Every member of any attempt that lives now, by a fresh look at all processes."""
        self._runs.membership.observe(self._runs.table.snapshot(max_age=0.0))
        return self._runs.membership.living(self._run.name)

    def _launcher(self, living: Sequence[Member]) -> Member | None:
        """The trainer's launcher: the Python process, not the `uv run` around it, of which it is
        not proved that it passes signals on.
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
    """stop.json: which step was begun when and for whom, and whether its signals are out."""

    def __init__(self, path: Path) -> None:
        self._path = path
        found = read_json(path)
        self._steps: list[dict[str, Any]]
        if found is not None and not found["finished"]:
            self._steps = found["steps"]
        else:
            self._steps = []

    def waited(self, index: int) -> float | None:
        """Seconds since the signals of this step were sent, by us or a predecessor; None when they
        were not, or not all of them.
        """
        for step in self._steps:
            if step["index"] == index and step["sent"] and step["b"] == boot_id():
                return max(0.0, time.monotonic() - float(step["m"]))
        return None

    def begin(self, index: int, name: str, targets: Sequence[Member]) -> None:
        targeted = []
        for member in targets:
            targeted.append(member.identity.as_dict())
        self._steps.append(
            {"index": index, "signal": name, "targets": targeted, "sent": False, **stamp()}
        )
        self._write(finished=False)

    def sent(self) -> None:
        self._steps[-1]["sent"] = True
        self._write(finished=False)

    def finish(self) -> None:
        self._write(finished=True)

    def _write(self, *, finished: bool) -> None:
        write_json(self._path, {"steps": self._steps, "finished": finished, **stamp()})


def _name(member: Member) -> str:
    return (
        f"{member.component or (member.cmdline[0] if member.cmdline else 'a process')} (pid "
        f"{member.identity.pid})"
    )
