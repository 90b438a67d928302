"""The tables: order, groups, what is folded away, whose alerts are silent."""

from __future__ import annotations

from bs4_console.tui.commands.command import FLEET, GPUS, POD, RUN, Command, on

COMMANDS = (
    Command(
        "compact",
        ("compact",),
        ("C",),
        "Compact",
        "A row for each pod, its GPUs as one strip with × where there is a complaint; again, "
        "a row for each GPU.",
        on(GPUS),
        hint=30,
    ),
    Command(
        "old",
        ("old", "all"),
        ("a",),
        "Old runs",
        "Show or fold away runs that ended more than a day ago.",
        on(FLEET),
        hint=72,
    ),
    Command(
        "sort",
        ("sort",),
        ("S",),
        "Sort",
        "Sort the fleet by need (the usual order: what needs you first), pod, run, state, age, "
        "link, step, eta, pace, reward, gpu or disk; `-` in front turns it round. Without a name, "
        "the next of them.",
        on(FLEET),
        hint=76,
        args="[COLUMN]",
        completes="sorts",
    ),
    Command(
        "group",
        ("group",),
        ("B",),
        "Group",
        "Put the fleet under headings by pod, state or trainer, or none; the group with the worst "
        "row stands first. Enter on a heading folds it. Without a name, the next of them.",
        on(FLEET),
        hint=77,
        args="[BY]",
        completes="groups",
    ),
    Command(
        "urgent",
        ("urgent", "next"),
        ("u",),
        "Next urgent",
        "The cursor on the next row with something critical, unknown or a warning.",
        on(FLEET),
        hint=27,
    ),
    Command(
        "silence",
        ("silence", "mute"),
        ("M",),
        "Silence alerts",
        "No bell, notification or toast for the run under the cursor, or with that word for its "
        "pod or for all; again, and they come back. The screen shows everything as before.",
        on(FLEET, POD, RUN),
        args="[run|pod|all]",
        completes="silences",
    ),
)
