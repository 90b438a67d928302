"""A log that flows by leaves the process no larger than the window it keeps: measured in a process
of its own. And a screen that was left leaves nothing of what it painted.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import Any

import pytest
from textual._styles_cache import StylesCache

from bs4_console.tui.app import ConsoleApp
from tests.console.tui import fixtures
from tests.console.tui.driving import drive

PROGRAM = """
import os, random
from pathlib import Path
from bs4_console.logs.store import LogStore
from bs4_console.tui import memory
if {settled}: memory.settle()
stores, chance = [LogStore(16 << 20), LogStore(16 << 20)], random.Random(1)
line = b"12:00:00    INFO rollout 12345 of the flood is done: reward 0.3603, 512 tokens\\n"
data, sizes, fed = line * 4000, [], 0
while fed < 120e6:
    for store in stores:
        piece = data[: chance.randint(50_000, 262_144)]
        store.append(piece, 0, f"1:{{fed}}")
        fed += len(piece)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    sizes.append(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)
print(max(sizes[len(sizes) // 3 :]), sum(store.bytes for store in stores) / 1e6)
"""


def largest(*, settled: bool) -> tuple[float, float]:
    """(megabytes that the process held at most once both windows were full, megabytes of the
    windows).
    """
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(settled=settled)],
        check=True,
        capture_output=True,
        text=True,
    )
    resident, window = map(float, done.stdout.split())
    return resident, window


@pytest.mark.skipif(
    sys.platform != "linux", reason="reads /proc, and it is glibc's habit that is broken"
)
def test_what_a_log_leaves_behind_is_given_back() -> None:
    settled, window = largest(settled=True)
    as_it_was, _ = largest(settled=False)
    assert settled < as_it_was, "glibc has changed its ways: memory.settle does nothing any more"
    assert settled - window < 50, "Python, the console's modules and one block of each log"


PAINTING = """
import gc
from collections import deque
from rich.segment import Segment
from textual.strip import Strip
from bs4_console.tui import memory
if {settled}: memory.settle()
before, shown = gc.get_stats()[2]["collections"], deque(maxlen=400)
for _ in range(30_000):
    strip = Strip([Segment("x" * 80)])
    strip.divide([80])
    shown.append(strip)
print(gc.get_stats()[2]["collections"] - before)
"""


def walks(*, settled: bool) -> int:
    """How often the collector has walked through all that is not frozen, while lines were
    painted.
    """
    done = subprocess.run(
        [sys.executable, "-c", PAINTING.format(settled=settled)],
        check=True,
        capture_output=True,
        text=True,
    )
    return int(done.stdout)


def test_what_is_painted_is_collected_young() -> None:
    as_it_was, settled = walks(settled=False), walks(settled=True)
    assert as_it_was > 4, (
        "Textual's strips no longer keep themselves: memory.COLLECTED has no reason any more"
    )
    assert settled <= as_it_was / 2


async def test_of_a_screen_that_was_left_nothing_is_kept() -> None:
    session = fixtures.healthy()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    there_and_back = ("colon", "escape", "question_mark", "escape")

    def kept() -> tuple[int, int]:
        """(widgets of which what they painted is kept, finds by name that are remembered)."""
        gc.collect()
        painted = sum(isinstance(found, StylesCache) for found in gc.get_objects())
        return painted, sum(
            len(node._query_one_cache) for node in (app.screen, *app.screen.query("*"))
        )

    async with app.run_test(size=(100, 30)) as pilot:
        await drive(pilot, [session], there_and_back)
        painted, found = kept()
        await drive(pilot, [session], there_and_back * 4)
        painted_now, found_now = kept()
        assert painted_now <= painted, "the widgets of a help screen that is gone are kept"
        assert found_now <= 2 * found, "each opening of a prompt is remembered"
