"""Choose the part of an entry's text that is shown with a hit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from bs4_console.documentation.entry import Entry, words
from bs4_console.documentation.pages import cells

#: A passage is at most this long, in characters.
LONGEST = 480
_FENCE = "```"
_SEEN = "Seen by."
_TO_DO, _FIX = "What to do.", "Fix."
_EMPHASIS = re.compile(r"(\*\*?)(?=\S)([^*]*[^*\s\\])\1")
_LINK = re.compile(r"\[([^][]+)\]\([^()\s]+\)")


def passage(entry: Entry, asked: Sequence[str], is_named: bool) -> str:
    """Return a short passage of an entry's text, without the signs of Markdown. `asked` are the
    words of the topic that a person has asked for, and `is_named` is True if that topic is the
    entry's name.

    For an entry about a failure, the passage says what the failure looks like, the first thing to
    do, and why. For any other entry it is the beginning of the text if `is_named` is True. If not,
    it is the paragraph, row or item that has the most words of `asked`.
    """
    found = list(blocks(entry.text))
    if not found:
        return ""
    if _SEEN in found[1:]:
        # A failure's signatures are long and for machines; what it looks like stands before them.
        seen = found.index(_SEEN)
        steps = _first_step(entry, found[seen:])
        return _cut("\n".join([found[0], *steps, *found[1:seen]]))
    if is_named:
        return _cut("\n".join(found))
    wanted = set(asked)

    def fit(block: str) -> int:
        return len(wanted.intersection(words(block)))

    return _cut(max(found, key=fit))


def _first_step(entry: Entry, found: Sequence[str]) -> list[str]:
    """Return the first thing to do about a failure: what a person does, or that its playbook
    mends it. Return [] if its text says neither.
    """
    if _TO_DO in found[:-1]:
        return [f"{_TO_DO} {found[found.index(_TO_DO) + 1].removeprefix('- ')}"]
    if _FIX in found:
        plan = f"bs4-console playbook plan {entry.names[0]} --pod NAME"
        return [f"{_TO_DO} Its playbook mends it: {plan}, or i and then p on the screen."]
    return []


def blocks(text: str) -> Iterator[str]:
    """Yield the paragraphs, list items, table rows and code lines of a Markdown text, each as one
    line.
    """
    lines: list[str] = []
    code = False
    for line in [*text.splitlines(), ""]:
        stripped = line.strip()
        is_row = stripped.startswith("|") and not code
        is_fence = stripped.startswith(_FENCE)
        begins = is_fence or is_row or code or not stripped or stripped.startswith(("- ", "* "))
        if begins and lines:
            yield _plain(" ".join(lines))
            lines = []
        if is_fence:
            code = not code
        elif is_row:
            yield from _row(stripped)
        elif code and stripped:
            yield line.rstrip()
        elif stripped:
            lines.append(stripped)


def _row(line: str) -> Iterator[str]:
    """Yield a row of a table as one line, if anything is in it."""
    for row in cells(line):
        kept = "  ".join(filter(None, row))
        if kept:
            yield kept


def _plain(text: str) -> str:
    """Return a line without the signs of Markdown."""
    text = _LINK.sub(r"\1", _EMPHASIS.sub(r"\2", text))
    return text.replace("\\*", "*").replace("&lt;", "<").replace("`", "")


def _cut(text: str) -> str:
    """Return a text, shortened at the end of a word."""
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST].rsplit(maxsplit=1)[0]} ..."
