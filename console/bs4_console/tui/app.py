"""The screen of the console: one app over a Fleet, painted at a fixed rate from what changed."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import App, SuspendNotSupported, SystemCommand
from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.filter import LineFilter, NoColor
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from bs4_console.core import settings
from bs4_console.core.errors import ConsoleError
from bs4_console.core.settings import Settings
from bs4_console.tui import commands, pins, themes
from bs4_console.tui.alerts import Alerts, silence, silent, sound
from bs4_console.tui.clipboard import copy
from bs4_console.tui.clock import Clock
from bs4_console.tui.ink import Ink, harmless
from bs4_console.tui.kept import Kept
from bs4_console.tui.keymap import check, load_keymap
from bs4_console.tui.offers import offers
from bs4_console.tui.overview import Overview
from bs4_console.tui.remote import remote
from bs4_console.tui.screens.base import ConsoleScreen, Question, Subject
from bs4_console.tui.screens.fleet import FleetScreen
from bs4_console.tui.screens.messages import KEPT, MessagesScreen, Said

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bs4_console.core.fleet import Fleet
    from bs4_console.core.state import PodState, RunState

#: Paints a second. A full-screen tail costs 252 KiB/s at 10 Hz and 101 at 4: over SSH that is the line's, not the log's, limit.
LOCAL_HZ, REMOTE_HZ = 10.0, 4.0
_NO_COLOUR = NoColor()


def _palette() -> type[Provider]:
    from bs4_console.tui.palette import ConsoleCommands

    return ConsoleCommands


class ConsoleApp(App[int], inherit_bindings=False):
    """`clock` and `keymap` ({command id: key}) are injected by tests; everything shown of a pod comes from `fleet`."""

    TITLE = "bs4-console"
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {_palette}
    # Textual would bind ctrl+p itself, beside the table; only its palette is wanted.
    ENABLE_COMMAND_PALETTE = False
    NOTIFICATION_TIMEOUT = 6
    AUTO_FOCUS = ""
    # With priority the app itself acts on the key, before the next one is handed out. Otherwise keys wait in the focused widget's queue,
    # and of a quickly typed `:q` the q would get there before the `:` has moved the focus.
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(",".join(c.keys), f"command({c.id!r})", c.title, tooltip=c.help, show=False, priority=True, id=c.id)
            for c in commands.COMMANDS
            if c.keys
        ),
        *(
            Binding(digit, f"command('jump', {digit!r})", f"Jump to {digit}", show=False, priority=True, id=f"jump.{digit}")
            for digit in commands.DIGITS
        ),
    ]
    CSS = """
    Toast { max-width: 80; }
    ToastRack { margin-bottom: 1; }
    * { scrollbar-background: $background; scrollbar-background-hover: $background; scrollbar-color: $panel-lighten-2; }
    """

    def __init__(
        self,
        fleet: Fleet,
        *,
        read_only: bool = False,
        clock: Clock | None = None,
        keymap: Mapping[str, str] | None = None,
        settings: Settings | None = None,
        told: Sequence[str] = (),
    ) -> None:
        # With NO_COLOR Textual only turns colours into greys, unless it may use the terminal's own; then it leaves them all away.
        no_colour = "NO_COLOR" in os.environ
        super().__init__(ansi_color=True if no_colour else None)
        self.fleet, self.read_only, self.clock = fleet, read_only, clock or Clock()
        self.use_command_palette = True
        for theme in themes.OWN:
            self.register_theme(theme)
        self.settings = settings or Settings()
        self._told = list(told)
        self.theme = self.settings.theme if self.settings.theme in self.available_themes else themes.OWN[0].name
        self.animation_level = "none"
        self.messages: deque[Said] = deque(maxlen=KEPT)
        self.ink = self._fresh_ink()
        self._keymap_wanted = dict(keymap or {})
        self.keys: dict[str, str] = {c.id: commands.key_text(c.keys[0]) for c in commands.COMMANDS if c.keys}
        self._dirty = True
        self.remote = False
        self._second = -1
        self._after_failure: dict[str, Callable[[], None]] = {}
        self._greeted: set[str] = set()
        self.kept = Kept(self.settings)
        self.overview = Overview()
        self.alerts = Alerts()

    # -- life

    def get_default_screen(self) -> Screen[None]:
        return FleetScreen()

    def on_mount(self) -> None:
        self._remap()
        for sentence in self._told:
            self.say(sentence, severity="warning")
        self.fleet.on_change(self._changed)
        self.fleet.start()
        self.remote = remote()
        self.set_interval(1 / (REMOTE_HZ if self.remote else LOCAL_HZ), self.tick)
        self.call_after_refresh(gc.freeze)

    async def on_unmount(self) -> None:
        await self.fleet.stop()

    def _changed(self, pod: PodState) -> None:
        """Called by sessions for every batch they read; the next tick paints."""
        self._dirty = True
        self.overview.changed(pod)

    def tick(self) -> None:
        """The only repaint timer. Data is drawn when it changed, ages once a second, logs at every tick."""
        if not self.screen_stack:
            return  # the last tick of an app that is leaving
        second = int(self.clock.wall())
        # Over a link of its own, news wait for the second: a table of ages and meters is repainted once, not four times.
        due = second != self._second or (self._dirty and not self.remote)
        if due:
            self._dirty, self._second = False, second
        # From the top down to the first whole screen: behind a question the world goes on.
        for screen in reversed(self.screen_stack):
            if isinstance(screen, Question) and due:
                screen.tell()
            if isinstance(screen, ConsoleScreen):
                if screen.ready and screen.is_mounted:
                    if due:
                        screen.draw_safely()
                    screen.pulse_safely()
                break
        if due:
            self._alert()
            self.kept.restore(self)
            self._greet()

    def _alert(self) -> None:
        """What became worse since the last look: a toast each, and one sound for all of them."""
        now = self.clock.mono()
        worse = self.alerts.look(self.overview.rows(self.fleet.pods, self.clock), now)
        found = [alert for alert in worse if not silent(alert.key, self.settings.silenced)]
        if not found or self.settings.quiet:
            return
        for alert in found[:3]:
            self.say(alert.text, severity="error" if alert.rank == 4 else "warning")
        if len(found) > 3:
            self.say(f"And {len(found) - 3} more; {self.keys['urgent']} on the fleet goes from one to the next.", severity="warning")
        if self.alerts.may_sound(now):
            self._to_terminal(sound(found))

    def do_silence(self, args: str) -> None:
        subject = self.screen.subject() if isinstance(self.screen, ConsoleScreen) else Subject()
        said, severity = silence(self.settings, subject.pod.name if subject.pod else "", subject.run.name if subject.run else "", args)
        self.say(said, severity=severity)
        self._dirty = True

    def do_pin(self, args: str) -> None:
        pins.toggle(self)

    def do_jump(self, args: str) -> None:
        pins.jump(self, args)

    def _fresh_ink(self) -> Ink:
        return Ink(self.current_theme, colour=not self.no_color and self.theme != themes.NO_COLOUR.name)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's own, and none of its colours under the theme without."""
        own = super().get_line_filters()
        return [*own, _NO_COLOUR] if self.theme == themes.NO_COLOUR.name else own

    def watch_theme(self, theme: str) -> None:
        self.ink = self._fresh_ink()
        if self.is_running and isinstance(self.screen, ConsoleScreen):
            self.call_after_refresh(self._repaint)

    def _repaint(self) -> None:
        for widget in self.screen.query("*"):
            widget.refresh()

    # -- keys

    def _remap(self) -> None:
        """The user's own keys over the defaults; what cannot be is said, never silently dropped."""
        keymap, complaints = check(self._keymap_wanted)
        for complaint in complaints:
            self.say(complaint, severity="warning")
        self.set_keymap(keymap)
        self.keys |= {name: commands.key_text(key.split(",")[0]) for name, key in keymap.items()}

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A key does nothing on a screen where its command has no place, and is a letter while a prompt is open."""
        if action == "command" and parameters:
            command, screen = commands.BY_ID.get(str(parameters[0])), self.screen
            if command is None or not isinstance(screen, ConsoleScreen) or not screen.ready:
                return False
            return screen.place in command.where and not screen.prompt.is_open
        return super().check_action(action, parameters)

    def action_command(self, name: str, args: str = "") -> None:
        command = commands.BY_ID[name]
        self.kept.give_up()
        if isinstance(self.screen, ConsoleScreen) and self.screen.place in command.where:
            self.carry_out(command, args)

    # -- commands

    def lacks(self, command: commands.Command, screen: ConsoleScreen) -> str:
        """Why the command cannot be given here and now; empty when it can."""
        subject = screen.subject()
        has = {
            "pod": subject.pod is not None,
            "run": subject.run is not None,
            "incident": bool(subject.incidents),
            "plan": screen.has_plan(),
            "write": not self.read_only and not (subject.pod and subject.pod.read_only),
        }
        return next((commands.NEEDS[need] for need in command.needs if not has[need]), "")

    def carry_out(self, command: commands.Command, args: str) -> None:
        """From a key, the palette or a click: what is missing is said as a toast."""
        screen = self.screen
        if not isinstance(screen, ConsoleScreen):
            return
        if complaint := self.lacks(command, screen):
            self.say(complaint, severity="warning")
            return
        self.handler(command, screen)(args)

    def typed(self, text: str, screen: ConsoleScreen) -> str:
        """From the `:` line; returns what is wrong with it, or nothing."""
        if not text.strip():
            return ""
        command, args = commands.parse(text)
        if command is None:
            return f"There is no command {text.split()[0]!r}; Tab shows what there is, :help explains it."
        if screen.place not in command.where:
            return f":{command.names[0]} works on {', '.join(sorted(command.where))}."
        if complaint := self.lacks(command, screen):
            return complaint
        self.call_later(self.handler(command, screen), args)
        return ""

    def handler(self, command: commands.Command, screen: ConsoleScreen) -> Callable[[str], None]:
        """The screen's own method, else the app's."""
        found: Callable[[str], None] = getattr(screen, command.handler, None) or getattr(self, command.handler)
        return found

    def complete(self, text: str) -> Sequence[str]:
        """What Tab offers for the last word of a command line."""
        word, space, rest = text.partition(" ")
        place = self.screen.place if isinstance(self.screen, ConsoleScreen) else ""
        if not space:
            names = sorted(name for c in commands.COMMANDS if place in c.where for name in c.names if name.startswith(word))
            return [name for name in names if len(name) > 1 or name == word]
        command, _ = commands.parse(word)
        if command is None:
            return []
        return [offer for offer in offers(self, command.completes) if offer.startswith(rest)]

    def do_quit(self, args: str) -> None:
        self.kept.note(self)
        self.exit(0)

    def do_back(self, args: str) -> None:
        if len(self.screen_stack) > 1:
            self.pop_screen()

    def do_help(self, args: str) -> None:
        from bs4_console.tui.screens.help import HelpScreen

        if isinstance(self.screen, ConsoleScreen) and not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(self.screen.place))

    def do_messages(self, args: str) -> None:
        if not isinstance(self.screen, MessagesScreen):
            self.push_screen(MessagesScreen())

    def do_journal(self, args: str) -> None:
        from bs4_console.tui.screens.journal import JournalScreen

        if not isinstance(self.screen, JournalScreen):
            self.push_screen(JournalScreen())

    def do_gpus(self, args: str) -> None:
        from bs4_console.tui.screens.gpus import GpusScreen

        if not isinstance(self.screen, GpusScreen):
            self.push_screen(GpusScreen())

    def do_palette(self, args: str) -> None:
        self.action_command_palette()

    def do_theme(self, args: str) -> None:
        names = themes.names(self.available_themes)
        if args and args not in names:
            self.say(f"There is no theme {args}; there are {', '.join(names)}.", severity="warning")
            return
        self.theme = args or names[(names.index(self.theme) + 1) % len(names)]
        self.say(f"Theme {self.theme}.")

    def do_fleet(self, args: str) -> None:
        while len(self.screen_stack) > 1:
            self.pop_screen()

    def do_pod(self, args: str) -> None:
        if not any(pod.name == args for pod in self.fleet.pods):
            self.say(
                f"There is no pod {args!r}; there are {', '.join(sorted(p.name for p in self.fleet.pods)) or 'none'}.", severity="warning"
            )
            return
        self.do_fleet("")
        self.call_later(self._select, args)

    def _select(self, pod: str) -> None:
        if isinstance(self.screen, FleetScreen):
            self.screen.select(pod)

    def do_run(self, args: str) -> None:
        pod_name, slash, run_name = args.rpartition("/")
        found = [(p, p.runs[run_name]) for p in self.fleet.pods if run_name in p.runs and (not slash or p.name == pod_name)]
        if len(found) == 1:
            self.do_fleet("")
            self.call_later(self.open_run, *found[0])
        elif found:
            self.say(
                f"{run_name} runs on {', '.join(p.name for p, _ in found)}; say which: :run {found[0][0].name}/{run_name}",
                severity="warning",
            )
        else:
            self.say(f"There is no run {args!r}; Tab after `:run ` shows all.", severity="warning")

    def do_logs(self, args: str) -> None:
        subject = self.screen.subject() if isinstance(self.screen, ConsoleScreen) else Subject()
        if subject.pod and subject.run:
            self.open_logs(subject.pod, subject.run.name, args or None)

    def do_incident(self, args: str) -> None:
        if isinstance(self.screen, ConsoleScreen):
            self.open_incident(self.screen.subject(), args)

    # -- where to

    def open_run(self, pod: PodState, run: RunState) -> None:
        from bs4_console.tui.screens.run import RunScreen

        self.push_screen(RunScreen(pod, run))

    def open_pod(self, pod: PodState) -> None:
        from bs4_console.tui.screens.pod import PodScreen

        self.push_screen(PodScreen(pod))

    def open_logs(self, pod: PodState, run: str, source: str | None = None, at: str | None = None) -> None:
        from bs4_console.tui.screens.log import LogScreen

        known = [stream.rpartition("/")[2] for stream in pod.streams if stream.startswith(f"log/{run}/")]
        if source is not None and source not in known:
            self.say(f"{run} has no log {source}; there are {', '.join(known) or 'none yet'}.", severity="warning")
            return
        self.push_screen(LogScreen(pod, run, source, at))

    def open_incident(self, subject: Subject, failure: str = "") -> None:
        from bs4_console.tui.screens.incident import IncidentScreen

        found = [i for i in subject.incidents if failure in ("", i.failure)]
        if subject.pod is None or not found:
            self.say(f"There is no open incident {failure} here.".replace("  ", " "), severity="warning")
            return
        self.push_screen(IncidentScreen(subject.pod, found[0].id))

    def open_plan(self, subject: Subject, playbook: str) -> None:
        """The page of a playbook for a run; without a name, that of its worst incident."""
        from bs4_console.tui.screens.incident import IncidentScreen

        if subject.pod is None or subject.run is None:
            return
        incident = next((i for i in subject.incidents if playbook in ("", i.playbook, i.failure)), None)
        if incident is None and not playbook:
            self.say("No incident is open here, so name the playbook: :plan ID (Tab shows them).", severity="warning")
            return
        screen = IncidentScreen(subject.pod, incident.id if incident else None, subject.run.name, playbook or None)
        self.push_screen(screen)
        screen.call_after_refresh(screen.do_plan, "")

    def show_host_key(self, pod: PodState) -> None:
        from bs4_console.tui.screens.host_key import HostKeyScreen

        self._greeted.add(pod.name)
        self.push_screen(HostKeyScreen(pod))

    def open_shell(self, pod: PodState) -> None:
        """In tmux in a window of its own; else here, and the screen comes back when the person leaves it."""
        from bs4_console.core import shell
        from bs4_console.tui import outside

        try:
            argv = shell.argv(pod.name, pod.address)
            self.say(f"Shell on {pod.name}:", outside.words(argv))
            if outside.in_tmux():
                outside.window(pod.name, argv)
                return
            with self.suspend():
                code = outside.here(argv)
        except SuspendNotSupported:
            self.say("This terminal cannot be left and come back to.", f"Open one yourself: {outside.words(argv)}", severity="warning")
            return
        except ConsoleError as error:
            self.say(error.message, error.next_step, severity="error")
            return
        self.refresh(layout=True)
        if code:
            self.say(f"The shell on {pod.name} ended with {code}.", severity="warning")

    def _greet(self) -> None:
        """First contact is a person's decision: ask once per pod, on the fleet, one at a time. The row goes on saying it."""
        if not isinstance(self.screen, FleetScreen) or self.screen.prompt.is_open:
            return
        waiting = [pod for pod in self.fleet.pods if pod.link.state == "host key?" and pod.name not in self._greeted]
        if waiting:
            self.show_host_key(waiting[0])

    # -- telling

    def say(self, text: str, more: str = "", severity: str = "information") -> None:
        """A toast, and a line that stays in the messages."""
        self.messages.append(Said(self.clock.wall(), severity, text, more))
        shown = harmless(f"{text} {more}".strip())
        self.notify(shown, severity="error" if severity == "error" else "warning" if severity == "warning" else "information", markup=False)

    def copy(self, text: str, said: str) -> None:
        self._clipboard = text
        self.say(said, copy(text, self._to_terminal))

    def _to_terminal(self, sequence: str) -> None:
        if self._driver is not None:
            self._driver.write(sequence)

    def spawn(self, what: str, work: Coroutine[Any, Any, None], failed: Callable[[], None] | None = None) -> Worker[None]:
        """Run `work`; whatever goes wrong in it becomes a message, never the end of the app."""
        worker = self.run_worker(work, name=what, group=what, exit_on_error=False)
        if failed is not None:
            self._after_failure[str(id(worker))] = failed
        return worker

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        worker = event.worker
        # The event's state, not the worker's: by the time that "running" is told here it may be over.
        if event.state in (WorkerState.SUCCESS, WorkerState.ERROR, WorkerState.CANCELLED):
            failed = self._after_failure.pop(str(id(worker)), None)
            if event.state == WorkerState.ERROR:
                self._worker_failed(worker)
                if failed is not None:
                    failed()

    def _worker_failed(self, worker: Worker[Any]) -> None:
        error = worker.error
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if isinstance(error, ConsoleError):
            self.say(error.message, error.next_step, severity="error")
            return
        place = _place(error)
        self.say(
            f"{worker.name}: {type(error).__name__}: {error}{place}", "This is a fault of the console; please report it.", severity="error"
        )

    def not_drawn(self, what: str, error: Exception) -> None:
        """Said once per fault: it comes back with every tick."""
        text = f"{what} cannot be drawn: {type(error).__name__}: {error}{_place(error)}"
        if not any(said.text == text for said in self.messages):
            self.say(text, "A pod sends records of another shape; the rest goes on.", severity="error")

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """None of Textual's own: all commands come from the table."""
        return ()


def _place(error: BaseException | None) -> str:
    """at gpus.py:66, where the error was raised."""
    if error is None or error.__traceback__ is None:
        return ""
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f" at {os.path.basename(where.filename)}:{where.lineno}"


def configured(fleet: Fleet, *, read_only: bool = False, practice: bool = False) -> ConsoleApp:
    """The app with the person's own keys, and as it was left; of that, only the theme where the pods are for `practice`."""
    keymap, complaints = load_keymap()
    left, complaint = settings.load()
    left = Settings(theme=left.theme) if practice else left
    return ConsoleApp(fleet, read_only=read_only, keymap=keymap, settings=left, told=[*complaints, *([complaint] if complaint else [])])


def run(fleet: Fleet, read_only: bool = False) -> int:
    """Open the screen until the person leaves; returns the exit code. How it was left is kept."""
    app = configured(fleet, read_only=read_only)
    code = app.run()
    if complaint := settings.save(app.settings):
        sys.stderr.write(f"bs4-console: {complaint}\n")
    return app.return_code or (code or 0)
