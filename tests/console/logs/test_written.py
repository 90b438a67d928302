"""When a line was written, told by asking an agent for times: to the second of the line's own
clock, whatever the pod's time zone.
"""

from __future__ import annotations

from typing import Any

import pytest

from bs4_console.logs.pages import LogPages
from bs4_console.logs.written import written_at

BEGIN = 1_795_000_000.0
#: A line of ten bytes every 7.3 s for a day.
PACE = 7.3


class Pod:
    """Knows how long its log was when, as an agent's trail does."""

    def __init__(self) -> None:
        self.asked = 0

    async def read_log(
        self,
        stream: str,
        cursor: str,
        limit: int = 0,
        wait: float = 0.0,
        *,
        seen: int = 0,
        ahead: bool = False,
    ) -> Any:
        raise NotImplementedError

    async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        assert op == "seek-time"
        self.asked += 1
        lines = int((parameters["t"] - BEGIN) / PACE)
        return {"cursor": f"1:{max(0, lines) * 10}", "next": None}


@pytest.mark.parametrize("zone", [0, 3600, -5 * 3600, 19_800, 20_700])
@pytest.mark.parametrize("line", [0, 1, 4711, 11_000])
async def test_to_the_second(zone: int, line: int) -> None:
    pod = Pod()
    wrote = BEGIN + line * PACE
    clock = int(wrote + zone) % 86400
    found = await written_at(
        LogPages(pod, lambda: None), "log/r/trainer", f"1:{line * 10}", clock, BEGIN, BEGIN + 86400
    )
    assert abs(found - int(wrote)) < 0.001
    assert pod.asked <= 24


async def test_a_line_without_a_clock_is_told_about() -> None:
    found = await written_at(
        LogPages(Pod(), lambda: None), "log/r/inference", "1:1000", None, BEGIN, BEGIN + 86400
    )
    assert abs(found - (BEGIN + 100 * PACE)) <= PACE + 1
