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
    """Return one line that describes an unforeseen error: its type, the file and line at which it
    was raised, and the first 200 characters of its text.
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
    """The base of every error that is shown to a person.

    `message` says what is wrong, and `next_step` what the person can do now ("" if nothing).
    `exit_code` is the exit code of a command that ends with this error. `retry` is True if the
    console may try again by itself.
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
    """Raised when a command, a setting or a file that a person wrote is wrong. Exit code 2."""

    exit_code = USAGE


class NotApplicableError(ConsoleError):
    """Raised when a command or action cannot be used with this pod or run, or lacks something that
    it needs. Exit code 2.
    """

    exit_code = USAGE


class RefusedError(ConsoleError):
    """Raised when an action is refused: the plan changed, the pod is busy, the console is
    read-only, or nobody confirmed. Exit code 4.
    """

    exit_code = REFUSED


class LooksOnly(RefusedError):
    """Raised when the SSH key of this login may only read on the pod (`pods key --observe` has made
    it so), and an action on the pod was requested. Nothing was done.
    """

    def __init__(self, label: str) -> None:
        """Say it of the machine that `label` names, such as "pod NAME"."""
        super().__init__(
            f"Nothing was done on {label}: the key of this login may only look there.",
            "To act, name a key that may in pods.toml (identity_file).",
        )


class LinkError(ConsoleError):
    """Raised when the pod could not be reached or its agent did not answer. The runs on the pod may
    still be alive. Exit code 3.
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
    """Raised when the connection to the pod ended while it was in use."""

    link_state = "lost"


class SessionFailed(Unreachable):
    """Raised when the session with a pod ended because of a defect in this console, or because the
    pod sent data that an agent would not send. The session is started again by itself.
    """

    link_state = "failed"

    def __init__(self, pod: str, error: BaseException) -> None:
        super().__init__(
            f"The session of {pod} failed: {described(error)}.",
            "It is begun again; report it if it comes back.",
        )


class SessionRefused(LinkError):
    """Raised when the pod's SSH server accepts the connection but opens no session on it, for
    example because too many are open. The console tries again by itself, on a new connection.
    """

    retry = True
    link_state = "no session"


class AuthFailed(LinkError):
    """Raised when the SSH server of the pod, or of a jump host, refuses the login."""

    link_state = "auth failed"


class KeyUnusable(AuthFailed):
    """Raised when a private key for the login cannot be used: its file is missing, is not a key, or
    its passphrase is wrong or unknown.
    """


class HostKeyUnknown(LinkError):
    """Raised when no host key is trusted for this host yet, so that a person first has to accept
    its fingerprint.
    """

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
    """Raised when a pod shows another host key than the trusted one. The console then refuses to
    connect.
    """

    link_state = "HOST KEY CHANGED"

    def __init__(self, message: str, next_step: str, expected: str, actual: str) -> None:
        """Keep the fingerprints of the pinned key (`expected`) and of the shown key (`actual`)."""
        super().__init__(message, next_step)
        self.expected = expected
        self.actual = actual


class NoPython(LinkError):
    """Raised when the pod has no Python that is new enough for the agent and can run it."""

    link_state = "no python"


class NoSpace(LinkError):
    """Raised when the pod's disk has too little free space to install the agent. The console tries
    again by itself: a run frees space too.
    """

    retry = True
    link_state = "disk full"


class DeployFailed(LinkError):
    """Raised when the agent could not be installed or started on the pod."""

    link_state = "deploy failed"


class NoAgent(LinkError):
    """Raised when no agent runs on the pod and the command is one that never installs an agent."""

    link_state = "no agent"


class ProtocolMismatch(LinkError):
    """Raised when what answers on the pod does not speak the agent's protocol in a version that
    this console knows.
    """

    link_state = "agent version"


class EndlessAnswer(ProtocolMismatch):
    """Raised when the agent answers a query only with the next query to send, 1,000 times in a row,
    so that no result ever comes.
    """

    def __init__(self, stream: str, op: str, answers: int) -> None:
        """Name the query, and how many answers there were."""
        super().__init__(
            f"The query {op} of {stream} has no end after {answers:,} answers of the pod.",
            "Deploy the agent again.",
        )


class StandingAnswer(ProtocolMismatch):
    """Raised when the agent answers a search with a part, and the place at which the next part
    would begin is not further on, so that the search would never end.
    """

    def __init__(self, stream: str, op: str, place: str) -> None:
        """Name the query, and the place (a cursor) at which it stands still."""
        super().__init__(
            f"The query {op} of {stream} does not get on: the pod says that there is more, and "
            f"stays at {place}.",
            "Deploy the agent again.",
        )


class RemoteError(ConsoleError):
    """Raised when the pod's agent answered with an error. `type` is the agent's short name for it
    (see bs4_common.errors), such as "bad-cursor".
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
