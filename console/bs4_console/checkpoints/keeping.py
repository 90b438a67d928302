"""What a new retention order would delete, as a plan that a person confirms before it is given."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from bs4_common.checkpoints.best import Quality
from bs4_common.checkpoints.orders import Order, order_fields
from bs4_common.checkpoints.report import CheckpointReport, CheckpointRow, OrderRow
from bs4_common.errors import BadRequest
from bs4_console.checkpoints import listing
from bs4_console.errors import UsageError
from bs4_console.pods.state import PodState

__all__ = ["KeepPlan", "Order", "frees_no_more", "order_of", "plan_of"]


@dataclass(frozen=True, kw_only=True)
class KeepPlan:
    """The plan of giving the retention `order` (a user's rule about which checkpoints stay) to the
    run `run`. `home` is the id of the agent's home directory on the run's pod.

    `free` has the checkpoints that the order deletes at once, and `free_if_full` those that it
    deletes besides while the next checkpoint does not fit on the disk. `best` is the step that
    stays because it is the best one, or None.
    """

    home: str
    run: str
    order: Order
    free: Sequence[CheckpointRow]
    free_if_full: Sequence[CheckpointRow]
    best: int | None

    @property
    def body(self) -> OrderRow:
        """Return the fields with which the order is submitted to the pod."""
        return {
            "last": self.order.last,
            "at_least": self.order.at_least,
            "milestones": self.order.milestones,
            "synced": self.order.synced,
            "best": self.order.best,
        }

    @property
    def hash(self) -> str:
        """Return the SHA-256 that identifies exactly this plan, in hex. A person confirms the plan
        by it.
        """
        shown = []
        for rows in (self.free, self.free_if_full):
            shown.append([[one["step"], one["complete"]] for one in rows])
        whole = {
            "home": self.home,
            "run": self.run,
            "order": self.body,
            "free": shown,
            "best": self.best,
        }
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def order_of(*, last: int, at_least: int | None, milestones: int, synced: bool, best: str) -> Order:
    """Return the retention order (a user's rule about which checkpoints of a run stay) with these
    fields; see Order for their meaning. If `at_least` is None, it is as `last`. Raises UsageError
    if a pod would not take the order.
    """
    asked = Order(
        last=last,
        at_least=last if at_least is None else at_least,
        milestones=milestones,
        synced=synced,
        best=best,
    )
    try:
        order_fields(dataclasses.asdict(asked))
    except BadRequest as error:
        raise UsageError(error.message) from error
    return asked


def plan_of(
    found: CheckpointReport, home: str, run: str, order: Order, judged: Quality | None
) -> KeepPlan:
    """Return the plan of giving a retention `order` (a user's rule about which checkpoints stay) to
    `run`. `found` is the run's checkpoint report and `home` the id of the agent's home directory.
    `judged` says how good the checkpoints are by the order's metric; it is None without a metric.
    """
    free = listing.freed_now(found, order.last, order.milestones, judged)
    least = listing.freed_now(found, order.at_least, order.milestones, judged)
    return KeepPlan(
        home=home,
        run=run,
        order=order,
        free=free,
        free_if_full=[one for one in least if one not in free],
        best=listing.best_of(judged),
    )


def frees_no_more(plan: KeepPlan, state: PodState) -> bool:
    """Return True if the order of `plan` permits to delete only what the run's retention order (a
    user's rule about which checkpoints stay) that is in force on the pod of `state` permits
    already. Return False if none is in force.
    """
    order, standing = plan.order, Order.of(state.ledger.orders.get(plan.run))
    if standing is None or order.last < standing.last or order.at_least < standing.at_least:
        return False
    if standing.milestones and (not order.milestones or standing.milestones % order.milestones):
        return False
    if standing.synced and not order.synced:
        return False
    return standing.best in ("", order.best)
