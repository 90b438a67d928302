"""Accepting actions: for each kind, the code that accepts it, plans it, and continues it after a
restart of the agent.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from bs4_agent.actions.adoptions import Adoptions
from bs4_agent.actions.departure import Departure
from bs4_agent.actions.executor import ActionExecutor, raising
from bs4_agent.actions.kinds import NAMES, Kinds
from bs4_agent.actions.orders import Orders
from bs4_agent.actions.recoveries import Recoveries
from bs4_agent.actions.steps import told
from bs4_agent.actions.stops import Stops
from bs4_agent.actions.submission import Submission
from bs4_agent.book import Book
from bs4_agent.pod import Pod
from bs4_common.errors import AgentError, BadRequest, KeyReused, Refused
from bs4_common.failures.compiled import Library, digest
from bs4_common.ids import is_key
from bs4_common.ledger import ActionView
from bs4_common.streams.segments import SegmentStream

#: A function that is called under the executor's lock. It refuses, or journals `accepted` and
#: starts the work. What it returns, if it is not None, does so instead, and is called without the
#: lock.
Take = Callable[[Submission], Callable[[], None] | None]


class Actions:
    """Accepts every action that consoles submit to a pod, and passes it to the code that carries it
    out. The work is done on threads of its own, and its progress is in the journal.
    """

    def __init__(
        self,
        pod: Pod,
        library: Library,
        book: Book,
        journal: SegmentStream,
        hand_over: Callable[[], None],
    ) -> None:
        self.executor = executor = ActionExecutor(book, pod.runs)
        self._journal, self._home = journal, pod.runs.home
        self._bodies = {
            key: _digest(action.body)
            for key, action in executor.ledger.actions.items()
            if action.body
        }
        self._left = [action for action in executor.ledger.actions.values() if not action.ended]
        """The actions that an earlier life of the agent has not finished, oldest first."""
        self._answering: set[str] = set()
        """The keys of the submissions that are being answered."""
        self._answered = threading.Condition()
        self.orders = Orders(executor, pod, library)
        self.kinds = Kinds(executor, pod, library)
        self.recoveries = Recoveries(executor, pod, library, self.kinds.get("playbook"))
        self.stops = Stops(executor, pod)
        pod.restoring = lambda: self.kinds.restoring
        departure = Departure(executor, hand_over)
        self._kinds: Mapping[str, Take] = {
            "plan": self._plan,
            "stop": self._stop,
            "adopt": Adoptions(executor, pod).adopt,
            "mode": self.orders.mode,
            "keep": self.orders.keep,
            "sync": self.orders.sync,
            "note": self.orders.note,
            "setup-stop": self._end_setup,
            "handover": departure.accept,
            "release": self._release,
            **dict.fromkeys(NAMES, self._confirm),
        }
        self._resumes: Mapping[str, Callable[[ActionView], None]] = {
            "stop": lambda action: executor.resume(self.stops, action),
            "rotate": lambda action: executor.resume(self.kinds.rotation, action),
            **dict.fromkeys(NAMES, self._resume),
        }

    def submit(self, body: Mapping[str, Any], who: str, payload: bytes = b"") -> dict[str, Any]:
        """Accept one action and return `{"action": key, "state": "accepted"}` at once. `body` has
        the action's `key` (a ULID), its `kind` (for example "launch") and the fields of that kind.
        `who` is the name of the person, for the journal. `payload` holds the secrets of a set-up
        and is not written into the journal. If an action with the same key and body was accepted
        before, the same is returned and nothing is done.

        Raises BadRequest for a malformed body, KeyReused if the key belongs to another action, and
        the errors of the kind of action, such as Busy, UnknownPlaybook, UnknownRun, PlanExpired,
        PlanChanged, Refused or StepFailed. Raises Refused too if `body["home"]`, the id of the
        agent's home for which a person has confirmed the action, is not the id of this agent's
        home. If it raises, nothing was done. What goes wrong after the acceptance is in the
        journal.
        """
        key, kind = body.get("key"), body.get("kind")
        if not isinstance(key, str) or not is_key(key):
            raise BadRequest("An action needs a key of 26 letters and digits (a ULID); send one.")
        take = self._kinds.get(str(kind))
        if take is None:
            raise BadRequest(
                f"There is no action {kind!r}; this agent knows {', '.join(self._kinds)}."
            )
        if "plan" in body:
            # It is what the agent has made again, and a restarted agent carries it out.
            raise BadRequest("`plan` of an action is written by the agent; send its `plan_hash`.")
        if body.get("home", self.executor.home) != self.executor.home:
            raise Refused(
                "This was confirmed for another pod than the one that answers at its address now; "
                "look at this one and confirm it anew."
            )
        try:
            json.dumps(dict(body), allow_nan=False)
            fingerprint = _digest(body)
        except (ValueError, TypeError, RecursionError) as error:
            raise BadRequest(
                f"A field of the action has a value that JSON does not have ({error}); send "
                "another one."
            ) from None
        asked = Submission(key, body, who, payload)
        # Whoever has read of an action's end may submit the next one before this agent knows of it.
        self.executor.book.catch_up()
        with self._one_of(key):
            if not self._known(key, fingerprint):
                try:
                    with self.executor.lock:
                        later = take(asked)
                    if later is not None:
                        later()
                except (AgentError, OSError) as error:
                    if key not in self.executor.ledger.actions:
                        raise told(error) from error
                    failed = told(error)
                    self.executor.start("", key, lambda: raising(failed))
                self._bodies[key] = fingerprint
        return {"action": key, "state": "accepted"}

    @contextlib.contextmanager
    def _one_of(self, key: str) -> Iterator[None]:
        """Run the `with` block while no other submission with this key is answered. It may be the
        same one, whose first connection was lost, so wait for its end.
        """
        with self._answered:
            self._answered.wait_for(lambda: key not in self._answering)
            self._answering.add(key)
        try:
            yield
        finally:
            with self._answered:
                self._answering.discard(key)
                self._answered.notify_all()

    def _known(self, key: str, fingerprint: str) -> bool:
        """Return True if the action `key` was accepted before, with a body of this digest. Raises
        KeyReused if it was accepted with another body.
        """
        known = self._bodies.get(key)
        if known == fingerprint:
            return True
        # The agent's own actions (for example a rotation) have a key and no submission.
        if known is not None or key in self.executor.ledger.actions:
            raise KeyReused(
                f"Action key {key} was used for something else already; make a new one."
            )
        return False

    def resume(self) -> None:
        """Continue the actions that were under way when the agent was restarted. If an action is of
        a kind that cannot be continued, write into the journal that it is interrupted. Call this
        after the start of the agent; a second call does nothing.
        """
        self._forget_secrets()
        left, self._left = self._left, []
        self.stops.cancel_interrupted(left)
        # The newest first: a later action on the same run was only accepted because the earlier one
        # had ended, even if the journal does not say so.
        for action in reversed(left):
            if action.ended:
                continue
            go_on = self._resumes.get(action.kind)
            if go_on is None:
                detail = "the agent was restarted; ask again"
                self.executor.end(action.key, "interrupted", detail=detail)
            else:
                go_on(action)

    def _plan(self, asked: Submission) -> None:
        """Plan what the body asks for: a launch, a set-up, a restore, a merge or a playbook."""
        name = next((name for name in NAMES if asked.body.get(name) is not None), "playbook")
        self.executor.plan(self.kinds.get(name), asked)

    def _confirm(self, asked: Submission) -> Callable[[], None] | None:
        """Accept an action that is carried out by the steps of a plan. If a person has confirmed
        the plan, return the function that accepts it: the plan is made again first, which may take
        long.
        """
        kind = self.kinds.get(asked.body["kind"])
        if self.executor.begin(kind, asked):
            return None
        return lambda: self.executor.confirm(kind, asked)

    def _stop(self, asked: Submission) -> None:
        """Accept the stop of a run."""
        self.executor.begin(self.stops, asked)

    def _resume(self, action: ActionView) -> None:
        """Continue an action by the steps of its plan."""
        self.executor.resume(self.kinds.get(action.kind), action)

    def _end_setup(self, asked: Submission) -> None:
        """Accept the action that ends the command of a set-up, restore or merge, and end it on a
        thread of its own. The journal says how it ended.
        """

        def work() -> None:
            detail = self.kinds.jobs.end(
                lambda text: self.executor.progress(asked.key, "", "started", detail=text)
            )
            self.executor.insist(asked.key, "done", detail=detail)

        self.executor.accept(asked, "")
        self.executor.start("", asked.key, work)

    def _forget_secrets(self) -> None:
        """Delete from the pod the secrets of all set-ups that have ended or that the journal does
        not know. Such set-ups ended while no agent ran, or were never accepted.
        """
        home, actions = self._home, self.executor.ledger.actions
        if any(home.credentials.glob("incoming/*")):
            from bs4_agent.setup import credentials

            credentials.forget_all_but(
                home, {key for key, action in actions.items() if not action.ended}
            )

    def _release(self, asked: Submission) -> None:
        """Note that a console holds the journal up to `cursor`. This is not journalled: it says
        nothing about the pod.
        """
        self._journal.release(str(asked.body.get("cursor")))


def _digest(body: Mapping[str, Any]) -> str:
    """Return the digest of the fields that make two submissions the same: of all fields except
    those that the agent adds.
    """
    return digest({k: v for k, v in body.items() if k != "plan"})
