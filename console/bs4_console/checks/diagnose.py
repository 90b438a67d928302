"""Find what is wrong with files: logs, run directories and crash reports. Files are only read. The
engine and the detectors are the agent's.
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, TypedDict, cast

from bs4_common.failures import offline, opening
from bs4_common.failures.compiled import Library, Playbook
from bs4_common.failures.engine import Engine, Transition, transition_fields
from bs4_common.failures.facts import Facts, RunFacts
from bs4_common.failures.matcher import Rules
from bs4_common.failures.offline import Loose
from bs4_common.ledger import IncidentView
from bs4_console.errors import UsageError
from bs4_console.failures.playbooks import compile_all
from bs4_console.files import REPORT_SUFFIX
from bs4_console.logs.sources import SOURCES, by_content, by_name, of_suffix
from bs4_console.trainers import registry as trainers

__all__ = ["SOURCES", "AssumedDiagnosis", "UnclearSource", "assuming", "diagnose"]

#: The most logs that are read in a directory that belongs to no run. A directory with more is a
#: data set and not an incident.
_FILES = 200
#: The suffixes that only logs have. In a directory, the first _TRIED logs of which it is not clear
#: what wrote them are tried as logs of every source, which takes seconds for each.
_SURE_SUFFIXES = {".log", ".stdout", ".stderr", ".out", ".err"}
_SUFFIXES = _SURE_SUFFIXES | {".txt", ""}
_TRIED = 10
#: A phrase of the coverage about a log, after its name.
_UNCLEAR = "what wrote it is not clear"
#: The suffixes of packed files, which follow the log's own.
_PACKED = {".gz", ".bz2", ".xz", ".zst"}
_SAMPLE = 256 * 1024
#: Bytes of standard input that are kept in memory; more are kept in a file.
_IN_MEMORY = 64 << 20
#: The share of characters that are no text from which on a file is not taken for a log.
_STRANGE = 0.05
#: The severities of findings, the least first.
_SEVERITIES = ("info", "warning", "critical")


class EvidenceRow(TypedDict):
    """One line of a log, or one file, that shows a failure: part of a finding in the JSON of the
    command `diagnose`. `source` is the program that wrote it, such as "trainer", and `text` the
    line.
    """

    source: str
    file: str
    offset: int
    """Bytes from the beginning of `file`."""
    line: int
    """The number of the line, from 1, or 0 if the whole file or directory is the evidence."""
    text: str


class FindingRow(TypedDict):
    """One failure that was found in files, in the JSON of the command `diagnose`. `title` names the
    failure, and `summary` says in a sentence what was found. `severity` is "critical", "warning" or
    "info". `attempt` is the number of the run's attempt (one life of its processes) that failed.
    """

    id: str
    """The id of the failure, which is that of its playbook (the file that describes it and its
    repair).
    """
    title: str
    role: str
    """How the failure relates to others: "root" for a cause, "cascade" or "symptom" for what
    follows from one, "warning" or "maintenance".
    """
    severity: str
    summary: str
    source: str
    """The program that wrote the first piece of evidence, such as "trainer", or ""."""
    evidence: Sequence[EvidenceRow]
    playbook: str | None
    """The id of the playbook that repairs the failure, or None if none does."""
    attempt: int
    count: int
    """How many times the failure was seen."""
    coverage: Sequence[str]
    """Phrases about what could not be seen."""


class Diagnosis(TypedDict):
    """The result of the function `diagnose`: the failures that logs or run directories show."""

    findings: list[FindingRow]
    """Causes first."""
    coverage: list[str]
    """Phrases about what could not be seen."""
    unjudged: list[str]
    """The paths of logs, and of directories without any log, whose content could not be judged:
    that they show no failure is not known.
    """
    unnamed: list[str]
    """The exceptions with which logs without a finding end, as text with the file and line that
    raised them. No playbook knows them; their logs are in `unjudged` too.
    """
    guessed: dict[str, str]
    """{name of a log: program}, for logs in a directory of which it was not clear which program
    wrote them. They were read as logs of the program that is named here.
    """


class AssumedDiagnosis(TypedDict):
    """The result of the function `assuming`: a diagnosis, and for each log whose program was not
    clear, the program that was assumed to have written it.
    """

    findings: list[FindingRow]
    """Causes first."""
    coverage: list[str]
    """Phrases about what could not be seen."""
    unjudged: list[str]
    """The paths of logs, and of directories without any log, whose content could not be judged:
    that they show no failure is not known.
    """
    unnamed: list[str]
    """The exceptions with which logs without a finding end, as text with the file and line that
    raised them. No playbook knows them; their logs are in `unjudged` too.
    """
    assumed: dict[str, str]
    """{path of a log: program}, with the program that was assumed to have written the log."""


class UnclearSource(UsageError):
    """Raised if neither the name nor the content of a log tells which program wrote it."""


def assuming(
    paths: Sequence[Path], source: str | None = None, trainer: str | None = None
) -> AssumedDiagnosis:
    """Return what `diagnose` returns for `paths`, but also for logs of which it is not clear which
    program wrote them. Such a log is read as if it came from each program in turn, and the program
    whose reading shows the gravest finding is assumed. `assumed` in the result is {path: program}.
    `trainer` is the id of the trainer whose programs are meant; None means that it is found out
    from the files.

    `source` is the program that wrote the logs, if the caller knows it. The field `coverage` of the
    result names each unclear log in which no finding was made, whichever program was assumed. It
    also names a log without a finding if the log looks like that of a program other than `source`,
    or is not text. All of these are in the field `unjudged`, too. Raises UsageError if a path
    cannot be read. Raises UnclearSource if it is not clear which program wrote a file, the file is
    not text, and no other path has a finding.
    """
    whole: AssumedDiagnosis = {
        "findings": [],
        "coverage": [],
        "unjudged": [],
        "unnamed": [],
        "assumed": {},
    }
    unclear: UnclearSource | None = None
    with _kept(paths, source) as piped:
        for path in paths:
            try:
                found = diagnose([path], source, trainer, piped=_again(piped))
            except UnclearSource:
                try:
                    name, found = _assumed(path, trainer, piped)
                except UnclearSource as error:
                    unclear = unclear or error
                    whole["coverage"].append(f"{path} ({_UNCLEAR})")
                    whole["unjudged"].append(str(path))
                    continue
                whole["assumed"].update({str(path): name} if name else {})
            if source and _is_log(path) and not found["findings"]:
                doubts = _doubts(path, source)
                whole["coverage"] += doubts
                whole["unjudged"] += [str(path)] * len(doubts)
            whole["unjudged"] += found["unjudged"]
            whole["unnamed"] += found["unnamed"]
            whole["findings"] += found["findings"]
            whole["coverage"] += found["coverage"]
            for file, name in found["guessed"].items():
                whole["assumed"][str(path / file)] = name
    if unclear is not None and not whole["findings"]:
        raise unclear
    whole["findings"].sort(key=lambda finding: finding["role"] != "root")
    whole["coverage"] = list(dict.fromkeys(whole["coverage"]))
    return whole


@contextlib.contextmanager
def _kept(paths: Sequence[Path], source: str | None) -> Iterator[BinaryIO]:
    """Yield standard input. If it may have to be read as a log of several programs, it is a copy
    that can be read again.
    """
    if source is not None or Path("-") not in paths:
        yield sys.stdin.buffer
        return
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        yield cast(BinaryIO, copy)


def _again(piped: BinaryIO) -> BinaryIO:
    """Return standard input, from its beginning if it is a copy."""
    if piped is not sys.stdin.buffer:
        piped.seek(0)
    return piped


def _assumed(path: Path, trainer: str | None, piped: BinaryIO) -> tuple[str, Diagnosis]:
    """Return the first source with the gravest finding in a log, and what was found. If no source
    has any, the source is "", and the coverage says so. Raises UnclearSource if it is no text.
    """
    tried = []
    for source in SOURCES:
        tried.append((source, diagnose([path], source, trainer, piped=_again(piped))))
    best = max(tried, key=lambda one: _gravity(one[1]["findings"]))
    if best[1]["findings"]:
        return best
    if _is_binary(_head(path, piped)):
        raise UnclearSource(
            f"{path} does not look like a log: it begins with bytes that are no text.",
            "Give the log itself, or a run's directory.",
        )
    unnamed = next((one["unnamed"] for _, one in tried if one["unnamed"]), [])
    return "", {
        "findings": [],
        "coverage": [f"{path} ({_UNCLEAR})"],
        "unjudged": [str(path)],
        "unnamed": unnamed,
        "guessed": {},
    }


def _head(path: Path, piped: BinaryIO) -> bytes:
    """Return the beginning of a log."""
    if str(path) == "-":
        return _again(piped).read(_SAMPLE)
    with opening.open_log(path) as handle:
        return handle.read(_SAMPLE)


def _is_log(path: Path) -> bool:
    """Return True if the path is a file that is read as a log."""
    return path.is_file() and not path.name.endswith(REPORT_SUFFIX)


def _doubts(path: Path, source: str) -> list[str]:
    """Return why a log without a finding was perhaps read wrongly as one of `source`, as phrases
    for the coverage.
    """
    with opening.open_log(path) as handle:
        sample = handle.read(_SAMPLE)
    other = by_content(sample).source
    if _is_binary(sample):
        return [f"{path}, which is no text: give the log itself, unpacked"]
    if other not in ("", source):
        return [f"{path} as a log of the {other}, which it looks like: give --source {other}"]
    return []


def _is_binary(sample: bytes) -> bool:
    """Return True if the first bytes of a file are no text. NUL does not count, because a log that
    was truncated while it was written begins with a hole.
    """
    text = sample.replace(b"\0", b"").decode("utf-8", "replace")
    strange = sum(1 for letter in text if letter == "\ufffd" or letter < "\t")
    return not text or strange > len(text) * _STRANGE


def _gravity(findings: Sequence[FindingRow]) -> tuple[int, bool]:
    """Return a key by which findings are compared: the severity of the likeliest cause, then
    whether it is a root. It is the lowest key if there are no findings.
    """
    if not findings:
        return -1, False
    return _SEVERITIES.index(findings[0]["severity"]), findings[0]["role"] == "root"


def diagnose(
    paths: Sequence[Path],
    source: str | None = None,
    trainer: str | None = None,
    *,
    idle_s: float | None = None,
    thorough: bool = False,
    piped: BinaryIO | None = None,
) -> Diagnosis:
    """Return what is wrong in some files: `findings` (causes first) and `coverage` (phrases about
    what could not be seen). A path is a log, a run's directory, a crash report or `-` for standard
    input. For a crash report, the findings are those of the pod's agent. Raises UsageError if a
    path cannot be read.

    `source` is the program that wrote the logs, such as "trainer", and `trainer` is
    "prime-rl-2026-01", "prime-rl" or "verl"; None means that this is found out from the files.
    `idle_s` means that the last line was written so many seconds ago and more lines may come; None
    means that no more will come. Lines in which no known failure can show are normally not parsed;
    with `thorough` they are, which gives the same findings more slowly. `piped` is what is read as
    standard input, None for the program's own.

    In evidence, `file` is the log as given, `-`, or a path relative to the directory as given.
    `offset` is the byte of the raw file at which the line begins. `line` counts from 1 by LF; 0
    means that the whole file or directory is the evidence. Raises ConsoleError if the installation
    is incomplete.
    """
    library, rules = _prepared(compile_all())
    findings: list[FindingRow] = []
    coverage: list[str] = []
    unjudged: list[str] = []
    unnamed: list[str] = []
    guessed: dict[str, str] = {}
    subjects: list[_Subject] = []
    for path in paths:
        if path.name.endswith(REPORT_SUFFIX):
            from bs4_console.pods import reports  # asyncio and the way to a pod come with it

            report = reports.load(path)
            findings += map(_reported, reports.incidents(report))
            coverage += reports.not_seen(report)
        else:
            subjects += _subjects(path, source, trainer, piped or sys.stdin.buffer)
    for subject in subjects:
        engine = Engine(library, live=False, rules=rules)
        facts = offline.as_facts([subject.read(engine, thorough)], engine, idle_s or 0.0)
        known = len(findings)
        for transition in engine.evaluate(facts, complete=idle_s is None):
            if transition.event == "opened":
                findings.append(_finding(transition, subject))
        if len(findings) == known:
            for raised in engine.raised():
                unnamed.append(raised.headline)
                if raised.latest is not None:
                    unjudged.append(subject.name(raised.latest["file"]))
        coverage += [*facts.coverage, *subject.unread]
        unjudged += subject.unjudged
        if subject.run is not None and not _any_log(engine, facts):
            unjudged.append(str(subject.run))
        coverage += [fault.phrase for fault in engine.faults]
        guessed |= subject.guessed
    findings.sort(key=lambda f: f["role"] != "root")
    return {
        "findings": findings,
        "coverage": list(dict.fromkeys(coverage)),
        "unjudged": list(dict.fromkeys(unjudged)),
        "unnamed": list(dict.fromkeys(unnamed)),
        "guessed": guessed,
    }


def _any_log(engine: Engine, facts: Facts) -> bool:
    """Return True if a log of the newest attempt has delivered a line."""
    return any(engine.seen(run.name, run.attempt) for run in facts.runs)


@functools.lru_cache(maxsize=1)
def _prepared(compiled: bytes) -> tuple[list[Playbook], Rules]:
    """Return compiled playbooks and their log signatures, which a log of an unknown program needs
    once for each program that is tried.
    """
    library = list(Library(compiled))
    return library, Rules(library)


@dataclass(frozen=True)
class _Subject:
    """One log, the loose logs of one directory, or one run directory. `read` returns its facts.
    `given` is the directory that the person named, and `run` the run's own directory in it (None
    for a log). `unread` lists the files that were not read, with the reasons, and `unjudged` those
    of them that are logs. `guessed` maps the names of logs whose program was not clear to the
    source as whose logs they are read.
    """

    read: Callable[[Engine, bool], RunFacts]
    given: Path | None = None
    run: Path | None = None
    unread: Sequence[str] = ()
    unjudged: Sequence[str] = ()
    guessed: Mapping[str, str] = field(default_factory=dict)

    def name(self, file: str) -> str:
        """Return a file's name relative to the directory that the person gave. Detectors name files
        absolutely or relative to the run's directory.
        """
        if self.given is None or self.run is None or not file:
            return file
        path = self.run / file
        if path.is_relative_to(self.given):
            return str(path.relative_to(self.given))
        return file


def _subjects(
    path: Path, source: str | None, trainer: str | None, piped: BinaryIO
) -> list[_Subject]:
    """Return what there is to diagnose in one path."""
    if str(path) == "-":
        return [_Subject(functools.partial(_stream, piped, path, source, trainer))]
    if path.is_dir():
        return _directory(path, source, trainer)
    return [_Subject(functools.partial(_log, path, source, trainer))]


def _stream(
    handle: BinaryIO,
    path: Path,
    source: str | None,
    trainer: str | None,
    engine: Engine,
    thorough: bool,
) -> RunFacts:
    """Return the facts of a log that is read as it comes and only once. If the source or the
    trainer is not given, its beginning tells it.
    """
    if source is None or trainer is None:
        sample = handle.read(_SAMPLE)
        wrote = by_content(sample, source or "")
        source = _needed(source or wrote.source, "standard input" if str(path) == "-" else path)
        trainer = trainer or wrote.trainer
        handle = cast(BinaryIO, _Rejoined(sample, handle))
    return offline.log_facts(handle, str(path), source, trainer, engine, thorough=thorough)


class _Rejoined(io.RawIOBase):
    """A stream whose beginning was read already and comes again first."""

    def __init__(self, begin: bytes, rest: BinaryIO) -> None:
        self._begin, self._rest = begin, rest

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the beginning at the first call, whatever its size, and then up to `size` bytes of
        the rest.
        """
        if self._begin:
            data, self._begin = self._begin, b""
            return data
        return bytes(self._rest.read(size))


def _log(
    path: Path, source: str | None, trainer: str | None, engine: Engine, thorough: bool
) -> RunFacts:
    """Return the facts of one log file. Raises UsageError if it cannot be read or it is not clear
    what wrote it.
    """
    try:
        if path.is_file() and not path.stat().st_size:
            raise UsageError(f"{path} is empty.", "Give a log that has lines.")
        if not path.is_file():
            with path.open("rb") as handle:
                return _stream(handle, path, source, trainer, engine, thorough)
        with opening.open_log(path) as handle:
            wrote, generation = _wrote(path, handle, source, trainer)
        with opening.open_log(path) as handle:
            wrote = _needed(wrote, path)
            return offline.log_facts(
                handle, str(path), wrote, generation, engine, thorough=thorough
            )
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}.",
            "Give a file, a run directory, or - for standard input.",
        ) from error


def _wrote(
    path: Path, handle: BinaryIO, source: str | None, trainer: str | None
) -> tuple[str, str]:
    """Return the source and the generation of a log, each "" if unknown: the given value, else what
    the name tells, else what the beginning of the file proves.
    """
    trainer = trainer or of_suffix(path)
    named = source or by_name(path)
    if named and trainer:
        return named, trainer
    wrote = by_content(handle.read(_SAMPLE), named)
    return named or wrote.source, trainer or wrote.trainer


def _directory(path: Path, source: str | None, trainer: str | None) -> list[_Subject]:
    """Return the runs of a directory, or its loose logs if it belongs to no run. Raises UsageError
    if it has neither.
    """
    given = path.resolve()
    runs = _run_directories(given, path, trainer)
    if runs:
        return [_run_directory(given, run, generation) for run, generation in runs]
    loose = _loose(given, source, trainer)
    unjudged = [str(path / name) for name in loose.unjudged]
    if loose.logs:

        def read(engine: Engine, thorough: bool) -> RunFacts:
            return offline.loose_facts(loose.logs, loose.generation, engine, thorough=thorough)

        return [_Subject(read, given, given, loose.unread, unjudged, loose.guessed)]
    if trainer is None:
        raise UsageError(
            f"{path} does not look like a run's output directory and holds no log of a known kind.",
            "Give the run's directory, or a single log with --source.",
        )

    def read_empty(engine: Engine, thorough: bool) -> RunFacts:
        return offline.directory_facts(given, trainer, engine, thorough=thorough)

    return [_Subject(read_empty, given, given, loose.unread, unjudged, loose.guessed)]


def _run_directory(given: Path, run: Path, generation: str) -> _Subject:
    """Return one run directory with the logs that lie beside the run's own: the launcher's output,
    a saved dmesg.
    """
    logs = itertools.chain(*offline.directory_logs(run, generation).values())
    own = {log.path.resolve() for log in logs}
    extra = [
        log
        for log in _named(run, by_its_words=not trainers.of(generation).named_log)
        if log.path not in own
    ]

    def read(engine: Engine, thorough: bool) -> RunFacts:
        return offline.directory_facts(run, generation, engine, extra, thorough=thorough)

    return _Subject(read, given, run)


def _named(directory: Path, *, by_its_words: bool) -> list[Loose]:
    """Return the files directly in a directory whose names say that they are logs and of which
    source. With `by_its_words`, the content counts too, because verl's log (the output of its
    driver) has no fixed name.
    """
    found = []
    for path in sorted(directory.iterdir()):
        if not path.is_file() or path.suffix not in (".log", ".stdout", ".out"):
            continue
        source = by_name(path)
        if not source and by_its_words:
            with opening.open_log(path) as handle:
                source = by_content(handle.read(_SAMPLE)).source
        if source:
            found.append(Loose(source, path.name, path.resolve()))
    return found


def _run_directories(root: Path, path: Path, trainer: str | None) -> list[tuple[Path, str]]:
    """Return the run directory itself, or the run directories below an output directory (the
    current generation keeps one per run there), each with its generation.
    """
    if (own := offline.guess_trainer(root)) is not None:
        return [(root, trainer or own)]
    found = []
    try:
        for child in sorted(root.iterdir()):
            if child.is_dir() and (guessed := offline.guess_trainer(child)) is not None:
                found.append((child, trainer or guessed))
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}.", "Give a directory that you can read."
        ) from error
    return found


@dataclass(frozen=True, kw_only=True)
class _LooseLogs:
    """The logs of a directory that belongs to no run. `unread` has the files that were not read,
    with the reasons, and `unjudged` the names of those that must be logs: by their suffix, or
    because the disk kept them back. `generation` is that of the logs, "" if unknown. `guessed` is
    {name of a log whose program was not clear: the source as whose log it is read}.
    """

    logs: Sequence[Loose]
    unread: Sequence[str]
    unjudged: Sequence[str]
    generation: str
    guessed: Mapping[str, str]


def _loose(root: Path, source: str | None, trainer: str | None) -> _LooseLogs:
    """Return the logs of a directory that belongs to no run. They count as one incident."""
    logs: list[Loose] = []
    guessed: dict[str, str] = {}
    unread: list[str] = []
    unjudged: list[str] = []
    tried = 0
    generation = trainer or ""
    for path in _files(root):
        name = str(path.relative_to(root))
        try:
            with opening.open_log(path) as handle:
                wrote, of = _wrote(path, handle, source, trainer)
        except OSError as error:
            unread.append(f"{name} ({error.strerror})")
            unjudged.append(name)
            continue
        if wrote:
            logs.append(Loose(wrote, name, path))
            generation = generation or of
            continue
        assumed = ""
        if _suffix(path) in _SURE_SUFFIXES and tried < _TRIED:
            tried += 1
            assumed = _assumed_source(path, trainer)
        if assumed:
            logs.append(Loose(assumed, name, path))
            guessed[name] = assumed
            continue
        unread.append(f"{name} ({_UNCLEAR})")
        if _suffix(path) in _SURE_SUFFIXES:
            unjudged.append(name)
    return _LooseLogs(
        logs=logs, unread=unread, unjudged=unjudged, generation=generation, guessed=guessed
    )


def _assumed_source(path: Path, trainer: str | None) -> str:
    """Return the source of `_assumed`, or "" if no source has a finding in the log."""
    try:
        return _assumed(path, trainer, sys.stdin.buffer)[0]
    except UnclearSource:
        return ""


def _files(root: Path) -> Iterator[Path]:
    """Yield up to _FILES files below a directory that may be logs."""
    count = 0
    for directory, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(directory, name)
            if _suffix(path) in _SUFFIXES and path.is_file() and not name.startswith("."):
                count += 1
                if count > _FILES:
                    return
                yield path


def _suffix(path: Path) -> str:
    """Return the suffix of a log, without that of a packed file."""
    return Path(path.stem).suffix if path.suffix in _PACKED else path.suffix


def _needed(source: str, what: object) -> str:
    """Return `source`. Raises UnclearSource if it is ""."""
    if not source:
        raise UnclearSource(
            f"It is not clear what wrote {what}.", f"Say it with --source ({', '.join(SOURCES)})."
        )
    return source


def _reported(incident: IncidentView) -> FindingRow:
    """Return a finding of the pod's own agent, which saw processes and GPUs as well as logs."""
    return _row(incident, 1, str)


def _finding(transition: Transition, subject: _Subject) -> FindingRow:
    """Return a finding of the engine, with file names as the person gave them."""
    fields = transition_fields(transition, ())
    incident = IncidentView(
        id=fields["incident"],
        failure=fields["failure"],
        title=fields["title"],
        run=fields["run"],
        attempt=fields["attempt"],
        role=fields["role"],
        severity=fields["severity"],
        summary=fields["summary"],
        opened_t=0.0,
        updated_t=0.0,
        evidence=fields["evidence"],
        coverage=fields["coverage"],
        playbook=fields["playbook"],
    )
    return _row(incident, transition.finding.count, subject.name)


def _row(incident: IncidentView, count: int, file_name: Callable[[str], str]) -> FindingRow:
    """Return an incident as a JSON object. `count` is the number of times that it was seen."""
    evidence: list[EvidenceRow] = []
    for item in incident.evidence:
        evidence.append(
            {
                "source": item.get("source", ""),
                "file": file_name(item.get("file", "")),
                "offset": item.get("offset", 0),
                "line": item.get("line", 0),
                "text": item.get("text", ""),
            }
        )
    return {
        "id": incident.failure,
        "title": incident.title,
        "role": incident.role,
        "severity": incident.severity,
        "summary": incident.summary,
        "source": evidence[0]["source"] if evidence else "",
        "evidence": evidence,
        "playbook": incident.playbook,
        "attempt": incident.attempt,
        "count": count,
        "coverage": incident.coverage,
    }
