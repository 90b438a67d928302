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
    """A process that a step of a plan would end. `command` is its command line."""

    pid: int
    start_ticks: int | None
    """When it was started, in clock ticks since the machine booted."""
    component: str | None
    """The process's part in the run, for example "trainer"."""
    command: str


class ShownFile(TypedDict, total=False):
    """A file or a directory that a step of a plan would move. `bytes` is its size, or None if
    unknown.
    """

    path: str
    bytes: int | None


class Shown(TypedDict, total=False):
    """What one step of a plan would touch: `processes` that it ends, and `directories` and single
    files or directories (`entries`) that it moves to the run's trash. `cwd` is the directory in
    which its command runs.
    """

    processes: Sequence[ShownProcess | str]
    directories: Sequence[ShownFile | str]
    entries: Sequence[ShownFile | str]
    left_alone: Sequence[str]
    """What it does not touch, because it does not certainly belong to the run."""
    cwd: str


class StepParameters(TypedDict, total=False):
    """The parameters of one step of a plan. Only the one that the console reads is named here."""

    resume: int | None
    """The training step from which a relaunch starts, or None for a start afresh."""


class PlanStep(TypedDict, total=False):
    """One step of a plan, which the agent carries out once a person has confirmed the plan. `kind`
    says what kind of step it is, and `title` in words what it does. `shown` lists what it would
    touch, and `parameters` how it is done.
    """

    kind: str
    title: str
    command: str
    """Shell commands that would do the same as the step, with "; " between them."""
    shown: Shown | None
    targets: Sequence[ShownProcess | str] | None
    """The processes and other things that the step acts on, the latter as texts."""
    parameters: StepParameters | None


class Plan(TypedDict, total=False):
    """What a pod's agent would do to carry out an action, such as a repair or a launch, for a
    person to confirm. `title` says what is done, `run` and `attempt` (the number of a life of the
    run's processes) to what, and `steps` how.
    """

    title: str
    run: str
    attempt: int
    danger: str
    """The most harmful thing that the steps do: none, restart, move, kill or command."""
    typed_name: bool
    """True if a person has to type the run's name to confirm it."""
    steps: Sequence[PlanStep]
    resume: int | None
    """The training step from which the run goes on, or None if it starts from nothing or not at
    all.
    """
    verify: Mapping[str, Mapping[str, float]]
    """How it is proved afterwards that the action has worked: {kind of proof: its parameters}, such
    as `within` in seconds.
    """


def plan_of(view: PlanView) -> Plan:
    """Return the plan that `view` has, as a typed dictionary: what the agent would do, for a person
    to confirm. Nothing is checked here, because pods/gate/records.py has done that.
    """
    body: Any = view.plan
    plan: Plan = body
    return plan


@dataclass(frozen=True, kw_only=True)
class Launched:
    """What a launch has started, as far as its plan tells it. `model` is the model that is trained,
    `phase` the phase of a phased run, and `hardware` has facts about the machine by name. A value
    that the plan does not tell, as that of an older agent, is "", {} or None.
    """

    config: str = ""
    """The path of the config file, relative to `cwd`."""
    cwd: str = ""
    """The directory on the pod in which the program was started."""
    digest: str = ""
    """A hash of the values in the config."""
    version: str = ""
    """The config's version, such as "v3", as the registry.json beside the config states it."""
    based_on: str = ""
    """The config version from which that one was made."""
    model: str = ""
    phase: str = ""
    price: float | None = None
    """The price of the pod in US dollars an hour."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """{name of an installed package: its version}."""
    hardware: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""
    """The commit that was checked out in the trainer's directory."""


def launched(plan: object) -> Launched:
    """Return what a launch has started, as far as its plan tells it. `plan` is the plan as a JSON
    object, as the agent has made it or as the record of the launch repeats it. A value that is
    missing there or has another type becomes "", {} or None.
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
