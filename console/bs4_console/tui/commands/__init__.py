"""The table of all commands, one module for each group. Keys, the `:` line, the palette, the help
screen and docs/commands.md are read from it.

The command `next-incident` is carried out by the method `do_next_incident(args)` of the screen on
which it is given, or of the app.
"""

from __future__ import annotations

from collections.abc import Mapping

from bs4_console.tui.commands import (
    checkpoints,
    curves,
    everywhere,
    incidents,
    logs,
    places,
    tables,
)
from bs4_console.tui.commands.command import (
    CHECKPOINTS,
    DIGITS,
    EVERYWHERE,
    FLEET,
    GPUS,
    HELP,
    INCIDENT,
    JOURNAL,
    LOG,
    MESSAGES,
    NEEDS,
    NOTES,
    POD,
    ROLLOUTS,
    RUN,
    Command,
    key_text,
)

__all__ = [
    "BY_ID",
    "BY_NAME",
    "CHECKPOINTS",
    "COMMANDS",
    "DIGITS",
    "EVERYWHERE",
    "FLEET",
    "GPUS",
    "HELP",
    "INCIDENT",
    "JOURNAL",
    "LOG",
    "MESSAGES",
    "NEEDS",
    "NOTES",
    "POD",
    "ROLLOUTS",
    "RUN",
    "Command",
    "at",
    "key_text",
    "meant",
    "parse",
]

COMMANDS: tuple[Command, ...] = (
    *incidents.COMMANDS,
    *checkpoints.COMMANDS,
    *logs.COMMANDS,
    *curves.COMMANDS,
    *tables.COMMANDS,
    *places.COMMANDS,
    *everywhere.COMMANDS,
)

BY_ID: Mapping[str, Command] = {command.id: command for command in COMMANDS}
BY_NAME: Mapping[str, Command] = {name: command for command in COMMANDS for name in command.names}


def at(place: str) -> list[Command]:
    """Return the commands that work on the screen with the name `place`, for example "fleet". They
    are in the order in which the key bar at the bottom shows their keys; commands that are not in
    the key bar come last.
    """
    return sorted((c for c in COMMANDS if place in c.where), key=lambda c: c.hint or 1000)


def meant(word: str) -> list[str]:
    """Return the first names of the commands that have `word` among their synonyms, by which the
    palette finds them too, for example ["stop"] for "kill". The list is empty if none has.
    """
    return [c.names[0] for c in COMMANDS if c.names and word in c.synonyms.split()]


def parse(text: str) -> tuple[Command | None, str]:
    """Return (command, arguments) for `text`, which a person typed after `:`. The command's name
    may be cut short as long as no other command has a name that begins so. The command is None if
    none fits or several do. The arguments are the text after the first word, or "".
    """
    word, _, args = text.strip().partition(" ")
    command = BY_NAME.get(word)
    if command is None and word:
        near = {c.id: c for name, c in BY_NAME.items() if name.startswith(word)}
        if len(near) == 1:
            (command,) = near.values()
    return command, args.strip()
