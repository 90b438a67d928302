"""The commands of the curves, for the screen that shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from bs4_console.core import health
from bs4_console.core.errors import ConsoleError
from bs4_console.tui.widgets.curve_view import WEIGHTS, CurveView
from bs4_console.tui.widgets.curves import TITLES, Band

if TYPE_CHECKING:
    from bs4_console.core.state import RunState
    from bs4_console.tui.app import ConsoleApp

#: In the key bar only while the curves are large.
OF_CURVES = frozenset({"log-scale", "smooth", "zoom-in", "zoom-out", "pan-left", "pan-right"})


class CurveCommands:
    """Beside a ConsoleScreen that has `run_state` and the time cursor `moment`."""

    curve_view = CurveView()
    curves_large = False
    curves_only = ""
    """The title of the one curve that fills the place; empty for all."""
    moment: int | None

    if TYPE_CHECKING:

        @property
        def console_app(self) -> ConsoleApp: ...

        @property
        def run_state(self) -> RunState: ...

        def redraw(self) -> None: ...

    def load_bands(self) -> Mapping[str, Band]:
        """Without its file the curves have no healthy range: that is said, and nothing else is lost."""
        try:
            return health.bands()
        except ConsoleError as error:
            self.console_app.say(error.message, error.next_step, severity="warning")
            return {}

    def _steps(self) -> tuple[int, int]:
        rows = [*self.run_state.trainer_steps, *self.run_state.orchestrator_steps]
        return (min(row["step"] for row in rows), max(row["step"] for row in rows)) if rows else (0, 0)

    def _look(self, view: CurveView) -> None:
        self.curve_view = view
        self.redraw()

    # -- commands

    def do_curves(self, args: str) -> None:
        wanted = next((title for title in TITLES if title.lower().startswith(args.lower())), None) if args else ""
        if wanted is None:
            self.console_app.say(f"There is no curve {args!r}; there are {', '.join(TITLES)}.", severity="warning")
            return
        self.curves_large = bool(args) or not self.curves_large
        self.curves_only = wanted
        self.redraw()

    def do_log_scale(self, args: str) -> None:
        self._look(replace(self.curve_view, log=not self.curve_view.log))

    def do_smooth(self, args: str) -> None:
        try:
            weight = float(args) if args else next((w for w in WEIGHTS if w > self.curve_view.weight), WEIGHTS[0])
        except ValueError:
            weight = -1.0
        if not 0 <= weight < 1:
            self.console_app.say(f"{args!r} is no weight; from 0 (as it is) to less than 1, :smooth 0.9 for example.", severity="warning")
            return
        self._look(replace(self.curve_view, weight=weight))

    def do_zoom_in(self, args: str) -> None:
        self._look(self.curve_view.zoomed(*self._steps(), self.moment, 0.5))

    def do_zoom_out(self, args: str) -> None:
        self._look(self.curve_view.zoomed(*self._steps(), self.moment, 2.0))

    def do_pan_left(self, args: str) -> None:
        self._look(self.curve_view.panned(*self._steps(), self.moment, -0.25))

    def do_pan_right(self, args: str) -> None:
        self._look(self.curve_view.panned(*self._steps(), self.moment, 0.25))
