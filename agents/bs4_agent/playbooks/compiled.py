"""Playbooks in the form in which the agent reads them: JSON that was compiled and validated on the
operator's side. The agent never parses YAML.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bs4_agent.digest import sha256
from bs4_agent.errors import UnknownPlaybook
from bs4_agent.states import Danger, Role, Severity, Where
from bs4_agent.trainers import registry


@dataclass(frozen=True, kw_only=True)
class Playbook:
    """One playbook, as compiled from its file: how one known failure is recognised and what repairs
    it.

    `applies` has the ids of the trainers for which the playbook works. `detect` says how the
    failure is recognised (by a detector or by log lines), and `explains` has the ids of the
    failures that are only consequences of this one. `fix` has the repair's steps as (kind,
    parameters), in order, and `verify` describes the check that the repair worked. `automatic` is
    False if the fix must not run without a person, and `typed_name` is True if a person who
    confirms the fix must type the run's name. `sha256` is the digest of the compiled file.
    """

    id: str
    title: str
    family: str
    role: Role
    severity: Severity
    danger: Danger
    where: Where
    applies: frozenset[str]
    detect: Mapping[str, Any]
    explains: frozenset[str]
    fix: Sequence[tuple[str, Mapping[str, Any]]]
    verify: Mapping[str, Any]
    typed_name: bool
    automatic: bool
    sha256: str

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Playbook:
        """Return the playbook in one entry of playbooks.json, which has all compiled playbooks."""
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
            fix=[
                (kind, parameters or {})
                for step in data.get("fix", ())
                for kind, parameters in step.items()
            ],
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
        """Return the name of the detector that recognises the playbook's failure, or None if log
        lines recognise it (see `signatures`).
        """
        return self.detect.get("detector")

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Return the parameters with which the playbook calls its detector, by name ({} if it has
        no detector or sets none). Their names and defaults are those of the detector.
        """
        return dict(self.detect.get("with", {}))

    @property
    def signatures(self) -> Sequence[Mapping[str, Any]]:
        """Return the log signatures (descriptions of log lines) by which the failure is recognised,
        or an empty list.
        """
        return list(self.detect.get("logs", ()))

    @property
    def hold_s(self) -> float:
        """Return the hold time: the seconds that a finding must last to become an incident."""
        return float(self.detect.get("for", 0.0))

    @property
    def keep_s(self) -> float:
        """Return how many seconds an incident stays open after its finding was last seen."""
        return float(self.detect.get("keep_firing_for", 0.0))

    @property
    def until_attempt_ends(self) -> bool:
        """Return True if a finding of this playbook stays valid until the run's attempt ends after
        it was found once, even if later checks do not find the failure again.
        """
        return bool(self.detect.get("until_attempt_ends", False))


def canonical(value: Any) -> bytes:
    """Return the value as canonical JSON: sorted keys, no spaces, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(value: Any) -> str:
    """Return the SHA-256 digest of the value's canonical JSON, in hex."""
    return sha256(canonical(value)).hexdigest()


class Library:
    """All playbooks of a bundle or of a checkout, by id. Iterating over it yields the playbooks."""

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
