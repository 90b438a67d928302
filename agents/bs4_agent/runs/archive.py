"""Keep the logs of a run's last attempt in a directory that no trainer deletes."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from bs4_agent.paths import storage
from bs4_agent.runs.places import log_directories
from bs4_agent.runs.registry import Runs
from bs4_agent.tree.changes import entries
from bs4_agent.tree.copies import copy, digest, digest_in
from bs4_common.descriptors import at, open_directory, open_file, real
from bs4_common.errors import StepFailed
from bs4_common.trainers.base import LaunchSpec, Trainer

#: torchrun writes two files per rank and restart, verifiers one per environment; more than this is
#: not a directory of logs.
_MAX_FILES = 20_000
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
    """Keep every log and config of the newest attempt of the run `name` in the directory
    `logs/attempt-N/` of `.bs4/RUN`, which is the agent's own directory for the run, beside the
    run's output_dir. Return how many files were linked and copied. The originals stay. A repeated
    call adds only files that are new. Raises StepFailed if a file cannot be archived, and Refused
    if another user owns a directory or may write to it.

    Files are hard-linked where possible. A hard link keeps the content if a trainer deletes or
    renames the original, but not if the trainer truncates the original in place, which prime-rl's
    version of January 2026 does only with --no-clean. The launcher's own output, launcher.log, is
    not archived, because it lies in the attempt's directory in the agent's home, where no trainer
    deletes it. Raises UnknownRun if there is no such run.
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


def _configs(trainer: Trainer, spec: LaunchSpec) -> Iterator[Path]:
    """Yield the configs of the attempt, sorted. The next start overwrites them."""
    return _regular_files(trainer.layout(spec).run_dir.resolve() / "configs")


def _logs(trainer: Trainer, spec: LaunchSpec) -> Iterator[Path]:
    """Yield every regular file in the run's log directories, then the logs that lie elsewhere.
    Links are not followed, and 20,000 files are the most.
    """
    seen: set[Path] = set()
    for directory in log_directories(trainer, spec):
        for path in _regular_files(directory):
            if path not in seen and len(seen) < _MAX_FILES:
                seen.add(path)
                yield path
    for source in trainer.log_sources(spec):
        path = real(source.path)
        if path.is_file() and not path.is_symlink() and path not in seen:
            seen.add(path)
            yield path


def _regular_files(directory: Path) -> Iterator[Path]:
    """Yield the regular files below the directory, or nothing if it does not exist. Raises
    StepFailed if it cannot be looked through.
    """
    try:
        for entry in entries(directory):
            if entry.regular:
                yield entry.path
    except FileNotFoundError:
        return
    except OSError as error:
        raise StepFailed(
            f"{error.filename or directory} cannot be looked through ({error.strerror}), so its "
            "logs are not archived; look at it, then try again."
        ) from error


def _place(source: Path, output_dir: Path) -> Path:
    """Return the relative path of a log in the archive: its path below output_dir, or its whole
    path below `elsewhere` if it lies elsewhere.
    """
    if output_dir in source.parents:
        return source.relative_to(output_dir)
    return Path("elsewhere", *source.parts[1:])


def _keep(source: Path, wanted: Path, result: ArchiveResult, *, link: bool = True) -> ArchiveResult:
    """Archive one file and return `result` with its counts increased. `link` allows a hard link."""
    # .bs4, the run, logs, the attempt
    storage_root = result.directory.parents[2]
    with (
        open_file(source) as opened,
        open_directory(wanted.parent, ours=storage_root, make=0o700) as directory,
    ):
        name = _free_name(opened, directory, wanted.name)
        if name is None:
            return replace(result, kept=result.kept + 1)
        if link and _linked(opened, directory, name):
            return replace(result, linked=result.linked + 1)
        copied = copy(opened, directory, name)
    if copied is None:
        raise StepFailed(
            f"{source} changed while it was copied; stop the run before its logs are archived."
        )
    return replace(result, copied=result.copied + 1, copied_bytes=result.copied_bytes + copied.size)


def _linked(source: int, directory: int, name: str) -> bool:
    """Make a hard link to an open file and return True, or return False if none can be made. None
    can be made on another device, on a filesystem without hard links, and to other users' files.
    """
    try:
        os.link(at(source), name, dst_dir_fd=directory, follow_symlinks=True)
    except OSError:
        return False
    return True


def _free_name(source: int, directory: int, wanted: str) -> str | None:
    """Return the first of the numbered names of `wanted` that no file in the open directory has, or
    None if a file under one of them has the content of `source`.
    """
    original = os.fstat(source)
    for name in _names(wanted):
        try:
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return name
        if (found.st_ino, found.st_dev) == (original.st_ino, original.st_dev):
            return None
        if (
            stat.S_ISREG(found.st_mode)
            and found.st_size == original.st_size
            and digest_in(directory, name, found.st_size) == digest(source, found.st_size)
        ):
            return None
    return None


def _names(wanted: str) -> Iterator[str]:
    """Yield names without end: trainer.stdout, trainer.stdout.2, and so on. A trainer that is
    restarted within an attempt begins its log again, and each of its logs gets a name.
    """
    yield wanted
    for number in count(2):
        yield f"{wanted}.{number}"
