"""Playbooks for tests of the engine, compiled as the shipped ones are: with the words that their
patterns need.
"""

from __future__ import annotations

import json
from typing import Any

from bs4_common.failures.compiled import Library, Playbook
from bs4_common.failures.engine import Engine
from bs4_console.failures.playbooks import _compile

BASE = {
    "title": "T",
    "family": "f",
    "role": "root",
    "severity": "critical",
    "danger": "none",
    "where": "pod",
    "applies": ["any"],
    "looks_like": "",
    "explanation": "",
    "prevent": "",
}


def playbook(
    name: str, *logs: dict[str, Any], detect: dict[str, Any] | None = None, **fields: Any
) -> dict[str, Any]:
    """One entry as lint gives it. Signatures without a source are the trainer's."""
    given = [{"source": "trainer", **log} for log in logs]
    return {
        **BASE,
        "id": name,
        **fields,
        "detect": {**({"logs": given} if given else {}), **(detect or {})},
    }


def library(*entries: dict[str, Any]) -> list[Playbook]:
    return list(Library(json.dumps({"playbooks": [_compile(entry) for entry in entries]}).encode()))


def engine(*entries: dict[str, Any], live: bool = False) -> Engine:
    return Engine(library(*entries), live=live)
