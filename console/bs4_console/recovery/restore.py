"""Bringing a run's checkpoint back from an object store to a pod: what is asked for, the pod's
plan, and its confirmation.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bs4_console.errors import FINDING, ConsoleError, RefusedError
from bs4_console.launch.guide import Asked as Launch
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import ActionView, PlanView

#: What stands where a playbook's id does.
NAME = "restore"


class NothingToRestore(ConsoleError):
    """The store was asked, and holds no step that is whole. Nothing is started instead."""

    exit_code = FINDING


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One restore. `source`: b2://BUCKET/PREFIX. `step` None: the newest one that is whole there.
    `trainer`, `config` "": as the store says; relative paths count on the pod, as in a launch.
    """

    run: str
    source: str
    step: int | None = None
    trainer: str = ""
    cwd: str = "prime-rl"
    output_dir: str = "outputs"
    config: str = ""

    def body(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "from": self.source,
            "step": self.step,
            "trainer": self.trainer,
            "cwd": self.cwd,
            "output_dir": self.output_dir,
            "config": self.config,
        }


async def plan(live: PodSession, asked: Asked) -> PlanView:
    """The pod's plan: it looks at the store. NothingToRestore when the store holds no step that is
    whole, RefusedError with the reason when the pod makes none for another one.
    """
    key = await live.submit("plan", restore=asked.body())
    async for action in live.follow_action(key):
        if action.state == "failed":
            error = str(action.result.get("error", ""))
            raise (NothingToRestore if error == "not-applicable" else RefusedError)(action.detail)
    return next(
        view for view in reversed(list(live.state.ledger.plans.values())) if view.action == key
    )


async def begin(live: PodSession, view: PlanView) -> str:
    """Confirm a plan; the action's key."""
    return await live.submit(NAME, run=view.run, plan_hash=view.plan_hash)


def under_way(live: PodSession, run: str) -> ActionView | None:
    """A restore of the run that has not ended: it is watched, and not begun a second time."""
    for a in live.state.ledger.actions.values():
        if a.kind == NAME and a.run == run and not a.ended:
            return a
    return None


def launch_of(result: Mapping[str, Any]) -> Launch:
    """The launch that continues what was restored, at exactly that step and as the run was started;
    `result` of the ended action.
    """
    body = result["launch"]
    return Launch(
        run=body["run"],
        trainer=body["trainer"],
        config=body["config"],
        cwd=body["cwd"],
        output_dir=body["output_dir"],
        resume=int(body["resume"]),
        component=str(body.get("component") or "rl"),
        processes=int(body.get("processes") or 1),
        overrides=tuple(body.get("overrides") or ()),
        env=dict(body.get("env") or {}),
    )


def recorded(result: Mapping[str, Any]) -> bool:
    """Whether the store knew how the run was started. An agent of before this was kept there does
    not say.
    """
    return bool(result["launch"].get("recorded"))


def command_of(asked: Launch, pod: str) -> str:
    """What a person types to launch it."""
    words = [
        "bs4-console",
        "launch",
        asked.config,
        "--pod",
        pod,
        "--run",
        asked.run,
        "--trainer",
        asked.trainer,
        "--cwd",
        asked.cwd,
        "--output-dir",
        asked.output_dir,
        "--resume",
        str(asked.resume),
    ]
    if asked.component != "rl":
        words += ["--component", asked.component]
    else:
        words += []
    if asked.processes != 1:
        words += ["--processes", str(asked.processes)]
    else:
        words += []
    for name, value in asked.env.items():
        words += ["--env", f"{name}={value}"]
    return shlex.join([*words, *(["--", *asked.overrides] if asked.overrides else [])])


def words(view: PlanView) -> list[str]:
    """What a person reads beside the steps: which newer steps were passed over and why, what has to
    come, how the run was started (a launch from it will be as that), what to mind.
    """
    body = view.plan
    lines = []
    for step, why in body["skipped"]:
        lines.append(f"passed over: {f'step {step}: ' if step >= 0 else ''}{why}")
    lines.append(
        f"to fetch: {body['missing'] / 1e9:.2f} GB of {body['bytes'] / 1e9:.2f} GB; "
        f"{body['free'] / 1e9:.1f} GB are free there"
    )
    start = launch_of(body)
    if start.overrides:
        lines += [f"started with: {shlex.join(start.overrides)}"]
    else:
        lines += []
    if start.env:
        lines += [
            f"environment: {shlex.join(f'{name}={value}' for name, value in start.env.items())}"
        ]
    else:
        lines += []
    return lines + [f"note: {text}" for text in body["notes"]]
