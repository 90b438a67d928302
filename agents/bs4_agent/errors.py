"""Errors that cross the wire. Each has a stable `type` for programs, and one sentence for people
that ends with the next thing to do.
"""

from __future__ import annotations


class AgentError(Exception):
    """Base class of every error that the agent reports to a console."""

    type = "error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def as_dict(self) -> dict[str, str]:
        """Return the error as it crosses the wire."""
        return {"type": self.type, "message": self.message}


class ProtocolError(AgentError):
    """Raised when the peer sent something that is no valid frame or request. This closes the
    channel.
    """

    type = "protocol"


class ProtocolVersion(ProtocolError):
    """Raised when no protocol version is known to both sides."""

    type = "protocol-version"


class BadRequest(AgentError):
    """Raised for a well-formed frame whose request makes no sense."""

    type = "bad-request"


class UnknownStream(AgentError):
    """Raised when a request names a stream that the agent does not have."""

    type = "unknown-stream"


class BadCursor(AgentError):
    """Raised when a cursor cannot be read or does not belong to its stream."""

    type = "bad-cursor"


class UnknownRun(AgentError):
    """Raised when the agent knows no run of this name."""

    type = "unknown-run"


class UnknownPlaybook(AgentError):
    """Raised when the agent has no playbook with this id."""

    type = "unknown-playbook"


class KeyReused(AgentError):
    """Raised when an action key is submitted again with another body."""

    type = "key-reused"


class Busy(AgentError):
    """Raised when another action holds the run. The message says who does what and since when."""

    type = "busy"


class Cancelled(AgentError):
    """Raised inside an action that a stop of its run ends early."""

    type = "cancelled"

    def __init__(self, who: str) -> None:
        super().__init__(f"cancelled by {who}'s stop")


class PlanChanged(AgentError):
    """Raised when the confirmed plan is no longer what would be done. Nothing more was touched."""

    type = "plan-changed"


class PlanExpired(PlanChanged):
    """Raised when a plan is older than its 15 minutes."""

    type = "plan-expired"


class NotApplicable(AgentError):
    """Raised when the playbook or action does not apply to this run."""

    type = "not-applicable"


class Refused(AgentError):
    """Raised when a rule that no playbook can break forbids the step."""

    type = "refused"


class StepFailed(AgentError):
    """Raised when a step of an action did not reach its goal."""

    type = "step-failed"


class LaunchFailed(AgentError):
    """Raised when a run could not be started, or ended before its first step."""

    type = "launch-failed"


class RunExists(AgentError):
    """Raised when the run lives already, or its name or directory belongs to another run."""

    type = "run-exists"


class SpoolFull(AgentError):
    """Raised when the agent's own disk is full. Acting stops, because no intent can be written."""

    type = "spool-full"
