"""The console's Textual app: it shows a Fleet and repaints at a fixed rate what has changed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.filter import LineFilter, NoColor
from textual.screen import Screen

from bs4_console import ui_state as settings
from bs4_console.tui import commands, memory, pins, themes
from bs4_console.tui.alerts import Alerts, silence, silent, sound
from bs4_console.tui.clock import Clock
from bs4_console.tui.commands import in_a_shell
from bs4_console.tui.keymap import check, load_keymap
from bs4_console.tui.navigation import Navigation
from bs4_console.tui.offers import offers
from bs4_console.tui.overview import Overview
from bs4_console.tui.remote import remote
from bs4_console.tui.saved_view import SavedView, Saver
from bs4_console.tui.screens.base import ConsoleScreen, Question
from bs4_console.tui.styled_text import RoleStyles
from bs4_console.tui.time_cursor import TimeCursor
from bs4_console.ui_state import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.driver import Driver

    from bs4_console.fleet.watched import Fleet
    from bs4_console.pods.state import PodState
    from bs4_console.tui.path_offers import PathOffers

#: Paints per second. A full-screen tail costs 252 KiB/s at 10 Hz and 101 KiB/s at 4 Hz. Over SSH
#: the line must be the limit, not the log.
LOCAL_HZ, REMOTE_HZ = 10.0, 4.0
#: Seconds after which the sessions start even if no first screen was painted.
START_S = 1.0
#: For how long changes of pods wait after a drawing, as a multiple of the time that it took.
DRAW_REST, MOST_REST_S = 4.0, 0.5
_NO_COLOUR = NoColor()


def _palette() -> type[Provider]:
    from bs4_console.tui.palette import ConsoleCommands

    return ConsoleCommands


class ConsoleApp(Navigation, inherit_bindings=False):
    """The console's Textual app. Everything that it shows of a pod comes from `fleet`. With
    `read_only` it refuses everything that changes a pod.

    `clock` can be replaced by tests. `keymap` has the person's own keys as {command id: key}.
    `settings` are those of the last session; None takes the defaults. `told` are sentences that are
    shown as warnings at the start. `save` writes the settings to disk: it is called in a thread
    with (settings now, settings as they were written last) and returns an error message or "". With
    None nothing is saved.
    """

    TITLE = "bs4-console"
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {_palette}
    # Textual would bind ctrl+p outside of the table of commands. Only its palette is used.
    ENABLE_COMMAND_PALETTE = False
    NOTIFICATION_TIMEOUT = 6
    AUTO_FOCUS = ""
    # With priority the app handles a key before it reads the next one. Otherwise keys wait in the
    # queue of the focused widget, and the q of a quickly typed `:q` would arrive there before the
    # `:` has moved the focus.
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(
                ",".join(c.keys),
                f"command({c.id!r})",
                c.title,
                tooltip=c.help,
                show=False,
                priority=True,
                id=c.id,
            )
            for c in commands.COMMANDS
            if c.keys
        ),
        *(
            Binding(
                digit,
                f"command('jump', {digit!r})",
                f"Jump to {digit}",
                show=False,
                priority=True,
                id=f"jump.{digit}",
            )
            for digit in commands.DIGITS
        ),
    ]
    CSS = """
    Toast { max-width: 80; }
    /* Above the prompt, the newest message and the key bar: 2, 2 and 1 rows. */
    ToastRack { margin-bottom: 5; }
    Input:nocolor > .input--cursor { text-style: reverse; }
    CommandList:nocolor > .option-list--option-highlighted { text-style: bold underline; }
    * {
        scrollbar-background: $background; scrollbar-background-hover: $background;
        scrollbar-color: $panel-lighten-2;
    }
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
        save: Saver | None = None,
    ) -> None:
        # With NO_COLOR Textual only converts colours to greys. It removes them if it may use the
        # terminal's own colours.
        self._no_color_wanted = "NO_COLOR" in os.environ  # Textual takes it out of the environment
        super().__init__(ansi_color=True if self._no_color_wanted else None)
        self.fleet, self.read_only, self.clock = fleet, read_only, clock or Clock()
        self.use_command_palette = True
        for theme in themes.OWN:
            self.register_theme(theme)
        self.settings = settings or Settings()
        self._told = list(told)
        known = self.settings.theme in self.available_themes
        self.theme = self.settings.theme if known else themes.OWN[0].name
        self.animation_level = "none"
        self.ink = self._fresh_ink()
        self._keymap_wanted = dict(keymap or {})
        self.keys: dict[str, str] = {
            c.id: commands.key_text(c.keys[0]) for c in commands.COMMANDS if c.keys
        }
        self._dirty = True
        self._rest_until = 0.0
        self.remote = False
        self._second = -1
        self.kept = SavedView(self.settings, save)
        self.overview = Overview()
        self.alerts = Alerts()
        self.time = TimeCursor(self)
        self._place_of_news: ConsoleScreen | None = None

    # -- life

    def on_mount(self) -> None:
        """Start what the app needs while it is shown: use the person's keys, show the messages for
        the start, listen to changes and problems of the pods, and start the repaint timer. After
        the first paint, start the sessions with the pods.
        """
        self._remap()
        for sentence in self._told:
            self.say(sentence, severity="warning", lasting=True)
        self.fleet.on_change(self._changed)
        self.fleet.on_problem(partial(self.say, severity="warning", lasting=True))
        # The first screen is painted before the sessions start, because their import of asyncssh
        # takes 0.18 s, as long as a paint.
        self.call_after_refresh(self.call_after_refresh, self.fleet.start)
        # If a key that was typed ahead opens another screen, the callback above waits until the
        # first screen is shown again. This timer does not.
        self.set_timer(START_S, self.fleet.start)
        self.remote = remote()
        self.set_interval(1 / (REMOTE_HZ if self.remote else LOCAL_HZ), self.tick)
        self.call_after_refresh(memory.settle)
        self.screen_change_signal.subscribe(self, memory.forget_left)
        self.screen_change_signal.subscribe(self, self._went)

    async def on_unmount(self) -> None:
        """Stop the sessions with the pods, because the app is ending."""
        await self.fleet.stop()

    def _went(self, screen: Screen[Any]) -> None:
        """Take old messages away if `screen`, which is shown now, is another place. A dialog over
        the same place leaves them.
        """
        if isinstance(screen, ConsoleScreen) and screen is not self._place_of_news:
            self._place_of_news = screen
            self.forget_news()

    def show_news(self) -> None:
        """Draw the newest message in the line above the key bar, on the screen that is shown or on
        the one behind a dialog.
        """
        for screen in reversed(self.screen_stack):
            if isinstance(screen, ConsoleScreen):
                screen.draw_news()
                break

    def _changed(self, pod: PodState) -> None:
        """Note that the pod has changed. Sessions call this for every batch they read; the next
        tick paints.
        """
        self._dirty = True
        self.overview.changed(pod)

    def tick(self) -> None:
        """Repaint what has changed on the screen. The app's only repaint timer calls this ten times
        a second, or four times over SSH. Logs are painted at every call. The rest of the screen is
        drawn again when data of a pod has changed (over SSH at most once a second), and at least
        once a second because it shows ages.

        If drawing takes long, the next drawing of a change waits longer, so that drawing takes at
        most about a fifth of the time and keys are served. Whenever the rest is drawn, new alerts
        are shown and changed settings are saved too.
        """
        if not self.screen_stack:
            return  # the last tick of an app that is leaving
        second = int(self.clock.wall())
        # Over SSH, changes wait for the next second: a table of ages and meters is painted once a
        # second, not four times.
        began = time.perf_counter()
        changed = self._dirty and not self.remote and began >= self._rest_until
        due = second != self._second or changed
        if due:
            self._dirty, self._second, self._rest_until = False, second, began
        # Draw the dialogs on top and the first full screen below them, which goes on behind a
        # question.
        for screen in reversed(self.screen_stack):
            if isinstance(screen, Question) and due:
                screen.tell_safely()
            if isinstance(screen, ConsoleScreen):
                if screen.ready and screen.is_mounted:
                    if due:
                        screen.draw_safely()
                    screen.pulse_safely()
                break
        if getattr(self.screen, "drawn", False):
            # Not only with a drawing: after a slow one the next may be half a second away.
            self.kept.restore(self)
        if due:
            self._alert()
            self.kept.poll(self)
            self._greet()
            self.drew(time.perf_counter() - began)

    def drew(self, seconds: float) -> None:
        """Note that drawing the screen took `seconds`. When data of a pod changes next, the screen
        is drawn later by a multiple of that time, but by at most half a second, so that drawing
        does not hold up the keys.
        """
        rest = self._rest_until + DRAW_REST * seconds
        self._rest_until = min(rest, time.perf_counter() + MOST_REST_S)

    def _alert(self) -> None:
        """Show what became worse since the last tick: a message for each alert, which is a toast if
        it is critical and not on the screen already, and one sound for all of them.
        """
        now = self.clock.mono()
        worse = self.alerts.update(self.overview.rows(self.fleet.pods, self.clock), now)
        found = [alert for alert in worse if not silent(alert.key, self.settings.silenced)]
        if not found or self.settings.quiet:
            return
        shown = self.subject().names
        for alert in found[:3]:
            # A toast would cover the details of the very row or run that a person looks at.
            toast = alert.rank == 4 and alert.key != shown
            self.say(alert.text, severity="error" if toast else "warning", lasting=True)
        if len(found) > 3:
            self.say(
                f"And {len(found) - 3} more; {self.keys['urgent']} on the fleet goes from "
                "one to the next.",
                severity="warning",
                lasting=True,
            )
        if self.alerts.may_sound(now):
            self._to_terminal(sound(found))

    def do_silence(self, args: str) -> None:
        """Switch the alerts of a run, of a pod or of all pods off, or on again if they are off.
        `args` is "run" or "pod" (those of the row under the cursor, or of the screen), "all", or ""
        for the run if there is one and the pod otherwise. A message says what was done.
        """
        said, severity = silence(self.settings, *self.subject().names, args)
        self.say(said, severity=severity)
        self._dirty = True

    def do_pin(self, args: str) -> None:
        """Pin the screen that is shown to the first free number from 1 to 9, or unpin it if it is
        pinned. A message gives the number, or says that none is free. `args` is ignored.
        """
        pins.toggle(self)

    def do_jump(self, args: str) -> None:
        """Go to the screen that is pinned to the number (1 to 9) in `args`. If `args` is empty, a
        message lists the pinned screens. If nothing is pinned to the number, or the pod or run of
        the pinned screen is gone, a message says so.
        """
        pins.jump(self, args)

    def get_driver_class(self) -> type[Driver]:
        """Return the class that reads the terminal: on Linux our KeyDriver, which reports Esc
        sooner than Textual's driver, elsewhere the one that Textual chooses.
        """
        own = super().get_driver_class()
        from bs4_console.tui.keyboard import KeyDriver, LinuxDriver

        return KeyDriver if own is LinuxDriver else own

    def _fresh_ink(self) -> RoleStyles:
        return RoleStyles(
            self.current_theme,
            colour=not self.no_color,
            sixteen=self.console.color_system == "standard",
        )

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return the filters that Textual applies to every painted line. Under the theme
        bs4-no-colour a filter that removes all colours is added to Textual's own.
        """
        own = super().get_line_filters()
        if self.theme == themes.NO_COLOUR.name:
            return [*own, _NO_COLOUR]
        return own

    def watch_theme(self, theme: str) -> None:
        """Repaint the screen in the colours of a theme. Textual calls this with the theme's name
        when the theme has changed.
        """
        # Textual's widgets mark the cursor only by a background colour, unless they match
        # `:nocolor`.
        self.no_color = self._no_color_wanted or theme == themes.NO_COLOUR.name
        self.ink = self._fresh_ink()
        if self.is_running and isinstance(self.screen, ConsoleScreen):
            self.call_after_refresh(self._repaint)

    def _repaint(self) -> None:
        for widget in self.screen.query("*"):
            widget.refresh()

    # -- keys

    def _remap(self) -> None:
        """Apply the user's keys over the default ones. A key that cannot be used is reported, never
        silently dropped.
        """
        keymap, complaints = check(self._keymap_wanted)
        for complaint in complaints:
            self.say(complaint, severity="warning", lasting=True)
        self.set_keymap(keymap)
        self.keys |= {name: commands.key_text(key.split(",")[0]) for name, key in keymap.items()}

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return True if the key of an action works now, and False if not. `action` is the action's
        name and `parameters` are its arguments; for the action "command" the first of them is the
        id of a command. The key of a command does not work on a screen for which the command is not
        meant, nor while a dialog is open, nor while a prompt is open, because the key is then typed
        into the prompt. For other actions Textual's own answer is returned.
        """
        if action == "command" and parameters:
            command, screen = commands.BY_ID.get(str(parameters[0])), self.screen
            if command is None or not isinstance(screen, ConsoleScreen) or not screen.ready:
                return False
            return screen.place in command.where and not screen.prompt.is_open
        return super().check_action(action, parameters)

    def action_command(self, name: str, args: str = "") -> None:
        """Carry out the command with the id `name`, or do nothing if it does not work on the screen
        that is shown. `args` is the text that would follow the command's name. If the app is still
        waiting to open the screen of the last session again, it stops doing so. Raises KeyError if
        there is no such command.
        """
        command = commands.BY_ID[name]
        self.kept.give_up()
        if isinstance(self.screen, ConsoleScreen) and self.screen.place in command.where:
            self.carry_out(command, args)

    # -- commands

    def lacks(self, command: commands.Command, screen: ConsoleScreen) -> str:
        """Return a sentence that says what is missing for the command on this screen: a selected
        pod, run, incident or plan, or the right to change something (the console or the pod may be
        read-only). Return "" if nothing is missing.
        """
        subject = screen.subject()
        has = {
            "pod": subject.pod is not None,
            "run": subject.run is not None,
            "incident": bool(subject.incidents),
            "plan": screen.has_plan(),
            "write": not self.read_only and not (subject.pod and subject.pod.read_only),
        }
        return next((screen.without(need) for need in command.needs if not has[need]), "")

    def carry_out(self, command: commands.Command, args: str) -> None:
        """Carry out a command that came from a key, the palette or a click, on the screen that is
        shown. `args` is the text that would follow the command's name. If something that the
        command needs is missing (see `lacks`), a message says so and nothing is done.
        """
        screen = self.screen
        if not isinstance(screen, ConsoleScreen):
            return
        if complaint := self.lacks(command, screen):
            self.say(complaint, severity="warning")
        else:
            if command.needs:
                screen.acted()
            self.handler(command, screen)(args)

    def typed(self, text: str, screen: ConsoleScreen) -> str:
        """Check and carry out `text`, the command line that was typed after `:` on `screen`. Return
        a sentence that says why it cannot be carried out, or "" if it can or if nothing was typed.
        The command is not run inside this call but a moment later. A word for what is done in a
        shell, such as `report`, copies the command line for that and shows it in a message.
        """
        # A colon more than the one that has opened the prompt is a slip of the finger.
        text = text.lstrip(": ")
        if not text:
            return ""
        command, args = commands.parse(text)
        if command is None:
            word = text.split()[0]
            if line := in_a_shell.command_line(word, *screen.subject().names):
                self.copy(line, f"In a shell: {line}")
                return ""
            if meant := commands.meant(word):
                return _called(word, meant, screen.place)
            near = get_close_matches(word, commands.BY_NAME, n=2)
            told = "Tab shows what there is, :help explains it"
            if near:
                told = f"close to it: {', '.join(f':{name}' for name in near)}"
            return f"There is no command {word!r}; {told}."
        if command.id == "open" and args:
            command = commands.BY_ID["file"]
        if screen.place not in command.where:
            return f":{command.names[0]} works on {', '.join(sorted(command.where))}."
        if complaint := self.lacks(command, screen):
            return complaint
        if command.clears and not args:
            self.call_later(screen.prompted, command.clears, "", final=True)
            self.say(f"{command.title}: none now; {self.keys[command.id]} asks for one.")
            return ""
        if command.needs:
            screen.acted()
        self.call_later(self.handler(command, screen), args)
        return ""

    def handler(self, command: commands.Command, screen: ConsoleScreen) -> Callable[[str], None]:
        """Return the method that carries out `command`: that of `screen`, or of the app if the
        screen has none. The method takes one argument, the text that was typed after the command's
        name.
        """
        owner = screen if hasattr(screen, command.handler) else self
        found: Callable[[str], None] = getattr(owner, command.handler)
        return found

    def complete(self, text: str) -> Sequence[str]:
        """Return what Tab offers for `text`, the command line so far: the names of commands of the
        screen that is shown while the first word is typed, then the values that the command's
        argument can have. The result is empty if nothing fits.
        """
        word, space, rest = text.partition(" ")
        if not space:
            place = getattr(self.screen, "place", "")
            names = chain(*(c.names for c in commands.COMMANDS if place in c.where))
            # Names of one letter are only for those who know them.
            return sorted(n for n in names if n.startswith(word) and (len(n) > 1 or n == word))
        command, _ = commands.parse(word)
        if command is None:
            return []
        found = []
        for offer in offers(self, command.completes, rest):
            if offer.startswith(rest):
                found.append(offer)
        return found

    @cached_property
    def paths(self) -> PathOffers:
        """Return the object that completes paths on pods. Its module is imported only now, when
        somebody types a path.
        """
        from bs4_console.tui.path_offers import PathOffers  # only for a person who types a path

        return PathOffers(self)

    def do_quit(self, args: str) -> None:
        """Leave the console with exit code 0. The screen that is shown is noted in the settings,
        for the next start. `args` is ignored.
        """
        self.kept.note(self)
        self.exit(0)

    def do_palette(self, args: str) -> None:
        """Open the command palette, which searches commands, pods and runs. `args` is ignored."""
        self.action_command_palette()

    def do_theme(self, args: str) -> None:
        """Change to the theme named in `args`, or to the next one if `args` is empty. A message
        names the new theme, or all themes if there is none of that name.
        """
        names = themes.names(self.available_themes)
        if args and args not in names:
            self.say(f"There is no theme {args}; there are {', '.join(names)}.", severity="warning")
            return
        self.theme = args or names[(names.index(self.theme) + 1) % len(names)]
        self.say(f"Theme {self.theme}.")

    # -- what Textual brings along

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Return an empty tuple, so that the palette offers none of Textual's own commands.
        `screen` is ignored.
        """
        return ()


def _called(word: str, names: Sequence[str], place: str) -> str:
    """Return a sentence that says which commands, with these names, do what `word` means, and, if
    none of them works on the screen `place`, where they do.
    """
    told = f"{word} is called {' or '.join(f':{name}' for name in names)} here"
    where: set[str] = set()
    for name in names:
        where |= commands.BY_NAME[name].where
    if place in where:
        return f"{told}."
    return f"{told}; that works on {', '.join(sorted(where))}."


def configured(fleet: Fleet, *, read_only: bool = False, practice: bool = False) -> ConsoleApp:
    """Return the app for `fleet`, not started yet, with the person's keys (keys.toml) and the
    settings of the last session. With `read_only` it refuses everything that changes a pod. With
    `practice`, for practice pods (simulated ones), only the theme is taken from the settings and
    nothing is saved. What is wrong in the files of keys and settings is shown as warnings when the
    app starts.
    """
    keymap, complaints = load_keymap()
    left, complaint = settings.load()
    left = Settings(theme=left.theme) if practice else left
    save = None if practice else settings.keep
    told = [*complaints, *([complaint] if complaint else [])]
    return ConsoleApp(
        fleet, read_only=read_only, keymap=keymap, settings=left, told=told, save=save
    )


def run(fleet: Fleet, read_only: bool = False) -> int:
    """Show the console's screen for `fleet` until the person leaves, save the settings to disk, and
    return the exit code. With `read_only` the console refuses everything that changes a pod. If the
    settings cannot be saved, a message goes to stderr.
    """
    app = configured(fleet, read_only=read_only)
    code = app.run()
    if complaint := app.kept.close(app.settings):
        sys.stderr.write(f"bs4-console: {complaint}\n")
    return app.return_code or (code or 0)
