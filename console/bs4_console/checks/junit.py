"""Verdicts as JUnit XML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from bs4_console.checks.verdict import CRITICAL, OK, UNKNOWN, WARNING, WORDS, Reason, Verdict

#: Characters that XML 1.0 cannot hold, not even escaped.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def document(verdicts: Sequence[Verdict]) -> str:
    """Return the verdicts as JUnit XML, with a test suite for each pod and a test case for each
    thing that was checked. CRITICAL and WARNING become failures, and UNKNOWN becomes an error.
    """
    root = ElementTree.Element("testsuites", name="bs4-console check")
    for verdict in verdicts:
        _suite(root, verdict)
    for key in ("tests", "failures", "errors"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ElementTree.indent(root)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        + ElementTree.tostring(root, encoding="unicode")
        + "\n"
    )


def _suite(root: ElementTree.Element, verdict: Verdict) -> None:
    """Add the suite of one verdict to the document."""
    cases = verdict.found or [Reason(verdict.level, "pod", "; ".join(verdict.sentences))]
    suite = ElementTree.SubElement(root, "testsuite", name=_xml(verdict.pod), tests=str(len(cases)))
    suite.set("failures", str(sum(level in (WARNING, CRITICAL) for level, _, _ in cases)))
    suite.set("errors", str(sum(level == UNKNOWN for level, _, _ in cases)))
    suite.set("skipped", "0")
    for level, subject, said in cases:
        case = ElementTree.SubElement(
            suite, "testcase", classname=_xml(f"check.{verdict.pod}"), name=_xml(subject), time="0"
        )
        if level == OK:
            ElementTree.SubElement(case, "system-out").text = _xml(said)
        else:
            kind = "error" if level == UNKNOWN else "failure"
            ElementTree.SubElement(case, kind, type=WORDS[level], message=_xml(said)).text = _xml(
                said
            )
    if verdict.coverage:
        ElementTree.SubElement(suite, "system-out").text = _xml(
            "\n".join(f"not seen: {phrase}" for phrase in verdict.coverage)
        )


def _xml(said: str) -> str:
    """Return text in which characters that XML 1.0 cannot hold are replaced."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", said)
