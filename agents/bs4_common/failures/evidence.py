"""Evidence: the lines, files, processes and numbers on which a finding rests."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

from bs4_common.identity import Identity


class Place(TypedDict):
    """The place of a piece of evidence: the log or other source, the file, and the line in it.
    Texts are "" and numbers 0 if the evidence has no such place.
    """

    source: str
    """What holds it: a log such as "trainer", or "files", "process", "config", "disk", ..."""
    stream: str
    """The agent's stream with the line, for example `log/trainer`."""
    cursor: str
    """The line's place in `stream`, as the text "GENERATION:OFFSET": the number of one of the
    stream's files, and the byte in it at which the line begins.
    """
    file: str
    """A path on the pod."""
    offset: int
    """Bytes from the beginning of `file`."""
    line: int
    """The number of the line in `file`, from 1."""


class Evidence(Place):
    """One piece of evidence for a failure, such as a log line, in the form in which incidents and
    the journal (the agent's log) have it.
    """

    text: str
    """The line, or the fact in words."""


def evidence_of(record: Evidence) -> Evidence:
    """Return a copy of `record`, a piece of evidence that was read from the agent's journal, with
    every field. A field that an older agent left out is "", or 0 for `offset` and `line`.
    """
    return {
        "source": str(record.get("source", "")),
        "stream": str(record.get("stream", "")),
        "cursor": str(record.get("cursor", "")),
        "file": str(record.get("file", "")),
        "offset": int(record.get("offset") or 0),
        "line": int(record.get("line") or 0),
        "text": str(record.get("text", "")),
    }


def as_evidence(source: str, text: str, file: str = "", stream: str = "") -> Evidence:
    """Return a fact that is no log line (a setting, a reading of the driver, a row of the
    provider's list) in the form of evidence. `source` is where the fact comes from, for example
    "config", `text` the fact in words, `file` the path that holds it, or "", and `stream` the
    stream with the records that show it, or "".
    """
    return {
        "source": source,
        "stream": stream,
        "cursor": "",
        "file": file,
        "offset": 0,
        "line": 0,
        "text": text,
    }


def file_evidence(path: Path, text: str) -> Evidence:
    """Return the evidence (a fact on which a finding rests) that names the whole file or directory
    `path`, not a place in it. `text` says what is remarkable about it. The file is not read.
    """
    return as_evidence("files", text, str(path))


def process_evidence(identity: Identity, text: str) -> Evidence:
    """Return a process as evidence. `text` says what is remarkable about it."""
    return as_evidence("process", f"pid {identity.pid}: {text}")
