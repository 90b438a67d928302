"""Read the table of the 88 capabilities that an engineer of the first projects used by hand.

The table is `capabilities.toml`. A row names the command that does the work, and the tests that
prove it.
"""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast, get_args

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("capabilities.toml")
COUNT = 88

#: works: the command does it. differs: it is done in another way, and a page says why. practice:
#: the command does it, and the test meets a practice server, because the real one is a paid cloud
#: or a GPU. not-yet: a part is still done by hand.
Status = Literal["works", "differs", "practice", "not-yet"]
STATUSES = get_args(Status)


@dataclass(frozen=True, kw_only=True)
class Capability:
    """One row of the table.

    `command` does the work. `proofs` are ids of pytest tests. `docs` is `FILE#HEADING` of the page
    that says why the row differs, or "". `missing` says what is still done by hand, or is "".
    """

    row: int
    what: str
    command: str
    proofs: tuple[str, ...]
    status: Status
    docs: str
    missing: str


def capabilities(file: Path = TABLE) -> list[Capability]:
    """Return the rows of the table in their order. Raises OSError if the file cannot be read, and
    ValueError or KeyError if a row is none.
    """
    rows = []
    for entry in tomllib.loads(file.read_text())["capability"]:
        rows.append(_capability(entry))
    return rows


def _capability(entry: dict[str, Any]) -> Capability:
    """Return the row that a table of the file describes. Raises ValueError for a status or a key
    that does not exist.
    """
    unknown = set(entry) - {"row", "what", "command", "proofs", "status", "docs", "missing"}
    if unknown:
        raise ValueError(f"row {entry.get('row')} has unknown keys: {sorted(unknown)}")
    if entry["status"] not in STATUSES:
        raise ValueError(f"row {entry['row']} has no status {entry['status']!r}")
    return Capability(
        row=entry["row"],
        what=entry["what"],
        command=entry["command"],
        proofs=tuple(entry.get("proofs", ())),
        status=cast(Status, entry["status"]),
        docs=entry.get("docs", ""),
        missing=entry.get("missing", ""),
    )


def problems(row: Capability) -> list[str]:
    """Return what makes the row dishonest, as sentences: a claim without a test that exists, a
    difference without its place in the documentation, or a gap that is not named.
    """
    told = []
    for proof in row.proofs:
        if not exists(proof):
            told.append(f"row {row.row}: there is no test {proof}")
    if row.status != "not-yet" and not row.proofs:
        told.append(f"row {row.row}: {row.status} needs a test that proves it")
    if row.status == "not-yet" and not row.missing:
        told.append(f"row {row.row}: not-yet has to say what is missing")
    if row.status != "not-yet" and row.missing:
        told.append(f"row {row.row}: something is missing, so it is not-yet")
    if row.status == "differs" and not row.docs:
        told.append(f"row {row.row}: differs has to name the page that says why")
    for command in unknown_commands(row.command):
        told.append(f"row {row.row}: there is no command {command}")
    if row.status != "not-yet" and row.command == "none":
        told.append(f"row {row.row}: {row.status} needs a command")
    if row.docs and not documented(row.docs):
        told.append(f"row {row.row}: there is no place {row.docs} in the documentation")
    return told


def exists(proof: str) -> bool:
    """Return True if the test with this id is defined. A parameter in brackets is not looked at."""
    file, _, name = proof.partition("::")
    return name.partition("[")[0] in _tests(file)


@cache
def _tests(file: str) -> frozenset[str]:
    """Return the names of the test functions of a file below the root, none if it is not there."""
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    names = set()
    for node in ast.parse(path.read_text()).body:
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if node.name.startswith("test_"):
            names.add(node.name)
    return frozenset(names)


def unknown_commands(command: str) -> list[str]:
    """Return those of the commands, with `;` between them, that the command line does not have.
    `none` and the screen, `bs4-console`, are none of them.
    """
    unknown = []
    for one in command.split(";"):
        words = one.split()
        names = {" ".join(words[:1]), " ".join(words[:2])}
        if words[0] not in ("none", "bs4-console") and not names & _commands():
            unknown.append(one.strip())
    return unknown


@cache
def _commands() -> frozenset[str]:
    """Return the commands of the generated page, those without verbs and those with one."""
    headings = []
    for line in (ROOT / "docs" / "cli.md").read_text().splitlines():
        if line.startswith("#"):
            headings.append(line.lstrip("#").strip())
    verbs = {heading for heading in headings if " " in heading}
    groups = {heading.split()[0] for heading in verbs}
    return frozenset(verbs | (set(headings) - groups))


def documented(place: str) -> bool:
    """Return True if `FILE#HEADING` is a heading of that file, written as it stands there."""
    file, _, heading = place.partition("#")
    path = ROOT / file
    if not heading or not path.is_file():
        return False
    for line in path.read_text().splitlines():
        if line.startswith("#") and line.lstrip("#").strip() == heading:
            return True
    return False
