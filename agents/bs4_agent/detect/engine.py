"""From findings to incidents: hold times, keep-firing, one incident a cause, roots before what follows from them.

The engine is given facts and a clock and keeps no other state than what it has seen hold; live watching and `diagnose` use the same one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bs4_agent.detect.detectors import DETECTORS
from bs4_agent.detect.facts import Facts, Finding
from bs4_agent.detect.signatures import Signature, finding
from bs4_agent.digest import sha256
from bs4_agent.playbooks.compiled import Playbook
from bs4_agent.trainers.base import LogLine


@dataclass
class _Held:
    finding: Finding
    first_m: float
    last_m: float
    fired: bool = False


@dataclass(frozen=True)
class Transition:
    """`event`: opened, updated, cleared. `incident` is the stable id."""

    event: str
    incident: str
    finding: Finding
    playbook: Playbook


def incident_id(item: Finding) -> str:
    """hash(run, attempt, failure id, first evidence): two observers of one cause make one incident."""
    text = "\0".join((item.run, str(item.attempt), item.failure, item.anchor))
    return sha256(text.encode()).hexdigest()[:16]


class Engine:
    """`evaluate` after every look; `feed` for every log line."""

    def __init__(self, playbooks: Sequence[Playbook]) -> None:
        self._playbooks = [p for p in playbooks if p.detect]
        self._held: dict[str, _Held] = {}
        self._logged: list[tuple[Finding, Playbook]] = []
        self._signatures = [(Signature.from_compiled(p.id, s), p) for p in self._playbooks for s in p.signatures]
        self._for: dict[str, Playbook] = {p.id: p for p in self._playbooks}

    def feed(self, run: str, attempt: int, trainer: str, source: str, line: LogLine, evidence: Mapping[str, Any]) -> None:
        """Match one line; what matches counts at the next `evaluate`."""
        for signature, playbook in self._signatures:
            if playbook.applies_to(trainer) and signature.matches(source, line):
                meta = {"severity": playbook.severity, "role": playbook.role}
                self._logged.append((finding(signature, meta, run, attempt, evidence), playbook))

    def evaluate(self, facts: Facts, *, complete: bool = False) -> list[Transition]:
        """What changed. `complete`: nothing more will come (finished files), so nothing waits for its hold time and log findings stay."""
        seen: dict[str, tuple[Finding, Playbook]] = {}
        for item, playbook in self._logged:
            seen.setdefault(incident_id(item), (item, playbook))
        self._logged.clear()
        for playbook in self._playbooks:
            for item in self._detect(playbook, facts):
                seen[incident_id(item)] = (item, playbook)
        self._drop_cascades(seen)
        return self._transitions(seen, facts, complete)

    def _detect(self, playbook: Playbook, facts: Facts) -> list[Finding]:
        found: list[Finding] = []
        if playbook.detector is None:
            return found
        detector = DETECTORS[playbook.detector]
        for run in facts.runs:
            if playbook.applies_to(run.spec.trainer):
                found += detector(facts, run, playbook.parameters)
        return found

    @staticmethod
    def _drop_cascades(seen: dict[str, tuple[Finding, Playbook]]) -> None:
        """A finding that another one of the same attempt explains is dropped: the person sees the cause."""
        explained = {(item.run, item.attempt, failure) for item, playbook in seen.values() for failure in playbook.explains}
        for key in [k for k, (item, _) in seen.items() if (item.run, item.attempt, item.failure) in explained]:
            del seen[key]

    def _transitions(self, seen: Mapping[str, tuple[Finding, Playbook]], facts: Facts, complete: bool) -> list[Transition]:
        out: list[Transition] = []
        for key, (item, playbook) in seen.items():
            held = self._held.get(key)
            if held is None:
                held = self._held[key] = _Held(item, facts.now_m, facts.now_m)
            changed = held.finding.summary != item.summary or len(held.finding.evidence) != len(item.evidence)
            held.finding, held.last_m = item, facts.now_m
            if not held.fired and (complete or facts.now_m - held.first_m >= playbook.hold_s):
                held.fired = True
                out.append(Transition("opened", key, item, playbook))
            elif held.fired and changed:
                out.append(Transition("updated", key, item, playbook))
        for key in [k for k in self._held if k not in seen]:
            held = self._held[key]
            playbook = self._for[held.finding.failure]
            if playbook.latched and held.fired and not _overtaken(held.finding, facts):
                continue
            if not held.fired or facts.now_m - held.last_m >= playbook.keep_s:
                del self._held[key]
                if held.fired:
                    out.append(Transition("cleared", key, held.finding, playbook))
        return out

    def forget(self, incident: str) -> None:
        """The incident was resolved by an action: a new sighting is a new hold."""
        self._held.pop(incident, None)

    def adopt(self, incident: str, item: Finding, now_m: float) -> None:
        """An incident that was open before the agent restarted: it stays fired and clears in its own time."""
        if item.failure in self._for:
            self._held[incident] = _Held(item, now_m, now_m, fired=True)


def _overtaken(item: Finding, facts: Facts) -> bool:
    """A later attempt of the same run finishes steps: what a log said about the earlier one is history."""
    return any(run.name == item.run and run.attempt > item.attempt and run.trainer_side.steps > 0 for run in facts.runs)


def transition_fields(transition: Transition, coverage: Sequence[str]) -> dict[str, Any]:
    """The journal fields of one transition (type `incident`)."""
    item, playbook = transition.finding, transition.playbook
    return {
        "event": transition.event,
        "incident": transition.incident,
        "failure": item.failure,
        "title": item.title or playbook.title,
        "run": item.run,
        "attempt": item.attempt,
        "role": item.role,
        "severity": item.severity,
        "summary": item.summary,
        "evidence": [dict(e) for e in item.evidence],
        "coverage": [*coverage, *item.coverage],
        "playbook": item.playbook or (playbook.id if playbook.fix else None),
        "where": playbook.where,
    }
