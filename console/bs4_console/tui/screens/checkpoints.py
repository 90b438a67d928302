"""The screen of a run's checkpoints, from which they are kept, copied to a store, restored and
merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.containers import VerticalScroll
from textual.widget import Widget

from bs4_console.pods.state import PodState, RunState
from bs4_console.tui import commands, formatting, merging, status
from bs4_console.tui.checkpoint_line import CheckpointLine
from bs4_console.tui.screens import checkpoint_orders
from bs4_console.tui.screens.base import Subject
from bs4_console.tui.screens.table import TableScreen
from bs4_console.tui.styled_text import Line, cut, text_of
from bs4_console.tui.views import checkpoints as view
from bs4_console.tui.views import store
from bs4_console.tui.widgets.panel import Panel
from bs4_console.tui.widgets.table import RowTable

if TYPE_CHECKING:
    from bs4_console.checkpoints.listing import CheckpointRow

#: Seconds between two looks of the pod at its disk while this screen is shown.
LOOK_S = 10.0


class CheckpointsScreen(TableScreen):
    """The screen with the checkpoints of the run `run` on `pod`, the newest first. Checkpoints that
    are only in the object store are included. The checkpoint under the cursor is shown with its
    parts.
    """

    place: ClassVar[str] = commands.CHECKPOINTS
    DEFAULT_CSS = """
    CheckpointsScreen #note { height: auto; }
    CheckpointsScreen VerticalScroll {
        height: auto; max-height: 50%; border-top: solid $panel; scrollbar-size-vertical: 1;
    }
    """

    def __init__(self, pod: PodState, run: RunState) -> None:
        super().__init__()
        self.pod, self.run_name, self._last = pod, run.name, run

    def body(self) -> Iterable[Widget]:
        """Yield the lines above the table, the table, and the checkpoint in full."""
        yield Panel(id="note")
        yield RowTable(view.COLUMNS)
        with VerticalScroll(can_focus=False):
            yield Panel(id="parts")

    def on_mount(self) -> None:
        """Begin to query the pod now and then for the run's checkpoint report."""
        self._report = CheckpointLine(
            self.console_app, self.pod, self.run_name, self.redraw, every_s=LOOK_S
        )

    def subject(self) -> Subject:
        """Return the pod and the run of the screen. If the run was removed from the pod, the run is
        returned as it was last.
        """
        self._last = self.pod.runs.get(self.run_name, self._last)
        return Subject(self.pod, self._last)

    def trail(self) -> Sequence[str]:
        """Return the breadcrumb for the top bar: fleet, pod, run and "checkpoints"."""
        return ("fleet", self.pod.name, self.run_name, "checkpoints")

    def draw(self) -> None:
        """Redraw the lines above the table, the table, and the checkpoint under the cursor."""
        found = self._report.report()
        if found is None:
            self.query_one("#note", Panel).show(self._waiting())
            self.table.show([])
            self._show_parts()
            return
        from bs4_console.checkpoints import listing  # imported already, for the report

        rows = view.rows(found, self.pod, self.run_name)
        kept = self.sifted(rows)
        width = self.size.width
        order = listing.standing(self.pod, self.run_name)
        told = listing.line(found)
        if status.is_old(self._report.age):
            told += f"; seen {formatting.age(self._report.age)} ago"
        lines = view.heading(found, told, order, width)
        if copy := store.line(self.pod, self.run_name, self.console_app.clock, width):
            lines.append(copy)
        lines += self.filter_note(len(kept), len(rows), "checkpoint")
        self.query_one("#note", Panel).show(lines)
        self.table.show(kept)
        self._show_parts()

    def _waiting(self) -> list[Line]:
        """Return the lines for as long as there is no report."""
        if self._report.trouble:
            return [[(" ▲ ", "warn bold"), (self._report.trouble, "warn")]]
        if not self.pod.link.up:
            return [[(f" {self.pod.name} cannot be asked now; its link is not up.", "warn")]]
        return [[(" … ", "accent bold"), (f"{self.pod.name} looks at its disk", "accent")]]

    def moved(self) -> None:
        """Show the checkpoint that is under the cursor now with its parts."""
        self.draw_bars()
        self._show_parts()

    def _one(self) -> CheckpointRow | None:
        """Return the checkpoint under the cursor, or None if it is not on the pod's disk."""
        found, row = self._report.report(), self.row()
        if found is None or row is None:
            return None
        for one in found["checkpoints"]:
            if str(one["step"]) == row.key[1]:
                return one
        return None

    def _show_parts(self) -> None:
        one, found, width = self._one(), self._report.report(), self.size.width
        self.query_one(VerticalScroll).display = one is not None
        lines: list[Line] = []
        if one is not None and found is not None:
            lines = view.detail(one, width - 1)
            if "disk" in found:
                from bs4_console.checkpoints import listing  # imported already, for the report

                for text in listing.remarks({"guard": None, **found}):
                    lines.append(cut([("   ", ""), (text, "dim")], width - 1))
        self.query_one("#parts", Panel).show(lines)

    def hints(self, command: commands.Command) -> bool:
        """Return True if the key bar at the bottom may offer `command` now. A restore is offered
        only if the run has or had a copy in a store.
        """
        if command.id == "restore":
            return self.run_name in self.pod.ledger.syncs
        return command.id not in ("retry", "open") and super().hints(command)

    # -- commands

    def do_open(self, args: str) -> None:
        """Show a message that says what can be done with the checkpoint under the cursor. (Its
        parts are shown below the table already.) `args` is ignored.
        """
        row, one, keys = self.row(), self._one(), self.console_app.keys
        if row is None:
            said = "There is no checkpoint to open."
            if self._report.report() is None:
                said = f"{self.pod.name} was still looking at its disk; try again."
            self.console_app.say(said, severity="warning")
            return
        step = row.key[1]
        said = f"Step {step} is only in the store: :restore {step} brings it to the pod."
        if one is not None:
            said = f"Step {step} is shown below with its parts"
            if int(step) in view.copies(self.pod, self.run_name):
                said += f"; :restore {step} fetches its copy"
            if one["complete"] and self._timely(commands.BY_ID["merge"]):
                said += f", {keys['merge']} merges it"
            said += "."
        self.console_app.say(said)

    def do_keep(self, args: str) -> None:
        """Ask for confirmation, and then order the pod to delete old checkpoints of the run. `args`
        says which stay: "N" or "N M" (the N newest ones and every Mth step); "off" takes the order
        back. If `args` is empty, open the prompt in which it is typed.
        """
        if not args:
            self.do_command("keep ")
        elif (session := self.session()) is not None:
            checkpoint_orders.keep(self.console_app, session, self.run_name, args, self._again)

    def do_sync(self, args: str) -> None:
        """Ask for confirmation, and then order the pod to copy the run's checkpoints to the place
        in `args`, an address like b2://BUCKET/PREFIX, or with "off" to stop copying them. If `args`
        is empty, open the prompt in which it is typed.
        """
        known = self.pod.ledger.syncs.get(self.run_name)
        if not args:
            self.do_command(f"sync {known.place if known else 'b2://'}")
        elif (session := self.session()) is not None:
            checkpoint_orders.sync(self.console_app, session, self.run_name, args, self._again)

    def do_restore(self, args: str) -> None:
        """Have the pod plan the restore of a checkpoint from the object store, and ask for
        confirmation. `args` is a step, a place in a store (b2://BUCKET/PREFIX), or both. Without a
        step the newest complete checkpoint is restored. Without a place the checkpoint comes from
        where this run's checkpoints are copied to.
        """
        session, run = self.session(), self.subject().run
        if session is not None and run is not None:
            checkpoint_orders.restore(self.console_app, session, run, args, self._again)

    def do_merge(self, args: str) -> None:
        """Have the pod plan the merge of a verl checkpoint, which is saved in parts, into one
        Hugging Face directory, and ask for confirmation. `args` is the checkpoint's step, or "" for
        the checkpoint under the cursor.
        """
        one = self._one()
        step = args
        if not step and one is not None and one["complete"]:
            step = str(one["step"])
        if (session := self.session()) is not None:
            merging.begin(self.console_app, session, self.run_name, step)

    def do_copy(self, args: str) -> None:
        """Copy the table and the lines above it to the clipboard as text. `args` is ignored."""
        lines = [self.query_one("#note", Panel).text]
        for row in self.table.rows:
            lines.append("  ".join(text_of(row.cells[c.id]) for c in view.COLUMNS))
        self.console_app.copy("\n".join(lines), "Copied the checkpoints.")

    def _again(self) -> None:
        """Ask the pod again, because something was ordered."""
        self._report.look_again()
