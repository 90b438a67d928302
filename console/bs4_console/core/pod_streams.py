"""The streams of a pod: their names, and the places in them."""

from __future__ import annotations

from typing import Any

from bs4_agent.errors import AgentError
from bs4_agent.streams.cursor import Cursor
from bs4_console.core.channel import Channel
from bs4_console.core.errors import ProtocolMismatch, UsageError

#: Any file of the pod is a stream: this and its path. Nothing of it is kept here.
FILE = "file/"
#: Streams that a pod can have here; one that names more is not believed.
STREAMS_LIMIT = 10_000
#: Before every place.
NOWHERE = "0:0"


async def stream_names(channel: Channel) -> list[str]:
    """All streams of the pod, page by page."""
    names: list[str] = []
    after = ""
    while True:
        page = await channel.query("*", "list", after=after)
        entries, further = page.get("streams"), page.get("next")
        names += [str(entry.get("name")) for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
        if not isinstance(further, dict) or len(names) > STREAMS_LIMIT:
            return sorted(names)
        after = str(further.get("after"))


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
            "What answers on the pod does not speak the agent's protocol: its answer holds no cursor.", "Deploy the agent again."
        ) from None


def position(cursor: str) -> tuple[int, int]:
    generation, offset = cursor.split(":")
    return int(generation), int(offset)
