"""Restores a run's checkpoint from an object store to a pod: the request, the pod's plan, and its
confirmation.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from bs4_common.failures.detectors.reporting import size
from bs4_console.errors import FINDING, ConsoleError, RefusedError
from bs4_console.launch.guide import LaunchRequest as Launch
from bs4_console.pods import carried_orders
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import ActionView, PlanView, PodState
from bs4_console.typed_json import record

#: The kind of the action, used in the place of a playbook's id.
NAME = "restore"


class NothingToRestore(ConsoleError):
    """Raised if the object store has answered and has no complete checkpoint of the run, so that
    nothing was restored or started.
    """

    exit_code = FINDING


#: A request of a restore as it is sent to the agent.
RestoreBody = TypedDict(
    "RestoreBody",
    {
        "run": str,
        "from": str,
        "step": int | None,
        "trainer": str,
        "cwd": str,
        "output_dir": str,
        "config": str,
    },
)


class RestoredLaunch(TypedDict, total=False):
    """The launch that continues a restored run. `component` is the program that is started, "rl"
    for a whole training, and `processes` the number of its ranks. `overrides` are further words of
    its command line, and `env` further variables of its environment. The paths are on the pod.
    """

    run: str
    trainer: str
    config: str
    cwd: str
    output_dir: str
    resume: int
    """The restored training step."""
    component: str
    processes: int
    overrides: Sequence[str]
    env: Mapping[str, str]
    recorded: bool
    """True if the object store had a record of how the run was started."""


class Restored(TypedDict, total=False):
    """The result of a restore (a checkpoint was brought from the object store to a pod), or the
    plan of one. `launch` is the launch with which the run would go on. Only this field, which the
    console reads, is named here.
    """

    launch: RestoredLaunch


@dataclass(frozen=True, kw_only=True)
class RestoreRequest:
    """A request to bring a checkpoint from an object store to a pod. `source` is the address of the
    run's checkpoints, like b2://BUCKET/PREFIX. `step` is the checkpoint's training step, or None
    for the newest complete one there. If `trainer` or `config` is "", the value that is recorded in
    the object store is used. `cwd`, `output_dir` and `config` are paths on the pod.
    """

    run: str
    source: str
    step: int | None = None
    trainer: str = ""
    cwd: str = "prime-rl"
    output_dir: str = "outputs"
    config: str = ""

    def body(self) -> RestoreBody:
        """Return the request as a dictionary of JSON values, in the form in which it is sent to the
        agent.
        """
        return {
            "run": self.run,
            "from": self.source,
            "step": self.step,
            "trainer": self.trainer,
            "cwd": self.cwd,
            "output_dir": self.output_dir,
            "config": self.config,
        }


@dataclass(frozen=True)
class Before:
    """Where a run was before a checkpoint of it is restored on another pod. `run` is the run's
    name, and `state` the state of the pod on which it was, as this machine has saved it.
    """

    state: PodState
    run: str

    def orders(self) -> list[str]:
        """Return the standing orders that the run had on its former pod (what a person wants done
        for it until further notice) in words, a line each. The run gets them again when it is
        resumed on the new pod.
        """
        return carried_orders.described(self.state, self.run)

    async def renew(self, live: PodSession) -> dict[str, str]:
        """Give the run, now on the pod of `live`, the standing orders (what a person wants done for
        it until further notice) that it had on its former pod. Return {kind of an order: the pod's
        reason} for those that the pod refused; it is empty if none was. Raises RefusedError if the
        pod is read-only for this console, and Unreachable if there is no link.
        """
        orders = carried_orders.orders_of(self.state, self.run)
        return await carried_orders.renew(live, self.run, orders)


def before(pods: Iterable[PodState], asked: RestoreRequest, pod: str) -> Before | None:
    """Return where the run was before `asked` restores it on the pod named `pod`, or None if that
    is not known. `pods` are the states of all pods that this machine has saved. Only a pod that has
    copied the run's checkpoints to the place from which they are now restored counts, because a run
    of the same name elsewhere may be another one. Of several such pods, the one on which the run
    began last is meant.
    """
    others = (state for state in pods if state.name != pod or state.former)
    state = carried_orders.newest_pod(others, asked.run, asked.source)
    return None if state is None else Before(state, asked.run)


async def plan(live: PodSession, asked: RestoreRequest) -> PlanView:
    """Ask the pod to make a plan of the restore `asked`, for which the agent reads the object
    store, and return the plan. Raises NothingToRestore if the object store has no complete
    checkpoint, and RefusedError with the agent's reason if no plan can be made for another reason.
    Raises Unreachable if there is no link.
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
    """Start the restore whose plan `view` a person has confirmed. Return the key of the action on
    the pod, by which it can be followed. Raises RefusedError if the pod is read-only for this
    console, and Unreachable if there is no link.
    """
    return await live.submit(NAME, run=view.run, plan_hash=view.plan_hash)


def under_way(live: PodSession, run: str) -> ActionView | None:
    """Return the action on the pod that restores `run` and has not ended yet, or None if there is
    none. The caller then follows that action instead of starting a second restore.
    """
    return next((a for a in live.state.ledger.unfinished(NAME) if a.run == run), None)


def launch_of(result: object) -> Launch:
    """Return the launch that continues a restored run at exactly the restored training step, with
    the arguments with which the run was started before. `result` is the result of the restore
    action, or the plan of one.
    """
    body = record(result, Restored)["launch"]
    return Launch(
        run=body["run"],
        trainer=body["trainer"],
        config=body["config"],
        cwd=body["cwd"],
        output_dir=body["output_dir"],
        resume=body["resume"],
        component=body.get("component") or "rl",
        processes=body.get("processes") or 1,
        overrides=tuple(body.get("overrides") or ()),
        env=dict(body.get("env") or {}),
    )


def recorded(result: object) -> bool:
    """Return True if the object store had a record of how the run was started. Return False if it
    had none, as for checkpoints that older agents have copied there. `result` is the result of the
    restore action.
    """
    return record(result, Restored)["launch"].get("recorded", False)


def command_of(asked: Launch, pod: str) -> str:
    """Return the `bs4-console launch` command line that a person can type to start the launch
    `asked` on the pod named `pod`.
    """
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
    """Return lines of text for a person about a restore plan, to be shown beside the plan's steps:
    newer checkpoints that were skipped and why, how much is to be fetched and how much space is
    free, how the run was started before (a launch will repeat that), and notes.
    """
    body = view.plan
    lines = []
    for step, why in body["skipped"]:
        lines.append(f"passed over: {f'step {step}: ' if step >= 0 else ''}{why}")
    lines.append(
        f"to fetch: {size(body['missing'])} of {size(body['bytes'])}; "
        f"{size(body['free'])} are free there"
    )
    start = launch_of(body)
    if start.overrides:
        lines.append(f"started with: {shlex.join(start.overrides)}")
    if start.env:
        settings = (f"{name}={value}" for name, value in start.env.items())
        lines.append(f"environment: {shlex.join(settings)}")
    return lines + [f"note: {text}" for text in body["notes"]]
