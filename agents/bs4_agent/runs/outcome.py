"""Decide if an attempt is over and how it ended. Final log lines decide if it ended well; an exit
code decides that for evaluations only.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bs4_agent.runs.records import start_by_clock
from bs4_common.clock import stamp
from bs4_common.files import open_regular, read_json
from bs4_common.runs.model import Attempt, End, Member
from bs4_common.states import RunState
from bs4_common.trainers.base import Event, LaunchSpec, LogSource, Trainer
from bs4_common.trainers.grammar import finished_sides

#: Training goes on while one of these components lives, with or without its launcher.
TRAINING = frozenset({"launcher", "trainer", "rank"})

#: Bytes at a log's end in which its final lines are: some 400 lines.
_TAIL = 64 * 1024
_SIDES = ("trainer", "orchestrator")


@dataclass(frozen=True)
class Over:
    """The finding that an attempt has ended, at the Unix time `t` in seconds. `state` is "ended",
    or "lost" if nothing recorded how the attempt ended.

    `code` is the launcher's exit code and `signal` the number of the signal that ended it; both are
    None if they are not known. `note` is a sentence with what code and signal do not say, and "" if
    there is nothing to add.
    """

    state: RunState
    code: int | None
    signal: int | None
    t: float
    note: str = ""


def judge(
    directory: Path, attempt: Attempt, living: Sequence[Member], *, settled: bool
) -> Over | None:
    """Decide from the attempt's files and processes if the attempt has ended. Return how it ended,
    or None if it may still be running.

    `directory` is the attempt's directory and `living` are the attempt's living processes.
    `settled` is True if the launcher ended so long ago that its children have had the time to end
    too.
    """
    if attempt.launcher is not None and attempt.launcher.alive():
        return None
    training = any(member.component in TRAINING for member in living)
    # For a run in a container, the shim has only Docker's client, which may end before the
    # processes that it has started.
    if (end := read_json(directory / "end.json")) is not None and not training:
        return Over(
            "ended",
            end["code"],
            end["signal"],
            end.get("launcher_t") or end["t"],
            end.get("detail", ""),
        )
    shim_lives = attempt.shim is not None and attempt.shim.alive()
    if attempt.state == "starting":
        if shim_lives:
            return None
        return Over(
            "lost", None, None, stamp()["t"], "the shim ended before the launcher's program ran"
        )
    may_follow = bool(living or shim_lives) and not settled
    if training or may_follow:
        return None
    if (end := read_json(directory / "launcher_end.json")) is not None:
        return Over("ended", end["code"], end["signal"], end["t"])
    if attempt.adopted:
        return Over(
            "ended", None, None, stamp()["t"], "the run was adopted, so its exit code is not known"
        )
    if shim_lives:
        return None
    return Over("lost", None, None, stamp()["t"], "the shim is gone and left no record of the end")


def compose_end(
    trainer: Trainer,
    spec: LaunchSpec,
    attempt: Attempt,
    over: Over,
    left: Sequence[Member],
    output: Path | None = None,
) -> End:
    """Return the End of an attempt (one start of a run), which says how it ended. Code and signal
    are those of its launcher (`over`). The final lines of the logs decide whether it was a good
    end. The field `detail` of the End is a sentence for a person about all that.

    `left` are the processes of the attempt that still live; the sentence names them. `output` is
    the file with the launcher's own output, or None; some trainers print their final lines there.
    """
    words = [over.note or _how(over.code, over.signal)]
    good = False
    if spec.component == "rl":
        good = trainer.good_end(final_events(trainer, spec, start_by_clock(attempt), output))
        if trainer.layout(spec).own_log in _SIDES:
            words.append("its final line was written" if good else "its final line is not there")
        else:
            words.append(
                "both final lines were written"
                if good
                else "the final lines of trainer and orchestrator are not both there"
            )
    elif spec.component == "sft":
        last = final_events(trainer, spec, start_by_clock(attempt), output)
        good = "trainer" in finished_sides(last)
        words.append("its final line was written" if good else "its final line is not there")
    elif spec.component == "eval":
        good = over.code == 0
    if left:
        words.append(
            "still alive: "
            + ", ".join(
                f"{member.component or _name(member)} (pid {member.identity.pid})"
                for member in left[:8]
            )
        )
    return End(over.code, over.signal, over.t, good, "; ".join(words) + ".")


def final_events(
    trainer: Trainer, spec: LaunchSpec, since_t: float, output: Path | None = None
) -> list[Event]:
    """Return the events (the meanings of log lines, such as "finished") in the last 64 KiB of the
    trainer's log and of the orchestrator's log, and in those of `output`, the file with the
    launcher's own output, if the trainer prints its lines there. The list is empty if there are no
    events.

    A log that was last written before the Unix time `since_t` in seconds belongs to an earlier
    attempt and is skipped.
    """
    events = []
    logs = trainer.log_sources(spec)
    if output is not None:
        logs = [*logs, LogSource(trainer.layout(spec).own_log, output)]
    for source in logs:
        if source.source in _SIDES:
            for raw in _last_lines(source.path, since_t):
                if (
                    event := trainer.event(source.source, trainer.parse_line(source.source, raw))
                ) is not None:
                    events.append(event)
    return events


def _last_lines(path: Path, since_t: float) -> list[bytes]:
    """Return the last lines of a log as bytes. Empty if there is no such file or it was not written
    since Unix time `since_t`.
    """
    try:
        with open_regular(path) as handle:
            found = os.fstat(handle.fileno())
            if found.st_mtime < since_t:
                return []
            handle.seek(max(0, found.st_size - _TAIL))
            return handle.read(_TAIL).splitlines()
    except FileNotFoundError:
        return []


def _how(code: int | None, signum: int | None) -> str:
    """Return a phrase that says how the launcher ended."""
    if signum is not None:
        return f"the launcher was ended by {_signal_name(signum)}"
    if code is not None:
        return f"the launcher ended with exit code {code}"
    return "how the launcher ended is not known"


def _signal_name(signum: int) -> str:
    """Return the name of a signal, for example SIGKILL. A real-time signal has a number only."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"  # real-time signals have no names


def _name(member: Member) -> str:
    """Return the file name of the member's program."""
    if member.cmdline:
        return Path(member.cmdline[0]).name
    return "a process"
