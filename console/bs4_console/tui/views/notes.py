"""The notes that people wrote about a run: the newest in one line, or all of them on a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from bs4_console.tui import formatting
from bs4_console.tui.styled_text import Line, cut, fold


class Note(TypedDict, total=False):
    """A note that a person wrote about a run: `who` is that person's name and `text` the note."""

    t: float
    """When the note was written, as a Unix time in seconds by the pod's clock."""
    who: str
    text: str


def newest(notes: Sequence[Note], width: int, indent: int = 3) -> Line:
    """Return the newest note about a run in one line of at most `width` cells, for example "✎
    lowered the rate  jo 03:12". `notes` are in the order of time, `indent` is the number of blanks
    in front. Return [] if there are no notes.
    """
    if not notes:
        return []
    note = notes[-1]
    said: Line = [
        (" " * indent, ""),
        ("✎ ", "accent"),
        (str(note.get("text", "")), ""),
        (f"  {_by(note)}", "dim"),
    ]
    return cut(said, width)


def page(notes: Sequence[Note], key: str, width: int) -> list[Line]:
    """Return all of `notes` about a run in full, in lines of at most `width` cells, the newest
    first. `key` is the key that writes another note, and is shown. Without notes the lines say so.
    """
    if not notes:
        said = "Nothing was written about this run yet."
        return [
            [(said, "bold")],
            [],
            [
                (key, "key @note"),
                (
                    (
                        " writes a line for those who look after it next; it stays in the pod's "
                        "journal."
                    ),
                    "dim",
                ),
            ],
        ]
    made: list[Line] = []
    for note in reversed(notes):
        made += [
            [("✎ ", "accent"), (_by(note), "dim")],
            *fold(str(note.get("text", "")), width, "", 2),
            [],
        ]
    return [*made, [(key, "key @note"), (" writes another", "dim")]]


def _by(note: Note) -> str:
    return f"{note.get('who', '')} {formatting.of_day(note['t'])}".strip()
