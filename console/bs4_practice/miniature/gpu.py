"""What the miniature knows of GPUs: which are visible, how much memory is free, and how to hold
some.

A holder is a file `<gpu>-<pid>-<start ticks>-<bytes>` in `holders/` plus an open descriptor of
`nvidia<gpu>`. The simulated driver counts it only while that very process lives. Into the file the
holder writes until when it computes and how hard.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path

_DEFAULT_TOTAL = 81559 << 20  # an 80 GB H100, for a miniature that runs without simulated GPUs


class OutOfMemoryError(RuntimeError):
    """Raised when a GPU has too little free memory. It stands for torch's error of this name."""

    __module__ = "torch"


def _root() -> Path | None:
    text = os.environ.get("BS4_MINIATURE_GPUS")
    return Path(text) if text else None


def count() -> int:
    """Return the number of simulated GPUs. They are in the directory that the environment variable
    BS4_MINIATURE_GPUS names. Return 2 if the variable is not set or empty.
    """
    root = _root()
    return len(list((root / "devices").iterdir())) if root else 2


def visible() -> list[int]:
    """Return the numbers of the GPUs that CUDA_VISIBLE_DEVICES names, or all of them if it is not
    set.
    """
    text = os.environ.get("CUDA_VISIBLE_DEVICES")
    return (
        list(range(count()))
        if text is None
        else [int(token) for token in text.split(",") if token.strip()]
    )


def memory(gpu: int) -> tuple[int, int]:
    """Return (free bytes, all bytes) of the GPU with the number `gpu`."""
    root = _root()
    if root is None:
        return _DEFAULT_TOTAL, _DEFAULT_TOTAL
    settings = dict(
        line.split(" ", 1)
        for line in (root / "devices" / str(gpu)).read_text().splitlines()
        if " " in line
    )
    total = int(settings["total"])
    return total - int(settings.get("reserved", 0)) - sum(_held(root, gpu)), total


def training_bytes(total: int, seq_len: int) -> int:
    """Return how many bytes of GPU memory a trainer rank takes: about half of `total`, all bytes of
    the GPU (41 of 80 GB in the recorded runs), for sequences of up to 8192 tokens, and more in
    proportion for a longer `seq_len`.
    """
    return int(total * 0.52 * max(1.0, seq_len / 8192))


def _held(root: Path, gpu: int) -> list[int]:
    """Bytes of each live holder; entries of dead ones are swept."""
    sizes = []
    for entry in (root / "holders").iterdir():
        device, pid, ticks, size = (int(part) for part in entry.name.split("-"))
        if _start_ticks(pid) != ticks:
            entry.unlink(missing_ok=True)
        elif device == gpu:
            sizes.append(size)
    return sizes


def _start_ticks(pid: int | str) -> int | None:
    """Field 22 of /proc/PID/stat, None for a process that is gone or a zombie."""
    try:
        raw = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = raw[raw.rindex(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


class Memory:
    """Memory of a GPU that this process holds until it ends or `release` is called: `size` bytes of
    the GPU with the number `gpu`.
    """

    def __init__(self, gpu: int, size: int) -> None:
        """Take the memory. Raises OutOfMemoryError if fewer than `size` bytes are free."""
        self._entry: int | None = None
        self._file: Path | None = None
        self._device: int | None = None
        self._renew_at = 0.0
        root = _root()
        if root is None:
            return
        with open(
            root / "lock", "a"
        ) as lock:  # two processes that start together must not both get the last bytes
            fcntl.flock(lock, fcntl.LOCK_EX)
            free, total = memory(gpu)
            if free < size:
                raise OutOfMemoryError(
                    f"CUDA out of memory. Tried to allocate {size / 2**30:.2f} GiB. GPU 0 has a "
                    f"total capacity of {total / 2**30:.2f} GiB of which "
                    f"{max(free, 0) / 2**30:.2f} GiB is free."
                )
            name = f"{gpu}-{os.getpid()}-{_start_ticks('self')}-{size}"
            self._file = root / "holders" / name
            self._entry = os.open(self._file, os.O_WRONLY | os.O_CREAT, 0o644)
        device = os.environ.get("BS4_DEV")
        if device:
            self._device = os.open(f"{device}/nvidia{gpu}", os.O_RDWR)

    def release(self) -> None:
        """Give back the GPU memory that this object holds, before the process ends."""
        for handle in (self._entry, self._device):
            if handle is not None:
                os.close(handle)
        if self._file is not None:
            self._file.unlink(missing_ok=True)
        self._entry = self._device = self._file = None

    def busy(self, seconds: float, percent: int) -> None:
        """Let the GPU look `percent` percent busy for `seconds` seconds from now. It looks idle
        after that time, unless this is called again.
        """
        now = time.monotonic()
        if self._entry is None or now < self._renew_at:
            return
        lease = max(seconds, 0.3)
        self._renew_at = now + lease / 2
        os.pwrite(self._entry, f"{int((now + lease) * 1000):020d} {percent:3d}\n".encode(), 0)


def forget_own_entries() -> None:
    """Give back all memory that this process holds on the simulated GPUs, before it exits. The
    files by which the simulated driver knows of that memory are deleted. After a kill this is not
    needed, because the driver ignores files of dead processes.
    """
    root = _root()
    if root is not None:
        for entry in (root / "holders").glob(f"*-{os.getpid()}-*"):
            with contextlib.suppress(FileNotFoundError):
                entry.unlink()
