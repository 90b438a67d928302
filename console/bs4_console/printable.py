"""Texts that a terminal only prints.

A pod, a log and a provider can send any text. Some characters make a terminal act: escape
sequences move the cursor, write the clipboard, set titles and hide links; bidi controls and
zero-width characters make a text look like another one. What is printed or shown passes one of
these functions. Raw log bytes (`logs --raw`, mirrors) are never altered.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from typing import TextIO, cast

from bs4_console.secret import redactor

#: Whole sequences, so that their parameters are not left as text. A sequence ends at the end of the
#: line at the latest: an OSC that is never closed must not swallow what follows.
_SEQUENCES = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor movement, window operations
    "|(?:\x1b\\]|\x9d)[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\\\|\x9c)?"  # OSC: titles, clipboard, links
    "|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c\n]*(?:\x1b\\\\|\x9c)?"  # DCS, SOS, PM, APC
    "|\x1b[ -/]*[0-~]?"  # sequences of two bytes, and a lone ESC
)
#: C0 but tab and line feed, DEL, C1, and what reorders or hides text: bidi controls, zero-width
#: characters, line and paragraph separators, interlinear and tag characters.
_UNSEEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f"
)
_ACTED_ON = re.compile(f"[{_UNSEEN}]")
_NOT_DRAWN = re.compile(f"[\t\n{_UNSEEN}]")
_BREAKS = re.compile("[\r\n\t]+")


def printable(text: str) -> str:
    """Return the text without everything that a terminal acts on, such as escape sequences and
    control characters. Tabs and line feeds stay.
    """
    if text.isprintable():
        return text
    return without_unseen(_SEQUENCES.sub("", text))


def one_line(text: str) -> str:
    """Return the text as one line: each run of tabs and line breaks is one space, and everything
    that a terminal acts on is gone. A value from a pod can then not imitate another line of the
    console's output.
    """
    if text.isprintable():
        return text
    return printable(_BREAKS.sub(" ", text))


def blanked(text: str) -> str:
    """Return the text with each character that a terminal acts on, and each tab and line feed,
    replaced by one space. The number of characters stays the same, so that columns stay aligned.
    """
    if text.isprintable():
        return text
    return _NOT_DRAWN.sub(" ", text)


def without_unseen(text: str) -> str:
    """Return the text without the single characters that a terminal acts on, except tabs and line
    feeds. The visible rest of an escape sequence stays as text; `printable` removes that too.
    """
    if text.isprintable():
        return text
    return _ACTED_ON.sub("", text)


def escaped(json_text: str) -> str:
    r"""Return a JSON text in which everything that a terminal acts on is written as `\uXXXX`. It
    holds the same values.
    """
    if json_text.isprintable():
        return json_text
    return _ACTED_ON.sub(_as_escape, json_text)


def _as_escape(found: re.Match[str]) -> str:
    units = found.group().encode("utf-16-be")
    parts = []
    for at in range(0, len(units), 2):
        parts.append(f"\\u{units[at]:02x}{units[at + 1]:02x}")
    return "".join(parts)


class _Printing:
    """A text stream whose lines pass through `printable` and are redacted.

    A line that is not finished waits until it is, or until `flush`, so that a secret that is
    written in two pieces is found. Everything else, the bytes of `buffer` included, is the
    stream's own.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._redactor = redactor()

    def write(self, text: str) -> int:
        """Write the text without secrets and without anything that a terminal acts on. Return the
        length given.
        """
        self._put(self._redactor.feed(printable(text)))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each of the lines."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Write what waits for the end of its line, and flush the stream."""
        self._put(self._redactor.end())
        self._stream.flush()

    def _put(self, text: str) -> None:
        if text:
            self._stream.write(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


@contextlib.contextmanager
def only_printable(out: TextIO, err: TextIO) -> Iterator[None]:
    """For the length of a `with` block, pass everything that is written to standard output (`out`)
    and standard error (`err`) through `printable`, which removes what a terminal would act on, and
    replace secrets in it.
    """
    printing, complaining = _Printing(out), _Printing(err)
    with (
        contextlib.redirect_stdout(cast(TextIO, printing)),
        contextlib.redirect_stderr(cast(TextIO, complaining)),
    ):
        try:
            yield
        finally:
            complaining.flush()
            printing.flush()
