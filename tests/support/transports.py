"""SSH transports to test pods, with everything that would come from the person's home replaced."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from bs4_console.pods.inventory import Pod
from bs4_console.transport.hostkeys import HostKeys
from bs4_console.transport.ssh import SshTransport
from tests.support.pod import TestPod


def describe(pod: TestPod, **changes: Any) -> Pod:
    """The inventory entry for a test pod, with its key; no ~/.ssh/config."""
    entry = Pod(
        name=pod.name,
        host=pod.address,
        port=pod.port,
        user=pod.user,
        identity_file=str(pod.key),
        ssh_config=False,
    )
    return replace(entry, **changes)


def trusting(directory: Path, *pods: TestPod) -> HostKeys:
    """A known_hosts of its own in which the keys of `pods` are pinned."""
    hostkeys = HostKeys(directory / "known_hosts")
    for pod in pods:
        hostkeys.pin(pod.name, pod.host_key)
    return hostkeys


def transport(
    pod: TestPod, directory: Path, *, options: dict[str, Any] | None = None, **changes: Any
) -> SshTransport:
    """A transport that trusts the pod's key; `changes` change the inventory entry, `options` the
    transport.
    """
    return SshTransport(describe(pod, **changes), trusting(directory, pod), **(options or {}))
