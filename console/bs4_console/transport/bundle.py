"""The bundle that is put on a pod: one tar.gz with the agent, the compiled playbooks and the wheels
for both machine types, named by its hash.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import io
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bs4_console import assets, files
from bs4_console.errors import ConsoleError

ARCHIVE, DESCRIPTION, LOCK = "agent.tar.gz", "agent.json", "bundle.lock"
#: The file with the build number of the checkout that a source archive was made from. Only source
#: archives have it.
RECORDED_NUMBER = "agents/BUILD_NUMBER"

#: The oldest Python that runs the agent.
PYTHON_MIN = (3, 10)
PYTHON_MIN_TEXT = ".".join(map(str, PYTHON_MIN))
#: By `uname -m`, the platform tag that pip downloads for. manylinux2014 needs glibc 2.17, which
#: every image with CUDA 11 or newer has.
MACHINES: Mapping[str, str] = {"x86_64": "manylinux2014_x86_64", "aarch64": "manylinux2014_aarch64"}
#: The bytes that a file takes on the disk beyond its own: the rest of a 4 KiB block, an inode,
#: and its bytecode (13 KiB on average).
_PER_FILE = 16384
#: The bytes that must be left on that disk. With less the installer gives up.
_LEFT_OVER = 256 * 1024
#: Files of the wheels that no pod reads. Each would take a block on the pod and time to deploy.
_LEFT_OUT = re.compile(
    r"/(RECORD|WHEEL|METADATA|top_level\.txt)$|^example\.py$|^psutil/_ps(aix|bsd|osx|sunos|"
    r"windows)\.py$"
)
#: The nodes that can have a docstring.
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
#: The number of bundles of earlier edits that stay in build/cache.
_CACHED = 8
_BUILD = "Run `python tools/build_bundle.py --fetch` in the checkout."


@dataclass(frozen=True)
class Bundle:
    """An archive of programs that can be installed on a pod, such as the agent. `data` are the
    bytes of the tar.gz and `sha256` its hash, which is checked on the pod. `unpacked` is the number
    of bytes that it needs there.

    `name` is the hash of the contents; the bundle's directory and the agent's socket on the pod are
    named after it. `version` and `build` say which of two bundles is newer; an agent is replaced
    only by a newer bundle.
    """

    data: bytes
    sha256: str
    name: str
    version: str
    build: int
    unpacked: int

    @property
    def order(self) -> tuple[tuple[int, ...], int]:
        """Return a tuple by which bundles can be sorted by age. That of a newer bundle
        is greater.
        """
        return order(self.version, self.build)

    def describe(self) -> dict[str, str | int]:
        """Return a description of the bundle as a dictionary, which is saved beside the archive as
        agent.json: hash, name, version, build number, oldest Python on which it runs, and unpacked
        size in bytes.
        """
        return {
            "sha256": self.sha256,
            "name": self.name,
            "version": self.version,
            "build": self.build,
            "python_min": PYTHON_MIN_TEXT,
            "unpacked": self.unpacked,
        }


def order(version: str, build: int) -> tuple[tuple[int, ...], int]:
    """Return a tuple by which versions can be sorted: the numbers in `version`, then `build`.
    `build` is the time of the newest source as Unix time in seconds.
    """
    return tuple(int(number) for number in re.findall(r"\d+", version)), build


@functools.cache
def shipped() -> Bundle:
    """Return the agent bundle of this console. It is the one in the console's wheel, or, in a
    source checkout, one that is built now from the sources. Raises ConsoleError, which names the
    command to run, if the bundle or a pinned wheel is missing.
    """
    root = assets.checkout()
    if root is None:
        return read(assets.find("bundle"))
    return from_checkout(root, compiled_playbooks())


def compiled_playbooks() -> bytes:
    """Validate every playbook (the description of a known failure and its repair) of this console
    and return them all as the bytes of playbooks.json, the file that the agent reads. Raises
    UsageError if a playbook is not valid. Raises ConsoleError if a file of this console's own
    installation is missing.
    """
    # Imported here, because an installed console reads the finished file and should not load the
    # YAML and schema code (0.1 s).
    from bs4_console.failures.playbooks import compile_all

    return compile_all()


def read(directory: Path, archive: str = ARCHIVE, description: str = DESCRIPTION) -> Bundle:
    """Return the bundle that the function `write` has saved in `directory` as two files. `archive`
    and `description` are the names of the files: the tar.gz, and the JSON with its hash and
    version. Raises ConsoleError if a file is missing or the two do not belong together.
    """
    try:
        data = (directory / archive).read_bytes()
        described = json.loads((directory / description).read_bytes())
    except FileNotFoundError as error:
        raise ConsoleError(
            f"This installation has no agent bundle ({error.filename}).",
            f"Install a released wheel. {_BUILD}",
        ) from error
    if hashlib.sha256(data).hexdigest() != described["sha256"]:
        raise ConsoleError(
            f"{directory / archive} is damaged: its hash is not the one of {description}.",
            "Install bs4-console again.",
        )
    return Bundle(
        data,
        described["sha256"],
        described["name"],
        described["version"],
        described["build"],
        described["unpacked"],
    )


def write(
    bundle: Bundle, directory: Path, archive: str = ARCHIVE, description: str = DESCRIPTION
) -> None:
    """Save a bundle in `directory` as two files, which the function `read` loads. `archive` and
    `description` are the names of the files: the tar.gz, and the JSON with its hash and version.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / archive).write_bytes(bundle.data)
    (directory / description).write_text(json.dumps(bundle.describe(), indent=1) + "\n")


def from_checkout(root: Path, playbooks: bytes, *, work: Path | None = None) -> Bundle:
    """Return the agent bundle that is built from the sources of the checkout `root` as they are
    now. An earlier bundle of the same contents is used again. `playbooks` are the bytes of
    playbooks.json.

    `work` (None: the directory `build` in the checkout) has the pinned wheels in `wheels/` and
    earlier bundles in `cache/`. Raises ConsoleError if a pinned wheel is missing or has another
    hash than the lock file names.
    """
    work = work or root / "build"
    members = dict(contents(root, playbooks, work))
    return assemble(members, _version(root), build_number(root), cache=work / "cache")


def assemble(
    members: Mapping[str, bytes], version: str, build: int, *, cache: Path | None = None
) -> Bundle:
    """Pack files into a bundle and return it. `members` maps the path of each file in the bundle to
    its bytes. `version` and `build` (Unix time in seconds) say how new the bundle is. A file
    `bundle.json` is added, in which the agent finds the bundle's version, build, hash and oldest
    Python. `cache` is a directory of earlier archives that may be used again, or None.
    """
    digest = hashlib.sha256(f"{version} {build} slim\n".encode())
    for path, data in sorted(members.items()):
        digest.update(f"{len(path)}:{path}{len(data)}:".encode() + data)
    name = digest.hexdigest()[:16]
    about = {
        "version": version,
        "build": build,
        "hash": name,
        "python_min": PYTHON_MIN_TEXT,
    }
    complete = {**members, "bundle.json": json.dumps(about, sort_keys=True).encode() + b"\n"}
    archive = _cached(cache, name, complete) if cache else pack(slim(complete))
    unpacked = sum(len(data) for data in complete.values()) + _PER_FILE * len(complete) + _LEFT_OVER
    return Bundle(archive, hashlib.sha256(archive).hexdigest(), name, version, build, unpacked)


def contents(root: Path, playbooks: bytes, work: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the path in the bundle and the bytes of every file of the agent bundle: sources of the
    checkout `root`, pinned wheels from the directory `work`, and `playbooks`, the bytes of
    playbooks.json. Raises ConsoleError if a pinned wheel is missing or has another hash than the
    lock file names.
    """
    yield "playbooks.json", playbooks
    for path in _sources(root):
        yield path.relative_to(root / "agents").as_posix(), path.read_bytes()
    for wheel in wheels(root, work):
        yield from _unpack(wheel)


def _cached(cache: Path, name: str, members: Mapping[str, bytes]) -> bytes:
    """Return the archive from the cache, or make it and save it there. Packing takes 0.1 s, which
    every command in a checkout would cost. Only the newest 8 are kept.
    """
    path = cache / f"{name}.tar.gz"
    if not path.is_file():
        files.replace(path, pack(slim(members)))
        for old in sorted(cache.glob("*.tar.gz"), key=lambda file: file.stat().st_mtime)[:-_CACHED]:
            old.unlink(missing_ok=True)
    return path.read_bytes()


def slim(members: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return `members`, the files of a bundle as {path: bytes}, with the docstrings of the agent's
    own modules emptied. That saves 0.7 MB of the 30 MB of memory that the agent may use on a pod.
    """
    slimmed = dict(members)
    for path, data in members.items():
        if path.startswith(("bs4_agent/", "bs4_common/")) and path.endswith(".py"):
            slimmed[path] = without_docstrings(data)
    return slimmed


def without_docstrings(source: bytes) -> bytes:
    """Return the Python source with every docstring replaced by "". Line numbers stay the same. A
    docstring that has code after it on its last line is left as it is.
    """
    lines = source.split(b"\n")
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, _DOCUMENTED) or ast.get_docstring(node, clean=False) is None:
            continue
        docstring = node.body[0]
        first, last = docstring.lineno - 1, (docstring.end_lineno or docstring.lineno) - 1
        rest = lines[last][docstring.end_col_offset :].strip()
        if rest:
            continue
        lines[first] = lines[first][: docstring.col_offset] + b'""'
        lines[first + 1 : last + 1] = [b""] * (last - first)
    return b"\n".join(lines)


def pack(members: Mapping[str, bytes]) -> bytes:
    """Return `members`, files as {path: bytes}, as the bytes of a tar.gz archive. The same files
    always give the same bytes, because they are sorted and have no times or owners.
    """
    import gzip  # only a checkout packs, and each start of a command imports this module
    import tarfile

    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path, data in sorted(members.items()):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), 0o600
            archive.addfile(entry, io.BytesIO(data))
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=9, mtime=0, filename="") as stream:
        stream.write(plain.getvalue())
    return packed.getvalue()


def wheels(root: Path, work: Path, lock: str = LOCK) -> list[Path]:
    """Return the paths of the pinned wheels in the directory `wheels/` of `work`. `root` is the
    checkout, and `lock` is the name of the lock file in its directory `agents/` that lists the
    hashes of the wheels. Raises ConsoleError if a wheel is missing or has another hash.
    """
    directory = work / "wheels"
    found = {}
    for path in sorted(directory.glob("*.whl")):
        found[hashlib.sha256(path.read_bytes()).hexdigest()] = path
    wanted = re.findall(r"--hash=sha256:([0-9a-f]{64})", (root / "agents" / lock).read_text())
    missing = set(wanted) - found.keys()
    if missing:
        raise ConsoleError(
            f"{len(missing)} of the {len(wanted)} wheels that agents/{lock} pins are not in "
            f"{directory}.",
            _BUILD,
        )
    return [found[digest] for digest in wanted]


def build_number(root: Path) -> int:
    """Return the build number of a checkout: the time at which its newest source was changed, as
    Unix time in seconds.

    The number is the environment variable SOURCE_DATE_EPOCH if that is set. In a source archive it
    is the number in a file, that of the checkout from which the archive was made. In all other
    cases it is the time of the last commit of the sources, or of the newest change to a file if the
    sources differ from that commit.
    """
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(epoch)
    recorded = root / RECORDED_NUMBER
    if recorded.is_file():
        return int(recorded.read_text())
    paths = ["agents", "playbooks"]
    if _git(root, "status", "--porcelain", "--", *paths) == "":
        committed = _git(root, "log", "-1", "--format=%ct", "--", *paths)
        if committed:
            return int(committed)
    edited = [*_sources(root), *(root / "playbooks").rglob("*.yaml"), root / "agents" / LOCK]
    return int(max(path.stat().st_mtime for path in edited))


def _sources(root: Path) -> list[Path]:
    return sorted(
        path
        for path in (root / "agents").glob("bs4_*/**/*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    )


def _unpack(wheel: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a wheel with their path in the bundle: below lib/ for pure Python, below
    lib-<machine>/ otherwise. Licences are included. pip's metadata and psutil's files for other
    systems are left out.
    """
    import zipfile

    directory = "lib"
    for machine in MACHINES:
        if wheel.name.endswith(f"_{machine}.whl"):
            directory = f"lib-{machine}"
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            if not entry.is_dir() and not _LEFT_OUT.search(entry.filename):
                yield f"{directory}/{entry.filename}", archive.read(entry)


def _version(root: Path) -> str:
    import tomllib

    return str(tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"])


def _git(root: Path, *arguments: str) -> str | None:
    """Return the output of a git query, or None if there is no git or no repository, as in an
    unpacked source archive.
    """
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return None
    if done.returncode == 0:
        return done.stdout.strip()
    return None
