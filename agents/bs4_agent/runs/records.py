"""Read and write the records of a run: run.json, and spec.json, shim.json, exits.ndjson and
outcome.json of an attempt.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bs4_agent.identity import Identity
from bs4_agent.runs.files import read_json
from bs4_agent.runs.model import Attempt, End, Exit
from bs4_agent.states import RunState
from bs4_agent.trainers.base import LaunchSpec


def spec_as_dict(spec: LaunchSpec) -> dict[str, Any]:
    """Return the launch spec in the form of run.json and spec.json."""
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


def spec_from_dict(data: Mapping[str, Any]) -> LaunchSpec:
    """Return the launch spec that `spec_as_dict` wrote. Fields that older agents did not write get
    their defaults.
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


def end_as_dict(state: str, end: End) -> dict[str, Any]:
    """Return the content of outcome.json: the end of an attempt, and `state` "ended" or "lost"."""
    return {"state": state, **asdict(end)}


def attempt_numbers(directory: Path) -> list[int]:
    """Return the numbers of the attempts in a run's directory, lowest first. Empty attempt
    directories count too.
    """
    try:
        names = [entry.name for entry in (directory / "attempts").iterdir()]
    except FileNotFoundError:
        return []
    return sorted(int(name) for name in names if name.isdigit())


def shim_holds(directory: Path) -> bool:
    """Return True if a shim works on this attempt now. A shim holds the attempt's lock as long as
    it lives.
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
    """Return the attempt in `directory` as its files describe it, or None while nothing was started
    there.

    `state` is "ended" or "lost" only if outcome.json says so. Files cannot say that a process
    lives.
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


def read_exit(line: Mapping[str, Any], component: str | None) -> Exit:
    """Return the exit that one line of exits.ndjson describes."""
    return Exit(
        Identity.from_dict(line["identity"]),
        component,
        line["code"],
        line["signal"],
        line["t"],
        line["m"],
    )


def _identity(data: dict[str, Any] | None) -> Identity | None:
    """Return the identity in a record, or None."""
    if data is None:
        return None
    return Identity.from_dict(data)
