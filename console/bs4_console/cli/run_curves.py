"""The part of `runs show` about validations: their curves, and whether the checkpoints of their
best steps still exist.
"""

from __future__ import annotations

import asyncio

from bs4_console.checkpoints import listing
from bs4_console.cli.sessions import linked, pods
from bs4_console.errors import LinkError, RemoteError
from bs4_console.run_log import validation
from bs4_console.run_log.record import RunRecord

#: Seconds to wait for the pod's answer about its checkpoints.
_ASK_S = 20.0


def add_checkpoints(record: RunRecord) -> None:
    """Ask the run's pod whether it still has the checkpoints of those training steps at which the
    run did best in a validation. Store the answers in `record.validation`, or the reason why the
    pod could not be asked. Do nothing if the run has no validations.
    """
    if record.validation:
        asyncio.run(_look(record))


async def _look(record: RunRecord) -> None:
    """Add what the pod answers, or why it could not be queried."""
    known = {pod.name: pod for pod in pods(None)}
    if record.pod not in known:
        validation.add_to_report(
            record.validation, None, "its pod is not in the inventory any more"
        )
        return
    try:
        async with linked(known[record.pod], deploy=False, timeout=_ASK_S) as live:
            validation.add_to_report(record.validation, await listing.of_pod(live, record.name))
    except (LinkError, RemoteError) as error:
        validation.add_to_report(record.validation, None, error.message)


def show(record: RunRecord) -> None:
    """Print two lines for each validation in `record`: first the training step with the best result
    and what is known of that step's checkpoint, then the newest results. Print nothing for a
    validation without results.
    """
    for curve in record.validation:
        for head, line in zip(("validation", "curve"), validation.describe(curve), strict=False):
            print(f"  {head:10} {line}")
