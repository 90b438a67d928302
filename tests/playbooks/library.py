"""The playbooks as the engine gets them, and one place that asks the engine about a case."""

from __future__ import annotations

import functools
import importlib
import inspect
import io
import pkgutil
import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from bs4_common.failures import offline
from bs4_common.failures.compiled import Library, Playbook
from bs4_common.failures.engine import Engine
from bs4_common.failures.facts import Facts
from bs4_common.failures.matcher import Rules
from bs4_common.trainers import lines, registry
from bs4_console.assets import find
from bs4_console.failures.playbooks import compile_all, lint
from tests.playbooks import facts as facts_package
from tests.playbooks.facts import case

ROOT = find("playbooks")
#: Trainer ids in the order in which a case without one tries them.
TRAINERS = ("prime-rl", "prime-rl-2026-01", "verl")


class LogCase(NamedTuple):
    """One log under `cases` of a playbook. `trainer` None: the first generation that the playbook
    applies to.
    """

    failure: str
    expected: bool
    name: str
    source: str
    trainer: str | None
    log: str

    def __str__(self) -> str:
        return f"{self.failure}-{'positive' if self.expected else 'negative'}-{self.name}"


def playbook_files() -> list[Path]:
    return sorted(ROOT.glob("*/*.yaml"))


def all_log_cases() -> tuple[list[LogCase], list[str]]:
    """Return all cases, and what is wrong with files that cannot be read: one broken file does not
    stop the tests of the others.
    """
    cases: list[LogCase] = []
    broken: list[str] = []
    for path in playbook_files():
        try:
            cases += _read_cases(path)
        except (yaml.YAMLError, KeyError, TypeError, AttributeError) as wrong:
            broken.append(f"{path.relative_to(ROOT)}: {wrong!r}")
    return cases, broken


def _read_cases(path: Path) -> list[LogCase]:
    """Return the cases of one file. A key that nobody reads is refused by the schema, or a typing
    mistake would be a test that tests nothing.
    """
    data = cases_in(path)
    return [
        _log_case(path.stem, kind == "positive", row)
        for kind, rows in data.items()
        for row in rows or ()
    ]


def cases_in(path: Path) -> dict[str, Any]:
    """Return the `cases` of one playbook as written: {"positive": [...], "negative": [...]}."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    data = yaml.load(path.read_text(), Loader=loader)  # noqa: S506
    return data.get("cases") or {}


def _log_case(failure: str, expected: bool, row: dict[str, Any]) -> LogCase:
    return LogCase(failure, expected, row["name"], row["source"], row.get("trainer"), row["log"])


def facts_cases() -> list[case.FactsCase]:
    """Every decorated function below tests/playbooks/facts."""
    for module in pkgutil.iter_modules(facts_package.__path__):
        importlib.import_module(f"{facts_package.__name__}.{module.name}")
    return list(case.CASES)


@functools.cache
def library() -> Library:
    """All valid playbooks. A broken file fails its own test and does not take everybody else's with
    it.
    """
    _, problems = lint()
    broken = {problem.file for problem in problems}
    if not broken:
        return Library(compile_all())
    with tempfile.TemporaryDirectory() as directory:
        for path in [path for path in playbook_files() if path not in broken]:
            family = Path(directory) / path.parent.name
            family.mkdir(exist_ok=True)
            shutil.copy(path, family)
        return Library(compile_all(Path(directory)))


def problems_of(path: Path) -> list[str]:
    return [str(problem) for problem in _problems() if problem.file == path]


@functools.cache
def _problems() -> list[Any]:
    return list(lint()[1])


@functools.cache
def _rules() -> Rules:
    """The signatures of the library, prepared once for all cases."""
    return Rules(list(library()))


def found_in_log(case: LogCase) -> list[str]:
    """Ids of what the engine opens for this log alone, read as `diagnose` reads it."""
    playbook: Playbook = library().get(case.failure)
    trainer = case.trainer or next(trainer for trainer in TRAINERS if playbook.applies_to(trainer))
    engine = Engine(list(library()), live=False, rules=_rules())
    if trainer not in registry.ids():
        return _found_without_a_parser(engine, case, trainer)
    run = offline.log_facts(
        io.BytesIO(case.log.encode()), f"{case.source}.log", case.source, trainer, engine
    )
    return _opened(engine, offline.as_facts([run]))


def _found_without_a_parser(engine: Engine, case: LogCase, trainer: str) -> list[str]:
    """A trainer that the agent cannot read yet: its lines are taken apart as any program's are."""
    for number, raw in enumerate(case.log.encode().splitlines(), 1):
        line = lines.parse(case.source, raw)
        place = {
            "source": case.source,
            "stream": "",
            "cursor": "",
            "file": "log",
            "offset": number,
            "line": number,
            "text": line.text,
        }
        engine.feed("", 1, trainer, case.source, line, place)
    return _opened(engine, offline.as_facts([]))


def found_in_facts(case: case.FactsCase, tmp_path: Path) -> list[str]:
    """Ids of what the engine opens for these facts."""
    wants_directory = "tmp_path" in inspect.signature(case.build).parameters
    return _opened(
        Engine(list(library()), rules=_rules()),
        case.build(tmp_path) if wants_directory else case.build(),
    )


def _opened(engine: Engine, facts: Facts) -> list[str]:
    return [
        transition.finding.failure
        for transition in engine.evaluate(facts, complete=True)
        if transition.event == "opened"
    ]
