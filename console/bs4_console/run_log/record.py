"""What is kept of one run: what it recorded itself, what was written down by hand before, and what
a person adds.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from bs4_console.run_log.validation import Validation

#: Words of a status after which nothing more comes.
FINAL = ("COMPLETED", "FINISHED", "ABANDONED", "POSTMORTEM", "FAILED", "STOPPED", "CANCELLED")


@dataclass
class Incident:
    """`text`: everything said of it, Markdown. `playbooks`: what was run for it."""

    title: str
    text: str = ""
    state: str = ""
    t: float | None = None
    playbooks: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Attempt:
    """`title` as somebody numbered it ("First attempt (OOM)"); the rest is known only of attempts
    that the agent saw. Wall seconds. `overrides`: the further arguments of its command; `phase`: of
    a phased run.
    """

    title: str
    text: str = ""
    started_t: float | None = None
    ended_t: float | None = None
    good: bool | None = None
    resume: int | None = None
    overrides: list[str] = field(default_factory=list)
    phase: str = ""


@dataclass
class Note:
    t: float
    who: str
    text: str
    lesson: bool = False


@dataclass(kw_only=True)
class RunRecord:
    """`source`: log (imported), or the name of the pod whose journal it is folded from. Times
    `start`, `end` are as written.

    `version`: of the config in its registry; `lineage`: what that is based on; `phase`: the one
    that a phased run is in. `price`: US dollars an hour. `reward`: the last one known. `pace_s`:
    seconds a step. Unknown is "" or None.
    """

    name: str
    status: str = ""
    status_note: str = ""
    date: str = ""
    model: str = ""
    config: str = ""
    version: str = ""
    lineage: str = ""
    phase: str = ""
    pod: str = ""
    pod_id: str = ""
    price: float | None = None
    start: str = ""
    end: str = ""
    wandb: str = ""
    trainer: str = ""
    step: int | None = None
    max_steps: int | None = None
    reward: float | None = None
    pace_s: float | None = None
    started_t: float | None = None
    ended_t: float | None = None
    source: str = "log"
    fields: dict[str, str] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)
    lessons: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    validation: list[Validation] = field(default_factory=list)
    """The curves of what the run does not train on, the one with the most points first."""

    @property
    def final(self) -> bool:
        return self.status in FINAL or bool(self.end)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
