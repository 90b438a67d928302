"""The names in a directory of the pod, for a person who types the path of a file: none that `files`
would not open.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from typing import Any

from bs4_agent.errors import BadRequest, Refused
from bs4_agent.paths import Home
from bs4_agent.streams import files

#: Names of one answer, and their bytes at most: a frame's header has room for twice as much,
#: whatever is in them.
NAMES, NAMES_BYTES = 200, 4096
#: Entries of a directory that are looked at, and seconds: one with a million files is no reason to
#: wait.
LOOKED, LOOK_S = 100_000, 0.5


class Listing:
    """Answers queries of `files`, which is no stream."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def ask(
        self, op: str, arguments: Mapping[str, Any], stop: threading.Event | None = None
    ) -> dict[str, Any]:
        """* `paths`: `path`, the beginning of a whole path -> `directory`, as it was typed, up to
          the last `/`; `names` there that go on as
        the path does, a directory with `/` behind it; and whether there are `more`.
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
        # A path of a person, not yet known to be one.
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
        """The name as it is offered; empty for what cannot be opened, is hidden and was not asked
        for, or could not be typed.
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
