"""The plan of an action, as a pod's agent has made it for a person to confirm. pods/gate/records.py
has checked what is read here. Each kind of plan has its own of these fields, and an older agent has
fewer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from bs4_common.foreign_json import finite
from bs4_common.ledger import PlanView

#: Of what a pod has kept for a launch: the most entries, and the longest text in characters.
_ENTRIES, _LONGEST = 40, 120


class ShownProcess(TypedDict, total=False):
    """A process that a step of a plan ends."""

    pid: int
    start_ticks: int | None
    """Clock ticks since the boot."""
    component: str | None
    """The process's part in the run, for example "trainer"."""
    command: str


class ShownFile(TypedDict, total=False):
    """A file or a directory that a step of a plan moves."""

    path: str
    bytes: int | None


class Shown(TypedDict, total=False):
    """What a step of a plan touches."""

    processes: Sequence[ShownProcess | str]
    directories: Sequence[ShownFile | str]
    entries: Sequence[ShownFile | str]
    left_alone: Sequence[str]
    """What it does not touch, because it is not provably of the run."""
    cwd: str


class StepParameters(TypedDict, total=False):
    """What a step is done with. Only what the console reads has a name here."""

    resume: int | None
    """The training step from which a relaunch starts, or None for a start afresh."""


class PlanStep(TypedDict, total=False):
    """One step of a plan."""

    kind: str
    title: str
    command: str
    """Shell commands, with "; " between them."""
    shown: Shown | None
    targets: Sequence[ShownProcess | str] | None
    """What it acts on. Besides processes there may be other things, without a pid."""
    parameters: StepParameters | None


class Plan(TypedDict, total=False):
    """The body of a plan."""

    title: str
    run: str
    attempt: int
    danger: str
    """The most dangerous thing that it does."""
    typed_name: bool
    """True if a person has to type the run's name."""
    steps: Sequence[PlanStep]
    resume: int | None
    """The training step from which the run goes on."""
    verify: Mapping[str, Mapping[str, float]]
    """By kind of verification: its parameters, such as `within` in seconds."""


def plan_of(view: PlanView) -> Plan:
    """Return the body of a plan."""
    body: Any = view.plan
    plan: Plan = body
    return plan


@dataclass(frozen=True, kw_only=True)
class Launched:
    """What the plan of a launch says about what was started. What it does not say, as that of an
    older agent, is "", {} or None.
    """

    config: str = ""
    """The path of the config, from `cwd` on."""
    cwd: str = ""
    digest: str = ""
    """The digest of the config's values."""
    version: str = ""
    """The config's version in the registry beside it."""
    based_on: str = ""
    model: str = ""
    phase: str = ""
    price: float | None = None
    """US dollars an hour."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """By name of a package."""
    hardware: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""
    """The commit that was checked out where the trainer is."""


def launched(plan: object) -> Launched:
    """Return what the plan of a launch says about what was started. `plan` is its body, also as the
    body of the launch repeats it. What the plan does not say, or says in another form, is "", {} or
    None.
    """
    config, spec, record = (_member(plan, name) for name in ("config", "spec", "record"))
    return Launched(
        config=_text(spec, "config"),
        cwd=_text(spec, "cwd"),
        digest=_text(config, "values"),
        version=_text(config, "version"),
        based_on=_text(config, "based_on"),
        model=_text(config, "model"),
        phase=_text(record, "phase"),
        price=finite(_member(record, "price")),
        versions=_texts(_member(record, "versions")),
        hardware=_texts(_member(record, "hardware")),
        commit=_text(record, "commit")[:_LONGEST],
    )


def _member(value: object, name: str) -> object:
    """Return what stands under a name in a JSON value, or None."""
    return value.get(name) if isinstance(value, dict) else None


def _text(value: object, name: str) -> str:
    """Return the text that stands under a name in a JSON value, or ""."""
    found = _member(value, name)
    return found if isinstance(found, str) else ""


def _texts(value: object) -> dict[str, str]:
    """Return the first entries of a JSON object whose values are texts, cut."""
    found = {}
    for name, text in list(value.items())[:_ENTRIES] if isinstance(value, dict) else ():
        if isinstance(text, str):
            found[name[:_LONGEST]] = text[:_LONGEST]
    return found
