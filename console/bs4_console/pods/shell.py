"""Build the command that opens a shell on a pod, with the inventory's SSH settings."""

from __future__ import annotations

import os
from pathlib import Path

from bs4_console.errors import UsageError
from bs4_console.locations import data_dir
from bs4_console.pods.inventory import Inventory, Pod


def argv(name: str, address: str) -> list[str]:
    """Return the command, as a list of words, that opens a shell on the pod `name` with the
    settings of its entry in the inventory, the console's list of pods. If there is no entry (for a
    practice pod, which is a simulated one), `address` is used: user@host:port for SSH, or "" or
    "local" for this machine, whose command is the person's own shell.
    """
    if address in ("", "local"):
        return [os.environ.get("SHELL") or "/bin/sh"]
    known = {pod.name: pod for pod in Inventory().list()}
    if name in known:
        return of_pod(known[name])
    return _of_address(address)


def of_pod(pod: Pod) -> list[str]:
    """Return the command, as a list of words, that opens a shell on a pod: `ssh` with the settings
    of its inventory entry, or the person's own shell if the pod is this machine.
    """
    if pod.is_local:
        return [os.environ.get("SHELL") or "/bin/sh"]
    words = ["ssh", "-t"]
    if not pod.ssh_config:
        words += ["-F", "none"]
    if pod.port is not None:
        words += ["-p", str(pod.port)]
    if pod.identity_file:
        words += ["-i", str(Path(pod.identity_file).expanduser())]
    if pod.jump:
        words += ["-J", pod.jump]
    pinned = data_dir() / "known_hosts"
    if pinned.exists():
        # The host key that was confirmed for this pod counts here too, under the pod's name: a
        # rented address can come back as another machine.
        words += ["-o", f'UserKnownHostsFile="{pinned}"', "-o", f"HostKeyAlias={pod.name}"]
    host = pod.host.removeprefix("[").removesuffix("]")
    return [*words, "--", f"{pod.user}@{host}" if pod.user else host]


def _of_address(address: str) -> list[str]:
    host, colon, port = address.rpartition(":")
    if (
        not colon
        or not port.isdigit()
        or host.endswith(":")
        or (":" in host and not host.endswith("]"))
    ):
        host, port = address, ""
    host = host.replace("[", "").replace("]", "")
    if host.startswith("-"):
        raise UsageError(f"{address!r} is no address.", "Correct the pod's host in pods.toml.")
    return ["ssh", "-t", *(["-p", port] if port else []), "--", host]
