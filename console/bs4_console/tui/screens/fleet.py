"""All pods and all runs in one table, what needs a person first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual import on
from textual.widget import Widget

from bs4_console.tui import commands, status, words
from bs4_console.tui.ink import Line, cut, fold, spread, text_of, width_of
from bs4_console.tui.screens.base import ConsoleScreen, Subject
from bs4_console.tui.views import fleet as view
from bs4_console.tui.widgets.panel import Panel
from bs4_console.tui.widgets.table import RowTable


class FleetScreen(ConsoleScreen):
    place: ClassVar[str] = commands.FLEET
    DEFAULT_CSS = """
    FleetScreen #detail { height: auto; max-height: 8; border-top: solid $panel; }
    FleetScreen #note { height: auto; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.filter_text = ""
        self.show_old = False
        self._old = 0

    def body(self) -> Iterable[Widget]:
        yield Panel(id="note")
        yield RowTable(view.COLUMNS)
        yield Panel(id="detail")

    @property
    def table(self) -> RowTable:
        return self.query_one(RowTable)

    def main(self) -> Widget:
        return self.table

    def trail(self) -> Sequence[str]:
        return ("fleet",)

    def subject(self) -> Subject:
        row = self.table.selected if self.ready else None
        pods = {pod.name: pod for pod in self.console_app.fleet.pods}
        pod = pods.get(row.key[0]) if row else None
        return Subject(pod, pod.runs.get(row.key[1]) if pod and row else None)

    def draw(self) -> None:
        app = self.console_app
        rows = view.rows(app.fleet.pods, app.clock)
        old = self._old = sum(row.old for row in rows)
        kept = [row for row in rows if (self.show_old or not row.old) and self._matches(row)]
        self.table.display = bool(app.fleet.pods)
        self.table.show(kept)
        self._note(len(rows), len(kept), old)
        self._detail()

    def _matches(self, row: view.Row) -> bool:
        if not self.filter_text:
            return True
        text, wanted = self.filter_text.removeprefix("!"), not self.filter_text.startswith("!")
        try:
            found = re.search(text, row.text, re.IGNORECASE) is not None
        except re.error:
            found = text.lower() in row.text.lower()
        return found == wanted

    def _note(self, total: int, kept: int, old: int) -> None:
        lines: list[Line] = []
        if self.filter_text:
            lines.append(
                [
                    (f" /{self.filter_text} ", "hit"),
                    (f" {kept} of {words.count(total, 'row')}", ""),
                    ("   esc takes the filter away", "dim"),
                ]
            )
        elif old and not self.show_old:
            lines.append(
                [
                    (f" {words.count(old, 'old run')} folded away, ", "dim"),
                    (self.console_app.keys["old"], "key @old"),
                    (" shows them", "dim"),
                ]
            )
        if not self.console_app.fleet.pods:
            lines += [
                [],
                [("  No pods yet.", "bold")],
                [("  Add one:        ", "dim"), ("bs4-console pods add NAME user@host", "accent")],
                [("  Or try it out:  ", "dim"), ("bs4-console demo", "accent")],
            ]
        self.query_one("#note", Panel).show(lines)

    def _detail(self) -> None:
        panel = self.query_one("#detail", Panel)
        subject = self.subject()
        if subject.pod is None or self.size.height < 16:
            panel.display = False
            return
        panel.display = True
        panel.show(self._detail_lines(subject))

    def _detail_lines(self, subject: Subject) -> list[Line]:
        """Who, and the key to press; what is wrong, whole; the facts of the data and the link."""
        app, pod, run = self.console_app, subject.pod, subject.run
        if pod is None:
            return []
        width = self.size.width
        head: Line = [(" ", ""), *status.of(pod, run).line(), (f"  {pod.name}", "bold"), (f" / {run.name}" if run else "", "bold")]
        advice, keys = self._what_to_press(subject)
        lines = [spread(cut(head, max(10, width - width_of(keys) - 1)), keys, width)]
        problems = status.wrong(pod, run, app.clock)
        for i, (phrase, role) in enumerate(problems[:3]):
            lines += fold(phrase, width - 4, role, 3)[: 2 if i == 0 else 1]
        if advice:
            lines += fold(advice, width - 4, "", 3)[:2]
        elif not problems:
            lines.append([("   nothing needs you here", "dim")])
        return [*lines[:6], cut(self._facts(subject), width)]

    def _what_to_press(self, subject: Subject) -> tuple[str, Line]:
        """(what would help, the key for it)."""
        app, pod = self.console_app, subject.pod
        if pod is None:
            return "", []
        if pod.link.state == "host key?":
            return "First contact: compare the fingerprint.", [(app.keys["open"], "key @open"), (" fingerprint ", "@open")]
        if subject.incidents:
            summary = subject.incidents[0].summary
            return summary, [(app.keys["incident"], "key @incident"), (" evidence and fix ", "@incident")]
        if status.link_down(pod):
            return pod.link.next_step or "It is tried again by itself.", [(app.keys["retry"], "key @retry"), (" reconnect now ", "@retry")]
        if subject.run is None:
            return f"Start one: bs4-console launch --pod {pod.name} CONFIG", [(app.keys["open"], "key @open"), (" pod ", "@open")]
        return "", [(app.keys["open"], "key @open"), (" curves, GPUs, logs ", "@open")]

    def _facts(self, subject: Subject) -> Line:
        app, pod, run = self.console_app, subject.pod, subject.run
        if pod is None:
            return []
        line: Line = [("   telemetry ", "dim"), (words.old(status.age(pod, app.clock)), "")]
        if run and run.step_seen is not None:
            line += [(" · last step ", "dim"), (f"{words.duration(app.clock.mono() - run.step_seen)} ago", "")]
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

    @on(RowTable.Moved)
    def _moved(self) -> None:
        self.draw_safely()

    @on(RowTable.Opened)
    def _opened(self) -> None:
        self.do_open("")

    def prompted(self, kind: str, text: str, *, final: bool) -> None:
        self.filter_text = text
        self.draw_safely()

    def select(self, pod: str) -> bool:
        """Put the cursor on the pod's first row; False when it has none."""
        self.filter_text = ""
        self.draw_safely()
        found = next((row.key for row in self.table.rows if row.key[0] == pod), None)
        if found is not None:
            self.table.cursor = found
        return found is not None

    def hints(self, command: commands.Command) -> bool:
        pod = self.subject().pod
        match command.id:
            case "back":
                return bool(self.filter_text)
            case "retry":
                return pod is not None and status.link_down(pod)
            case "old":
                return self._old > 0
        return True

    # -- commands

    def do_open(self, args: str) -> None:
        subject = self.subject()
        if subject.pod is None:
            return
        if subject.run is not None:
            self.console_app.open_run(subject.pod, subject.run)
        elif subject.pod.link.state == "host key?":
            self.console_app.show_host_key(subject.pod)
        else:
            self.console_app.open_pod(subject.pod)

    def do_filter(self, args: str) -> None:
        if args:
            self.prompted("/", args, final=True)
        else:
            self.ask("/", self.filter_text)

    def do_old(self, args: str) -> None:
        self.show_old = not self.show_old
        self.draw_safely()

    def do_back(self, args: str) -> None:
        if self.filter_text:
            self.prompted("/", "", final=True)

    def do_copy(self, args: str) -> None:
        if (row := self.table.selected) is not None:
            self.console_app.copy("  ".join(text_of(row.cells[c.id]) for c in view.COLUMNS), "Copied the row.")
