"""In which settings a run differs from one that its curves are compared with."""

from __future__ import annotations

from collections.abc import Sequence

from bs4_console.pods.state import PodState, RunState
from bs4_console.run_log import comparison
from bs4_console.run_log.record_fold import fold
from bs4_console.tui.styled_text import Line, cut
from bs4_console.tui.widgets.braille import OWN, hue_of


def changes(
    pod: PodState, run: RunState, other_pod: PodState, other: RunState
) -> list[comparison.Row]:
    """Return the settings of the config, and the choices of data, in which the run `run` of `pod`
    and the run `other` of `other_pod` differ, or of which it is unknown whether they do. The list
    is empty if none differs. Raises OSError if a config that is saved on this machine cannot be
    read.
    """
    found = comparison.rows(fold(pod, run), fold(other_pod, other))
    return [row for row in found if row.part in ("settings", "data") and row.differs is not False]


def line(letter: str, rows: Sequence[comparison.Row], width: int) -> Line:
    """Return the line, of at most `width` cells, that says in which settings two runs differ, for
    example "B: trainer.optim.lr A 5e-06 B 3e-06". A is the run that the screen shows, and B, or
    another `letter`, the one with that letter in the legend. `rows` are the settings, from
    `changes`.
    """
    made: Line = [(" settings  ", "head")]
    for row in rows:
        made.append((f" {row.key} ", ""))
        if row.differs is None:
            made.append((f"unknown: {row.why} ", "dim"))
            continue
        for name, value in zip((OWN, letter), row.values, strict=True):
            made += [(f" {name} ", f"{_hue(name)} bold"), (_shown(value), "")]
        made.append((" ", ""))
    if not rows:
        made += [(f"{letter} ", f"{_hue(letter)} bold"), ("has the same", "dim")]
    return cut(made, width)


def _hue(letter: str) -> str:
    """Return the style of a letter of the legend."""
    return "accent" if letter == OWN else hue_of(letter)


def _shown(value: object) -> str:
    """Return a setting as text. None is a key that the config does not have, and "" a command line
    without further arguments.
    """
    if value is None or value == "":
        return "-"
    return f"{value:g}" if isinstance(value, float) else str(value)
