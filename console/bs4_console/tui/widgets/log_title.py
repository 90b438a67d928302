"""The title line above a log: what is shown of it, how, and what it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bs4_console.tui import words
from bs4_console.tui.ink import Line, cut, spread, width_of
from bs4_console.tui.views.run import short
from bs4_console.tui.words import count

if TYPE_CHECKING:
    from bs4_console.tui.widgets.log_pane import LogPane


def title(pane: LogPane) -> Line:
    """Return the title line."""
    feed, view, store = pane._feed, pane.view, pane._store
    names = pane.streams()
    what = pane.source or (f"all {len(names)} sources" if len(names) != 1 else short(names[0]))
    left: Line = [(f" {pane.NOUN}", "head"), (f"  {what}", "bold")]
    if pane._moment is not None:
        left += [(" · ", "dim"), (f"at {words.of_day(pane._moment, seconds=True)}", "accent")]
    if pane._at is not None:
        left += [(" · at the evidence", "accent")]
    if store.repeats is not None and store.repeats.dropped:
        left += [(f" · {store.repeats.dropped:,} repeated left out", "dim")]
    left += view.title(feed.unread if feed else 0)
    left += _search(pane)
    if view.bookmarks:
        left += [(f" · ◆ {len(view.bookmarks)}", "warn")]
    if feed is not None and feed.left_out:
        left += [(f" · {feed.left_out / 1e6:,.0f} MB passed over to keep up", "dim")]
    left += _hindrance(pane)
    width = pane.size.width
    right: Line = [
        (
            f"{len(store):,} lines held "
            if feed and not feed.at_start
            else f"{len(store):,} lines ",
            "dim",
        )
    ]
    return spread(cut(left, max(10, width - width_of(right) - 1)), right, width)


def _search(pane: LogPane) -> Line:
    if not pane.view.find_text:
        return []
    line: Line = [(" · ", "dim"), (f"find {pane.view.find_text}", "accent")]
    if pane.search is not None:
        line += [
            (f" {count(pane.search.total, 'line')}{'' if pane.search.finished else '…'}", "dim")
        ]
    return line


def _hindrance(pane: LogPane) -> Line:
    """Return what the log waits for, or why nothing comes."""
    feed = pane._feed
    line: Line = []
    if pane._busy:
        line += [(" · ", "dim"), (pane._busy, "warn")]
    elif feed is not None and feed.paging and pane.view.lens.filter.active:
        line += [(" · ", "dim"), (f"sifting older lines {feed.reached}", "dim")]
    if pane._broken:
        line += [
            (" · ", "dim"),
            (f"ended with a fault, {pane._app.keys['messages']} tells it", "bad bold"),
        ]
    elif feed is None or not feed.loaded:
        line += [(" · ", "dim"), (feed.waiting if feed and feed.waiting else "reading…", "warn")]
    elif feed.waiting:
        line += [(" · ", "dim"), (f"stands still: {feed.waiting}", "warn bold")]
    return line
