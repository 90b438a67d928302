"""Starting an attempt of a run under a shim, at most once for an action's key, whichever process
dies in between.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import bs4_agent
from bs4_agent.containers import inside
from bs4_agent.launch import validation
from bs4_agent.launch.environment import inherited
from bs4_agent.runs.archive import archive_logs
from bs4_agent.runs.places import overlapping
from bs4_agent.runs.records import attempt_numbers, read_attempt, shim_holds, spec_as_dict
from bs4_agent.runs.registry import Runs
from bs4_agent.shim import ALREADY_STARTED, CANNOT_EXECUTE
from bs4_common.credentials.redaction import holds_marker
from bs4_common.errors import LaunchFailed, RunExists
from bs4_common.files import read_json, write_json
from bs4_common.ids import safe_name
from bs4_common.programs import which
from bs4_common.runs.model import Attempt
from bs4_common.trainers import settings
from bs4_common.trainers.base import LaunchSpec

#: Seconds from the shim's start to the launcher's exec: 0.1 s here. A pod's cold network disk may
#: take several.
_START_S = 15.0
_LOOK_S = 0.02

#: Directories of people's `uv` that a non-interactive login has not put on the PATH: its
#: installer's and cargo's.
_ALSO_ON_PATH = ("~/.local/bin", "~/.cargo/bin", "/usr/local/bin")

#: The interpreter must find this package without PYTHONPATH, which the launcher would inherit.
_SHIM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from bs4_agent.shim import main; "
    "sys.exit(main(sys.argv[1:]))"
)


def launch(runs: Runs, spec: LaunchSpec, *, key: str, leftovers_ok: bool = False) -> Attempt:
    """Start the next attempt of the run `spec.run`, and return it once the program of its launcher
    runs. `key` is the key of the action; if an attempt was started with it before, that attempt is
    returned and nothing is started. The logs of the earlier attempt are archived first, because
    trainers delete them.

    Raises RunExists if the run lives, if processes of an ended attempt of it are left (unless
    `leftovers_ok`), or if another live run uses its directories. Raises BadRequest if the name of
    the run is not allowed, BadConfig if the config cannot be used, and LaunchFailed if the program
    cannot be started.
    """
    safe_name(spec.run)
    with runs.launch_lock(spec.run):
        if (done := runs.launched(spec.run, key)) is not None:
            runs.poll()
            return done
        directory = _unstarted(runs, spec.run, key)
        if directory is None:
            argv, environment = startable(runs, spec, leftovers_ok=leftovers_ok)
            directory = _prepare(runs, spec, argv, environment, key)
        try:
            start_shim(directory)
            attempt = _wait(directory)
            if spec.container:
                runs.reload(spec.run)
                inside.await_start(runs, spec.run, attempt.number)
            return attempt
        finally:
            runs.reload(spec.run)
            runs.poll()


def _unstarted(runs: Runs, run: str, key: str) -> Path | None:
    """Return the directory of an attempt that was prepared under this key and never ran because a
    process died, or None.
    """
    for number in attempt_numbers(runs.home.run(run)):
        directory = runs.attempt_directory(run, number)
        spec = read_json(directory / "spec.json")
        if (
            spec is not None
            and spec.get("key") == key
            and (shim_holds(directory) or not (directory / "shim.json").exists())
        ):
            return directory
    return None


def startable(
    runs: Runs, spec: LaunchSpec, *, leftovers_ok: bool = False
) -> tuple[list[str], dict[str, str]]:
    """Return two things about a launch that could start now: its command as a list of words, and
    the variables to add to the environment, by name. Nothing is started or changed.

    Raises an error if the launch could not start. It is RunExists if a run, or processes of an
    ended attempt (these only without `leftovers_ok`), are in the way. It is LaunchFailed if a
    directory or the program is missing, or if a secret in the spec was replaced by a marker such as
    "[redacted]". It is BadConfig if the config cannot be used.
    """
    _refuse_what_runs(runs, spec, leftovers_ok=leftovers_ok)
    _refuse_redacted(spec)
    if not spec.cwd.is_dir():
        raise LaunchFailed(
            f"There is no directory {spec.cwd} on this pod; name the one that the trainer "
            "runs in with --cwd."
        )
    if not spec.argv:
        settings.settings_of(
            spec
        )  # BadConfig here, and not a traceback in a log that nobody has opened yet
    runs.trainer(spec).max_steps(spec)
    argv, environment = composed(runs, spec)
    if (path := _path_with(argv[0], {**os.environ, **environment}, spec.cwd)) is not None:
        environment["PATH"] = path
    return argv, environment


def composed(runs: Runs, spec: LaunchSpec) -> tuple[list[str], dict[str, str]]:
    """Return two things for a launch: the command to execute, as a list of words, and the
    environment variables to add to the agent's own, by name. For a run in a container they are
    those of Docker's client. Raises LaunchFailed if the container does not run or does not see the
    run's directories. Raises BadRequest if a variable of the config looks like a secret.
    """
    argv = runs.trainer(spec).command(spec)
    environment = {
        **inherited(runs.home, spec.cwd),
        **validation.environment(runs.trainer(spec).environment(spec)),
        **spec.env,
    }
    if spec.container:
        return inside.command(spec, argv, environment)
    return (argv, environment)


def _refuse_what_runs(runs: Runs, spec: LaunchSpec, *, leftovers_ok: bool) -> None:
    """Raise RunExists if the run lives, if processes of it are left, or if another live run uses
    its directories.
    """
    for run in runs.all():
        if run.name == spec.run and run.live:
            number = run.attempt.number if run.attempt is not None else 0
            raise RunExists(
                f"{run.name} runs already (attempt {number}); stop it first, or give "
                "the new run another name."
            )
        if run.name == spec.run and not leftovers_ok and (left := runs.leftovers(run.name)):
            pids = ", ".join(
                f"{member.component or 'a process'} (pid {member.identity.pid})"
                for member in left[:8]
            )
            raise RunExists(
                f"Of an earlier attempt of {run.name} there still live {pids}; stop "
                f"{run.name} to end them, then launch again."
            )
        if run.name != spec.run and run.live and run.spec.component == spec.component == "rl":
            shared = overlapping(
                runs.trainer(run.spec).layout(run.spec), runs.trainer(spec).layout(spec)
            )
            if shared is not None:
                raise RunExists(
                    f"{run.name} is running and writes to {shared}; choose another output "
                    f"directory for {spec.run}."
                )


def _refuse_redacted(spec: LaunchSpec) -> None:
    """Raise LaunchFailed if a word is what a screen or a journal shows in place of a secret."""
    for word in [*spec.overrides, *spec.argv, *spec.env.values()]:
        if holds_marker(word):
            raise LaunchFailed(
                f"The word {word[:80]!r} of this launch stands in place of a secret that is not "
                "shown; write the secret itself there, or put it on the pod with "
                "`bs4-console pods setup` and leave the word out."
            )


def _path_with(program: str, environment: Mapping[str, str], cwd: Path) -> str | None:
    """Return a PATH on which `program` is found, or None if the present PATH finds it already.
    Raises LaunchFailed if there is no such PATH.
    """
    path = environment.get("PATH", os.defpath)
    if "/" in program:
        if not os.access(cwd / program, os.X_OK):
            raise LaunchFailed(
                f"{cwd / program} is not there or not executable; check the path on the pod."
            )
        return None
    if which(program, path) is not None:
        return None
    longer = os.pathsep.join([path, *(str(Path(place).expanduser()) for place in _ALSO_ON_PATH)])
    if which(program, longer) is None:
        raise LaunchFailed(
            f"{program} is neither on the pod's PATH nor in {', '.join(_ALSO_ON_PATH)}; "
            "install it there first."
        )
    return longer


def _prepare(
    runs: Runs, spec: LaunchSpec, argv: list[str], environment: Mapping[str, str], key: str
) -> Path:
    """Do everything that comes before the start and return the attempt's directory: archive the old
    logs, register the run, and write spec.json with the key.
    """
    if any(run.name == spec.run for run in runs.all()):
        archive_logs(runs, spec.run)
    runs.register(spec)
    directory = make_attempt(runs, spec.run)
    record = {
        "run": spec.run,
        "attempt": int(directory.name),
        "key": key,
        "argv": argv,
        "cwd": str(spec.cwd),
        "env": {**environment, inside.MARK: inside.mark()} if spec.container else dict(environment),
        "launch": spec_as_dict(spec),
        "agent_restart": list(runs.agent_restart) if runs.agent_restart else None,
        "home": str(runs.home.root),
    }
    write_json(directory / "spec.json", record)
    return directory


def make_attempt(runs: Runs, run: str) -> Path:
    """Make the directory of the run's next attempt (one start of its trainer), and return its path.
    It lies in the agent's home directory on the pod. Its name is the attempt's number, one more
    than the highest so far; no later attempt gets this number.
    """
    number = max(attempt_numbers(runs.home.run(run)), default=0) + 1
    while True:
        directory = runs.attempt_directory(run, number)
        directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            directory.mkdir(mode=0o700)
        except FileExistsError:
            number += 1
        else:
            return directory


def start_shim(directory: Path) -> None:
    """Start the shim of the attempt whose directory is given. The shim is a small process that
    starts the launcher, records how it ends, and outlives this agent. Return once it has started
    the launcher. Raises LaunchFailed if the launcher or the shim cannot be started, or not within
    15 seconds.
    """
    root = str(Path(bs4_agent.__file__).resolve().parents[1])
    command = [sys.executable, "-IS", "-c", _SHIM, root, "--attempt", str(directory)]
    try:
        with open(directory / "shim.log", "ab") as log:
            status = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                timeout=_START_S,
                check=False,
            ).returncode
    except subprocess.TimeoutExpired:
        raise _too_late(directory) from None
    said = _last_line(directory / "shim.log")
    if status == CANNOT_EXECUTE:
        reason = (read_json(directory / "end.json") or {"detail": said})["detail"]
        raise LaunchFailed(
            f"The run was not started: {reason}. Correct the command or the pod, then launch again."
        )
    if status not in (0, ALREADY_STARTED):
        raise LaunchFailed(
            f"The shim ended with exit code {status}: {said}; see {directory}/shim.log."
        )


def _wait(directory: Path) -> Attempt:
    """Return the attempt as soon as its launcher runs. That is at once, unless a shim that another
    process started is still starting it. Raises LaunchFailed.
    """
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        attempt = read_attempt(directory)
        if attempt is not None and attempt.ran:
            return attempt
        time.sleep(_LOOK_S)
    raise _too_late(directory)


def _too_late(directory: Path) -> LaunchFailed:
    """Return the error for a launcher that did not start in time."""
    return LaunchFailed(
        f"The shim did not start the launcher within {_START_S:.0f} s; see {directory}/shim.log, "
        "then launch again."
    )


def _last_line(path: Path) -> str:
    """Return the last line of a file, or "" if it is empty or does not exist."""
    try:
        lines = path.read_text(errors="replace").strip().splitlines()
    except FileNotFoundError:
        return ""
    return lines[-1] if lines else ""
