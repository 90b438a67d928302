"""Complete paths of files on a pod, for the Tab key: its agent lists the directory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bs4_console.errors import ConsoleError, RemoteError

if TYPE_CHECKING:
    from bs4_console.pods.session import PodSession

#: Characters of the longest path that is accepted.
LONGEST = 4096


@dataclass(frozen=True)
class Paths:
    """The paths that begin as the text that was typed. Directories end with `/`. `more` is True if
    there are others.
    """

    names: tuple[str, ...] = ()
    more: bool = False


async def ask_paths(session: PodSession, beginning: str) -> Paths:
    """Return the paths on the pod that begin with `beginning`. Raises ConsoleError, with the reason
    in one sentence, if they cannot be listed.
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
