"""Probes that say more about a pod that does not answer than its link does: the provider's API and
the SSH port. One probe alone proves nothing.
"""

from __future__ import annotations

import asyncio
from typing import Literal

from bs4_console.errors import ConsoleError, LinkError
from bs4_console.pods.inventory import Pod
from bs4_console.pods.liveness import Sign, judge, of_sight
from bs4_console.provision.observer import witness_of
from bs4_console.provision.pod import greets

PortWord = Literal["open", "mute", "refused", "silent"]


async def beside_the_link(pod: Pod, error: ConsoleError) -> str:
    """Ask the provider about a pod that could not be reached because of `error`, and return one
    sentence with the provider's answer. One answer proves nothing, so the sentence claims nothing
    for certain.

    Return "" if the inventory names no machine for the pod, if `error` does not come from the link,
    or if the provider does not know.
    """
    witness = witness_of(pod)
    if witness is None or not isinstance(error, LinkError):
        return ""
    sight = await witness.observe()
    if sight.state == "unknown":
        return ""
    signs = [Sign(0.0, "ssh", error.link_state, error.message), of_sight("provider", sight, 0.0)]
    return judge(pod.name, signs, 0.0).sentence


async def at_its_port(host: str, port: int, timeout_s: float = 10.0) -> PortWord:
    """Connect to `host` and `port` without sending anything, and return what answers: "open" (an
    SSH server greets), "mute" (the connection is accepted, but no greeting comes), "refused" (the
    connection is refused) or "silent" (no route, or no answer within `timeout_s` seconds).
    """
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(host, port)
        writer.close()
    except ConnectionRefusedError:
        return "refused"
    except (OSError, TimeoutError):
        return "silent"
    if await greets(host, port, timeout_s):
        return "open"
    return "mute"
