"""diagnose: what is wrong with these files. Reads, never writes; the engine and the detectors are the agent's."""

from __future__ import annotations

import functools
import io
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bs4_agent.detect import offline
from bs4_agent.detect.engine import Engine, Transition, transition_fields
from bs4_agent.detect.facts import RunFacts
from bs4_agent.playbooks.compiled import Library
from bs4_console.core.errors import UsageError
from bs4_console.core.playbooks import compile_all

SOURCES = ("trainer", "orchestrator", "inference", "launcher", "env", "kernel", "ssh", "sync", "wandb")
#: What a file's name says about what wrote it.
_NAMES = {
    "trainer": "trainer",
    "rank": "trainer",
    "orchestrator": "orchestrator",
    "inference": "inference",
    "launcher": "launcher",
    "rl.log": "launcher",
    "console": "launcher",
    "dmesg": "kernel",
    "kern": "kernel",
}


def diagnose(paths: Sequence[Path], source: str | None = None, trainer: str | None = None) -> dict[str, Any]:
    """`findings`, root causes first, and `coverage`. `-` is standard input. UsageError for what cannot be read.

    Evidence `file` is the log as given, `-`, or relative to the directory as given; `offset` the raw byte at which the line begins, `line`
    1-based by LF (0: the whole file or directory is the evidence).
    """
    library = list(Library(compile_all()))
    findings: list[dict[str, Any]] = []
    coverage: list[str] = []
    for subject in [subject for path in paths for subject in _subjects(path, source, trainer)]:
        engine = Engine(library)
        facts = offline.as_facts([subject.read(engine)])
        for transition in engine.evaluate(facts, complete=True):
            if transition.event == "opened":
                findings.append(_finding(transition, subject))
        coverage += [phrase for phrase in facts.coverage if phrase not in coverage]
    findings.sort(key=lambda f: f["role"] != "root")
    return {"findings": findings, "coverage": coverage}


@dataclass(frozen=True)
class _Subject:
    """One log or one run directory. `given`: the directory that the person named, of which `run` is the run's own (None for a log)."""

    read: Callable[[Engine], RunFacts]
    given: Path | None = None
    run: Path | None = None

    def name(self, file: str) -> str:
        """Detectors name files absolutely or from the run's directory; a person names them from the one that they gave."""
        if self.given is None or self.run is None or not file:
            return file
        path = self.run / file
        return str(path.relative_to(self.given)) if path.is_relative_to(self.given) else file


def _subjects(path: Path, source: str | None, trainer: str | None) -> list[_Subject]:
    if str(path) == "-":
        wrote = _needed(source, "standard input")
        data = io.BytesIO(sys.stdin.buffer.read())
        return [_Subject(lambda engine: offline.log_facts(data, "-", wrote, trainer or "prime-rl", engine))]
    if path.is_dir():
        given = path.resolve()
        return [
            _Subject(functools.partial(offline.directory_facts, run, generation), given, run)
            for run, generation in _run_directories(path, trainer)
        ]
    return [_Subject(functools.partial(_log, path, source, trainer))]


def _log(path: Path, source: str | None, trainer: str | None, engine: Engine) -> RunFacts:
    try:
        with path.open("rb") as handle:
            return offline.log_facts(handle, str(path), source or _by_name(path), trainer or _generation(path), engine)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", "Give a file, a run directory, or - for standard input.") from error


def _run_directories(path: Path, trainer: str | None) -> list[tuple[Path, str]]:
    """The run directory itself, or those below an output directory (the current generation keeps one per run there)."""
    root = path.resolve()
    if (generation := trainer or offline.guess_trainer(root)) is not None and (trainer is None or _looks_like_run(root)):
        return [(root, generation)]
    try:
        below = [(child, trainer or offline.guess_trainer(child)) for child in sorted(root.iterdir()) if child.is_dir()]
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", "Give a directory that you can read.") from error
    runs = [(child, generation) for child, generation in below if generation is not None and _looks_like_run(child)]
    if runs:
        return runs
    if trainer is not None:
        return [(root, trainer)]
    raise UsageError(f"{path} does not look like a run's output directory.", "Name the trainer with --trainer, or give a single log.")


def _looks_like_run(directory: Path) -> bool:
    return offline.guess_trainer(directory) is not None


def _by_name(path: Path) -> str:
    for part, source in _NAMES.items():
        if part in path.name:
            return source
    return _needed(None, str(path))


def _generation(path: Path) -> str:
    return "prime-rl-2026-01" if path.suffix == ".stdout" else "prime-rl"


def _needed(source: str | None, what: str) -> str:
    if source is None:
        raise UsageError(f"It is not clear what wrote {what}.", f"Say it with --source ({', '.join(SOURCES)}).")
    return source


def _finding(transition: Transition, subject: _Subject) -> dict[str, Any]:
    fields = transition_fields(transition, ())
    evidence = [{k: e[k] for k in ("source", "file", "offset", "line", "text")} for e in fields["evidence"]]
    for item in evidence:
        item["file"] = subject.name(item["file"])
    return {
        "id": fields["failure"],
        "title": fields["title"],
        "role": fields["role"],
        "severity": fields["severity"],
        "summary": fields["summary"],
        "source": evidence[0]["source"] if evidence else "",
        "evidence": evidence,
        "playbook": fields["playbook"],
    }
