"""A container as Docker makes one, without Docker: its own pid and mount namespace, our directories
at other places inside.

Its first process only sleeps (`docker run -d IMAGE sleep infinity`). What is at /tmp here is not at
/tmp there, but for our programs. `Docker` is its daemon and the program that talks to it: it speaks
the real client's argv, and what it starts inside is the daemon's child and not the client's.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support import processes
from tests.support.pod import NotHere

_CLIENT = Path(__file__).with_name("docker_client.py")


def _order(data: bytes, connection: socket.socket) -> dict[str, Any]:
    """Return the order of a client, of which `data` has come. A long one comes in several parts."""
    while True:
        try:
            order: dict[str, Any] = json.loads(data)
        except json.JSONDecodeError:
            more = connection.recv(1 << 20)
            if not more:
                raise
            data += more
        else:
            return order


class Container:
    """`binds`: directories of ours by their place inside, which is below /mnt. `env`: what every
    program in there gets (`docker run -e`). NotHere where such namespaces cannot be had.
    """

    def __init__(
        self, directory: Path, binds: Mapping[str, Path], env: Mapping[str, str] | None = None
    ) -> None:
        self.env = dict(env or {})
        if os.geteuid() != 0 or any(
            shutil.which(tool) is None for tool in ("unshare", "nsenter", "mount", "pivot_root")
        ):
            raise NotHere("mount and pid namespaces need root and util-linux")
        root = directory / "rootfs"
        root.mkdir(parents=True)
        lines = [
            "set -e",
            "mount --make-rprivate /",
            f"mount --rbind / {root}",
            f"mount -t proc proc {root}/proc",
            f"mount -t tmpfs none {root}/mnt",
            *(
                f"mkdir -p {root}{place}; mount --bind {shlex.quote(str(path))} {root}{place}"
                for place, path in binds.items()
            ),
            # Last: it hides the directories that were just mounted from.
            f"mkdir {root}/mnt/.tmp; mount -t tmpfs -o mode=1777 none {root}/mnt/.tmp",
            *(
                f"mkdir -p {root}/mnt/.{place}; mount --bind /{place} {root}/mnt/.{place}"
                for place in _programs_below_tmp()
            ),
            (
                f"cd {root}; mkdir mnt/.old; pivot_root . mnt/.old; cd /; mount --move /mnt/.tmp "
                "/tmp; umount -l /mnt/.old"
            ),
            (
                "echo up; exec env -i "
                f"{shlex.join(f'{name}={value}' for name, value in self.env.items())} "
                f"{shutil.which('sleep')} infinity"
            ),
        ]
        namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child=SIGKILL"]
        errors = (directory / "container.log").open("wb")
        with errors:
            self._process = processes.spawn(
                [*namespaces, "sh", "-c", "\n".join(lines)], stdout=subprocess.PIPE, stderr=errors
            )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"up\n":
            self.close()
            raise NotHere(
                "no mount and pid namespaces here: "
                f"{(directory / 'container.log').read_text().strip()}"
            )
        self.init = _child_of(self._process.pid)

    def start(
        self, argv: Sequence[str], *, cwd: str = "/", env: Mapping[str, str], **streams: Any
    ) -> subprocess.Popen[bytes]:
        """Run a command inside. The answer is nsenter's process, whose only child is the
        command.
        """
        words = [f"{name}={value}" for name, value in {**self.env, **env}.items()]
        enter = [
            "nsenter",
            "-t",
            str(self.init),
            "-m",
            "-p",
            "--",
            "env",
            f"--chdir={cwd}",
            *words,
            *argv,
        ]
        bare = {
            name: value
            for name, value in os.environ.items()
            if name in ("PATH", "BS4_TEST_MARK", "LANG")
        }
        return subprocess.Popen(
            enter, env=bare, start_new_session=True, **{"stdin": subprocess.DEVNULL, **streams}
        )

    @property
    def output(self) -> Any:
        """Where its first process prints: what Docker's daemon reads for `docker logs`."""
        return self._process.stdout

    def close(self) -> None:
        """The end of its first process is the end of everything in it."""
        with contextlib.suppress(ProcessLookupError, AttributeError):
            os.kill(self.init, 9)
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


class Docker:
    """The daemon, with containers by name. `program` is a directory for the PATH of whoever calls
    `docker`.
    """

    def __init__(self, directory: Path, containers: Mapping[str, Container]) -> None:
        self.containers = dict(containers)
        self.asked: list[list[str]] = []
        """The argv of every client that asked for something, without its first word."""
        self.finished: dict[str, str] = {}
        """When a container's earlier life was over, of those that have had one."""
        self._printed: dict[str, list[tuple[str, bytes]]] = {name: [] for name in containers}
        for name, container in containers.items():
            threading.Thread(target=self._keep, args=(name, container.output), daemon=True).start()
        self.program = directory / "docker-bin"
        self.program.mkdir()
        self._path = directory / "docker.sock"
        code, client = self.program / "docker_client.py", self.program / "docker"
        code.write_text(_CLIENT.read_text().replace("@SOCKET@", str(self._path)))
        client.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {code} "$@"\n')
        client.chmod(0o755)
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(self._path))
        self._server.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def printed(self, name: str) -> list[tuple[str, bytes]]:
        """What the daemon has of a container's log: moments and lines."""
        return list(self._printed[name])

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            data, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 3)
            order = _order(data, connection)
            self.asked.append(order["argv"])
            container = self.containers.get(order["container"])
            answer: dict[str, Any] = {
                "error": f"Error response from daemon: No such container: {order['container']}",
                "code": 1,
            }
            if container is not None and order["verb"] == "inspect":
                finished = self.finished.get(order["container"], "0001-01-01T00:00:00Z")
                answer = {
                    "text": finished
                    if "Finished" in order.get("format", "")
                    else str(container.init),
                    "code": 0,
                }
            elif container is not None and order["verb"] == "logs":
                answer = {"code": 0}
                self._tell(order, descriptors[0])
            elif container is not None:
                streams = dict(zip(("stdout", "stderr", "stdin"), descriptors, strict=False))
                process = container.start(
                    order["command"], cwd=order["cwd"], env=order["env"], **streams
                )
                code = process.wait()
                answer = {"code": code if code >= 0 else 128 - code}
            for descriptor in descriptors:
                os.close(descriptor)
            with contextlib.suppress(OSError):  # the client was killed
                connection.sendall(json.dumps(answer).encode())

    def _keep(self, name: str, output: Any) -> None:
        """A line as the daemon keeps it: with the moment at which it was read."""
        for line in iter(output.readline, b""):
            self._printed[name].append((moment(), line))

    def _tell(self, order: Mapping[str, Any], output: int) -> None:
        since, until = (
            _as_moment(order.get("since", "0")),
            _as_moment(order.get("until", "9999-12-31T00:00:00Z")),
        )
        for stamp, line in self.printed(order["container"]):
            if since <= stamp <= until:
                os.write(output, (stamp.encode() + b" " if order.get("timestamps") else b"") + line)


def moment(t_ns: int | None = None) -> str:
    """A time, default now, as Docker writes it."""
    t_ns = time.time_ns() if t_ns is None else t_ns
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(t_ns // 10**9))}.{t_ns % 10**9:09d}Z"


def _as_moment(text: str) -> str:
    whole, _, part = text.partition(".")
    return text if "T" in text else moment(int(whole) * 10**9 + int(f"{part:0<9}"))


def _programs_below_tmp() -> list[str]:
    """Where Python and this repository are, of those that a directory at /tmp would hide: they
    belong to the image.
    """
    places = {sys.base_prefix, sys.prefix, str(Path(__file__).resolve().parents[2])}
    return sorted(place.lstrip("/") for place in places if Path(place).is_relative_to("/tmp"))


def _child_of(pid: int, seconds: float = 60.0) -> int:
    deadline = time.monotonic() + seconds
    while not (found := Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        if time.monotonic() > deadline:
            raise NotHere("the container's first process did not come up")
        time.sleep(0.01)
    return int(found[0])
