"""What an agent tells a console that connects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict


class AgentGreeting(TypedDict, total=False):
    """The greeting: the first message that an agent sends to a console that connects. An older
    agent leaves fields out.
    """

    protocol: int
    """The version of the protocol that the agent has chosen."""
    agent: str
    """The agent's version."""
    bundle: str
    """The hash of the bundle, the archive from which the agent was installed."""
    build: int
    """The build number of the bundle, which is larger for a newer one."""
    home: str
    """The id of the agent's home directory."""
    python: str
    """The version of the Python that runs the agent."""
    pid: int
    boot_id: str
    host: str
    look: bool
    """True if the SSH key of this login may only look at the pod and change nothing."""
    t: object
    """The pod's time in wall seconds since 1970. A console does not check it, because a pod whose
    clock is wrong can still be watched.
    """
    m: float
    """The pod's time in seconds of the monotonic clock of this boot."""
    coverage: Mapping[str, str]
    """What can be seen on this pod, by source, such as the kernel log."""
