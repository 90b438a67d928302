"""Every kind of fault, and the drawing of those of a round."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bs4_practice import limits
from tests.chaos import faults, records, staged
from tests.chaos.world import Kind, NotMet, World

KINDS = (
    Kind("link-cut", faults.cut),
    Kind("link-flapping", faults.flap),
    Kind("packets-lost", faults.lose_packets),
    Kind("delay-and-stalls", faults.delay),
    Kind("half-open", faults.half_open),
    Kind("cut-in-frame", faults.cut_in_frame),
    Kind("sshd-killed", faults.kill_sshd, lasts=False),
    Kind("max-sessions-1", faults.one_session),
    Kind("agent-killed", faults.kill_agent),
    Kind("console-killed", faults.kill_console),
    Kind("pod-frozen", faults.freeze),
    Kind("disk-full", faults.fill_disk),
    Kind("clock-jump", faults.jump_clock, group="clock"),
    Kind("log-truncated", faults.truncate, lasts=False, group="log", most=2),
    Kind("log-rotated", faults.rotate, lasts=False, group="log", most=2),
    Kind("log-deleted", faults.delete, lasts=False, group="log", most=2),
    Kind("hostile-lines", faults.say_nonsense, lasts=False),
    staged.POD_KILLED,
    staged.UPGRADE,
    staged.PLAN,
    staged.PID_REUSED,
    staged.OOM,
    records.HOSTILE_RECORDS,
)
#: While one of these is in effect, the answer to a submission may be lost.
LINK_KINDS = ("half-open", "cut-in-frame", "link-cut", "link-flapping", "sshd-killed")

LOG_KINDS = ("log-truncated", "log-rotated", "log-deleted")
#: The share of rounds that have two of them on purpose. By chance one in fifteen has.
TWO_LOG_KINDS = 0.08


def not_possible() -> dict[str, str]:
    """Return the kinds that are not possible on this machine, each with the reason."""
    found = {}
    if shutil.which("cc") is None:
        for name in ("clock-jump", staged.PLAN.name):
            found[name] = "there is no C compiler"
    if reason := limits.needs_memory_groups():
        found[staged.OOM.name] = reason
    return found


@dataclass(frozen=True)
class Drawn:
    """A fault of a round: it begins `at` seconds after the start and lasts for `seconds`."""

    kind: Kind
    at: float
    seconds: float


def draw(rng: random.Random, always: tuple[str, ...] = ()) -> list[Drawn]:
    """Return three to five faults that all are in effect around the same moment, in the order of
    their beginnings. `always` names kinds that are among them.
    """
    without = not_possible()
    possible = [kind for kind in KINDS if kind.name not in without]
    rng.shuffle(possible)
    first = set(always)
    if rng.random() < TWO_LOG_KINDS:
        first |= set(rng.sample(LOG_KINDS, 2))
    possible.sort(key=lambda kind: kind.name not in first)
    count = max(rng.randint(3, 5), len(first))
    moment, found = rng.uniform(5.0, 8.0), []
    groups: Counter[str] = Counter()
    for kind in possible:
        if len(found) == count:
            break
        if kind.group and groups[kind.group] == kind.most:
            continue
        groups[kind.group] += 1
        if kind.lasts:
            at = moment - rng.uniform(0.5, 3.0)
            seconds = moment - at + rng.uniform(1.0, 9.0)
        else:
            at, seconds = moment + rng.uniform(-0.5, 1.0), 0.0
        found.append(Drawn(kind, at, seconds))
    return sorted(found, key=lambda drawn: drawn.at)


@contextmanager
def noted(world: World, name: str) -> Iterator[None]:
    """Count a fault that was done, or note why it could not be done."""
    try:
        yield
    except NotMet as reason:
        world.unmet.append(f"{name}: {reason}")
        return
    world.met.append(name)
