"""The fleet screen: all pods and all runs in one table, those that need a person first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.widget import Widget

from bs4_console.pods.state import PodState
from bs4_console.tui import alerts, commands, formatting, status
from bs4_console.tui.screens.base import Subject
from bs4_console.tui.screens.table import TableScreen
from bs4_console.tui.styled_text import Line, cut, fold, spread, text_of, width_of
from bs4_console.tui.views import beside, notes
from bs4_console.tui.views import fleet as view
from bs4_console.tui.widgets.panel import Panel
from bs4_console.tui.widgets.table import RowTable

#: Rows of bars, heading, notes, details and some air: what is left beside them and the rows of the
#: table may hold curves and actions.
OTHER_ROWS = 14


class FleetScreen(TableScreen):
    """The console's first screen, a table of all pods and runs. It is the lowest of the open
    screens and is never closed.
    """

    place: ClassVar[str] = commands.FLEET
    DEFAULT_CSS = """
    FleetScreen #detail { height: auto; max-height: 8; border-top: solid $panel; }
    FleetScreen #note { height: auto; }
    FleetScreen #trend { height: auto; padding: 0 1; border-top: solid $panel; }
    FleetScreen #recent { height: auto; border-top: solid $panel; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._old = 0
        self._curves, self._actions = beside.RunCurves(), beside.NewestActions()
        self._folded: set[str] = set()
        """The names of the groups that show only their heading."""

    @property
    def filter_text(self) -> str:
        """Return the filter of the table, a regular expression or "". It is kept in the settings
        for the next start.
        """
        return self.console_app.settings.filter

    @filter_text.setter
    def filter_text(self, text: str) -> None:
        """Set the filter of the table to a regular expression, or to "" for none."""
        self.console_app.settings.filter = text

    @property
    def show_old(self) -> bool:
        """Return True if the table also shows runs that ended more than a day ago."""
        return self.console_app.settings.show_old

    def body(self) -> Iterable[Widget]:
        """Yield the line of notes above the table, the table, and the details of the row under the
        cursor.
        """
        yield Panel(id="note")
        yield RowTable(view.COLUMNS)
        yield Panel(id="trend")
        yield Panel(id="recent")
        yield Panel(id="detail")

    def subject(self) -> Subject:
        """Return the pod and the run of the row under the cursor. The run is None in a row about
        the pod itself.
        """
        row = self.row()
        pod = self.console_app.fleet.pod(row.key[0]) if row else None
        return Subject(pod, pod.runs.get(row.key[1]) if pod and row else None)

    def draw(self) -> None:
        """Redraw the table, the line of notes above it, and the details of the row under the
        cursor.
        """
        app = self.console_app
        rows = app.overview.rows(app.fleet.pods, app.clock)
        recent = [row for row in rows if not row.old]
        old = self._old = len(rows) - len(recent)
        kept = self.sifted(rows if self.show_old else recent)
        self.table.display = bool(app.fleet.pods)
        self.table.mark = app.settings.sort
        self.table.show(view.arrange(kept, app.settings.sort, app.settings.group, self._folded))
        self._note(len(rows), len(kept), old)
        self._beside()
        self._detail()

    def _note(self, total: int, kept: int, old: int) -> None:
        app = self.console_app
        lines = self.filter_note(kept, total, "row")
        if not lines and (app.settings.group or app.settings.sort):
            line: Line = [(" ", "")]
            for how, by in ("sorted by ", app.settings.sort), ("grouped by ", app.settings.group):
                if by:
                    line += [(how, "dim"), (by, "bold"), ("  ", "")]
            line += [
                (app.keys["sort"], "key @sort"),
                (" sorts  ", "dim"),
                (app.keys["group"], "key @group"),
                (" groups", "dim"),
            ]
            lines.append(line)
        elif not lines and old and not self.show_old:
            folded = f" {formatting.count(old, 'old run')} folded away, "
            lines.append([(folded, "dim"), (app.keys["old"], "key @old"), (" shows them", "dim")])
        # Without a table the note fills the screen, so that the key bar stays at the bottom.
        self.query_one("#note").styles.height = "auto" if app.fleet.pods else "1fr"
        if not app.fleet.pods:
            lines += [
                [],
                [("  No pods yet.", "bold")],
                [("  Add one:        ", "dim"), ("bs4-console pods add NAME user@host", "accent")],
                [("  Or try it out:  ", "dim"), ("bs4-console demo", "accent")],
            ]
        self.query_one("#note", Panel).show(lines)

    def _beside(self) -> None:
        """Where the rows leave room, show the curves of the run under the cursor, and what was done
        last on all pods.
        """
        trend, recent = self.query_one("#trend", Panel), self.query_one("#recent", Panel)
        run = self.subject().run
        app, (width, height) = self.console_app, self.size
        room = height - OTHER_ROWS - len(self.table.rows)
        rows, most = beside.share(room)
        trend.display = run is not None and bool(run.trainer_steps) and room > rows
        if trend.display and run is not None:
            trend.show(self._curves.lines(run, width - 2, rows))
            room -= rows + 1
        done: list[Line] = []
        if room > beside.RECENT + 1:
            most = min(most, room - 2)
            done = self._actions.lines(app.fleet.pods, app.clock, app.keys, width, most)
        recent.display = bool(done)
        if done:
            recent.show(done)

    def _detail(self) -> None:
        panel, subject = self.query_one("#detail", Panel), self.subject()
        panel.display = subject.pod is not None and self.size.height >= 16
        if panel.display:
            panel.show(self._detail_lines(subject))

    def _detail_lines(self, subject: Subject) -> list[Line]:
        """Return the details of a row: its name with the key to press, what is wrong in full, and
        the facts of data and link.
        """
        app, pod, run = self.console_app, subject.pod, subject.run
        if pod is None:
            return []
        width = self.size.width
        head: Line = [
            (" ", ""),
            *status.status_of(pod, run).line(),
            (f"  {pod.name}", "bold"),
            (f" / {run.name}" if run else "", "bold"),
        ]
        advice, keys = self._what_to_press(subject)
        lines = [spread(cut(head, max(10, width - width_of(keys) - 1)), keys, width)]
        problems = status.wrong(pod, run, app.clock)
        if status.lost(pod) is not None:
            # The line of facts already describes the link.
            problems = [one for one in problems if one[0] != status.link_words(pod, app.clock)]
        for i, (phrase, role) in enumerate(problems[:3]):
            lines += fold(phrase, width - 4, role, 3)[: 2 if i == 0 else 1]
        if advice:
            lines += fold(advice, width - 4, "", 3)[:2]
        elif not problems:
            lines.append([("   all good", "dim")])
        if run and (said := notes.newest(run.view.notes, width)):
            lines.append(said)
        return [*lines[:6], cut(self._facts(subject), width)]

    def _what_to_press(self, subject: Subject) -> tuple[str, Line]:
        """Return what would help, and the key for it."""
        app, pod = self.console_app, subject.pod
        if pod is None:
            return "", []
        if pod.link.state == "host key?":
            return "First contact: compare the fingerprint.", [
                (app.keys["open"], "key @open"),
                (" fingerprint ", "@open"),
            ]
        signs: Line = [(app.keys["pod"], "key @pod"), (" signs and what to do ", "@pod")]
        if pod.lost is not None and status.taken(pod):
            return pod.lost.next_step, signs
        if subject.incidents:
            key = app.keys["incident"]
            return subject.incidents[0].summary, [
                (key, "key @incident"),
                (" evidence and fix ", "@incident"),
            ]
        cut_off = pod.lost is not None and pod.lost.word == "network-only"
        if pod.lost is not None and status.lost(pod) is not None and not cut_off:
            return pod.lost.next_step, signs
        if status.link_down(pod):
            known = pod.link.next_step
            if pod.lost is not None and cut_off:
                known = pod.lost.next_step
            elif pod.link.state == "error":
                # The next step of an error is not understood without its detail.
                known = f"{pod.link.detail} {pod.link.next_step}".strip()
            if not (known or cut_off):
                known = "It is tried again by itself."
            return known, [(app.keys["retry"], "key @retry"), (" reconnect now ", "@retry")]
        if not pod.link.up and subject.run is None:
            return "What runs here is not known yet.", []
        launch: Line = [(app.keys["launch"], "key @launch"), (" launch ", "@launch")]
        if subject.run is None and self._may_write(pod):
            return "No run is known here: start one.", launch
        if subject.run is None:
            return f"No run is known here. Start one: bs4-console launch --pod {pod.name} CONFIG", [
                (app.keys["open"], "key @open"),
                (" pod ", "@open"),
            ]
        if subject.run.word in ("failed", "stopped") and self._may_write(pod):
            how = app.keys["launch"]
            return f"Go on from its newest complete step with {how}.", launch
        return "", [(app.keys["open"], "key @open"), (" curves, GPUs, logs ", "@open")]

    def _may_write(self, pod: PodState) -> bool:
        return not self.console_app.read_only and not pod.read_only

    def _facts(self, subject: Subject) -> Line:
        app, pod, run = self.console_app, subject.pod, subject.run
        if pod is None:
            return []
        line: Line = [("   data ", "dim"), (formatting.old(status.age(pod, app.clock)), "")]
        if alerts.silent((pod.name, run.name if run else ""), app.settings.silenced):
            line += [(" · ", "dim"), ("alerts silenced", "warn")]
        if run and run.has_stepped and run.step_seen is not None:
            line += [
                (" · last step ", "dim"),
                (f"{formatting.duration(app.clock.mono() - run.step_seen)} ago", ""),
            ]
        line += [(" · link ", "dim"), (status.link_words(pod, app.clock), "")]
        if (offset := pod.link.clock_offset) is not None and abs(offset) > 2:
            line += [(" · ", "dim"), (f"pod clock {offset:+.0f}s", "warn")]
        if pod.address:
            line += [(" · ", "dim"), (pod.address, "")]
        if pod.hello.get("agent"):
            line += [(f" · agent {pod.hello['agent']}", "dim")]
        if pod.read_only:
            line += [(" · ", "dim"), ("read-only", "warn")]
        return line

    def moved(self) -> None:
        """Show the details of the row that is under the cursor now, and remember the row in the
        settings.
        """
        self.console_app.settings.pod, self.console_app.settings.run = self.table.cursor or ("", "")
        self.draw_bars()
        self._beside()
        self._detail()

    def select(self, pod: str) -> bool:
        """Remove the filter, put the cursor on the first row of the pod with the name `pod`, and
        return True. Return False if the table shows no row of that pod, for example because its
        group is folded.
        """
        self.filter_text = ""
        self.draw_safely()
        for row in self.table.rows:
            if row.key[0] == pod:
                self.table.cursor = row.key
                return True
        return False

    def point_at(self, pod: str, run: str) -> None:
        """Put the cursor on the row of the pod and run with these names; "" as `run` is the row of
        the pod itself. Do nothing if the table does not show that row.
        """
        if self.table.has((pod, run)):
            self.table.cursor = (pod, run)

    def hints(self, command: commands.Command) -> bool:
        """Return True if the key bar at the bottom may offer `command` now. Commands that would be
        of no use are left out, for example to show old runs if there are none.
        """
        pod = self.subject().pod
        match command.id:
            case "back":
                return bool(self.filter_text)
            case "retry":
                return pod is not None and status.link_down(pod)
            case "old":
                return self._old > 0
            case "urgent":
                here = self.table.selected
                return any(row.rank >= 2 and row is not here for row in self.table.rows)
            case "sort" | "group":
                return len(self.table.rows) > 1
        return True

    # -- commands

    def do_open(self, args: str) -> None:
        """Open the screen of the run or pod under the cursor. On the heading of a group, fold or
        unfold the group; on a pod whose SSH host key is not accepted yet, show the dialog with that
        key. `args` is ignored.
        """
        row = self.table.selected
        if row is not None and row.banner is not None:
            self._folded ^= {row.key[1].removeprefix(view.HEADING)}
            self.draw_safely()
            return
        subject = self.subject()
        if (
            subject.pod is not None
            and subject.run is None
            and subject.pod.link.state == "host key?"
        ):
            self.console_app.show_host_key(subject.pod)
        else:
            super().do_open(args)

    def do_group(self, args: str) -> None:
        """Group the table by `args`: "pod", "state", "trainer", or "none" for no groups. If `args`
        is empty, take the next one of these. If `args` is another word, a message says so and
        nothing changes.
        """
        self._choose("group", args, view.GROUPS)

    def do_sort(self, args: str) -> None:
        """Sort the table by the column in `args`, for example "step", or the other way round for
        "-step". If `args` is empty, take the next column. If there is no such column, a message
        says so and nothing changes.
        """
        self._choose("sort", args, view.SORTS)

    def _choose(self, what: str, args: str, known: Sequence[str]) -> None:
        """Change a setting to the value in `args`, or to the next of the known values. The first
        value is the default and is kept as "".
        """
        settings = self.console_app.settings
        wanted = args.removeprefix("-")
        if wanted and wanted not in known:
            self.console_app.say(
                f"{wanted!r} cannot be; there are {', '.join(known)}.", severity="warning"
            )
            return
        now = getattr(settings, what).removeprefix("-") or known[0]
        chosen = args or known[(known.index(now) + 1) % len(known) if now in known else 0]
        setattr(settings, what, "" if chosen == known[0] else chosen)
        self.draw_safely()

    def do_urgent(self, args: str) -> None:
        """Put the cursor on the next row with a warning or something worse. After the last row the
        search goes on at the top. If no visible row has one, all folded groups are unfolded and
        searched too. If there is no such row at all, a message says so. `args` is ignored.
        """
        wanted = self._next_urgent()
        if wanted is None and self._folded:
            self._folded.clear()
            self.draw_safely()
            wanted = self._next_urgent()
        if wanted is not None:
            self.table.steer(wanted.key)
            return
        hidden = " The filter may hide what does." if self.filter_text else ""
        self.console_app.say(f"Nothing needs you here.{hidden}")

    def _next_urgent(self) -> view.Row | None:
        """Return the next row below the cursor that needs a person, from the top again after the
        last one.
        """
        rows, behind = self.table.rows, self.table.index + 1
        for row in (*rows[behind:], *rows[:behind]):
            if row.rank >= 2 and row.banner is None:
                return row
        return None

    def do_old(self, args: str) -> None:
        """Show runs that ended more than a day ago, or hide them again. `args` is ignored."""
        self.console_app.settings.show_old = not self.show_old
        self.draw_safely()

    def do_copy(self, args: str) -> None:
        """Copy the row under the cursor to the clipboard as text. `args` is ignored."""
        if (row := self.table.selected) is not None:
            self.console_app.copy(
                "  ".join(text_of(row.cells[c.id]) for c in view.COLUMNS), "Copied the row."
            )
