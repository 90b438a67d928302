"""This machine as a pod: the same agent and the same scripts, by subprocess instead of SSH."""

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
    """The Transport (see pods/port.py) for a pod that is this machine itself. It runs subprocesses
    instead of using SSH. `environment` has variables that are added to the console's own. If
    BS4_HOME is among them, it is the home directory of the agent in place of ~/.bs4.
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
        """Return the name of the machine for messages: "this machine"."""
        return "this machine"

    async def open(
        self, progress: Callable[[str], None], *, deploy: bool = True, first: bytes = b""
    ) -> Duplex:
        """Connect to the agent on this machine by starting its `attach` command, send it the bytes
        `first`, and return the pipe to it. Install or update the agent first if needed; `progress`
        is called with short phrases for a person. With `deploy` False nothing is installed, and
        NoAgent is raised if no agent runs here. Raises another LinkError, such as NoPython, NoSpace
        or DeployFailed, if the agent cannot be installed or started.
        """
        progress("starting")
        return await deployment.attach(self, progress, self._bundle if deploy else None, first)

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0
    ) -> Completed:
        """Run the command `argv` on this machine to its end, with `stdin` as its input, and return
        its exit status and output. After `timeout` seconds the command is killed and Unreachable is
        raised. Raises LinkError if it cannot be started.
        """
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

    async def bring_store_library(self, progress: Callable[[str], None]) -> None:
        """Install b2sdk, the library with which the agent reads and writes an object store, on
        this machine. Nothing is installed if it is there already. `progress` is called with short
        phrases for a person. Raises a LinkError, such as NoSpace or NoAgent, if that fails.
        """
        from bs4_console.transport import deploy_b2  # only a sync or a restore needs it

        await deploy_b2.bring(self, progress)

    async def close(self) -> None:
        """Do nothing, because the transport on this machine has no connection."""

    async def start(self, argv: Sequence[str]) -> LocalPipe:
        """Start the command `argv` on this machine and return the pipe to it. Raises LinkError if
        it cannot be started.
        """
        return LocalPipe(await self._spawn(argv))

    async def upload(self, path: str, data: bytes) -> None:
        """Write `data` to a new file `path` on this machine, with mode 0600. Raises NoSpace if the
        disk is full, and DeployFailed for any other error.
        """
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
            # The command gets its own session, because Ctrl-C in the terminal is for the console.
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
    """A command that runs on this machine, with its input and its output. It is the local form of
    the protocol transport.remote.Pipe.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise ValueError("LocalPipe needs all three streams piped")
        self._process = process
        self._in, self._out = process.stdin, process.stdout
        self._stderr = asyncio.ensure_future(process.stderr.read())

    async def read(self) -> bytes:
        """Return the next bytes of the command's output, or b"" at its end."""
        return await self._out.read(_CHUNK)

    async def write(self, data: bytes) -> None:
        """Send bytes to the command's input. If the command has ended, the bytes are dropped
        without an error; `ending` then returns how it has ended.
        """
        # If the command has ended, the reader gets its output and exit status, which say why.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._in.write(data)
            await self._in.drain()

    async def ending(self) -> Ending:
        """Wait until the command has ended, and return its exit status and the end of
        its stderr.
        """
        stderr = await self._stderr
        await self._process.wait()
        return Ending(_status(self._process), stderr.decode(errors="replace").strip())

    async def close(self) -> None:
        """Close the command's input, and kill the command if it has not ended after 2 seconds."""
        self._in.close()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._process.wait()
        except TimeoutError:
            pass  # It is killed below, as it is if this wait is cancelled.
        finally:
            await _over(self._process)
            self._stderr.cancel()
            await asyncio.gather(self._stderr, return_exceptions=True)

    async def leave(self) -> None:
        """Close the command's input, and kill the command if it has not ended after 2 seconds."""
        await self.close()


def _status(process: asyncio.subprocess.Process) -> int | None:
    """Return the exit status, or None for a command that a signal ended. asyncio gives minus the
    signal's number then, which is not an exit status.
    """
    if process.returncode is not None and process.returncode >= 0:
        return process.returncode
    return None


async def _over(process: asyncio.subprocess.Process) -> None:
    """Kill our child process if it still runs, and wait until asyncio has closed its pipes, because
    what asyncio keeps of it must not outlive the loop.

    The wait takes at most _CLOSE_S, because a process that the child started may hold the pipes
    open.
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
