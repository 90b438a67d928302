"""Commands of the log: show, filter, search and mark lines."""

from __future__ import annotations

from bs4_console.tui.commands.command import (
    CHECKPOINTS,
    FLEET,
    GPUS,
    HELP,
    INCIDENT,
    JOURNAL,
    LOG,
    RUN,
    Command,
    on,
)

COMMANDS = (
    Command(
        id="logs",
        names=("logs", "log", "l"),
        keys=("l",),
        title="Logs",
        synonyms="output stdout stderr tail",
        help=(
            "See the run's logs on the whole screen. All sources are merged, or it is one "
            "(trainer, orchestrator, inference, launcher, ...); with a path, it is that file of "
            "the pod."
        ),
        where=on(FLEET, RUN, INCIDENT, LOG),
        needs=("run",),
        hint=25,
        args="[SOURCE|PATH]",
        completes="sources",
    ),
    Command(
        id="follow",
        names=("follow", "pause"),
        keys=("space",),
        title="Pause",
        synonyms="follow tail end stop",
        help=(
            "Stop at this place in the log, or follow it. While paused the lines that come are "
            "counted, and wait on the pod."
        ),
        where=on(RUN, LOG),
        hint=30,
    ),
    Command(
        id="filter",
        names=("filter",),
        keys=("slash",),
        title="Filter",
        help=(
            "Show only what matches a regular expression. `!` in front hides what does, ` && ` "
            "joins several. Small letters match both cases. Works on the whole log: what is not "
            "held is sifted on the pod. Empty shows all again."
        ),
        where=on(FLEET, RUN, LOG, JOURNAL, GPUS, CHECKPOINTS, HELP),
        hint=50,
        args="[PATTERN]",
        clears="/",
    ),
    Command(
        id="find",
        names=("find",),
        keys=("f",),
        title="Find",
        synonyms="search grep",
        help=(
            "Mark every match in the log. The nearest above is gone to, or else the nearest "
            "below: the pod searches and counts. Hides nothing."
        ),
        where=on(RUN, LOG),
        hint=51,
        args="[PATTERN]",
    ),
    Command(
        id="hide",
        names=("hide", "out"),
        keys=("exclamation_mark",),
        title="Hide",
        help=(
            "Leave out the lines that match. The filter that is set stays; given again, more "
            "lines are left out."
        ),
        where=on(RUN, LOG),
        hint=53,
        args="[PATTERN]",
    ),
    Command(
        id="highlight",
        names=("highlight", "hl"),
        keys=("H",),
        title="Highlight",
        help=(
            "Keep words or patterns marked. They stay so while you find and filter others; ` && ` "
            "joins several, empty marks nothing."
        ),
        where=on(RUN, LOG),
        args="[PATTERN]",
        clears="highlight ",
    ),
    Command(
        id="go",
        names=("go", "goto"),
        keys=("T",),
        title="Go to",
        help=(
            "Go to a place of the log. That is a line (12345), a share (50%), a time of day "
            "(21:14:05), a moment (2026-11-20 21:14), or so much earlier or later (-5m, +1h30m)."
        ),
        where=on(RUN, LOG),
        hint=53,
        args="[PLACE]",
    ),
    Command(
        id="bookmark",
        names=("bookmark", "mark"),
        keys=("b",),
        title="Bookmark",
        help="Mark the line pointed at, or take the mark away. Marks stay with their lines while "
        "the log is filtered, searched and followed.",
        where=on(RUN, LOG),
        hint=55,
    ),
    Command(
        id="next-bookmark",
        names=("next-bookmark",),
        keys=("apostrophe",),
        title="Next bookmark",
        help=(
            "Go to the next marked line below. It goes round and round, wherever in the log the "
            "line is."
        ),
        where=on(RUN, LOG),
    ),
    Command(
        id="previous-bookmark",
        names=("previous-bookmark",),
        keys=("quotation_mark",),
        title="Previous bookmark",
        help="Go to the next marked line above. It goes round and round.",
        where=on(RUN, LOG),
    ),
    Command(
        id="fold",
        names=("fold",),
        keys=("z",),
        title="Fold",
        help=(
            "Show one of lines that differ only in numbers. It says for how many it stands; again "
            "shows all; once more folds only requests that a server answered well, as at the "
            "start."
        ),
        where=on(RUN, LOG),
        hint=57,
    ),
    Command(
        id="expand",
        names=("expand", "entry"),
        keys=("x",),
        title="Expand",
        help=(
            "Show the line pointed at as a whole. JSON is laid out, a traceback has its head, and "
            "a line of any length comes in parts. In the help, the whole text of every command."
        ),
        where=on(RUN, LOG, HELP),
        hint=58,
    ),
    Command(
        id="copy-entry",
        names=("copy-entry",),
        keys=("Y",),
        title="Copy entry",
        help="Copy the line pointed at as a whole. Its traceback or JSON is included.",
        where=on(RUN, LOG),
    ),
    Command(
        id="next-match",
        names=("next-match",),
        keys=("n",),
        title="Next match",
        help="The next match of find below.",
        where=on(RUN, LOG),
    ),
    Command(
        id="previous-match",
        names=("previous-match",),
        keys=("N",),
        title="Previous match",
        help="The next match of find above.",
        where=on(RUN, LOG),
    ),
    Command(
        id="level",
        names=("level",),
        keys=("v",),
        title="Level",
        help=(
            "Set the least level that the log shows. It is all, info, warning or error. "
            "Tracebacks go with the line before them."
        ),
        where=on(RUN, LOG),
        hint=54,
        args="[LEVEL]",
        completes="levels",
    ),
    Command(
        id="source",
        names=("source",),
        keys=("o",),
        title="Source",
        help="Go through the log's sources. First all are merged, then each is alone.",
        where=on(LOG),
        hint=52,
        args="[SOURCE]",
        completes="sources",
    ),
)
