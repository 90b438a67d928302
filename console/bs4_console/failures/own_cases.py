"""Search the test cases of a playbook for its own patterns, as the agent would search the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bs4_common.failures.matcher import parts
from bs4_common.failures.signatures import Expression
from bs4_common.trainers import lines
from bs4_console.failures.patterns import literals
from bs4_console.failures.playbook_file import PlaybookFile, SignatureFile


def unfound_cases(playbook: PlaybookFile) -> Iterator[tuple[str, str]]:
    """Yield (path in the file, sentence about what is wrong) for each log among the playbook's test
    cases in which the failure should be found and is not: no log signature of the playbook (a
    regular expression with conditions) matches a line of it. The sentence shows a line of the log
    as the expression gets it. The playbook must be valid. Nothing is yielded for one with a
    detector, because the detector may find the failure.
    """
    detect = playbook.get("detect", {})
    signatures = detect.get("logs", ())
    if "detector" in detect or not signatures:
        return
    for index, case in enumerate(playbook.get("cases", {}).get("positive", ())):
        shown = _unfound(signatures, case["source"], case["log"])
        if shown:
            yield f"cases/positive/{index}/log", shown


def _unfound(signatures: Sequence[SignatureFile], source: str, log: str) -> str:
    """Return "" if a signature matches a line of the log, else a sentence about the last line that
    holds the text of a pattern, or about the last line of all.
    """
    program = source.partition("-")[0]
    told = []
    for raw in log.encode("utf-8", "replace").splitlines():
        for text, level, _ in parts(lines.parse(source, raw)):
            if any(_matches(signature, program, level, text) for signature in signatures):
                return ""
            told.append((text, level))
    words = []
    for signature in signatures:
        words += [word.removeprefix("(?i)").lower() for word in literals(signature["pattern"])]
    near = [row for row in told if any(word in row[0].lower() for word in words)]
    text, level = (near or told)[-1]
    return (
        "is not found: no pattern matches a line of it. A pattern gets "
        f'{text!r} at level "{level}" in the log of {program}'
    )


def _matches(signature: SignatureFile, program: str, level: str, text: str) -> bool:
    """Return whether a line of this program, at this level and without its header, matches the
    signature's pattern.
    """
    return (
        program in signature["source"]
        and level in signature.get("levels", (level,))
        and Expression(signature["pattern"]).search(text) is not None
    )
