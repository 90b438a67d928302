"""Work with the streams of a pod: their names, and the cursors in them."""

from __future__ import annotations

from typing import Any

from bs4_common.errors import AgentError
from bs4_common.streams.cursor import Cursor
from bs4_console import ceilings
from bs4_console.errors import ProtocolMismatch, UsageError
from bs4_console.pods.channel import Channel
from bs4_console.printable import one_line

#: The prefix of a stream that is a file of the pod; its path follows. The mirror keeps nothing of
#: it.
FILE = "file/"
#: The cursor before all others.
NOWHERE = "0:0"


async def stream_names(channel: Channel) -> list[str]:
    """Ask the agent for the names of all streams of the pod, page by page, and return them sorted.
    Names of more than 200 characters (ceilings.NAME_BYTES) are left out, and so are names with
    characters that a terminal acts on.
    """
    return sorted(await stream_ends(channel))


async def stream_ends(channel: Channel) -> dict[str, tuple[int, int] | None]:
    """Ask the agent over `channel` for all streams of the pod, as `stream_names` does, and return
    {name: end} with the present end of each: the generation (number of its file) and the byte
    offset. The end is None if the agent's list does not say it. Raises RemoteError if the agent
    refuses the query, and a LinkError if the link is lost.
    """
    ends: dict[str, tuple[int, int] | None] = {}
    after = ""
    for _ in range(ceilings.PAGES):
        page = await channel.query("*", "list", after=after)
        entries, further = page.get("streams"), page.get("next")
        ends.update(_ends(entries))
        if not isinstance(further, dict) or len(ends) > ceilings.STREAMS:
            break
        after = str(further.get("after"))
    return ends


def _ends(entries: Any) -> dict[str, tuple[int, int] | None]:
    """Return the names and ends in one page of the list. An entry without a name, or with one that
    is too long or holds what a terminal acts on, is left out.
    """
    ends: dict[str, tuple[int, int] | None] = {}
    for entry in entries if isinstance(entries, list) else ():
        name = entry.get("name") if isinstance(entry, dict) else None
        if isinstance(name, str) and len(name) <= ceilings.NAME_BYTES and name == one_line(name):
            try:
                end = Cursor.parse(str(entry.get("end")))
            except AgentError:
                ends[name] = None
            else:
                ends[name] = position(str(end))
    return ends


def file_stream(path: str) -> str:
    """Return the name of the stream under which the file `path` on a pod can be read. Raises
    UsageError if the path does not begin with / or ~/.
    """
    if not path.startswith(("/", "~/")):
        raise UsageError(f"{path!r} is no whole path of the pod.", "Begin it with / or ~/.")
    return FILE + path


def place(cursor: object) -> str:
    """Return `cursor`, which an agent has given in its answer to a query, if it has the form of one
    (GENERATION:OFFSET, the number of a stream's file and the byte in it). Raises ProtocolMismatch
    if it has not: this machine uses it as the name of a file and an offset.
    """
    try:
        return str(Cursor.parse(str(cursor)))
    except AgentError:
        raise ProtocolMismatch(
            "What answers on the pod does not speak the agent's protocol: its answer holds "
            "no cursor.",
            "Deploy the agent again.",
        ) from None


def position(cursor: str) -> tuple[int, int]:
    """Split a cursor, GENERATION:OFFSET, into the generation (which of a stream's files) and the
    byte offset in it, and return both as integers.
    """
    generation, offset = cursor.split(":")
    return int(generation), int(offset)
