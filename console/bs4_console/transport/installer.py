"""Runs on the pod, sent as `python -c`: checks the uploaded archive, unpacks it beside the others,
switches to it, cleans up and attaches.

Arguments: token, archive, sha256, hash name, "version build", then the arguments for the agent, or
"library" for a bundle of libraries that is only put in its place. It runs on Python 3.10 or newer
with the standard library only. Everything is made under a temporary name and renamed at the end; a
failure removes it and prints `<token> failed KIND DETAIL`.
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
from importlib.util import cache_from_source
from pathlib import Path
from types import ModuleType

# The bytes that must be left when everything is written. With less the agent could not even write
# its journal, and on a full disk Python leaves cut-off bytecode files without an error.
_LEFT_OVER = 256 * 1024
# Seconds. Half-made files of another console that deploys right now are younger.
_ABANDONED_S = 3600
# The directories of a bundle that hold the agent's own code.
_OWN = ("bs4_agent", "bs4_common")


class Failed(Exception):
    """Raised on the pod if the installation of a bundle failed. `kind` is no-space, checksum,
    unusable (the bundle cannot run there) or error, and the exception's text says more. Both are
    printed for the console.
    """

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


def main(arguments: Sequence[str]) -> None:
    """Install an uploaded bundle on the pod, print `<token> ready`, and turn this process into the
    agent. `arguments` are: the token, a text with which output for the console begins; the
    archive's path; its SHA-256; the bundle's name (the hash of its contents); the text "version
    build"; and the agent's own arguments (`attach` ...).

    If "library" stands in place of the agent's arguments, the bundle has only libraries, and the
    process ends after `ready`. If the installation fails, `<token> failed KIND DETAIL` is printed,
    and the function returns.
    """
    token, archive, sha256, name, about, *command = arguments
    library = command == ["library"]
    try:
        bundle = (install_library if library else install)(Path(archive), sha256, name, about)
    except Failed as failure:
        # The output is the protocol with the console.
        print(f"\n{token} failed {failure.kind} {failure}", flush=True)  # noqa: T201
        return
    print(f"\n{token} ready", flush=True)  # noqa: T201
    if library:
        return
    os.execv(  # noqa: S606 (the pipe stays the agent's)
        sys.executable,
        [sys.executable, "-IS", str(bundle / "bs4_agent" / "bootstrap.py"), *command],
    )


def install(archive: Path, sha256: str, name: str, about: str) -> Path:
    """Check and unpack an uploaded agent bundle on the pod, point the symbolic link `current` to
    it, and return its new directory, which is beside `archive`, the path of the uploaded tar.gz.
    `sha256` is the hash that the archive must have, `name` the name of the new directory, and
    `about` the text "version build", which is saved with the bundle.

    `archive` is removed in any case. Raises Failed if it is damaged, the disk has too little space,
    or the bundle cannot run on this pod.
    """
    bundles = archive.parent
    with _unpacked(archive, sha256, name, bundles, bundles.parent) as half:
        bootstrap = _load(half / "bs4_agent" / "bootstrap.py")
        _try_libraries(bootstrap, half, name)
        previous = _put(half, bundles / name, about, bundles.parent / "current")
        _prune(bundles, {name, previous}, bootstrap)
    return bundles / name


def install_library(archive: Path, sha256: str, name: str, about: str) -> Path:
    """Check and unpack an uploaded bundle of pure Python libraries into the directory `b2/` of the
    agent's home, point the symbolic link `b2-current` there to it, and return its new directory.
    `archive` is the path of the uploaded tar.gz, `sha256` the hash that it must have, `name` the
    name of the new directory, and `about` the text "version build", which is saved with the bundle.
    `archive` is removed in any case. Raises Failed if it is damaged or the disk has too little
    space.
    """
    bundles = archive.parent
    with _unpacked(archive, sha256, name, bundles) as half:
        previous = _put(half, bundles / name, about, bundles.parent / "b2-current", bundles.name)
        for path in bundles.iterdir():
            # A worker that is still running may use the bundle before. The next bundle removes it.
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
    """Yield the directory with the archive verified and unpacked, beside its final place. An
    OSError becomes Failed. After a failure the directories in `own` are removed if they are empty.
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
    """Move the bundle whole into its place and make it current. Return the name of the bundle that
    was current before.
    """
    (half / "ok").write_text(f"{sys.executable}\n{place.name}\n{about}\n")
    _move(half, place)
    return _switch(current, place.name, directory)


def _remove_empty(*directories: Path) -> None:
    """Remove these directories if they are empty, so that a first deployment that failed leaves
    none behind.
    """
    with contextlib.suppress(OSError):
        for directory in directories:
            directory.rmdir()


def _verify(archive: Path, sha256: str) -> None:
    data = archive.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise Failed("checksum", f"{len(data)} bytes with SHA-256 {found[:16]}, not {sha256[:16]}")


def _unpack(archive: Path, target: Path) -> None:
    """Unpack the archive, which holds plain files and nothing else. Modes come from the umask.

    tarfile.extractall is not used, because its safe filter exists only in Python 3.10.12, 3.11.4
    and newer.
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
    """Compile everything that this machine runs to bytecode before anything runs. A daemon that
    compiles pynvml itself keeps 14 MB of it in memory. The docstrings of the agent's own code are
    left out; they would take 0.6 MB of it.

    The work takes 0.2 s and is shared by up to four processes. A file that does not compile is left
    to whoever imports it.
    """
    foreign = set(bundle.glob("lib-*")) - {bundle / f"lib-{os.uname().machine}"}
    sources = [path for path in bundle.rglob("*.py") if not foreign.intersection(path.parents)]
    sources.sort(key=lambda path: path.stat().st_size, reverse=True)
    workers = min(4, os.cpu_count() or 1)
    children = []
    for number in range(workers):
        child = os.fork()
        if child == 0:
            try:
                for path in sources[number::workers]:
                    own = path.relative_to(bundle).parts[0] in _OWN
                    py_compile.compile(
                        str(path),
                        cfile=cache_from_source(str(path)),
                        quiet=2,
                        optimize=2 if own else -1,
                    )
            finally:  # the child must never do the parent's cleaning up
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    disk = os.statvfs(bundle)
    if disk.f_bavail * disk.f_frsize < _LEFT_OVER:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(bundle))


def _try_libraries(bootstrap: ModuleType, bundle: Path, name: str) -> None:
    """Load the compiled libraries, so that a foreign machine type, an old libc or a noexec home
    shows before anything is switched. Raises Failed.
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
    """Rename the bundle to its place. A complete bundle with the same hash that is there already is
    kept, and an incomplete one is removed.
    """
    # Renamed first, and looked at afterwards: another console may put its own there at any time.
    with contextlib.suppress(OSError):
        half.rename(target)
        return
    if (target / "ok").exists():
        # The Python may have moved since, so the newest `ok` counts.
        os.replace(half / "ok", target / "ok")
        return
    if target.exists():
        shutil.rmtree(target)
    half.rename(target)


def _switch(current: Path, name: str, directory: str = "agent") -> str:
    """Point the link `current` to the bundle in one step. Return the name that it pointed to
    before, or "".
    """
    previous = ""
    if current.is_symlink():
        previous = current.readlink().name
    link = current.with_name(f".{current.name}.{os.getpid()}")
    link.unlink(missing_ok=True)
    link.symlink_to(Path(directory) / name)
    os.replace(link, current)
    return previous


def _prune(bundles: Path, keep: set[str], bootstrap: ModuleType) -> None:
    """Remove older bundles and abandoned half-made ones, but never a bundle that a live process
    runs from.
    """
    now = time.time()
    for path in bundles.iterdir():
        try:
            age_s = now - path.lstat().st_mtime
        except FileNotFoundError:
            continue  # another console has just put it in its place
        if path.name in keep or (path.name.startswith(".") and age_s < _ABANDONED_S):
            continue
        if path.is_dir() and not path.is_symlink():
            if not _in_use(path):
                shutil.rmtree(path, ignore_errors=True)
                # Also remove its libraries that are kept elsewhere because of a noexec home.
                for copy in bootstrap.fallback_directories(path.name):
                    if copy.is_dir() and bootstrap.is_ours(copy):
                        shutil.rmtree(copy, ignore_errors=True)
        elif path.name.endswith(".tar.gz"):
            path.unlink(missing_ok=True)


def _in_use(bundle: Path) -> bool:
    """Return True if a process was started from the bundle: its path is in the process's command
    line, or in its environment as BS4_BUNDLE.
    """
    needle = os.fsencode(bundle) + b"/"
    exact = b"BS4_BUNDLE=" + os.fsencode(bundle) + b"\0"
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (
                needle in (process / "cmdline").read_bytes()
                or exact in (process / "environ").read_bytes() + b"\0"
            ):
                return True
    return False


if __name__ == "__main__":
    main(sys.argv[1:])
