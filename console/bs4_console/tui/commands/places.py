"""Where to go."""

from __future__ import annotations

from bs4_console.tui.commands.command import EVERYWHERE, FLEET, INCIDENT, LOG, POD, RUN, Command, on

COMMANDS = (
    Command(
        "journal",
        ("journal", "j"),
        ("J",),
        "Journal",
        "All that was done on every pod, by whom and with which commands, newest first: "
        "plans, fixes, launches, stops, notes.",
        EVERYWHERE,
        hint=73,
    ),
    Command(
        "gpus",
        ("gpus", "gpu"),
        ("U",),
        "GPUs",
        "The GPUs of all pods, those with complaints first: busy, memory, power, temperature, "
        "clocks, why they are slowed down, ECC and Xid errors, and which run and component holds "
        "each; several processes have a row each.",
        EVERYWHERE,
        hint=75,
    ),
    Command(
        "pin",
        ("pin",),
        ("P",),
        "Pin",
        "Pin this place (row, run, log, incident) to the next free number from 1 to 9; there "
        "again, the number is free. Pins are kept.",
        on(FLEET, POD, RUN, INCIDENT, LOG),
        ("pod",),
    ),
    Command(
        "jump",
        ("jump",),
        (),
        "Jump",
        "Go to a pinned place; its number alone, 1 to 9, does it from everywhere. Without "
        "one, what is pinned.",
        EVERYWHERE,
        args="[NUMBER]",
        completes="pins",
    ),
    Command(
        "run",
        ("run",),
        (),
        "Go to run",
        "Open a run by name. POD/RUN where the name occurs on several pods.",
        EVERYWHERE,
        args="NAME",
        completes="runs",
    ),
    Command(
        "file",
        ("file",),
        ("O",),
        "Open file",
        "Any file of the pod as a log: live, searched and paged where it lies. The path begins "
        "with / or ~/, and Tab goes on with what lies there; what may hold credentials is not "
        "shown. `:open PATH` does the same.",
        on(FLEET, POD, RUN, INCIDENT, LOG),
        ("pod",),
        args="PATH",
        completes="paths",
    ),
    Command(
        "pod",
        ("pod",),
        ("d",),
        "Pod",
        "The pod of what is looked at: what became of it and by which signs, link, GPUs, host, "
        "what is done there, its store, its agent, what could not be seen, and what witnesses "
        "say. With a name, the fleet with the cursor on that pod.",
        EVERYWHERE,
        hint=78,
        args="[NAME]",
        completes="pods",
    ),
    Command(
        "fleet",
        ("fleet", "pods"),
        (),
        "Fleet",
        "All pods and runs in one table, what needs you first.",
        EVERYWHERE,
    ),
    Command(
        "messages",
        ("messages", "m"),
        ("m",),
        "Messages",
        "Everything the console has said since it started, errors with their next step.",
        EVERYWHERE,
        hint=80,
    ),
)
