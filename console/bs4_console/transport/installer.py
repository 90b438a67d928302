"""Runs on the pod, sent as `python -c`: check the uploaded archive, unpack it beside the others,
switch over, clean up, attach.

Arguments: token, archive, sha256, hash name, "version build", then the arguments for the agent, or
"library" for a bundle of libraries that is only put in its place. Python 3.10+, standard library
only. Everything is made under a temporary name and renamed at the end; a failure removes it and
prints `<token> failed KIND DETAIL`.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib.util
import os
import py_compile
import shutil
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

# What must be left when all is written. Less, and the agent could not even write its journal; and
# on a full disk Python leaves bytecode files cut short without an error.
_LEFT_OVER = 256 * 1024
# Half-made things of another console that is at it right now are younger than this.
_ABANDONED_S = 3600


class Failed(Exception):
    """KIND and DETAIL for the console."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


def main(arguments: Sequence[str]) -> None:
    token, archive, sha256, name, about, *command = arguments
    try:
        if command == ["library"]:
            install_library(Path(archive), sha256, name, about)
            print(f"\n{token} ready", flush=True)  # noqa: T201
            return
        bundle = install(Path(archive), sha256, name, about)
    except Failed as failure:
        # Its output is the protocol.
        print(f"\n{token} failed {failure.kind} {failure}", flush=True)  # noqa: T201
        return
    print(f"\n{token} ready", flush=True)  # noqa: T201
    os.execv(  # noqa: S606 (the pipe stays the agent's)
        sys.executable,
        [sys.executable, "-IS", str(bundle / "bs4_agent" / "bootstrap.py"), *command],
    )


def install(archive: Path, sha256: str, name: str, about: str) -> Path:
    """The bundle's directory, complete and current. `archive` is removed in any case."""
    bundles = archive.parent
    with _unpacked(archive, sha256, name, bundles, bundles.parent) as half:
        bootstrap = _load(half / "bs4_agent" / "bootstrap.py")
        _try_libraries(bootstrap, half, name)
        previous = _put(half, bundles / name, about, bundles.parent / "current")
        _prune(bundles, {name, previous}, bootstrap)
    return bundles / name


def install_library(archive: Path, sha256: str, name: str, about: str) -> Path:
    """A bundle of pure Python below `<home>/b2/`, complete and named by `<home>/b2-current`.
    `archive` is removed in any case.
    """
    bundles = archive.parent
    with _unpacked(archive, sha256, name, bundles) as half:
        previous = _put(half, bundles / name, about, bundles.parent / "b2-current", bundles.name)
        for path in bundles.iterdir():
            # The one before may be in use by a worker that goes on; the next bundle removes it.
            if (
                path.is_dir()
                and not path.is_symlink()
                and path.name not in (name, previous)
                and not path.name.startswith(".")
            ):
                shutil.rmtree(path, ignore_errors=True)
    return bundles / name


@contextlib.contextmanager
def _unpacked(archive: Path, sha256: str, name: str, *own: Path) -> Iterator[Path]:
    """The archive, verified and unpacked beside its final place. Failed in the block's stead;
    `own`: directories that a failure leaves only where something else is in them.
    """
    half = archive.parent / f".{name}.{os.getpid()}"
    try:
        _verify(archive, sha256)
        _unpack(archive, half)
        _compile(half)
        yield half
    except OSError as error:
        kind = "error"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            kind = "no-space"
        raise Failed(
            kind, f"{error.strerror or error} ({error.filename})" if error.filename else str(error)
        ) from error
    finally:
        shutil.rmtree(half, ignore_errors=True)
        archive.unlink(missing_ok=True)
        _remove_empty(*own)


def _put(half: Path, place: Path, about: str, current: Path, directory: str = "agent") -> str:
    """Into its place, whole, and current from now on; what was before."""
    (half / "ok").write_text(f"{sys.executable}\n{place.name}\n{about}\n")
    _move(half, place)
    return _switch(current, place.name, directory)


def _remove_empty(*directories: Path) -> None:
    """A first deployment that failed leaves no directory either."""
    for directory in directories:
        try:
            directory.rmdir()
        except OSError:
            return


def _verify(archive: Path, sha256: str) -> None:
    data = archive.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise Failed("checksum", f"{len(data)} bytes with SHA-256 {found[:16]}, not {sha256[:16]}")


def _unpack(archive: Path, target: Path) -> None:
    """Plain files and nothing else, which is all that the archive holds; modes come from the umask.

    Not tarfile.extractall: its safe filter is only in Python 3.10.12, 3.11.4 and newer.
    """
    os.umask(0o077)
    target.mkdir()
    made = set()
    with tarfile.open(archive, "r:gz") as packed:
        for member in packed:
            content = packed.extractfile(member)
            if content is None or member.name.startswith("/") or ".." in member.name.split("/"):
                raise Failed(
                    "error", f"the archive holds {member.name!r}, which is not a file of the agent"
                )
            path = target / member.name
            if path.parent not in made:
                path.parent.mkdir(parents=True, exist_ok=True)
                made.add(path.parent)
            path.write_bytes(content.read())


def _compile(bundle: Path) -> None:
    """Bytecode for everything that this machine runs, before anything runs: a daemon that compiles
    pynvml itself keeps 14 MB of it.

    0.2 s of work, shared by up to four processes. What does not compile is left to whoever imports
    it.
    """
    foreign = {path for path in bundle.glob("lib-*") if path.name != f"lib-{os.uname().machine}"}
    sources = [path for path in bundle.rglob("*.py") if not foreign.intersection(path.parents)]
    sources.sort(key=lambda path: path.stat().st_size, reverse=True)
    workers = min(4, os.cpu_count() or 1)
    children = []
    for number in range(workers):
        child = os.fork()
        if child == 0:
            try:
                for path in sources[number::workers]:
                    py_compile.compile(str(path), quiet=2)
            finally:  # whatever happens: the cleaning up below is the parent's
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    disk = os.statvfs(bundle)
    if disk.f_bavail * disk.f_frsize < _LEFT_OVER:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(bundle))


def _try_libraries(bootstrap: ModuleType, bundle: Path, name: str) -> None:
    """Load what is compiled: a foreign machine, an old libc or a noexec home show now, before
    anything is switched.
    """
    try:
        for library in Path(bootstrap.library_paths(bundle, name)[0]).glob("*/*.so"):
            _load(library)
    except bootstrap.Unusable as error:
        raise Failed("unusable", str(error)) from error
    except ImportError as error:
        raise Failed(
            "unusable", f"psutil cannot be loaded: {error}. It needs glibc 2.17 or newer."
        ) from error


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.name.partition(".")[0], path)
    if spec is None or spec.loader is None:
        raise Failed("error", f"{path} is no Python module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _move(half: Path, target: Path) -> None:
    """Rename; a complete bundle of the same hash that is there already is as good as ours, a half
    one makes way.
    """
    if (target / "ok").exists():
        # The interpreter may have moved since: the newest `ok` counts.
        os.replace(half / "ok", target / "ok")
        return
    if target.exists():
        shutil.rmtree(target)
    half.rename(target)


def _switch(current: Path, name: str, directory: str = "agent") -> str:
    """Point `current` to the bundle in one step; the name it pointed to before ("" for none)."""
    previous = ""
    if current.is_symlink():
        previous = current.readlink().name
    link = current.with_name(f".{current.name}.{os.getpid()}")
    link.unlink(missing_ok=True)
    link.symlink_to(Path(directory) / name)
    os.replace(link, current)
    return previous


def _prune(bundles: Path, keep: set[str], bootstrap: ModuleType) -> None:
    """Remove older bundles and what was abandoned half-way; never one that a live process runs
    from.
    """
    now = time.time()
    for path in bundles.iterdir():
        if path.name in keep or (
            path.name.startswith(".") and now - path.lstat().st_mtime < _ABANDONED_S
        ):
            continue
        if path.is_dir() and not path.is_symlink():
            if not _in_use(path):
                shutil.rmtree(path, ignore_errors=True)
                # And the libraries that a noexec home made it keep elsewhere.
                for copy in bootstrap.fallback_directories(path.name):
                    if copy.is_dir() and bootstrap.is_ours(copy):
                        shutil.rmtree(copy, ignore_errors=True)
        elif path.name.endswith(".tar.gz"):
            path.unlink(missing_ok=True)


def _in_use(bundle: Path) -> bool:
    """Whether a process was started from the bundle: its path is in the command line or
    (BS4_BUNDLE) in the environment.
    """
    needle = os.fsencode(bundle) + b"/"
    exact = b"BS4_BUNDLE=" + os.fsencode(bundle) + b"\0"
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (
                needle in (process / "cmdline").read_bytes()
                or exact in (process / "environ").read_bytes() + b"\0"
            ):
                return True
        except OSError:
            continue
    return False


if __name__ == "__main__":
    main(sys.argv[1:])
