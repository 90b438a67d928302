"""Commands of the curves and the time cursor."""

from __future__ import annotations

from bs4_console.tui.commands.command import GPUS, INCIDENT, LOG, POD, RUN, Command, on

COMMANDS = (
    Command(
        id="moment",
        names=("at", "moment"),
        keys=("t",),
        title="Time cursor",
        help=(
            "Look at everything as it was at one moment. The curves give their values at that "
            "step, GPUs and host their sample of then (older ones from what is kept on this "
            "machine), the log its lines of then, the screen what was wrong then. In a log it "
            "goes to the time of the line pointed at, on an incident to when that began. With a "
            "step or a time, there; given again, back to now."
        ),
        where=on(RUN, POD, GPUS, LOG, INCIDENT),
        hint=56,
        args="[STEP|TIME]",
    ),
    Command(
        id="time",
        names=("time",),
        keys=("at",),
        title="Time",
        help=(
            "Ask for a moment and put the time cursor there. It is 14:32 or 14:32:05 (of this "
            "machine, the last that has passed), -15m or +90s from where the cursor is, "
            "2026-11-20 14:32, a step, or now."
        ),
        where=on(RUN, POD, GPUS),
        hint=58,
        args="[TIME]",
    ),
    Command(
        id="earlier",
        names=("earlier",),
        keys=("comma",),
        title="Earlier",
        help=(
            "Move the time cursor one step back. Where there is no run it moves by a minute; a "
            "number moves it by so many."
        ),
        where=on(RUN, POD, GPUS),
        args="[N]",
    ),
    Command(
        id="later",
        names=("later",),
        keys=("full_stop",),
        title="Later",
        help=(
            "Move the time cursor one step on. Where there is no run it moves by a minute; a "
            "number moves it by so many."
        ),
        where=on(RUN, POD, GPUS),
        args="[N]",
    ),
    Command(
        id="compare",
        names=("compare", "versus"),
        keys=("V",),
        title="Compare",
        help=(
            "Lay the lines of others over the curves. Each has a letter and its own dashes: a "
            "number for an earlier attempt of the run whose steps were done again, a run (of any "
            "pod) by its name, up to four. The key asks which, and Enter takes what it offers. "
            "Given again it goes away; `none` ends it. Of another run the settings that differ "
            "are named."
        ),
        where=on(RUN),
        needs=("run",),
        hint=39,
        args="[RUN|ATTEMPT|none]",
        completes="other runs",
    ),
    Command(
        id="curves",
        names=("curves", "curve"),
        keys=("c",),
        title="Curves",
        synonyms="charts plots metrics reward loss",
        help=(
            "See the curves on the whole screen. There are more of them, large, with labels, "
            "healthy range (┃) and the GPUs beside them; again, and the log is back. With a name "
            "(a beginning is enough), that one alone."
        ),
        where=on(RUN),
        needs=("run",),
        hint=28,
        args="[NAME]",
        completes="curves",
    ),
    Command(
        id="log-scale",
        names=("log-scale", "logscale"),
        keys=("L",),
        title="Log scale",
        help=(
            "Draw curves on a logarithmic or linear scale. What is 0 or less cannot be shown "
            "there and is counted in the title."
        ),
        where=on(RUN),
        needs=("run",),
        hint=33,
    ),
    Command(
        id="smooth",
        names=("smooth", "ema"),
        keys=("E",),
        title="Smooth",
        help=(
            "Draw a running mean as the line. It is exponential, by its weight, and the steps are "
            "dim dots behind it. Without a weight, the next of 0.6, 0.9, 0.97 and none."
        ),
        where=on(RUN),
        needs=("run",),
        hint=34,
        args="[WEIGHT]",
    ),
    Command(
        id="zoom-in",
        names=("zoom-in", "zoom"),
        keys=("plus",),
        title="Zoom in",
        help=(
            "Show half as many steps in the curves. They are about the time cursor or the newest; "
            "the values get the whole height."
        ),
        where=on(RUN),
        needs=("run",),
        hint=35,
    ),
    Command(
        id="zoom-out",
        names=("zoom-out",),
        keys=("minus",),
        title="Zoom out",
        help="Show twice as many steps in the curves. At last it is all of them.",
        where=on(RUN),
        needs=("run",),
        hint=36,
    ),
    Command(
        id="pan-left",
        names=("pan-left",),
        keys=("less_than_sign",),
        title="Pan left",
        help="Show earlier steps of zoomed curves. It moves by a quarter of what is shown.",
        where=on(RUN),
        needs=("run",),
        hint=37,
    ),
    Command(
        id="pan-right",
        names=("pan-right",),
        keys=("greater_than_sign",),
        title="Pan right",
        help="Show later steps of zoomed curves. At the newest they follow the run again.",
        where=on(RUN),
        needs=("run",),
        hint=38,
    ),
)
