"""Launching runs, and adopting runs that somebody started by hand."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bs4_agent.actions.executor import ActionExecutor
from bs4_agent.launch import plan as launch_plan
from bs4_agent.launch import validation
from bs4_agent.pod import Pod
from bs4_common.errors import BadRequest, Refused
from bs4_common.ledger import ActionView


class Attempts:
    """Accepts two kinds of actions and carries them out: launches, which start an attempt of a run,
    and adoptions, by which the agent begins to watch a run that somebody started by hand. There is
    one such object for a pod.
    """

    def __init__(self, executor: ActionExecutor, pod: Pod) -> None:
        self._executor, self._pod = executor, pod

    def plan_launch(self, key: str, body: Mapping[str, Any], who: str) -> None:
        """Write into the journal that the person `who` has asked for a plan of a launch, as the
        action `key`. Then make the plan on a thread of its own, and write it into the journal.
        `body["launch"]` is the request, whose fields `launch.plan.make` describes.
        `body["record"]`, if given, is a table that the console adds, which is stored in the plan
        unchanged. Raises BadRequest if the request is malformed. If the launch is not possible for
        another reason, nothing is raised, and the journal says why there is no plan.
        """
        asked, record = body["launch"], body.get("record") or {}
        if not isinstance(asked, Mapping) or not isinstance(record, Mapping):
            raise BadRequest("`launch` and `record` of a plan are tables; send them so.")
        run = validation.spec_of({**asked, "resume": None}).run
        self._executor.accept(key, body, who, run, playbook=launch_plan.NAME)

        def make() -> launch_plan.LaunchPlan:
            return self._pod.plan_launch(asked, record, self._tries(run))

        self._executor.start(
            "", key, lambda: self._executor.journal_plan(key, launch_plan.NAME, run, make)
        )

    def _tries(self, run: str) -> int:
        """Return how many launches of the run have ended. The number is part of the plan's hash,
        which makes the action's key: a new try is a new action.
        """
        return sum(action.ended for action in self._executor.ledger.actions_of("launch", run))

    def launch(self, key: str, body: Mapping[str, Any], who: str, payload: bytes) -> None:
        """Accept the launch `key` that the person `who` has submitted, and start it on a thread of
        its own. If `body` has a `plan_hash`, the plan with this hash is carried out. Otherwise
        `body` describes the launch itself, with the keys that `launch.validation.spec_of` reads;
        the run is then started exactly so, and no files are moved out of its way. `payload` is not
        used.

        Raises Busy if another action works on the run, and BadRequest if `body` is malformed.
        Raises Refused if there is no plan with that hash, if the start is known to hang or to lose
        work, or if the plan moves checkpoints away and `body["confirm_run"]` is not the run's name.
        Raises PlanExpired if the plan is older than 15 minutes or the pod was rebooted. Raises
        PlanChanged, or an error of `launch.plan.make`, if the launch would do something else now.
        """
        if body.get("plan_hash") is not None:
            self._launch_planned(key, body, who)
            return
        spec = validation.spec_of(body)
        validation.preflight(self._pod.runs, spec, checked=bool(body.get("preflight", True)))
        steps = [{"title": f"Start {spec.run}", "command": self._pod.command_line(spec)}]
        if body.get("wait", True) and spec.component == "rl":
            steps.append({"title": "Wait for the first step", "command": ""})
        self._executor.begin(
            key, body, who, spec.run, lambda: self._do_launch(key, body), steps=steps
        )

    def _launch_planned(self, key: str, body: Mapping[str, Any], who: str) -> None:
        """Accept a launch by the hash of its plan and start it."""
        view = self._executor.kept_plan(body, launch_plan.NAME, "launch --plan")
        if view.plan["typed_name"] and body.get("confirm_run") != view.run:
            raise Refused(
                f"This start moves checkpoints of {view.run} aside; confirm it by typing the "
                "run's name."
            )
        planned = {**body, "plan": view.plan}
        with self._executor.locks.holding(view.run, key):
            self._executor.made_again(
                view,
                who,
                lambda: self._pod.plan_launch(
                    view.plan["asked"], view.plan["record"], self._tries(view.run)
                ),
            )
            self._executor.accept(
                key,
                planned,
                who,
                view.run,
                playbook=launch_plan.NAME,
                plan_hash=view.plan_hash,
                steps=[
                    {"title": step["title"], "command": step["command"]}
                    for step in view.plan["steps"]
                ],
            )
            self._executor.start(view.run, key, lambda: self._do_launch(key, planned))

    def _do_launch(self, key: str, body: Mapping[str, Any]) -> None:
        """Carry out a launch. Each step recognises by the action's key what an earlier life of the
        agent has already done of it.
        """
        plan: Mapping[str, Any] = body.get("plan") or {}
        spec = launch_plan.spec_in(plan) if plan else validation.spec_of(body)
        event = functools.partial(self._executor.event, key, spec.run)
        turn = self._executor.locks.turn(key)
        step = 0
        turn.check()
        if plan.get("moves"):
            # An attempt of this action exists, so everything was moved before, and what is there
            # now is new.
            if not self._pod.claimed(spec.run, key):
                paths = [Path(path) for path in plan["moves"]]
                targets = [{"path": str(path)} for path in paths]
                event("intent", sync=True, step=0, targets=targets)
                event("step-done", sync=True, step=0, detail=self._pod.move_aside(spec, paths, key))
            step = 1
            turn.check()
        event("intent", sync=True, step=step)
        attempt = self._pod.launch(spec, key)
        end = functools.partial(self._executor.end, key)
        say = functools.partial(self._executor.progress, key, spec.run)
        say("step-done", step=step, detail=f"attempt {attempt} runs")
        result = {"attempt": attempt}
        if not (plan.get("verify") if plan else body.get("wait", True) and spec.component == "rl"):
            end("done", detail=f"{spec.run} was started", result=result)
            return
        say("intent", step=step + 1)
        with turn.rest():
            first = self._pod.wait_first_step(
                spec.run,
                attempt,
                lambda text: say("intent", step=step + 1, detail=text),
                turn.pause,
            )
        if first is None:
            _, reached, does = launch_plan.AWAITED[spec.component]
        else:
            reached, does = f"step {first} is done", "trains"
            result["step"] = first
        say("step-done", step=step + 1, detail=reached)
        end("done", detail=f"{spec.run} {does}", result=result)

    def resume_launch(self, action: ActionView) -> None:
        """Continue the launch `action`, which was under way when the agent was restarted. Steps
        that are done already are not repeated.
        """
        self._executor.go_on(action, action.run, lambda: self._do_launch(action.key, action.body))

    def adopt(self, key: str, body: Mapping[str, Any], who: str, payload: bytes) -> None:
        """Accept the adoption `key` that the person `who` has submitted, and carry it out on a
        thread of its own: from then on the agent watches runs that were started by hand.
        `body["pid"]` is the pid of a process of one run; without it, every such run that is found
        is adopted. `body["run"]`, if given, is the name that the run gets. `payload` is not used.
        If nothing new is found, nothing is raised; the journal then says that the action failed.
        """
        self._executor.accept(key, body, who, str(body.get("run", "")))
        self._executor.start("", key, lambda: self._do_adopt(key, body))

    def _do_adopt(self, key: str, body: Mapping[str, Any]) -> None:
        """Adopt runs and journal which ones."""
        found = self._pod.adopt(body.get("pid"), str(body.get("run") or ""))
        adopted = [c for c in found if c["adopted"]]
        detail = (
            ", ".join(f"adopted pid {c['pid']} as {c['run']}" for c in adopted)
            or "no run was found that is not known already"
        )
        run, event = (adopted[0]["run"], "done") if adopted else ("", "failed")
        self._executor.event(key, run, event, detail=detail, result={"candidates": found})
