"""Commands of the console itself."""

from __future__ import annotations

from bs4_console.tui.commands.command import (
    CHECKPOINTS,
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
        id="copy",
        names=("copy", "yank"),
        keys=("y",),
        title="Copy",
        help=(
            "Copy what is looked at. That is the incident with its plan as text, the visible log "
            "lines, the row, the entry of the journal, or the table of GPUs."
        ),
        where=on(FLEET, POD, RUN, INCIDENT, LOG, JOURNAL, GPUS, CHECKPOINTS),
        hint=71,
    ),
    Command(
        id="theme",
        names=("theme",),
        keys=(),
        title="Theme",
        help=(
            "Change the colours. Without a name, it is the next of the built-in ones. NO_COLOR=1 "
            "in the environment uses none."
        ),
        where=EVERYWHERE,
        args="[NAME]",
        completes="themes",
    ),
    Command(
        id="command",
        names=(),
        keys=("colon",),
        title="Command",
        help="Type a command. Tab completes, the arrows bring back earlier ones.",
        where=EVERYWHERE,
        hint=90,
    ),
    Command(
        id="palette",
        names=("palette",),
        keys=("ctrl+p",),
        title="Palette",
        help="Search commands, pods and runs by a few letters.",
        where=EVERYWHERE,
    ),
    Command(
        id="help",
        names=("help", "h"),
        keys=("question_mark",),
        title="Help",
        help="See keys and commands of this screen. The signs are explained too.",
        where=EVERYWHERE,
        hint=95,
    ),
    Command(
        id="back",
        names=("back",),
        keys=("escape",),
        title="Back",
        help="Go one level up. On the fleet it takes the filter away. Nothing on a pod stops by "
        "leaving a screen.",
        where=EVERYWHERE,
        hint=97,
    ),
    Command(
        id="quit",
        names=("q", "quit", "q!", "exit"),
        keys=("ctrl+c",),
        title="Quit",
        synonyms="exit leave close",
        help="Leave the console. Agents go on watching, runs go on training, a plan that is being "
        "carried out is carried on by its agent.",
        where=EVERYWHERE,
        hint=99,
    ),
)
