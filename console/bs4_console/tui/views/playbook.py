"""A playbook's fix in sentences, as its file describes it. Shown before there is a plan with the
concrete commands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from bs4_console.assets import find
from bs4_console.failures.playbook_file import PlaybookFile
from bs4_console.failures.step_words import sentence
from bs4_console.tui.views.plan import verify_words

#: The id comes from a pod and becomes part of a path here, so it is checked.
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True, kw_only=True)
class PlaybookText:
    """What a playbook, the description of a known failure, says to a person. `id` and `title` name
    it, and `explanation` says what goes wrong. `steps` are the steps of its repair in sentences,
    and `verify` says how success is verified. `danger` is one word for what the repair does to the
    run, such as "restart". `advice` is what a person can do by hand. `leads_to` is the id of
    another playbook that helps, or None.
    """

    id: str
    title: str
    explanation: str
    steps: tuple[str, ...]
    verify: str
    danger: str
    looks_like: str = ""
    """How the failure shows, or when this repair is the right one."""
    advice: tuple[str, ...] = ()
    """What a person can do by hand, if no repair by the program is safe or until one is made."""
    leads_to: str | None = None


@lru_cache(maxsize=64)
def load(playbook: str) -> PlaybookText | None:
    """Return the texts of the playbook with the id `playbook` among those that are shipped with
    this console. Return None if there is none of this id; the pod's agent may still know one,
    because it can be newer than this console or have playbooks of the user's own. Raises
    ConsoleError if a file of this console's own installation is missing.
    """
    if not _ID.fullmatch(playbook):
        return None
    import yaml  # deferred: 25 ms, and most sessions never open an incident

    for path in find("playbooks").glob(f"*/{playbook}.yaml"):
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml: a fifth of the time
        text = path.read_text(encoding="utf-8")
        return _text(playbook, yaml.load(text, Loader=loader))  # noqa: S506
    return None


def ids() -> list[str]:
    """Return the ids of all playbooks (descriptions of known failures and their repair) that are
    shipped with this console, sorted. Raises ConsoleError if a file of this console's own
    installation is missing.
    """
    return sorted(path.stem for path in find("playbooks").glob("*/*.yaml"))


def _text(playbook: str, data: PlaybookFile) -> PlaybookText:
    return PlaybookText(
        id=playbook,
        title=str(data.get("title", playbook)),
        explanation=_one_line(data.get("explanation") or data.get("looks_like") or ""),
        steps=tuple(sentence(step) for step in data.get("fix") or ()),
        verify=verify_words(data.get("verify") or {}),
        danger=str(data.get("danger", "unknown")),
        looks_like=_one_line(data.get("looks_like") or ""),
        advice=tuple(_one_line(line) for line in data.get("advice") or ()),
        leads_to=data.get("leads_to"),
    )


def _one_line(text: object) -> str:
    return " ".join(str(text).split())
