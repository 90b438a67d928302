"""Everything that is done to a pod: accepted once by key, one at a time per run, journalled, and finished after a kill -9."""

from __future__ import annotations

import functools
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bs4_agent.book import Book
from bs4_agent.boundaries import Boundaries
from bs4_agent.errors import AgentError, BadRequest, Busy, KeyReused, PlanChanged, PlanExpired, Refused
from bs4_agent.ids import ulid
from bs4_agent.ledger import ActionView
from bs4_agent.playbooks import plan as plans
from bs4_agent.playbooks.compiled import Library, digest
from bs4_agent.playbooks.runner import Runner
from bs4_agent.pod import Pod
from bs4_agent.runs import launch_plan, launching
from bs4_agent.setup_log import open_setup_log
from bs4_agent.streams.logs import LogStream
from bs4_agent.streams.segments import SegmentStream

if TYPE_CHECKING:
    from bs4_agent.setup.work import SetUps

#: Recoveries of a run without a new step before no more are tried: the same fix does not work the third time.
RECOVERY_LIMIT = 2
#: Seconds that a newer agent waits for the end of the step that is being carried out; then it is refused.
BOUNDARY_S = 60.0
#: Seconds that an action waits for a rotation to let its run go.
ROTATION_S = 5.0
MODES = ("observe", "ask", "auto")
#: What a set-up holds while it works; no run can be called so.
SETUP_HOLD = "the set-up of this pod"
#: The most dangerous step that mode auto may take when not all targets are proved ours.
_AUTO_DANGERS = ("none", "restart")


class Actions:
    """`submit` answers at once; the work happens on a thread of its own and is read from the journal."""

    def __init__(
        self, pod: Pod, library: Library, book: Book, journal: SegmentStream, hand_over: Callable[[Mapping[str, Any]], None]
    ) -> None:
        self._pod, self._library, self._record, self._ledger, self._journal = pod, library, book, book.ledger, journal
        self._hand_over = hand_over
        self._lock = threading.Lock()
        self._bodies = {key: digest(_identity(action.body)) for key, action in self._ledger.actions.items() if action.body}
        self._holding: dict[str, str] = {}
        self._threads: list[threading.Thread] = []
        self._boundaries = Boundaries()
        self._leaving = threading.Lock()
        self.setup_log: Callable[[], LogStream] = lambda: open_setup_log(pod.runs.home)
        """The stream of what set-ups run; the daemon gives the one that consoles can read."""
        self.on_order: Callable[[], None] = lambda: None
        """Called when a standing order was given or taken back."""

    def submit(self, body: Mapping[str, Any], who: str, payload: bytes = b"") -> dict[str, Any]:
        """Accept one action. KeyReused, Busy, BadRequest, UnknownPlaybook, PlanExpired, Refused say why not; nothing was done then.

        `payload`: the secrets of a set-up; everything else of an action is journalled.
        """
        key, kind = body.get("key"), body.get("kind")
        if not isinstance(key, str) or len(key) != 26:
            raise BadRequest("An action needs a key of 26 characters (a ULID); send one.")
        work = {
            "plan": self._plan, "playbook": self._playbook, "launch": self._launch, "stop": self._stop, "adopt": self._adopt,
            "mode": self._mode, "keep": self._keep, "note": self._note, "handover": self._handover, "release": self._release,
            "setup": self._setup_with(payload), "setup-stop": self._stop_setup,
        }.get(str(kind))  # fmt: skip
        if work is None:
            raise BadRequest(
                f"There is no action {kind!r}; this agent knows plan, playbook, launch, stop, adopt, mode, keep, note, "
                "setup, setup-stop, handover."
            )
        with self._lock:
            known = self._bodies.get(key)
            if known == digest(_identity(body)):
                return {"action": key, "state": "accepted"}
            if known is not None:
                raise KeyReused(f"Action key {key} was used for something else already; make a new one.")
            work(key, body, who)
            self._bodies[key] = digest(_identity(body))
        return {"action": key, "state": "accepted"}

    def resume(self) -> None:
        """After a start of the agent: finish what an earlier life began, or say that it was interrupted."""
        if any(self._pod.runs.home.credentials.glob("incoming/*")):
            self.set_ups.forget_ended()
        for action in list(self._ledger.actions.values()):
            if action.ended or action.kind == "rotate":
                continue  # what a rotation has moved aside the disk guard frees
            if action.kind == "playbook":
                self._resume_playbook(action)
            elif action.kind == "setup":
                self._resume_setup(action)
            elif action.kind in ("launch", "stop"):
                self._hold(action.run, action.key)
                work = self._do_launch if action.kind == "launch" else self._do_stop
                self._start(action.run, action.key, functools.partial(work, action.key, action.body))
            else:
                self._event(action.key, action.run, "interrupted", detail="the agent was restarted; ask again")

    def join(self, timeout: float) -> None:
        for thread in self._threads:
            thread.join(timeout)

    # Each `_<kind>` runs under the lock, refuses or journals `accepted`, and starts the work.

    def _plan(self, key: str, body: Mapping[str, Any], who: str) -> None:
        if body.get("launch") is not None:
            self._plan_launch(key, body, who)
            return
        if body.get("setup") is not None:
            self._plan_setup(key, body, who)
            return
        playbook = self._library.get(str(body.get("playbook")))
        run = self._pod.runs.get(str(body.get("run"))).name
        self._accept(key, body, who, run, playbook=playbook.id)
        self._start("", key, lambda: self.make_plan(key, playbook.id, run, str(body.get("incident", ""))))

    def make_plan(self, key: str, playbook_id: str, run: str, incident: str) -> plans.Plan | None:
        """Journals a plan, or why there is none."""
        try:
            plan = plans.make(self._pod, self._library.get(playbook_id), run, key, incident)
        except AgentError as error:
            self._record("plan", action=key, playbook=playbook_id, run=run, plan_hash="", refused=error.message)
            self._event(key, run, "failed", detail=error.message, result={"error": error.type})
            return None
        expires_t = time.time() + plan.expires_m - time.monotonic()
        self._record(
            "plan", action=key, playbook=playbook_id, run=run, attempt=plan.attempt, plan_hash=plan.hash, expires_m=plan.expires_m,
            expires_t=expires_t, plan=plan.as_dict(),
        )  # fmt: skip
        self._event(key, run, "done", result={"plan_hash": plan.hash})
        return plan

    def _plan_launch(self, key: str, body: Mapping[str, Any], who: str) -> None:
        asked, record = body["launch"], body.get("record") or {}
        if not isinstance(asked, Mapping) or not isinstance(record, Mapping):
            raise BadRequest("`launch` and `record` of a plan are tables; send them so.")
        run = launching.spec_of({**asked, "resume": None}).run
        self._accept(key, body, who, run, playbook=launch_plan.NAME)
        self._start("", key, lambda: self._make_launch_plan(key, run, asked, record))

    def _make_launch_plan(self, key: str, run: str, asked: Mapping[str, Any], record: Mapping[str, Any]) -> None:
        """Journals the plan of a launch, or why there is none."""
        try:
            plan = self._pod.plan_launch(asked, record, self._tries(run))
        except AgentError as error:
            self._record("plan", action=key, playbook=launch_plan.NAME, run=run, plan_hash="", refused=error.message)
            self._event(key, run, "failed", detail=error.message, result={"error": error.type})
            return
        expires_t = time.time() + plan.expires_m - time.monotonic()
        self._record(
            "plan", action=key, playbook=launch_plan.NAME, run=run, attempt=plan.attempt, plan_hash=plan.hash, expires_m=plan.expires_m,
            expires_t=expires_t, plan=plan.as_dict(),
        )  # fmt: skip
        self._event(key, run, "done", result={"plan_hash": plan.hash})

    def _tries(self, run: str) -> int:
        """Launches of a run that have ended. Part of a plan's hash, from which a launch has its key: a new try is a new action."""
        return sum(action.kind == "launch" and action.run == run and action.ended for action in self._ledger.actions.values())

    def _playbook(self, key: str, body: Mapping[str, Any], who: str) -> None:
        playbook = self._library.get(str(body.get("playbook")))
        plan = self._confirmed(body, playbook.id)
        if playbook.typed_name and body.get("confirm_run") != plan.run:
            raise Refused(f"{playbook.id} moves everything {plan.run} has written; confirm it by typing the run's name.")
        self._check_limit(plan.run)
        self._hold(plan.run, key)
        self._accept(
            key, {**body, "plan": plan.as_dict()}, who, plan.run, playbook=playbook.id, plan_hash=plan.hash, incident=plan.incident,
            steps=[{"title": s.title, "command": s.command} for s in plan.steps],
        )  # fmt: skip
        self._start(plan.run, key, lambda: self._carry_out(key, plan, None))

    def _confirmed(self, body: Mapping[str, Any], playbook_id: str) -> plans.Plan:
        view = self._ledger.plans.get(str(body.get("plan_hash")))
        if view is None or view.refused:
            raise Refused(f"No plan has the hash {str(body.get('plan_hash'))[:16]!r}; make one with `playbook plan` and confirm that.")
        if view.playbook != playbook_id:
            raise Refused(f"That plan is of {view.playbook}, not of {playbook_id}; make a new plan.")
        if view.boot != self._pod.boot_id or time.monotonic() > view.expires_m:
            raise PlanExpired("The plan is older than 15 minutes (or the pod was rebooted since); make a new plan.")
        attempt = self._pod.runs.get(view.run).attempt
        if (attempt.number if attempt else 0) != view.attempt:
            raise PlanChanged(f"{view.run} has started another attempt since the plan was made; make a new plan.")
        return plans.Plan.from_dict(view.plan, self._library.get(playbook_id), view.expires_m)

    def _check_limit(self, run: str) -> None:
        last_step = self._pod.last_step_t(run)
        tried = [
            a for a in self._ledger.actions.values()
            if a.kind == "playbook" and a.run == run and a.state == "failed" and a.accepted_t > last_step
        ]  # fmt: skip
        if len(tried) >= RECOVERY_LIMIT:
            raise Refused(f"{len(tried)} recoveries of {run} brought no new step. Look at its logs and start it by hand once it can work.")

    def _carry_out(self, key: str, plan: plans.Plan, before: ActionView | None) -> None:
        recovered = Runner(self._pod, self._record, key, plan, self._boundaries.rest).run(before)
        if recovered:
            self._pod.resolved(plan.run, plan.playbook.id, plan.incident)

    def _resume_playbook(self, action: ActionView) -> None:
        try:
            plan = plans.Plan.from_dict(action.body["plan"], self._library.get(action.playbook), 0.0)
        except (KeyError, AgentError) as error:
            self._event(action.key, action.run, "interrupted", detail=f"its plan cannot be read any more ({error}); make a new one")
            return
        self._hold(action.run, action.key)
        self._start(action.run, action.key, lambda: self._carry_out(action.key, plan, action))

    def _launch(self, key: str, body: Mapping[str, Any], who: str) -> None:
        """By the hash of a plan that a person has confirmed, or (`plan_hash` absent) exactly as the body says, moving nothing aside."""
        if body.get("plan_hash") is not None:
            self._launch_planned(key, body, who)
            return
        spec = launching.spec_of(body)
        launching.preflight(self._pod.runs, spec, checked=bool(body.get("preflight", True)))
        command = self._pod.command_line(spec)
        self._hold(spec.run, key)
        titles = (
            [f"Start {spec.run}", "Wait for the first step"] if body.get("wait", True) and spec.component == "rl" else [f"Start {spec.run}"]
        )
        steps = [{"title": title, "command": command if index == 0 else ""} for index, title in enumerate(titles)]
        self._accept(key, body, who, spec.run, steps=steps)
        self._start(spec.run, key, lambda: self._do_launch(key, body))

    def _launch_planned(self, key: str, body: Mapping[str, Any], who: str) -> None:
        view = self._ledger.plans.get(str(body.get("plan_hash")))
        if view is None or view.refused:
            raise Refused(f"No plan has the hash {str(body.get('plan_hash'))[:16]!r}; make one with `launch --plan` and confirm that.")
        launch_plan.must_apply(view.plan)
        if view.boot != self._pod.boot_id or time.monotonic() > view.expires_m:
            raise PlanExpired("The plan is older than 15 minutes (or the pod was rebooted since); make a new plan.")
        if view.plan["typed_name"] and body.get("confirm_run") != view.run:
            raise Refused(f"This start moves checkpoints of {view.run} aside; confirm it by typing the run's name.")
        self._hold(view.run, key)
        try:
            now = self._pod.plan_launch(view.plan["asked"], view.plan["record"], self._tries(view.run))
            if now.hash != view.plan_hash:
                raise PlanChanged(f"What a start of {view.run} would do has changed since the plan was made ({now.why}); make a new plan.")
            steps = [{"title": step["title"], "command": step["command"]} for step in view.plan["steps"]]
            self._accept(key, {**body, "plan": view.plan}, who, view.run, playbook=launch_plan.NAME, plan_hash=view.plan_hash, steps=steps)
        except AgentError:
            self._holding.pop(view.run, None)
            raise
        self._start(view.run, key, lambda: self._do_launch(key, {**body, "plan": view.plan}))

    def _do_launch(self, key: str, body: Mapping[str, Any]) -> None:
        """Each step finds what an earlier life of the agent has done of it: moves and the attempt bear the action's key."""
        plan: Mapping[str, Any] = body.get("plan") or {}
        spec = launch_plan.spec_in(plan) if plan else launching.spec_of(body)
        step = 0
        if plan.get("moves"):
            if not self._pod.claimed(spec.run, key):  # an attempt of this action: everything was moved before, and what lies there is new
                paths = [Path(path) for path in plan["moves"]]
                self._event(key, spec.run, "intent", sync=True, step=0, targets=[{"path": str(path)} for path in paths])
                self._event(key, spec.run, "step-done", sync=True, step=0, detail=self._pod.move_aside(spec, paths, key))
            step = 1
        self._event(key, spec.run, "intent", sync=True, step=step)
        attempt = self._pod.launch(spec, key)
        self._event(key, spec.run, "step-done", step=step, detail=f"attempt {attempt} runs")
        if not (plan.get("verify") if plan else body.get("wait", True) and spec.component == "rl"):
            self._event(key, spec.run, "done", detail=f"{spec.run} was started", result={"attempt": attempt})
            return
        self._event(key, spec.run, "intent", step=step + 1)
        with self._boundaries.rest():
            first = self._pod.wait_first_step(
                spec.run, attempt, lambda text: self._event(key, spec.run, "intent", step=step + 1, detail=text)
            )
        if first is None:
            self._event(key, spec.run, "step-done", step=step + 1, detail="it answers")
            self._event(key, spec.run, "done", detail=f"{spec.run} serves", result={"attempt": attempt})
            return
        self._event(key, spec.run, "step-done", step=step + 1, detail=f"step {first} is done")
        self._event(key, spec.run, "done", detail=f"{spec.run} trains", result={"attempt": attempt, "step": first})

    def _stop(self, key: str, body: Mapping[str, Any], who: str) -> None:
        run = self._pod.runs.get(str(body.get("run"))).name
        self._hold(run, key)
        self._accept(key, body, who, run, steps=[{"title": f"Stop {run}", "command": self._pod.stop_command(run)}])
        self._start(run, key, lambda: self._do_stop(key, body))

    def _do_stop(self, key: str, body: Mapping[str, Any]) -> None:
        run = str(body["run"])
        self._event(key, run, "intent", sync=True, step=0)
        detail = self._pod.stop(run, lambda text: self._event(key, run, "intent", step=0, detail=text))
        self._event(key, run, "step-done", step=0, detail=detail)
        self._event(key, run, "done", detail=detail)

    def _adopt(self, key: str, body: Mapping[str, Any], who: str) -> None:
        self._accept(key, body, who, str(body.get("run", "")))
        self._start("", key, lambda: self._do_adopt(key, body))

    def _do_adopt(self, key: str, body: Mapping[str, Any]) -> None:
        found = self._pod.adopt(body.get("pid"), str(body.get("run") or ""))
        adopted = [c for c in found if c["adopted"]]
        detail = ", ".join(f"adopted pid {c['pid']} as {c['run']}" for c in adopted) or "no run was found that is not known already"
        self._event(key, adopted[0]["run"] if adopted else "", "done" if adopted else "failed", detail=detail, result={"candidates": found})

    def _mode(self, key: str, body: Mapping[str, Any], who: str) -> None:
        run, playbook = self._pod.runs.get(str(body.get("run"))).name, self._library.get(str(body.get("playbook")))
        mode = body.get("mode")
        if mode not in MODES:
            raise BadRequest(f"{mode!r} is no mode; choose {', '.join(MODES)}.")
        if mode == "auto" and not playbook.automatic:
            raise Refused(f"{playbook.id} is never automatic: a person must look first. Choose ask.")
        self._accept(key, body, who, run)
        self._record("mode", sync=True, run=run, playbook=playbook.id, mode=mode, who=who)
        self._event(key, run, "done", detail=f"{playbook.id} is in mode {mode} for {run}")

    def _keep(self, key: str, body: Mapping[str, Any], who: str) -> None:
        """A standing order: how many checkpoints of the run stay. The disk guard carries it out from now on, also after a restart."""
        from bs4_agent.checkpoints import orders  # the idle daemon has no order

        run = self._pod.runs.get(str(body.get("run"))).name
        fields = orders.asked(body)
        self._accept(key, body, who, run)
        self._record("order", sync=True, run=run, who=who, **fields)
        said = (
            f"the {fields['last']} newest complete checkpoints of {run} stay" if fields["last"] else f"nothing of {run} is freed any more"
        )
        self._event(key, run, "done", detail=said)
        self.on_order()

    def own(self, run: str, who: str, body: Mapping[str, Any], steps: Sequence[Mapping[str, str]], work: Callable[[str], None]) -> str:
        """An action that nobody submits: `work(key)` on the caller's thread, under the run's hold, journalled like any other. Its key, ""
        when it failed. Busy when the run is held: ask again later."""
        key = ulid()
        with self._lock:
            self._hold(run, key)
            try:
                self._accept(key, body, who, run, steps=list(steps))
            except AgentError:
                self._holding.pop(run, None)
                raise
        self._guarded(run, key, lambda: work(key))
        return "" if self._ledger.actions[key].ended else key

    def _note(self, key: str, body: Mapping[str, Any], who: str) -> None:
        run, text = self._pod.runs.get(str(body.get("run"))).name, str(body.get("text", ""))[:2000]
        self._accept(key, body, who, run)
        self._record("note", run=run, text=text, who=who)
        self._event(key, run, "done")

    def _handover(self, key: str, body: Mapping[str, Any], who: str) -> None:
        if not self._leaving.acquire(blocking=False):
            raise Busy("Another console is replacing this agent already; wait a minute.")
        at_once = self._boundaries.hold(0.0)
        try:
            self._accept(key, body, who, "")
            if at_once:
                self._leave(key, body)
            else:
                threading.Thread(target=self._leave_at_boundary, args=(key, body), name="handover", daemon=True).start()
        except AgentError:
            self._stay()
            raise

    def _leave(self, key: str, body: Mapping[str, Any]) -> None:
        """No step is under way and none begins any more: what is unfinished is in the journal, for the newer agent."""
        self._event(key, "", "done")
        self._hand_over(body)

    def _leave_at_boundary(self, key: str, body: Mapping[str, Any]) -> None:
        try:
            self._event(key, "", "started", detail="waiting for the end of the step that is under way")
            if self._boundaries.hold(BOUNDARY_S):
                self._leave(key, body)
                return
            self._event(key, "", "busy", detail=f"a step takes longer than {BOUNDARY_S:.0f} s; this agent stays")
        except AgentError:
            traceback.print_exc()  # the journal cannot be written, so whoever waits for this action gives up by himself
        self._stay()

    def _stay(self) -> None:
        self._boundaries.release()
        self._leaving.release()

    def _release(self, key: str, body: Mapping[str, Any], who: str) -> None:
        """A console holds the journal up to `cursor`. Not journalled: it says nothing about the pod, and comes with every segment."""
        self._journal.release(str(body.get("cursor")))

    def _plan_setup(self, key: str, body: Mapping[str, Any], who: str) -> None:
        from bs4_agent.setup import plan, recipe

        if not isinstance(body["setup"], Mapping):
            raise BadRequest("`setup` of a plan is a table; send it so.")
        wanted = recipe.read(body["setup"])
        self._accept(key, body, who, "", playbook=plan.NAME)
        self._start("", key, lambda: self.set_ups.plan(key, wanted))

    def _setup_with(self, payload: bytes) -> Callable[[str, Mapping[str, Any], str], None]:
        return lambda key, body, who: self._setup(payload, key, body, who)

    def _setup(self, payload: bytes, key: str, body: Mapping[str, Any], who: str) -> None:
        self._hold(SETUP_HOLD, key)
        try:
            plan = self.set_ups.confirmed(key, body, payload)
            steps = [{"title": s.title, "command": s.command} for s in plan.steps]
            self._accept(key, {**body, "plan": plan.as_dict()}, who, "", plan_hash=plan.hash, steps=steps)
        except AgentError:
            self._holding.pop(SETUP_HOLD, None)
            self.set_ups.forget(key)
            raise
        self._start(SETUP_HOLD, key, lambda: self.set_ups.carry_out(key, plan))

    def _stop_setup(self, key: str, body: Mapping[str, Any], who: str) -> None:
        self._accept(key, body, who, "")
        self._start("", key, lambda: self._do_stop_setup(key))

    def _do_stop_setup(self, key: str) -> None:
        detail = self.set_ups.jobs.end(lambda text: self._event(key, "", "started", detail=text))
        self._event(key, "", "done", detail=detail)

    def _resume_setup(self, action: ActionView) -> None:
        from bs4_agent.setup.plan import SetupPlan

        try:
            plan = SetupPlan.from_dict(action.body["plan"], 0.0)
        except (KeyError, AgentError) as error:
            self.set_ups.forget(action.key)
            self._event(action.key, "", "interrupted", detail=f"its plan cannot be read any more ({error}); make a new one")
            return
        self._hold(SETUP_HOLD, action.key)
        self._start(SETUP_HOLD, action.key, lambda: self.set_ups.carry_out(action.key, plan, action))

    @functools.cached_property
    def set_ups(self) -> SetUps:
        """Made when somebody sets the pod up; until then nothing of it is imported."""
        from bs4_agent.setup.work import SetUps

        runs, pod = self._pod.runs, self._pod
        return SetUps(
            runs.home,
            self.setup_log(),
            self._record,
            self._ledger,
            pod.boot_id,
            pod.hard_nofile,
            list(runs.agent_restart or ()),
            self._boundaries.rest,
        )

    def opened(self, incident: str, run: str, playbook_id: str | None) -> None:
        """An incident was opened: mode ask prepares the plan, mode auto carries it out. Only what the playbook's rules allow."""
        mode = self._ledger.mode(run, playbook_id) if playbook_id else "observe"
        if mode == "observe" or playbook_id is None:
            return
        key = ulid()
        self._accept(
            key, {"kind": "plan", "playbook": playbook_id, "run": run, "incident": incident}, f"mode {mode}", run, playbook=playbook_id
        )
        plan = self.make_plan(key, playbook_id, run, incident)
        playbook = self._library.get(playbook_id)
        if mode != "auto" or plan is None or not playbook.automatic:
            return
        proved = all("dead_run" in target for step in plan.steps for target in step.targets)
        if playbook.danger in _AUTO_DANGERS or proved:
            body = {"key": ulid(), "kind": "playbook", "playbook": playbook_id, "run": run, "plan_hash": plan.hash}
            self.submit(body, "mode auto")

    def _hold(self, run: str, key: str) -> None:
        self._let_rotation_pass(run)
        holder = self._holding.get(run)
        if holder is not None and holder != key:
            action = self._ledger.actions[holder]
            since = time.strftime("%H:%M:%S", time.localtime(action.accepted_t))
            raise Busy(f"{run} is busy: {action.kind} {action.playbook} by {action.who} since {since}. Wait for it to end.")
        self._holding[run] = key

    def _let_rotation_pass(self, run: str) -> None:
        """The disk guard holds a run for the renames of a rotation, some milliseconds: nobody is refused for that."""
        deadline = time.monotonic() + ROTATION_S
        while (holder := self._holding.get(run)) is not None and time.monotonic() < deadline:
            action = self._ledger.actions.get(holder)
            if action is None or action.kind != "rotate":
                return
            time.sleep(0.01)

    def _start(self, run: str, key: str, work: Callable[[], object]) -> None:
        thread = threading.Thread(target=self._guarded, args=(run, key, work), name=f"action {key}", daemon=True)
        self._threads = [t for t in self._threads if t.is_alive()] + [thread]
        thread.start()

    def _guarded(self, run: str, key: str, work: Callable[[], object]) -> None:
        try:
            with self._boundaries.step():
                work()
        except AgentError as error:
            self._event(key, run, "failed", detail=error.message, result={"error": error.type})
        except Exception as error:  # noqa: BLE001 (a defect of ours must end the action visibly, never leave it running for ever)
            traceback.print_exc()
            detail = f"the agent has a defect here ({type(error).__name__}: {error}); its traceback is in ~/.bs4/agent.log"
            self._event(key, run, "failed", detail=detail[:500], result={"error": "defect"})
        finally:
            self._holding.pop(run, None)

    def _accept(self, key: str, body: Mapping[str, Any], who: str, run: str, **fields: Any) -> None:
        self._record("action", sync=True, action=key, kind=body.get("kind"), who=who, run=run, event="accepted", body=dict(body), **fields)

    def _event(self, key: str, run: str, event: str, *, sync: bool = False, **fields: Any) -> None:
        self._record("action", sync=sync, action=key, run=run, event=event, **fields)


def _identity(body: Mapping[str, Any]) -> dict[str, Any]:
    """What makes two submissions the same: all but what the agent itself adds."""
    return {k: v for k, v in body.items() if k != "plan"}
