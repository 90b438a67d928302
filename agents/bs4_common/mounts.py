"""The filesystems that are mounted on this machine."""

from __future__ import annotations

import os
import re
from pathlib import Path

#: The form of a blank in a path of mountinfo.
_OCTAL = re.compile(r"\\([0-7]{3})")


def mounted_below(directory: Path) -> str | None:
    """Return the path of a mount point at or below `directory`, or None if there is none. Moving or
    deleting would go through a mount, even through one of the same filesystem.
    """
    root = os.path.realpath(directory)
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            place = _OCTAL.sub(lambda found: chr(int(found[1], 8)), line.split()[4])
            if place == root or place.startswith(f"{root}/"):
                return place
    return None
