"""What a playbook's file says of its fix, in sentences: shown before there is a plan with the concrete commands."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from bs4_console.core.assets import find
from bs4_console.tui.views.plan import verify_words

#: Step kinds of the agent, and for relaunch from where.
SENTENCES = {
    "stop_run": "Stop the run by its trainer's own rules, then what is left of it by descent.",
    "end_processes": "End the leftover processes that are provably of a dead run, each by its identity.",
    "wait_gpu_free": "Wait until the GPUs are free.",
    "archive_logs": "Archive the logs: the trainer deletes them when it starts.",
    "move_steps": "Move the step directories above the newest complete step to the run's trash. Nothing is deleted.",
    "move_run": "Move everything that the run has written to its trash. Nothing is deleted.",
    "relaunch_companion": "Start the inference server again that was started beside the run, if it is gone.",
    "relaunch resumable": "Start the run again from the newest step that is complete on every side.",
    "relaunch same": "Start the run again from its newest complete step, or as before when it had written none.",
    "relaunch none": "Start the run afresh.",
}
#: A pod names the playbook; a name becomes a path here, so it may be nothing but a name.
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class PlaybookText:
    id: str
    title: str
    explanation: str
    steps: tuple[str, ...]
    verify: str
    danger: str


@lru_cache(maxsize=64)
def load(playbook: str) -> PlaybookText | None:
    """The shipped file of that id, or None when this console has none (the agent may know a newer one, or the user's own)."""
    if not _ID.fullmatch(playbook):
        return None
    import yaml  # deferred: 25 ms, and most sessions never open an incident

    for path in find("playbooks").glob(f"*/{playbook}.yaml"):
        return _text(playbook, yaml.safe_load(path.read_text(encoding="utf-8")))
    return None


def ids() -> list[str]:
    return sorted(path.stem for path in find("playbooks").glob("*/*.yaml"))


def _text(playbook: str, data: dict[str, Any]) -> PlaybookText:
    return PlaybookText(
        playbook,
        str(data.get("title", playbook)),
        " ".join(str(data.get("explanation") or data.get("looks_like") or "").split()),
        tuple(_steps(data.get("fix") or ())),
        verify_words(data.get("verify") or {}),
        str(data.get("danger", "unknown")),
    )


def _steps(fix: Iterable[Any]) -> Iterable[str]:
    for step in fix:
        kind, parameters = next(iter(step.items())) if isinstance(step, dict) else (str(step), {})
        key = f"{kind} {(parameters or {}).get('resume')}" if kind == "relaunch" else kind
        yield SENTENCES.get(key, f"{key.replace('_', ' ')}.")
