"""Keep the logs of a run's last attempt in a directory that no trainer deletes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from bs4_agent.digest import sha256
from bs4_agent.errors import StepFailed
from bs4_agent.paths import storage
from bs4_agent.runs.files import sync_directory
from bs4_agent.runs.places import log_directories
from bs4_agent.runs.registry import Runs
from bs4_agent.trainers.base import LaunchSpec, Trainer

#: torchrun writes two files per rank and restart, verifiers one per environment; more than this is
#: not a directory of logs.
_MAX_FILES = 20_000
_BLOCK = 1 << 20
#: The next start rewrites these files in place, so a hard link would show the new content.
_REWRITTEN = (".json", ".toml")


@dataclass(frozen=True)
class ArchiveResult:
    """The result of archiving the logs and configs of one attempt in `directory`. They have the
    same paths below `directory` as they had below output_dir.

    `linked` is the number of files that this call hard-linked, which costs no space. `copied` is
    the number of files that it copied, `copied_bytes` bytes in all, because no hard link could be
    made or because the trainer rewrites the file in place; each copy was compared with its original
    by hash. `kept` is the number of files that were in the archive before the call.
    """

    directory: Path
    linked: int = 0
    copied: int = 0
    copied_bytes: int = 0
    kept: int = 0

    @property
    def sentence(self) -> str:
        """Return a sentence, without a full stop, that says how many log files are archived and in
        which directory, or that there are no logs to archive.
        """
        files = self.linked + self.copied + self.kept
        if files:
            return f"{files} log files are archived in {self.directory}"
        return "there are no logs to archive"


def archive_logs(runs: Runs, name: str) -> ArchiveResult:
    """Put every log and config of the newest attempt of run `name` into `logs/attempt-N/` of the
    run's storage (`.bs4/RUN` beside output_dir on the pod) and return how many files were linked
    and copied. The originals stay. A repeated call adds only files that are new. Raises StepFailed
    if a file cannot be archived.

    Files are hard-linked where possible. A hard link keeps the content if a trainer deletes or
    renames the original, but not if the trainer truncates the original in place, which the January
    2026 generation of prime-rl does only with --no-clean. The launcher's own output, launcher.log,
    is not archived, because it lies in the attempt's directory in the agent's home, where no
    trainer deletes it.
    """
    run = runs.get(name)
    trainer = runs.trainer(run.spec)
    output_dir = trainer.layout(run.spec).output_dir
    result = ArchiveResult(storage(output_dir, name) / "logs" / f"attempt-{run.number}")
    for source in (*_logs(trainer, run.spec), *_configs(trainer, run.spec)):
        try:
            wanted = result.directory / _place(source, output_dir.resolve())
            result = _keep(source, wanted, result, link=source.suffix not in _REWRITTEN)
        except FileNotFoundError:
            continue  # rotated away between the listing and the link
        except OSError as error:
            raise StepFailed(
                f"{source} could not be archived ({error.strerror}); free some space in "
                f"{result.directory}, then try again."
            ) from error
    return result


def _configs(trainer: Trainer, spec: LaunchSpec) -> list[Path]:
    """Return the resolved configs of the attempt, sorted. The next start overwrites them."""
    found = sorted((trainer.layout(spec).run_dir.resolve() / "configs").rglob("*"))
    rows = []
    for path in found:
        if path.is_file() and not path.is_symlink():
            rows.append(path)
    return rows


def _logs(trainer: Trainer, spec: LaunchSpec) -> Iterator[Path]:
    """Yield every regular file in the run's log directories, then the logs that lie elsewhere.
    Links are not followed, and 20,000 files are the most.
    """
    seen: set[Path] = set()
    for directory in log_directories(trainer, spec):
        for parent, directories, names in os.walk(directory):
            directories.sort()
            for name in sorted(names):
                path = Path(parent) / name
                if (
                    path.is_file()
                    and not path.is_symlink()
                    and path not in seen
                    and len(seen) < _MAX_FILES
                ):
                    seen.add(path)
                    yield path
    for source in trainer.log_sources(spec):
        path = source.path.resolve()
        if path.is_file() and path not in seen:
            seen.add(path)
            yield path


def _place(source: Path, output_dir: Path) -> Path:
    """Return the relative path of a log in the archive: its path below output_dir, or its whole
    path below `elsewhere` if it lies elsewhere.
    """
    if output_dir in source.parents:
        return source.relative_to(output_dir)
    return Path("elsewhere", *source.parts[1:])


def _keep(source: Path, wanted: Path, result: ArchiveResult, *, link: bool = True) -> ArchiveResult:
    """Archive one file and return `result` with its counts increased. `link` allows a hard link."""
    if _find_same(source, wanted) is not None:
        return replace(result, kept=result.kept + 1)
    wanted.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = _free_name(wanted)
    if link and _linked(source, target):
        return replace(result, linked=result.linked + 1)
    size = result.copied_bytes + _copy(source, target)
    return replace(result, copied=result.copied + 1, copied_bytes=size)


def _linked(source: Path, target: Path) -> bool:
    """Make a hard link and return True, or return False if none can be made. None can be made on
    another device, on a filesystem without hard links, and to other users' files.
    """
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        return False
    return True


def _find_same(source: Path, wanted: Path) -> Path | None:
    """Return the archived file with the content of `source`, under `wanted` or one of its numbered
    names. None if there is none, or if `source` is gone.
    """
    try:
        original = source.stat()
    except FileNotFoundError:
        return None
    for candidate in _names(wanted):
        try:
            found = candidate.stat()
        except FileNotFoundError:
            return None
        if (found.st_ino, found.st_dev) == (original.st_ino, original.st_dev):
            return candidate
        if found.st_size == original.st_size and _digest(candidate, found.st_size) == _digest(
            source, original.st_size
        ):
            return candidate
    return None


def _free_name(wanted: Path) -> Path:
    """Return the first name of `_names` that no file has."""
    return next(name for name in _names(wanted) if not name.exists())


def _names(wanted: Path) -> Iterator[Path]:
    """Yield names without end: trainer.stdout, trainer.stdout.2, and so on. A trainer that is
    restarted within an attempt begins its log again, and each of its logs gets a name.
    """
    yield wanted
    for number in count(2):
        yield wanted.with_name(f"{wanted.name}.{number}")


def _copy(source: Path, target: Path) -> int:
    """Copy a file, sync it to disk, read it back and compare. Return its size in bytes.

    A log that grows meanwhile is kept up to the size that was copied. Raises StepFailed if the
    copied part itself changed.
    """
    # half a megabyte (it brings bz2 and lzma) that an agent which only watches never needs
    import shutil

    half = target.with_name(f".{target.name}.half")
    with open(source, "rb") as reader, open(half, "wb") as writer:
        shutil.copyfileobj(reader, writer, _BLOCK)
        writer.flush()
        os.fsync(writer.fileno())
    size = half.stat().st_size
    if _digest(half, size) != _digest(source, size):
        half.unlink()
        raise StepFailed(
            f"{source} changed while it was copied; stop the run before its logs are archived."
        )
    half.rename(target)
    sync_directory(target.parent)
    return size


def _digest(path: Path, size: int) -> str:
    """Return the SHA-256 of the first `size` bytes, in hexadecimal digits."""
    digest = sha256()
    with open(path, "rb") as handle:
        while size > 0 and (block := handle.read(min(_BLOCK, size))):
            digest.update(block)
            size -= len(block)
    return digest.hexdigest()
