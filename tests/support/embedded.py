"""Pods where there is no sshd at all: an asyncssh server in a thread of the test run, running
commands with the pod's own home.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import asyncssh

from tests.support import keys, processes
from tests.support.pod import NotHere, Options, TestPod

_numbers = itertools.count(1)


class EmbeddedPod(TestPod):
    def __init__(self, directory: Path, options: Options, key: Path, ca: Path) -> None:
        if options.needs_namespaces or options.sshd or options.max_sessions != 10:
            raise NotHere("this pod needs a real sshd; only the embedded server here")
        self.name, self.address, self.port, self.user = (
            f"pod{next(_numbers)}",
            "127.0.0.1",
            0,
            "tester",
        )
        self.key, self._options = key, options
        self._directory = directory / self.name
        home = self._directory / "home"
        home.mkdir(parents=True, mode=0o700)
        self.home = str(home)
        self.host_key, self.other_host_key = keys.host_keys(self._directory)
        self._authorized = self._directory / "authorized_keys"
        self._authorized.write_text(
            f"{keys.public_line(key)}\ncert-authority {keys.public_line(ca)}\n"
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=self.name, daemon=True)
        self._thread.start()
        self._acceptor: asyncssh.SSHAcceptor | None = None
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self._commands: set[asyncio.Task[Any]] = set()

    def start(self) -> None:
        self._acceptor = self._do(self._listen())
        self.port = self._acceptor.get_port()

    def boot(self) -> None:
        self.start()

    async def _listen(self) -> asyncssh.SSHAcceptor:
        return await asyncssh.create_server(
            lambda: _Server(self._authorized, self._connections),
            self.address,
            self.port,
            server_host_keys=[
                str(self._directory / name) for name in ("host_key", "host_key_ecdsa")
            ],
            process_factory=self._serve,
            sftp_factory=self._options.sftp,
            encoding=None,
        )

    async def _serve(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        """Run the command with its streams on the channel. (asyncssh's own `redirect` drops the
        whole connection when the client closes a channel whose command still runs: KeyError in
        SSHProcess.feed_eof, 2.24.)
        """
        task = asyncio.current_task()
        assert task is not None
        self._commands.add(task)
        task.add_done_callback(self._commands.discard)
        peer, here = process.get_extra_info("peername"), process.get_extra_info("sockname")
        environment = {
            **self._environment(),
            "SSH_CONNECTION": f"{peer[0]} {peer[1]} {here[0]} {here[1]}",
        }
        child = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            process.command or "true",
            stdin=-1,
            stdout=-1,
            stderr=-1,
            cwd=self.home,
            env=environment,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        feeding = asyncio.ensure_future(_copy(process.stdin, child.stdin))
        try:
            await asyncio.gather(
                _copy(child.stdout, process.stdout), _copy(child.stderr, process.stderr)
            )
            code = await child.wait()
        finally:
            # Also when the pod is closed over it: what asyncio keeps of a child must not outlive
            # the loop.
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
            child.stdin.close()
            if child.returncode is None:
                child.kill()
                await child.wait()
        # The client may have closed the channel meanwhile; an exception here would cost it the
        # whole connection.
        with contextlib.suppress(OSError):
            if code < 0:
                process.exit_with_signal(signal.Signals(-code).name.removeprefix("SIG"))
            else:
                process.exit(code)

    def _environment(self) -> dict[str, str]:
        return {
            "HOME": self.home,
            "PATH": os.environ.get("PATH", os.defpath),
            "BS4_TEST_POD": str(self._directory),
        }

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    @property
    def root(self) -> Path:
        return Path("/")

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            argv,
            input=stdin,
            capture_output=True,
            timeout=timeout,
            check=False,
            env=self._environment(),
            cwd=self.home,
        )

    def cut(self) -> None:
        raise NotHere("cutting a link needs network namespaces")

    def restore(self) -> None:
        raise NotHere("cutting a link needs network namespaces")

    def kill(self) -> None:
        if self._acceptor is not None:
            acceptor, self._acceptor = self._acceptor, None

            async def stop() -> None:
                acceptor.close()
                for connection in list(self._connections):
                    connection.abort()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(acceptor.wait_closed(), 2)

            self._do(stop())
        processes.end_marked(f"BS4_TEST_POD={self._directory}")
        if self._commands:
            self._do(asyncio.wait(list(self._commands), timeout=5))

    async def _clear(self) -> None:
        """Nothing of the loop's is left to be collected after its end."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self.kill()
        self._do(self._clear())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()
        shutil.rmtree(self._directory, ignore_errors=True)


class _Server(asyncssh.SSHServer):
    """Keys are read at each login, as sshd does; forwarding is allowed, for jump hosts."""

    def __init__(self, authorized: Path, connections: set[asyncssh.SSHServerConnection]) -> None:
        self._authorized, self._connections = authorized, connections
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self._connections.add(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection is not None:
            self._connections.discard(self._connection)

    def begin_auth(self, username: str) -> bool:
        if self._connection is not None:
            self._connection.set_authorized_keys(str(self._authorized))
        return True

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> bool:
        return True


async def _copy(source: Any, target: Any) -> None:
    """Until the source ends (then the target's end is told, where it is a pipe) or one side is
    gone.
    """
    with contextlib.suppress(OSError, asyncssh.Error):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    if isinstance(target, asyncio.StreamWriter):
        target.close()
