"""The words of a preflight: what is wanted, one check, and how the judges say what they found."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from bs4_console.assets import find

State = Literal["ok", "warning", "blocking", "unknown"]

GIB = 1 << 30
#: No size, time or count of a pod comes near; infinities and NaN are no numbers here.
_LARGEST = 1e18
#: The trainer without config classes, environments of verifiers and an inference server of its own
#: port.
VERL = "verl"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The start that is to be judged: the fields of a launch action. With an empty `trainer` or
    `config` only the pod itself is looked at.

    `config`: a path on the pod, `cwd` from the home directory, `output_dir` and `config` from
    `cwd`. `resume`: a step, "auto" (the newest that is complete everywhere) or None for a start
    afresh; `fresh`: with what lies there moved aside. `urls`: base URLs in place of the services'
    own (`hub`, `wandb`, `b2`).
    """

    trainer: str = ""
    config: str = ""
    run: str = ""
    cwd: str = "prime-rl"
    output_dir: str = "outputs"
    resume: int | str | None = "auto"
    fresh: bool = False
    overrides: tuple[str, ...] = ()
    component: str = "rl"
    container: str = ""
    """As of a launch: which container of the pod it starts in, and what its environment gets
    besides.
    """
    env: Mapping[str, str] = field(default_factory=dict)
    urls: Mapping[str, str] = field(default_factory=dict)
    pod: str = "POD"
    """How the commands that mend something call the pod; a session says it itself."""

    @property
    def complete(self) -> bool:
        """Whether a start is meant, and not the pod alone."""
        return bool(self.trainer and self.config)

    @property
    def for_verl(self) -> bool:
        """Whether a machine is looked at for verl, before a config is chosen."""
        return self.trainer == VERL and not self.complete

    def stop(self, run: object) -> str:
        return f"`bs4-console stop --pod {self.pod} --run {run}`"

    def setup(self, more: str = "") -> str:
        return (
            f"`bs4-console pods setup {self.pod} --trainer "
            f"{self.trainer or 'ID'}{' ' + more if more else ''}`"
        )

    @property
    def loads_environments(self) -> bool:
        return self.trainer != VERL and self.component in ("rl", "orchestrator", "eval")

    @property
    def has_classes(self) -> bool:
        """Whether the trainer has classes that can be asked about a config."""
        return self.trainer != VERL

    @property
    def needs_ports(self) -> bool:
        """Whether it listens on the inference server's ports, or speaks to who does. Ray chooses
        its own.
        """
        return self.trainer != VERL and self.component in (
            "rl",
            "inference",
            "orchestrator",
            "eval",
        )

    @property
    def saves(self) -> bool:
        return self.component in ("rl", "trainer", "sft")

    @property
    def uses_gpus(self) -> bool:
        return self.component not in ("orchestrator", "eval")

    def body(self) -> dict[str, Any]:
        """What the agent is asked with."""
        if not self.complete:
            more = {"trainer": self.trainer if self.for_verl else "", "container": self.container}
            return {
                "cwd": self.cwd,
                "urls": dict(self.urls),
                **{name: value for name, value in more.items() if value},
            }
        return {
            "run": self.run or "preflight",
            "trainer": self.trainer,
            "config": self.config,
            "cwd": self.cwd,
            "output_dir": self.output_dir,
            "resume": self.resume,
            "fresh": self.fresh,
            "overrides": list(self.overrides),
            "component": self.component,
            "container": self.container,
            "env": dict(self.env),
            "urls": dict(self.urls),
        }


@dataclass(frozen=True)
class Check:
    """`id`: the failure (docs/failures.md) or the rule (docs/configs.md) that it prevents, else a
    name of its own. `why`: one or two sentences with the numbers. `fix`: what to do, with the exact
    command; "" where nothing is to be done. `playbook`: the failure's own playbook, whose page says
    the rest; "" where there is none or all is well.
    """

    id: str
    title: str
    state: State
    why: str
    fix: str = ""
    playbook: str = ""

    def as_dict(self) -> dict[str, str]:
        return {
            "id": self.id,
            "title": self.title,
            "state": self.state,
            "why": self.why,
            "fix": self.fix,
            "playbook": self.playbook,
        }


Subject = tuple[str, str]
"""(id, title) of a check before it is known how it stands."""


def said(subject: Subject, state: State, why: str, fix: str = "") -> Check:
    """A check; what is not well names its playbook, where there is one."""
    identifier, title = subject
    playbook = ""
    if state in ("warning", "blocking") and identifier in playbooks():
        playbook = identifier
    return Check(identifier, title, state, why, fix if state != "ok" else "", playbook)


def unseen(subjects: Sequence[Subject], part: Mapping[str, Any] | None) -> list[Check] | None:
    """The same checks as unknown, when the part of the look that they need is not there; None when
    it is.
    """
    if part is not None and "unknown" not in part:
        return None
    why = "The agent gave no answer."
    if part is not None:
        why = str(part["unknown"])
    found = []
    for subject in subjects:
        found.append(said(subject, "unknown", why))
    return found


def within(checks: Sequence[Check], part: Mapping[str, Any] | None) -> list[Check]:
    """`checks`, each saying which container was asked, where that part of the look comes out of
    one.
    """
    name = (part or {}).get("container")
    if isinstance(name, str) and name:
        found = []
        for check in checks:
            found.append(replace(check, why=f"In container {name}: {check.why}"))
        return found
    return list(checks)


@functools.cache
def playbooks() -> frozenset[str]:
    return frozenset(path.stem for path in find("playbooks").glob("*/*.yaml"))


def rows(value: Any) -> list[Mapping[str, Any]]:
    """A list of objects out of an agent's answer; anything else in it is left out."""
    if isinstance(value, list):
        found = []
        for row in value:
            if isinstance(row, Mapping):
                found.append(row)
        return found
    return []


def number(value: Any) -> float | None:
    """A finite number, or None for anything else that an agent may have sent."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST
    if known:
        return float(value)
    return None


def gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB"
