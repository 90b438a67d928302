"""A standing order to sync: where a run's checkpoints are copied to, how often, and what stays
there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bs4_common.checkpoints.remote.layout import Place
from bs4_common.checkpoints.sync_view import SyncRecord
from bs4_common.errors import BadRequest
from bs4_common.withheld import refuse_lost

_MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class SyncOrder:
    """A standing order to upload a run's checkpoints to an object store.

    `to` is the place in the store, such as b2://BUCKET/PREFIX. `every` is the least number of
    training steps between two uploads; with 0, each newest complete checkpoint is uploaded.
    Checkpoints of steps that are a multiple of `milestones` are uploaded and stay in the store.
    `keep_remote` is the number of complete checkpoints that stay there, or None if none is removed.
    `limit_mib` is the bandwidth limit in MiB/s, None for no limit. With `weights`, parts that no
    resume needs are uploaded too. With `once`, the order ends with the first upload. `who` is the
    person who gave the order, by their own statement.
    """

    to: str
    every: int = 0
    milestones: int = 0
    keep_remote: int | None = None
    limit_mib: float | None = None
    weights: bool = False
    once: bool = False
    who: str = ""

    @classmethod
    def of(cls, record: SyncRecord | None) -> SyncOrder | None:
        """Return the sync order (a standing order to upload a run's checkpoints to an object store)
        that a record of the journal gives. Return None if `record` is None, or if the record takes
        an earlier order back. Raises Refused if a secret in the store's address was replaced by a
        marker such as "[redacted]": the order would then be for another place than the one that a
        person named.
        """
        if record is None or not record.get("to"):
            return None
        refuse_lost(record["to"])
        limit, keep = record.get("limit_mib"), record.get("keep_remote")
        return cls(
            to=str(record["to"]),
            every=int(record.get("every") or 0),
            milestones=int(record.get("milestones") or 0),
            keep_remote=None if keep is None else int(keep),
            limit_mib=None if limit is None else float(limit),
            weights=bool(record.get("weights")),
            once=bool(record.get("once")),
            who=str(record.get("who", "")),
        )

    @property
    def rate(self) -> int | None:
        """Return the bandwidth limit in bytes per second, or None for no limit."""
        if self.limit_mib is None:
            return None
        return max(1, int(self.limit_mib * _MIB))

    def milestone(self, step: int) -> bool:
        """Return True if the checkpoint of training step `step` is uploaded and stays in the object
        store, because `step` is a multiple of `milestones`. The result is False for step 0, and for
        every step if `milestones` is 0.
        """
        return self.milestones > 0 and step > 0 and step % self.milestones == 0


def order_fields(body: Mapping[str, Any]) -> SyncRecord:
    """Check the body of an action that gives a sync order (a standing order to upload a run's
    checkpoints to an object store) or takes one back. Return the fields that the journal's record
    of the order gets; all are None if the order is taken back. Raises BadRequest if the body is
    malformed, and Refused if a secret in the store's address was replaced by a marker such as
    "[redacted]".
    """
    if body.get("off"):
        return {
            "to": None,
            "every": None,
            "milestones": None,
            "keep_remote": None,
            "limit_mib": None,
            "weights": None,
            "once": None,
        }
    refuse_lost(body.get("to"))
    to = str(Place.parse(str(body.get("to") or "")))
    every, milestones = body.get("every") or 0, body.get("milestones") or 0
    for name, value in (("every", every), ("milestones", milestones)):
        if type(value) is not int or value < 0:
            raise BadRequest(f"`{name}` is a number of steps; give 0 or more.")
    keep = body.get("keep_remote")
    if keep is not None and (type(keep) is not int or keep < 2):
        raise BadRequest(
            "`keep_remote` is a number of at least 2: the newest one may prove unreadable "
            "when it is needed."
        )
    limit = body.get("limit_mib")
    if limit is not None and (
        isinstance(limit, bool) or not isinstance(limit, (int, float)) or not 0 < limit < 100_000
    ):
        raise BadRequest("`limit_mib` is a bandwidth in MiB per second, more than 0.")
    return {
        "to": to,
        "every": every,
        "milestones": milestones,
        "keep_remote": keep,
        "limit_mib": limit,
        "weights": bool(body.get("weights")),
        "once": bool(body.get("once")),
    }
