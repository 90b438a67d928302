"""The file of a new known failure: every key with a comment, and nothing that is only guessed."""

from __future__ import annotations

import json
import re
from pathlib import Path

from bs4_console.assets import find
from bs4_console.errors import UsageError
from bs4_console.suggest import did_you_mean

_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

_TEXT = """\
# Recipe: docs/adding-a-failure.md. `bs4-console playbook lint` says what is still missing.
id: {id}
# What is wrong, in at most 90 characters.
title:{title}
# root: a cause. cascade, symptom: it follows from another failure. warning: it fails later if
# nothing changes. maintenance: a repair that people choose themselves; it detects nothing.
role:
# info | warning | critical
severity:
# The most dangerous thing that the fix does, least first: none | restart | move | kill | command
danger: none
# Where the failure is: pod | console
where: pod
# any, or the ids of trainers: [prime-rl-2026-01, prime-rl, verl]
applies: [any]
# What a person sees. Write it on the next line, indented by two spaces.
looks_like: >

# Why it happens.
explanation: >

detect:
  logs:
    # launcher | trainer | orchestrator | inference | env | kernel | ssh | sync | wandb | provider,
    # or several of them: [trainer, launcher].
    - source: trainer
      # Level in the line's header. "" is a line without a header, such as one of a traceback.
      levels: [ERROR, CRITICAL, ""]
      # A regular expression, searched in the line without its header. It needs a fixed text of at
      # least four letters. Begin with ^ so that a quotation of the line does not match.
      pattern: ''
  # How long it must hold before it becomes an incident.
  for: 0s
# Ids of the failures that follow from this one, such as [trainer-exited] if it ends the trainer.
explains: []
# What a person does about it: one short imperative sentence for each step.
# An automatic repair has the keys fix and verify: see playbooks/schema.json.
advice:
  - ""
# How to avoid it.
prevent: >

# Where it is known from: an issue, a line of source code, a log of your own.
sources:
  - ""
# Logs that the tests feed to the engine. No pod gets them.
cases:
  # In these logs the failure must be found.
  positive:
    - name: as-seen
      source: trainer
      log: |

  # These logs look like the failure, and it must not be found in them.
  negative:
    - name: nearly
      source: trainer
      log: |

"""


def create(playbooks: Path, identifier: str, family: str | None, title: str) -> Path:
    """Write a playbook file (the description of a known failure and its repair) for a new failure,
    with only a frame that a person then fills in, and return its path. `playbooks` is a directory
    with one folder for each family (group of similar failures), `identifier` the failure's id, and
    `title` its title or "".

    With `family` None, the family with whose name the id begins is used. Raises UsageError for an
    id that is not valid or is taken already, for a family that does not exist, and if `playbooks`
    is not a directory. Raises ConsoleError if a file of this console's own installation is missing.
    """
    if not _ID.fullmatch(identifier):
        raise UsageError(
            f"{identifier!r} cannot be an id.",
            "Use lower-case letters, digits and single dashes, for example nccl-timeout.",
        )
    if playbooks.exists() and not playbooks.is_dir():
        raise UsageError(
            f"{playbooks} is no directory.", "Name one that holds a folder per family."
        )
    shipped = find("playbooks")
    for place in (playbooks, shipped):
        for existing in place.glob(f"*/{identifier}.yaml"):
            raise UsageError(f"{existing} exists already.", "Edit it, or choose another id.")
    families = sorted(_folders(playbooks) | _folders(shipped))
    if family is None:
        family = _family_of(identifier, families)
    if family not in families:
        raise UsageError(
            f"There is no family {family!r}.", did_you_mean(family, families, most=len(families))
        )
    path = playbooks / family / f"{identifier}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    quoted = ""
    if title:
        quoted = f" {json.dumps(title, ensure_ascii=False)}"
    with path.open("x", encoding="utf-8") as file:
        file.write(_TEXT.format(id=identifier, title=quoted))
    return path


def _folders(playbooks: Path) -> set[str]:
    names = set()
    for path in playbooks.glob("*/"):
        names.add(path.name)
    return names


def _family_of(identifier: str, families: list[str]) -> str:
    """Return the longest family that the id begins with, as `disk` for `disk-full`."""
    for family in sorted(families, key=len, reverse=True):
        if identifier.startswith(f"{family}-"):
            return family
    raise UsageError(
        f"The family of {identifier!r} is not known.",
        f"Name it with --family: {', '.join(families)}.",
    )
