"""Treats a rented machine as a pod: checks that its SSH server answers, and puts it into the
inventory.
"""

from __future__ import annotations

import asyncio

from bs4_console.pods.inventory import Inventory, Pod
from bs4_console.providers.base import Machine
from bs4_console.provision.book import Book
from bs4_console.provision.errors import NotUp


async def greets(host: str, port: int, timeout_s: float = 10.0) -> bool:
    """Connect to `host` and `port`, and return True if an SSH server sends its greeting within
    `timeout_s` seconds. Return False if it does not, for whatever reason. Nothing is sent to the
    server.
    """
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                return (await reader.read(4)).startswith(b"SSH-")
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False


def pod_of(
    machine: Machine, name: str, identity_file: str | None, price: float | None = None
) -> Pod:
    """Return an entry for a rented machine in the inventory, the console's list of pods, under the
    pod name `name`. It is not saved. `identity_file` is the path of the private SSH key that opens
    the machine, or None. `price` in US dollars an hour replaces the price that the provider states.
    Raises NotUp if the machine has no address yet.
    """
    if machine.host is None or machine.port is None:
        raise NotUp(f"{machine.name} has no address yet.", "Wait until it is up.", machine)
    return Pod(
        name=name,
        host=machine.host,
        port=machine.port,
        user=machine.user,
        identity_file=identity_file,
        ssh_config=False,
        provider=machine.provider,
        instance=machine.id,
        notes=machine.label or "",
        price=machine.price if price is None else price,
    )


def remember(
    machine: Machine,
    name: str,
    identity_file: str | None,
    book: Book,
    inventory: Inventory | None = None,
) -> Pod:
    """Add a rented machine to the inventory, the console's list of pods, as the pod `name`, and
    write that name into `book`, the journal of rents. Return the new pod. `identity_file` is the
    path of the private SSH key that opens the machine, or None. Raises NotUp if the machine has no
    address yet, and UsageError if the name is taken.
    """
    intent = book.by_machine(machine)
    pod = pod_of(machine, name, identity_file, machine.price if intent is None else intent.price)
    (inventory or Inventory()).add(pod)
    if intent is not None:
        book.note(intent, "pod", pod=name)
    return pod
