"""Errors that cross the wire. Each has a stable `type` for programs, and one sentence for people
that ends with the next thing to do.
"""

from __future__ import annotations


class AgentError(Exception):
    """Base class of every error that the agent reports to a console. `type` is the word by which a
    console tells the errors apart.
    """

    type = "error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def as_dict(self) -> dict[str, str]:
        """Return the error as it is sent to a console: its `type` and its `message`."""
        return {"type": self.type, "message": self.message}


class ProtocolError(AgentError):
    """Raised if the other side of a channel (the connection of a console to an agent) sent
    something that is no valid message. The channel is then closed.
    """

    type = "protocol"


class ProtocolVersion(ProtocolError):
    """Raised if console and agent have no protocol version in common."""

    type = "protocol-version"


class BadRequest(AgentError):
    """Raised if a request arrived intact but its content is not valid."""

    type = "bad-request"


class UnknownStream(AgentError):
    """Raised when a request names a stream that the agent does not have. A stream is a log or a
    list of records that a console reads piece by piece.
    """

    type = "unknown-stream"


class BadCursor(AgentError):
    """Raised if the text of a cursor (a place in a stream, such as a log) is malformed, or names a
    place that the stream does not have.
    """

    type = "bad-cursor"


class UnknownRun(AgentError):
    """Raised if the agent does not know a run with the requested name."""

    type = "unknown-run"


class UnknownPlaybook(AgentError):
    """Raised when the agent has no playbook (described failure with its repair) with this id."""

    type = "unknown-playbook"


class KeyReused(AgentError):
    """Raised if an action is submitted with a key, its unique id, under which another request was
    submitted before.
    """

    type = "key-reused"


class Busy(AgentError):
    """Raised if another action or program is at work on the same run or resource. The message says
    which, and what to do.
    """

    type = "busy"


class Interrupted(AgentError):
    """Raised inside an action that has to end although it is not known whether its goal could still
    be reached.
    """

    type = "interrupted"


class Cancelled(Interrupted):
    """Raised inside an action that has to end early because somebody ordered a stop of its run."""

    type = "cancelled"

    def __init__(self, who: str) -> None:
        super().__init__(f"cancelled by {who}'s stop")


class PlanChanged(AgentError):
    """Raised if the pod has changed so that the confirmed plan does not fit any more. The step that
    raises it has changed nothing.
    """

    type = "plan-changed"


class PlanExpired(PlanChanged):
    """Raised if a plan is older than 15 minutes or was made before the last reboot."""

    type = "plan-expired"


class NotApplicable(AgentError):
    """Raised if a playbook (a described repair), a step of one or an action cannot be used for this
    run or pod at present.
    """

    type = "not-applicable"


class Refused(AgentError):
    """Raised if a request is forbidden by one of the agent's safety rules, which no playbook
    (described repair) can override.
    """

    type = "refused"


class StepFailed(AgentError):
    """Raised if a step of an action was carried out but did not reach its goal."""

    type = "step-failed"


class LaunchFailed(AgentError):
    """Raised when a run could not be started, or ended before its first step."""

    type = "launch-failed"


class RunExists(AgentError):
    """Raised if a run cannot be started because it is running already, or because its name or
    directory belongs to another run.
    """

    type = "run-exists"


class SpoolFull(AgentError):
    """Raised if the disk with the agent's home directory is full. The agent then carries out no
    actions, because before each step it must write to the journal (its log of actions and
    incidents) what it is about to do.
    """

    type = "spool-full"
