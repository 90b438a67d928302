"""A playbook as its YAML file has it, once playbooks/schema.json has accepted it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

#: The parameters of a step or a detector, or none.
Parameters = Mapping[str, "str | float | Sequence[str] | Mapping[str, str | float]"]


class NearFile(TypedDict, total=False):
    """A condition of a log signature: another line that must be near the line that the signature
    matches, or must not be if `absent` is True. `pattern` is a regular expression, and `before` and
    `after` are numbers of lines.
    """

    pattern: str
    before: int
    """Lines."""
    after: int
    """Lines."""
    absent: bool


class SignatureFile(TypedDict, total=False):
    """A log signature in a playbook file: a regular expression that matches the line of a log by
    which a failure is recognised, and conditions, which are regular expressions too.
    """

    source: str | Sequence[str]
    levels: Sequence[str]
    logger: str
    pattern: str
    unless: str
    near: NearFile
    only_after: str
    not_after: str
    where: Mapping[str, str]
    """By named group of the pattern: a comparison such as `> 5`."""
    count: int
    within: str
    """A duration such as "5m"."""
    last: bool
    ends_run: bool
    cleared_by: str


_Times = TypedDict("_Times", {"for": str, "with": Mapping[str, str | float]}, total=False)


class DetectFile(_Times, total=False):
    """The section of a playbook file that says how the failure is recognised: by a detector, or by
    log signatures. `for` is how long it must last before it counts, a duration such as "5s", and
    `with` has the numbers for the detector.
    """

    detector: str
    logs: Sequence[SignatureFile]
    keep_firing_for: str
    until_attempt_ends: bool


class PlaybookFile(TypedDict, total=False):
    """One playbook, the description of a known failure, as its YAML file has it. What each key
    means stands in playbooks/schema.json.
    """

    id: str
    family: str
    title: str
    role: str
    severity: str
    danger: str
    where: str
    applies: Sequence[str]
    looks_like: str
    explanation: str
    prevent: str
    sources: Sequence[str]
    explains: Sequence[str]
    typed_name: bool
    automatic: bool
    advice: Sequence[str]
    leads_to: str
    detect: DetectFile
    fix: Sequence[Mapping[str, Parameters | None]]
    """By kind of step: its parameters. Each entry has one step."""
    verify: Mapping[str, Parameters]
    cases: Mapping[str, Sequence[Mapping[str, str]]]
    """ "positive" and "negative": the logs that tests feed to the engine."""
