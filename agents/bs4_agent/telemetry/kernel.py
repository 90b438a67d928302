"""The kernel log, as far as it may be read: Xid faults, lost GPUs, OOM kills. In a container it is usually hidden, which is then said."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

_KMSG = Path("/dev/kmsg")
_RECORD_BYTES = 8192  # the kernel refuses to read a record into less
_RECORDS_A_READ = 20_000  # a whole 1 MiB ring of short lines; 0.1 s of work, once

_GPU = r"\((?:PCI:)?(?P<pci>[0-9A-Fa-f:.]+)\)"
_KINDS = (
    ("xid", re.compile(rf"NVRM: Xid {_GPU}: (?P<xid>\d+)(?:, pid='?(?P<pid>\d+|<unknown>)'?)?(?:, name=(?P<process>[^,]+))?")),
    ("sxid", re.compile(rf"SXid {_GPU}: (?P<xid>\d+)")),
    ("gpu-off-bus", re.compile(r"NVRM: .*fallen off the bus")),
    ("oom-kill", re.compile(r"(?i:out of memory): Kill(?:ed)? process (?P<pid>\d+) \((?P<process>[^)]*)\)")),
)


class KernelLog:
    """`state` is "visible" or "hidden", `detail` why. What a process wrote into the log (facility not 0) is left out."""

    def __init__(self, path: Path = _KMSG) -> None:
        self.state = "hidden"
        self.detail = ""
        self._partial = b""
        self._fd = -1
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            first = self._next()  # opening may succeed where reading is refused
        except OSError as error:
            self.detail = f"{path}: {error.strerror}"
            self.close()
            return
        self._pending = [] if first is None else [first]
        self.state = "visible"

    def read(self) -> list[dict[str, Any]]:
        """What is new since the last call (the first call: since the boot); empty when hidden.

        `{"t", "m", "kind", "text"}` and, where the line has them, `xid`, `pci`, `pid` (a number of the machine's first pid namespace),
        `process`. `kind`: xid, sxid, gpu-off-bus, oom-kill.
        """
        if self.state == "hidden":
            return []
        records, self._pending = self._pending, []
        while len(records) < _RECORDS_A_READ and (record := self._next()) is not None:
            records.append(record)
        boot_t = time.time() - time.monotonic()
        return [fact for record in records for line in record.splitlines() if (fact := parse(line, boot_t)) is not None]

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self.state = "hidden"

    def _next(self) -> bytes | None:
        while True:
            try:
                return os.read(self._fd, _RECORD_BYTES) or None
            except BlockingIOError:
                return None
            except BrokenPipeError:  # the ring overtook us; the next read continues at its oldest record
                continue


def parse(line: bytes, boot_t: float) -> dict[str, Any] | None:
    """A fact from one line `priority,sequence,microseconds,flags;text`, or None. `boot_t`: wall time at monotonic zero."""
    head, separator, body = line.partition(b";")
    fields = head.split(b",")
    if not separator or len(fields) < 3 or not fields[0].isdigit() or not fields[2].isdigit() or int(fields[0]) >= 8:
        return None
    text = body.decode("utf-8", "replace")
    for kind, pattern in _KINDS:
        match = pattern.search(text)
        if match is not None:
            monotonic = int(fields[2]) / 1e6
            fact: dict[str, Any] = {"t": round(boot_t + monotonic, 3), "m": round(monotonic, 3), "kind": kind, "text": text}
            for name, value in match.groupdict().items():
                if value is not None and "unknown" not in value:
                    fact[name] = int(value) if name in ("xid", "pid") else value
            return fact
    return None
