"""Incidents, plans, and what is done to a run or on its pod."""

from __future__ import annotations

from bs4_console.tui.commands.command import (
    FLEET,
    GPUS,
    INCIDENT,
    JOURNAL,
    LOG,
    NOTES,
    POD,
    RUN,
    Command,
    on,
)

COMMANDS = (
    Command(
        "open",
        ("open",),
        ("enter",),
        "Open",
        "Go one level deeper: from the fleet into the run or pod under the cursor, from a run "
        "into its incident, from an incident into the log where it was seen, in a log into the "
        "entry of the line, in the journal to the run that it was done to, among GPUs to the run "
        "that holds it. With a path, that file of the pod.",
        on(FLEET, RUN, INCIDENT, LOG, JOURNAL, GPUS),
        ("pod",),
        hint=10,
        args="[PATH]",
        completes="paths",
    ),
    Command(
        "incident",
        ("incident", "inc", "i"),
        ("i",),
        "Incident",
        "Open the worst open incident of the run: what is wrong, the evidence, the fix. With "
        "a failure id, that one.",
        on(FLEET, POD, RUN, LOG),
        ("incident",),
        hint=20,
        args="[FAILURE]",
        completes="incidents",
    ),
    Command(
        "plan",
        ("plan", "p"),
        ("p",),
        "Make plan",
        "Ask the agent what the playbook would do right now: exact commands, processes and "
        "files. Changes nothing on the pod.",
        on(RUN, INCIDENT),
        ("run",),
        hint=12,
        args="[PLAYBOOK]",
        completes="playbooks",
    ),
    Command(
        "apply",
        ("apply", "fix"),
        ("r",),
        "Run plan",
        "Carry out the plan that is shown, after a confirmation that says what it touches. "
        "What is confirmed is the plan's hash.",
        on(INCIDENT),
        ("plan", "write"),
        hint=11,
    ),
    Command(
        "next-incident",
        ("next-incident",),
        ("right_square_bracket",),
        "Next incident",
        "The next incident of this pod, in the order of urgency.",
        on(INCIDENT),
        hint=40,
    ),
    Command(
        "previous-incident",
        ("previous-incident",),
        ("left_square_bracket",),
        "Previous incident",
        "The incident before this one.",
        on(INCIDENT),
    ),
    Command(
        "stop",
        ("stop",),
        ("K",),
        "Stop run",
        "End the run with all that descends from it, by its trainer's own rules, and prove its "
        "GPUs free. Shows who gets which signal and asks for the run's name. Files stay.",
        on(FLEET, RUN, INCIDENT, LOG, JOURNAL, GPUS),
        ("run", "write"),
        hint=79,
    ),
    Command(
        "merge",
        ("merge",),
        ("X",),
        "Merge checkpoint",
        "Put a verl step's shards together into a Hugging Face directory on the pod: the exact "
        "command, its needs, and one confirmation. Without a step, the newest that is complete. "
        "What lies there already is left alone.",
        on(FLEET, RUN),
        ("run", "write"),
        hint=30,
        args="[STEP]",
    ),
    Command(
        "launch",
        ("launch", "start"),
        ("W",),
        "Launch",
        "Start a run on the pod: a form, the look before the start, exactly what would be done, "
        "and one confirmation. An ended run goes on at its newest complete step. CONFIG and RUN "
        "fill the form.",
        on(FLEET, POD, RUN),
        ("pod", "write"),
        hint=29,
        args="[CONFIG] [RUN]",
    ),
    Command(
        "note",
        ("note",),
        ("e",),
        "Note",
        "Write a line about the run into the pod's journal, with your name: for those who "
        "look after it next. Touches nothing else.",
        on(FLEET, RUN, INCIDENT, LOG, NOTES),
        ("run", "write"),
        hint=74,
        args="[TEXT]",
    ),
    Command(
        "notes",
        ("notes",),
        ("A",),
        "Notes",
        "Everything that people wrote about the run, the newest first, and the place to "
        "write more.",
        on(FLEET, RUN, INCIDENT, LOG),
        ("run",),
    ),
    Command(
        "shell",
        ("shell",),
        ("s",),
        "Shell",
        "A shell on the pod: in tmux a window of its own, else here until you leave it. The "
        "command is said, and kept in the messages.",
        on(FLEET, POD, RUN, INCIDENT, LOG, JOURNAL, GPUS),
        ("pod", "write"),
        hint=70,
    ),
    Command(
        "ssh",
        ("ssh",),
        ("dollar_sign",),
        "SSH command",
        "Show the ssh command for a shell on the pod and copy it.",
        on(FLEET, POD, RUN, INCIDENT, LOG, JOURNAL, GPUS),
        ("pod",),
    ),
    Command(
        "retry",
        ("retry", "reconnect"),
        ("R",),
        "Reconnect",
        "End the pause before the next attempt to reach the pod, also after an error that is "
        "not retried by itself.",
        on(FLEET, POD, RUN, INCIDENT),
        ("pod",),
        hint=60,
    ),
)
