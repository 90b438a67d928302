"""What became of a pod that does not answer: the verdict, its evidence, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bs4_console.pods import placed_keys
from bs4_console.tui import formatting, status
from bs4_console.tui.styled_text import Line, fold, hanging, width_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bs4_console.pods.liveness import Sign
    from bs4_console.pods.state import PodState
    from bs4_console.tui.clock import Clock

#: The names of a sign's sources on the screen.
SOURCES = {
    "ssh": "link",
    "port": "its port",
    "network": "network here",
    "provider": "provider",
    "wandb": "W&B",
    "store": "store",
    "boot": "boot id",
    "run": "the run",
}
_UNKNOWN = status.Status(0, "?", "not known yet", "warn")
#: Cells before the text on the pod's page.
INDENT = 7


def lines(pod: PodState, clock: Clock, keys: Mapping[str, str], width: int) -> list[Line]:
    """Return what became of a pod that does not answer or has rebooted, in lines of at most `width`
    cells: the verdict (such as "reclaimed"), the observations from which it follows, what to do
    next, and, while the link is down, the key that reconnects. `keys` maps the ids of commands to
    their keys. The result is empty if there is no verdict.
    """
    verdict = pod.lost
    if verdict is None:
        return []
    how = status.lost(pod) or _UNKNOWN
    begin = f"{how.sign} {how.word}: "
    first, *rest = fold(begin + verdict.sentence, width - INDENT)
    shown: list[Line] = [[(begin, how.role), (first[0][0].removeprefix(begin), "")], *rest]
    found = [*hanging([(" what  ", "head")], shown)]
    told: set[str] = set()
    for number, seen in enumerate(verdict.evidence):
        found += _sign(
            seen, "" if seen.detail in told else seen.detail, clock, width, first=number == 0
        )
        told.add(seen.detail)
    if verdict.next_step:
        for i, line in enumerate(fold(verdict.next_step, width - INDENT, "bold")):
            found.append([(" next  " if i == 0 else " " * INDENT, "head"), *line])
    if verdict.lost:
        found += _elsewhere(pod, width)
        sentence = placed_keys.rotation(pod.name, placed_keys.placed(pod.ledger))
        found += hanging([(" " * INDENT, "")], fold(sentence, width - INDENT, "warn"))
    if status.link_down(pod):
        found.append(
            [(" " * INDENT, ""), (keys["retry"], "key @retry"), (" reconnect now", "@retry")]
        )
    return found


def _sign(seen: Sign, detail: str, clock: Clock, width: int, *, first: bool) -> list[Line]:
    """Return one sign, for example "03:10:21  provider  stopped: vast says that machine 4711 is
    outbid".
    """
    at = formatting.of_day(clock.wall_of(seen.t), seconds=True)
    source = SOURCES.get(seen.source, seen.source)
    told = seen.value[:8] if seen.source == "boot" else seen.word
    head: Line = [
        (" signs " if first else " " * INDENT, "head"),
        (f"{at}  ", "dim"),
        (f"{source:<12} ", "accent"),
        (told, "bold"),
    ]
    if not detail:
        return [head]
    beside: Line = [*head, (f"  {detail}", "dim")]
    if width_of(beside) <= width:
        return [beside]
    return [head, *fold(detail, width, "dim", INDENT + 10)]


def _elsewhere(pod: PodState, width: int) -> list[Line]:
    """Return the commands that continue the pod's runs on another machine."""
    found: list[Line] = []
    for name, sync in pod.ledger.syncs.items():
        if name in pod.runs and sync.pointer is not None and sync.place:
            command = (
                f"bs4-console checkpoints restore --pod NEW --run {name} --from {sync.place} "
                "--launch"
            )
            head: Line = [(" " * INDENT, ""), ("$ ", "dim")]
            found += hanging(head, fold(command, width - INDENT - 2, "accent"))
    if not found:
        there = "it goes on only if the pod comes back"
        if pod.lost is not None and pod.lost.word == "ended":
            there = "what was on its disk is gone with it"
        found.append(
            [(" " * INDENT, ""), (f"No run of it was synced to a store: {there}.", "warn")]
        )
    return found
