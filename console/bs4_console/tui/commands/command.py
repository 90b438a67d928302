"""The definition of a command: its names, its keys, the screens on which it works, and what it
needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FLEET, POD, RUN, INCIDENT, LOG, HELP, MESSAGES = (
    "fleet",
    "pod",
    "run",
    "incident",
    "log",
    "help",
    "messages",
)
JOURNAL, GPUS, NOTES, CHECKPOINTS = "journal", "gpus", "notes", "checkpoints"
ROLLOUTS = "rollouts"
EVERYWHERE = frozenset(
    {FLEET, POD, RUN, INCIDENT, LOG, HELP, MESSAGES, JOURNAL, GPUS, NOTES, CHECKPOINTS, ROLLOUTS}
)

#: The keys that jump to a pinned place.
DIGITS = tuple("123456789")

#: What a command may need, and the message if it is missing.
NEEDS: Mapping[str, str] = {
    "pod": "Select a pod first.",
    "run": "Select a run first; this row has none.",
    "incident": "There is no open incident here.",
    "plan": "There is no plan yet; {plan} makes one.",
    "write": (
        "This console only looks: start it without --read-only, remove read_only from the pod, or "
        "name a key that may act."
    ),
}

#: Textual key name -> the sign that the screen shows.
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
    "at": "@",
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


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command of the console. `id` names it in code and keys.toml. `names` may be typed after
    `:`. `keys` are Textual's names of its keys; the screen shows the first. `title` is its name in
    the key bar and the palette, and `help` the sentence that explains it. `where` are the names of
    the screens on which it works.

    `needs` is what it cannot do without: a selected "pod", "run", "incident" or "plan", or "write"
    (the console and the pod are not read-only). `hint` is its place in the key bar, or 0 if the bar
    does not show it. `args` says in the help what may follow the name. `completes` is the kind of
    values that Tab offers for that, such as "pods", or "" for none. `synonyms` are other words,
    with blanks between them, by which the palette and the help find the command. `clears` is the
    kind of prompt, such as "/" for the filter, whose text is taken away if the command's name is
    typed with nothing after it; "" for none.
    """

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
    synonyms: str = ""
    clears: str = ""

    @property
    def handler(self) -> str:
        """Return the name of the method that carries out the command, for example
        "do_next_incident" for the id "next-incident".
        """
        return "do_" + self.id.replace("-", "_")


def on(*places: str) -> frozenset[str]:
    """Return the names of screens as a set, for the field `where` of a Command."""
    return frozenset(places)


def key_text(key: str) -> str:
    """Return a Textual key name as the screen shows it, for example "?" for "question_mark"."""
    return _KEY_TEXT.get(key, key)
