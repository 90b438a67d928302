"""The inside of a practice pod: an SSH server, the parent of everything that runs there, and the
last to leave.

It is a subreaper and the root of the pod's scope: whatever is orphaned in the pod becomes its
child, so that the pod's processes are exactly its descendants. Like sshd's, its sessions outlive
their channel, and signals sent over SSH are dropped (as for root logins).
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import asyncssh

from bs4_practice import tree
from bs4_practice.workspace import USER, Workspace, shell

_PR_SET_CHILD_SUBREAPER = 36
_CHUNK = 65536


class PodHost:
    """The main process of a practice pod. It is the pod's SSH server, and the parent of every
    process there that has lost its own. `workspace` says where the pod's files are, and
    `environment` has the environment variables of every SSH session.
    """

    def __init__(self, workspace: Workspace, environment: Mapping[str, str]) -> None:
        self._workspace = workspace
        self._environment = dict(environment)
        self._exits: dict[int, asyncio.Future[int]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending = asyncio.Event()

    async def serve(self, *, until_eof: bool) -> None:
        """Print the pod's address as one JSON line on standard output, then serve SSH until
        SIGTERM, SIGINT or SIGHUP comes or (with `until_eof`) standard input ends. At the end all
        processes of the pod, which are the descendants of this process, are ended.
        """
        _become_subreaper()
        os.chdir(self._workspace.home)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._ending.set)
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        if until_eof:
            loop.add_reader(0, self._read_control)
        if self._workspace.library is None:
            self._spawn_recorder()
        server = await asyncssh.listen(
            "127.0.0.1",
            0,
            server_host_keys=[str(self._workspace.host_key)],
            server_factory=lambda: _Login(self._workspace.client_key.with_suffix(".pub")),
            process_factory=self._start_session,
            sftp_factory=asyncssh.SFTPServer,
            encoding=None,
            line_editor=False,
            allow_pty=False,
            allow_scp=False,
        )
        address = {
            "host": "127.0.0.1",
            "port": server.get_port(),
            "user": USER,
            "pid": os.getpid(),
            "ticks": _own_ticks(),
        }
        sys.stdout.write(
            json.dumps(
                {
                    **address,
                    "workspace": self._workspace.as_dict(),
                    "environment": self._environment,
                }
            )
            + "\n"
        )
        sys.stdout.flush()
        await self._ending.wait()
        server.close()
        loop.remove_signal_handler(signal.SIGCHLD)
        await asyncio.to_thread(tree.end_below, os.getpid())

    def _read_control(self) -> None:
        if not os.read(0, 4096):
            self._ending.set()

    def _spawn_recorder(self) -> None:
        command = [
            sys.executable,
            "-m",
            "bs4_practice.gpus.recorder",
            str(self._workspace.root / "gpu"),
        ]
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def _reap(self) -> None:
        """Every child that ended: sessions, whose exit somebody waits for, and orphans, for whom
        nobody does.
        """
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            future = self._exits.pop(pid, None)
            if future is not None and not future.done():
                future.set_result(os.waitstatus_to_exitcode(status))

    def _start_session(self, channel: asyncssh.SSHServerProcess[bytes]) -> None:
        task = asyncio.get_running_loop().create_task(self._session(channel))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _session(self, channel: asyncssh.SSHServerProcess[bytes]) -> None:
        """Run a command (or a shell that reads standard input) in a session of its own, as sshd
        does. Do nothing if the pod has begun to end since the task was made.
        """
        if self._ending.is_set():
            channel.exit(255)  # what it starts might outlive the pod
            return
        command = channel.command
        argv = [shell(), "-c", command] if command is not None else [shell(), "-l"]
        process = subprocess.Popen(
            argv,
            cwd=self._workspace.home,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        ended = self._exits[process.pid] = asyncio.get_running_loop().create_future()
        feeding = asyncio.create_task(_feed(channel, process.stdin))
        outputs = [_drain(process.stdout, channel.stdout), _drain(process.stderr, channel.stderr)]
        # The channel stays open until nobody can write to it any more, even when the command itself
        # has ended.
        code, *_ = await asyncio.gather(ended, *outputs)
        process.returncode = code  # reaped by _reap
        feeding.cancel()
        if not channel.is_closing():
            if code < 0:
                channel.exit_with_signal(signal.Signals(-code).name.removeprefix("SIG"))
            else:
                channel.exit(code)


class _Login(asyncssh.SSHServer):
    """One user, one key."""

    def __init__(self, authorized: Path) -> None:
        self._authorized = authorized

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn

    def begin_auth(self, username: str) -> bool:
        if username == USER:
            self._connection.set_authorized_keys(str(self._authorized))
        return True


async def _drain(source: object, channel: asyncssh.SSHWriter[bytes]) -> None:
    """From the process to the channel. When the channel is gone our end is closed: a writing
    process then gets SIGPIPE, as under sshd.
    """
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_CHUNK)
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), source
    )
    try:
        while data := await reader.read(_CHUNK):
            channel.write(data)
            await channel.drain()
    except (ConnectionError, asyncssh.Error):
        pass  # the client is gone; what it started goes on
    finally:
        transport.close()


async def _feed(channel: asyncssh.SSHServerProcess[bytes], target: object) -> None:
    """From the channel to the process, until the client's end of file."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, target)
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    try:
        while True:
            try:
                data = await channel.stdin.read(_CHUNK)
            except (asyncssh.SignalReceived, asyncssh.BreakReceived):
                # "session signalling requires privilege separation": sshd drops them for root
                continue
            if not data:
                return
            writer.write(data)
            await writer.drain()
    except (ConnectionError, asyncssh.Error):
        return
    finally:
        writer.close()


def _become_subreaper() -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(
            ctypes.get_errno(),
            "This kernel has no child subreapers; a practice pod needs Linux 3.4 or later.",
        )


def _own_ticks() -> int:
    own = tree.look(os.getpid())
    if own is None:
        raise OSError("There is no /proc here; a practice pod needs Linux.")
    return own.start_ticks
