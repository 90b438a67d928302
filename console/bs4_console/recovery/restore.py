"""Restores a run's checkpoint from an object store to a pod: the request, the pod's plan, and its
confirmation.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bs4_console.errors import FINDING, ConsoleError, RefusedError
from bs4_console.launch.guide import LaunchRequest as Launch
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import ActionView, PlanView

#: The kind of the action, used in the place of a playbook's id.
NAME = "restore"


class NothingToRestore(ConsoleError):
    """Raised if the store answered and holds no step that is complete. Nothing else is started
    instead.
    """

    exit_code = FINDING


@dataclass(frozen=True, kw_only=True)
class RestoreRequest:
    """The request for one restore. `source` is an address like b2://BUCKET/PREFIX. `step` None
    means the newest step that is complete there. An empty `trainer` or `config` means what the
    store has recorded. Relative paths are those of the pod, as in a launch.
    """

    run: str
    source: str
    step: int | None = None
    trainer: str = ""
    cwd: str = "prime-rl"
    output_dir: str = "outputs"
    config: str = ""

    def body(self) -> dict[str, Any]:
        """Return the request as it is sent to the agent."""
        return {
            "run": self.run,
            "from": self.source,
            "step": self.step,
            "trainer": self.trainer,
            "cwd": self.cwd,
            "output_dir": self.output_dir,
            "config": self.config,
        }


async def plan(live: PodSession, asked: RestoreRequest) -> PlanView:
    """Request a plan from the pod, which reads the store, and return it. Raises NothingToRestore if
    the store holds no complete step, and RefusedError with the pod's reason if it makes no plan for
    another reason.
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
    """Confirm a plan, which starts the restore. Return the key of the action."""
    return await live.submit(NAME, run=view.run, plan_hash=view.plan_hash)


def under_way(live: PodSession, run: str) -> ActionView | None:
    """Return a restore of the run that has not ended, or None. It is followed and not begun a
    second time.
    """
    return next((a for a in live.state.ledger.unfinished(NAME) if a.run == run), None)


def launch_of(result: Mapping[str, Any]) -> Launch:
    """Return the launch that continues the restored run, at exactly the restored step and as the
    run was started. `result` is the result of the restore action.
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
    """Return True if the store had recorded how the run was started. Older agents have not recorded
    that, and their results do not say so.
    """
    return bool(result["launch"].get("recorded"))


def command_of(asked: Launch, pod: str) -> str:
    """Return the command line that a person types to launch it on `pod`."""
    plan_text = [
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
        plan_text += ["--component", asked.component]
    if asked.processes != 1:
        plan_text += ["--processes", str(asked.processes)]
    for name, value in asked.env.items():
        plan_text += ["--env", f"{name}={value}"]
    if asked.overrides:
        plan_text += ["--", *asked.overrides]
    return shlex.join(plan_text)


def plan_text(view: PlanView) -> list[str]:
    """Return the lines that a person reads beside the plan's steps: which newer steps were skipped
    and why, what is still to be fetched, how the run was started (a launch from it will be the
    same), and notes.
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
        lines.append(f"started with: {shlex.join(start.overrides)}")
    if start.env:
        settings = (f"{name}={value}" for name, value in start.env.items())
        lines.append(f"environment: {shlex.join(settings)}")
    return lines + [f"note: {text}" for text in body["notes"]]
