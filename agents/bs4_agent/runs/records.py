"""Read and write the records of a run: run.json, and spec.json, shim.json, exits.ndjson and
outcome.json of an attempt.
"""

from __future__ import annotations

import fcntl
import math
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from bs4_common.clock import boot_id
from bs4_common.files import read_json
from bs4_common.identity import Identity, IdentityFields
from bs4_common.runs.model import Attempt, End, Exit, Run
from bs4_common.states import RunState
from bs4_common.trainers.base import LaunchSpec

if TYPE_CHECKING:
    # Only for the type checker: at run time, each would take 10 KiB of the agent.
    from bs4_common.checkpoints.best import Start

    class _NewerFields(TypedDict, total=False):
        processes: int
        container: str

    class SpecFields(_NewerFields):
        """A `LaunchSpec` as run.json (of a run) and spec.json (of an attempt) have it. Records of
        older agents lack the newer fields.
        """

        run: str
        trainer: str
        config: str
        cwd: str
        output_dir: str
        resume: int | None
        overrides: list[str]
        env: dict[str, str]
        component: str
        argv: list[str]
        trainer_name: str

    class OutcomeFields(TypedDict):
        """How an attempt ended, as outcome.json has it."""

        state: RunState
        code: int | None
        signal: int | None
        t: float
        """Wall seconds since 1970."""
        good: bool | None
        detail: str

    class EndFields(TypedDict, total=False):
        """How a process ended, as the shim writes it: end.json, launcher_end.json and each line of
        exits.ndjson.
        """

        identity: IdentityFields
        code: int | None
        signal: int | None
        detail: str
        comm: str
        cmdline: str
        t: float
        """Wall seconds since 1970."""
        m: float
        """Seconds of the monotonic clock of the machine's boot with the id `b`."""
        b: str


def spec_as_dict(spec: LaunchSpec) -> SpecFields:
    """Return the launch spec as a dictionary for JSON. The files run.json (of a run) and spec.json
    (of an attempt) in the agent's home have this form.
    """
    return {
        "run": spec.run,
        "trainer": spec.trainer,
        "config": str(spec.config),
        "cwd": str(spec.cwd),
        "output_dir": str(spec.output_dir),
        "resume": spec.resume,
        "overrides": list(spec.overrides),
        "env": dict(spec.env),
        "component": spec.component,
        "argv": list(spec.argv),
        "trainer_name": spec.trainer_name,
        "processes": spec.processes,
        "container": spec.container,
    }


def spec_from_dict(data: SpecFields) -> LaunchSpec:
    """Return the launch spec in a dictionary of the form that `spec_as_dict` makes. Fields that an
    older agent did not write yet get their default values. Raises KeyError if any other field is
    missing.
    """
    return LaunchSpec(
        run=data["run"],
        trainer=data["trainer"],
        config=Path(data["config"]),
        cwd=Path(data["cwd"]),
        output_dir=Path(data["output_dir"]),
        resume=data["resume"],
        overrides=tuple(data["overrides"]),
        env=dict(data["env"]),
        component=data["component"],
        argv=tuple(data["argv"]),
        trainer_name=data["trainer_name"],
        processes=data.get("processes", 1),  # records of older agents have none
        container=data.get("container", ""),
    )


def end_as_dict(state: RunState, end: End) -> OutcomeFields:
    """Return the content of the file outcome.json in an attempt's directory, which records how the
    attempt ended. `state` is "ended" or "lost".
    """
    return {
        "state": state,
        "code": end.code,
        "signal": end.signal,
        "t": end.t,
        "good": end.good,
        "detail": end.detail,
    }


def attempt_numbers(directory: Path) -> list[int]:
    """Return the numbers of the attempts that have a directory in `directory`, the run's directory,
    lowest first. An attempt whose directory is empty counts too. The list is empty if there are no
    attempts.
    """
    try:
        names = [entry.name for entry in (directory / "attempts").iterdir()]
    except FileNotFoundError:
        return []
    return sorted(int(name) for name in names if name.isdigit())


def shim_holds(directory: Path) -> bool:
    """Return True if a living shim (the small process that starts an attempt's launcher and records
    how it ends) works on the attempt whose directory this is. It then holds a lock on the file
    shim.lock there. Return False if nobody holds the lock or there is no such file.
    """
    try:
        fd = os.open(directory / "shim.lock", os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def read_attempt(directory: Path) -> Attempt | None:
    """Return the attempt that the files in `directory`, the attempt's directory, describe. Return
    None if the directory has no record of a start.

    Its state is "ended" or "lost" (nothing recorded how it ended) only if the file outcome.json
    says so. Otherwise the state is "starting" or "running", although the processes may have ended
    since then, because files cannot show that.
    """
    spec = read_json(directory / "spec.json")
    if spec is None:
        return None
    adopted = bool(spec.get("adopted"))
    started = spec if adopted else read_json(directory / "shim.json")
    if started is None:
        return None
    executed = adopted or "exec_t" in started
    state: RunState = "running" if executed else "starting"
    end = None
    if (outcome := read_json(directory / "outcome.json")) is not None:
        state = outcome["state"]
        end = End(*(outcome[name] for name in ("code", "signal", "t", "good", "detail")))
    return Attempt(
        number=int(directory.name),
        state=state,
        shim=_identity(started.get("shim")),
        launcher=_identity(started.get("launcher")),
        started_t=started["t"],
        started_m=started["m"],
        resume=spec["launch"]["resume"],
        argv=tuple(spec["argv"]),
        end=end,
        key=spec.get("key", ""),
        adopted=adopted,
        ran=executed,
    )


def start_by_clock(attempt: Attempt) -> float:
    """Return when the attempt started, as a Unix time in seconds by the clock as it is set now.
    That is the attempt's `started_t`, or an earlier time if the clock was set back since then. Use
    the result to decide if a file was written by the attempt: after the clock was set back, a new
    file can be older than `started_t`. If the attempt belongs to an earlier boot or to another
    machine, return `started_t`.
    """
    first = attempt.shim or attempt.launcher
    if first is None or first.boot_id != boot_id():
        return attempt.started_t
    return min(attempt.started_t, time.time() - (time.monotonic() - attempt.started_m))


def starts_of(run: Run) -> list[Start]:
    """Return where and when each attempt of the run began, by which its checkpoints are judged."""
    from bs4_common.checkpoints.best import Start

    found = []
    for attempt in run.attempts:
        end = math.inf if attempt.end is None else attempt.end.t
        found.append(Start(attempt.number, attempt.resume, start_by_clock(attempt), end))
    return found


def read_exit(line: EndFields, component: str | None) -> Exit:
    """Return how a process ended, from `line`, one parsed line of the attempt's file exits.ndjson.
    `component` is the process's part in the trainer, such as "engine", or None; it is put into the
    result.
    """
    return Exit(
        Identity.from_dict(line["identity"]),
        component,
        line["code"],
        line["signal"],
        line["t"],
        line["m"],
    )


def _identity(data: IdentityFields | None) -> Identity | None:
    """Return the identity in a record, or None."""
    if data is None:
        return None
    return Identity.from_dict(data)
