"""A practice pod, from the outside: start it, reach it, end it.

`python -m bs4_practice.pod --root DIR --name N --generation G` runs one in the foreground and
prints its address as a JSON line.
"""

from __future__ import annotations

import argparse
import asyncio
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
from bs4_practice.workspace import RUN_NAME, Workspace

_START_SECONDS = 30.0


class PodError(RuntimeError):
    """A practice pod did not start or did not answer."""


@dataclass(frozen=True)
class Completed:
    """A finished command. `exit_status` None: the connection ended first, or a signal ended the
    command (then `signal` names it).
    """

    exit_status: int | None
    stdout: bytes
    stderr: bytes
    signal: str | None = None


@dataclass
class PracticePod:
    """A running pod. `pid` and `start_ticks` are its main process: subreaper, SSH server and root
    of its scope.
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
    """2026-01 or current."""
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
        """The pod's simulated GPUs."""
        return Board(self.root / "gpu")

    @property
    def library(self) -> Path | None:
        """The simulated driver, None where it could not be compiled."""
        return self.workspace.library

    def setup_recipe(self) -> dict[str, str]:
        """Of a bare pod: what `pods setup` is to be given besides the trainer, instead of the
        network's own addresses.
        """
        return {
            "repository": str(self.workspace.repository),
            "revision": self.workspace.revision,
            "uv": outside.uv_address(self.root),
        }

    @property
    def run_dir(self) -> Path:
        return self.output_dir if self.generation == "2026-01" else self.output_dir / self.run_name

    def launch_command(self, *extra: str, config: str = "configs/rl.toml") -> list[str]:
        """The real command line of a run, as a person would type it in `project`."""
        own = [] if self.generation == "2026-01" else ["--run.name", self.run_name]
        return ["uv", "run", "rl", "@", config, "--output-dir", "outputs", *own, *extra]

    async def connect(self) -> asyncssh.SSHClientConnection:
        """An SSH connection to the pod, its host key checked."""
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
        """Run a command through SSH and wait for it. TimeoutError after `timeout` seconds; the
        command then goes on.
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
        """Start a command that outlives the connection, in `project` unless said otherwise, and
        give its pid. Its output goes to `log`.

        Through Python's subprocess, not through `&` of a shell: that would make it ignore SIGINT,
        which a run in tmux does not.
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
        """Everything that runs in the pod, parents before children; the main process itself not
        among them.
        """
        return tree.below(self.pid)

    def pids(self) -> list[int]:
        return [process.pid for process in self.processes()]

    async def stop(self) -> None:
        """End everything of the pod, by descent: SIGTERM, then SIGKILL, then its main process."""
        own = tree.look(self.pid)
        if own is None or own.start_ticks != self.start_ticks:
            self._collect()
            return
        await asyncio.to_thread(tree.end_below, self.pid)
        tree.send(own, signal.SIGTERM)
        deadline = asyncio.get_running_loop().time() + 10
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
    """Start a pod in `root` (made if need be; an earlier pod's files in it are used again).

    `generation`: 2026-01 or current. `pace` scales the waits that the real programs spell in
    seconds. `foreign_pids`: NVML reports pids of another namespace (True: local + 100000; a number:
    that offset; a mapping from local to reported). `env`: what the machine's owner has put into
    every process's environment besides. `bare`: without uv and prime-rl (see bare.py). The pod ends
    with this process, however that ends. PodError when it does not come up.
    """
    offset: int | Mapping[int, int] | None = (
        100_000 if foreign_pids is True else None if foreign_pids is False else foreign_pids
    )
    made = await asyncio.to_thread(
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
    try:
        line = await asyncio.wait_for(asyncio.to_thread(answer.readline), _START_SECONDS)
    except TimeoutError:
        process.kill()
        line = b""
    if not line:
        process.wait()
        raise PodError(f"Practice pod {name} did not start; read {log}.")
    pod = _pod(json.loads(line), log)
    pod._process = process
    return pod


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
    """The pod's main process."""
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
