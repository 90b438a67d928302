"""Ray's other daemons, of which a run needs only that they are there: each ends with the driver."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .. import processes


def main(arguments: Sequence[str]) -> int:
    """Do nothing until standard input ends, as one of Ray's other daemons, and return 0.
    `arguments` are the words of its command line.
    """
    processes.set_title(f"/usr/lib/python3/site-packages/ray/core/src/ray/gcs/{arguments[0]}")
    sys.stdin.read()
    return 0
