"""Writes docs/commands.md from the table of commands: `python -m bs4_console.tui.commands.page
docs/commands.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from bs4_console.tui.commands.command import EVERYWHERE, Command, key_text
from bs4_console.tui.commands.in_a_shell import WORDS, command_line


def markdown(table: Iterable[Command], keys: Mapping[str, Iterable[str]] | None = None) -> str:
    """Return the text of docs/commands.md: an introduction, a table with a row for each command of
    `table`, and one of what is done in a shell. `keys` maps a command's id to the keys that are
    shown instead of its usual ones.
    """
    lines = [
        "# Keys and commands",
        "",
        "Written from the console's own table (`bs4_console/tui/commands/`) by `python -m "
        "bs4_console.tui.commands.page docs/commands.md`; do not edit.",
        "",
        (
            "Type `:` and a name, press a key, or search with ctrl+p. `?` in the console shows "
            "the same for the screen you are on."
        ),
        "",
        (
            "**Your own keys.** `keys.toml` in the configuration directory, by the command's id; "
            "several keys with commas between them:"
        ),
        "",
        "```toml",
        "[keys]",
        'apply = "ctrl+r"',
        'incident = "w, f6"',
        "```",
        "",
        "Whatever cannot be (a command that does not exist, a key that another command has on the "
        "same screen, one that moves the cursor, a file that cannot be read) is said once in a "
        "sentence, and the usual key stays.",
        "",
        "**Colours.** `:theme` goes through bs4-dark, bs4-light, bs4-safe and bs4-safe-light "
        "(good, warning and bad stay apart for colour-blind eyes), bs4-no-colour, and Textual's "
        "own by name. `NO_COLOR=1` uses none, and on a terminal of 16 colours each meaning has "
        "one of them. Every state has a sign and a word as well. For a screen reader, "
        "`watch` writes a plain line for each change, with the command to type next; all other "
        "commands answer in plain lines too (docs/check.md).",
        "",
        "**Over SSH.** Where `SSH_CONNECTION` or `SSH_TTY` is set the screen paints less: news of "
        "pods once a second, logs within a budget of bytes. `BS4_REMOTE=1` or `0` decides it by "
        "hand.",
        "",
        "**Read-only.** With `bs4-console --read-only`, or on a pod with `read_only = true`, "
        "every action is refused before anything is sent.",
        "",
        "**Kept.** Theme, filter, order, silenced alerts, pins, and the screen you are on are in "
        "`screen.json` in the state directory, written a moment after each change: after a crash "
        "or kill -9 the next start is where you were.",
        "",
        "| id | key | typed | on | what it does |",
        "|---|---|---|---|---|",
    ]
    for command in table:
        wanted = (keys or {}).get(command.id, command.keys)
        shown = " ".join(f"`{key_text(key)}`" for key in wanted)
        # The arguments stand behind the first name.
        first = " ".join([*command.names[:1], command.args]).strip()
        typed = ", ".join(f"`:{name}`" for name in (first, *command.names[1:]) if name)
        where = ", ".join(sorted(command.where))
        if command.where == EVERYWHERE:
            where = "everywhere"
        row = []
        for text in (f"`{command.id}`", shown or "–", typed or "–", where, command.help):
            # A bar ends a cell, also inside code.
            row.append(text.replace("|", "\\|"))
        lines.append(f"| {' | '.join(row)} |")
    lines += [
        "",
        "**In a shell.** What a screen does not do is a command of the shell. These words after "
        "`:` show its line and copy it, with the pod and the run of the screen filled in; "
        "capital letters are yours to fill in.",
        "",
        "| typed | the line |",
        "|---|---|",
    ]
    for word in WORDS:
        lines.append(f"| `:{word}` | `{command_line(word, '', '')}` |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    from bs4_console.tui.commands import COMMANDS

    Path(sys.argv[1]).write_text(markdown(COMMANDS), encoding="utf-8")
