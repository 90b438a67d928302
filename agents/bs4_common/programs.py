"""Finding a program on a PATH without shutil, which brings bz2 and lzma: a megabyte that an agent
would hold for as long as it lives.
"""

from __future__ import annotations

import os
from pathlib import Path


def which(program: str, path: str) -> str | None:
    """Return the path of the first executable file `program` in the directories of `path`, which
    are separated by colons, or None if there is none. An empty directory means the working
    directory of this process, as for a shell.
    """
    for directory in path.split(os.pathsep):
        found = str(Path(directory, program))
        # Not Path.is_file, which raises where a directory may not be searched.
        if os.path.isfile(found) and os.access(found, os.X_OK):  # noqa: PTH113
            return found
    return None
