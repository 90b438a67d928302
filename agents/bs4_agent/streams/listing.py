"""The names in a directory of the pod, for a person who types the path of a file. Names that
`files` would refuse are left out.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from typing import Any, TypedDict

from bs4_agent.paths import Home
from bs4_agent.streams import files
from bs4_common.errors import BadRequest, Refused

#: The most names of one answer, and their bytes. A frame's header has room for twice as much, even
#: after escaping.
NAMES, NAMES_BYTES = 200, 4096
#: The most entries of a directory that are read, and the most seconds. Nobody should wait for a
#: directory with a million files.
LOOKED, LOOK_S = 100_000, 0.5


class PathsAnswer(TypedDict):
    """The answer to the query `paths`, which asks for the names that complete a path."""

    directory: str
    """The path that was asked for, up to its last `/`."""
    names: list[str]
    """The names in that directory that begin with the rest of the path, sorted, with `/` after the
    name of a directory.
    """
    more: bool
    """True if there are more such names."""
    next: None
    """Always None: the answer is not continued."""


class Listing:
    """Answers queries about the directories of the pod. A console uses them to complete the path of
    a file that a person types. Such queries are sent to the name `files`, although there is no
    stream with that name.
    """

    def __init__(self, home: Home) -> None:
        self._home = home

    def ask(
        self, op: str, arguments: Mapping[str, Any], stop: threading.Event | None = None
    ) -> PathsAnswer:
        """Answer the query `paths`: which names complete `arguments["path"]`, the beginning of an
        absolute path. `op` is the query's name. Another thread can end the query early by setting
        `stop`. Raises BadRequest for another query, or if the directory cannot be listed, and
        Refused for directories of the operating system and directories that may hold credentials.
        """
        path = arguments.get("path")
        if op != "paths" or not isinstance(path, str):
            raise BadRequest(
                f"{op[:40]!r} is no question about files; ask paths, with `path`, a text."
            )
        if not path.startswith(("/", "~/")) or "\0" in path:
            raise BadRequest(f"{path[:200]!r} is no whole path; begin it with / or ~/.")
        directory, beginning = path[: path.rindex("/") + 1], path[path.rindex("/") + 1 :]
        names, more = self._names(directory, beginning, stop)
        return {"directory": directory, "names": names, "more": more, "next": None}

    def _names(
        self, directory: str, beginning: str, stop: threading.Event | None
    ) -> tuple[list[str], bool]:
        """Return the sorted names that begin with `beginning`, and True if some were left out."""
        # A person has typed this text, so it need not be a path.
        real = os.path.realpath(os.path.expanduser(directory))  # noqa: PTH111
        if files.system(real):
            raise Refused(
                f"{directory} belongs to the system and has no files to read; go on from "
                "another directory."
            )
        if files.secret(self._home, f"{real}/"):
            raise Refused(
                f"{directory} may hold credentials and is never shown; use a shell on the "
                "pod if you must see it."
            )
        found: list[str] = []
        deadline, cut = time.monotonic() + LOOK_S, False
        try:
            with os.scandir(real) as entries:
                for looked, entry in enumerate(entries):
                    if (
                        looked >= LOOKED
                        or time.monotonic() > deadline
                        or (stop is not None and stop.is_set())
                    ):
                        cut = True
                        break
                    if entry.name.startswith(beginning) and (
                        name := self._offered(entry, real, beginning)
                    ):
                        found.append(name)
        except OSError as error:
            raise BadRequest(
                f"{directory} cannot be listed ({error.strerror}); look what there is with a "
                "shell on the pod."
            ) from None
        found.sort()
        kept, size = 0, 0
        while (
            kept < min(len(found), NAMES)
            and (size := size + len(found[kept].encode())) <= NAMES_BYTES
        ):
            kept += 1
        return found[:kept], cut or kept < len(found)

    def _offered(self, entry: os.DirEntry[str], real: str, beginning: str) -> str:
        """Return the name as it is offered. Return "" for an entry that cannot be opened, cannot
        be typed, or is hidden if no hidden one was typed.
        """
        name = entry.name
        if (name.startswith(".") and not beginning.startswith(".")) or not name.isprintable():
            return ""
        path = f"{real.rstrip('/')}/{name}"
        try:
            if entry.is_dir():
                if files.system(path) or files.secret(self._home, f"{path}/"):
                    return ""
                return f"{name}/"
            if entry.is_file() and not files.secret(self._home, path):
                return name
            return ""
        except OSError:
            return ""  # a link to itself, or gone in the meantime
