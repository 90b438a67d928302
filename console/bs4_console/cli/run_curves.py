"""runs show: the curves of a run's validations, and whether the checkpoints of their best steps are
still there.
"""

from __future__ import annotations

import asyncio

from bs4_console.checkpoints import listing
from bs4_console.cli.sessions import linked, pods
from bs4_console.errors import LinkError, RemoteError
from bs4_console.run_log import validation
from bs4_console.run_log.record import RunRecord

#: Seconds that a record waits for its pod to say which checkpoints are there.
_ASK_S = 20.0


def look(record: RunRecord) -> None:
    """The pod is asked, where there is something to ask: the record is of what was, not of what is
    there.
    """
    if record.validation:
        asyncio.run(_look(record))


async def _look(record: RunRecord) -> None:
    known = {pod.name: pod for pod in pods(None)}
    if record.pod not in known:
        validation.look(record.validation, None, "its pod is not in the inventory any more")
        return
    try:
        async with linked(known[record.pod], deploy=False, timeout=_ASK_S) as live:
            validation.look(record.validation, await listing.of_pod(live, record.name))
    except (LinkError, RemoteError) as error:
        validation.look(record.validation, None, error.message)


def show(record: RunRecord) -> None:
    for curve in record.validation:
        for head, line in zip(("validation", "curve"), validation.words(curve), strict=False):
            print(f"  {head:10} {line}")
