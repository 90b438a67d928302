"""Paths of files on a pod, for Tab: its agent is asked what lies in a directory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bs4_console.errors import ConsoleError, RemoteError

if TYPE_CHECKING:
    from bs4_console.pods.session import PodSession

#: Characters of one path that is believed.
LONGEST = 4096


@dataclass(frozen=True)
class Paths:
    """Of the files and directories (`/` behind them) that go on as what was typed; `more`: there
    are others.
    """

    names: tuple[str, ...] = ()
    more: bool = False


async def ask_paths(session: PodSession, beginning: str) -> Paths:
    """What a path that begins so may become. ConsoleError says in one sentence why nothing can be
    told.
    """
    try:
        answer = await session.query("files", "paths", path=beginning)
    except RemoteError as error:
        if error.type == "unknown-stream":
            raise ConsoleError(
                f"{session.state.name} does not list its files: type the whole path."
            ) from None
        raise
    directory, names = answer.get("directory"), answer.get("names")
    if directory != beginning[: beginning.rfind("/") + 1] or not isinstance(names, list):
        raise ConsoleError(
            f"{session.state.name} answered with no list of files: type the whole path."
        )
    paths = (
        f"{directory}{name}" for name in names if isinstance(name, str) and "/" not in name[:-1]
    )
    return Paths(
        tuple(path for path in paths if path.startswith(beginning) and len(path) <= LONGEST),
        bool(answer.get("more")),
    )
