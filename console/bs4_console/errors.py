"""What can go wrong between a person and a pod, each as one sentence with the next thing to do."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Literal

#: Exit codes outside `check`: 0 done, 1 a finding or not achieved, 2 usage or not applicable, 3
#: unreachable or unknown, 4 refused, 130 interrupted.
FINDING, USAGE, UNREACHABLE, REFUSED = 1, 2, 3, 4


def described(error: BaseException) -> str:
    """Return an error that nobody foresaw in one line, with the place in the code where it was
    raised.
    """
    frames = traceback.extract_tb(error.__traceback__)
    place = ""
    if frames:
        place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}"
    return f"{type(error).__name__}{place}: {str(error)[:200]}"


LinkState = Literal[
    "new",
    "connecting",
    "up",
    "recorded",
    "error",
    "unreachable",
    "refused",
    "lost",
    "failed",
    "no session",
    "auth failed",
    "host key?",
    "HOST KEY CHANGED",
    "no python",
    "disk full",
    "deploy failed",
    "no agent",
    "agent version",
]
"""The connection to a pod: how far it is, or the error that stands. `recorded`: there is no live
pod, only what was kept of one.
"""


class ConsoleError(Exception):
    """`message` says what is wrong, `next_step` what to do now. `retry`: whether trying again by
    itself can help.
    """

    exit_code = FINDING
    retry = False
    link_state: LinkState = "error"
    """The word the screen shows for the link while this stands."""

    def __init__(self, message: str, next_step: str = "") -> None:
        super().__init__(f"{message} {next_step}".strip())
        self.message = message
        self.next_step = next_step


class UsageError(ConsoleError):
    exit_code = USAGE


class NotApplicableError(ConsoleError):
    exit_code = USAGE


class RefusedError(ConsoleError):
    """plan-changed, busy, read-only or unconfirmed."""

    exit_code = REFUSED


class LinkError(ConsoleError):
    """The pod could not be reached or did not answer. It says nothing about the run."""

    exit_code = UNREACHABLE


class Unreachable(LinkError):
    retry = True
    link_state: LinkState = "unreachable"


class ConnectionRefused(Unreachable):
    link_state = "refused"


class ChannelLost(Unreachable):
    """The connection ended while it was in use."""

    link_state = "lost"


class SessionFailed(Unreachable):
    """What watches a pod ended by a defect of this console, or by something that no agent sends. It
    is begun again.
    """

    link_state = "failed"

    def __init__(self, pod: str, error: BaseException) -> None:
        super().__init__(
            f"The session of {pod} failed: {described(error)}.",
            "It is begun again; report it if it comes back.",
        )


class SessionRefused(LinkError):
    """The connection is there, and its server opens no further channel on it."""

    link_state = "no session"


class AuthFailed(LinkError):
    link_state = "auth failed"


class KeyUnusable(AuthFailed):
    """The private key cannot be read: missing, wrong passphrase, or not a key."""


class HostKeyUnknown(LinkError):
    """First contact: the fingerprint waits for a person's yes."""

    link_state = "host key?"

    def __init__(
        self, message: str, next_step: str, fingerprint: str, key: str, entry: str = ""
    ) -> None:
        """`entry` is what to pin `key` for: the pod's name, or a jump host on the way to it."""
        super().__init__(message, next_step)
        self.fingerprint = fingerprint
        self.key = key
        self.entry = entry


class HostKeyChanged(LinkError):
    """The pod shows another key than the pinned one: a hard stop."""

    link_state = "HOST KEY CHANGED"

    def __init__(self, message: str, next_step: str, expected: str, actual: str) -> None:
        super().__init__(message, next_step)
        self.expected = expected
        self.actual = actual


class NoPython(LinkError):
    link_state = "no python"


class NoSpace(LinkError):
    link_state = "disk full"


class DeployFailed(LinkError):
    link_state = "deploy failed"


class NoAgent(LinkError):
    """No agent runs there and this command never deploys one."""

    link_state = "no agent"


class ProtocolMismatch(LinkError):
    link_state = "agent version"


class RemoteError(ConsoleError):
    """The agent said no; `type` is its word (bs4_agent.errors)."""

    def __init__(self, type_: str, message: str) -> None:
        super().__init__(message)
        self.type = type_
        self.exit_code = {
            "busy": REFUSED,
            "plan-changed": REFUSED,
            "plan-expired": REFUSED,
            "refused": REFUSED,
            "key-reused": REFUSED,
        }.get(
            type_,
            USAGE
            if type_
            in (
                "unknown-stream",
                "unknown-run",
                "unknown-playbook",
                "bad-request",
                "not-applicable",
                "run-exists",
                "bad-config",
            )
            else FINDING,
        )
