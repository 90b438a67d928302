"""The errors that can occur between a person and a pod. Each is one sentence with the next thing to
do.
"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Literal

#: Exit codes outside `check`: 0 done, 1 a finding or not achieved, 2 usage or not applicable, 3
#: unreachable or unknown, 4 refused, 130 interrupted.
FINDING, USAGE, UNREACHABLE, REFUSED = 1, 2, 3, 4


def described(error: BaseException) -> str:
    """Return one line that describes an unforeseen error: its type, the file and line where it was
    raised, and the first 200 characters of its text.
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
"""The state of the connection to a pod: how far it has come, or the error that prevents it.
`recorded` means that there is no live pod, only data that was kept of one.
"""


class ConsoleError(Exception):
    """The base of every error that a person sees.

    `message` says what is wrong and `next_step` what to do now ("" if there is nothing).
    `exit_code` is the exit code of a command that ends with this error. `retry` is True if the
    console may try again without a person.
    """

    exit_code = FINDING
    retry = False
    link_state: LinkState = "error"
    """The word that the screen shows for the link while this error lasts."""

    def __init__(self, message: str, next_step: str = "") -> None:
        super().__init__(f"{message} {next_step}".strip())
        self.message = message
        self.next_step = next_step


class UsageError(ConsoleError):
    """Raised when a command or an entry is wrong. Exit code 2."""

    exit_code = USAGE


class NotApplicableError(ConsoleError):
    """Raised when an action does not apply to this pod or run. Exit code 2."""

    exit_code = USAGE


class RefusedError(ConsoleError):
    """Raised when an action is refused: the plan changed, the pod is busy, the console is
    read-only, or nobody confirmed. Exit code 4.
    """

    exit_code = REFUSED


class LinkError(ConsoleError):
    """Raised when the pod could not be reached or did not answer. The error says nothing about the
    run. Exit code 3.
    """

    exit_code = UNREACHABLE


class Unreachable(LinkError):
    """Raised when no connection to the pod could be made. The console tries again by itself."""

    retry = True
    link_state: LinkState = "unreachable"


class ConnectionRefused(Unreachable):
    """Raised when the pod's host refuses the connection."""

    link_state = "refused"


class ChannelLost(Unreachable):
    """Raised when the connection ended while it was in use."""

    link_state = "lost"


class SessionFailed(Unreachable):
    """Raised when the session that watches a pod ended because of a defect of this console, or
    because of data that no agent sends. The session is started again.
    """

    link_state = "failed"

    def __init__(self, pod: str, error: BaseException) -> None:
        super().__init__(
            f"The session of {pod} failed: {described(error)}.",
            "It is begun again; report it if it comes back.",
        )


class SessionRefused(LinkError):
    """Raised when the connection exists but its server opens no further channel on it."""

    link_state = "no session"


class AuthFailed(LinkError):
    """Raised when the pod does not accept the login."""

    link_state = "auth failed"


class KeyUnusable(AuthFailed):
    """Raised when the private key cannot be read: it is missing, its passphrase is wrong, or it is
    not a key.
    """


class HostKeyUnknown(LinkError):
    """Raised at the first contact with a host: a person has to accept its fingerprint."""

    link_state = "host key?"

    def __init__(
        self, message: str, next_step: str, fingerprint: str, key: str, entry: str = ""
    ) -> None:
        """Keep what a person decides about. `fingerprint` and `key` are the host's, and `entry` is
        the name to pin `key` for: the pod's name, or a jump host on the way to it.
        """
        super().__init__(message, next_step)
        self.fingerprint = fingerprint
        self.key = key
        self.entry = entry


class HostKeyChanged(LinkError):
    """Raised when the pod shows a different key than the pinned one. The console then does not
    connect.
    """

    link_state = "HOST KEY CHANGED"

    def __init__(self, message: str, next_step: str, expected: str, actual: str) -> None:
        """Keep the fingerprints of the pinned key (`expected`) and of the shown key (`actual`)."""
        super().__init__(message, next_step)
        self.expected = expected
        self.actual = actual


class NoPython(LinkError):
    """Raised when the pod has no Python that can run the agent."""

    link_state = "no python"


class NoSpace(LinkError):
    """Raised when the pod's disk has no room for the agent."""

    link_state = "disk full"


class DeployFailed(LinkError):
    """Raised when the agent could not be installed or started on the pod."""

    link_state = "deploy failed"


class NoAgent(LinkError):
    """Raised when no agent runs on the pod and the command never deploys one."""

    link_state = "no agent"


class ProtocolMismatch(LinkError):
    """Raised when the agent's protocol version does not fit this console."""

    link_state = "agent version"


class RemoteError(ConsoleError):
    """Raised when the agent answered with an error. `type` is the agent's name for the error (see
    bs4_agent.errors).
    """

    def __init__(self, type_: str, message: str) -> None:
        """Set the exit code that belongs to the agent's error type: 4 for a refusal, 2 for a wrong
        request, 1 for everything else.
        """
        super().__init__(message)
        self.type = type_
        if type_ in ("busy", "plan-changed", "plan-expired", "refused", "key-reused"):
            self.exit_code = REFUSED
        elif type_ in (
            "unknown-stream",
            "unknown-run",
            "unknown-playbook",
            "bad-request",
            "not-applicable",
            "run-exists",
            "bad-config",
        ):
            self.exit_code = USAGE
