"""The record of one run: what the run recorded itself, what people wrote by hand, and what a person
adds.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from bs4_console.run_log.validation import Validation

#: The status words of a run that is over.
FINAL = ("COMPLETED", "FINISHED", "ABANDONED", "POSTMORTEM", "FAILED", "STOPPED", "CANCELLED")


@dataclass
class Incident:
    """One incident of a run. `text` is everything written about it, in Markdown. `playbooks` names
    the playbooks that were run for it.
    """

    title: str
    text: str = ""
    state: str = ""
    t: float | None = None
    playbooks: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Attempt:
    """One attempt of a run. `title` is as a person numbered it ("First attempt (OOM)"). The other
    fields are known only for attempts that the agent saw. Times are wall seconds. `overrides` are
    the further arguments of its command, and `phase` is its phase in a phased run.
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
    """One note that a person added to a run: when (wall seconds), who, and what. `lesson` is True
    for a lesson learned.
    """

    t: float
    who: str
    text: str
    lesson: bool = False


@dataclass(kw_only=True)
class RunRecord:
    """Everything known of one run. `source` is "log" for an imported record, or the name of the pod
    whose journal it is folded from. `start` and `end` are times as text.

    `version` is that of the config in its registry, `lineage` what that version is based on, and
    `phase` the present phase of a phased run. `price` is in US dollars an hour, `reward` the last
    known one, and `pace_s` the seconds for a step. An unknown value is "" or None.
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
    """The curves of data that the run does not train on, the one with the most points first."""

    @property
    def final(self) -> bool:
        """Return True if the run is over: its status is final or it has an end."""
        return self.status in FINAL or bool(self.end)

    def as_dict(self) -> dict[str, Any]:
        """Return all fields as a dictionary, for JSON output."""
        return asdict(self)
