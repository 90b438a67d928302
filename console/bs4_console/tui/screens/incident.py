"""The screen of one incident: evidence, plan, confirmation, and the action step by step to its
verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, ClassVar

from textual.widget import Widget

from bs4_console.pods.gate.plans import plan_of
from bs4_console.pods.state import ActionView, IncidentView, PlanView, PodState, RunState
from bs4_console.tui import commands, formatting, status
from bs4_console.tui.screens.base import ConsoleScreen, PageScreen, Subject
from bs4_console.tui.screens.confirm import ConfirmScreen
from bs4_console.tui.styled_text import Line, fold
from bs4_console.tui.views import incident as view
from bs4_console.tui.views import observers, playbook
from bs4_console.tui.views import plan as plans
from bs4_console.tui.widgets.moment_commands import MomentCommands
from bs4_console.tui.widgets.panel import Panel

#: The commands that the key bar offers first when there is nothing to repair any more.
_AFTERWARDS = ("next-incident", "logs")
_ASKS = " asks the agent what exactly it would do now. That changes nothing."


class IncidentScreen(MomentCommands, PageScreen):
    """The page of one incident of `pod`: its evidence, and the plan and the action that repair it.
    `incident` is the incident's id. If it is None, this is the page of the playbook (the
    description of a known failure and its repair) with the id `playbook_id` for the run with the
    name `run`.
    """

    place: ClassVar[str] = commands.INCIDENT
    panel: ClassVar[str] = "page"
    DEFAULT_CSS = """
    IncidentScreen #title { margin: 0 0 1 0; }
    IncidentScreen VerticalScroll { height: 1fr; scrollbar-size-vertical: 1; padding: 0 1 0 2; }
    """

    def __init__(
        self, pod: PodState, incident: str | None, run: str = "", playbook_id: str | None = None
    ) -> None:
        super().__init__()
        self.pod = pod
        self.incident_id = incident
        self._run_name, self._playbook_id = run, playbook_id
        self._asked_key: str | None = None

    def body(self) -> Iterable[Widget]:
        """Yield the title, and the page in a scrolled area."""
        yield Panel(id="title")
        yield from super().body()

    # -- what it is about

    @property
    def incident(self) -> IncidentView | None:
        """Return the incident, or None if this is the page of a playbook (a known failure and its
        repair) or the pod does not know the incident.
        """
        if self.incident_id:
            return self.pod.ledger.incidents.get(self.incident_id)
        return None

    @property
    def run_name(self) -> str:
        """Return the name of the run that the page is about, or "" if the incident belongs to no
        run.
        """
        if self.incident:
            return self.incident.run
        return self._run_name

    @property
    def playbook_id(self) -> str | None:
        """Return the id of the playbook (a known failure and its repair) that the page shows, or
        that repairs the page's incident. Return None if no playbook repairs the incident.
        """
        return self._playbook_id or (self.incident.playbook if self.incident else None)

    @property
    def plan(self) -> PlanView | None:
        """Return the agent's newest plan for the page's run and playbook (a known failure and its
        repair). If the agent's newest answer was a refusal to make one, return that, a PlanView
        with the reason in the field `refused`. Return None if there is no answer, or if it was made
        for another incident that was opened before this one.

        Once a person has requested a plan on this page, only the answer to that request counts, and
        None is returned until it has come.
        """
        if self._asked_key is not None:
            made = (p for p in self.pod.ledger.plans.values() if p.action == self._asked_key)
            return next(made, None)
        if not self.playbook_id:
            return None
        plan, incident = plans.newest(self.pod, self.run_name, self.playbook_id), self.incident
        if plan is not None and incident is not None:
            made_for = plan.plan.get("incident") or incident.id
            return plan if made_for == incident.id or plan.t >= incident.opened_t else None
        return plan

    @property
    def action(self) -> ActionView | None:
        """Return the newest action that repairs the page's run by the page's playbook (a known
        failure and its repair), or that repairs the page's incident by another one. The action may
        be under way or have ended.

        Return None if there is no such action. Return None too if it has ended and a new plan was
        made after that, or if it had ended before the incident was opened, because it then repaired
        something else.
        """
        action, plan = self._newest_action(), self.plan
        if action is None or self._is_earlier(action):
            return None
        if action.ended and plan is not None and plan.t > action.updated_t:
            return None
        return action

    def _newest_action(self) -> ActionView | None:
        found = [
            a
            for a in self.pod.ledger.actions.values()
            if (a.kind, a.run) == ("playbook", self.run_name) and self._is_mine(a)
        ]
        return max(found, key=lambda a: a.accepted_t, default=None)

    def _is_earlier(self, action: ActionView) -> bool:
        """Return True if the action was over, or had begun the run again, before this page's
        incident was opened.
        """
        incident = self.incident
        return (
            incident is not None
            and action.ended
            and action.incident != incident.id
            and action.accepted_t < incident.opened_t
        )

    def _is_mine(self, action: ActionView) -> bool:
        if action.playbook == self.playbook_id:
            return True
        return bool(self.incident_id) and action.incident == self.incident_id

    def subject(self) -> Subject:
        """Return the pod and the run that the page is about. The run is None if the pod does not
        know it.
        """
        return Subject(self.pod, self.pod.runs.get(self.run_name))

    def has_plan(self) -> bool:
        """Return True if there is a plan that can be carried out: the agent made one and did not
        refuse, and the page shows no action that already carries it out.
        """
        plan = self.plan
        return plan is not None and not plan.refused and self.action is None

    def without(self, need: str) -> str:
        """Return the sentence to show if a command lacks what `need` names, for example "plan". If
        a plan is lacking because the incident is being repaired already, the sentence says by whom
        and since when; if the plan is being made, it says that.
        """
        if need == "plan" and (going := self._runs()):
            return going
        if need == "plan" and self.plan is None and self._asked_key is not None:
            again = self.console_app.keys["apply"]
            return f"{self.pod.name} was still making the plan; press {again} again."
        return super().without(need)

    def _runs(self) -> str:
        """Return who is carrying out the fix now, from any console, or "" if nobody is."""
        action = self.action
        if action is None or action.ended:
            return ""
        since = formatting.of_day(
            action.accepted_t - (self.pod.link.clock_offset or 0.0), seconds=True
        )
        return f"The fix is running already: by {action.who or 'the agent'} since {since}."

    def trail(self) -> Sequence[str]:
        """Return the breadcrumb of this page for the top bar: fleet, pod, run, and the failure or
        playbook.
        """
        name = self.incident.failure if self.incident else self.playbook_id or ""
        if not self.run_name:
            return ("fleet", self.pod.name, name)
        return ("fleet", self.pod.name, self.run_name, name)

    def hints(self, command: commands.Command) -> bool:
        """Return True if the key bar at the bottom may offer `command` now. Commands that would be
        of no use are left out, for example "next-incident" if no other incident is open.
        """
        if command.id == "plan":
            return self.playbook_id is not None and not self._runs() and not self._over()
        if command.id == "retry":
            return status.link_down(self.pod)
        if command.id == "next-incident":
            return any(one.id != self.incident_id for one in self.pod.ledger.open_incidents())
        return True

    def _over(self) -> bool:
        """Return True if there is nothing to repair here any more: the fix has repaired the run, or
        the incident is over without one.
        """
        if self.action is not None:
            return plans.recovered(self.action)
        return self.incident is not None and self.incident.state != "open"

    def _rank_of_hint(self, command: commands.Command) -> int:
        """Return the place of the command in the key bar. If there is nothing to repair here any
        more, what else is wrong comes first, and then the logs, which show how the run goes on.
        """
        if command.id in _AFTERWARDS and self._over():
            return _AFTERWARDS.index(command.id)
        return super()._rank_of_hint(command)

    # -- drawing

    def draw(self) -> None:
        """Redraw the title and the page."""
        app, width = self.console_app, self.size.width
        playbook = self.playbook_id or ""
        title: list[Line] = [
            [("  playbook ", "head"), (playbook, "bold"), (f" for {self.run_name}", "")]
        ]
        if self.incident is not None:
            title = view.heading(self.incident, self.pod, app.clock, width, self.action)
        self.query_one("#title", Panel).show(title)
        self.text.show(self._page(width - 4))

    def _page(self, width: int) -> list[Line]:
        """Return the page with the newest part first: an action, else a plan, else what the
        playbook would do. The evidence comes below an action or a plan, and the external observers
        last.
        """
        lines = self._progress(width)
        if self.incident is None:
            if lines:
                return [*lines, []]
            return [self._plan_key(_ASKS)]
        action = self.action
        known = view.evidence(self.incident, width, action)
        run = self.pod.runs.get(self.run_name)
        runs = [] if run is None else [run]
        others = observers.lines(self.pod, runs, self.console_app.clock, width)
        if later := self._later():
            known = [*view.later(later, self.pod, self.console_app.keys, width), [], *known]
        if lines:
            return [*lines, [], *known, [], *others]
        if (earlier := self._newest_action()) is not None and self._is_earlier(earlier):
            known += plans.earlier(earlier, self.pod, width)
        text = playbook.load(self.playbook_id or self.incident.failure)
        fix = view.would_do(text, self.incident, self.console_app.keys, width)
        return [*known, [], *fix, [], *others]

    def _later(self) -> list[IncidentView]:
        """Return the open incidents of the run that came after this one, if this one is over or its
        fix has ended: what is wrong now is in them.
        """
        incident, action = self.incident, self.action
        if incident is None or (incident.state == "open" and (action is None or not action.ended)):
            return []
        return [
            other
            for other in self.pod.ledger.open_incidents(self.run_name)
            if other.id != incident.id and other.opened_t > incident.opened_t
        ]

    def _progress(self, width: int) -> list[Line]:
        """Return the action, else the plan, else that it is being made. Empty if there is none."""
        clock, action, plan = self.console_app.clock, self.action, self.plan
        if action is not None:
            again: Line = []
            if action.ended and not plans.recovered(action):
                again = self._plan_key(" makes a new plan from what is now")
            return plans.action_lines(action, self.pod, clock, width, again)
        if plan is not None and plan.refused:
            return [[("NO PLAN", "head")], *fold(plan.refused, width, "warn")]
        if plan is not None:
            lines = plans.plan_lines(plan, self.pod, clock, width, self._how_to_run(plan))
            if self.incident is not None and plan.playbook == self.incident.playbook:
                text = playbook.load(plan.playbook)
                lines[1:1] = view.instead(text, self.incident, width)
            return lines
        if self._asked_key is not None:
            making = f"{self.pod.name} is making the plan"
            return [[("… ", "accent bold"), (making, "accent bold")]]
        return []

    def _plan_key(self, what: str) -> Line:
        return [(f" {self.console_app.keys['plan']} ", "key @plan"), (what, "@plan")]

    def _how_to_run(self, plan: PlanView) -> Line:
        app = self.console_app
        left = plans.expiry(plan, self.pod, app.clock)
        if left == 0:
            return [(app.keys["plan"], "key @plan"), (" makes a new plan", "@plan")]
        if app.read_only or self.pod.read_only:
            return [("read-only: ", "warn"), ("this console cannot run it", "dim")]
        typed = plans.must_type(plan_of(plan))
        how = "after you typed the run's name" if typed else "after a confirmation"
        return [
            (app.keys["apply"], "key @apply"),
            (" runs exactly this plan, ", "@apply"),
            (how, "dim"),
            ("   ", ""),
            (app.keys["plan"], "key @plan"),
            (" makes a new one", "@plan"),
        ]

    # -- the time cursor

    def do_moment(self, args: str) -> None:
        """Set the time cursor (the past moment that all screens show) to the time or step in
        `args`, or, if `args` is empty, to the time when the incident was opened. Then close this
        page and go to the run's screen, which shows that moment. On a page without an incident
        (that of a playbook), without `args`, a message says that there is no such time.
        """
        if args:
            self.go_to_moment(args)
        elif self.incident is None:
            self.console_app.say(
                "This is the page of a playbook: it began at no moment.", severity="warning"
            )
        else:
            self.move_cursor(self.incident.opened_t - (self.pod.link.clock_offset or 0.0))

    def moment_moved(self) -> None:
        """Close this page and go to the run's screen, which shows the moment of the time cursor
        (the past moment that all screens show). This is called each time the cursor has moved. Do
        nothing if the pod does not know the run.
        """
        if (run := self.pod.runs.get(self.run_name)) is not None:
            self.console_app.do_back("")
            self.console_app.call_later(self._show_run, run)

    def _show_run(self, run: RunState) -> None:
        app = self.console_app
        if not (
            isinstance(app.screen, ConsoleScreen)
            and app.screen.place == commands.RUN
            and app.screen.subject().run is run
        ):
            app.open_run(self.pod, run)

    # -- commands

    def do_open(self, args: str) -> None:
        """Open the log at the first piece of evidence that is a line of a log. If no evidence is, a
        message says so. `args` is ignored.
        """
        for entry in self.incident.evidence if self.incident else []:
            stream, cursor = str(entry.get("stream") or ""), str(entry.get("cursor") or "")
            if stream.startswith("log/") and stream.count("/") > 1 and ":" in cursor:
                _, run, source = stream.split("/", 2)
                self.console_app.open_logs(self.pod, run, source, cursor)
                return
        self.console_app.say("No line of a log is among the evidence.")

    def do_plan(self, args: str) -> None:
        """Have the agent make a plan of the playbook whose id is `args`, or of the playbook that is
        shown if `args` is empty. Making a plan changes nothing on the pod. If no playbook repairs
        the incident, or the playbook is being carried out already, a message says so and no plan is
        made.
        """
        if args:
            self._playbook_id = args
        wanted = self.playbook_id
        if wanted is None:
            self.console_app.say(
                "No playbook mends this by itself; the evidence says where to look.",
                severity="warning",
            )
            return
        if self._runs():
            self.console_app.say(self._runs())
            return
        self._asked_key = ""
        self.draw_safely()
        self.console_app.spawn(f"plan {wanted}", self._ask_plan(wanted), self._not_asked)

    def _not_asked(self) -> None:
        self._asked_key = None
        self.redraw()

    async def _ask_plan(self, wanted: str) -> None:
        session = self.session()
        if session is not None:
            self._asked_key = await session.submit(
                "plan", playbook=wanted, run=self.run_name, incident=self.incident_id or ""
            )
            self.redraw()

    def do_apply(self, args: str) -> None:
        """Ask for confirmation, and then have the agent carry out the plan that is shown. If the
        plan has expired, a message says so and nothing is done. Do nothing if no plan is shown.
        `args` is ignored.
        """
        app, plan = self.console_app, self.plan
        if plan is None:
            return
        if plans.expiry(plan, self.pod, app.clock) == 0:
            app.say(
                "This plan has expired: what it saw is history. Make a new one.", severity="warning"
            )
            return
        question = ConfirmScreen(plan, self.pod)
        app.confirm(question, f"run {plan.playbook}", partial(self._run_plan, plan))

    async def _run_plan(self, plan: PlanView) -> None:
        session = self.session()
        if session is None:
            return
        typed = plans.must_type(plan_of(plan))
        confirmed: dict[str, Any] = {"confirm_run": plan.run} if typed else {}
        # The pod may answer with another plan, which is then the one to look at.
        self._asked_key = None
        await session.submit(
            "playbook", playbook=plan.playbook, run=plan.run, plan_hash=plan.plan_hash, **confirmed
        )
        self.redraw()

    def do_next_incident(self, args: str) -> None:
        """Show the next open incident of the pod on this page; after the last one comes the first.
        A message says so if there is no other. `args` is ignored.
        """
        self._step(1)

    def do_previous_incident(self, args: str) -> None:
        """Show the previous open incident of the pod on this page; before the first one comes the
        last. A message says so if there is no other. `args` is ignored.
        """
        self._step(-1)

    def _step(self, by: int) -> None:
        ids = [i.id for i in self.pod.ledger.open_incidents()]
        if not ids or (len(ids) == 1 and ids[0] == self.incident_id):
            self.console_app.say("There is no other open incident on this pod.")
            return
        at = ids.index(self.incident_id) if self.incident_id in ids else -1
        self.incident_id = ids[(at + by) % len(ids)]
        self._asked_key, self._playbook_id = None, None
        self.redraw()

    def do_copy(self, args: str) -> None:
        """Copy the page with its title to the clipboard as text. `args` is ignored."""
        title = self.query_one("#title", Panel)
        self.console_app.copy(f"{title.text}\n\n{self.text.text}", "Copied the incident as text.")
