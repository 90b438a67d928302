"""Accepting what stays in force: modes of playbooks, orders for checkpoints, and notes. Nothing
happens at once, so no run is held.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bs4_agent.actions.executor import ActionExecutor
from bs4_agent.actions.submission import Submission
from bs4_agent.pod import Pod
from bs4_common.errors import AgentError, BadRequest, Refused
from bs4_common.failures.compiled import Library

MODES = ("observe", "ask", "auto")


class Orders:
    """Accepts settings that stay in force: the modes of playbooks and the standing orders (how many
    checkpoints of a run stay on the disk, and to which object store they are copied). It also
    accepts a person's notes. There is one object per pod. The attributes `on_keep` and `on_sync`
    are functions that are called after an order to keep or to copy checkpoints was given or taken
    back.
    """

    def __init__(self, executor: ActionExecutor, pod: Pod, library: Library) -> None:
        self._executor, self._pod, self._library = executor, pod, library
        self.on_keep: Callable[[], None] = lambda: None
        self.on_sync: Callable[[], None] = lambda: None

    def mode(self, asked: Submission) -> None:
        """Set the mode of the playbook `asked.body["playbook"]` for the run `asked.body["run"]`.
        The new mode is `asked.body["mode"]`: "observe" (only report), "ask" (make a plan and wait
        for a person) or "auto" (repair at once). Raises UnknownRun, UnknownPlaybook, BadRequest for
        another mode, and Refused for "auto" if a person must look before this playbook is carried
        out. Raises SpoolFull if the journal has no room.
        """
        run, playbook = self._run(asked), self._library.get(str(asked.body.get("playbook")))
        mode = asked.body.get("mode")
        if mode not in MODES:
            raise BadRequest(f"{mode!r} is no mode; choose {', '.join(MODES)}.")
        if mode == "auto" and not playbook.automatic:
            raise Refused(
                f"{playbook.id} is never automatic: a person must look first. Choose ask."
            )
        self._executor.accept(asked, run)
        self._executor.book(
            "mode", sync=True, run=run, playbook=playbook.id, mode=mode, who=asked.who
        )
        said = f"{playbook.id} is in mode {mode} for {run}"
        self._executor.end(asked.key, "done", detail=said)

    def keep(self, asked: Submission) -> None:
        """Give the standing order that says how many complete checkpoints of a run stay on the
        disk. In `asked.body`, `run` is the run's name and `last` the number; if `off` is true, the
        order is taken back instead. Old checkpoints are removed by this order from now on, also
        after a restart of the agent. Raises UnknownRun, or BadRequest if the body is malformed; see
        `checkpoints.orders.order_fields` for its other fields. Raises SpoolFull if the journal has
        no room.
        """
        from bs4_common.checkpoints import orders  # the idle daemon has no order

        run, fields = self._run(asked), orders.order_fields(asked.body)
        self._executor.accept(asked, run)
        self._executor.book("order", sync=True, run=run, who=asked.who, **fields)
        said = f"nothing of {run} is freed any more"
        if fields["last"]:
            said = f"the {fields['last']} newest complete checkpoints of {run} stay"
        self._executor.end(asked.key, "done", detail=said)
        self.on_keep()

    def sync(self, asked: Submission) -> None:
        """Give the standing order that a run's checkpoints are copied to an object store. In
        `asked.body`, `run` is the run's name and `to` the place in the store; if `off` is true, the
        order is taken back instead. The agent follows the order from now on, also after a restart.
        If no key of the store can be used on this pod, the order waits for one, and `waits` in the
        action's result says why.
        Raises UnknownRun, BadRequest if the body is malformed, or Refused if `to` contains the
        marker that screens and records show in place of a secret. See
        `checkpoints.sync_order.order_fields` for the other fields. Raises SpoolFull if the journal
        has no room.
        """
        from bs4_agent.checkpoints import sync_order  # loaded only for those who sync

        run, fields = self._run(asked), sync_order.order_fields(asked.body)
        self._executor.accept(asked, run)
        self._executor.book("sync", sync=True, run=run, event="ordered", who=asked.who, **fields)
        to = fields["to"]
        if not to:
            self._executor.end(asked.key, "done", detail=f"{run} is not synced any more")
        elif waits := self._waits_for_key():
            said = f"the order to copy {run} to {to} stands, and waits. {waits}"
            self._executor.end(asked.key, "done", detail=said, result={"waits": waits})
        else:
            said = f"the checkpoints of {run} are copied to {to} from now on"
            self._executor.end(asked.key, "done", detail=said)
        self.on_sync()

    def _waits_for_key(self) -> str:
        """Return why no key of the object store can be used on this pod, or "" if there is one."""
        from bs4_agent.setup import credentials  # loaded only for those who sync

        try:
            credentials.store_key(self._pod.runs.home)
        except AgentError as error:
            return error.message
        return ""

    def note(self, asked: Submission) -> None:
        """Write the text `asked.body["text"]` into the journal as a person's note about the run
        `asked.body["run"]`. Only its first 2,000 characters are kept. A note may have two numbers
        for the checklist that a console shows for a run: `checklist_every` (after how many training
        steps the console asks a person to go through it, 0: never) and `checklist_step` (the
        training step for which the person has gone through it). Raises UnknownRun, or BadRequest if
        one of the two is not an integer from 0 on. Raises SpoolFull if the journal has no room.
        """
        run, text = self._run(asked), str(asked.body.get("text", ""))[:2000]
        steps: dict[str, Any] = {}
        for name in ("checklist_every", "checklist_step"):
            if (value := asked.body.get(name)) is not None:
                if type(value) is not int or value < 0:
                    raise BadRequest(f"`{name}` is a number of steps; give one, from 0 on.")
                steps[name] = value
        self._executor.accept(asked, run)
        self._executor.book("note", run=run, text=text, who=asked.who, **steps)
        self._executor.end(asked.key, "done")

    def _run(self, asked: Submission) -> str:
        """Return the name of the body's run. Raises UnknownRun."""
        return self._pod.runs.get(str(asked.body.get("run"))).name
