"""Lay the errors of the trainer's own config classes over the findings of the shipped schema. If
the two disagree, the installed trainer is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bs4_common.preflight import ClassError, ClassesPart
from bs4_console.configs.document import Document
from bs4_console.configs.findings import Finding, Path, dotted
from bs4_console.typed_json import record

#: How many errors of one answer are read, and how many characters of each text.
_MOST, _TEXT = 200, 400


@dataclass(frozen=True)
class Refusal:
    """One error that the trainer's own config class reports about a config.

    `place` has the keys and list indices that lead to the refused value. If the value may be one of
    several classes, the name of the class as pydantic writes it stands among them. An error that
    concerns several values has the place (). `kind` is the name of pydantic's type of error, and
    `message` its sentence.
    """

    place: Path
    kind: str
    message: str


@dataclass(frozen=True)
class Answer:
    """What the trainer's own config class, as installed on a pod, says about a config. `name` is
    the name of that class. `refusals` are the errors that it reports; if there are none, the class
    accepts the config. If no class could be asked, `name` is "" and `why` is a phrase that says
    why.
    """

    name: str
    refusals: tuple[Refusal, ...] = ()
    why: str = ""

    @property
    def coverage(self) -> dict[str, str]:
        """Return {"schema": ..., "detail": ...}, which says what the config was checked with.
        `schema` is "trainer" if the trainer's own class on the pod has checked it; `detail` is then
        the name of that class. `schema` is "shipped" if only the console's copy of the schema was
        used; `detail` is then a phrase that says why.
        """
        return {"schema": "trainer" if self.name else "shipped", "detail": self.name or self.why}


def read(part: object) -> Answer:
    """Return an Answer with what the trainer's own config class has reported about a config. `part`
    is the part of the agent's reply with that report. If it does not have the expected form, the
    Answer names no class and says why. Nothing is raised.
    """
    answer = record(part, ClassesPart)
    name, errors = answer.get("class"), answer.get("errors")
    if not name or errors is None:
        why = answer.get("unknown") or "The agent gave no answer about the trainer's own classes."
        return Answer("", why=why[:_TEXT])
    return Answer(name[:_TEXT], tuple(map(_refusal, errors[:_MOST])))


def _refusal(entry: ClassError) -> Refusal:
    return Refusal(
        tuple(entry.get("loc", ())),
        entry.get("kind", "")[:_TEXT],
        entry.get("message", "")[:_TEXT].removeprefix("Value error, "),
    )


def laid_over(found: Sequence[Finding], answer: Answer, document: Document) -> list[Finding]:
    """Return the findings `found` about a config, corrected by `answer`, which is what the
    trainer's own classes say about the same config. `document` is that config. An error that only
    the console's copy of the schema reports is dropped if the classes accept that value. A finding
    of a rule stays, because a rule knows more than the schema. An error that the classes report is
    added, unless another error on its line explains it already. If no class was asked, `found` is
    returned as it is.

    The classes stop at the first error that concerns several values. Findings about several values
    therefore stay unless the classes accept the whole config.
    """
    if not answer.name or any(item.id == "toml" for item in found):
        return list(found)
    lines = {_line(document, refusal) for refusal in answer.refusals if refusal.place}
    kept = []
    for item in found:
        can_be_wrong = item.by_schema or not answer.refusals
        doubtful = item.level == "error" and item.id == "schema" and can_be_wrong
        if not doubtful or item.line in lines:
            kept.append(item)
    told = {item.line for item in kept if item.level == "error"}
    for refusal in answer.refusals:
        if not refusal.place or _line(document, refusal) not in told:
            kept.append(_finding(document, refusal, answer.name))
    return kept


def _finding(document: Document, refusal: Refusal, name: str) -> Finding:
    where = dotted(_in_file(document, refusal.place) or refusal.place)
    message, fix = refusal.message, "Correct it."
    if refusal.kind == "extra_forbidden":
        message = f"{where} is not a key of the trainer that is installed."
        fix = "Remove it, or install the revision that has it."
    elif refusal.kind == "missing":
        message, fix = f"{dotted(refusal.place)} is missing.", "Add it."
    elif where:
        message = f"{where}: {refusal.message}"
    if not message.endswith((".", "!", "?")):
        message += "."
    return Finding(
        id="schema",
        level="error",
        line=_line(document, refusal),
        message=message,
        fix=f"{fix} So says {name} on the pod.",
    )


def _in_file(document: Document, place: Path) -> Path:
    """Return `place` without the parts that are no keys of the file: pydantic's names of union
    members.
    """
    path: Path = ()
    for part in place:
        longer = (*path, part)
        if longer in document.lines or (len(longer) == 1 and part in document.borrowed):
            path = longer
    return path


def _line(document: Document, refusal: Refusal) -> int:
    return document.line(_in_file(document, refusal.place))
