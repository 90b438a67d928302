"""`python -m verl.trainer.main_ppo`: starts Ray, shows what its actors write, and ends as the task
runner does.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from . import actors, settings

_POLL_S = 0.05
#: What the driver's `ray.get` raises once the actor it waits for was killed (ray
#: python/ray/exceptions.py, ActorDiedError).
_RUNNER_DIED = (
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
    "\tclass_name: TaskRunner\n"
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR"
)
#: Whose files the log monitor shows, and under which name.
_ACTORS = {"runner": "TaskRunner", "worker": "WorkerDict", "raylet": "raylet"}


def main(arguments: Sequence[str]) -> int:
    """Imitate a training by `python -m verl.trainer.main_ppo`. `arguments` are the words of its
    command line. Returns 0 if the task runner has ended well, else 1. If Hydra refuses a word, that
    is written to standard error.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        config = settings.parse(arguments)
    except settings.Refused as error:
        sys.stderr.write(
            f"{error}\n\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete "
            "stack trace.\n"
        )
        return 1
    write_overrides(Path(config["hydra.run.dir"]), arguments)
    print("ray init kwargs: {'num_cpus': None, 'runtime_env': {}}", flush=True)
    logs = actors.session(os.getpid())
    shown = _LogMonitor(logs)
    gcs = actors.start("daemon", "gcs_server", logs=logs)
    with open(logs / "raylet-0.log", "ab") as own:
        raylet = subprocess.Popen(
            [
                sys.executable,
                "-u",
                "-m",
                f"{__package__}.main",
                "raylet",
                str(logs),
                str(config["trainer.n_gpus_per_node"]),
                *arguments,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=own,
        )
    sys.stderr.write(
        f"{time.strftime('%Y-%m-%d %H:%M:%S')},000\tINFO worker.py:1918 -- Started a local "
        "Ray instance.\n"
    )
    code = _wait(raylet, shown)
    if code != 0:
        words = ", ".join(repr(word) for word in arguments)
        last = shown.last_error or "ray.exceptions.RayTaskError: ray::TaskRunner.run()"
        if code < 0:
            last = _RUNNER_DIED
        sys.stderr.write(
            f"Error executing job with overrides: [{words}]\n"
            f"Traceback (most recent call last):\n{last}\n"
        )
        sys.stderr.flush()
    shown.show()  # what an actor wrote last reaches us after our own traceback
    for process in (raylet, gcs):
        if process.stdin is not None:
            process.stdin.close()
    for process in (raylet, gcs):
        process.wait()
    return 0 if code == 0 else 1


def _wait(raylet: subprocess.Popen[bytes], shown: _LogMonitor) -> int:
    """The runner's exit code, below 0 where a signal ended it; 1 where the raylet itself has
    ended.
    """
    output = raylet.stdout
    while output is not None:
        ready, _, _ = select.select([output], [], [], _POLL_S)
        if ready:
            said = output.readline().split()
            return int(said[1]) if said[:1] == [b"exit"] else 1
        shown.show()
    return 1


def write_overrides(run: Path, words: Sequence[str]) -> None:
    """Write the words of a launch's command line to `.hydra/overrides.yaml` in the directory `run`,
    as Hydra does. A later start with the same directory overwrites them.
    """
    (run / ".hydra").mkdir(parents=True, exist_ok=True)
    lines = [
        f"- {word}"
        if re.fullmatch(r"[\w.=/+-]+", word)
        else "- '{}'".format(word.replace("'", "''"))
        for word in words
    ]
    (run / ".hydra" / "overrides.yaml").write_text("".join(f"{line}\n" for line in lines) or "[]\n")


class _LogMonitor:
    """Ray's: what the actors' files gain is printed with a coloured prefix, a moment later, whole
    lines only.
    """

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._read: dict[Path, int] = {}
        self.last_error = ""

    def show(self) -> None:
        for path in sorted(self._logs.glob("*.log")):
            name = _ACTORS.get(path.stem.split("-")[0])
            if name is None:
                continue
            told = path.with_suffix(".pid")
            with open(path, "rb") as handle:
                handle.seek(self._read.get(path, 0))
                data = handle.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(whole)
            for line in whole.decode("utf-8", "replace").split("\n")[:-1]:
                if re.match(r"[\w.]*(?:Error|Exception): ", line):
                    self.last_error = line
                prefix = (
                    "(raylet) "
                    if name == "raylet"
                    else f"\x1b[36m({name} pid={told.read_text()})\x1b[0m "
                )
                sys.stdout.write(f"{prefix}{line}\n")
        sys.stdout.flush()
