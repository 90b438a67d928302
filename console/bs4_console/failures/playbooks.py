"""Read playbook files, check them with messages that a person can use, and compile them into the
JSON that the agent reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml

from bs4_common.failures import detectors, signatures
from bs4_common.failures.compiled import canonical
from bs4_common.failures.detectors import DETECTORS
from bs4_common.trainers import registry
from bs4_console import nested_yaml
from bs4_console.assets import find
from bs4_console.errors import UsageError
from bs4_console.failures import completeness, patterns
from bs4_console.failures.compiled_cache import cached
from bs4_console.failures.completeness import missing_cases, missing_parts
from bs4_console.failures.health import with_ranges
from bs4_console.failures.patterns import (
    MIN_LITERAL,
    Refused,
    check_cost,
    groups,
    literals,
    relaxed,
)
from bs4_console.failures.playbook_file import Parameters, PlaybookFile, SignatureFile

if TYPE_CHECKING:
    import jsonschema

#: What only people and tests read. It is not compiled: the agent has 30 MB for everything.
_FOR_PEOPLE = frozenset(
    {"looks_like", "explanation", "prevent", "sources", "advice", "leads_to", "cases"}
)
_SEARCHED: tuple[Literal["pattern", "unless", "only_after", "not_after", "cleared_by"], ...] = (
    "pattern",
    "unless",
    "only_after",
    "not_after",
    "cleared_by",
)
#: The id of a failure can come from a pod, and becomes part of a path here.
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a playbook file (the description of a known failure and its
    repair): `file` is the file, and `message` says what is wrong. `where` is a path in the file
    such as `detect/logs/0/pattern`, or "" for the whole file.
    """

    file: Path
    where: str
    message: str

    def __str__(self) -> str:
        place = f" at {self.where}" if self.where else ""
        return f"{self.file}{place}: {self.message}"


def schema(directory: Path | None = None) -> dict[str, Any]:
    """Return the JSON Schema by which the playbook files (descriptions of known failures and their
    repair) in `directory` are checked: the directory's own if it has one, else the shipped one. The
    schema accepts the id of every registered trainer. Raises ConsoleError if the installation is
    incomplete.
    """
    own = None
    if directory is not None:
        own = directory / "schema.json"
    data: dict[str, Any] = json.loads(
        (
            own if own is not None and own.is_file() else find("playbooks") / "schema.json"
        ).read_text()
    )
    ids = registry.ids()
    for name, words in (("trainer", ids), ("applies", (registry.ANY, *ids, *registry.FORMER))):
        if name in data.get("$defs", {}):
            data["$defs"][name]["enum"] = list(words)
    return data


def lint(
    directory: Path | None = None, *, need_cases: bool = False
) -> tuple[list[PlaybookFile], list[Problem]]:
    """Check the playbook files (descriptions of known failures and their repair) in `directory`, by
    default the shipped ones. Return two lists: the valid playbooks as they are written, with their
    family (the name of their folder) added, and the problems of the others.

    With `need_cases`, it is also a problem if a playbook with log signatures (regular expressions
    by which it recognises its failure) has no test case that must match, none that must not match,
    or one that must match and has no line for any of its patterns. Raises ConsoleError if a file of
    this console's own installation is missing.
    """
    import jsonschema  # 50 ms, which a diagnosis with compiled playbooks does without

    root = directory or find("playbooks")
    validator = jsonschema.Draft202012Validator(schema(root), format_checker=_formats())
    good: list[PlaybookFile] = []
    problems: list[Problem] = []
    for path in sorted(root.glob("*/*.yaml")):
        found = list(_check(path, validator, need_cases))
        problems += found
        if not found:
            entry: PlaybookFile = _load(path)
            entry["family"] = path.parent.name
            good.append(entry)
    problems += _duplicates(root, good)
    lost = list(_references(root, good))
    problems += lost
    wrong = {problem.file for problem in lost}
    return [
        entry for entry in good if root / entry["family"] / f"{entry['id']}.yaml" not in wrong
    ], problems


def _formats() -> jsonschema.FormatChecker:
    """Return the checks of formats. That of patterns knows every error by which Python refuses
    one.
    """
    import jsonschema

    checker = jsonschema.FormatChecker()

    def is_pattern(value: object) -> bool:
        return not isinstance(value, str) or bool(re.compile(value))

    checker.checks("regex", raises=patterns.NO_PATTERN)(is_pattern)
    return checker


def advice(identifier: str) -> tuple[str, ...]:
    """Return the lines of advice to a person from the shipped playbook (the description of a known
    failure) with the id `identifier`. The result is empty if that playbook has no advice, or if
    there is no playbook with this id. No other playbook is read. Raises ConsoleError if a file of
    this console's own installation is missing.
    """
    path = None
    if _ID.fullmatch(identifier):
        path = next(find("playbooks").glob(f"*/{identifier}.yaml"), None)
    if path is not None:
        return tuple(_load(path).get("advice") or ())
    return ()


def _load(path: Path) -> Any:
    """Return the content of a YAML file. Raises yaml.YAMLError, and UnicodeDecodeError."""
    return nested_yaml.load(path.read_text())


def _check(path: Path, validator: Any, need_cases: bool) -> Iterator[Problem]:
    try:
        data = _load(path)
    except (yaml.YAMLError, UnicodeDecodeError) as bad:
        yield Problem(path, "", f"is not YAML: {bad}")
        return
    parts: dict[str, str] = {}
    cases: dict[str, str] = {}
    if isinstance(data, dict):
        parts = dict(missing_parts(data))
        if need_cases:
            cases = dict(missing_cases(data))
    wrong = []
    for where, sentence in parts.items():
        wrong.append(Problem(path, where, sentence))
    for error in validator.iter_errors(data):
        place = "/".join(str(part) for part in error.absolute_path)
        if not _is_told(error, place, {*parts, *cases}):
            wrong.append(Problem(path, place, _said(error)))
    yield from wrong
    for where, sentence in cases.items():
        yield Problem(path, where, sentence)
    if wrong:
        return
    if data["id"] != path.stem:
        yield Problem(
            path, "id", f"is {data['id']!r} but the file is named {path.stem!r}; make them equal"
        )
    if data.get("family", path.parent.name) != path.parent.name:
        yield Problem(
            path,
            "family",
            f"is {data['family']!r} but the folder is {path.parent.name!r}; move the file or "
            "leave the key out",
        )
    yield from _check_fix(path, data.get("fix") or ())
    detect = data.get("detect") or {}
    if "detector" in detect and detect["detector"] not in DETECTORS:
        yield Problem(
            path,
            "detect/detector",
            f"{detect['detector']!r} is none of {', '.join(sorted(DETECTORS))}",
        )
    refused = []
    for index, signature in enumerate(detect.get("logs") or ()):
        for where, message in _check_signature(signature):
            refused.append(Problem(path, f"detect/logs/{index}/{where}", message))
    yield from refused
    if need_cases and not cases and not refused:
        # here, because every command reads this module, and only lint needs that one
        from bs4_console.failures.own_cases import unfound_cases

        for where, message in unfound_cases(data):
            yield Problem(path, where, message)


def _said(error: Any) -> str:
    """jsonschema's own message, but not the whole file where one of several keys is missing, and
    what to do about a colon that makes a mapping of a sentence.
    """
    wants_text = error.validator == "type" and error.validator_value == "string"
    if wants_text and isinstance(error.instance, dict):
        return "is read as a mapping because of its colon; put the sentence in double quotes"
    if error.validator != "anyOf" or not all(
        "required" in choice for choice in error.validator_value
    ):
        return str(error.message)
    return (
        "needs one of "
        f"{', '.join(', '.join(choice['required']) for choice in error.validator_value)}"
    )


def _is_told(error: Any, place: str, gaps: Set[str]) -> bool:
    """Return whether a gap says the same as this error of the schema, in better words."""
    if place:
        return place in gaps or place.rpartition("/")[0] in gaps
    if error.validator == "anyOf":
        return "advice" in gaps
    return error.validator == "required" and any(
        error.message.startswith(repr(name)) for name in gaps
    )


def _check_fix(path: Path, fix: Sequence[Mapping[str, Parameters | None]]) -> Iterator[Problem]:
    """Yield a problem if a fix relaunches without first saving what the trainer's own start would
    delete: its logs must be archived and its steps moved aside. A move_run with a condition is no
    substitute for move_steps.
    """
    kinds = [kind for step in fix for kind in step]
    if "relaunch" not in kinds:
        return
    before = set(kinds[: kinds.index("relaunch")])
    missing = []
    for kind in ("stop_run", "archive_logs"):
        if kind not in before:
            missing.append(kind)
    whole = any(
        kind == "move_run" and not parameters for step in fix for kind, parameters in step.items()
    )
    if "move_steps" not in before and not whole:
        missing.append("move_steps or move_run")
    if missing:
        yield Problem(
            path,
            f"fix/{kinds.index('relaunch')}",
            f"starts the run again without {', '.join(missing)} before it",
        )


def _expressions(signature: SignatureFile) -> Iterator[tuple[str, str]]:
    """Yield the place and the pattern of every regular expression of a signature that is searched
    in the text of lines.
    """
    for key in _SEARCHED:
        if key in signature:
            yield key, signature[key]
    if "near" in signature:
        yield "near/pattern", signature["near"]["pattern"]


def _check_signature(signature: SignatureFile) -> Iterator[tuple[str, str]]:
    """Yield the place and the message of everything that is wrong with a signature."""
    for where, pattern in (*_expressions(signature), ("logger", signature.get("logger", ""))):
        try:
            check_cost(pattern)
        except Refused as refused:
            yield where, str(refused)
            return
        if where not in ("logger", "unless") and not literals(pattern):
            yield (
                where,
                (
                    f"has no text of {MIN_LITERAL} or more letters that every match must hold, "
                    "so every line would have to be tried"
                ),
            )
    for group in signature.get("where", ()):
        if group not in groups(signature["pattern"]):
            yield (
                f"where/{group}",
                f"names a group that the pattern does not have; write (?P<{group}>...) in it",
            )


def _references(root: Path, good: list[PlaybookFile]) -> Iterator[Problem]:
    """Yield a problem for each name in `explains` or `leads_to` that no file has. Such a name would
    have no effect.
    """
    known = set()
    for place in {root, find("playbooks")}:
        for path in place.glob("*/*.yaml"):
            known.add(path.stem)
    for entry in good:
        file = root / entry["family"] / f"{entry['id']}.yaml"
        named = [("explains", name) for name in entry.get("explains") or ()]
        if "leads_to" in entry:
            named.append(("leads_to", entry["leads_to"]))
        for key, name in named:
            if name not in known:
                yield Problem(file, key, f"names {name!r}, but there is no such playbook")
            elif name == entry["id"]:
                yield Problem(file, key, "names the playbook itself")


def _duplicates(root: Path, good: list[PlaybookFile]) -> Iterator[Problem]:
    """Yield a problem for each id that is defined twice."""
    seen: set[str] = set()
    for entry in good:
        if entry["id"] in seen:
            yield Problem(root, entry["id"], "is defined twice")
        seen.add(entry["id"])


def shipped() -> list[PlaybookFile]:
    """Return the shipped playbooks (descriptions of known failures and their repair) as their files
    have them, without those that are not valid. The result comes from a cache on this machine if no
    file has changed since it was made. Raises ConsoleError if a file of this console's own
    installation is missing.
    """
    made = cached("whole", _inputs(find("playbooks")), lambda: json.dumps(lint()[0]).encode())
    found: list[PlaybookFile] = json.loads(made)
    return found


def compile_all(directory: Path | None = None) -> bytes:
    """Return all playbooks (descriptions of known failures and their repair) in `directory`, by
    default the shipped ones, as the JSON bytes that the agent reads. The result comes from a cache
    on this machine if no file has changed since it was made. Raises UsageError if one playbook is
    not valid, so that no agent gets only a part of them. Raises ConsoleError if the installation is
    incomplete.
    """
    root = directory or find("playbooks")
    return cached("compiled", _inputs(root), lambda: _compile_directory(directory))


def _inputs(root: Path) -> list[Path]:
    """Return every file that the result depends on: the playbooks, the shipped playbooks (others
    may name them), schemas and code.
    """
    shipped = find("playbooks")
    playbooks = set()
    for place in (root, shipped):
        for path in (*place.glob("*/*.yaml"), place / "schema.json"):
            if path.is_file():
                playbooks.add(path)
    modules = (completeness, patterns, signatures, detectors, registry)
    code = (__file__, *(str(module.__file__) for module in modules))
    return [*sorted(playbooks), *map(Path, code)]


def _compile_directory(directory: Path | None) -> bytes:
    """Return the compiled playbooks of a directory. Raises UsageError if one is invalid."""
    good, problems = lint(directory)
    if problems:
        raise UsageError(f"{problems[0]}.", "`bs4-console playbook lint` shows all of them.")
    return canonical(
        {"schema": "bs4.playbooks/1", "playbooks": [_compile(entry) for entry in good]}
    )


def _compile(entry: PlaybookFile) -> dict[str, Any]:
    """Return the part of a playbook that the agent needs: durations become seconds, and keys that
    only a person reads are left out.
    """
    data: dict[str, Any] = {key: value for key, value in entry.items() if key not in _FOR_PEOPLE}
    if "detect" in data:
        data["detect"] = {
            k: _seconds(v) if k in ("for", "keep_firing_for") else v
            for k, v in data["detect"].items()
        }
        data["detect"] = with_ranges(data["detect"])
        if "logs" in data["detect"]:
            data["detect"]["logs"] = [
                _compile_signature(signature) for signature in data["detect"]["logs"]
            ]
    if "verify" in data:
        data["verify"] = {
            kind: {k: _seconds(v) if k == "within" else v for k, v in parameters.items()}
            for kind, parameters in data["verify"].items()
        }
    return data


def _compile_signature(signature: SignatureFile) -> dict[str, Any]:
    """Return a signature as the agent needs it: `source` becomes a list and `within` becomes
    seconds.

    Two keys are added. `needs` has, for each expression, texts of which every matching line holds
    at least one. `raw` has, for each expression, an expression for the raw bytes of such a line in
    a file.
    """
    data = dict(signature)
    if isinstance(data["source"], str):
        data["source"] = [data["source"]]
    else:
        data["source"] = data["source"]
    if "within" in data:
        data["within"] = _seconds(data["within"])
    looked_for = {}
    for where, pattern in _expressions(signature):
        if where != "unless":
            looked_for[where] = pattern
    data["needs"] = {where: literals(pattern) for where, pattern in looked_for.items()}
    data["raw"] = {where: raw for where, pattern in looked_for.items() if (raw := relaxed(pattern))}
    return data


def _seconds(duration: object) -> float:
    """Return the seconds of a duration such as "5m"."""
    text = str(duration)
    return float(text[:-1]) * _SECONDS[text[-1]]
