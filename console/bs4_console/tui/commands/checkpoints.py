"""Commands of the checkpoints: the screen, and the orders that are given there."""

from __future__ import annotations

from bs4_console.tui.commands.command import (
    CHECKPOINTS,
    FLEET,
    INCIDENT,
    LOG,
    POD,
    RUN,
    Command,
    on,
)

COMMANDS = (
    Command(
        id="checkpoints",
        names=("checkpoints", "ckpts"),
        keys=("D",),
        title="Checkpoints",
        synonyms="resume save ckpt weights disk",
        help=(
            "See the run's checkpoints, the newest first. Each has its parts, size, age, copy in "
            "the store and what is missing, and one is what would be resumed."
        ),
        where=on(FLEET, POD, RUN, INCIDENT, LOG),
        needs=("run",),
        hint=59,
    ),
    Command(
        id="keep",
        names=("keep",),
        keys=("F",),
        title="Keep newest",
        synonyms="delete free rotate retention disk",
        help=(
            "Order the pod to free older checkpoints. The N newest complete ones stay, and every "
            "Mth step; the others are freed for good from now on. `off` takes the order back."
        ),
        where=on(CHECKPOINTS),
        needs=("run", "write"),
        hint=12,
        args="[N [M]|off]",
    ),
    Command(
        id="sync",
        names=("sync",),
        keys=("w",),
        title="Sync to store",
        synonyms="upload copy backup b2 bucket",
        help=(
            "Order the pod to copy checkpoints to a store. From now on each newest one is copied "
            "to b2://BUCKET/PREFIX. `off` takes the order back; what is in the store stays there."
        ),
        where=on(CHECKPOINTS),
        needs=("run", "write"),
        hint=14,
        args="[b2://BUCKET/PREFIX|off]",
    ),
    Command(
        id="restore",
        names=("restore",),
        keys=("I",),
        title="Restore from store",
        synonyms="download resume backup b2",
        help=(
            "Bring a checkpoint back from the store. There is a plan, then one confirmation. "
            "Without a step, the newest that is complete there."
        ),
        where=on(CHECKPOINTS),
        needs=("run", "write"),
        hint=16,
        args="[STEP] [b2://BUCKET/PREFIX]",
    ),
)
