"""A playbook as its YAML file has it, once playbooks/schema.json has accepted it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

#: The parameters of a step or a detector, or none.
Parameters = Mapping[str, "str | float | Sequence[str] | Mapping[str, str | float]"]


class NearFile(TypedDict, total=False):
    """A condition of a log signature (a regular expression for the line of a log that shows a
    failure): another line that must be near that line, or must not be if `absent` is True.
    `pattern` is a regular expression for the other line.
    """

    pattern: str
    before: int
    """How many lines before that line the other one may be."""
    after: int
    """How many lines after that line the other one may be."""
    absent: bool


class SignatureFile(TypedDict, total=False):
    """A log signature in a playbook file: a regular expression (`pattern`) that matches the line of
    a log by which a failure is recognised, and conditions. `source` names the programs whose logs
    are searched, and `levels` the levels that the line may have. The line must not match `unless`.
    An earlier line must have matched `only_after`, and none may have matched `not_after`.
    `cleared_by` is an expression for a later line that shows that the failure is over.
    """

    source: str | Sequence[str]
    levels: Sequence[str]
    logger: str
    """A regular expression for the name of the logger that wrote the line."""
    pattern: str
    unless: str
    near: NearFile
    only_after: str
    not_after: str
    where: Mapping[str, str]
    """{named group of `pattern`: condition on the number in it}, such as `> 5`. All must hold."""
    count: int
    """How many lines must match before the failure counts as found."""
    within: str
    """The time in which these lines must lie, such as "5m". If it is missing, they may lie anywhere
    in the log of the attempt (one life of the run's processes).
    """
    last: bool
    """True if the failure counts only as long as no later line of the same program has come."""
    ends_run: bool
    """True if the process that wrote the line ends because of it."""
    cleared_by: str


_Times = TypedDict("_Times", {"for": str, "with": Mapping[str, str | float]}, total=False)


class DetectFile(_Times, total=False):
    """The section of a playbook file that says how the failure is recognised: by `detector`, the
    name of a function, or by log signatures (regular expressions for lines of logs), any one of
    which is enough. `for` is how long the failure must last before it counts, a duration such as
    "5s", and `with` has the numbers for the detector.
    """

    detector: str
    logs: Sequence[SignatureFile]
    keep_firing_for: str
    """How long the failure must be gone before it counts as over, a duration such as "5m"."""
    until_attempt_ends: bool
    """True if the failure, once found, stays open until the attempt (this life of the run's
    processes) ends.
    """


class PlaybookFile(TypedDict, total=False):
    """One playbook, the description of a known failure, as its YAML file has it. What each key
    means stands in playbooks/schema.json.
    """

    id: str
    family: str
    title: str
    role: str
    """How the failure relates to others: "root", "cascade", "symptom", "warning" or
    "maintenance".
    """
    severity: str
    danger: str
    """The most harmful thing that the repair does: none, restart, move, kill or command."""
    where: str
    applies: Sequence[str]
    """The ids of the trainers that can have the failure, or "any"."""
    looks_like: str
    explanation: str
    prevent: str
    sources: Sequence[str]
    explains: Sequence[str]
    """The ids of failures that follow from this one and are not shown beside it."""
    typed_name: bool
    """True if a person has to type the run's name to confirm the repair."""
    automatic: bool
    """False if the repair may never run without a person's confirmation."""
    advice: Sequence[str]
    """What a person can do where there is no repair, or before it."""
    leads_to: str
    """The id of the playbook that helps where this failure cannot be repaired on the pod."""
    detect: DetectFile
    fix: Sequence[Mapping[str, Parameters | None]]
    """The steps of the repair. Each is {kind of the step: its parameters}, with a single key."""
    verify: Mapping[str, Parameters]
    """How it is proved that the repair has worked: {kind of proof: its parameters}."""
    cases: Mapping[str, Sequence[Mapping[str, str]]]
    """Logs for tests of the playbook: under "positive" those in which the failure must be found,
    and under "negative" those in which it must not.
    """
