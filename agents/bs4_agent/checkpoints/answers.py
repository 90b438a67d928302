"""The agent's answers to queries about checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bs4_common.checkpoints.orders import Order
from bs4_common.checkpoints.report import CheckpointReport, report
from bs4_common.errors import BadRequest

if TYPE_CHECKING:
    from bs4_agent.pod import Pod

#: The most sets in one answer: a frame's header holds 64 KiB, and a set with four parts takes about
#: 1 KiB.
_PAGE = 40


def answer(pod: Pod, op: str, arguments: Mapping[str, Any]) -> CheckpointReport:
    """Answer a console's query `checkpoints` about one run. The only value of `op` is "list".
    `arguments` has the keys `run` (a name) and `after` (a step number; the answer begins with the
    next newer step). Return one page of the report that `bs4_common.checkpoints.report` makes, with
    40 checkpoints at most. Its `next` has the arguments for the next page, or is None. Raises
    BadRequest if `op` or `after` is malformed. Raises UnknownRun if there is no such run.
    """
    if op != "list":
        raise BadRequest(f"{op[:40]!r} is no question about checkpoints; ask list.")
    after = arguments.get("after", -1)
    if type(after) is not int:
        raise BadRequest("list takes `after`, a step.")
    run = pod.runs.get(str(arguments.get("run")))
    trainer, attempt = pod.runs.trainer(run), run.attempt
    view = pod.book.ledger
    found = report(
        trainer,
        run.spec,
        argv=tuple(attempt.argv) if attempt is not None else (),
        order=Order.of(view.orders.get(run.name)),
        live=run.live,
        step_s=pod.follower.recent(run.name).median_step_s(),
    )
    rest = [one for one in found["checkpoints"] if one["step"] > after]
    found["guard"], found["checkpoints"], found["next"] = None, rest[:_PAGE], None
    if (said := view.guard.get(run.name)) is not None:
        found["guard"] = {"event": said["event"], "detail": said.get("detail"), "t": said.get("t")}
    if len(rest) > _PAGE:
        found["next"] = {"run": run.name, "after": rest[_PAGE - 1]["step"]}
    return found
