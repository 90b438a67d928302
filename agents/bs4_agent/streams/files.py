"""Any file of the pod as a stream. It is opened by its path when a console asks for it and followed
while it is read. Files with secrets are refused.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from bs4_agent.paths import Home
from bs4_common.credentials.file_names import (
    HEAD_BYTES,
    SECRET_DIRECTORIES,
    SECRET_NAMES,
    private_key,
)
from bs4_common.errors import BadRequest, Refused, UnknownStream
from bs4_common.streams.logs import LogStream

#: The beginning of such a stream's name. The path follows, which begins with `/` or `~/`:
#: file//var/log/syslog, file/~/prime-rl/outputs/notes.txt.
PREFIX = "file/"
#: Directories whose files are not stored data, or do something when they are read.
_SYSTEM = ("/proc", "/sys", "/dev")


def open_file(home: Home, name: str) -> LogStream:
    """Return a stream of one file on the pod, which a person wants to read. `name` is the text
    `file/` followed by the file's absolute path. The stream's cursors are valid only while this
    stream is open.

    Raises BadRequest if that is not the absolute path of a regular file, UnknownStream if the file
    cannot be read, and Refused if the file belongs to the operating system or may hold credentials
    (see `system` and `secret`). The refusal only prevents that secrets are shown by mistake. It is
    no protection against the person who connects, who may read every file that the agent's user may
    read.
    """
    path = checked(home, name.removeprefix(PREFIX))
    stream = LogStream(name, None, None)
    stream.follow(Path(path), 1)
    return stream


def checked(home: Home, path: str) -> str:
    """Return `path` with its symbolic links resolved, if a person may open the file there through
    the console. Raises BadRequest if `path` is not the absolute path of a regular file,
    UnknownStream if the file cannot be read, and Refused if the file belongs to the operating
    system or may hold credentials (see `system` and `secret`).
    """
    if not path.startswith(("/", "~/")) or "\0" in path:
        raise BadRequest(f"{path[:200]!r} is no whole path; begin it with / or ~/.")
    # A person has typed this text, so it need not be a path.
    real = os.path.realpath(os.path.expanduser(path))  # noqa: PTH111
    if system(real):
        raise Refused(f"{path} belongs to the system and is no file to read; open one on a disk.")
    try:
        info = os.stat(real)  # noqa: PTH116
    except OSError as error:
        raise UnknownStream(
            f"{path} cannot be opened ({error.strerror}); look what there is with a shell on "
            "the pod."
        ) from None
    if not stat.S_ISREG(info.st_mode):
        what = "no regular file"
        if stat.S_ISDIR(info.st_mode):
            what = "a directory"
        raise BadRequest(f"{path} is {what}; name a file.")
    # This comes before the file is opened, so that not even the head of a file with secrets is
    # read.
    if secret(home, real):
        raise Refused(
            f"{path} may hold credentials and is never shown; use a shell on the pod if you "
            "must see it."
        )
    try:
        with Path(real).open("rb") as handle:
            head = handle.read(HEAD_BYTES)
    except OSError as error:
        raise UnknownStream(
            f"{path} cannot be read ({error.strerror}); ask for it as a user who may."
        ) from None
    if private_key(head):
        raise Refused(
            f"{path} holds a private key and is never shown; use a shell on the pod if you "
            "must see it."
        )
    return real


def system(real: str) -> bool:
    """Return True if the path `real` is one of the kernel's directories, such as /proc, or lies
    inside one. Symbolic links in `real` must be resolved already.
    """
    return any(real == directory or real.startswith(f"{directory}/") for directory in _SYSTEM)


def secret(home: Home, real: str) -> bool:
    """Return True if the file or directory at the path `real` may hold credentials. That is so if
    its own name or the name of a directory in the path is one that usually means credentials, or if
    it is one of the agent's own secret files in `home`. Symbolic links in `real` must be resolved
    already, and the path of a directory must end with `/`.
    """
    own = [
        os.path.realpath(directory)
        for directory in (home.credentials, home.withheld, home.root / "environment")
    ]
    inside = any(real.startswith(f"{directory}/") for directory in own)
    *directories, name = real.split("/")
    return (
        inside
        or not SECRET_DIRECTORIES.isdisjoint(directories)
        or SECRET_NAMES.fullmatch(name) is not None
    )
