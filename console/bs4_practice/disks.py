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
    """Return in words why no small disk can be mounted on this machine, or "" if it can. The answer
    is found out once and then kept.
    """
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
    """Mount a new disk of `megabytes` MiB over `directory`, and return `directory`. The disk is in
    memory, and holds what the directory held. If there is no such directory, it is made. The disk
    is unmounted when the pod of `stage` is gone. Raises CalledProcessError if the disk cannot be
    mounted.
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
    """Write a file `somebody-elses.tar` into `directory`, so large that only `leave` bytes of the
    directory's disk stay free, and return the file's path. Raises OSError if it cannot be written.
    """
    status = os.statvfs(directory)
    ballast = directory / "somebody-elses.tar"
    with ballast.open("wb") as out:
        os.posix_fallocate(out.fileno(), 0, max(status.f_bavail * status.f_frsize - leave, 1))
    return ballast


def fill_to(directory: Path, percent: int) -> Path:
    """Write a file `somebody-elses.tar` into `directory`, so large that `percent` percent of the
    directory's disk are used, and return the file's path. Raises OSError if it cannot be written.
    """
    status = os.statvfs(directory)
    return fill(directory, int(status.f_blocks * status.f_frsize * (100 - percent) / 100))


def remount(directory: Path, how: str) -> None:
    """Change the mode of the disk that is mounted over `directory`: read-only if `how` is "ro", as
    a kernel does after an error of the device, and writable if `how` is "rw". Raises
    CalledProcessError if that fails.
    """
    subprocess.run(["mount", "-o", f"remount,{how},bind", str(directory)], check=True)
