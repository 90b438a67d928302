"""Finds processes that have files of a directory open or mapped, because they load, copy or write
them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from bs4_agent.containers import processes as containers


def readers(directories: Collection[Path], processes: Mapping[int, Any]) -> dict[Path, int]:
    """Return {directory: pid} with one of `processes` that has something below the directory open
    or mapped. Directories that no process uses are left out.

    Weights may be mapped although their descriptor is closed, so both are checked. This costs some
    milliseconds for a hundred processes, so it is meant for the moment before something is moved
    and not for every scan. Processes of other users hide both.
    """
    found: dict[Path, int] = {}
    for pid in processes:
        if pid == os.getpid() or not directories:
            continue
        wanted = _called(pid, directories)
        used = _open_below(pid, wanted) | _mapped_below(pid, wanted)
        for prefix in used:
            found.setdefault(wanted[prefix], pid)
    return found


def _called(pid: int, directories: Collection[Path]) -> dict[str, Path]:
    """Return the directories by the prefixes under which the kernel reports a process's files: our
    paths, and for a process in a container also the container's paths.
    """
    wanted = {f"{directory}/": directory for directory in directories}
    try:
        view = containers.View.of(pid)
    except containers.HiddenFiles:
        view = None  # such a process hides its open files too
    for directory in directories if view is not None else ():
        if view is not None and (there := view.inside(directory)) is not None:
            wanted[f"{there}/"] = directory
    return wanted


def _open_below(pid: int, wanted: Mapping[str, Path]) -> set[str]:
    """Return the prefixes below which the process has a file open."""
    try:
        # A Path for every entry would double the cost.
        descriptors = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208
    except OSError:
        return set()
    found: set[str] = set()
    for descriptor in descriptors:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{descriptor}") + "/"  # noqa: PTH115  as above
        except OSError:
            continue
        found.update(prefix for prefix in wanted if target.startswith(prefix))
    return found


def _mapped_below(pid: int, wanted: Mapping[str, Path]) -> set[str]:
    """Return the prefixes below which the process has a file mapped."""
    try:
        with open(f"/proc/{pid}/maps", "rb") as handle:
            maps = handle.read()
    except OSError:
        return set()
    return {prefix for prefix in wanted if b" " + os.fsencode(prefix) in maps}
