"""The record of one run: what the run recorded itself, what people wrote by hand, and what a person
adds.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from operator import attrgetter
from typing import Any

from bs4_console.run_log.validation import Validation

#: The status words of a run that is over.
FINAL = ("COMPLETED", "FINISHED", "ABANDONED", "POSTMORTEM", "FAILED", "STOPPED", "CANCELLED")
#: How many digits of a config's digest people read.
_DIGITS = 8


@dataclass
class Incident:
    """One incident in the record of a run. `title` names it, `text` is all that is written about it
    in Markdown, and `t` is its Unix time in seconds or None. `state` is the pod's state of the
    incident, such as "open" or "resolved", or "" if a person has written it down. `playbooks` names
    the playbooks that were run to repair it.
    """

    title: str
    text: str = ""
    state: str = ""
    t: float | None = None
    playbooks: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Attempt:
    """One attempt in the record of a run. `title` is a person's words for it ("First attempt
    (OOM)") and `text` what is written about it. The other fields are known only if an agent
    observed the attempt: `good` is True if it ended well, `resume` the training step from which it
    resumed, `overrides` further arguments of its command, and `phase` its phase in a phased run.
    Times are Unix times in seconds.

    `number` is the agent's number of the attempt, and `pod` the name of the pod on which it ran.
    The others are known only if it was launched from a console: `config_digest` is the digest of
    its config's values, `config_version` the config's version in the registry beside it,
    `config_based_on` the version from which that one was made, `versions` are those of the
    installed packages by name, `hardware` are facts about the machine, and `commit` is the one that
    was checked out where the trainer is. An unknown value is "", {} or None.
    """

    title: str
    text: str = ""
    started_t: float | None = None
    ended_t: float | None = None
    good: bool | None = None
    resume: int | None = None
    overrides: list[str] = field(default_factory=list)
    phase: str = ""
    number: int | None = None
    config_digest: str = ""
    config_version: str = ""
    config_based_on: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    hardware: dict[str, str] = field(default_factory=dict)
    commit: str = ""
    pod: str = ""

    @property
    def launch(self) -> str:
        """Return what the attempt was launched with, such as "config v3 (1f0a7de2), arguments
        --ckpt.keep-last 3", or "" if that is not recorded.
        """
        said = []
        if self.config_digest:
            words = ("config", self.config_version, f"({self.config_digest[:_DIGITS]})")
            said.append(" ".join(filter(None, words)))
        if self.overrides:
            said.append(f"arguments {shlex.join(self.overrides)}")
        return ", ".join(said)


@dataclass
class Note:
    """A note that a person added to a run: `t` is the Unix time in seconds, `who` the author and
    `text` the text. `lesson` is True if it is a lesson learned. `status` is the status word that
    the person gave the run, such as "ABANDONED", and `text` is then the reason; it is "" for any
    other note.
    """

    t: float
    who: str
    text: str
    lesson: bool = False
    status: str = ""


def in_order(*written: Iterable[Note]) -> list[Note]:
    """Return the notes of all of `written` in the order of their times."""
    return sorted(chain.from_iterable(written), key=attrgetter("t"))


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """One row of a table of step times that a person wrote. `config` and `step_time` are in the
    person's words, `seconds` is the step time in seconds, or None if the words are no duration, and
    `more` has the other columns, by their headings.
    """

    config: str
    step_time: str
    seconds: float | None
    more: dict[str, str]


@dataclass(frozen=True)
class Lesson:
    """A lesson learned that a document holds: its `topic`, and its `text` in Markdown. `run` is the
    run in whose section it stands, or "" if it is one of the whole document.
    """

    run: str
    topic: str
    text: str


@dataclass(kw_only=True)
class RunRecord:
    """What the run log knows of one run. `source` is "log" if the record comes from the imported
    document, or else the name of the pod from whose journal (the agent's log of actions and
    incidents) it was made. `start` and `end` are times as text; `started_t` and `ended_t` are Unix
    times in seconds.

    `hardware` are facts about the pod as it was last seen (gpus, driver, cores, memory), by name.
    `rewards` are pairs (step, reward), oldest first.

    `version` is the config's version in the config registry, `lineage` names the version on which
    that config version is based, and `phase` is the present phase of a phased run. `price` is in US
    dollars an hour, `reward` the newest known reward, and `pace_s` the seconds for one step. An
    unknown value is "" or None.

    `step_time`, `duration`, `gpu_usage`, `baseline`, `final_score`, `improvement`, `speedup`,
    `env_version`, `wandb_project`, `reward_remark`, `expected` (what a change was to bring) and
    `actual` (what it brought) are what people wrote, in their words. `tokens_s` are the tokens a
    second. `configs` are the texts of configs in the run's section, by their title. `tags` are the
    words by which a person groups runs.
    """

    name: str
    status: str = ""
    status_note: str = ""
    """The reason for the status, in a person's words, or ""."""
    decided: str = ""
    """The status word that a person gave the run in a note, or ""."""
    still_on: str = ""
    """The pod of the inventory on which the newest attempt had not ended when it was last read, or
    "" if it had ended, or if there is no such pod.
    """
    date: str = ""
    model: str = ""
    config: str = ""
    version: str = ""
    lineage: str = ""
    phase: str = ""
    pod: str = ""
    pod_id: str = ""
    """The provider's id of the pod, as a person wrote it."""
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
    """What stands as `name: value` at the beginning of the run's section, or in its row of a table,
    by name.
    """
    remarks: list[str] = field(default_factory=list)
    """The paragraphs of the run's section that are nothing else in this record, those below a
    heading with it in front.
    """
    attempts: list[Attempt] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)
    lessons: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    validation: list[Validation] = field(default_factory=list)
    """The curves of data that the run does not train on, the one with the most points first."""
    hardware: dict[str, str] = field(default_factory=dict)
    rewards: list[tuple[int, float]] = field(default_factory=list)
    step_time: str = ""
    step_times: list[StepTime] = field(default_factory=list)
    duration: str = ""
    gpu_usage: str = ""
    baseline: str = ""
    final_score: str = ""
    improvement: str = ""
    speedup: str = ""
    env_version: str = ""
    wandb_project: str = ""
    expected: str = ""
    actual: str = ""
    reward_remark: str = ""
    tokens_s: float | None = None
    configs: dict[str, str] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)

    @property
    def final(self) -> bool:
        """Return True if the run is over: its status is a final one (such as finished or failed),
        or its end is known.
        """
        return self.status in FINAL or bool(self.end)

    @property
    def lasted_s(self) -> float | None:
        """Return the seconds from the run's start to its end. Return None if one of them is not
        known, or if the end is before the start, as by a clock that was set back.
        """
        if self.started_t is None or self.ended_t is None or self.ended_t < self.started_t:
            return None
        return self.ended_t - self.started_t

    @property
    def still(self) -> str:
        """Return where a run goes on that a person has called over, such as "still running on podA
        at $3.50 an hour". Return "" for a run that nobody has called over, or that has ended.
        """
        if not self.still_on or not self.decided:
            return ""
        price = "" if self.price is None else f" at ${self.price:.2f} an hour"
        return f"still running on {self.still_on}{price}"

    def mark(self, notes: Sequence[Note]) -> None:
        """Set the run's status, and the reason for it, to the newest that a person gave in `notes`.
        Notes without a status are ignored. So are notes that were written before the newest attempt
        (start of the run's processes) began. If none is left, nothing changes.
        """
        began = max((a.started_t for a in self.attempts if a.started_t is not None), default=0.0)
        for note in sorted(notes, key=attrgetter("t")):
            if note.status and note.t >= began:
                self.status, self.status_note = note.status, note.text
                self.decided = note.status

    def as_dict(self) -> dict[str, Any]:
        """Return the fields of the record as a dictionary, for JSON output. The rewards of single
        steps, of which there are thousands, are left out.
        """
        fields = asdict(self)
        del fields["rewards"]
        return fields
