"""The keys that lie on a pod, as far as its journal tells: by name and id, never by value. After a
pod was lost to somebody these are to be rotated.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bs4_common.ledger import ActionView, Ledger, StepView
from bs4_common.states import StepState

#: By title of a set-up's step, the credential that lies on the pod once the step has begun. The
#: agent gives these titles (agents/bs4_agent/setup/steps/credential.py).
_BY_TITLE = {
    "Keep the W&B key": "W&B key",
    "Keep the Hugging Face token": "Hugging Face token",
    "Keep the B2 key": "B2 key",
}
_BEGUN: frozenset[StepState] = frozenset({"running", "done", "skipped", "failed"})
#: How a step says which key it is. A B2 key id is no secret.
_ID = re.compile(r"\bkey id ([0-9a-f]{12,25})\b")


@dataclass(frozen=True, order=True)
class PlacedKey:
    """A secret key, such as that of W&B, that lies on a pod: a set-up has put it there or found it
    there. `name` says for which service it is. `id` is the id by which its owner knows it, or "" if
    it has none or the journal (the agent's log of actions and incidents) does not tell it.
    """

    name: str
    id: str = ""

    def __str__(self) -> str:
        if self.id:
            return f"{self.name} {self.id}"
        return self.name


def placed(ledger: Ledger) -> tuple[PlacedKey, ...]:
    """Return the secret keys (of W&B, of an object store and so on) that may lie on a pod, sorted
    by name. `ledger` is the state of the pod as its journal (the agent's log of actions) tells it.
    Every key counts that a set-up began to write, because a pod that was lost in the middle may
    have it. A key that was replaced counts too: it may have been read while it was there.
    """
    found: set[PlacedKey] = set()
    for action in ledger.actions.values():
        found |= _of_set_up(action)
    with_ids = {key.name for key in found if key.id}
    return tuple(sorted(key for key in found if key.id or key.name not in with_ids))


def rotation(pod: str, keys: Sequence[PlacedKey]) -> str:
    """Return a sentence for a person that says which secret keys to replace by new ones (rotate)
    now that the pod named `pod`, on which they lay, was lost.
    """
    if not keys:
        return (
            f"This console has no record of keys on {pod}: rotate those that were brought to it by "
            "hand."
        )
    return (
        f"Rotate what was on {pod}, because whoever has its disk has read it: "
        f"{', '.join(map(str, keys))}."
    )


def _of_set_up(action: ActionView) -> set[PlacedKey]:
    """Return the keys that one action left on the pod; none if it is no set-up."""
    if action.kind != "setup":
        return set()
    found = set()
    for step in action.steps:
        name = _BY_TITLE.get(step.title)
        if name is not None and step.state in _BEGUN:
            found.add(PlacedKey(name, _id_of(step)))
    return found


def _id_of(step: StepView) -> str:
    said = _ID.search(step.detail)
    if said is None:
        return ""
    return said[1]
