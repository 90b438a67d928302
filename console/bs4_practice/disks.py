"""Small disks for practice pods: a file system in memory, mounted over a directory with all that
lies in it.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from bs4_practice.stage import Stage

MIB = 1 << 20


@functools.cache
def needs_mounts() -> str:
    """Why nothing can be mounted here, "" when it can."""
    if os.geteuid() != 0:
        return "only root may mount a small disk"
    with tempfile.TemporaryDirectory(prefix="bs4-") as directory:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", directory],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return f"nothing can be mounted here ({done.stderr.strip()})"
        subprocess.run(["umount", directory], check=True)
    return ""


def give_own_disk(stage: Stage, directory: Path, megabytes: int) -> Path:
    """`directory` becomes a disk of its own that holds what the directory held. Taken away when the
    pod is gone.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bs4-") as staging:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", staging], check=True
        )
        shutil.copytree(directory, staging, dirs_exist_ok=True, symlinks=True)
        subprocess.run(["mount", "--bind", staging, str(directory)], check=True)
        subprocess.run(["umount", staging], check=True)
    stage.afterwards(lambda: subprocess.run(["umount", "-l", str(directory)], check=True))
    return directory


def fill(directory: Path, leave: int) -> Path:
    """A file of somebody else's that leaves `leave` bytes free."""
    status = os.statvfs(directory)
    ballast = directory / "somebody-elses.tar"
    with ballast.open("wb") as out:
        os.posix_fallocate(out.fileno(), 0, max(status.f_bavail * status.f_frsize - leave, 1))
    return ballast


def fill_to(directory: Path, percent: int) -> Path:
    """The same up to a share of the whole disk."""
    status = os.statvfs(directory)
    return fill(directory, int(status.f_blocks * status.f_frsize * (100 - percent) / 100))


def remount(directory: Path, how: str) -> None:
    """`ro`, as a kernel does after an error of the device, or `rw`."""
    subprocess.run(["mount", "-o", f"remount,{how},bind", str(directory)], check=True)
