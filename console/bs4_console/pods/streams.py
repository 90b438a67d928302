"""Work with the streams of a pod: their names, and the cursors in them."""

from __future__ import annotations

from typing import Any

from bs4_agent.errors import AgentError
from bs4_agent.streams.cursor import Cursor
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
    Names that are too long or contain characters a terminal acts on are left out.
    """
    names: set[str] = set()
    after = ""
    for _ in range(ceilings.PAGES):
        page = await channel.query("*", "list", after=after)
        entries, further = page.get("streams"), page.get("next")
        names.update(_names(entries))
        if not isinstance(further, dict) or len(names) > ceilings.STREAMS:
            break
        after = str(further.get("after"))
    return sorted(names)


def _names(entries: Any) -> list[str]:
    """Return the names in one page of the list. An entry without a name, or with one that is too
    long or holds what a terminal acts on, is left out.
    """
    names = []
    for entry in entries if isinstance(entries, list) else ():
        name = entry.get("name") if isinstance(entry, dict) else None
        if isinstance(name, str) and len(name) <= ceilings.NAME_BYTES and name == one_line(name):
            names.append(name)
    return names


def file_stream(path: str) -> str:
    """Return the name of the stream under which the file `path` on a pod can be read. Raises
    UsageError if the path does not begin with / or ~/.
    """
    if not path.startswith(("/", "~/")):
        raise UsageError(f"{path!r} is no whole path of the pod.", "Begin it with / or ~/.")
    return FILE + path


def place(result: dict[str, Any], key: str) -> str:
    """Return the cursor under `key` in an agent's answer to a query. Raises ProtocolMismatch if the
    value is not a cursor; it is checked because this machine uses it as a file name and an offset.
    """
    try:
        return str(Cursor.parse(str(result.get(key))))
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
