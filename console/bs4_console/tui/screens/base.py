"""The base of all screens: the two bars, the prompt, and the commands that work wherever there is a
pod.
"""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.css.query import NoMatches
from textual.events import Key
from textual.screen import ModalScreen, Screen, ScreenResultType
from textual.widget import Widget

from bs4_console.tui import commands, status
from bs4_console.tui.widgets.bars import KeyBar, NewsLine, TopBar
from bs4_console.tui.widgets.panel import Panel
from bs4_console.tui.widgets.prompt import Completer, Prompt, PromptKind

if TYPE_CHECKING:
    from bs4_console.pods.session import PodSession
    from bs4_console.pods.state import IncidentView, PodState, RunState
    from bs4_console.tui.app import ConsoleApp


#: The place in the key bar of the stop of a run that is in trouble: behind open and plan. On the
#: fleet it stands behind the incident too.
STOP_HINT, FLEET_STOP_HINT = 13, 21
#: The prompt that asks for a note.
NOTE: PromptKind = "note "


@dataclass(frozen=True)
class Subject:
    """What a command that a person gives on a screen is about: a pod and a run. Each is None if the
    screen, or the row under its cursor, has none.
    """

    pod: PodState | None = None
    run: RunState | None = None

    @property
    def names(self) -> tuple[str, str]:
        """Return (pod's name, run's name). Each is "" if there is no pod or no run."""
        return self.pod.name if self.pod else "", self.run.name if self.run else ""

    @property
    def incidents(self) -> list[IncidentView]:
        """Return the open incidents of the run, root causes first and then the oldest first.
        Without a run, return those that belong to the pod itself, and without a pod, [].
        """
        if self.pod is None:
            return []
        return status.incidents_of(self.pod, self.run)


class ConsoleScreen(Screen[None]):
    """A full screen of the console: a top bar, widgets of its own, a prompt and a key bar. A
    subclass gives its name `place`, `body()`, `draw()` and its commands as `do_...` methods, whose
    `args` is the text after the command's name.
    """

    place: ClassVar[str] = ""
    AUTO_FOCUS = ""
    DEFAULT_CSS = """
    ConsoleScreen { layout: vertical; overflow: hidden; }
    ConsoleScreen > #foot { dock: bottom; height: auto; }
    """

    ready = False
    """True once the widgets exist. Messages and the repaint timer may come earlier."""
    drawn = False
    """True once the screen was drawn."""

    @property
    def console_app(self) -> ConsoleApp:
        """Return the app that shows this screen, with the type ConsoleApp."""
        return cast("ConsoleApp", self.app)

    def compose(self) -> ComposeResult:
        """Yield the top bar, the screen's own widgets, and the foot with the prompt, the line for
        messages and the key bar. The foot keeps its rows: the screen's own widgets get what is
        left.
        """
        yield TopBar()
        yield from self.body()
        with Vertical(id="foot"):
            yield Prompt()
            yield NewsLine()
            yield KeyBar()

    def body(self) -> Iterable[Widget]:
        """Return the widgets between the top bar and the prompt. There are none unless a subclass
        overrides this.
        """
        return ()

    def trail(self) -> Sequence[str]:
        """Return the breadcrumb of this screen for the top bar: the names of the places that lead
        to it, for example ("fleet", "h100-a", "math-7b").
        """
        return (self.place,)

    def subject(self) -> Subject:
        """Return the pod and the run that a command is about if a person gives it on this screen
        now. Both are None unless a subclass overrides this.
        """
        return Subject()

    def draw(self) -> None:
        """Redraw everything but the logs from the present data. Called when data has changed, and
        once a second. A subclass overrides it.
        """

    def pulse(self) -> None:
        """Paint what has changed in the screen's log, if it has one. The app calls this at every
        repaint, ten times a second or four times over SSH. A subclass with a log overrides it.
        """

    def main(self) -> Widget | None:
        """Return the widget that has the focus while no prompt is open, or None if no widget needs
        it.
        """
        return None

    def has_plan(self) -> bool:
        """Return True if the screen shows a plan that can be carried out. Screens without plans
        return False.
        """
        return False

    def acted(self) -> None:
        """Note that a command is carried out for the pod and run that the screen is about now. A
        screen on which these can change by themselves, such as a table that sorts its rows again,
        overrides this to keep them. Here nothing is done.
        """

    def without(self, need: str) -> str:
        """Return the sentence to show if something is missing that a command needs. `need` is what
        is missing: "pod", "run", "incident", "plan", or "write" (the console or the pod is
        read-only).
        """
        if need == "incident":
            return self._elsewhere() or commands.NEEDS[need]
        return commands.NEEDS[need].format(**self.console_app.keys)

    def _elsewhere(self) -> str:
        """Return where the worst incident of all pods is, in a sentence, or "" if there is none."""
        app = self.console_app
        for row in app.overview.rows(app.fleet.pods, app.clock):
            pod = app.fleet.pod(row.key[0])
            if pod is None:
                continue
            found = status.incidents_of(pod, pod.runs.get(row.key[1]))
            if found:
                place = "/".join(name for name in row.key if name)
                how = f"{app.keys['urgent']} on the fleet goes there"
                if row.key[1]:
                    how = f":run {place} goes there"
                return f"No incident is open here. On {place}: {found[0].title}; {how}."
        return ""

    # -- drawing

    def on_mount(self) -> None:
        """Let the screen be drawn from now on, and give its main widget the focus."""
        self.ready = True
        self.refocus()

    def on_screen_resume(self) -> None:
        """Redraw the screen, because it was not updated while another screen was on top of it."""
        # Runs after Textual's own handler, which lays out the screen, so that the first paint is up
        # to date.
        self.call_next(self.redraw)

    def _compositor_refresh(self) -> None:
        """Paint, unless the screen was not drawn yet. Textual would paint the empty widgets then,
        and everything once more.
        """
        if self.drawn:
            began = time.perf_counter()
            super()._compositor_refresh()
            self.console_app.drew(time.perf_counter() - began)

    def on_resize(self) -> None:
        """Redraw the screen in its new size."""
        self.call_after_refresh(self.redraw)

    def redraw(self) -> None:
        """Redraw the whole screen now, with its log. Do nothing before its widgets exist."""
        if not self.ready or not self.is_mounted or self.size.width == 0:
            return
        first = not self.drawn
        self.draw_safely()
        self.pulse_safely()
        if first:
            # The widgets are laid out for their new content now, so that they are painted once and
            # not twice. They would clear these caches later.
            for widget in (self, *self.query(Widget)):
                widget._clear_arrangement_cache()
                widget.clear_cached_dimensions()
            self._refresh_layout()

    def draw_safely(self) -> None:
        """Redraw the bars and everything else but the logs. If malformed records of a pod cause an
        error, a message names it once, and the console goes on. Nothing happens while the widgets
        are being built or taken down.
        """
        self.drawn = True
        try:
            self.draw_bars()
            self.draw()
        except NoMatches:
            return  # being built or taken down: its widgets come and go one by one
        except status.MALFORMED as error:
            self.console_app.not_drawn(self.place, error)

    def pulse_safely(self) -> None:
        """Paint what has changed in the screen's log. Nothing happens while the widgets are being
        built or taken down.
        """
        with contextlib.suppress(NoMatches):
            self.pulse()

    def draw_bars(self) -> None:
        """Redraw the top bar and the key bar."""
        app = self.console_app
        rows = app.overview.rows(app.fleet.pods, app.clock)
        # The screens of a run and of a pod show the link themselves.
        linked = self.place in (commands.INCIDENT, commands.LOG, commands.CHECKPOINTS)
        self.query_one(TopBar).tell(
            self.trail(),
            rows,
            app.clock,
            app.read_only or self._pod_is_locked(),
            app.settings.quiet,
            self.subject().pod if linked else None,
        )
        self.draw_news()
        self.query_one(KeyBar).tell(self._hints(), self.size.width)

    def _hints(self) -> Iterator[tuple[str, str, commands.Command]]:
        app = self.console_app
        for c in sorted(commands.at(self.place), key=self._rank_of_hint):
            key = app.keys.get(c.id)
            if c.hint and key and not app.lacks(c, self) and self._timely(c) and self.hints(c):
                yield key, c.title.lower(), c

    def draw_news(self) -> None:
        """Redraw the line above the key bar, which shows the newest message. Do nothing before the
        widgets exist.
        """
        for line in self.query(NewsLine):
            line.tell(self.console_app.news, self.size.width)

    def _rank_of_hint(self, command: commands.Command) -> int:
        """Return the place of the command in the key bar; 1000 if it is not shown there. The stop
        of a run that is in trouble stands right after the plan, so that it fits at 80 columns.
        """
        if command.id == "stop" and self._in_trouble():
            return FLEET_STOP_HINT if self.place == commands.FLEET else STOP_HINT
        return command.hint or 1000

    def _in_trouble(self) -> bool:
        """Return True if the subject's run is alive and has an open incident or is late."""
        subject = self.subject()
        pod, run = subject.pod, subject.run
        if pod is None or run is None or not run.alive:
            return False
        return bool(subject.incidents or status.late(pod, run, self.console_app.clock))

    def _timely(self, command: commands.Command) -> bool:
        """Return True if the key bar may offer the command for the subject's state. A launch is
        offered if no run is alive, and a merge only if the run's checkpoint can be merged.
        """
        subject = self.subject()
        if command.id == "pod":
            return subject.pod is not None
        if command.id == "merge":
            here = self.place in (commands.RUN, commands.CHECKPOINTS)
            return here and subject.run is not None and _merges(subject.run)
        return (
            command.id != "launch"
            or subject.run is None
            or subject.run.word in ("failed", "stopped", "finished")
        )

    def _pod_is_locked(self) -> bool:
        """Return True if this screen is about one pod and that pod is read-only."""
        about_one = self.place in (
            commands.POD,
            commands.RUN,
            commands.INCIDENT,
            commands.LOG,
            commands.CHECKPOINTS,
        )
        pod = self.subject().pod if about_one else None
        return pod is not None and pod.read_only

    def hints(self, command: commands.Command) -> bool:
        """Return True if the key bar at the bottom may offer `command` now. Here that is every
        command but the one that opens this very screen. A subclass also leaves out commands that
        would be of no use at the moment.
        """
        return command.id != self.place

    def on_key(self, event: Key) -> None:
        """Handle a key that does nothing on this screen: show a message that says what the key does
        on other screens, or how to find that out. Only letters and signs get a message, and none
        while a prompt is open.
        """
        if event.is_printable and event.character and not self.prompt.is_open:
            self.console_app.say(self._useless(event.character, event.key), severity="warning")

    def _useless(self, letter: str, key: str) -> str:
        app = self.console_app
        if letter == "q":
            return f"q does nothing here: :q leaves, {app.keys['back']} goes one level up."
        shown = commands.key_text(key)
        for command in commands.COMMANDS:
            if app.keys.get(command.id) == shown:
                where = " or ".join(sorted(command.where))
                return f"{shown} ({command.title.lower()}) does nothing here, only on: {where}."
        return f"{letter} does nothing here; {app.keys['help']} shows the keys."

    def refocus(self) -> None:
        """Give the focus to the main widget (see `main`), for example after a prompt was closed."""
        if (widget := self.main()) is not None:
            self.set_focus(widget)

    # -- the prompt

    @property
    def prompt(self) -> Prompt:
        """Return the prompt at the bottom of the screen, open or not."""
        return self.query_one(Prompt)

    def ask(self, kind: PromptKind, initial: str = "", complete: Completer | None = None) -> None:
        """Open the prompt at the bottom of the screen. `kind` is what is typed in it, and stands
        before the text, for example "/" for a filter. `initial` is the text at first. `complete`
        returns the texts that Tab offers for the text so far; None offers nothing.
        """
        self.prompt.ask(kind, initial, complete)

    def do_command(self, args: str) -> None:
        """Open the prompt in which commands are typed (`:`). `args` is the text that stands in it
        at first.
        """
        self.ask(":", args, self.console_app.complete)

    @on(Prompt.Entered)
    def _entered(self, event: Prompt.Entered) -> None:
        event.stop()
        if event.kind != ":":
            self.prompt.close()
            self.refocus()
            if event.kind == NOTE:
                self._write_note(event.text)
            else:
                self.prompted(event.kind, event.text, final=True)
            return
        complaint = self.console_app.typed(event.text, self)
        if complaint:
            self.prompt.refuse(complaint)
        else:
            self.prompt.close()
            self.refocus()

    @on(Prompt.Changed)
    def _changed(self, event: Prompt.Changed) -> None:
        event.stop()
        if event.kind not in (":", NOTE):
            self.prompted(event.kind, event.text, final=False)

    @on(Prompt.Cancelled)
    def _cancelled(self, event: Prompt.Cancelled) -> None:
        event.stop()
        self.refocus()
        if event.kind not in (":", NOTE):
            self.prompted(event.kind, "", final=True)

    def prompted(self, kind: str, text: str, *, final: bool) -> None:
        """Handle what was typed in a prompt other than those for commands and notes. `kind` is what
        the prompt was opened for, such as "/", and `text` its text. The prompt calls this at every
        change of the text with `final` False, and with `final` True on Enter, and on Esc with "" as
        the text. A subclass that opens such prompts overrides this.
        """

    # -- commands that work wherever there is a pod

    def session(self) -> PodSession | None:
        """Return the session with the pod that this screen is about now (in a table: the pod of the
        row under the cursor). Return None if there is no such pod, or no session with it.
        """
        pod = self.subject().pod
        if pod:
            return self.console_app.fleet.sessions.get(pod.name)
        return None

    def do_retry(self, args: str) -> None:
        """Try to connect to the pod of this screen (in a table: of the row under the cursor) now,
        without waiting for the time of the next attempt. Do nothing without a session with a pod.
        `args` is ignored.
        """
        session = self.session()
        if session is not None:
            session.retry_now()
            self.console_app.say(f"Trying {session.state.name} now.")

    def do_shell(self, args: str) -> None:
        """Open a shell on the pod that the screen is about. Do nothing without a pod. `args` is
        ignored.
        """
        if (pod := self.subject().pod) is not None:
            self.console_app.open_shell(pod)

    def do_ssh(self, args: str) -> None:
        """Copy the ssh command that opens a shell on the pod to the clipboard, and show the command
        in a message. If the pod is this machine, the message says so instead and nothing is copied.
        `args` is ignored.
        """
        pod = self.subject().pod
        if pod is not None and pod.address in ("", "local"):
            self.console_app.say(f"{pod.name} is this machine: open a shell here.")
        elif pod is not None:
            command = shlex.join(self.console_app.shell_command(pod))
            self.console_app.copy(command, f"Shell on {pod.name}: {command}")

    def do_launch(self, args: str) -> None:
        """Open the dialog that launches a run on the pod. `args` fills its form, as "CONFIG RUN"
        (the path of a config and the name of a run), or is empty. If the person starts the run
        there, the run's screen is opened, and a message tells later how the start has ended.
        """
        from bs4_console.tui.screens.launch import LaunchScreen

        subject, session = self.subject(), self.session()
        if subject.pod is None:
            return
        app, form = self.console_app, LaunchScreen(subject.pod, subject.run, args)

        def started(key: str | None) -> None:
            if key and session is not None and form.plan is not None:
                app.say(
                    f"{form.plan.run} is being started on {form.pod.name}; it is called good "
                    "when its first step is done."
                )
                app.spawn(f"start {form.plan.run}", self._watch_launch(session, key))

        app.push_screen(form, started)

    async def _watch_launch(self, session: PodSession, key: str) -> None:
        """Follow the launch until it has ended. Opens the run as soon as there is one, unless the
        person has gone elsewhere, and tells how the start ended.
        """
        from bs4_console.launch import guide, run_incidents

        app, pod, there = self.console_app, session.state, False

        def tell(incident: IncidentView) -> None:
            """Tell the person of a critical incident. The run's screen shows the others."""
            if incident.severity == "critical":
                how = (
                    f"{app.keys['incident']} shows what is known of it, {app.keys['stop']} ends "
                    "the run."
                )
                app.say(
                    f"{incident.run} does not start well: {incident.title}. {how}", severity="error"
                )

        with contextlib.ExitStack() as reporting:
            async for action in session.follow_action(key):
                run = pod.runs.get(action.run)
                if run is not None and not there:
                    there = True
                    reporting.enter_context(run_incidents.reported(pod, action, tell))
                    if app.screen is self and not (
                        self.place == commands.RUN and self.subject().run is run
                    ):
                        app.open_run(pod, run)
                app.say_end(action, guide.verdict(action, pod)[0])

    def do_note(self, args: str) -> None:
        """Write the note `args` about the screen's run (in a table: the run under the cursor) into
        the journal of the run's pod, the agent's log of actions and incidents. If `args` is empty,
        open a prompt in which the text is typed.
        """
        if args:
            self._write_note(args)
        else:
            self.ask(NOTE)

    def _write_note(self, text: str) -> None:
        subject, session = self.subject(), self.session()
        if text.strip() and subject.run is not None and session is not None:
            self.console_app.spawn(
                "note", self._submit_note(session, subject.run.name, text.strip())
            )

    async def _submit_note(self, session: PodSession, run: str, text: str) -> None:
        await session.submit("note", run=run, text=text)
        self.console_app.say(f"Noted for {run} on {session.state.name}.")

    def do_merge(self, args: str) -> None:
        """Have the pod's agent plan the merge of a verl run's checkpoint, which is saved in parts,
        into one Hugging Face directory on the pod, and ask the person to confirm the plan. `args`
        is the checkpoint's step, or "" for the newest complete checkpoint.
        """
        from bs4_console.tui import merging

        subject, session = self.subject(), self.session()
        if subject.run is not None and session is not None:
            merging.begin(self.console_app, session, subject.run.name, args)

    def do_stop(self, args: str) -> None:
        """Ask for confirmation, and then have the pod's agent stop the run. A message tells whether
        the run was stopped. `args` is ignored.
        """
        from bs4_console.launch import stopping
        from bs4_console.tui.screens.stop import StopScreen

        subject, session = self.subject(), self.session()
        pod, run = subject.pod, subject.run
        if pod is not None and run is not None and session is not None:
            work = partial(self._submit_stop, session, **stopping.subject(session, run))
            self.console_app.confirm(StopScreen(pod, run), f"stop {run.name}", work)

    async def _submit_stop(self, session: PodSession, run: str, **subject: Any) -> None:
        """Submit the stop of `run`, with the other fields of `subject`, and tell how it ends. The
        agent carries it out even if this console leaves.
        """
        app = self.console_app
        key = await session.submit("stop", run=run, **subject)
        app.say(f"{session.state.name} stops {run}; {app.keys['journal']} shows how far it is.")
        async for action in session.follow_action(key):
            said = action.detail or action.state
            app.say_end(action, said if run in said else f"{run}: {said}")


def _merges(run: RunState) -> bool:
    # Imported here, so that the first paint does not wait for the modules of all trainers.
    from bs4_console.checkpoints import merge

    return merge.possible(run)


class PageScreen(ConsoleScreen):
    """A screen with one long text that can be scrolled. A subclass gives `panel`, the id of the
    widget with the text, and `draw()`, which fills it.
    """

    panel: ClassVar[str] = "text"

    def body(self) -> Iterable[Widget]:
        """Yield the scrolled area with the widget that shows the text."""
        with VerticalScroll():
            yield Panel(id=self.panel)

    def main(self) -> Widget:
        """Return the scrolled area, which has the focus."""
        return self.query_one(VerticalScroll)

    @property
    def text(self) -> Panel:
        """Return the widget that shows the text."""
        return self.query_one(f"#{self.panel}", Panel)


class Question(ModalScreen[ScreenResultType]):
    """A dialog on top of a screen. Its answer is what it passes to `dismiss`, which closes it."""

    def tell(self) -> None:
        """Show the dialog's text from the present data. Called when data has changed, and once a
        second. A subclass must override it.
        """
        raise NotImplementedError

    def tell_safely(self) -> None:
        """Show the dialog's text from the present data. Nothing happens while its widgets are being
        built or taken down. If malformed records of a pod cause an error, a message names it and
        the dialog closes without an answer: what cannot be shown cannot be confirmed.
        """
        try:
            self.tell()
        except NoMatches:
            return
        except status.MALFORMED as error:
            cast("ConsoleApp", self.app).not_drawn("the question", error)
            self.dismiss()

    def action_page(self, way: int) -> None:
        """Scroll the dialog by a page: down if `way` is positive, up otherwise. The keys for it
        work also while an input field of the dialog has the focus.
        """
        scroll = self.query_one(VerticalScroll)
        (scroll.scroll_page_down if way > 0 else scroll.scroll_page_up)(animate=False)

    def on_mount(self) -> None:
        """Show the dialog's text for the first time."""
        self.tell_safely()

    def on_resize(self) -> None:
        """Fit the dialog's text to its new size."""
        if self.query(Panel):
            self.call_after_refresh(self.tell_safely)
