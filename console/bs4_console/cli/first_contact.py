"""The first SSH connection to a machine that was just rented: its host key is believed only on
somebody's word.

The provider's, told over its authenticated API; else a person's. The word is compared with what the
machine shows.
"""

from __future__ import annotations

from collections.abc import Collection

from bs4_console.cli.sessions import transport
from bs4_console.errors import HostKeyUnknown, RefusedError
from bs4_console.pods.inventory import Pod


async def introduce(pod: Pod, told: Collection[str]) -> str:
    """Connect and pin the key that the machine shows, if its fingerprint ("SHA256:...") is among
    `told`; gives `uname -sm` of it.

    HostKeyUnknown when nobody told anything; RefusedError when the machine shows another key than
    any that was told. Then nothing is sent.
    """
    from bs4_console.transport.hostkeys import HostKeys

    link = transport(pod)
    try:
        try:
            done = await link.run(["uname", "-sm"])
        except HostKeyUnknown as error:
            if error.entry != pod.name or not told:
                raise
            if error.fingerprint not in told:
                raise RefusedError(
                    f"{pod.name} shows the host key {error.fingerprint}, and was told to "
                    f"have {' or '.join(told)}. Nothing was sent.",
                    "Somebody may be in between: look at the machine on the provider's page.",
                ) from None
            HostKeys().pin(error.entry, error.key)
            done = await link.run(["uname", "-sm"])
    finally:
        await link.close()
    return done.stdout.decode("utf-8", "replace").strip()
