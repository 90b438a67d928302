"""What one look at a pod that does not answer can say more than its link: the provider is asked,
and nothing is concluded from one look.
"""

from __future__ import annotations

import asyncio
from typing import Literal

from bs4_console.errors import ConsoleError, LinkError
from bs4_console.pods.inventory import Pod
from bs4_console.pods.liveness import Sign, judge, of_sight
from bs4_console.provision.pod import greets
from bs4_console.provision.witness import witness_of

PortWord = Literal["open", "mute", "refused", "silent"]


async def beside_the_link(pod: Pod, error: ConsoleError) -> str:
    """One sentence, or "" where the inventory names no machine, the error is none of the link, or
    the provider does not say.
    """
    witness = witness_of(pod)
    if witness is None or not isinstance(error, LinkError):
        return ""
    sight = await witness.look()
    if sight.state == "unknown":
        return ""
    signs = [Sign(0.0, "ssh", error.link_state, error.message), of_sight("provider", sight, 0.0)]
    return judge(pod.name, signs, 0.0).sentence


async def at_its_port(host: str, port: int, timeout_s: float = 10.0) -> PortWord:
    """Who answers at an address: an SSH server that greets (open), somebody without a word (mute),
    nobody. Nothing is sent.
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
