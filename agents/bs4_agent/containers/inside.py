"""Launches into a container: the command as an argv for `docker exec`, and which process in there
is the attempt's own.

What `docker exec` starts is no child of its client: the container's runtime is its parent, and
descent from our shim ends at the client. So every such launch carries a word that was never used
before in its environment. The process that has it, lives in the container and whose parent has it
not is the one that was started; it is written down in the attempt's inside.json, and who descends
from it is observed, as for a run that was adopted.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bs4_agent.clock import stamp
from bs4_agent.containers import processes
from bs4_agent.errors import LaunchFailed, StepFailed
from bs4_agent.identity import Identity
from bs4_agent.runs.files import read_json, write_json
from bs4_agent.runs.membership import INSIDE as NOTE
from bs4_agent.runs.model import Attempt
from bs4_agent.runs.registry import Runs
from bs4_agent.telemetry.processes import Proc, Snapshot
from bs4_agent.trainers.base import LaunchSpec

#: The variable that tells which attempt a process in a container was started for.
MARK = "BS4_ATTEMPT"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_INSPECT_S = 20.0
#: From the client's start to the program in the container: a loaded Docker takes seconds.
_START_S, _LOOK_S = 30.0, 0.1
#: Clocks of processes and of attempts agree to within this.
_BEFORE_S = 2.0
#: What Docker's client ends with when nothing was started: its daemon refused, the program cannot
#: be run, it is not there.
_NOT_STARTED = (125, 126, 127)
#: Runs a script that only our side has, handed over as a word. It ends itself in time: what is
#: started in there is no child of the client, so ending the client would leave it behind. The place
#: that it names is nowhere: no module may hide one of the environment's.
_SCRIPT = (
    "import signal, sys; signal.alarm(int(sys.argv[1])); sys.path[0] = '/bs4-probe'; "
    "exec(compile(sys.argv[2], '/bs4-probe/probe.py', 'exec'), {'__name__': '__main__', "
    "'__file__': '/bs4-probe/probe.py'})"
)


def command(
    spec: LaunchSpec, argv: Sequence[str], environment: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """(argv, additions to the client's environment) that start `argv`, whose paths are ours, in the
    container of `spec`.

    Names of variables stand in the argv, values never: Docker's client takes them from its own
    environment. LaunchFailed when the container does not run, or does not see the directories of
    the run.
    """
    box = Box(spec.container)
    box.place(spec.output_dir)
    inner = box.variables(environment)
    return box.command(
        box.view.words_inside(argv), cwd=spec.cwd, names=(*sorted(inner), MARK)
    ), inner


class Box:
    """A container that runs, by the name that `docker exec` takes. LaunchFailed when it does not
    run, or may not be looked into.
    """

    def __init__(self, container: str) -> None:
        self.name = container
        self.init, self.view = _first_of(container)

    def place(self, path: Path) -> str:
        """What is our `path` in there. LaunchFailed when it is not mounted."""
        found = self.view.inside(path)
        if found is None:
            raise LaunchFailed(
                f"{path} is not mounted into container {self.name}. Start the container with `-v "
                f"{path}:{path}`, or name a directory that it has mounted."
            )
        return str(found)

    def variables(self, environment: Mapping[str, str]) -> dict[str, str]:
        """`environment` with the paths of the container."""
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
        """The argv that runs `words`, whose paths are the container's, in our directory `cwd`
        (None: where the image says). `names`: the variables whose values Docker's client takes from
        its own environment; no value ever stands in an argv.
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
        """See probes.asking.Ask: the container's own interpreter, in its own environment. `python`:
        our path of one that lies in a mounted directory, else the container's name of it.
        """
        if python.startswith("/"):
            program = str(self.view.inside(python) or python)
        else:
            program = python
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
            # Docker 20.10 tells what its runtime says on standard output, where the program's own
            # would be.
            said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
            raise StepFailed(
                f"{program} cannot be run in container {self.name} "
                f"({said[-1][:200] if said else done.returncode}); name the training environment "
                "with `launch --env VIRTUAL_ENV=DIR`."
            )
        if done.returncode == 128 + signal.SIGALRM:
            raise subprocess.TimeoutExpired(argv[:2], timeout, done.stdout)
        if done.returncode <= 128:
            ended = done.returncode
        else:
            ended = 128 - done.returncode
        return subprocess.CompletedProcess(argv[:2], ended, done.stdout)

    def environment(self) -> dict[str, str]:
        """What every program in there gets; of the image, and as the container was started."""
        try:
            words = Path(f"/proc/{self.init}/environ").read_bytes().split(b"\0")
        except OSError:
            return {}
        pairs = (os.fsdecode(word).partition("=") for word in words if b"=" in word)
        return {name: value for name, _, value in pairs}

    def nofile(self) -> dict[str, int | None]:
        """`{"soft", "hard"}`: how many files a program in there may open; null for what is not
        told.
        """
        try:
            lines = Path(f"/proc/{self.init}/limits").read_text().splitlines()
        except OSError:
            lines = []
        words = []
        for line in lines:
            if line.startswith("Max open files"):
                words = line.split()
                break
        numbers = [int(word) if word.isdigit() else None for word in words[3:5]] or [None, None]
        return {"soft": numbers[0], "hard": numbers[1]}


def mark() -> str:
    """A word that no other launch has."""
    return os.urandom(16).hex()


def claim(runs: Runs, snapshot: Snapshot) -> None:
    """Note for every attempt that was started into a container which process in there is its own,
    where that is not known yet.
    """
    waiting = {word: (run, attempt) for run, attempt, word in _waiting(runs)}
    if not waiting:
        return
    first_t = min(attempt.started_t for _, attempt in waiting.values()) - _BEFORE_S
    marks = {}
    for pid, proc in snapshot.items():
        if not proc.ended and proc.started_t >= first_t and (word := _mark_of(pid)):
            marks[pid] = word
    for word, (run, attempt) in waiting.items():
        own = []
        for pid, found in marks.items():
            if found == word and marks.get(snapshot[pid].ppid) != word and _apart(pid):
                own.append(snapshot[pid])
        if own:
            write_json(
                runs.attempt_directory(run, attempt.number) / NOTE,
                {"members": [_noted(proc) for proc in own], **stamp()},
            )
            runs.membership.recall(run, attempt.number)
            runs.membership.observe(snapshot)


def await_start(runs: Runs, run: str, number: int) -> None:
    """Until the process in the container is known, or Docker's client has ended (its output then
    says why). LaunchFailed after 30 s.
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
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    start = f"{MARK}=".encode()
    for word in words:
        if word.startswith(start):
            return word[len(start) :].decode("ascii", "replace")
    return ""


def _apart(pid: int) -> bool:
    """Whether it lives in a container: Docker's client on our side has the mark too."""
    try:
        return processes.View.of(pid) is not None
    except processes.HiddenFiles:
        return True


def _noted(proc: Proc) -> dict[str, object]:
    return {"identity": proc.identity.as_dict(), "cmdline": list(proc.cmdline), "comm": proc.comm}


def _first_of(container: str) -> tuple[int, processes.View]:
    """Our pid of its first process, and what that sees."""
    if container == processes.UNNAMED or not _NAME.fullmatch(container):
        raise LaunchFailed(
            "The run was found in a container whose name cannot be told from here. Launch it with "
            "--container NAME, as `docker ps` shows it."
        )
    pid = _init_of(container)
    try:
        view = None
        if Identity.of(pid) is not None:
            view = processes.View.of(pid)
    except processes.HiddenFiles as hidden:
        raise LaunchFailed(hidden.message) from None
    if view is None:
        raise LaunchFailed(
            f"Container {container} does not run; start it with `docker start {container}`, "
            "then launch again."
        )
    return pid, view


def _init_of(container: str) -> int:
    """The host's pid of the container's first process, 0 when it does not run."""
    argv = ["docker", "inspect", "--type", "container", "--format", "{{.State.Pid}}", container]
    try:
        done = subprocess.run(
            argv,
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
