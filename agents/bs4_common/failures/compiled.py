"""Playbooks in the form in which the agent reads them: JSON that was compiled and validated on the
operator's side. The agent never parses YAML.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from bs4_common.digest import sha256
from bs4_common.errors import UnknownPlaybook
from bs4_common.states import Danger, Role, Severity, Where
from bs4_common.trainers import registry

if TYPE_CHECKING:
    from bs4_common.failures.signatures import SignatureFields

#: The numbers of a playbook for its detector, by the detector's names for them.
Parameters = Mapping[str, float]

_For = TypedDict("_For", {"for": Sequence[str]}, total=False)


class StepSettings(_For, total=False):
    """The parameters that a playbook gives one step of its repair (`fix`). Which of the fields a
    step has depends on its kind. `for` has the ids of the trainers whose config has the keys in
    `set` and `unset`.
    """

    below_mb: int
    """A GPU is free if it uses less than this many MB."""
    when: Literal["nothing-saved"]
    """The step is only for a run that has no checkpoint and whose trainer refuses to start in a
    directory with files.
    """
    resume: Literal["resumable", "same", "none", "previous"]
    """The checkpoint from which a relaunch starts: the newest complete one ("resumable"); the same,
    or the point from which the failed attempt started if there is none ("same"); no checkpoint
    ("none"); or the newest complete one below the step from which the failed attempt started
    ("previous").
    """
    set: Mapping[str, str | float | bool]
    """Dotted keys of a config, and their values."""
    unset: Sequence[str]
    """Dotted keys to remove from the config."""
    select: str
    """The name of the rule that finds the files to move."""
    limit: int
    """Entries to move at most."""
    bytes: int
    """Bytes to move at most."""
    condition: Literal["disk-free", "port-free", "server-ready"]
    """What the step waits for."""
    percent: int
    """The percentage (1 to 99) of the run's filesystem below which its use must be for "disk-free".
    """
    within: float | str
    """The longest wait, in seconds or as a text such as "5m"."""
    nofile: int
    """The number of open files that the run may have."""
    what: Literal["server"]
    """The program that must answer: the inference server."""
    text: str
    """The text of a note for people."""


class VerifySettings(TypedDict, total=False):
    """The parameters that a playbook gives the check that its repair has worked. Which of the
    fields there are depends on the kind of the check.
    """

    count: int
    """How many training steps the run must make."""
    within: float
    """The seconds in which that must happen."""
    percent: int
    """The percentage (1 to 99) of the run's filesystem below which its use must be."""


if TYPE_CHECKING:
    # Only for the type checker: at run time, each would take 10 KiB of the agent.

    _With = TypedDict("_With", {"with": Mapping[str, object], "for": float}, total=False)

    class Detect(_With, total=False):
        """How a playbook recognises its failure: by a detector, or by log lines. `with` has what it
        gives the detector, and `for` the seconds for which the failure must be seen unbroken.
        """

        detector: str
        logs: Sequence[SignatureFields]
        keep_firing_for: float
        """Seconds."""
        until_attempt_ends: bool

    class PlaybookFields(TypedDict, total=False):
        """A playbook as playbooks.json has it; see `Playbook`."""

        id: str
        title: str
        family: str
        role: Role
        severity: Severity
        danger: Danger
        where: Where
        applies: Sequence[str]
        detect: Detect
        explains: Sequence[str]
        fix: Sequence[Mapping[str, StepSettings | None]]
        verify: Mapping[str, VerifySettings]
        typed_name: bool
        automatic: bool


@dataclass(frozen=True, kw_only=True)
class Playbook:
    """One playbook, as compiled from its file: how one known failure is recognised and what repairs
    it.

    `family` is the group to which the failure belongs, such as "gpu". `danger` is the worst thing
    that the repair does, and `where` says if the pod or the console carries it out. `applies` has
    the ids of the trainers for which the playbook works. `detect` says how the failure is
    recognised: by a detector (a function of the agent) or by log lines. `explains` has the ids of
    the failures that are only consequences of this one. `fix` has the steps of the repair as (kind,
    parameters), in order, and `verify` describes the check that the repair worked. `automatic` is
    False if the repair must not run without a person, and `typed_name` is True if a person who
    confirms the repair must type the run's name. `sha256` is the digest of the compiled file.
    """

    id: str
    title: str
    family: str
    role: Role
    severity: Severity
    danger: Danger
    where: Where
    applies: frozenset[str]
    detect: Detect
    explains: frozenset[str]
    fix: Sequence[tuple[str, StepSettings]]
    verify: Mapping[str, VerifySettings]
    typed_name: bool
    automatic: bool
    sha256: str

    @classmethod
    def from_dict(cls, data: PlaybookFields) -> Playbook:
        """Return the playbook that `data` describes, one entry of the file playbooks.json, which
        has all playbooks in compiled form. Raises KeyError if a field is missing.
        """
        return cls(
            id=data["id"],
            title=data["title"],
            family=data["family"],
            role=data["role"],
            severity=data["severity"],
            danger=data["danger"],
            where=data["where"],
            applies=registry.named(data["applies"]),
            detect=data.get("detect", {}),
            explains=frozenset(data.get("explains", ())),
            fix=_steps(data.get("fix", ())),
            verify=data.get("verify", {}),
            typed_name=bool(data.get("typed_name", False)),
            automatic=bool(data.get("automatic", True)),
            sha256=digest(data),
        )

    def applies_to(self, trainer: str) -> bool:
        """Return True if the playbook is for runs of the trainer with the id `trainer`."""
        return trainer in self.applies

    @property
    def detector(self) -> str | None:
        """Return the name of the detector, the function of the agent that recognises the playbook's
        failure. Return None if the failure is recognised by log lines (see `signatures`).
        """
        return self.detect.get("detector")

    @property
    def parameters(self) -> Parameters:
        """Return the numbers with which the playbook calls its detector, by name ({} if it has no
        detector or sets none). Their names and defaults are those of the detector. The range
        `healthy`, which is for charts and people, is left out.
        """
        given = self.detect.get("with", {})
        return {key: value for key, value in given.items() if isinstance(value, (int, float))}

    @property
    def signatures(self) -> Sequence[SignatureFields]:
        """Return the log signatures (descriptions of log lines) by which the failure is recognised,
        or an empty list if a detector recognises it.
        """
        return list(self.detect.get("logs", ()))

    @property
    def hold_s(self) -> float:
        """Return the number of seconds for which the failure must be seen without a break before it
        becomes an incident.
        """
        return float(self.detect.get("for", 0.0))

    @property
    def keep_s(self) -> float:
        """Return for how many seconds an incident stays open after the failure was last seen."""
        return float(self.detect.get("keep_firing_for", 0.0))

    @property
    def until_attempt_ends(self) -> bool:
        """Return True if the failure, once it was seen, counts as present until the run's attempt
        ends, even if later checks do not see it again.
        """
        return bool(self.detect.get("until_attempt_ends", False))


def _steps(fix: Iterable[Mapping[str, StepSettings | None]]) -> list[tuple[str, StepSettings]]:
    """Return the kind and the settings of each step of a fix, in order."""
    found: list[tuple[str, StepSettings]] = []
    for step in fix:
        for kind, settings in step.items():
            found.append((kind, settings or {}))
    return found


def canonical(value: Any) -> bytes:
    """Return the JSON value as bytes in a form that is always the same: sorted keys, no spaces,
    UTF-8.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(value: Any) -> str:
    """Return the SHA-256, in hexadecimal digits, of a JSON value in the form that `canonical`
    returns.
    """
    return sha256(canonical(value)).hexdigest()


class Library:
    """All playbooks (descriptions of known failures and their repairs), by their ids. They are read
    from `raw`, the bytes of the file playbooks.json. Iterating over it yields each Playbook. `get`
    returns one of them.
    """

    def __init__(self, raw: bytes) -> None:
        self._by_id = {
            entry["id"]: Playbook.from_dict(entry) for entry in json.loads(raw)["playbooks"]
        }

    def __iter__(self) -> Any:
        return iter(self._by_id.values())

    def get(self, playbook_id: str) -> Playbook:
        """Return the playbook with this id. Raises UnknownPlaybook if there is none."""
        if playbook_id not in self._by_id:
            raise UnknownPlaybook(
                f"There is no playbook {playbook_id!r} among the {len(self._by_id)} of this agent; "
                "`playbook list` shows them."
            )
        return self._by_id[playbook_id]
