"""Log signatures: a pattern counts only in its own source, at its own level, from its own logger.

A quoted error in a completion, an advice line of torch or a warning that cites an errno must never fire, so a signature without a
source is refused when a playbook is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bs4_agent.detect.facts import Finding
from bs4_agent.trainers.base import LogLine

#: Patterns see at most this much of a line: an unbounded line must not hold a regular expression for seconds.
LINE_CAP = 4096


@dataclass(frozen=True)
class Signature:
    """`levels` empty: any, also lines without a header. `logger` empty: any."""

    failure: str
    source: str
    pattern: re.Pattern[str]
    levels: frozenset[str]
    logger: re.Pattern[str] | None

    @classmethod
    def from_compiled(cls, failure: str, data: Mapping[str, Any]) -> Signature:
        logger = data.get("logger")
        return cls(
            failure, data["source"], re.compile(data["pattern"]), frozenset(data.get("levels", ())), re.compile(logger) if logger else None
        )

    def matches(self, source: str, line: LogLine) -> bool:
        if source != self.source and not (self.source == "env" and source.startswith("env-")):
            return False
        if self.levels and line.level not in self.levels:
            return False
        if self.logger is not None and not self.logger.search(line.logger):
            return False
        return self.pattern.search(line.text[:LINE_CAP]) is not None


def finding(signature: Signature, meta: Mapping[str, Any], run: str, attempt: int, evidence: Mapping[str, Any]) -> Finding:
    """The finding that one matching line makes."""
    return Finding(
        failure=signature.failure,
        run=run,
        attempt=attempt,
        summary=str(evidence["text"])[:300],
        evidence=[evidence],
        anchor=f"{evidence['stream'] or evidence['file']}:{evidence['cursor'] or evidence['offset']}",
        severity=str(meta["severity"]),
        role=str(meta["role"]),
    )
