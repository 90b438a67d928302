"""Stands in for prime-rl's launcher: `PYTHON rl LOG COMMAND...` starts the server, and goes on when
it has ended with code 0 or any other.

`LOG.code` then holds that code as Python's Popen gives it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

log = Path(sys.argv[1])
with log.open("wb") as output:
    server = subprocess.Popen(
        sys.argv[2:], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
    )
    code = server.wait()
log.with_suffix(".code").write_text(str(code))
signal.pause()
