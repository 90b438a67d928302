"""A sentence for each kind of step in a playbook: for the screen, the page of failures and
`playbook show`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bs4_console.failures.playbook_file import Parameters

#: What `wait_until` of `disk-free` takes if a playbook names no percentage, as the agent does.
DISK_PERCENT = 85
#: The parameter that has a sentence of its own for each of its values, by kind of step.
_VARIANT = {"relaunch": "resume", "wait_until": "condition"}
#: A sentence for each kind of step, and for those of _VARIANT each value. A parameter's name in
#: braces stands for its value.
SENTENCES = {
    "stop_run": "Stop the run as its trainer asks for, then end every process that is left of it.",
    "end_processes": (
        "End the leftover processes that are provably of a dead run, each by its identity."
    ),
    "wait_gpu_free": "Wait until the GPUs are free.",
    "archive_logs": "Archive the logs: the trainer deletes them when it starts.",
    "move_steps": (
        "Move the step directories above the newest complete step to the run's trash. Nothing is "
        "deleted."
    ),
    "move_run": "Move everything that the run has written to its trash. Nothing is deleted.",
    "move_files": "Move the files that are in the way to the run's trash. Nothing is deleted.",
    "edit_config": "Change the run's config file; the old one is kept in the run's trash.",
    "wait_until disk-free": (
        "Wait until less than {percent} % of each disk that the run writes to is used: free space "
        "there meanwhile."
    ),
    "wait_until port-free": "Wait until no process listens on the run's ports.",
    "wait_until server-ready": "Wait until the run's inference server answers.",
    "end_port_holder": "End what a dead run has left on the run's port, by its identity.",
    "set_limit": "Raise the limit of open files for the next start.",
    "probe": "Ask the inference server for one token.",
    "notify": "Write a note into the run's record.",
    "restore_set": (
        "Where no step is complete on the pod any more, bring the newest whole one back from the "
        "run's store."
    ),
    "relaunch_companion": (
        "Start the inference server again that was started beside the run, if it is gone."
    ),
    "relaunch resumable": (
        "Start the run again from the newest step that is complete on every side."
    ),
    "relaunch same": (
        "Start the run again from its newest complete step, or as before when it had written none."
    ),
    "relaunch previous": "Start the run again from the complete step before the one that failed.",
    "relaunch none": "Start the run afresh.",
}


def sentence(step: Mapping[str, Parameters | None]) -> str:
    """Return a sentence that says what one step of a repair does. `step` is written as in the file
    of the playbook that has the repair, `{kind: parameters}`. The parameters follow the sentence in
    parentheses, except for those that are named in the sentence itself.
    """
    ((kind, parameters),) = step.items()
    values = dict(parameters or {})
    key = kind
    if kind in _VARIANT:
        key = f"{kind} {values.pop(_VARIANT[kind], '')}"
    said = SENTENCES.get(key, f"{key.replace('_', ' ')}.")
    if "{percent}" in said:
        said = said.replace("{percent}", str(values.pop("percent", DISK_PERCENT)))
    named = ", ".join(f"{name} {_value(value)}" for name, value in values.items())
    if named:
        return f"{said[:-1]} ({named})."
    return said


def _value(value: Any) -> str:
    """Return a parameter's value as text."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {item}" for key, item in value.items())
    return str(value)


def verified(verify: Mapping[str, Parameters]) -> str:
    """Return in words how a playbook (the description of a known failure and its repair) proves
    that the run was repaired. `verify` is written as in the playbook's file, such as
    `{steps_advance: {count: 2, within: 30m}}`.
    """
    if "steps_advance" not in verify:
        return ", ".join(f"{name} {_value(value)}" for name, value in verify.items())
    how = verify["steps_advance"] or {}
    return f"{how.get('count', 2)} new training steps within {how.get('within', '30m')}"
