"""Commands of the tables: sort, group, fold, and silence alerts."""

from __future__ import annotations

from bs4_console.tui.commands.command import FLEET, GPUS, POD, RUN, Command, on

COMMANDS = (
    Command(
        id="compact",
        names=("compact",),
        keys=("C",),
        title="Compact",
        help=(
            "Show a row for each pod, or for each GPU. A pod's GPUs are one strip then, with × "
            "where there is a complaint."
        ),
        where=on(GPUS),
        hint=30,
    ),
    Command(
        id="old",
        names=("old", "all"),
        keys=("a",),
        title="Old runs",
        help="Show or fold away runs that ended a day ago.",
        where=on(FLEET),
        hint=72,
    ),
    Command(
        id="sort",
        names=("sort",),
        keys=("S",),
        title="Sort",
        help=(
            "Sort the fleet. The usual order is need: what needs you first. Others are pod, run, "
            "state, age, link, step, eta, pace, reward, gpu or disk; `-` in front turns it round. "
            "Without a name, the next of them."
        ),
        where=on(FLEET),
        hint=76,
        args="[COLUMN]",
        completes="sorts",
    ),
    Command(
        id="group",
        names=("group",),
        keys=("B",),
        title="Group",
        help=(
            "Put the fleet under headings. They are by pod, state or trainer, or there are none; "
            "the group with the worst row stands first. Enter on a heading folds it. Without a "
            "name, the next of them."
        ),
        where=on(FLEET),
        hint=77,
        args="[BY]",
        completes="groups",
    ),
    Command(
        id="urgent",
        names=("urgent", "next"),
        keys=("u",),
        title="Next urgent",
        help="Go to the next row with something wrong. It is critical, unknown or a warning.",
        where=on(FLEET),
        hint=27,
    ),
    Command(
        id="silence",
        names=("silence", "mute"),
        keys=("M",),
        title="Silence alerts",
        help=(
            "Switch the alerts of a run off or on. There is no bell, notification or toast then "
            "for the run under the cursor, or with that word for its pod or for all. The screen "
            "shows everything as before."
        ),
        where=on(FLEET, POD, RUN),
        args="[run|pod|all]",
        completes="silences",
    ),
)
