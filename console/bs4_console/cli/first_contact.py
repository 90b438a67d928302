"""The first SSH connection to a machine that was just rented. Its host key is trusted only if
somebody vouches for it: the provider over its authenticated API, or a person. The key that the
machine shows is compared with theirs.
"""

from __future__ import annotations

from collections.abc import Collection

from bs4_console.cli.sessions import host_keys, transport
from bs4_console.errors import HostKeyUnknown, RefusedError
from bs4_console.pods.inventory import Pod


async def introduce(pod: Pod, told: Collection[str]) -> str:
    """Connect to a machine that this console has not used yet, and return the output of `uname -sm`
    there. `told` has the fingerprints ("SHA256:...") that the machine's host key may have, as its
    owner gave them. If the key has one of these, it is pinned on this machine.

    For a key that is not pinned yet, raises HostKeyUnknown if `told` is empty, and RefusedError if
    the machine shows a key that is not in `told`. In both cases nothing is sent to the machine.
    """
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
            host_keys().pin(error.entry, error.key)
            done = await link.run(["uname", "-sm"])
    finally:
        await link.close()
    return done.stdout.decode("utf-8", "replace").strip()
