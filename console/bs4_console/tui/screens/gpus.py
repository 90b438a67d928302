"""The GPUs of all pods: how busy, how hot, what the driver complains about, and who holds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual import on
from textual.widget import Widget

from bs4_console.core.state import PodState
from bs4_console.tui import commands, words
from bs4_console.tui.ink import Line, cut, text_of
from bs4_console.tui.screens.base import ConsoleScreen, Subject
from bs4_console.tui.views import gpu_table as view
from bs4_console.tui.views.fleet import matches
from bs4_console.tui.widgets.panel import Panel
from bs4_console.tui.widgets.table import RowTable


class GpusScreen(ConsoleScreen):
    place: ClassVar[str] = commands.GPUS
    DEFAULT_CSS = "GpusScreen #note { height: auto; }"

    def __init__(self) -> None:
        super().__init__()
        self.compact = False
        self.filter_text = ""

    def body(self) -> Iterable[Widget]:
        yield Panel(id="note")
        yield RowTable(view.COLUMNS)

    @property
    def table(self) -> RowTable:
        return self.query_one(RowTable)

    def main(self) -> Widget:
        return self.table

    def trail(self) -> Sequence[str]:
        return ("gpus",)

    def subject(self) -> Subject:
        """The pod under the cursor, and the run of which a process holds that GPU; without one, the pod's only run."""
        row = self.table.selected if self.ready else None
        pod = next((p for p in self.console_app.fleet.pods if row and p.name == row.key[0]), None)
        if row is None or pod is None:
            return Subject()
        index, _, pid = row.key[1].partition("/")
        held = {name for name in _holders(pod, index, pid) if name in pod.runs}
        return Subject(pod, pod.runs[held.pop()] if len(held) == 1 else None)

    def draw(self) -> None:
        app = self.console_app
        rows = view.rows(app.fleet.pods, app.clock, compact=self.compact)
        kept = [row for row in rows if matches(row.text, self.filter_text)]
        self.table.show(kept)
        note: list[Line] = [cut(view.summary(app.fleet.pods, app.clock), self.size.width)]
        if self.filter_text:
            note.append([(f" /{self.filter_text} ", "hit"), (f" {len(kept)} of {words.count(len(rows), 'row')}", "")])
        self.query_one("#note", Panel).show(note)

    @on(RowTable.Moved)
    def _moved(self) -> None:
        self.draw_safely()

    @on(RowTable.Opened)
    def _opened(self) -> None:
        self.do_open("")

    def prompted(self, kind: str, text: str, *, final: bool) -> None:
        self.filter_text = text
        self.draw_safely()

    def hints(self, command: commands.Command) -> bool:
        return command.id != "gpus"

    # -- commands

    def do_open(self, args: str) -> None:
        subject = self.subject()
        if subject.pod is not None and subject.run is not None:
            self.console_app.open_run(subject.pod, subject.run)
        elif subject.pod is not None:
            self.console_app.open_pod(subject.pod)

    def do_compact(self, args: str) -> None:
        self.compact = not self.compact
        self.draw_safely()

    def do_filter(self, args: str) -> None:
        if args:
            self.prompted("/", args, final=True)
        else:
            self.ask("/", self.filter_text)

    def do_back(self, args: str) -> None:
        if self.filter_text:
            self.prompted("/", "", final=True)
        else:
            self.console_app.do_back("")

    def do_copy(self, args: str) -> None:
        lines = [text_of(view.summary(self.console_app.fleet.pods, self.console_app.clock)), *(row.text for row in self.table.rows)]
        self.console_app.copy("\n".join(lines), f"Copied {words.count(len(self.table.rows), 'row')}.")


def _holders(pod: PodState, index: str, pid: str) -> list[str]:
    """Runs of the processes on the GPU `index` (all GPUs when empty), or of the one with `pid`."""
    devices = (pod.latest.get("gpus") or {}).get("devices") or []
    procs = [proc for device in devices if index in ("", str(device.get("index"))) for proc in device.get("procs") or []]
    return [proc["run"] for proc in procs if proc.get("run") and pid in ("", str(proc.get("pid")))]
