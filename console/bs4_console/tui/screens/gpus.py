"""The screen with the GPUs of all pods: utilisation, temperature, complaints of the driver, and the
runs that hold them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import ClassVar

from textual.widget import Widget

from bs4_console.pods.state import PodState
from bs4_console.tui import commands, formatting
from bs4_console.tui.overview import PodRows
from bs4_console.tui.screens.base import Subject
from bs4_console.tui.screens.table import TableScreen
from bs4_console.tui.styled_text import Line, cut, text_of
from bs4_console.tui.views import gpu_table as view
from bs4_console.tui.views.fleet import Row
from bs4_console.tui.views.moment import moment_line
from bs4_console.tui.widgets.moment_commands import MomentCommands, newest
from bs4_console.tui.widgets.panel import Panel
from bs4_console.tui.widgets.table import RowTable


class GpusScreen(MomentCommands, TableScreen):
    """The table of the GPUs of all pods, as they are now or as they were at the time cursor (the
    past moment that all screens show).
    """

    place: ClassVar[str] = commands.GPUS
    DEFAULT_CSS = "GpusScreen #note { height: auto; }"

    def __init__(self) -> None:
        super().__init__()
        self.compact = False
        self._rows: PodRows[Row] = PodRows()

    def body(self) -> Iterable[Widget]:
        """Yield the lines of notes above the table, and the table."""
        yield Panel(id="note")
        yield RowTable(view.COLUMNS)

    def subject(self) -> Subject:
        """Return the pod of the row under the cursor. The run is the one whose processes are on the
        row's GPUs, or None if there is no such run or more than one.
        """
        row = self.row()
        pod = self.console_app.fleet.pod(row.key[0]) if row else None
        if row is None or pod is None:
            return Subject()
        index, _, pid = row.key[1].partition("/")
        held = pod.runs.keys() & set(_holders(self._seen(pod), index, pid))
        return Subject(pod, pod.runs[held.pop()] if len(held) == 1 else None)

    def _seen(self, pod: PodState) -> view.Seen:
        """Return the pod's telemetry of now, or of the time cursor."""
        if self.cursor.at is None:
            return view.now(pod, self.console_app.clock)
        return view.then(pod, self.cursor.sample(pod), reading=self.cursor.waits(pod))

    def _all_seen(self) -> list[view.Seen]:
        return [self._seen(pod) for pod in self.console_app.fleet.pods]

    def _rows_of(self, seen: Sequence[view.Seen]) -> list[Row]:
        """Return the rows of all pods. Rows of now are made again only for pods that have changed,
        rows at the time cursor always.
        """
        app = self.console_app
        if self.cursor.at is not None:
            return view.rows(seen, compact=self.compact)
        tokens = app.overview.tokens(app.fleet.pods, app.clock)
        return view.arrange(
            self._rows.of(
                pod, (token, self.compact), partial(view.pod_rows, one, compact=self.compact)
            )
            for one, (pod, token) in zip(seen, tokens, strict=True)
        )

    def draw(self) -> None:
        """Redraw the table and the lines of notes above it."""
        app = self.console_app
        seen = self._all_seen()
        rows = self._rows_of(seen)
        kept = self.sifted(rows)
        self.table.show(kept)
        note: list[Line] = [cut(view.summary(seen), self.size.width)]
        if self.cursor.at is not None:
            note.append(moment_line(self.cursor.at, app.clock, app.keys, self.size.width))
        note += self.filter_note(len(kept), len(rows), "row")
        self.query_one("#note", Panel).show(note)

    def moment_end(self) -> float:
        """Return the newest moment to which the time cursor (the past moment that all screens show)
        can be set, as a Unix time in seconds by this machine's clock. That is now, or, if all pods
        are recordings, the end of the recording that ends last.
        """
        return newest(self.console_app.fleet.pods, self.console_app.clock)

    # -- commands

    def do_compact(self, args: str) -> None:
        """Change from one row for each GPU to one row for each pod, or back. `args` is ignored."""
        self.compact = not self.compact
        self.draw_safely()

    def do_back(self, args: str) -> None:
        """Go back one step: remove the filter if there is one; otherwise, if the screens show a
        past moment, show the present; otherwise close the screen. `args` is ignored.
        """
        if self.cursor.at is not None and not self.filter_text:
            self.move_cursor(None)
        else:
            super().do_back(args)

    def do_copy(self, args: str) -> None:
        """Copy the rows of the table to the clipboard as text, below a line with the sums. `args`
        is ignored.
        """
        lines = [text_of(view.summary(self._all_seen()))]
        lines += [row.text for row in self.table.rows]
        self.console_app.copy(
            "\n".join(lines), f"Copied {formatting.count(len(lines) - 1, 'row')}."
        )


def _holders(seen: view.Seen, index: str, pid: str) -> Iterator[str]:
    """Yield the runs whose processes are on the GPU `index`, or on all GPUs if it is "". A `pid`
    other than "" restricts that to one process.
    """
    for device in seen.devices:
        if index in ("", str(device.get("index"))):
            for proc in device.get("procs") or []:
                run = proc.get("run")
                if run and pid in ("", str(proc.get("pid"))):
                    yield run
