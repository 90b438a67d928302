"""Accepting what stays in force: modes of playbooks, orders for checkpoints, and notes. Nothing
happens at once, so no run is held.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bs4_agent.actions.executor import ActionExecutor
from bs4_agent.pod import Pod
from bs4_common.errors import BadRequest, Refused
from bs4_common.failures.compiled import Library

MODES = ("observe", "ask", "auto")


class Orders:
    """Accepts settings that stay in force: the modes of playbooks and the standing orders (how many
    checkpoints of a run stay on the disk, and to which object store they are copied). It also
    accepts a person's notes. There is one such object for a pod. The attributes `on_keep` and
    `on_sync` are functions that are called after an order to keep or to copy checkpoints was given
    or taken back.
    """

    def __init__(self, executor: ActionExecutor, pod: Pod, library: Library) -> None:
        self._executor, self._pod, self._library = executor, pod, library
        self.on_keep: Callable[[], None] = lambda: None
        self.on_sync: Callable[[], None] = lambda: None

    def mode(self, key: str, body: Mapping[str, Any], who: str, payload: bytes) -> None:
        """Set the mode (observe, ask or auto) in which the playbook `body["playbook"]` acts for the
        run `body["run"]`, as the action `key` that the person `who` has submitted. `payload` is not
        used. Raises UnknownRun or UnknownPlaybook if there is no such run or playbook, BadRequest
        for another mode, and Refused for `auto` if this playbook must not be carried out before a
        person has looked.
        """
        run, playbook = self._run(body), self._library.get(str(body.get("playbook")))
        mode = body.get("mode")
        if mode not in MODES:
            raise BadRequest(f"{mode!r} is no mode; choose {', '.join(MODES)}.")
        if mode == "auto" and not playbook.automatic:
            raise Refused(
                f"{playbook.id} is never automatic: a person must look first. Choose ask."
            )
        self._executor.accept(key, body, who, run)
        self._executor.book("mode", sync=True, run=run, playbook=playbook.id, mode=mode, who=who)
        self._executor.event(key, run, "done", detail=f"{playbook.id} is in mode {mode} for {run}")

    def keep(self, key: str, body: Mapping[str, Any], who: str, payload: bytes) -> None:
        """Give the standing order how many complete checkpoints of the run `body["run"]` stay on
        the disk (`body["last"]`), or take the order back if `body["off"]` is true. `key` is the
        action's key, and `who` the person. From now on the agent removes older checkpoints by this
        order, also after it was restarted. `payload` is not used. Raises UnknownRun if there is no
        such run, or BadRequest if `body` is malformed; `checkpoints.orders.order_fields` describes
        its other fields.
        """
        from bs4_common.checkpoints import orders  # the idle daemon has no order

        run, fields = self._run(body), orders.order_fields(body)
        self._executor.accept(key, body, who, run)
        self._executor.book("order", sync=True, run=run, who=who, **fields)
        said = f"nothing of {run} is freed any more"
        if fields["last"]:
            said = f"the {fields['last']} newest complete checkpoints of {run} stay"
        self._executor.event(key, run, "done", detail=said)
        self.on_keep()

    def sync(self, key: str, body: Mapping[str, Any], who: str, payload: bytes) -> None:
        """Give the standing order that the checkpoints of the run `body["run"]` are copied to the
        place `body["to"]` in an object store, or take the order back if `body["off"]` is true.
        `key` is the action's key, and `who` the person. The agent follows the order from now on,
        also after it was restarted. `payload` is not used. Raises UnknownRun if there is no such
        run, or BadRequest if `body` is malformed; `checkpoints.sync_order.order_fields` describes
        its other fields.
        """
        from bs4_agent.checkpoints import sync_order  # loaded only for those who sync

        run, fields = self._run(body), sync_order.order_fields(body)
        self._executor.accept(key, body, who, run)
        self._executor.book("sync", sync=True, run=run, event="ordered", who=who, **fields)
        to = fields["to"]
        said = f"{run} is synced to {to}" if to else f"{run} is not synced any more"
        self._executor.event(key, run, "done", detail=said)
        self.on_sync()

    def note(self, key: str, body: Mapping[str, Any], who: str, payload: bytes) -> None:
        """Write the text `body["text"]` into the journal as a note of the person `who` about the
        run `body["run"]`. `key` is the action's key. Text after the first 2,000 characters is left
        out. `payload` is not used. Raises UnknownRun if there is no such run.
        """
        run, text = self._run(body), str(body.get("text", ""))[:2000]
        self._executor.accept(key, body, who, run)
        self._executor.book("note", run=run, text=text, who=who)
        self._executor.event(key, run, "done")

    def _run(self, body: Mapping[str, Any]) -> str:
        """Return the name of the body's run. Raises UnknownRun."""
        return self._pod.runs.get(str(body.get("run"))).name
