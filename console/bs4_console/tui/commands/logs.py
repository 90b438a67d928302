"""The log: seen, sifted, searched, marked."""

from __future__ import annotations

from bs4_console.tui.commands.command import FLEET, GPUS, INCIDENT, JOURNAL, LOG, RUN, Command, on

COMMANDS = (
    Command(
        "logs",
        ("logs", "log", "l"),
        ("l",),
        "Logs",
        "The run's logs on the whole screen: all sources merged, or one (trainer, orchestrator, "
        "inference, launcher, ...); with a path, that file of the pod.",
        on(FLEET, RUN, INCIDENT, LOG),
        ("run",),
        hint=25,
        args="[SOURCE|PATH]",
        completes="sources",
    ),
    Command(
        "follow",
        ("follow", "pause"),
        ("space",),
        "Follow/pause",
        "Stop at this place in the log, or go on with its end. While paused the lines that "
        "come are counted, and wait on the pod.",
        on(RUN, LOG),
        hint=30,
    ),
    Command(
        "filter",
        ("filter",),
        ("slash",),
        "Filter",
        "Show only what matches a regular expression; `!` in front hides what does, ` && ` joins "
        "several. Small letters match both cases. Works on the whole log: what is not held is "
        "sifted on the pod. Empty shows all again.",
        on(FLEET, RUN, LOG, JOURNAL, GPUS),
        hint=50,
        args="[PATTERN]",
    ),
    Command(
        "find",
        ("find",),
        ("f",),
        "Find",
        "Mark every match in the log and go to the nearest above, or else below: the pod "
        "searches and counts. Hides nothing.",
        on(RUN, LOG),
        hint=52,
        args="[PATTERN]",
    ),
    Command(
        "hide",
        ("hide", "out"),
        ("exclamation_mark",),
        "Hide",
        "Leave out the lines that match, beside the filter that is set; given again, more of them.",
        on(RUN, LOG),
        hint=51,
        args="[PATTERN]",
    ),
    Command(
        "highlight",
        ("highlight", "hl"),
        ("H",),
        "Highlight",
        "Keep words or patterns marked while you find and filter others; ` && ` joins "
        "several, empty marks nothing.",
        on(RUN, LOG),
        args="[PATTERN]",
    ),
    Command(
        "go",
        ("go", "goto"),
        ("T",),
        "Go to",
        "Go to a place of the log: a line (12345), a share (50%), a time of day (21:14:05), a "
        "moment (2026-11-20 21:14), or so much earlier or later (-5m, +1h30m).",
        on(RUN, LOG),
        hint=53,
        args="[PLACE]",
    ),
    Command(
        "bookmark",
        ("bookmark", "mark"),
        ("b",),
        "Bookmark",
        "Mark the line pointed at, or take the mark away. Marks stay with their lines while "
        "the log is filtered, searched and followed.",
        on(RUN, LOG),
        hint=55,
    ),
    Command(
        "next-bookmark",
        ("next-bookmark",),
        ("apostrophe",),
        "Next bookmark",
        "The next marked line below, round and round, wherever in the log it is.",
        on(RUN, LOG),
    ),
    Command(
        "previous-bookmark",
        ("previous-bookmark",),
        ("quotation_mark",),
        "Previous bookmark",
        "The next marked line above, round and round.",
        on(RUN, LOG),
    ),
    Command(
        "fold",
        ("fold",),
        ("z",),
        "Fold",
        "Of neighbouring lines that differ only in their numbers show the first, with how "
        "many it stands for; again shows all.",
        on(RUN, LOG),
        hint=57,
    ),
    Command(
        "expand",
        ("expand", "entry"),
        ("x",),
        "Expand",
        "The line pointed at as a whole: JSON laid out, a traceback with its head, a line of "
        "any length in parts.",
        on(RUN, LOG),
        hint=58,
    ),
    Command(
        "copy-entry",
        ("copy-entry",),
        ("Y",),
        "Copy entry",
        "Copy the line pointed at as a whole, its traceback or JSON included.",
        on(RUN, LOG),
    ),
    Command(
        "next-match",
        ("next-match",),
        ("n",),
        "Next match",
        "The next match of find, downwards.",
        on(RUN, LOG),
    ),
    Command(
        "previous-match",
        ("previous-match",),
        ("N",),
        "Previous match",
        "The next match of find, upwards.",
        on(RUN, LOG),
    ),
    Command(
        "level",
        ("level",),
        ("v",),
        "Level",
        "The least level that the log shows: all, info, warning or error. Tracebacks go with "
        "the line before them.",
        on(RUN, LOG),
        hint=54,
        args="[LEVEL]",
        completes="levels",
    ),
    Command(
        "source",
        ("source",),
        ("o",),
        "Next source",
        "Go through the log's sources: all merged, then each alone.",
        on(LOG),
        hint=31,
        args="[SOURCE]",
        completes="sources",
    ),
)
