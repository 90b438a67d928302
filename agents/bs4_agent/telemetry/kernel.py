"""Read the kernel log, as far as that is permitted. In a container it is usually hidden, and then
`state` says so.
"""

from __future__ import annotations

import os
from pathlib import Path

_RECORD_BYTES = 8192  # the kernel refuses to read a record into less
_RECORDS_A_READ = (
    2_000  # what a storm of messages may cost at once; the rest comes with the next read
)


class KernelLog:
    """A reader of the kernel's log, which is the file `kmsg` in the directory `dev` (/dev, except
    in tests and on simulated pods). It begins with the records that the kernel writes from now on,
    or, with `past`, with the oldest record that the kernel still has.

    `state` is "visible" or "hidden". Most containers hide the log; `detail` then says why. This
    object is not thread-safe.
    """

    def __init__(self, dev: Path, *, past: bool = False) -> None:
        self.path = dev / "kmsg"
        self.state = "hidden"
        self.detail = ""
        self._partial = b""
        try:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            self._fd = -1
            self.detail = f"{self.path}: {error.strerror}"
            return
        self.state = "visible"
        if past:
            return
        try:
            os.lseek(self._fd, 0, os.SEEK_END)
        except OSError:
            return  # a FIFO has no past

    def read(self) -> list[bytes]:
        """Return the lines that the kernel has logged since the last call, oldest first, as bytes
        of the form `priority,sequence,microseconds,flags;text`. The list is empty if there are none
        or the log is hidden. One call returns 2,000 lines at most; the next call continues after
        them.

        Lines that a process wrote into the log are left out, and so are the indented property lines
        that follow a record.
        """
        if self._fd < 0:
            return []
        data = b"".join(self._records())
        if not data:
            return []
        *lines, self._partial = (self._partial + data).split(b"\n")
        return [line for line in lines if _by_kernel(line)]

    def close(self) -> None:
        """Close the log. `state` is "hidden" afterwards."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self.state = "hidden"

    def _records(self) -> list[bytes]:
        """Return the next records, 2,000 at most."""
        records: list[bytes] = []
        while len(records) < _RECORDS_A_READ:
            try:
                record = os.read(self._fd, _RECORD_BYTES)
            except BlockingIOError:
                break
            except (
                BrokenPipeError
            ):  # the ring overtook us; the next read continues at its oldest record
                continue
            except OSError as error:  # opening may succeed where reading is refused
                self.detail = f"{self.path}: {error.strerror}"
                self.close()
                break
            if not record:
                break
            records.append(record)
        return records


def _by_kernel(line: bytes) -> bool:
    """Return True if the kernel itself wrote this line."""
    priority, comma, _ = line.partition(b",")
    return bool(comma) and b";" in line and priority.isdigit() and int(priority) < 8
