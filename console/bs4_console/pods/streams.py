"""The streams of a pod: their names, and the places in them."""

from __future__ import annotations

from typing import Any

from bs4_agent.errors import AgentError
from bs4_agent.streams.cursor import Cursor
from bs4_console import ceilings
from bs4_console.errors import ProtocolMismatch, UsageError
from bs4_console.pods.channel import Channel
from bs4_console.printable import one_line

#: Any file of the pod is a stream: this and its path. Nothing of it is kept here.
FILE = "file/"
#: Before every place.
NOWHERE = "0:0"


async def stream_names(channel: Channel) -> list[str]:
    """All streams of the pod, page by page."""
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
    if not isinstance(entries, list):
        return []
    found = []
    for entry in entries:
        if isinstance(entry, dict):
            found.append(entry.get("name"))
    rows = []
    for name in found:
        if isinstance(name, str) and len(name) <= ceilings.NAME_BYTES and name == one_line(name):
            rows.append(name)
    return rows


def file_stream(path: str) -> str:
    """The stream of any file of a pod; UsageError for a path that is not whole."""
    if not path.startswith(("/", "~/")):
        raise UsageError(f"{path!r} is no whole path of the pod.", "Begin it with / or ~/.")
    return FILE + path


def place(result: dict[str, Any], key: str) -> str:
    """A cursor in the answer to a query, checked: it becomes a file name and a position here."""
    try:
        return str(Cursor.parse(str(result.get(key))))
    except AgentError:
        raise ProtocolMismatch(
            "What answers on the pod does not speak the agent's protocol: its answer holds "
            "no cursor.",
            "Deploy the agent again.",
        ) from None


def position(cursor: str) -> tuple[int, int]:
    generation, offset = cursor.split(":")
    return int(generation), int(offset)
