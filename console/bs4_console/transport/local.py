"""The machine one sits on, as a pod: the same agent, the same scripts, by subprocess instead of
SSH.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bs4_console.errors import DeployFailed, LinkError, NoSpace, Unreachable
from bs4_console.pods.inventory import Pod
from bs4_console.pods.port import Completed, Duplex
from bs4_console.transport import deploy as deployment
from bs4_console.transport.bundle import Bundle
from bs4_console.transport.bundle import shipped as shipped_bundle
from bs4_console.transport.remote import Ending

_CHUNK = 256 * 1024
_CLOSE_S = 2.0


class LocalTransport:
    """pods.port.Transport for this machine. `environment` is added to ours (BS4_HOME puts the
    agent elsewhere than ~/.bs4).
    """

    def __init__(
        self,
        pod: Pod,
        *,
        environment: Mapping[str, str] | None = None,
        bundle: Callable[[], Bundle] = shipped_bundle,
    ) -> None:
        self.pod = pod
        self._environment = {**os.environ, **(environment or {})}
        self._bundle = bundle

    @property
    def label(self) -> str:
        return "this machine"

    async def open(self, progress: Callable[[str], None], *, deploy: bool = True) -> Duplex:
        """Bring the agent to its place when needed (never with deploy=False: NoAgent), attach."""
        progress("starting")
        return await deployment.attach(self, progress, self._bundle if deploy else None)

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0
    ) -> Completed:
        process = await self._spawn(argv)
        try:
            async with asyncio.timeout(timeout):
                out, err = await process.communicate(stdin)
        except TimeoutError as error:
            raise Unreachable(
                f"{argv[0]} did not end within {timeout:g} s.",
                "Try again when the machine is less busy.",
            ) from error
        finally:
            await _over(process)
        return Completed(_status(process), out, err)

    async def close(self) -> None:
        return

    async def start(self, argv: Sequence[str]) -> LocalPipe:
        return LocalPipe(await self._spawn(argv))

    async def upload(self, path: str, data: bytes) -> None:
        try:
            await asyncio.to_thread(_write, Path(path), data)
        except OSError as error:
            if error.errno in deployment.FULL:
                raise NoSpace(
                    "The disk of this machine filled up.", "Free space in the home directory."
                ) from error
            raise DeployFailed(
                f"{path} cannot be written: {error.strerror}.", "Check the home directory."
            ) from error

    async def _spawn(self, argv: Sequence[str]) -> asyncio.subprocess.Process:
        try:
            # Its own session: Ctrl-C at the console's terminal is for the console.
            return await asyncio.create_subprocess_exec(
                *argv,
                stdin=-1,
                stdout=-1,
                stderr=-1,
                env=self._environment,
                cwd=Path.home(),
                start_new_session=True,
                limit=_CHUNK,
            )
        except OSError as error:
            raise LinkError(
                f"{argv[0]} cannot be started here: {error.strerror}.", "Check this machine's PATH."
            ) from error


class LocalPipe:
    """A running command (transport.remote.Pipe)."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise ValueError("LocalPipe needs all three streams piped")
        self._process = process
        self._in, self._out = process.stdin, process.stdout
        self._stderr = asyncio.ensure_future(process.stderr.read())

    async def read(self) -> bytes:
        return await self._out.read(_CHUNK)

    async def write(self, data: bytes) -> None:
        try:
            self._in.write(data)
            await self._in.drain()
        except (BrokenPipeError, ConnectionResetError):
            # It ended: its output and its exit status say why, and the reader gets both.
            return

    async def ending(self) -> Ending:
        stderr = await self._stderr
        await self._process.wait()
        return Ending(_status(self._process), stderr.decode(errors="replace").strip())

    async def close(self) -> None:
        self._in.close()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._process.wait()
        except TimeoutError:
            pass  # it is ended below, as it is when this waiting is cancelled
        finally:
            await _over(self._process)
            self._stderr.cancel()
            await asyncio.gather(self._stderr, return_exceptions=True)


def _status(process: asyncio.subprocess.Process) -> int | None:
    """asyncio gives minus the signal number; for us that is no exit status."""
    if process.returncode is not None and process.returncode >= 0:
        return process.returncode
    return None


async def _over(process: asyncio.subprocess.Process) -> None:
    """kill -9 for our own child where it still lives, and its pipes closed: what asyncio keeps of
    it must not outlive the loop.

    Not for longer than _CLOSE_S: somebody that it started may hold the pipes open.
    """
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_CLOSE_S):
            await process.wait()


def _write(path: Path, data: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as handle:
        handle.write(data)
