"""Commands about incidents and plans, and actions on a run or its pod."""

from __future__ import annotations

from bs4_console.tui.commands.command import (
    CHECKPOINTS,
    FLEET,
    GPUS,
    INCIDENT,
    JOURNAL,
    LOG,
    NOTES,
    POD,
    ROLLOUTS,
    RUN,
    Command,
    on,
)

COMMANDS = (
    Command(
        id="open",
        names=("open",),
        keys=("enter",),
        title="Open",
        help=(
            "Go one level deeper. From the fleet that is the run or pod under the cursor, from a "
            "run its incident, from an incident the log where it was seen, in a log the entry of "
            "the line, in the journal the run that it was done to, among GPUs the run that holds "
            "it, among checkpoints what can be done with it. With a path, that file of the pod."
        ),
        where=on(FLEET, RUN, INCIDENT, LOG, JOURNAL, GPUS, CHECKPOINTS),
        needs=("pod",),
        hint=10,
        args="[PATH]",
        completes="paths",
    ),
    Command(
        id="incident",
        names=("incident", "inc", "i"),
        keys=("i",),
        title="Incident",
        synonyms="error failure problem alert wrong why",
        help=(
            "Open the worst open incident of the run. It shows what is wrong, the evidence and "
            "the fix. With a failure id, that one."
        ),
        where=on(FLEET, POD, RUN, LOG),
        needs=("incident",),
        hint=20,
        args="[FAILURE]",
        completes="incidents",
    ),
    Command(
        id="plan",
        names=("plan", "p"),
        keys=("p",),
        title="Make plan",
        synonyms="fix repair mend playbook",
        help=(
            "Ask the agent what the playbook would do now. It answers with exact commands, "
            "processes and files. Changes nothing on the pod."
        ),
        where=on(RUN, INCIDENT),
        needs=("run",),
        hint=12,
        args="[PLAYBOOK]",
        completes="playbooks",
    ),
    Command(
        id="apply",
        names=("apply", "fix"),
        keys=("r",),
        title="Run plan",
        synonyms="fix repair confirm do",
        help=(
            "Carry out the plan that is shown. A confirmation first says what it touches. What is "
            "confirmed is the plan's hash."
        ),
        where=on(INCIDENT),
        needs=("plan", "write"),
        hint=11,
    ),
    Command(
        id="next-incident",
        names=("next-incident",),
        keys=("right_square_bracket",),
        title="Next incident",
        help="Show the next incident of this pod. They are in the order of urgency.",
        where=on(INCIDENT),
        hint=40,
    ),
    Command(
        id="previous-incident",
        names=("previous-incident",),
        keys=("left_square_bracket",),
        title="Previous incident",
        help="The incident before this one.",
        where=on(INCIDENT),
    ),
    Command(
        id="stop",
        names=("stop",),
        keys=("K",),
        title="Stop run",
        synonyms="kill abort end terminate cancel",
        help=(
            "End the run with all that descends from it. That is done by its trainer's own rules, "
            "and its GPUs are proved free. Shows who gets which signal and asks for the run's "
            "name. Files stay."
        ),
        where=on(FLEET, RUN, INCIDENT, LOG, JOURNAL, GPUS, CHECKPOINTS, ROLLOUTS),
        needs=("run", "write"),
        hint=79,
    ),
    Command(
        id="merge",
        names=("merge",),
        keys=("X",),
        title="Merge checkpoint",
        help=(
            "Merge a verl step into a Hugging Face directory. Its shards are put together on the "
            "pod, after the exact command, its needs, and one confirmation. Without a step, the "
            "newest that is complete. What lies there already is left alone."
        ),
        where=on(FLEET, RUN, CHECKPOINTS),
        needs=("run", "write"),
        hint=30,
        args="[STEP]",
    ),
    Command(
        id="launch",
        names=("launch", "start"),
        keys=("W",),
        title="Launch",
        synonyms="start run resume restart train",
        help=(
            "Start a run on the pod. There is a form, the look before the start, exactly what "
            "would be done, and one confirmation. An ended run goes on at its newest complete "
            "step. CONFIG and RUN fill the form."
        ),
        where=on(FLEET, POD, RUN, CHECKPOINTS),
        needs=("pod", "write"),
        hint=29,
        args="[CONFIG] [RUN]",
    ),
    Command(
        id="note",
        names=("note",),
        keys=("e",),
        title="Note",
        help=(
            "Write a line about the run into the journal. It has your name and is for those who "
            "look after the run next. Touches nothing else."
        ),
        where=on(FLEET, RUN, INCIDENT, LOG, NOTES),
        needs=("run", "write"),
        hint=74,
        args="[TEXT]",
    ),
    Command(
        id="notes",
        names=("notes",),
        keys=("A",),
        title="Notes",
        help=(
            "Read what people wrote about the run. The newest is first, and there is the place to "
            "write more."
        ),
        where=on(FLEET, RUN, INCIDENT, LOG),
        needs=("run",),
    ),
    Command(
        id="shell",
        names=("shell",),
        keys=("s",),
        title="Shell",
        synonyms="ssh terminal bash",
        help=(
            "Open a shell on the pod. In tmux it has a window of its own, elsewhere it is here "
            "until you leave it. The command is said, and kept in the messages."
        ),
        where=on(FLEET, POD, RUN, INCIDENT, LOG, JOURNAL, GPUS),
        needs=("pod", "write"),
        hint=70,
    ),
    Command(
        id="ssh",
        names=("ssh",),
        keys=("dollar_sign",),
        title="SSH command",
        help="Copy the ssh command for a shell on the pod. The command is shown too.",
        where=on(FLEET, POD, RUN, INCIDENT, LOG, JOURNAL, GPUS),
        needs=("pod",),
    ),
    Command(
        id="retry",
        names=("retry", "reconnect"),
        keys=("R",),
        title="Reconnect",
        synonyms="reconnect link",
        help=(
            "Try to reach the pod now. That ends the pause before the next attempt, also after an "
            "error that is not retried by itself."
        ),
        where=on(FLEET, POD, RUN, INCIDENT, CHECKPOINTS),
        needs=("pod",),
        hint=60,
    ),
)
