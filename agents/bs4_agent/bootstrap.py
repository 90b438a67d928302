"""How every process of the agent starts: `python -IS <bundle>/bs4_agent/bootstrap.py
attach|daemon|shim ...`.

A bundle is unpacked to `~/.bs4/agent/<hash>/` as `bs4_agent/`, `lib/` (pure Python) and
`lib-<machine>/` (psutil with its compiled part). The interpreter is called with this file's path,
so a noexec home does not matter for this file. It does matter for psutil's shared object. Until the
libraries are on sys.path, only the standard library may be imported.
"""

from __future__ import annotations

import mmap
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

#: Exit status when the bundle cannot run on this machine (sysexits.h: EX_UNAVAILABLE).
UNAVAILABLE = 69


class Unusable(Exception):
    """Raised when the bundle (the agent's code with its libraries) cannot run on this machine. The
    message says why and what to do.
    """


def library_paths(bundle: Path, name: str) -> list[str]:
    """Return the paths of the libraries in `bundle`, the directory with the unpacked code of the
    agent, that have to be at the front of sys.path. `name` is the hash of the bundle. Raises
    Unusable if the bundle is not made for this kind of machine, or if no directory allows that
    compiled code is loaded from it (noexec).
    """
    machine = os.uname().machine
    native = bundle / f"lib-{machine}"
    if not native.is_dir():
        known = ", ".join(sorted(path.name.partition("-")[2] for path in bundle.glob("lib-*")))
        raise Unusable(
            f"This pod is a {machine} machine; the agent is made for {known}. Rent a pod of "
            "one of these."
        )
    return [str(_executable(native, name)), str(bundle / "lib"), str(bundle)]


def fallback_directories(name: str) -> Iterator[Path]:
    """Yield the directories that may hold a copy of the bundle's compiled libraries if the bundle
    itself is on a file system that forbids running code (noexec). `name` is the bundle's hash.
    Directories on a disk come first, because they survive a reboot.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    # The directory below is 0700 and checked to be ours.
    for base in ("/var/tmp", "/tmp", runtime, "/dev/shm"):  # noqa: S108
        yield Path(base) / f"bs4-{os.getuid()}-{name}"


def _executable(native: Path, name: str) -> Path:
    """Return `native`, or a copy of it in a place from which code can be mapped. Raises Unusable if
    there is none.
    """
    if _can_be_mapped(native):
        return native
    tried = []
    for private in fallback_directories(name):
        try:
            private.mkdir(mode=0o700, exist_ok=True)
            if is_ours(private):
                copy = _copy(native, private / native.name)
                if _can_be_mapped(copy):
                    return copy
        except OSError as error:
            tried.append(f"{private.parent} ({error.strerror})")
        else:
            tried.append(f"{private.parent} (noexec)")
    raise Unusable(
        f"No code can be loaded from {native.parent.parent}, nor from {', '.join(tried)}. "
        "Remount one of them with exec, or set BS4_HOME to a place that allows it."
    )


def _can_be_mapped(native: Path) -> bool:
    """Return True if the dynamic loader can load the shared objects: a noexec mount answers EPERM
    to PROT_EXEC.

    The test takes 20 us and names the cause. An import takes 40 ms and only says "failed to map
    segment".
    """
    for library in native.glob("*/*.so"):
        try:
            with open(library, "rb") as handle:
                mmap.mmap(
                    handle.fileno(), 1, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC
                ).close()
        except PermissionError:
            return False
    return True


def is_ours(directory: Path) -> bool:
    """Return True if `directory` is a real directory (not a link) of this process's user with mode
    0700, so that no other user can have put code into it. Raises OSError if it does not exist.
    """
    found = directory.lstat()
    return (
        stat.S_ISDIR(found.st_mode)
        and found.st_uid == os.getuid()
        and stat.S_IMODE(found.st_mode) == 0o700
    )


def _copy(native: Path, target: Path) -> Path:
    """Return a copy of the libraries at `target`, made now or by another process."""
    if target.is_dir():
        return target
    import shutil  # 10 ms that only a noexec home has to pay

    half = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.copytree(native, half)
    try:
        half.rename(target)
    except OSError:
        shutil.rmtree(half, ignore_errors=True)
        if not target.is_dir():  # else another process was faster: the same bytes
            raise
    return target


def main() -> int:
    """Put the libraries of the bundle (the agent's code with its libraries) on sys.path, run the
    agent's command line, and return its exit code. Return 69 if the bundle cannot run on this
    machine.
    """
    bundle = Path(__file__).resolve().parents[1]
    try:
        sys.path[:0] = library_paths(bundle, bundle.name)
    except Unusable as problem:
        sys.stderr.write(f"{problem}\n")
        return UNAVAILABLE
    os.environ["BS4_BUNDLE"] = str(bundle)
    from bs4_agent.__main__ import main as agent

    return agent(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
