"""Read the standing orders of a run as data, and repeat them on another pod. A standing order is
what a person wants done for a run until further notice: checkpoints synced to an object store
(sync), only the newest ones kept (keep), the mode of a playbook (mode), and further arguments of
its launch (launch).

A new machine knows nothing of them. Without them, the checkpoints of a run that goes on there would
no longer be saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypedDict

from bs4_common.checkpoints.launch_record import without_keys
from bs4_common.checkpoints.sync_view import SyncRecord
from bs4_console.errors import RemoteError
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import PodState
from bs4_console.printable import one_line

_LAUNCH = "launch"

_SYNC = ("to", "every", "milestones", "keep_remote", "limit_mib", "weights")
_KEEP = ("last", "at_least", "milestones", "synced", "best")


class Order(TypedDict, total=False):
    """A standing order: what a person wants done for a run until further notice. `kind` says what
    it is about, and decides which of the other fields it has: "sync" (checkpoints are copied to an
    object store), "keep" (only some stay on the pod's disk), "mode" (what a playbook may do by
    itself) or "launch" (further arguments of the run). An order that was taken back has only `kind`
    and `off`.
    """

    kind: Literal["sync", "keep", "mode", "launch"]
    off: bool
    """True if the order was taken back."""
    to: str
    """sync: the place in the object store, such as b2://BUCKET/PREFIX."""
    every: int
    """sync: steps that are a multiple of it are copied."""
    milestones: int
    """sync and keep: steps that are a multiple of it are never deleted."""
    keep_remote: int
    """sync: how many steps stay in the object store."""
    limit_mib: float
    """sync: the most MiB a second that may be sent."""
    weights: bool
    """sync: True if weights that no resume needs are copied too."""
    last: int
    """keep: how many of the newest complete checkpoints stay on the disk."""
    at_least: int
    """keep: how many of them stay if the disk has no room for the next checkpoint."""
    synced: bool
    """keep: True if a checkpoint is deleted only once it was verified in the object store."""
    best: str
    """keep: a metric, such as "reward"; the checkpoint with its best value stays too."""
    playbook: str
    """mode: the id of the playbook, the file that describes a failure and its repair."""
    mode: str
    """mode: "observe" (only show), "ask" (plan a repair and wait for a person) or "auto" (repair).
    """
    overrides: Sequence[str]
    """launch: further command-line arguments of the run. They are needed for a step that was saved
    without them; a step in the object store usually has them itself.
    """


def newest_pod(pods: Iterable[PodState], run: str, place: str) -> PodState | None:
    """Return the one of `pods` on which the run `run` began last, or None if none of them is known
    to have had it. Only a pod that has copied the run's checkpoints to `place`, such as
    b2://BUCKET/PREFIX, counts, because a run of the same name elsewhere may be another one.
    """
    found, latest = None, -1.0
    for state in pods:
        known, view = state.runs.get(run), state.ledger.syncs.get(run)
        if known is None or view is None or view.place.rstrip("/") != place.rstrip("/"):
            continue
        began = max((one.started_t for one in known.view.attempts.values()), default=0.0)
        if began > latest:
            found, latest = state, began
    return found


def orders_of(state: PodState, run: str) -> tuple[Order, ...]:
    """Return the standing orders of `run`, which are what a person wants done for it until further
    notice, as the pod's journal (the agent's log of actions and incidents) has them. Return () if
    there are none. `kind` says what an order is about ("sync": checkpoints go to an object store,
    "keep": only some stay on the disk, "mode": what a playbook may do by itself, "launch": further
    launch arguments).
    """
    ledger = state.ledger
    found: list[Order] = []
    if (view := ledger.syncs.get(run)) is not None and view.order:
        found.append(_order("sync", view.order, _SYNC))
    if (record := ledger.orders.get(run)) is not None:
        found.append(_order("keep", record, _KEEP))
    for (name, playbook), mode in sorted(ledger.modes.items()):
        if name == run:
            found.append({"kind": "mode", "playbook": playbook, "mode": mode})
    known = ledger.runs.get(run)
    if known is not None and known.attempt is not None and known.attempt.overrides:
        # The order is copied to the store, so a secret key in it must be removed.
        found.append({"kind": "launch", "overrides": without_keys(known.attempt.overrides)[0]})
    return tuple(found)


def described(state: PodState, run: str) -> list[str]:
    """Return the standing orders of `run` on the pod of `state` in words, a line each, such as
    "keep: last 3, best reward". Launch arguments and orders that were taken back are left out.
    """
    lines = []
    for order in orders_of(state, run):
        if order.get("off") or order["kind"] == _LAUNCH:
            continue
        settings = []
        for name, value in order.items():
            if name != "kind" and value is True:
                settings.append(name)
            elif name != "kind" and value:
                settings.append(f"{name.replace('_', '-')} {value}")
        lines.append(one_line(f"{order['kind']}: {', '.join(settings)}"))
    return lines


def overrides(orders: Sequence[Order]) -> tuple[str, ...]:
    """Return the further command-line arguments with which the run was launched, as `orders` (the
    result of `orders_of`) hold them, or () if they hold none.
    """
    for order in orders:
        if order["kind"] == _LAUNCH:
            return tuple(order["overrides"])
    return ()


def with_sync(orders: Sequence[Order], store: str) -> tuple[Order, ...]:
    """Return the standing orders of a run (what a person wants done for it until further notice)
    with one more at their start: to copy its checkpoints to the object store `store`, an address
    like b2://BUCKET/PREFIX. If `orders` contain an order of the kind "sync" already, even one that
    was taken back, they are returned unchanged.
    """
    if any(order["kind"] == "sync" for order in orders):
        return tuple(orders)
    return ({"kind": "sync", "to": store}, *orders)


async def renew(live: PodSession, run: str, orders: Sequence[Order]) -> dict[str, str]:
    """Give a run on the pod of `live` the standing orders (what a person wants done for it until
    further notice) that it had on another pod. `orders` are the result of `orders_of` there. Launch
    arguments, orders that were taken back, and orders that are in force on this pod already are
    left out. Return {kind of an order: the pod's reason} for the orders that the pod refused, where
    the kind is sync, keep or mode; it is empty if none was refused. Raises RefusedError if the pod
    is read-only for this console, and Unreachable if there is no link.
    """
    refused: dict[str, str] = {}
    for order in orders:
        if order.get("off") or order["kind"] == _LAUNCH or _stands(live.state, run, order):
            continue
        kind = order["kind"]
        body: dict[str, Any] = {name: value for name, value in order.items() if name != "kind"}
        try:
            key = await live.submit(kind, run=run, **body)
        except RemoteError as error:
            refused[kind] = error.message
            continue
        async for action in live.follow_action(key):
            if action.ended and action.state != "done":
                refused[kind] = action.detail
    return refused


def _order(kind: Literal["sync", "keep"], record: SyncRecord, names: Sequence[str]) -> Order:
    """Return an order from its record. Without a value for the first of `names` the order does not
    stand any more, and `off` is True.
    """
    if record.get(names[0]) is None or record.get("once"):
        return {"kind": kind, "off": True}
    order: Any = {"kind": kind}
    for name in names:
        if (value := record.get(name)) is not None:
            order[name] = value
    standing: Order = order
    return standing


def _stands(state: PodState, run: str, order: Order) -> bool:
    for one in orders_of(state, run):
        if all(one.get(name) == value for name, value in order.items()):
            return True
    return False
