"""What an agent tells a console that connects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict


class AgentGreeting(TypedDict, total=False):
    """The greeting of an agent. An older agent leaves fields out."""

    protocol: int
    """The version of the protocol that the agent has chosen."""
    agent: str
    """The agent's version."""
    bundle: str
    """The hash of the bundle that runs."""
    build: int
    home: str
    """The id of the agent's home directory."""
    python: str
    """The version of the Python that runs the agent."""
    pid: int
    boot_id: str
    host: str
    look: bool
    """True if the key of this login may only look."""
    t: object
    """The pod's time in wall seconds since 1970. A console does not check it, because a pod whose
    clock is wrong can still be watched.
    """
    m: float
    """Seconds of the monotonic clock of this boot."""
    coverage: Mapping[str, str]
    """What can be seen on this pod, by source."""
