"""A user's retention order for one run: how many checkpoints stay, and that older ones may be freed
for good.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bs4_common.errors import BadRequest

if TYPE_CHECKING:
    from bs4_common.ledger import JournalRecord

#: The least number of complete sets that stay, whatever is ordered: the newest one may prove
#: unreadable when it is needed.
LEAST = 2
#: The most characters of a metric's name.
_LONGEST = 120


@dataclass(frozen=True)
class Order:
    """A retention order: which checkpoints of a run stay on the pod's disk.

    The newest `last` complete sets (a set is the files of one step) stay. While the next save does
    not fit on the disk, only `at_least` stay, which equals `last` unless the user allowed fewer.
    Steps that are a multiple of `milestones` stay too; 0 means no milestones. If `synced` is True,
    a complete set is removed only after it was verified in the object store. `who` is the person
    who gave the order, by their own statement. `best` names a metric, "reward" or a validation,
    whose best complete checkpoint stays as well; "" means none.
    """

    last: int
    at_least: int
    milestones: int = 0
    who: str = ""
    synced: bool = False
    best: str = ""

    @classmethod
    def of(cls, record: JournalRecord | None) -> Order | None:
        """Return the retention order (a rule about which checkpoints of a run stay on the pod's
        disk) that a record of the journal, the agent's log, gives. Return None if `record` is None,
        or if the record takes an earlier order back.
        """
        if record is None or (last := record.get("last")) is None:
            return None
        return cls(
            int(last),
            int(record["at_least"]),
            int(record.get("milestones") or 0),
            str(record.get("who", "")),
            bool(record.get("synced")),
            str(record.get("best") or ""),
        )

    def milestone(self, step: int) -> bool:
        """Return True if this training step is a multiple of `milestones`, so that its checkpoint
        is never removed.
        """
        return self.milestones > 0 and step > 0 and step % self.milestones == 0


def order_fields(body: Mapping[str, Any]) -> dict[str, int | bool | str | None]:
    """Check the body of an action that gives a retention order (a rule about which checkpoints of a
    run stay on the pod's disk) or takes one back. Return {name: value} with the fields of the
    record that the journal, the agent's log, gets for it. All values are None if the order is taken
    back. Raises BadRequest if the body is malformed.
    """
    if body.get("off"):
        return {"last": None, "at_least": None, "milestones": None, "synced": None, "best": None}
    last, milestones = body.get("last"), body.get("milestones") or 0
    if type(last) is not int or last < LEAST:
        raise BadRequest(
            f"keep takes `last`, a number of at least {LEAST}: the two newest complete "
            "checkpoints are never freed."
        )
    if type(milestones) is not int or milestones < 0:
        raise BadRequest("`milestones` is a number of steps; every multiple of it is kept.")
    least = body.get("at_least", last)
    if type(least) is not int or not LEAST <= least <= last:
        raise BadRequest(f"`at_least` is a number from {LEAST} to `last` ({last}).")
    synced = body.get("synced") or False
    if not isinstance(synced, bool):
        raise BadRequest(
            "`synced` is true or false: whether what goes must lie verified in the store."
        )
    best = body.get("best") or ""
    if not isinstance(best, str) or not best.isprintable() or len(best) > _LONGEST:
        raise BadRequest("`best` is the name of a metric: reward, or a validation of the run.")
    return {
        "last": last,
        "at_least": least,
        "milestones": milestones,
        "synced": synced,
        "best": best,
    }
