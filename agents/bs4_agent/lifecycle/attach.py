"""`python -m bs4_agent attach [--start]`: the console's channel, from standard input and output to
the live agent's socket.

It runs for as long as a console is connected, so it is small and copies inside the kernel. Standard
output carries frames only. What a person should read is written to standard error, as one sentence.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import socket
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

from bs4_agent.channel.endpoint import connect
from bs4_agent.lifecycle import ahead
from bs4_agent.lifecycle.handover import Build, ask_to_leave, read_record, replaces
from bs4_agent.paths import Home
from bs4_agent.workers import spawn
from bs4_common.errors import AgentError, Busy
from bs4_common.identity import Identity

USAGE, NO_AGENT = 2, 3

#: Seconds for a new agent to listen. It starts in 0.1 s on an idle machine.
START_S = 5.0
#: Seconds to wait for another attach that is starting or replacing the agent.
TURN_S = 90.0
POLL_S = 0.02
#: Seconds that the agent has to close the connection after the console has ended it. An agent that
#: is frozen never does.
LINGER_S = 20.0
COPY_BYTES = 256 * 1024
LOG_BYTES = 1024 * 1024


def main(arguments: Sequence[str]) -> int:
    """Run the command `attach`, by which a console on another machine reaches the agent: copy
    between standard input and output and the agent's socket. With `--start` in `arguments`, start
    the agent if none runs, and replace an older one. Return the exit code: 0 once either side has
    ended the connection, 3 if there is no agent or it did not start, and 2 for wrong arguments.
    """
    if [argument for argument in arguments if argument != "--start"]:
        print("usage: python -m bs4_agent attach [--start]", file=sys.stderr)  # noqa: T201
        return USAGE
    try:
        first = ahead.take()
        home = Home.from_environment()
        connection = started(home) if "--start" in arguments else live(home)
    except (AgentError, OSError) as error:
        print(f"bs4-agent: {error}", file=sys.stderr)  # noqa: T201
        return NO_AGENT
    if connection is None:
        sentence = "bs4-agent: no agent runs on this pod; deploy one, or attach with --start."
        print(sentence, file=sys.stderr)  # noqa: T201
        return NO_AGENT
    bridge(connection, first)
    return 0


def live(home: Home) -> socket.socket | None:
    """Return a connection to the agent that works in the home directory `home`, or None if none
    runs or it does not listen yet. Raises AgentError if the file `agent.json` in it, which says
    where the agent listens, is damaged.
    """
    record = read_record(home)
    if record is None or not record.alive:
        return None
    try:
        return connect(record.socket)
    except (FileNotFoundError, ConnectionRefusedError):
        return None


def started(home: Home) -> socket.socket:
    """Return a connection to the agent that works in the home directory `home`. If none runs, start
    one. If an older agent runs, ask it to let this code take its place; if it refuses, it stays and
    the connection is to it. Raises Busy if another process has been starting the agent for 90
    seconds, AgentError if the agent ends at once, does not listen in time or cannot be started, and
    OSError if a file cannot be used.
    """
    home.create()
    connection = live(home)
    if connection is not None and not _outdated(home):
        return connection
    turn = _take_turn(home)
    try:
        connection = live(home)
        if connection is not None and _outdated(home):
            connection.close()
            _replace(home)
            connection = live(home)
        return connection or _start(home)
    finally:
        os.close(turn)


def _outdated(home: Home) -> bool:
    """Return True if this code may replace the running agent."""
    record = read_record(home)
    return record is not None and replaces(Build.own(), record.build)


def _take_turn(home: Home) -> int:
    """Lock the start of agents and return the lock's descriptor. Only one attach starts or replaces
    an agent at a time; the others then find that agent. Raises Busy after 90 seconds.
    """
    fd = os.open(home.root / "attach.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + TURN_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(fd)
                raise Busy(
                    f"Another attach has been starting the agent for {TURN_S:.0f} s; see "
                    f"{home.agent_log}, then try again."
                ) from None
            time.sleep(POLL_S)
        else:
            return fd


def _replace(home: Home) -> None:
    """Ask the older agent to leave. An agent that refuses stays and is used. An agent in the middle
    of a step is used until the step's end: our daemon waits for that, because this console may be
    gone by then.
    """
    record = read_record(home)
    if record is None:
        return
    try:
        if not ask_to_leave(record, Build.own()):
            _daemon(home, "--wait")
    except (AgentError, OSError) as error:
        sentence = f"bs4-agent: the running agent {record.build.version} stays: {error}"
        print(sentence, file=sys.stderr)  # noqa: T201


def _start(home: Home) -> socket.socket:
    """Start the daemon, if none runs, and return a connection to it. Raises AgentError."""
    record = read_record(home)
    daemon = record.identity if record is not None and record.alive else _daemon(home)
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        connection = live(home)
        if connection is not None:
            return connection
        if daemon is None or not daemon.alive():
            raise AgentError(
                f"The agent ended as soon as it was started: {_last_words(home)} See "
                f"{home.agent_log}."
            )
        time.sleep(POLL_S)
    raise AgentError(
        f"The agent ({daemon}) does not listen after {START_S:.0f} s: {_last_words(home)} "
        f"See {home.agent_log}."
    )


def _daemon(home: Home, *arguments: str) -> Identity | None:
    """Start the daemon and return its identity, or None if it ended at once. It outlives this
    connection: it has a session of its own, init adopts it, and none of our files are open in it.
    """
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            grandchild = os.fork()
            if grandchild == 0:
                _become_daemon(home, arguments)
            os.write(sending, str(grandchild).encode())
        finally:
            os._exit(0)
    os.close(sending)
    os.waitpid(child, 0)
    pid = os.read(receiving, 32)
    os.close(receiving)
    return Identity.of(int(pid)) if pid else None


def _become_daemon(home: Home, arguments: Sequence[str]) -> NoReturn:
    """Replace this process with the daemon. It does not return."""
    try:
        _detach(home)
        argv = [*daemon_command(), *arguments]
        os.execv(argv[0], argv)  # noqa: S606
    except OSError as error:
        os.write(2, f"bs4-agent: {error}\n".encode())
        os._exit(1)


def _detach(home: Home) -> None:
    """Connect standard input with nothing and the outputs with the agent's log, and close
    everything else.
    """
    os.umask(0o077)
    if home.agent_log.exists() and home.agent_log.stat().st_size > LOG_BYTES:
        home.agent_log.replace(home.agent_log.with_name("agent.log.1"))
    log = os.open(home.agent_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for target, fd in ((0, null), (1, log), (2, log)):
        os.dup2(fd, target)
    os.closerange(3, 65536)


def daemon_command() -> list[str]:
    """Return the argv that starts the agent as a process of its own (a daemon). It uses the same
    interpreter, interpreter flags and code as this process.
    """
    before = sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv[1:])]
    return [sys.executable, *before, "daemon"]


def _last_words(home: Home) -> str:
    """Return the last line of the agent's log for an error message."""
    try:
        text = home.agent_log.read_bytes()[-4096:].decode("utf-8", "replace")
    except FileNotFoundError:
        text = ""
    lines = text.strip().splitlines()
    if lines:
        return f"{lines[-1]!r}."
    return "it said nothing."


def bridge(connection: socket.socket, first: bytes = b"") -> None:
    """Connect standard input and output with the agent: send it the bytes `first`, then copy
    everything from standard input to the agent, and everything from the agent to standard output.
    Return when the agent closes the connection or nobody reads standard output any more. When
    standard input ends, the agent learns of it and has 20 seconds to close the connection; after
    that, this process exits.
    """
    fd = connection.fileno()

    def upstream() -> None:
        try:
            connection.sendall(first)
            pump(0, fd)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the agent closed first, or our input failed: both are the end of the console
        time.sleep(LINGER_S)
        # The other thread may hang in a write that nobody reads; nothing here has to be flushed.
        os._exit(0)

    spawn(upstream, "upstream")
    pump(fd, 1)


def pump(source: int, target: int) -> None:
    """Move bytes from the file descriptor `source` to the file descriptor `target`, until `source`
    ends or nobody reads `target` any more. The bytes are not copied into this process if the kernel
    can avoid it.
    """
    reading, writing = os.pipe()
    try:
        while (moved := _splice(source, writing, COPY_BYTES)) > 0:
            while moved > 0:
                moved -= _splice(reading, target, moved)
    except (BrokenPipeError, ConnectionResetError):
        return
    finally:
        os.close(reading)
        os.close(writing)


def _splice(source: int, target: int, count: int) -> int:
    """Move up to `count` bytes and return how many; 0 means the end. A descriptor that cannot be
    spliced (a terminal, or a file opened for appending) is copied.
    """
    while True:
        try:
            return os.splice(source, target, count)
        except BlockingIOError:
            # Another process has made our standard input or output non-blocking. Waiting for both
            # is cheap.
            select.select([source], [], [])
            select.select([], [target], [])
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            data = os.read(source, min(count, 65536))
            view = memoryview(data)
            while view:
                view = view[os.write(target, view) :]
            return len(data)
