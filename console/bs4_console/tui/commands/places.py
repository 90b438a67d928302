"""Commands that go to another screen."""

from __future__ import annotations

from bs4_console.tui.commands.command import (
    EVERYWHERE,
    FLEET,
    INCIDENT,
    LOG,
    POD,
    ROLLOUTS,
    RUN,
    Command,
    on,
)

COMMANDS = (
    Command(
        id="journal",
        names=("journal", "j"),
        keys=("J",),
        title="Journal",
        synonyms="history audit actions who",
        help=(
            "See what was done on every pod. It says by whom and with which commands, newest "
            "first: plans, fixes, launches, stops, notes."
        ),
        where=EVERYWHERE,
        hint=73,
    ),
    Command(
        id="gpus",
        names=("gpus", "gpu"),
        keys=("U",),
        title="GPUs",
        help=(
            "See the GPUs of all pods, complaints first. Each shows how busy it is, memory, "
            "power, temperature, clocks, why it is slowed down, ECC and Xid errors, and which run "
            "and component holds it; several processes have a row each."
        ),
        where=EVERYWHERE,
        hint=75,
    ),
    Command(
        id="pin",
        names=("pin",),
        keys=("P",),
        title="Pin",
        help=(
            "Pin this place to the next free number. A row, run, log or incident can have one "
            "from 1 to 9; there again, the number is free. Pins are kept."
        ),
        where=on(FLEET, POD, RUN, INCIDENT, LOG),
        needs=("pod",),
    ),
    Command(
        id="jump",
        names=("jump",),
        keys=(),
        title="Jump",
        help=(
            "Go to a pinned place. Its number alone, 1 to 9, does it from everywhere. Without "
            "one, what is pinned."
        ),
        where=EVERYWHERE,
        args="[NUMBER]",
        completes="pins",
    ),
    Command(
        id="run",
        names=("run",),
        keys=(),
        title="Go to run",
        help="Open a run by name. POD/RUN where the name occurs on several pods.",
        where=EVERYWHERE,
        args="NAME",
        completes="runs",
    ),
    Command(
        id="file",
        names=("file",),
        keys=("O",),
        title="Open file",
        help=(
            "Read any file of the pod as a log. It is live, searched and paged where it lies. The "
            "path begins with / or ~/, and Tab goes on with what lies there; what may hold "
            "credentials is not shown. `:open PATH` does the same."
        ),
        where=on(FLEET, POD, RUN, INCIDENT, LOG),
        needs=("pod",),
        args="PATH",
        completes="paths",
    ),
    Command(
        id="rollouts",
        names=("rollouts",),
        keys=(),
        title="Rollouts",
        synonyms="answers completions prompts samples model writes",
        help=(
            "See what the model was asked and wrote. These are the last rollouts of the newest "
            "step, with what they were worth. With a number, those of that step; with a path, "
            "those in that file of the pod."
        ),
        where=on(FLEET, RUN, INCIDENT, LOG, ROLLOUTS),
        needs=("run",),
        args="[STEP|PATH]",
        completes="paths",
    ),
    Command(
        id="pod",
        names=("pod",),
        keys=("d",),
        title="Pod",
        help=(
            "See the pod of what is looked at. It shows what became of it and by which signs, "
            "link, GPUs, host, what is done there, its store, its agent, what could not be seen, "
            "and what witnesses say. With a name, the fleet with the cursor on that pod."
        ),
        where=EVERYWHERE,
        hint=78,
        args="[NAME]",
        completes="pods",
    ),
    Command(
        id="fleet",
        names=("fleet", "pods"),
        keys=(),
        title="Fleet",
        help="See all pods and runs, the most urgent first.",
        where=EVERYWHERE,
    ),
    Command(
        id="messages",
        names=("messages", "m"),
        keys=("m",),
        title="Messages",
        synonyms="notifications errors events",
        help="See what the console has said so far. Errors have their next step.",
        where=EVERYWHERE,
        hint=80,
    ),
)
