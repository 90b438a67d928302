"""The command palette (ctrl+p): the commands of this screen, and every pod and run by name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from bs4_console.tui import commands, formatting
from bs4_console.tui.commands import in_a_shell

if TYPE_CHECKING:
    from bs4_console.tui.app import ConsoleApp
    from bs4_console.tui.screens.base import ConsoleScreen


#: Separates the first clause of a command's help. With the whole help a small terminal would show
#: only four entries.
_ABOUT = re.compile(r"[.:;] | \(")
#: How much a match of a synonym counts, beside one of the command's own name.
OTHER_WORD = 0.7
#: Cells of the palette beside its entries.
EDGES = 6


class ConsoleCommands(Provider):
    """Finds commands, pods and runs for the command palette. It queries no pod, because the palette
    must not wait for a link.
    """

    @property
    def _console(self) -> ConsoleApp:
        return cast("ConsoleApp", self.app)

    def _offers(self) -> Iterator[tuple[str, str, commands.Command, str]]:
        """Yield (text, help, command, arguments) for each entry."""
        for command in commands.at(getattr(self.screen, "place", "")):
            if command.id != "palette":
                key = self._console.keys.get(command.id, "")
                about = _ABOUT.split(command.help, maxsplit=1)[0].rstrip(".")
                yield command.title, f"{key}  {about}" if key else about, command, ""
        for pod in self._console.fleet.pods:
            yield (
                f"pod {pod.name}",
                pod.address or "go to this pod",
                commands.BY_ID["pod"],
                pod.name,
            )
            for run in pod.runs.values():
                yield (
                    f"run {run.name} on {pod.name}",
                    f"{run.word}: open it",
                    commands.BY_ID["run"],
                    f"{pod.name}/{run.name}",
                )

    async def discover(self) -> Hits:
        """Yield every entry of the palette. Textual calls this while nothing is typed."""
        for text, about, command, args in self._offers():
            work = partial(self._console.carry_out, command, args)
            yield DiscoveryHit(Content(self._line(text, about)), work, text=text)

    async def search(self, query: str) -> Hits:
        """Yield each entry of the palette that matches `query`, which is what the person has typed,
        with its score. A higher score is a better match. The entry of a command also matches by a
        synonym of the command, with a lower score.
        """
        matcher = self.matcher(query)
        for text, about, command, args in self._offers():
            score = matcher.match(text)
            shown = matcher.highlight(text)
            if not args and not score:
                score = OTHER_WORD * max(map(matcher.match, command.synonyms.split()), default=0)
            if score > 0:
                work = partial(self._console.carry_out, command, args)
                rest = self._line(text, about)[len(text) :]
                yield Hit(score, shown.append(rest), work, text=text)

        for word in in_a_shell.WORDS:
            score = OTHER_WORD * matcher.match(word)
            if score > 0:
                work = partial(self._in_a_shell, word)
                text = f"In a shell: {word}"
                shown = Content(self._line(text, "copies the command line"))
                yield Hit(score, shown, work, text=text)

    def _in_a_shell(self, word: str) -> None:
        """Do what typing `word` after `:` does: copy the command line, and tell it."""
        self._console.typed(word, cast("ConsoleScreen", self.screen))

    def _line(self, text: str, about: str) -> str:
        """Return an entry in one line: its name, and behind it the key and a few words."""
        return formatting.clip(f"{text:<20} {about}", self.app.size.width - EDGES)
