"""A practice pod, from the outside: start it, reach it, end it.

`python -m bs4_practice.pod --root DIR --name N --generation G` runs one in the foreground and
prints its address as a JSON line.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh

from bs4_practice import bare as outside
from bs4_practice import tree, workspace
from bs4_practice.gpus.board import Board
from bs4_practice.podhost import PodHost
from bs4_practice.threads import to_its_end
from bs4_practice.workspace import RUN_NAME, Workspace

_START_SECONDS, _END_SECONDS = 30.0, 10.0


class PodError(RuntimeError):
    """Raised when a practice pod did not start or did not answer."""


@dataclass(frozen=True)
class Completed:
    """The result of a command that was run on a pod. `exit_status` is None if the connection ended
    first or a signal ended the command; `signal` is then the signal's name without "SIG", or None.
    """

    exit_status: int | None
    stdout: bytes
    stderr: bytes
    signal: str | None = None


@dataclass
class PracticePod:
    """A running practice pod (a simulated one). `host`, `port`, `user`, `key_path` and
    `known_host_key` are what an SSH connection to it needs. `home` is its home directory and
    `project` the directory in which runs are started. `pid` and `start_ticks` (clock ticks since
    boot) identify the pod's main process, which is the SSH server and the ancestor of all its
    processes. `log` is the file with the output of that process.
    """

    name: str
    root: Path
    host: str
    port: int
    user: str
    key_path: Path
    known_host_key: str
    """The server's public key as in a known_hosts file: `ssh-ed25519 AAAA...`."""
    generation: str
    """The trainer on the pod: "2026-01" or "current" (two versions of prime-rl), or "verl"."""
    home: Path
    project: Path
    """`~/prime-rl`, where runs are started."""
    config_path: Path
    output_dir: Path
    """What is given as --output-dir; in the current generation the run's own directory is `run_dir`
    below it.
    """
    inference_port: int
    """Where clients reach the model: the server itself, or its router in the current generation."""
    api_port: int
    """The engine's own API."""
    pid: int
    start_ticks: int
    log: Path
    environment: dict[str, str]
    workspace: Workspace
    run_name: str = RUN_NAME
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def gpus(self) -> Board:
        """Return the board of the pod's simulated GPUs, through which they can be looked at and
        changed.
        """
        return Board(self.root / "gpu")

    @property
    def library(self) -> Path | None:
        """Return the path of the simulated GPU driver, or None if it could not be compiled."""
        return self.workspace.library

    def setup_recipe(self) -> dict[str, str]:
        """Return what `pods setup` needs to set up a bare pod (one without uv and prime-rl) from
        this machine instead of the network: the "repository" to clone, the "revision" to check out,
        and the address of the "uv" to install.
        """
        return {
            "repository": str(self.workspace.repository),
            "revision": self.workspace.revision,
            "uv": outside.uv_address(self.root),
        }

    @property
    def run_dir(self) -> Path:
        """Return the directory of the pod's run. In prime-rl of January 2026 that is the output
        directory itself, otherwise the directory with the run's name below it.
        """
        return self.output_dir if self.generation == "2026-01" else self.output_dir / self.run_name

    def launch_command(self, *extra: str, config: str = "configs/rl.toml") -> list[str]:
        """Return the command line with which a person starts a prime-rl run in the pod's project
        directory. `config` is the path of the training config, and `extra` are words to add at the
        end.
        """
        own = [] if self.generation == "2026-01" else ["--run.name", self.run_name]
        return ["uv", "run", "rl", "@", config, "--output-dir", "outputs", *own, *extra]

    async def connect(self) -> asyncssh.SSHClientConnection:
        """Return a new SSH connection to the pod, which has checked the pod's host key. The caller
        must close it. Raises asyncssh.Error or OSError if there is no connection.
        """
        known = asyncssh.import_known_hosts(f"[{self.host}]:{self.port} {self.known_host_key}\n")
        return await asyncssh.connect(
            self.host,
            self.port,
            username=self.user,
            client_keys=[str(self.key_path)],
            known_hosts=known,
            config=None,
            agent_path=None,
        )

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout: float = 30.0,
    ) -> Completed:
        """Run the command `argv` on the pod over SSH, wait until it has ended, and return the
        result. `cwd` is the directory in which it runs, the home directory if None. `env` are
        further environment variables, and `stdin` is its input. Raises TimeoutError if it takes
        longer than `timeout` seconds; the command itself goes on.
        """
        async with await self.connect() as connection:
            result = await connection.run(
                _command(argv, cwd or self.home, env), input=stdin, encoding=None, timeout=timeout
            )
        name = result.exit_signal[0] if result.exit_signal else None
        return Completed(
            result.exit_status if name is None else None,
            _bytes(result.stdout),
            _bytes(result.stderr),
            name,
        )

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        log: Path | None = None,
    ) -> int:
        """Start the command `argv` on the pod over SSH, and return its process id at once. The
        command outlives the connection. `cwd` is the directory in which it runs, the project
        directory if None. `env` are further environment variables. Its output is appended to `log`,
        or to `~/spawned.log` if None. Raises PodError if the command cannot be started.

        The command is started by Python's subprocess and not by `&` of a shell, because after `&`
        it would ignore SIGINT, which a run in tmux does not.
        """
        code = (
            "import json, subprocess, sys; s = json.load(sys.stdin); o = open(s['log'], 'ab'); "
            "print(subprocess.Popen(s['argv'], cwd=s['cwd'], stdin=subprocess.DEVNULL, stdout=o, "
            "stderr=o, start_new_session=True).pid)"
        )
        order = {
            "argv": list(argv),
            "cwd": str(cwd or self.project),
            "log": str(log or self.home / "spawned.log"),
        }
        done = await self.run(["python3", "-c", code], env=env, stdin=json.dumps(order).encode())
        if done.exit_status != 0:
            reason = done.stderr.decode(errors="replace").strip()
            raise PodError(
                f"Could not start {shlex.join(argv)} in practice pod {self.name}: {reason}"
            )
        return int(done.stdout)

    def processes(self) -> list[tree.Process]:
        """Return everything that runs in the pod, parents before children, without the pod's main
        process.
        """
        return tree.below(self.pid)

    def pids(self) -> list[int]:
        """Return the process ids of everything that runs in the pod, without the pod's main
        process.
        """
        return [process.pid for process in self.processes()]

    async def stop(self) -> None:
        """End everything that runs in the pod with SIGTERM and then SIGKILL, then the pod's main
        process. Does nothing if the pod has ended already.
        """
        own = tree.look(self.pid)
        if own is None or own.start_ticks != self.start_ticks:
            self._collect()
            return
        await asyncio.to_thread(tree.end_below, self.pid)
        tree.send(own, signal.SIGTERM)
        deadline = asyncio.get_running_loop().time() + _END_SECONDS
        while tree.alive(own):
            if asyncio.get_running_loop().time() > deadline:
                tree.send(own, signal.SIGKILL)
            await asyncio.sleep(0.02)
        self._collect()

    def _collect(self) -> None:
        if self._process is not None:
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()


async def start(
    name: str,
    generation: str,
    root: Path,
    *,
    gpus: int = 2,
    step_seconds: float = 1.0,
    engine_seconds: float = 0.5,
    pace: float = 1.0,
    foreign_pids: bool | int | Mapping[int, int] = False,
    env: Mapping[str, str] | None = None,
    bare: bool = False,
) -> PracticePod:
    """Start a practice pod with the name `name`, and return it. Its files lie in `root`, which is
    made if there is no such directory; files of an earlier pod there are used again. The pod ends
    when this process ends.

    `generation` is "2026-01", "current" or "verl". `gpus` is the number of its simulated GPUs.
    `step_seconds` is how many seconds a training step takes, and `engine_seconds` how many the
    inference engine takes to load. All waits that the real programs give in seconds are multiplied
    by `pace`. `env` are further environment variables of all processes of the pod. A `bare` pod has
    no uv and no prime-rl.

    With `foreign_pids` NVML reports other process ids than the real ones, as it does in a
    container: 100000 more with True, that many more with a number, and with a mapping the one that
    it gives for each real id. Raises PodError if the pod does not come up, and ValueError for an
    unknown generation or a `root` whose path is too long.
    """
    offset: int | Mapping[int, int] | None = (
        100_000 if foreign_pids is True else None if foreign_pids is False else foreign_pids
    )
    made = await to_its_end(
        workspace.create, name, generation, root, gpus=gpus, foreign_pids=offset, bare=bare
    )
    log = made.root / "pod.log"
    settings = [
        f"--step-seconds={step_seconds}",
        f"--engine-seconds={engine_seconds}",
        f"--pace={pace}",
        f"--env={json.dumps(dict(env or {}))}",
    ]
    order = json.dumps(made.as_dict())
    with log.open("ab") as output:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "bs4_practice.pod",
                "--workspace",
                order,
                "--until-eof",
                *settings,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            start_new_session=True,
        )
    answer = process.stdout or io.BytesIO()
    line = b""
    try:
        # Not asyncio.wait_for, which in Python 3.11 can swallow a Ctrl-C.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_START_SECONDS):
                line = await asyncio.to_thread(answer.readline)
    finally:
        if not line:  # also after a cancellation: nobody else knows this process yet
            await to_its_end(_end, process)
    if not line:
        raise PodError(f"Practice pod {name} did not start; read {log}.")
    pod = _pod(json.loads(line), log)
    pod._process = process
    return pod


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the main process of a pod that has not come up, and return when it has ended. On SIGTERM
    it ends what it has started.
    """
    process.terminate()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _pod(answer: dict[str, object], log: Path) -> PracticePod:
    place = Workspace.from_dict(answer["workspace"])  # type: ignore[arg-type]
    return PracticePod(
        name=place.name,
        root=place.root,
        host=str(answer["host"]),
        port=int(str(answer["port"])),
        user=str(answer["user"]),
        key_path=place.client_key,
        known_host_key=place.known_host_key,
        generation=place.generation,
        home=place.home,
        project=place.project,
        config_path=place.project / "configs" / "rl.toml",
        output_dir=place.project / "outputs",
        inference_port=place.port,
        api_port=place.api_port,
        pid=int(str(answer["pid"])),
        start_ticks=int(str(answer["ticks"])),
        log=log,
        environment=dict(answer["environment"]),  # type: ignore[call-overload]
        workspace=place,
    )


def _command(argv: Sequence[str], cwd: Path, env: Mapping[str, str] | None) -> str:
    words = [*(f"{key}={value}" for key, value in (env or {}).items()), *argv]
    return f"cd {shlex.quote(str(cwd))} && exec {'env ' if env else ''}{shlex.join(words)}"


def _bytes(data: object) -> bytes:
    return data if isinstance(data, bytes) else b""


def main() -> None:
    """Run one practice pod in the foreground, as the pod's main process. Prints the pod's address
    as one JSON line at first, and returns when the pod has ended.
    """
    parser = argparse.ArgumentParser(
        prog="python -m bs4_practice.pod",
        description="Run one practice pod and print its address.",
    )
    parser.add_argument("--root", type=Path, help="directory of the pod")
    parser.add_argument("--name", default="practice")
    parser.add_argument("--generation", choices=workspace.GENERATIONS, default="current")
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--step-seconds", type=float, default=1.0)
    parser.add_argument("--engine-seconds", type=float, default=0.5)
    parser.add_argument("--pace", type=float, default=1.0)
    parser.add_argument(
        "--env", type=json.loads, default={}, help="more environment for every process, as JSON"
    )
    parser.add_argument("--bare", action="store_true", help="without uv and prime-rl")
    parser.add_argument("--workspace", help=argparse.SUPPRESS)
    parser.add_argument("--until-eof", action="store_true", help="end when standard input ends")
    options = parser.parse_args()
    if options.workspace is None and options.root is None:
        parser.error("--root is required")
    place = (
        Workspace.from_dict(json.loads(options.workspace))
        if options.workspace
        else workspace.create(
            options.name, options.generation, options.root, gpus=options.gpus, bare=options.bare
        )
    )
    environment = workspace.environment(
        place,
        step_seconds=options.step_seconds,
        engine_seconds=options.engine_seconds,
        pace=options.pace,
        scope_root=os.getpid(),
        extra=options.env,
    )
    asyncio.run(PodHost(place, environment).serve(until_eof=options.until_eof))


if __name__ == "__main__":
    main()
