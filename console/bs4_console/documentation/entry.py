"""One thing that the documentation says something about."""

from __future__ import annotations

import functools
import re
import shlex
from dataclasses import dataclass
from typing import Literal, get_args

from bs4_console.documentation.parameters import Parameter

EntryKind = Literal["exit", "failure", "xid", "rule", "parameter", "command", "word", "key", "page"]
"""What an entry is about: the exit code of a program that a signal has ended, a known failure, an
Xid number of the GPU driver, a rule of `config lint`, a parameter of a training config, a command,
a word of the glossary, a key of the screen, or a section of a page. Of several entries with one
name the earlier kind comes first.
"""
KINDS: tuple[EntryKind, ...] = get_args(EntryKind)

_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One thing about which the documentation says something, such as a command or a failure
    (`kind`).

    `names` are the names by which a person can ask for it; the first one is shown, and no other
    entry has it. `title` is one line about it. `text` is all that is said about it, in Markdown.
    `more` is the command that shows more, or "" for `docs --full` with the first name. `settings`
    are a parameter's types and defaults, by trainer.
    """

    kind: EntryKind
    names: tuple[str, ...]
    title: str
    text: str
    more: str = ""
    settings: tuple[Parameter, ...] = ()

    @property
    def command(self) -> str:
        """Return the command that shows more about the entry, as a person types it, such as
        `bs4-console docs --full NAME`.
        """
        return self.more or f"bs4-console docs --full {shlex.quote(self.names[0])}"


@functools.cache
def words(text: str) -> tuple[str, ...]:
    """Return the words of a text or a name in lower case, so that "orchestrator.batch_size", "Batch
    size" and "batch-size" give the same result. The s at the end of a plural is removed.
    """
    found = []
    for word in _WORD.findall(text.lower()):
        if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
            word = word[:-1]
        found.append(word)
    return tuple(found)
