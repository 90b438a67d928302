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
    something that is no valid frame or request. The channel is then closed.
    """

    type = "protocol"


class ProtocolVersion(ProtocolError):
    """Raised if console and agent have no protocol version in common."""

    type = "protocol-version"


class BadRequest(AgentError):
    """Raised if a request arrived intact but its content is not valid."""

    type = "bad-request"


class UnknownStream(AgentError):
    """Raised when a request names a stream (a log, the journal or other data that is read by
    position) that the agent does not have.
    """

    type = "unknown-stream"


class BadCursor(AgentError):
    """Raised if a cursor (a place in a stream) cannot be read or belongs to another stream."""

    type = "bad-cursor"


class UnknownRun(AgentError):
    """Raised if the agent does not know a run with the requested name."""

    type = "unknown-run"


class UnknownPlaybook(AgentError):
    """Raised when the agent has no playbook with this id."""

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
    """Raised if a playbook, step or action cannot be used for this run or pod at present."""

    type = "not-applicable"


class Refused(AgentError):
    """Raised if a safety rule that no playbook can override forbids what was requested."""

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
    """Raised if the disk with the agent's home is full. The agent then carries out no actions,
    because it must write each intent to the journal (the agent's log of actions and incidents)
    first.
    """

    type = "spool-full"
