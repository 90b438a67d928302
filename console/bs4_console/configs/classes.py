"""What the trainer's own config classes say, laid over what lint found by the shipped schema: of
the two the installed trainer is right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bs4_console.configs.document import Document
from bs4_console.configs.findings import Finding, Path, dotted

#: Errors of one answer that are read, and characters of one of them.
_MOST, _TEXT = 200, 400


@dataclass(frozen=True)
class Refusal:
    """One error of a class: where (keys and indices, with pydantic's own marks of a union's members
    between them), its kind, its words.
    """

    place: Path
    kind: str
    message: str


@dataclass(frozen=True)
class Answer:
    """`name`: the class that was asked, "" where none could be; `why` says then why not. No
    refusals: it takes the config.
    """

    name: str
    refusals: tuple[Refusal, ...] = ()
    why: str = ""

    @property
    def coverage(self) -> dict[str, str]:
        """By which schema the config was judged: `trainer` (the installed classes) or `shipped`."""
        return {"schema": "trainer" if self.name else "shipped", "detail": self.name or self.why}


def read(part: object) -> Answer:
    """An agent's answer, whatever it is."""
    if not isinstance(part, Mapping):
        return Answer("", why="The agent gave no answer about the trainer's own classes.")
    name, errors = part.get("class"), part.get("errors")
    if not isinstance(name, str) or not name or not isinstance(errors, list):
        return Answer(
            "",
            why=str(
                part.get("unknown") or "The agent gave no answer about the trainer's own classes."
            )[:_TEXT],
        )
    return Answer(
        name[:_TEXT],
        tuple(_refusal(entry) for entry in errors[:_MOST] if isinstance(entry, Mapping)),
    )


def _refusal(entry: Mapping[str, Any]) -> Refusal:
    place = entry.get("loc")
    parts = []
    if isinstance(place, list):
        parts = [part for part in place if isinstance(part, int | str)]
    return Refusal(
        tuple(parts),
        str(entry.get("kind", ""))[:_TEXT],
        str(entry.get("message", ""))[:_TEXT].removeprefix("Value error, "),
    )


def laid_over(found: Sequence[Finding], answer: Answer, document: Document) -> list[Finding]:
    """`found` by the shipped schema and the rules, corrected by the trainer's own classes.

    What only the shipped schema refuses and they take is not said (a rule, which knows a failure,
    stays); what they refuse is said once, by the rule that explains it where there is one. Between
    values (a place that is none) they stop at the first they meet, so what lint knows of those
    stays, unless they take it all.
    """
    if not answer.name or any(item.id == "toml" for item in found):
        return list(found)
    lines = set()
    for refusal in answer.refusals:
        if refusal.place:
            lines.add(_line(document, refusal))
    kept = []
    for item in found:
        doubtful = (
            item.level == "error"
            and item.id == "schema"
            and (item.by_schema or not answer.refusals)
        )
        if not doubtful or item.line in lines:
            kept.append(item)
    told = {item.line for item in kept if item.level == "error"}
    return [
        *kept,
        *(
            _finding(document, one, answer.name)
            for one in answer.refusals
            if not one.place or _line(document, one) not in told
        ),
    ]


def _finding(document: Document, refusal: Refusal, name: str) -> Finding:
    place = _in_file(document, refusal.place)
    where = dotted(refusal.place if len(place) < len(refusal.place) and not place else place)
    if refusal.kind == "extra_forbidden":
        message, fix = (
            f"{where} is not a key of the trainer that is installed.",
            "Remove it, or install the revision that has it.",
        )
    elif refusal.kind == "missing":
        message, fix = f"{dotted(refusal.place)} is missing.", "Add it."
    else:
        if where:
            message = f"{where}: {refusal.message}"
        else:
            message = refusal.message
        message, fix = (
            message if message.endswith((".", "!", "?")) else f"{message}.",
            "Correct it.",
        )
    return Finding(
        id="schema",
        level="error",
        line=_line(document, refusal),
        message=message,
        fix=f"{fix} So says {name} on the pod.",
    )


def _in_file(document: Document, place: Path) -> Path:
    """`place` without what is no key of the file: the names that pydantic gives to members of a
    union.
    """
    path: Path = ()
    for part in place:
        longer = (*path, part)
        if longer in document.lines or (len(longer) == 1 and part in document.borrowed):
            path = longer
    return path


def _line(document: Document, refusal: Refusal) -> int:
    return document.line(_in_file(document, refusal.place))


def sorted_by_line(found: Sequence[Finding]) -> list[Finding]:
    unique = {(item.id, item.line, item.message): replace(item, by_schema=False) for item in found}
    return sorted(unique.values(), key=lambda item: (item.line, item.level != "error", item.id))
