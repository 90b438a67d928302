"""What was ordered for a run and stays in force on its pod (sync, keep-last, modes, arguments), as
data; and the same on another pod.

A new machine knows nothing of it: a run that goes on there would not be saved any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bs4_agent.checkpoints.launch_record import without_keys
from bs4_console.errors import RemoteError
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import PodState

#: An action's kind and body, as it is submitted, without the run; `off` where the order was taken
#: back. Of kind `launch`: `overrides`, the further arguments that the run was started with. A step
#: in the store has them itself; they are for one that was saved without.
Order = Mapping[str, Any]
_LAUNCH = "launch"

_SYNC = ("to", "every", "milestones", "keep_remote", "limit_mib", "weights")
_KEEP = ("last", "at_least", "milestones", "synced")


def of(state: PodState, run: str) -> tuple[dict[str, Any], ...]:
    """The run's orders on this pod."""
    ledger, found = state.ledger, []
    if (view := ledger.syncs.get(run)) is not None and view.order:
        found.append(_order("sync", view.order, _SYNC))
    if (record := ledger.orders.get(run)) is not None:
        found.append(_order("keep", record, _KEEP))
    for (name, playbook), mode in sorted(ledger.modes.items()):
        if name == run:
            found.append({"kind": "mode", "playbook": playbook, "mode": mode})
    known = ledger.runs.get(run)
    if known is not None and known.attempt is not None and known.attempt.overrides:
        # It goes to the store: a key in it would too.
        found.append({"kind": _LAUNCH, "overrides": without_keys(known.attempt.overrides)[0]})
    return tuple(found)


def overrides(orders: Sequence[Order]) -> tuple[str, ...]:
    """The further arguments for a launch of the run."""
    for order in orders:
        if order["kind"] == _LAUNCH:
            return tuple(order["overrides"])
    return ()


def with_sync(orders: Sequence[Order], store: str) -> tuple[Order, ...]:
    """`orders`; where none of them speaks of a sync, one to `store` is among them."""
    if any(order["kind"] == "sync" for order in orders):
        return tuple(orders)
    return ({"kind": "sync", "to": store}, *orders)


async def renew(live: PodSession, run: str, orders: Sequence[Order]) -> dict[str, str]:
    """Order on this pod what does not stand there yet. By kind, why the pod refused it."""
    refused: dict[str, str] = {}
    for order in orders:
        if order.get("off") or order["kind"] == _LAUNCH or _stands(live.state, run, order):
            continue
        kind = str(order["kind"])
        body = {}
        for name, value in order.items():
            if name != "kind":
                body[name] = value
        try:
            key = await live.submit(kind, run=run, **body)
        except RemoteError as error:
            refused[kind] = error.message
            continue
        async for action in live.follow_action(key):
            if action.ended and action.state != "done":
                refused[kind] = action.detail
    return refused


def _order(kind: str, record: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The first of `names` is the one without which an order stands no more."""
    if record.get(names[0]) is None or record.get("once"):
        return {"kind": kind, "off": True}
    return {"kind": kind, **{name: record[name] for name in names if record.get(name) is not None}}


def _stands(state: PodState, run: str, order: Order) -> bool:
    for one in of(state, run):
        if all(one.get(name) == value for name, value in order.items()):
            return True
    return False
