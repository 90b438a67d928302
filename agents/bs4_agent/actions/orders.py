"""Accepting what stays in force: modes of playbooks, orders for checkpoints, and notes. Nothing
happens at once, so no run is held.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bs4_agent.actions.executor import ActionExecutor
from bs4_agent.errors import BadRequest, Refused
from bs4_agent.playbooks.compiled import Library
from bs4_agent.pod import Pod

MODES = ("observe", "ask", "auto")


class Orders:
    """Accepts the modes of playbooks, the standing orders (how many checkpoints stay, where they
    are copied) and a person's notes; one per pod. The attributes `on_keep` and `on_sync` are
    functions that are called after an order to keep or to sync was given or taken back.
    """

    def __init__(self, executor: ActionExecutor, pod: Pod, library: Library) -> None:
        self._executor, self._pod, self._library = executor, pod, library
        self.on_keep: Callable[[], None] = lambda: None
        self.on_sync: Callable[[], None] = lambda: None

    def mode(self, key: str, body: Mapping[str, Any], who: str, payload: bytes) -> None:
        """Set the mode (observe, ask or auto) of the body's `playbook` for the body's `run`, on
        behalf of `who`. `payload` is not used. Raises UnknownRun or UnknownPlaybook, BadRequest for
        another mode, and Refused for `auto` if a person must look first before this playbook is
        carried out.
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
        the disk (`body["last"]`), or take the order back if `body["off"]` is true. Retention
        follows the order from now on, also after a restart of the agent. `payload` is not used.
        Raises UnknownRun, or BadRequest if `body` is malformed; see
        `checkpoints.orders.order_fields` for its other fields.
        """
        from bs4_agent.checkpoints import orders  # the idle daemon has no order

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
        place `body["to"]` in an object store, or take the order back if `body["off"]` is true. The
        agent follows the order from now on, also after a restart. `payload` is not used. Raises
        UnknownRun, or BadRequest if `body` is malformed; see `checkpoints.sync_order.order_fields`
        for its other fields.
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
        """Journal the body's `text` as a note of the person `who` about the body's `run`. Text
        after the first 2,000 characters is left out. `checklist_every` is after how many steps a
        console asks for the run's checklist (0: never), and `checklist_step` the step for which it
        was gone through; a note may have them. `payload` is not used. Raises UnknownRun, and
        BadRequest if one of the two is no number of steps.
        """
        run, text = self._run(body), str(body.get("text", ""))[:2000]
        steps: dict[str, Any] = {}
        for name in ("checklist_every", "checklist_step"):
            if (value := body.get(name)) is not None:
                if type(value) is not int or value < 0:
                    raise BadRequest(f"`{name}` is a number of steps; give one, from 0 on.")
                steps[name] = value
        self._executor.accept(key, body, who, run)
        self._executor.book("note", run=run, text=text, who=who, **steps)
        self._executor.event(key, run, "done")

    def _run(self, body: Mapping[str, Any]) -> str:
        """Return the name of the body's run. Raises UnknownRun."""
        return self._pod.runs.get(str(body.get("run"))).name
