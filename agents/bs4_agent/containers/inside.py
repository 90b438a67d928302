"""Launching into a container: the command as an argv for `docker exec`, and finding the process in
the container that belongs to the attempt.

What `docker exec` starts is no child of its client: the container's runtime is its parent, and
descent from our shim ends at the client. So every such launch carries a word in its environment
that was never used before. The started process is the one that has the word, lives in the
container, and has a parent without the word. It is recorded in the attempt's inside.json, and its
descendants are observed, as for a run that was adopted.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bs4_agent.containers import processes
from bs4_agent.runs.membership import INSIDE as NOTE
from bs4_agent.runs.registry import Runs
from bs4_agent.telemetry.processes import Proc, Snapshot
from bs4_common.clock import stamp
from bs4_common.errors import LaunchFailed, StepFailed
from bs4_common.files import read_json, write_json
from bs4_common.identity import Identity
from bs4_common.runs.model import Attempt
from bs4_common.trainers.base import LaunchSpec

if TYPE_CHECKING:
    from bs4_agent.runs.membership import MemberFields

#: The variable that names the attempt for which a process in a container was started.
MARK = "BS4_ATTEMPT"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_INSPECT_S = 20.0
#: Seconds from the client's start to the program in the container. A loaded Docker takes several.
_START_S, _LOOK_S = 30.0, 0.1
#: Seconds. The clocks of processes and of attempts agree to within this.
_BEFORE_S = 2.0
#: Exit codes of Docker's client if nothing was started: its daemon refused, the program cannot be
#: run, or it does not exist.
_NOT_STARTED = (125, 126, 127)
#: Runs a script that exists only on the host and is passed as an argument. It ends itself in time:
#: what is started in the container is no child of the client, so ending the client would leave it
#: running. The path that it names does not exist, so that no module can hide one of the
#: environment's.
_SCRIPT = (
    "import signal, sys; signal.alarm(int(sys.argv[1])); sys.path[0] = '/bs4-probe'; "
    "exec(compile(sys.argv[2], '/bs4-probe/probe.py', 'exec'), {'__name__': '__main__', "
    "'__file__': '/bs4-probe/probe.py'})"
)


def command(
    spec: LaunchSpec, argv: Sequence[str], environment: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Return (argv, environment) with which the Docker client on the host starts a program in the
    container that the launch `spec` names. `argv` is the program with its arguments, and
    `environment` are its variables. The paths in the arguments given to this function are the
    host's; those in the result are the container's.

    The returned argv holds only the names of the variables, so that no value can be read in it. The
    Docker client must be started with the returned environment, from which it takes the values.
    Raises LaunchFailed if the container does not run or does not see the run's directories.
    """
    box = Box(spec.container)
    box.place(spec.output_dir)
    inner = box.variables(environment)
    return box.command(
        box.view.words_inside(argv), cwd=spec.cwd, names=(*sorted(inner), MARK)
    ), inner


class Box:
    """A running container, by the name that `docker exec` takes. The constructor raises
    LaunchFailed if the container does not run or if the agent's user may not read its files.
    """

    def __init__(self, container: str) -> None:
        self.name = container
        self.init, self.view = _first_of(container)

    def place(self, path: Path) -> str:
        """Return the path under which the container sees the host's `path`. Raises LaunchFailed if
        that path is not mounted into the container.
        """
        found = self.view.inside(path)
        if found is None:
            raise LaunchFailed(
                f"{path} is not mounted into container {self.name}. Start the container with `-v "
                f"{path}:{path}`, or name a directory that it has mounted."
            )
        return str(found)

    def variables(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return `environment` with each path of the host replaced by the container's path for it.
        PATH is left out, because the container has its own.
        """
        inner = dict(zip(environment, self.view.words_inside(environment.values()), strict=True))
        inner.pop("PATH", None)  # the container has its own
        return inner

    def command(
        self,
        words: Sequence[str],
        *,
        cwd: Path | None,
        names: Iterable[str],
        flags: Sequence[str] = (),
    ) -> list[str]:
        """Return the argv for `docker exec` that runs the command `words` in the container. Paths
        in `words` are the container's. `cwd` is a directory of the host in which the command runs,
        or None for the image's own. `flags` are options of `docker exec`. `names` are the names of
        the environment variables to pass on; the Docker client takes their values from its own
        environment, so that no value stands in the argv. Raises LaunchFailed if `cwd` is not
        mounted.
        """
        where = [] if cwd is None else ["-w", self.place(cwd)]
        return [
            "docker",
            "exec",
            *flags,
            *where,
            *(word for name in names for word in ("-e", name)),
            self.name,
            *words,
        ]

    def ask(
        self,
        python: str,
        script: str,
        question: bytes = b"",
        *,
        timeout: float,
        more: Mapping[str, str],
        cwd: str | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the Python file `script` (a path on the host) in the container, and return its exit
        code (negative: the number of a signal) and its standard output. `python` is the
        interpreter: the host's path of one in a mounted directory, or the container's own name for
        one. `question` is the standard input, `more` has additional environment variables, and
        `cwd` is a directory of the host to run in, or None for the image's own.

        Raises StepFailed if the interpreter cannot be started, LaunchFailed if `cwd` is not
        mounted, and TimeoutExpired after `timeout` seconds.
        """
        program = str(self.view.inside(python) or python) if python.startswith("/") else python
        inner = self.variables(more)
        words = [
            program,
            "-B",
            "-c",
            _SCRIPT,
            str(max(1, round(timeout))),
            Path(script).read_text("utf-8"),
        ]
        argv = self.command(
            words, cwd=None if cwd is None else Path(cwd), names=sorted(inner), flags=["-i"]
        )
        try:
            done = subprocess.run(
                argv,
                input=question,
                capture_output=True,
                timeout=timeout + _INSPECT_S,
                env={**os.environ, **inner},
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise subprocess.TimeoutExpired(
                argv[:2], timeout, late.output
            ) from None  # the whole argv holds the script
        if done.returncode in _NOT_STARTED:
            # Docker 20.10 prints its runtime's message on standard output, where the program's own
            # output would be.
            said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
            raise StepFailed(
                f"{program} cannot be run in container {self.name} "
                f"({said[-1][:200] if said else done.returncode}); name the training environment "
                "with `launch --env VIRTUAL_ENV=DIR`."
            )
        if done.returncode == 128 + signal.SIGALRM:
            raise subprocess.TimeoutExpired(argv[:2], timeout, done.stdout)
        ended = done.returncode if done.returncode <= 128 else 128 - done.returncode
        return subprocess.CompletedProcess(argv[:2], ended, done.stdout)

    def environment(self) -> dict[str, str]:
        """Return the environment variables of the container's first process, as {name: value}. They
        come from the image and from the container's start, and programs that are started in the
        container get them too. Return {} if they cannot be read.
        """
        pairs = processes.environment(self.init) or ()
        return {os.fsdecode(name): os.fsdecode(value) for name, value in pairs}

    def nofile(self) -> dict[str, int | None]:
        """Return the limits of open files of the container's first process, as `{"soft": number,
        "hard": number}`. A value is None if it is unlimited or cannot be read.
        """
        soft, hard = processes.nofile(self.init)
        return {"soft": soft, "hard": hard}


def mark() -> str:
    """Return a new random word. It is put into the environment of the processes of one launch in a
    container, so that these processes can be recognised later.
    """
    return os.urandom(16).hex()


def claim(runs: Runs, snapshot: Snapshot) -> None:
    """Find the processes that attempts have started in a container, and record each in the
    directory of its attempt. A process is recognised by the random word (see `mark`) that the
    launch has put into its environment. Attempts whose process is recorded already are left alone.
    `snapshot` has the pod's processes by pid.
    """
    waiting = _waiting(runs)
    if not waiting:
        return
    first_t = min(attempt.started_t for _, attempt, _ in waiting) - _BEFORE_S
    marks = {}
    for pid, proc in snapshot.items():
        if not proc.ended and proc.started_t >= first_t and (word := _mark_of(pid)):
            marks[pid] = word
    for run, attempt, word in waiting:
        own = []
        for pid, found in marks.items():
            if found == word and marks.get(snapshot[pid].ppid) != word and _apart(pid):
                own.append(_noted(snapshot[pid]))
        if own:
            path = runs.attempt_directory(run, attempt.number) / NOTE
            write_json(path, {"members": own, **stamp()})
            runs.membership.recall(run, attempt.number)
            runs.membership.observe(snapshot)


def await_start(runs: Runs, run: str, number: int) -> None:
    """Wait until the process of the attempt `number` of the run named `run` is seen in its
    container. Return also if the Docker client that starts it has ended; the attempt's output then
    says why. Raises LaunchFailed if neither happens within 30 seconds.
    """
    directory, deadline = runs.attempt_directory(run, number), time.monotonic() + _START_S
    while time.monotonic() < deadline:
        claim(runs, runs.table.snapshot(max_age=0.0))
        attempt = next(one for one in runs.get(run).attempts if one.number == number)
        if (directory / NOTE).exists() or attempt.launcher is None or not attempt.launcher.alive():
            return
        time.sleep(_LOOK_S)
    raise LaunchFailed(
        f"Docker has not started {run} within {_START_S:.0f} s; see {directory}/launcher.log and "
        f"`docker ps`, stop {run}, then launch again."
    )


def _waiting(runs: Runs) -> list[tuple[str, Attempt, str]]:
    """Return (run, attempt, mark) of each attempt whose process in the container is unknown."""
    found = []
    for run in runs.all():
        attempt = run.attempt
        if not run.spec.container or attempt is None or attempt.adopted or attempt.end is not None:
            continue
        directory = runs.attempt_directory(run.name, attempt.number)
        if (directory / NOTE).exists():
            continue
        if word := (read_json(directory / "spec.json") or {"env": {}})["env"].get(MARK):
            found.append((run.name, attempt, str(word)))
    return found


def _mark_of(pid: int) -> str:
    """Return the mark in a process's environment, or "" if it has none or cannot be read."""
    for name, value in processes.environment(pid) or ():
        if name == MARK.encode():
            return value.decode("ascii", "replace")
    return ""


def _apart(pid: int) -> bool:
    """Return True if a process lives in a container. Docker's client on the host has the mark, too,
    and does not.
    """
    try:
        return processes.View.of(pid) is not None
    except processes.HiddenFiles:
        return True


def _noted(proc: Proc) -> MemberFields:
    """Return a process as inside.json records it."""
    return {"identity": proc.identity.as_dict(), "cmdline": list(proc.cmdline), "comm": proc.comm}


def _first_of(container: str) -> tuple[int, processes.View]:
    """Return (the host's pid of the container's first process, its view of files). Raises
    LaunchFailed if the container is unknown, does not run, or may not be read.
    """
    if container == processes.UNNAMED or not _NAME.fullmatch(container):
        raise LaunchFailed(
            "The run was found in a container whose name cannot be told from here. Launch it with "
            "--container NAME, as `docker ps` shows it."
        )
    pid = _init_of(container)
    try:
        view = processes.View.of(pid) if Identity.of(pid) is not None else None
    except processes.HiddenFiles as hidden:
        raise LaunchFailed(hidden.message) from None
    if view is None:
        raise LaunchFailed(
            f"Container {container} does not run; start it with `docker start {container}`, "
            "then launch again."
        )
    return pid, view


def _init_of(container: str) -> int:
    """Return the host's pid of the container's first process, or 0 if it does not run. Raises
    LaunchFailed if Docker does not answer or does not know the container.
    """
    try:
        done = subprocess.run(
            ["docker", "inspect", "--type", "container", "--format", "{{.State.Pid}}", container],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_INSPECT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LaunchFailed(
            f"Docker cannot be asked about container {container} ({error}); check `docker "
            "ps` on the pod."
        ) from None
    said = done.stdout.strip()
    if done.returncode != 0 or not said.isdigit():
        why = done.stderr.strip()[:200] or said[:200]
        raise LaunchFailed(
            f"Docker knows no container {container}: {why}. See `docker ps -a` on the pod."
        )
    return int(said)
