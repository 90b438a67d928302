"""The console itself."""

from __future__ import annotations

from bs4_console.tui.commands.command import (
    EVERYWHERE,
    FLEET,
    GPUS,
    INCIDENT,
    JOURNAL,
    LOG,
    POD,
    RUN,
    Command,
    on,
)

COMMANDS = (
    Command(
        "copy",
        ("copy", "yank"),
        ("y",),
        "Copy",
        "Copy what is looked at: the incident with its plan as text, the visible log lines, the "
        "row, the entry of the journal, or the table of GPUs.",
        on(FLEET, POD, RUN, INCIDENT, LOG, JOURNAL, GPUS),
        hint=71,
    ),
    Command(
        "theme",
        ("theme",),
        (),
        "Theme",
        "Change the colours; without a name, the next of the built-in ones. NO_COLOR=1 in "
        "the environment uses none.",
        EVERYWHERE,
        args="[NAME]",
        completes="themes",
    ),
    Command(
        "command",
        (),
        ("colon",),
        "Command",
        "Type a command; Tab completes, the arrows bring back earlier ones.",
        EVERYWHERE,
        hint=90,
    ),
    Command(
        "palette",
        ("palette",),
        ("ctrl+p",),
        "Palette",
        "Search commands, pods and runs by a few letters.",
        EVERYWHERE,
    ),
    Command(
        "help",
        ("help", "h"),
        ("question_mark",),
        "Help",
        "Keys and commands of this screen, and what the signs mean.",
        EVERYWHERE,
        hint=95,
    ),
    Command(
        "back",
        ("back",),
        ("escape",),
        "Back",
        "One level up; on the fleet, take the filter away. Nothing on a pod stops by leaving "
        "a screen.",
        EVERYWHERE,
        hint=97,
    ),
    Command(
        "quit",
        ("q", "quit", "q!", "exit"),
        ("ctrl+c",),
        "Quit",
        "Leave the console. Agents go on watching, runs go on training, a plan that is being "
        "carried out is carried on by its agent.",
        EVERYWHERE,
        hint=99,
    ),
)
