"""A rented machine as a pod: whether its SSH server is there, and how it stands in the
inventory.
"""

from __future__ import annotations

import asyncio

from bs4_console.pods.inventory import Inventory, Pod
from bs4_console.providers.base import Machine
from bs4_console.provision.book import Book
from bs4_console.provision.errors import NotUp


async def greets(host: str, port: int, timeout_s: float = 10.0) -> bool:
    """Whether an SSH server is there and says so first; nothing is sent."""
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
    """How a machine stands in the inventory."""
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
    """Put it into the inventory, with provider, id and price, and into the journal."""
    intent = book.by_machine(machine)
    pod = pod_of(machine, name, identity_file, machine.price if intent is None else intent.price)
    (inventory or Inventory()).add(pod)
    if intent is not None:
        book.note(intent, "pod", pod=name)
    return pod
