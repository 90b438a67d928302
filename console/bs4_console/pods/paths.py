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
    """The completions of a path on a pod. `names` are whole paths that begin with the typed text; a
    directory ends with `/`. `more` is True if the pod has more matches than `names`.
    """

    names: tuple[str, ...] = ()
    more: bool = False


async def ask_paths(session: PodSession, beginning: str) -> Paths:
    """Ask the pod for its paths that begin with the text `beginning`, and return them, for
    completion with the Tab key. The result has no names if nothing matches. Raises ConsoleError,
    with the reason in one sentence, if the pod cannot list its files.
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
