"""Deciding which agent is the pod's: the record of the live agent, the claim that makes it the only
one, and the way in which a newer agent takes its place.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bs4_agent import __version__
from bs4_agent.channel.endpoint import connect
from bs4_agent.paths import Home
from bs4_common.clock import stamp
from bs4_common.errors import AgentError, Busy, ProtocolError
from bs4_common.files import read_json, write_json
from bs4_common.identity import Identity
from bs4_common.ids import ulid
from bs4_common.wire import PROTOCOLS, Decoder, Frame, encode

#: Seconds. An agent that is asked to leave waits up to 60 s for a safe point
#: (departure.BOUNDARY_S), then closes its files.
LEAVE_S = 70.0
#: Seconds in which an agent without an action under way is gone.
AT_ONCE_S = 10.0
#: Seconds for an agent's answer to one frame.
ANSWER_S = 10.0
#: Seconds that a new agent waits for a leaving one to release the claim.
CLAIM_S = 5.0

_VERSION = re.compile(r"([0-9]+)\.([0-9]+)\.([0-9]+)(.*)")


@dataclass(frozen=True)
class Build:
    """The version of the code of an agent. `version` is the release, such as "1.2.0". `build` is a
    number that grows with every bundle (the archive from which an agent is installed). `bundle` is
    the hash of the bundle; it names the bundle's directory and the agent's socket.
    """

    version: str
    build: int
    bundle: str

    @classmethod
    def own(cls) -> Build:
        """Return the version of the code that runs here, which is read from the file `bundle.json`
        beside the package. In a checkout of the source, which has no such file, it is build 0 with
        the bundle "source".
        """
        metadata = read_json(Path(__file__).resolve().parents[2] / "bundle.json")
        if metadata is None:
            return cls(__version__, 0, "source")
        return cls(str(metadata["version"]), int(metadata["build"]), str(metadata["hash"]))


@dataclass(frozen=True)
class Record:
    """What the file `agent.json` in the agent's home directory says of the last agent that was
    started: the identity of its process, its build, the version of the protocol that it speaks, and
    the path of its socket. `stopped` is True if that agent ended on purpose.
    """

    identity: Identity
    build: Build
    protocol: int
    socket: Path
    stopped: bool

    @property
    def alive(self) -> bool:
        """Return True if the agent that wrote the record still runs and has not begun to end on
        purpose.
        """
        return not self.stopped and self.identity.alive()


def replaces(mine: Build, live: Build) -> bool:
    """Return True if an agent with the version `mine` may replace a running one with the version
    `live`, because it is newer: by its version, or, within one version, by its build number. A
    version that is no release number is never newer.
    """
    ours, theirs = _order(mine), _order(live)
    return mine.bundle != live.bundle and ours is not None and theirs is not None and ours > theirs


def _order(build: Build) -> tuple[int, int, int, bool, str, int] | None:
    """Return a key that sorts builds as releases are sorted: 0.2.0rc1 before 0.2.0. Return None
    for a version that cannot be compared.
    """
    match = _VERSION.fullmatch(build.version)
    if match is None:
        return None
    major, minor, patch, suffix = match.groups()
    return int(major), int(minor), int(patch), not suffix, suffix, build.build


def write_record(
    home: Home, socket_path: Path, build: Build, restart: list[str] | None = None
) -> None:
    """Write into the file `agent.json` in the agent's home directory that this process is the pod's
    agent, has the version `build`, and listens at `socket_path`. `restart` is the argv with which
    the process that watches a run (its shim) may start the agent again if it dies, or None. Raises
    AgentError if /proc does not show this process.
    """
    identity = Identity.of(os.getpid())
    if identity is None:
        raise AgentError(
            "This system shows no /proc/PID/stat of the agent itself; mount /proc, then "
            "start it again."
        )
    _write(home, "started", identity, build, socket_path, restart)


def mark_stopped(home: Home) -> None:
    """Write into the file `agent.json` in the agent's home directory that this agent ends on
    purpose, so that no process that watches a run (no shim) starts it again. Do nothing if the file
    is about another agent. Raises AgentError if the file is damaged.
    """
    record = read_record(home)
    if record is not None and record.identity == Identity.of(os.getpid()):
        _write(home, "stopped", record.identity, record.build, record.socket, None)


def _write(
    home: Home,
    event: str,
    identity: Identity,
    build: Build,
    socket_path: Path,
    restart: list[str] | None,
) -> None:
    """Write the agent's record."""
    record = {
        "event": event,
        "identity": identity.as_dict(),
        "version": build.version,
        "build": build.build,
        "bundle": build.bundle,
        "protocol": PROTOCOLS[0],
        "socket": str(socket_path),
        "restart": restart,
        **stamp(),
    }
    write_json(home.agent_record, record)


def read_record(home: Home) -> Record | None:
    """Return what the file `agent.json` in the agent's home directory says of the last agent, or
    None if there is no such file. Raises AgentError if the file is damaged.
    """
    try:
        data = read_json(home.agent_record)
        if data is None:
            return None
        return Record(
            Identity.from_dict(data["identity"]),
            Build(str(data["version"]), int(data["build"]), str(data["bundle"])),
            int(data["protocol"]),
            Path(data["socket"]),
            data.get("event") == "stopped",
        )
    except (ValueError, KeyError, TypeError) as error:
        raise AgentError(
            f"{home.agent_record} is damaged ({error}); if no agent runs on this pod, remove it."
        ) from None


def claim(home: Home, patience: float = CLAIM_S) -> int:
    """Make this process the only agent that works in the home directory `home`, and return a file
    descriptor. No other agent can claim it as long as the descriptor is open. Wait up to `patience`
    seconds for another agent to release its claim; raises Busy if it does not.

    The claim is a lock on a file, because the kernel releases a lock however the agent ends.
    """
    fd = os.open(home.root / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(fd)
                raise Busy(
                    f"Another agent holds {home.root}; attach to it, or stop it first."
                ) from None
            time.sleep(0.02)
        else:
            return fd


def ask_to_leave(record: Record, mine: Build) -> bool:
    """Ask the running agent that `record` describes to end, so that this agent, which has the
    version `mine`, can take its place. Return True if it has ended within 10 seconds. Return False
    if it is inside a step of an action: it then ends after that step, or stays if the step takes
    longer than 60 seconds. Raises AgentError with the running agent's reason if it refuses, or
    OSError if it cannot be reached.
    """
    action = {
        "key": ulid(),
        "kind": "handover",
        "version": mine.version,
        "build": mine.build,
        "bundle": mine.bundle,
    }
    with connect(record.socket) as connection:
        connection.settimeout(ANSWER_S)
        conversation = _Conversation(connection)
        conversation.ask(
            {
                "hello": {
                    "protocols": list(PROTOCOLS),
                    "client": f"bs4-agent/{__version__}",
                    "who": "handover",
                }
            }
        )
        conversation.ask({"id": 1, "call": "submit", "action": action})
    return _gone(record.identity, AT_ONCE_S)


class _Conversation:
    """A connection to the running agent, for one question and one answer at a time."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._decoder = Decoder()

    def ask(self, header: dict[str, Any]) -> dict[str, Any]:
        """Send a frame and return the header of the answer. Raises ProtocolError, or the agent's
        own error if it refuses.
        """
        self._socket.sendall(encode(header))
        frames: list[Frame] = []
        while not frames:
            data = self._socket.recv(65536)
            if not data:
                raise ProtocolError(
                    "The running agent closed the connection without an answer; attach again."
                )
            frames = self._decoder.feed(data)
        answer = frames[0].header
        if "error" in answer:
            raise _refusal(answer["error"])
        return answer


def _refusal(error: Any) -> AgentError:
    """Return the error that a running agent answered."""
    if not isinstance(error, dict):
        return ProtocolError(f"The running agent answered {json.dumps(error)[:80]}; attach again.")
    refusal = AgentError(str(error.get("message", "The running agent refused; attach again.")))
    refusal.type = str(error.get("type", "error"))
    return refusal


def _gone(identity: Identity, seconds: float) -> bool:
    """Wait up to `seconds` for the process to end, and return True if it has ended."""
    try:
        fd = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return True
    try:
        if identity.alive():
            select.select([fd], [], [], seconds)
        return not identity.alive()
    finally:
        os.close(fd)
