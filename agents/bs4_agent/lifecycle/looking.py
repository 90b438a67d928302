"""`python -m bs4_agent look`: the channel of a key that may look at the pod and not act on it. The
key's line in authorized_keys starts this as its forced command, whatever the client has asked for.

The client's request is in SSH_ORIGINAL_COMMAND. Nothing of it is carried out: it is compared with
the one command with which a console attaches, and only the token for the answer is taken from it.
The first frame of the console is passed on with the mark `look`, by which the agent refuses all
that is not reading for as long as the connection lasts.
"""

from __future__ import annotations

import os
import re
import select
import socket
import sys
from collections.abc import Callable, Sequence

from bs4_agent.channel.connection import HELLO_S, RECEIVE_BYTES
from bs4_agent.lifecycle import sftp_refusal
from bs4_agent.lifecycle.attach import NO_AGENT, USAGE, bridge, live
from bs4_agent.paths import Home
from bs4_common.errors import AgentError, ProtocolError, ProtocolVersion
from bs4_common.wire import Frame, encode, first_frame

REFUSED = 4
#: Begins each sentence that a console shows as it is (transport/looking.py).
MARK = "bs4-look: "
#: What a console's attach command ends with: its token, a bundle's name, and how much disk it may
#: need. See console/bs4_console/transport/need.py.
_ATTACH = re.compile(r"sh -c .+ bs4 (bs4-[0-9a-f]{12}) [0-9a-z]+ [0-9a-z]+( --start)?", re.DOTALL)

_ONLY_LOOKS = (
    "This key may only look at the pod with bs4-console: it runs no command, moves no files and "
    "opens no shell. Use a key that may act."
)


def main(arguments: Sequence[str]) -> int:
    """Connect the console at standard input and output with the agent in such a way that it can
    only read and not act. Return the exit code: 0 at the end of the connection, 2 for wrong
    arguments, 3 if no agent runs, and 4 if the client wants something else than to attach to the
    agent. With 2, 3 and 4 one sentence about the reason is on standard error.
    """
    if arguments:
        print("usage: python -m bs4_agent look", file=sys.stderr)  # noqa: T201
        return USAGE
    command = os.environ.get("SSH_ORIGINAL_COMMAND", "")
    asked = _ATTACH.fullmatch(command)
    if asked is None:
        _say(_ONLY_LOOKS)
        if sftp_refusal.is_sftp(command):
            sftp_refusal.refuse(_ONLY_LOOKS, _from_client, _write)
        return REFUSED
    try:
        home = Home.from_environment()
        probe = live(home)
    except (AgentError, OSError) as error:
        _say(f"The agent cannot be reached: {error}")
        return NO_AGENT
    if probe is None:
        _say(
            "No agent runs on this pod, and a key that may only look starts none. Start it with a "
            "key that may act: `bs4-console deploy`."
        )
        return NO_AGENT
    # A client that has not greeted takes no place on the agent.
    probe.close()
    _write(f"\n{asked[1]} ready\n".encode())
    agent = _introduced(home)
    if agent is not None:
        bridge(agent)
    return 0


def _introduced(home: Home) -> socket.socket | None:
    """Wait for the console's greeting, connect to the agent and pass on the greetings of both.
    Return the connection if the agent has confirmed that this console only looks, so that all other
    bytes may pass as they are; otherwise None.
    """
    try:
        asked = _first(_from_client)
        if asked is None:
            return None
        hello, rest = asked
        agent = live(home)
        if agent is None:
            raise AgentError("The agent has ended meanwhile; connect again.")
        agent.sendall(encode(_looking(hello)))
        said = _first(lambda: agent.recv(RECEIVE_BYTES))
        if said is None:
            return None
        answer, more = said
        greeting = answer.header.get("hello")
        if isinstance(greeting, dict) and greeting.get("look") is not True:
            raise ProtocolVersion(
                "The agent that runs on this pod is older than keys that may only look; replace "
                "it with a key that may act: `bs4-console deploy`."
            )
        _write(encode(answer.header, answer.payload) + more)
        # Only now: an older agent would carry out a request that came together with the greeting.
        agent.sendall(rest)
    except AgentError as error:
        _write(encode({"error": error.as_dict()}))
        return None
    except OSError:
        return None  # one side has gone
    if isinstance(greeting, dict):
        return agent
    return None


def _looking(frame: Frame) -> dict[str, object]:
    """Return the header of the console's greeting with the mark. Raises ProtocolError if it is no
    greeting.
    """
    hello = frame.header.get("hello")
    if not isinstance(hello, dict):
        raise ProtocolError("The first frame is no hello; connect with bs4-console.")
    return {"hello": {**hello, "look": True}}


def _first(receive: Callable[[], bytes]) -> tuple[Frame, bytes] | None:
    """Return the first frame that `receive` gives and the bytes behind it, or None if the other
    side has gone before. Raises ProtocolError if it is no frame.
    """
    data = b""
    while received := receive():
        data += received
        found = first_frame(data)
        if found is not None:
            return found
    return None


def _from_client() -> bytes:
    """Return what the client sends next, or b"" if it sends nothing for 20 seconds or has gone."""
    readable, _, _ = select.select([0], [], [], HELLO_S)
    if readable:
        return os.read(0, RECEIVE_BYTES)
    return b""


def _write(data: bytes) -> None:
    """Write all of `data` to standard output."""
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def _say(sentence: str) -> None:
    """Tell the client one sentence."""
    print(f"{MARK}{sentence}", file=sys.stderr)  # noqa: T201
