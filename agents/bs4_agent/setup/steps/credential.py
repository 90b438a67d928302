"""Puts a secret into the one file from which the program that needs it reads it, readable by its
owner only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bs4_agent.playbooks.pod_actions import Planned, Stepping
from bs4_agent.setup import credentials
from bs4_agent.setup.place import Say, SetupContext
from bs4_common import files
from bs4_common.errors import StepFailed

TITLES = {"wandb": "the W&B key", "huggingface": "the Hugging Face token", "b2": "the B2 key"}

#: The ids of B2's keys: of an application key, and of an account's master key. The keys themselves
#: begin with K and are longer.
_KEY_ID = re.compile(r"[0-9a-f]{25}|[0-9a-f]{12}")


class Credential(Stepping):
    """The step of a set-up that stores one secret that a person has sent with the confirmation, and
    makes its file private if other users can read it. If no secret was sent or stored, the planned
    step only says that runs do without it.
    """

    def plan(self, context: SetupContext) -> Sequence[Planned]:
        """Return one planned step for each kind of credential: Hugging Face, W&B and
        Backblaze B2.
        """
        return [self._one(context, name) for name in credentials.NAMES]

    def _one(self, context: SetupContext, name: str) -> Planned:
        """Return the planned step for the credential `name`."""
        place = context.place
        path = credentials.place(name, place.home)
        there = credentials.stored(name, place.home) is not None
        private, given = files.private(path), name in context.recipe.secrets
        now = f"{'there' if there else 'none'} in {place.shown(path)}"
        if there and not private:
            now += ", which others can read"
        if not there and not given:
            now += f", and none was given: runs do without {TITLES[name]}"
        command = ""
        if given:
            command = f"write {place.shown(path)}, mode 0600"
        elif not private:
            command = f"chmod 600 {place.shown(path)}"
        return Planned(
            "credential",
            f"{'Keep' if there or given else 'Go without'} {TITLES[name]}",
            command,
            {"name": name, "given": given},
            [{"file": str(path)}],
            {"now": now, "done": private and not given},
        )

    def done(self, context: SetupContext, planned: Planned) -> bool:
        """Return True if the file of the credential of the step `planned` is private and, if a
        secret was sent with the confirmation, has that secret.
        """
        name = planned.parameters["name"]
        if not files.private(Path(planned.targets[0]["file"])):
            return False
        if not planned.parameters["given"]:
            return True
        value = context.incoming().get(name)
        return value is not None and value == credentials.stored(name, context.place.home)

    def act(
        self,
        context: SetupContext,
        planned: Planned,
        targets: Sequence[Mapping[str, Any]],
        say: Say,
    ) -> str:
        """Store the secret if one was sent, make its file private, and return a text that says
        where the file is. `planned` is the step, `targets` has the file, and `say` is not called.
        Raises StepFailed if the plan needs a secret that was not sent.
        """
        name, path = planned.parameters["name"], Path(targets[0]["file"])
        if planned.parameters["given"]:
            value = context.incoming().get(name)
            if value is None:
                raise StepFailed(
                    f"{TITLES[name].capitalize()} did not come with the confirmation; repeat "
                    "with --credentials."
                )
            credentials.store(name, value, context.place.home)
        path.chmod(0o600)
        return f"in {context.place.shown(path)}, mode 0600{_id_of(name, context)}"


def _id_of(name: str, context: SetupContext) -> str:
    """Return ", key id ID" if the stored key has an id, or "". By its id a console can name the key
    that is to be rotated after the pod was lost.

    An id is no secret, but only what has the form of one is shown: somebody may have given the key
    in the place of its id.
    """
    values = credentials.stored(name, context.place.home) or {}
    key_id = values.get("key_id", "")
    if _KEY_ID.fullmatch(key_id):
        return f", key id {key_id}"
    return ""
