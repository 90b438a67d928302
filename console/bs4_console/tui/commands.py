"""The one table of commands. Keys, the `:` line, the palette, the help screen and docs/commands.md are all read from it.

A command `next-incident` is carried out by the method `do_next_incident(args)` of the screen it is given on, or of the app.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

FLEET, POD, RUN, INCIDENT, LOG, HELP, MESSAGES = "fleet", "pod", "run", "incident", "log", "help", "messages"
JOURNAL, GPUS = "journal", "gpus"
EVERYWHERE = frozenset({FLEET, POD, RUN, INCIDENT, LOG, HELP, MESSAGES, JOURNAL, GPUS})

#: The keys that jump to a pinned place.
DIGITS = tuple("123456789")

#: What a command may need, and what is said when it is not there.
NEEDS: Mapping[str, str] = {
    "pod": "Select a pod first.",
    "run": "Select a run first; this row has none.",
    "incident": "There is no open incident here.",
    "plan": "There is no plan yet; make one first.",
    "write": "This console is read-only: start it without --read-only, or remove read_only from the pod.",
}


@dataclass(frozen=True)
class Command:
    """`names`: what may be typed after `:`. `keys`: Textual key names, the first is shown. `hint`: its place in the key bar, 0 = not there.
    `args`: what may follow the name, for the help; `completes`: what Tab offers for it (pods, runs, sources, playbooks, themes, levels)."""

    id: str
    names: tuple[str, ...]
    keys: tuple[str, ...]
    title: str
    help: str
    where: frozenset[str] = EVERYWHERE
    needs: tuple[str, ...] = ()
    hint: int = 0
    args: str = ""
    completes: str = ""

    @property
    def handler(self) -> str:
        return "do_" + self.id.replace("-", "_")


def _on(*places: str) -> frozenset[str]:
    return frozenset(places)


COMMANDS: tuple[Command, ...] = (
    Command(
        "open",
        ("open",),
        ("enter",),
        "Open",
        "Go one level deeper: from the fleet into the run or pod under the cursor, from a run into its incident, from an incident "
        "into the log where it was seen, in a log into the entry of the line, in the journal to the run that it was done to, "
        "among GPUs to the run that holds it.",
        _on(FLEET, RUN, INCIDENT, LOG, JOURNAL, GPUS),
        ("pod",),
        hint=10,
    ),
    Command(
        "incident",
        ("incident", "inc", "i"),
        ("i",),
        "Incident",
        "Open the worst open incident of the run: what is wrong, the evidence, the fix. With a failure id, that one.",
        _on(FLEET, POD, RUN, LOG),
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
        "Ask the agent what the playbook would do right now: exact commands, processes and files. Changes nothing on the pod.",
        _on(RUN, INCIDENT),
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
        "Carry out the plan that is shown, after a confirmation that says what it touches. What is confirmed is the plan's hash.",
        _on(INCIDENT),
        ("plan", "write"),
        hint=11,
    ),
    Command(
        "next-incident",
        ("next-incident",),
        ("right_square_bracket",),
        "Next incident",
        "The next incident of this pod, in the order of urgency.",
        _on(INCIDENT),
        hint=40,
    ),
    Command(
        "previous-incident",
        ("previous-incident",),
        ("left_square_bracket",),
        "Previous incident",
        "The incident before this one.",
        _on(INCIDENT),
    ),
    Command(
        "logs",
        ("logs", "log", "l"),
        ("l",),
        "Logs",
        "The run's logs on the whole screen: all sources merged, or one (trainer, orchestrator, inference, launcher, ...).",
        _on(FLEET, RUN, INCIDENT, LOG),
        ("run",),
        hint=25,
        args="[SOURCE]",
        completes="sources",
    ),
    Command(
        "follow",
        ("follow", "pause"),
        ("space",),
        "Follow/pause",
        "Stop at this place in the log, or go on with its end. While paused the lines that come are counted, and wait on the pod.",
        _on(RUN, LOG),
        hint=30,
    ),
    Command(
        "filter",
        ("filter",),
        ("slash",),
        "Filter",
        "Show only what matches a regular expression; `!` in front hides what does, ` && ` joins several. Small letters match both cases. "
        "Works on the whole log: what is not held is sifted on the pod. Empty shows all again.",
        _on(FLEET, RUN, LOG, JOURNAL, GPUS),
        hint=50,
        args="[PATTERN]",
    ),
    Command(
        "find",
        ("find",),
        ("f",),
        "Find",
        "Mark every match in the log and go to the nearest one above, through all of it: the pod searches and counts. Hides nothing.",
        _on(RUN, LOG),
        hint=52,
        args="[PATTERN]",
    ),
    Command(
        "hide",
        ("hide", "out"),
        ("exclamation_mark",),
        "Hide",
        "Leave out the lines that match, beside the filter that is set; given again, more of them.",
        _on(RUN, LOG),
        hint=51,
        args="[PATTERN]",
    ),
    Command(
        "highlight",
        ("highlight", "hl"),
        ("H",),
        "Highlight",
        "Keep words or patterns marked while you find and filter others; ` && ` joins several, empty marks nothing.",
        _on(RUN, LOG),
        args="[PATTERN]",
    ),
    Command(
        "go",
        ("go", "goto"),
        ("T",),
        "Go to",
        "Go to a place of the log: a line (12345), a share (50%), a time of day (21:14:05), a moment (2026-11-20 21:14), or so much "
        "earlier or later (-5m, +1h30m).",
        _on(RUN, LOG),
        hint=53,
        args="[PLACE]",
    ),
    Command(
        "bookmark",
        ("bookmark", "mark"),
        ("b",),
        "Bookmark",
        "Mark the line pointed at, or take the mark away. Marks stay with their lines while the log is filtered, searched and followed.",
        _on(RUN, LOG),
        hint=55,
    ),
    Command(
        "next-bookmark",
        ("next-bookmark",),
        ("apostrophe",),
        "Next bookmark",
        "The next marked line below, round and round, wherever in the log it is.",
        _on(RUN, LOG),
    ),
    Command(
        "previous-bookmark",
        ("previous-bookmark",),
        ("quotation_mark",),
        "Previous bookmark",
        "The next marked line above, round and round.",
        _on(RUN, LOG),
    ),
    Command(
        "fold",
        ("fold",),
        ("z",),
        "Fold",
        "Of neighbouring lines that differ only in their numbers show the first, with how many it stands for; again shows all.",
        _on(RUN, LOG),
        hint=57,
    ),
    Command(
        "expand",
        ("expand", "entry"),
        ("x",),
        "Expand",
        "The line pointed at as a whole: JSON laid out, a traceback with its head, a line of any length in parts.",
        _on(RUN, LOG),
        hint=32,
    ),
    Command(
        "copy-entry",
        ("copy-entry",),
        ("Y",),
        "Copy entry",
        "Copy the line pointed at as a whole, its traceback or JSON included.",
        _on(RUN, LOG),
    ),
    Command("next-match", ("next-match",), ("n",), "Next match", "The next match of find, downwards.", _on(RUN, LOG)),
    Command("previous-match", ("previous-match",), ("N",), "Previous match", "The next match of find, upwards.", _on(RUN, LOG)),
    Command(
        "level",
        ("level",),
        ("v",),
        "Level",
        "The least level that the log shows: all, info, warning or error. Tracebacks go with the line before them.",
        _on(RUN, LOG),
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
        _on(LOG),
        hint=31,
        args="[SOURCE]",
        completes="sources",
    ),
    Command(
        "moment",
        ("at", "moment"),
        ("t",),
        "Time cursor",
        "One cursor for everything: the curves give their values at that step, the GPUs and the host their sample of then, the log its "
        "lines of then. With a step, there; given again, back to now.",
        _on(RUN),
        ("run",),
        hint=56,
        args="[STEP]",
    ),
    Command(
        "earlier",
        ("earlier",),
        ("comma",),
        "Earlier",
        "Move the time cursor one step back; by as many as are given.",
        _on(RUN),
        ("run",),
        args="[N]",
    ),
    Command(
        "later",
        ("later",),
        ("full_stop",),
        "Later",
        "Move the time cursor one step on; by as many as are given.",
        _on(RUN),
        ("run",),
        args="[N]",
    ),
    Command(
        "curves",
        ("curves", "curve"),
        ("c",),
        "Curves",
        "The curves on the whole screen: more of them, large, with labels, healthy range (┃) and the GPUs beside them; again, and the log "
        "is back. With a name (a beginning is enough), that one alone.",
        _on(RUN),
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
        "Curves on a logarithmic scale, or on a linear one again. What is 0 or less cannot be shown there and is counted in the title.",
        _on(RUN),
        ("run",),
        hint=33,
    ),
    Command(
        "smooth",
        ("smooth", "ema"),
        ("E",),
        "Smooth",
        "A running mean (exponential, by its weight) as the line, and the steps as dim dots behind it. Without a weight, the next of 0.6, "
        "0.9, 0.97 and none.",
        _on(RUN),
        ("run",),
        hint=34,
        args="[WEIGHT]",
    ),
    Command(
        "zoom-in",
        ("zoom-in", "zoom"),
        ("plus",),
        "Zoom in",
        "Half as many steps in the curves, about the time cursor or the newest; the values get the whole height.",
        _on(RUN),
        ("run",),
        hint=35,
    ),
    Command(
        "zoom-out",
        ("zoom-out",),
        ("minus",),
        "Zoom out",
        "Twice as many steps in the curves, at last all of them.",
        _on(RUN),
        ("run",),
        hint=36,
    ),
    Command(
        "pan-left",
        ("pan-left",),
        ("less_than_sign",),
        "Pan left",
        "Earlier steps of curves that are zoomed in, by a quarter of what is shown.",
        _on(RUN),
        ("run",),
        hint=37,
    ),
    Command(
        "pan-right",
        ("pan-right",),
        ("greater_than_sign",),
        "Pan right",
        "Later steps of curves that are zoomed in; at the newest they follow the run again.",
        _on(RUN),
        ("run",),
        hint=38,
    ),
    Command(
        "shell",
        ("shell",),
        ("s",),
        "Shell",
        "A shell on the pod: in tmux a window of its own, else here until you leave it. The command is said, and kept in the messages.",
        _on(FLEET, POD, RUN, INCIDENT, LOG, JOURNAL, GPUS),
        ("pod", "write"),
        hint=70,
    ),
    Command(
        "ssh",
        ("ssh",),
        ("dollar_sign",),
        "SSH command",
        "Show the ssh command for a shell on the pod and copy it.",
        _on(FLEET, POD, RUN, INCIDENT, LOG, JOURNAL, GPUS),
        ("pod",),
    ),
    Command(
        "note",
        ("note",),
        ("e",),
        "Note",
        "Write a line about the run into the pod's journal, with your name: for those who look after it next. Touches nothing else.",
        _on(FLEET, RUN, INCIDENT, LOG),
        ("run", "write"),
        hint=74,
        args="[TEXT]",
    ),
    Command(
        "journal",
        ("journal", "j"),
        ("J",),
        "Journal",
        "All that was done on every pod, by whom and with which commands, newest first: plans, fixes, launches, stops, notes.",
        EVERYWHERE,
        hint=73,
    ),
    Command(
        "gpus",
        ("gpus", "gpu"),
        ("U",),
        "GPUs",
        "The GPUs of all pods, those with complaints first: busy, memory, power, temperature, clocks, why they are slowed down, ECC and "
        "Xid errors, and which run and component holds each; several processes have a row each.",
        EVERYWHERE,
        hint=75,
    ),
    Command(
        "compact",
        ("compact",),
        ("C",),
        "Compact",
        "A row for each pod, its GPUs as one strip with × where there is a complaint; again, a row for each GPU.",
        _on(GPUS),
        hint=30,
    ),
    Command(
        "copy",
        ("copy", "yank"),
        ("y",),
        "Copy",
        "Copy what is looked at: the incident with its plan as text, the visible log lines, the row, "
        "the entry of the journal, or the table of GPUs.",
        _on(FLEET, POD, RUN, INCIDENT, LOG, JOURNAL, GPUS),
        hint=71,
    ),
    Command(
        "retry",
        ("retry", "reconnect"),
        ("R",),
        "Reconnect",
        "End the pause before the next attempt to reach the pod, also after an error that is not retried by itself.",
        _on(FLEET, POD, RUN, INCIDENT),
        ("pod",),
        hint=60,
    ),
    Command(
        "old",
        ("old", "all"),
        ("a",),
        "Old runs",
        "Show or fold away runs that ended more than a day ago.",
        _on(FLEET),
        hint=72,
    ),
    Command(
        "sort",
        ("sort",),
        ("S",),
        "Sort",
        "Sort the fleet by need (the usual order: what needs you first), pod, run, state, age, link, step, eta, pace, reward, gpu or disk; "
        "`-` in front turns it round. Without a name, the next of them.",
        _on(FLEET),
        hint=76,
        args="[COLUMN]",
        completes="sorts",
    ),
    Command(
        "group",
        ("group",),
        ("B",),
        "Group",
        "Put the fleet under headings by pod, state or trainer, or none; the group with the worst row stands first. "
        "Enter on a heading folds it. Without a name, the next of them.",
        _on(FLEET),
        hint=77,
        args="[BY]",
        completes="groups",
    ),
    Command(
        "urgent",
        ("urgent", "next"),
        ("u",),
        "Next urgent",
        "The cursor on the next row with something critical, unknown or a warning.",
        _on(FLEET),
        hint=27,
    ),
    Command(
        "silence",
        ("silence", "mute"),
        ("M",),
        "Silence alerts",
        "No bell, notification or toast for the run under the cursor, or with that word for its pod or for all; again, and they come back. "
        "The screen shows everything as before.",
        _on(FLEET, POD, RUN),
        args="[run|pod|all]",
        completes="silences",
    ),
    Command(
        "pin",
        ("pin",),
        ("P",),
        "Pin",
        "Pin this place (row, run, log, incident) to the next free number from 1 to 9; there again, the number is free. Pins are kept.",
        _on(FLEET, POD, RUN, INCIDENT, LOG),
        ("pod",),
    ),
    Command(
        "jump",
        ("jump",),
        (),
        "Jump",
        "Go to a pinned place; its number alone, 1 to 9, does it from everywhere. Without one, what is pinned.",
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
    Command("pod", ("pod",), (), "Go to pod", "The fleet, with the cursor on this pod.", EVERYWHERE, args="NAME", completes="pods"),
    Command("fleet", ("fleet", "pods"), (), "Fleet", "All pods and runs in one table, what needs you first.", EVERYWHERE),
    Command(
        "messages",
        ("messages", "m"),
        ("m",),
        "Messages",
        "Everything the console has said since it started, errors with their next step.",
        EVERYWHERE,
        hint=80,
    ),
    Command(
        "theme",
        ("theme",),
        (),
        "Theme",
        "Change the colours; without a name, the next of the built-in ones. NO_COLOR=1 in the environment uses none.",
        EVERYWHERE,
        args="[NAME]",
        completes="themes",
    ),
    Command(
        "command", (), ("colon",), "Command", "Type a command; Tab completes, the arrows bring back earlier ones.", EVERYWHERE, hint=90
    ),
    Command("palette", ("palette",), ("ctrl+p",), "Palette", "Search commands, pods and runs by a few letters.", EVERYWHERE),
    Command(
        "help", ("help", "h"), ("question_mark",), "Help", "Keys and commands of this screen, and what the signs mean.", EVERYWHERE, hint=95
    ),
    Command(
        "back",
        ("back",),
        ("escape",),
        "Back",
        "One level up; on the fleet, take the filter away. Nothing on a pod stops by leaving a screen.",
        EVERYWHERE,
        hint=97,
    ),
    Command(
        "quit",
        ("q", "quit", "q!", "exit"),
        ("ctrl+c",),
        "Quit",
        "Leave the console. Agents go on watching, runs go on training, a plan that is being carried out is carried on by its agent.",
        EVERYWHERE,
        hint=99,
    ),
)

BY_ID: Mapping[str, Command] = {command.id: command for command in COMMANDS}
BY_NAME: Mapping[str, Command] = {name: command for command in COMMANDS for name in command.names}

_KEY_TEXT = {
    "enter": "⏎",
    "escape": "esc",
    "slash": "/",
    "colon": ":",
    "question_mark": "?",
    "dollar_sign": "$",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "ctrl+p": "^p",
    "ctrl+c": "^c",
    "comma": ",",
    "full_stop": ".",
    "exclamation_mark": "!",
    "apostrophe": "'",
    "quotation_mark": '"',
    "plus": "+",
    "minus": "-",
    "less_than_sign": "<",
    "greater_than_sign": ">",
}


def key_text(key: str) -> str:
    """A key as the screen shows it."""
    return _KEY_TEXT.get(key, key)


def at(place: str) -> list[Command]:
    """The commands of a screen, in the order of the key bar; those without a place there last."""
    return sorted((c for c in COMMANDS if place in c.where), key=lambda c: c.hint or 1000)


def parse(text: str) -> tuple[Command | None, str]:
    """(command, arguments) of what was typed after `:`; an unambiguous beginning of a name is enough."""
    word, _, args = text.strip().partition(" ")
    command = BY_NAME.get(word)
    if command is None and word:
        near = {c.id: c for name, c in BY_NAME.items() if name.startswith(word)}
        command = next(iter(near.values())) if len(near) == 1 else None
    return command, args.strip()


def markdown(keys: Mapping[str, Iterable[str]] | None = None) -> str:
    """docs/commands.md."""
    lines = [
        "# Keys and commands",
        "",
        "Written from the console's own table (`bs4_console/tui/commands.py`) by `python tools/picture.py`; do not edit.",
        "",
        "Type `:` and a name, press a key, or search with ctrl+p. `?` in the console shows the same for the screen you are on.",
        "",
        "**Your own keys.** `keys.toml` in the configuration directory, by the command's id; several keys with commas between them:",
        "",
        "```toml",
        "[keys]",
        'apply = "ctrl+r"',
        'incident = "w, f6"',
        "```",
        "",
        "Whatever cannot be (a command that does not exist, a key that another command has on the same screen, one that moves the cursor, "
        "a file that cannot be read) is said once in a sentence, and the usual key stays.",
        "",
        "**Colours.** `:theme` goes through bs4-dark, bs4-light, bs4-safe and bs4-safe-light (good, warning and bad stay apart for "
        "colour-blind eyes), bs4-no-colour, and Textual's own by name. `NO_COLOR=1` uses none. Every state has a sign and a word as well.",
        "",
        "**Over SSH.** Where `SSH_CONNECTION` or `SSH_TTY` is set the screen paints less: news of pods once a second, logs within a "
        "budget of bytes. `BS4_REMOTE=1` or `0` decides it by hand.",
        "",
        "**Read-only.** With `bs4-console --read-only`, or on a pod with `read_only = true`, every action is refused "
        "before anything is sent.",
        "",
        "**Kept.** Theme, filter, order, silenced alerts, pins, and the screen you left are in `screen.json` in the state directory.",
        "",
        "| id | key | typed | on | what it does |",
        "|---|---|---|---|---|",
    ]
    for command in COMMANDS:
        shown = " ".join(f"`{key_text(key)}`" for key in (keys or {}).get(command.id, command.keys)) or "–"
        typed = (
            ", ".join(f"`:{name}{' ' + command.args if command.args and i == 0 else ''}`" for i, name in enumerate(command.names)) or "–"
        )
        where = "everywhere" if command.where == EVERYWHERE else ", ".join(sorted(command.where))
        lines.append(f"| `{command.id}` | {shown} | {typed} | {where} | {command.help} |")
    return "\n".join(lines) + "\n"
