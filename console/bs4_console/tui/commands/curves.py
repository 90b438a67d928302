"""Curves, and the time cursor over everything."""

from __future__ import annotations

from bs4_console.tui.commands.command import GPUS, INCIDENT, LOG, POD, RUN, Command, on

COMMANDS = (
    Command(
        "moment",
        ("at", "moment"),
        ("t",),
        "Time cursor",
        "One cursor for everything: the curves give their values at that step, GPUs and host "
        "their sample of then (older ones from what is kept on this machine), the log its lines "
        "of then, the screen what was wrong then. In a log it goes to the time of the line "
        "pointed at, on an incident to when that began. With a step or a time, there; given "
        "again, back to now.",
        on(RUN, POD, GPUS, LOG, INCIDENT),
        hint=56,
        args="[STEP|TIME]",
    ),
    Command(
        "time",
        ("time",),
        ("at",),
        "Time",
        "Ask for a moment and put the time cursor there: 14:32 or 14:32:05 (of this machine, the "
        "last that has passed), -15m or +90s from where the cursor is, 2026-11-20 14:32, a step, "
        "or now.",
        on(RUN, POD, GPUS),
        hint=58,
        args="[TIME]",
    ),
    Command(
        "earlier",
        ("earlier",),
        ("comma",),
        "Earlier",
        "Move the time cursor one step back, where there is no run a minute; by as many as "
        "are given.",
        on(RUN, POD, GPUS),
        args="[N]",
    ),
    Command(
        "later",
        ("later",),
        ("full_stop",),
        "Later",
        "Move the time cursor one step on, where there is no run a minute; by as many as are "
        "given.",
        on(RUN, POD, GPUS),
        args="[N]",
    ),
    Command(
        "compare",
        ("compare", "versus"),
        ("V",),
        "Compare",
        "Lay other lines over the curves, each with a letter and its own dashes: without a name "
        "what earlier attempts of the run did that was done again; a number for one attempt, a "
        "run (of any pod) by its name, up to four. Given again it goes away; `none` ends it.",
        on(RUN),
        ("run",),
        hint=39,
        args="[RUN|ATTEMPT|none]",
        completes="runs",
    ),
    Command(
        "curves",
        ("curves", "curve"),
        ("c",),
        "Curves",
        "The curves on the whole screen: more of them, large, with labels, healthy range (┃) and "
        "the GPUs beside them; again, and the log is back. With a name (a beginning is enough), "
        "that one alone.",
        on(RUN),
        ("run",),
        hint=28,
        args="[NAME]",
        completes="curves",
    ),
    Command(
        "log-scale",
        ("log-scale", "logscale"),
        ("L",),
        "Log scale",
        "Curves on a logarithmic scale, or on a linear one again. What is 0 or less cannot "
        "be shown there and is counted in the title.",
        on(RUN),
        ("run",),
        hint=33,
    ),
    Command(
        "smooth",
        ("smooth", "ema"),
        ("E",),
        "Smooth",
        "A running mean (exponential, by its weight) as the line, and the steps as dim dots "
        "behind it. Without a weight, the next of 0.6, 0.9, 0.97 and none.",
        on(RUN),
        ("run",),
        hint=34,
        args="[WEIGHT]",
    ),
    Command(
        "zoom-in",
        ("zoom-in", "zoom"),
        ("plus",),
        "Zoom in",
        "Half as many steps in the curves, about the time cursor or the newest; the values "
        "get the whole height.",
        on(RUN),
        ("run",),
        hint=35,
    ),
    Command(
        "zoom-out",
        ("zoom-out",),
        ("minus",),
        "Zoom out",
        "Twice as many steps in the curves, at last all of them.",
        on(RUN),
        ("run",),
        hint=36,
    ),
    Command(
        "pan-left",
        ("pan-left",),
        ("less_than_sign",),
        "Pan left",
        "Earlier steps of curves that are zoomed in, by a quarter of what is shown.",
        on(RUN),
        ("run",),
        hint=37,
    ),
    Command(
        "pan-right",
        ("pan-right",),
        ("greater_than_sign",),
        "Pan right",
        "Later steps of curves that are zoomed in; at the newest they follow the run again.",
        on(RUN),
        ("run",),
        hint=38,
    ),
)
