"""Define the terms of a preflight: the wanted start, one check, and the helpers for checks."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

from bs4_common.preflight import StartBody, Unknown
from bs4_common.telemetry import DiskUsage
from bs4_console.assets import find
from bs4_console.trainers import registry

State = Literal["ok", "warning", "blocking", "unknown"]

GIB = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The start of a run that a preflight judges before it happens. If `trainer` or `config` is
    empty, no start is judged, only the pod.

    `config` is a path on the pod. A relative `cwd` is below the home directory; relative
    `output_dir` and `config` are below `cwd`. `resume` is a training step, "auto" (the newest step
    whose checkpoint is complete), or None for a start from scratch. With `fresh`, the start would
    move aside what is in the output directory. `component` is the program to start, such as "rl"
    for the whole training. `overrides` are further options of the launch command. `urls` replaces
    the addresses of services (keys `hub`, `wandb`, `b2`).
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
    """The container on the pod in which the start would happen, or "" for none."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Further environment variables of the start."""
    urls: Mapping[str, str] = field(default_factory=dict)
    pod: str = "POD"
    """The pod's name, for the commands that a check tells a person to type."""

    @property
    def complete(self) -> bool:
        """Return True if trainer and config are given, so that a start is judged and not only the
        pod.
        """
        return bool(self.trainer and self.config)

    @property
    def of(self) -> registry.Trainer:
        """Return the console's description of the trainer, or that of the current prime-rl if no
        trainer is given.
        """
        return registry.of(self.trainer)

    @property
    def for_machine(self) -> bool:
        """Return True if only a machine is judged and no start, that is if no config is given and
        the trainer is one that comes in an image (verl), so that `pods setup` does not install it.
        """
        return not self.of.installed and not self.complete

    def stop(self, run: object) -> str:
        """Return the console's command that stops the run `run` on this pod, in backticks."""
        return f"`bs4-console stop --pod {self.pod} --run {run}`"

    def setup(self, more: str = "") -> str:
        """Return the console's command that sets up this pod for the trainer, with backticks around
        it. `more` has further arguments, which are added to the end of the command.
        """
        return (
            f"`bs4-console pods setup {self.pod} --trainer "
            f"{self.trainer or 'ID'}{' ' + more if more else ''}`"
        )

    @property
    def loads_environments(self) -> bool:
        """Return True if the program to start (`component`) imports environments of the library
        verifiers.
        """
        return self.of.loads_environments and self.component in ("rl", "orchestrator", "eval")

    @property
    def needs_ports(self) -> bool:
        """Return True if the program to start listens on the inference server's ports or connects
        to them. False for verl, where Ray chooses the ports.
        """
        return self.of.needs_ports and self.component in (
            "rl",
            "inference",
            "orchestrator",
            "eval",
        )

    @property
    def saves(self) -> bool:
        """Return True if the program to start saves checkpoints."""
        return self.component in ("rl", "trainer", "sft")

    @property
    def uses_gpus(self) -> bool:
        """Return True if the program to start uses GPUs."""
        return self.component not in ("orchestrator", "eval")

    def body(self) -> StartBody:
        """Return the parameters of the query by which the agent is asked about this start, or about
        the pod alone.
        """
        if not self.complete:
            asked: StartBody = {"cwd": self.cwd, "urls": dict(self.urls)}
            if self.for_machine:
                asked["trainer"] = self.trainer
            if self.container:
                asked["container"] = self.container
            return asked
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
    """The result of one check of a preflight. `state` is "ok", "warning", "blocking" (the start
    would fail or lose work) or "unknown".

    `id` is the id of the failure (docs/failures.md) or of the rule (docs/configs.md) that the check
    looks for, or a name that only this check has. `title` says in words what is checked, and `why`
    gives the reason for the state in one or two sentences, with the numbers. `fix` says what to do,
    with the exact command; "" if nothing is to be done. `playbook` is the id of the failure's
    playbook; "" if there is none or the state is "ok" or "unknown".
    """

    id: str
    title: str
    state: State
    why: str
    fix: str = ""
    playbook: str = ""

    @property
    def is_bad(self) -> bool:
        """Return True if the check's state is "warning" or "blocking"."""
        return self.state in ("warning", "blocking")

    def as_dict(self) -> dict[str, str]:
        """Return the check as a JSON object with all its fields."""
        return asdict(self)


Subject = tuple[str, str]
"""(id, title) of a check."""


def said(subject: Subject, state: State, why: str, fix: str = "") -> Check:
    """Return the result of a check as a Check. `subject` is the check's (id, title), `why` the
    reason for its state, and `fix` what to do. If the state is "warning" or "blocking" and a
    shipped playbook has the same id, the result names that playbook. If the state is "ok", `fix` is
    ignored.
    """
    identifier, title = subject
    check = Check(identifier, title, state, why, fix if state != "ok" else "")
    if check.is_bad and identifier in playbooks():
        return replace(check, playbook=identifier)
    return check


def unseen(subjects: Sequence[Subject], part: Unknown | None) -> list[Check] | None:
    """Return the checks for a part of the agent's answer that is missing, or None if the part is
    there. It is missing if `part` is None or has the key `unknown`. `subjects` has (id, title) of
    each check that needs this part. Each of them is returned with the state "unknown"; its reason
    is the text of that key, or that the agent gave no answer.
    """
    if part is not None and "unknown" not in part:
        return None
    why = "The agent gave no answer." if part is None else part["unknown"]
    return [said(subject, "unknown", why) for subject in subjects]


def within(checks: Sequence[Check], container: object) -> list[Check]:
    """Return `checks` in a new list. If `container` is the name of a container, the reason of each
    check begins with "In container NAME: ", because the agent has looked inside that container. If
    it is anything else, as when the agent's answer names no container, the checks are unchanged.
    """
    if not isinstance(container, str) or not container:
        return list(checks)
    found = []
    for check in checks:
        found.append(replace(check, why=f"In container {container}: {check.why}"))
    return found


@functools.cache
def playbooks() -> frozenset[str]:
    """Return the ids of all shipped playbooks. They are the ids of the failures, too. Raises
    ConsoleError if a file of this console's own installation is missing.
    """
    return frozenset(path.stem for path in find("playbooks").glob("*/*.yaml"))


def space(usage: DiskUsage | None) -> tuple[int | None, int | None]:
    """Return (free, total) in bytes from `usage`, with which an agent describes a disk or shared
    memory. None in place of a number means that it does not tell it.
    """
    if usage is None:
        return None, None
    return usage.get("free"), usage.get("total")


def gib(size: float) -> str:
    """Return a size in bytes as text in GiB, with one decimal."""
    return f"{size / GIB:.1f} GiB"
