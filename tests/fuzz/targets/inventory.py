"""The inventory of pods: a file that a person edits. It has pods, or a UsageError says where it is
wrong.
"""

from __future__ import annotations

from bs4_console.errors import UsageError
from bs4_console.pods.inventory import Inventory, Pod
from tests.fuzz.scratch import scratch

SEEDS = [
    b'[pods.a]\nhost = "h"\nport = 22\nuser = "u"\ntags = ["a"]\nprice = 1.5\nread_only = true\n'
    b'identity_file = "~/.ssh/k"\n\n# A comment.\n[pods.b]\nhost = "1.2.3.4"\njump = "u@h:1,b"\n',
    b'[pods]\nc = {host = "h", provider = "local", notes = "n"}\n',
]


def feed(data: bytes) -> None:
    """List the pods, add one and remove one."""
    with scratch() as directory:
        path = directory / "pods.toml"
        path.write_bytes(data)
        inventory = Inventory(path)
        try:
            known = inventory.list()
        except UsageError:
            return
        for pod in known:
            assert pod.address.isprintable()
            assert "\n" not in pod.name
        try:
            inventory.add(Pod(name="added", host="h"))
            inventory.remove("added")
        except UsageError:
            return
        assert inventory.list() == known, "adding a pod and removing it changed the others"
