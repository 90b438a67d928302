"""Recovering runs without a person, where the mode of a playbook says so."""

from __future__ import annotations

import time

from bs4_agent.actions.executor import ActionExecutor
from bs4_agent.actions.kind import PlannedKind
from bs4_agent.actions.stops import stopped_since
from bs4_agent.actions.submission import Submission
from bs4_agent.playbooks.plan import Plan
from bs4_agent.pod import Pod
from bs4_common.errors import AgentError, PlanChanged, Refused
from bs4_common.failures.compiled import Library
from bs4_common.ids import ulid

#: Seconds for which a recovery waits for an action on its run that an earlier life of the agent had
#: begun.
LATER_S = 2 * 3600.0
#: Seconds after the end of a run in which an incident about that end may open: the last lines are
#: read, and hold times run out.
END_S = 120.0
#: The dangers that mode auto may take even if not all targets are proved to be ours.
_AUTO_DANGERS = ("none", "restart")


class Recoveries:
    """Acts on new incidents (detected failures) as the mode says that is set for the playbook which
    repairs them. In mode "observe" it does nothing, in "ask" it makes a plan, and in "auto" it
    makes a plan and carries it out. There is one object per pod. `recovery` is the kind of action
    that makes plans from the playbooks in `library` and carries them out.
    """

    def __init__(
        self, executor: ActionExecutor, pod: Pod, library: Library, recovery: PlannedKind[Plan]
    ) -> None:
        self._executor, self._pod = executor, pod
        self._library, self._recovery = library, recovery

    def opened(self, incident: str, run: str, playbook_id: str | None) -> None:
        """Act on the new incident with the id `incident` of `run`. `playbook_id` is the playbook
        that repairs it, and this playbook's mode decides. In mode "ask", a plan is made and written
        into the journal. In mode "auto", the plan is also carried out, if the playbook may run
        without a person and the plan is not dangerous. If it may not be carried out for another
        reason, a note in the journal says why. Do nothing in mode "observe", or if `playbook_id` is
        None because no playbook repairs the incident.
        """
        mode = self._executor.ledger.mode(run, playbook_id) if playbook_id else "observe"
        if mode == "observe" or playbook_id is None:
            return
        if any(kind == "restore_set" for kind, _ in self._library.get(playbook_id).fix):
            # The plan needs a store, and an action from before the restart may still be ending.
            # Neither may delay the watch.
            if not self._executor.start(
                "", ulid(), lambda: self._later(incident, run, playbook_id, mode)
            ):
                self._note(run, playbook_id, mode, "this pod allows the agent no further thread")
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
            self._note(run, playbook_id, mode, error.message)

    def _note(self, run: str, playbook_id: str, mode: str, why: str) -> None:
        """Write a note into the journal that says why the playbook was not carried out."""
        text = f"{playbook_id} was not carried out: {why}"
        self._executor.book("note", sync=True, run=run, text=text, who=f"mode {mode}")

    def _by_mode(self, incident: str, run: str, playbook_id: str, mode: str) -> None:
        """Plan the playbook, and in mode `auto` accept the plan if the rules allow it."""
        key, who = ulid(), f"mode {mode}"
        asked = {"kind": "plan", "playbook": playbook_id, "run": run, "incident": incident}
        plan = self._executor.plan_now(self._recovery, Submission(key, asked, who))
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

            def allowed() -> None:
                self._refuse_withdrawn(run, playbook_id)
                self._refuse_stopped(run)
                self._refuse_ended(plan)

            allowed()
            submission = Submission(confirmed, body, who)
            self._executor.confirm(self._recovery, submission, allowed)

    def _refuse_withdrawn(self, run: str, playbook_id: str) -> None:
        """Raise Refused if mode `auto` was taken back since the incident opened. The plan may have
        waited for hours, for a store or for another action on the run.
        """
        mode = self._executor.ledger.mode(run, playbook_id)
        if mode != "auto":
            raise Refused(f"its mode for {run} is {mode} by now.")

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

    def _refuse_ended(self, plan: Plan) -> None:
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
