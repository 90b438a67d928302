"""A run's copy in an object store in one line: the last step that was verified there, and the
progress of the next upload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bs4_console.tui import formatting
from bs4_console.tui.styled_text import Line, whole
from bs4_console.tui.views.run import bar

if TYPE_CHECKING:
    from bs4_console.pods.state import PodState
    from bs4_console.tui.clock import Clock

#: Cells of the bar.
BAR = 10


def line(pod: PodState, run: str, clock: Clock, width: int, *, named: bool = False) -> Line:
    """Return one line of at most `width` cells about the copy of the run's checkpoints in an object
    store: the last step that was verified there, the upload under way, and why the last upload
    failed. `run` is the run's name, which is also shown if `named` is True. Return [] if nobody
    has ever ordered that this run's checkpoints are copied there.
    """
    view = pod.ledger.syncs.get(run)
    if view is None:
        return []
    now = clock.wall() + (pod.link.clock_offset or 0.0)
    found: Line = [(" store  ", "head"), (f"{run}  " if named else "", "bold")]
    parts: list[Line] = [found]
    if not view.order.get("to") and not view.order.get("once"):
        found.append(("not synced any more", "warn"))
    if view.failed is not None:
        detail = str(view.failed.get("detail", ""))
        found += [
            ("▲ ", "warn bold"),
            (f"{formatting.count(view.failures, 'failure')} in a row: {detail}", "warn"),
        ]
        parts.append(found := [("   ", "")])
    if view.pointer is not None and view.pointed_t is not None:
        found += [
            ("step ", "dim"),
            (str(view.pointer), "bold"),
            (f" verified {formatting.duration(now - view.pointed_t)} ago", ""),
        ]
    elif view.order.get("to"):
        found.append(("nothing is in the store yet", ""))
    if view.step is not None:
        parts.append(found := [("   step ", "dim"), (str(view.step), "bold"), (" ", "")])
        if view.total:
            share = min(1.0, view.sent / view.total)
            found += bar(share, BAR)
            found += [(f" {share:.0%}", ""), (f" of {formatting.size(view.total)}", "dim")]
        else:
            found.append(("begins", "dim"))
        if view.rate:
            left = max(0, view.total - view.sent) / view.rate
            parts.append(
                [(f", {formatting.size(view.rate)}/s, {formatting.duration(left)} left", "dim")]
            )
    if view.missed:
        parts.append([("   ", ""), ("▲ ", "warn bold"), (view.missed_words, "warn")])
    if view.held and view.failed is None:
        parts.append([("   ", ""), (view.held, "warn")])
    if view.place:
        parts.append([(f"   {view.place}", "dim")])
    return whole(parts, width)


def wrong(pod: PodState, run: str) -> bool:
    """Return True if the last upload of a checkpoint of the run `run` to the object store has
    failed, or a milestone was gone before it was uploaded. A small screen shows the line about the
    store only in that case.
    """
    view = pod.ledger.syncs.get(run)
    return view is not None and (view.failed is not None or bool(view.missed))
