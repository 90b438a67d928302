"""Compiles the simulated driver."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import platformdirs

_SOURCE = Path(__file__).with_name("nvml.c")
NAME = "libnvidia-ml.so.1"


def build(directory: Path) -> Path | None:
    """Compile the simulated GPU driver to `directory/libnvidia-ml.so.1`, and return that path.
    Returns None if this machine has no C compiler that works. The compiled file is kept in the
    user's cache and copied from there the next time. The driver looks for its GPUs in
    `directory/../gpu`.
    """
    compiler = next(
        (found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None
    )
    if compiler is None:
        return None
    key = hashlib.sha256(_SOURCE.read_bytes() + os.uname().machine.encode()).hexdigest()[:16]
    cached = Path(platformdirs.user_cache_dir("bs4-console")) / f"nvml-{key}.so"
    target = directory / NAME
    directory.mkdir(parents=True, exist_ok=True)
    if not cached.exists():
        fresh = directory / f".{NAME}.{os.getpid()}"
        command = [
            compiler,
            "-shared",
            "-fPIC",
            "-O1",
            "-fvisibility=hidden",
            "-o",
            str(fresh),
            str(_SOURCE),
            "-ldl",
            "-lpthread",
        ]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            return None
        os.replace(fresh, target)
        _keep(target, cached)
        return target
    shutil.copy2(cached, target)
    return target


def _keep(library: Path, cached: Path) -> None:
    """Into the cache, if there can be one: another pod then starts half a second sooner."""
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        partial = cached.with_name(f"{cached.name}.{os.getpid()}")
        shutil.copy2(library, partial)
        os.replace(partial, cached)
    except OSError:
        return
