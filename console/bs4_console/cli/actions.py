"""Submit an action and watch it until it ends, for every command that acts."""

from __future__ import annotations

import functools
import sys
from contextlib import ExitStack
from typing import Any

from bs4_console.cli.output import complain, emit
from bs4_console.errors import FINDING, REFUSED
from bs4_console.launch import run_incidents
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import ActionView, IncidentView


async def watch(live: PodSession, key: str, *, as_json: bool, quiet: bool = False) -> ActionView:
    """Follow the action with the key `key` on the pod until it has ended, and return it. Print each
    step of the action as it happens, and each incident that opens on the action's run in the
    meantime. The output is text, or NDJSON with `as_json`. With `quiet` nothing is printed. Raises
    Unreachable if the pod's journal (the agent's log of actions and incidents) does not show the
    action.
    """
    shown: dict[int, tuple[str, str]] = {}
    said = ""
    last: ActionView | None = None
    with ExitStack() as reporting:
        async for action in live.follow_action(key):
            if last is None and not quiet:
                tell = functools.partial(
                    tell_incident,
                    live.state.name,
                    as_json=as_json,
                    action=key,
                    stoppable=action.kind != "stop",
                )
                reporting.enter_context(run_incidents.reported(live.state, action, tell))
            last = action
            if quiet:
                continue
            if as_json:
                emit(
                    "action",
                    action=key,
                    state=action.state,
                    detail=action.detail,
                    steps=action.steps,
                    result=action.result,
                )
                continue
            for index, step in enumerate(action.steps):
                if shown.get(index) != (step.state, step.detail) and step.state != "waiting":
                    shown[index] = (step.state, step.detail)
                    mark = {"running": "…", "done": "✔", "skipped": "–", "failed": "✘"}[step.state]
                    print(
                        f"  {mark} {index + 1}. {step.title}"
                        + (f": {step.detail}" if step.detail else "")
                    )
            if action.detail and action.detail != said:
                said = action.detail
                print(f"  {action.state}: {action.detail}")
            sys.stdout.flush()
    if last is None:
        raise AssertionError("an action that is followed ends")
    return last


def tell_incident(
    pod: str, incident: IncidentView, *, as_json: bool, action: str = "", stoppable: bool = True
) -> None:
    """Print the incident `incident` on the pod named `pod`: as a JSON object on standard output
    with `as_json`, else as sentences on standard error. `action` is the key of the action that the
    command is watching, or "". `stoppable` is False if that action is itself a stop of the run;
    then the sentences do not suggest to stop the run.
    """
    if as_json:
        emit(
            "incident",
            pod=pod,
            run=incident.run,
            id=incident.id,
            failure=incident.failure,
            title=incident.title,
            severity=incident.severity,
            summary=incident.summary,
            playbook=incident.playbook,
            action=action,
        )
        return
    for sentence in run_incidents.sentences(incident, pod, stoppable=stoppable):
        complain(sentence)


def exit_code(action: ActionView) -> int:
    """Return a command's exit code for `action`, which has ended: 0 if it was done; 4 if the pod
    refused it, was busy with another action of the run, or found that the plan does not fit any
    more; and 1 if it was tried and failed.
    """
    if action.state == "done":
        return 0
    if action.state in ("plan-changed", "busy", "refused"):
        return REFUSED
    return FINDING


async def act(live: PodSession, kind: str, *, as_json: bool, **body: Any) -> ActionView:
    """Submit an action to the pod, watch it until it has ended, and return it, whether it succeeded
    or not. `kind` is the kind of the action, such as "stop" or "playbook". `body` has the fields
    that an action of that kind takes, such as `run`. The progress is printed as text, or as NDJSON
    with `as_json`. Raises RefusedError if the pod is read-only for this console, and Unreachable if
    there is no link.
    """
    return await watch(live, await live.submit(kind, **body), as_json=as_json)
