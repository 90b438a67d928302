"""Planning playbooks, and carrying them out: after a person has confirmed the plan's hash, or
without a person if the playbook's mode says so.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from bs4_agent.actions.executor import ActionExecutor, step_fields
from bs4_agent.actions.stops import stopped_since
from bs4_agent.errors import AgentError, PlanChanged, Refused
from bs4_agent.ids import ulid
from bs4_agent.ledger import ActionView
from bs4_agent.playbooks import plan as plans
from bs4_agent.playbooks.compiled import Library
from bs4_agent.playbooks.runner import Runner
from bs4_agent.pod import Pod

#: Recoveries of a run without a new step after which no more are tried. The same fix does not work
#: the third time.
RECOVERY_LIMIT = 2
#: Seconds for which a recovery waits for an action on its run that an earlier life of the agent had
#: begun.
LATER_S = 2 * 3600.0
#: Seconds after the end of a run in which an incident about that end may open: the last lines are
#: read, and hold times run out.
END_S = 120.0
#: The dangers that mode auto may take even if not all targets are proved to be ours.
_AUTO_DANGERS = ("none", "restart")


class Recoveries:
    """Plans, accepts and carries out playbooks, whether a person or the mode `auto` asks for them;
    one per pod.
    """

    def __init__(self, executor: ActionExecutor, pod: Pod, library: Library) -> None:
        self._executor, self._pod, self._library = executor, pod, library

    def plan(self, key: str, body: Mapping[str, Any], who: str) -> None:
        """Journal the plan action `key` of the person `who`, and make and journal the plan of the
        body's `playbook` for the body's `run` on a thread of its own. Raises UnknownPlaybook or
        UnknownRun.
        """
        playbook = self._library.get(str(body.get("playbook")))
        run = self._pod.runs.get(str(body.get("run"))).name
        self._executor.accept(key, body, who, run, playbook=playbook.id)
        self._executor.start(
            "", key, lambda: self._make(key, playbook.id, run, str(body.get("incident", "")))
        )

    def _make(self, key: str, playbook_id: str, run: str, incident: str) -> plans.Plan | None:
        """Make and journal the plan of a playbook. Returns None if there is no plan."""
        playbook = self._library.get(playbook_id)
        return self._executor.journal_plan(
            key, playbook_id, run, lambda: plans.make(self._pod, playbook, run, key, incident)
        )

    def accept(self, key: str, body: Mapping[str, Any], who: str, payload: bytes = b"") -> None:
        """Accept the playbook action `key` of the person `who`, whose plan has the hash
        `body["plan_hash"]`, and start it on a thread of its own. `payload` is not used.

        Raises UnknownPlaybook, PlanExpired if the plan is older than 15 minutes or the pod was
        rebooted, PlanChanged if the playbook would do something else now, and Busy if another
        action holds the run. Raises Refused if there is no such plan of `body["playbook"]` and
        `body["run"]`, if two recoveries have failed since the run's last step, or if the playbook
        moves all output of the run and `body["confirm_run"]` is not the run's name.
        """
        playbook = self._library.get(str(body.get("playbook")))
        view = self._executor.kept_plan(body, playbook.id, "playbook plan")
        if playbook.typed_name and body.get("confirm_run") != view.run:
            raise Refused(
                f"{playbook.id} moves everything {view.run} has written; confirm it by "
                "typing the run's name."
            )
        self._check_limit(view.run)
        confirmed = plans.Plan.from_dict(view.plan, playbook, view.expires_m)
        with self._executor.locks.holding(view.run, key):
            plan = self._executor.made_again(
                view,
                who,
                lambda: plans.make(
                    self._pod, playbook, view.run, key, confirmed.incident, confirmed
                ),
            )
            self._executor.accept(
                key,
                {**body, "plan": plan.as_dict()},
                who,
                plan.run,
                playbook=playbook.id,
                plan_hash=view.plan_hash,
                incident=plan.incident,
                steps=step_fields(plan.steps),
            )
            self._executor.start(plan.run, key, lambda: self._carry_out(key, plan, None))

    def _check_limit(self, run: str) -> None:
        """Raise Refused if the last recoveries of the run brought no new step."""
        last_step = self._pod.last_step_t(run)
        tried = sum(
            action.state == "failed" and action.accepted_t > last_step
            for action in self._executor.ledger.actions_of("playbook", run)
        )
        if tried >= RECOVERY_LIMIT:
            raise Refused(
                f"{tried} recoveries of {run} brought no new step. Look at its logs and "
                "start it by hand once it can work."
            )

    def _carry_out(self, key: str, plan: plans.Plan, before: ActionView | None) -> None:
        """Carry out a plan, or continue it from the action `before`, and resolve its incident if it
        succeeds.
        """
        turn = self._executor.locks.turn(key)
        if Runner(self._pod, self._executor.book, key, plan, turn.rest, turn.pause).run(before):
            self._pod.resolved(plan.run, plan.playbook.id, plan.incident)

    def resume(self, action: ActionView) -> None:
        """Continue a playbook that was under way when the agent restarted. If its plan cannot be
        read any more, journal that it is interrupted.
        """
        try:
            plan = plans.Plan.from_dict(
                action.body["plan"], self._library.get(action.playbook), 0.0
            )
        except (KeyError, AgentError) as error:
            self._executor.unreadable(action.key, action.run, error)
            return
        self._executor.locks.hold(action.run, action.key)
        self._executor.start(
            action.run, action.key, lambda: self._carry_out(action.key, plan, action)
        )

    def opened(self, incident: str, run: str, playbook_id: str | None) -> None:
        """Act on the new incident with the id `incident` of `run` as the mode of its playbook says:
        with `ask`, make and journal a plan; with `auto`, also carry the plan out if its dangers
        allow that. Do nothing in mode `observe`, or if `playbook_id` is None (no playbook repairs
        the incident). If the plan may not be carried out, a note in the journal says why.
        """
        mode = self._executor.ledger.mode(run, playbook_id) if playbook_id else "observe"
        if mode == "observe" or playbook_id is None:
            return
        if any(kind == "restore_set" for kind, _ in self._library.get(playbook_id).fix):
            # The plan needs a store, and an action from before the restart may still be ending.
            # Neither may delay the watch.
            self._executor.start("", ulid(), lambda: self._later(incident, run, playbook_id, mode))
            return
        self._act_by_mode(incident, run, playbook_id, mode)

    def _later(self, incident: str, run: str, playbook_id: str, mode: str) -> None:
        """Wait until no action holds the run, and then act by the mode."""
        deadline = time.monotonic() + LATER_S
        with self._executor.safe_points.rest():
            while self._executor.locks.held(run) and time.monotonic() < deadline:
                time.sleep(0.5)
        self._act_by_mode(incident, run, playbook_id, mode)

    def _act_by_mode(self, incident: str, run: str, playbook_id: str, mode: str) -> None:
        """Plan, and in mode `auto` act. If that is refused (the run was stopped, another action
        holds it, two recoveries brought no new step), write a note into the journal that says why,
        and leave the incident to a person.
        """
        try:
            try:
                self._by_mode(incident, run, playbook_id, mode)
            except PlanChanged:
                # A checkpoint that was saved in between makes another plan.
                self._by_mode(incident, run, playbook_id, mode)
        except AgentError as error:
            self._executor.book(
                "note",
                sync=True,
                run=run,
                text=f"{playbook_id} was not carried out: {error.message}",
                who=f"mode {mode}",
            )

    def _by_mode(self, incident: str, run: str, playbook_id: str, mode: str) -> None:
        """Plan the playbook, and in mode `auto` accept the plan if the rules allow it."""
        key, who = ulid(), f"mode {mode}"
        self._executor.accept(
            key,
            {"kind": "plan", "playbook": playbook_id, "run": run, "incident": incident},
            who,
            run,
            playbook=playbook_id,
        )
        plan = self._make(key, playbook_id, run, incident)
        playbook = self._library.get(playbook_id)
        if mode != "auto" or plan is None or not playbook.automatic:
            return
        proved = all("dead_run" in target for step in plan.steps for target in step.targets)
        if playbook.danger in _AUTO_DANGERS or proved:
            confirmed = ulid()
            body = {
                "key": confirmed,
                "kind": "playbook",
                "playbook": playbook_id,
                "run": run,
                "plan_hash": self._executor.ledger.actions[key].result["plan_hash"],
            }
            with self._executor.lock:
                self._refuse_stopped(run)
                self._refuse_ended(plan)
                self.accept(confirmed, body, who)

    def _refuse_stopped(self, run: str) -> None:
        """Raise Refused if a person has stopped the run since its newest attempt began. Then only a
        person may restart it.
        """
        stop = stopped_since(self._executor.ledger, run)
        if stop is not None:
            raise Refused(
                f"{stop.who} has stopped {run}. Start it again with `bs4-console launch` "
                "when it is to go on."
            )

    def _refuse_ended(self, plan: plans.Plan) -> None:
        """Raise Refused if the plan would restart a run that had ended by itself before the plan
        could be accepted.

        Mode `auto` is for an incident that opens with the end of its run (the launcher names the
        child that failed). A person restarts a run that finished, that failed after its incident
        had opened, or that had been over for long.
        """
        if not any(step.kind == "relaunch" for step in plan.steps):
            return
        facts = self._pod.run_facts(plan.run)
        if not facts.over or facts.with_pod:
            return
        if facts.good_end:
            raise Refused(
                f"{plan.run} has finished. Start it again with `bs4-console launch` when it "
                "is to go on."
            )
        view = self._executor.ledger.runs.get(plan.run)
        attempt = view.attempt if view is not None else None
        incident = self._executor.ledger.incidents.get(plan.incident)
        if attempt is None or attempt.ended_t is None or incident is None:
            return
        if not attempt.ended_t <= incident.opened_t <= attempt.ended_t + END_S:
            raise Refused(
                f"{plan.run} has ended by itself. Look at it, then confirm the plan or start "
                "it with `bs4-console launch`."
            )
