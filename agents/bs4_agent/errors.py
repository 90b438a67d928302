"""Errors that cross the wire: a stable `type` for programs and one sentence, ending with the next
thing to do, for people.
"""

from __future__ import annotations


class AgentError(Exception):
    """Base of everything the agent reports to a console."""

    type = "error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def as_dict(self) -> dict[str, str]:
        return {"type": self.type, "message": self.message}


class ProtocolError(AgentError):
    """The peer sent something that is no valid frame or request; the channel is closed."""

    type = "protocol"


class ProtocolVersion(ProtocolError):
    """No protocol version is known to both sides."""

    type = "protocol-version"


class BadRequest(AgentError):
    """A well-formed frame whose request makes no sense."""

    type = "bad-request"


class UnknownStream(AgentError):
    type = "unknown-stream"


class BadCursor(AgentError):
    type = "bad-cursor"


class UnknownRun(AgentError):
    type = "unknown-run"


class UnknownPlaybook(AgentError):
    type = "unknown-playbook"


class KeyReused(AgentError):
    """An action key was submitted again with another body."""

    type = "key-reused"


class Busy(AgentError):
    """Another action holds the run; the message says who, what and since when."""

    type = "busy"


class Cancelled(AgentError):
    """A stop of its run has ended this action early."""

    type = "cancelled"

    def __init__(self, who: str) -> None:
        super().__init__(f"cancelled by {who}'s stop")


class PlanChanged(AgentError):
    """What was confirmed is no longer what would be done; nothing more was touched."""

    type = "plan-changed"


class PlanExpired(PlanChanged):
    """The plan outlived its 15 minutes."""

    type = "plan-expired"


class NotApplicable(AgentError):
    """The playbook or action does not apply to this run."""

    type = "not-applicable"


class Refused(AgentError):
    """A rule that no playbook can break forbids the step."""

    type = "refused"


class StepFailed(AgentError):
    """A step of an action did not reach its goal."""

    type = "step-failed"


class LaunchFailed(AgentError):
    type = "launch-failed"


class RunExists(AgentError):
    type = "run-exists"


class SpoolFull(AgentError):
    """The agent's own disk is full; acting stops because no intent can be written."""

    type = "spool-full"
