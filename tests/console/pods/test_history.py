"""Telemetry out of the kept segments: the nearest record, a stretch thinned out, holes and torn
ends passed over.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from bs4_console.pods.history import History
from bs4_console.pods.mirror import Mirror

T = 1_795_000_000.0
#: Seconds a segment, and how many segments.
EACH, SEGMENTS = 250, 12


def line(t: float, **more: Any) -> bytes:
    device = {"index": 0, "util": int(t - T) % 100, **more}
    return (
        json.dumps(
            {"t": t, "m": 1.0, "b": "x", "gpus": {"devices": [device]}}, separators=(",", ":")
        ).encode()
        + b"\n"
    )


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    made = Mirror(tmp_path / "m")
    made.use("home1")
    for number in range(SEGMENTS):
        made.keep(
            "telemetry",
            f"{number + 1}:0",
            b"".join(line(T + number * EACH + i) for i in range(EACH)),
        )
    return made


def history(mirror: Mirror) -> History:
    directory = mirror.directory("telemetry")
    assert directory is not None
    return History(directory)


@pytest.mark.parametrize(
    ("asked", "given"),
    [(0.0, 0), (249.6, 250), (1234.4, 1234), (2999.0, 2999), (3003.0, 2999), (-4.0, 0)],
)
def test_the_nearest(mirror: Mirror, asked: float, given: int) -> None:
    found = history(mirror).near(T + asked)
    assert found is not None
    assert found["t"] == T + given


@pytest.mark.parametrize("asked", [-6.0, 3005.0, 90_000.0])
def test_nothing_is_near(mirror: Mirror, asked: float) -> None:
    assert history(mirror).near(T + asked) is None


def test_a_stretch_is_thinned_out_evenly(mirror: Mirror) -> None:
    found = [record["t"] - T for record in history(mirror).between(T + 100, T + 2900, 120)]
    assert 60 <= len(found) <= 120
    assert found == sorted(set(found))
    assert found[0] < 160
    assert found[-1] > 2840
    assert max(b - a for a, b in itertools.pairwise(found)) < 90


def test_a_short_stretch_comes_whole(mirror: Mirror) -> None:
    found = history(mirror).between(T + 240, T + 260, 6000)
    assert [record["t"] - T for record in found] == list(range(240, 261))


def test_holes_and_torn_ends_are_passed_over(mirror: Mirror) -> None:
    at = 4096 * 5 + 17
    mirror.keep(
        "telemetry", f"{SEGMENTS + 1}:{at}", line(T + 5000) + line(T + 5001) + line(T + 5002)[:30]
    )
    then = history(mirror)
    found = then.near(T + 5001.2)
    assert found is not None
    assert found["t"] == T + 5001
    assert [record["t"] - T for record in then.between(T + 4000, T + 6000, 50)] == [5000, 5001]
    kept = line(T + 7000)
    mirror.keep("telemetry", f"{SEGMENTS + 2}:0", kept)
    mirror.keep("telemetry", f"{SEGMENTS + 2}:{4096 * 40}", line(T + 7100))
    assert [record["t"] - T for record in then.between(T + 6000, T + 8000, 50)] == [7000, 7100], (
        "over the hole between them"
    )


def test_links_are_those_told_before(mirror: Mirror) -> None:
    told = line(T + 8000, pcie={"width": 8}) + b"".join(line(T + 8000 + i) for i in range(1, 100))
    mirror.keep("telemetry", "99:0", told)
    then = history(mirror)
    assert [
        (then.near(T + t) or {})["gpus"]["devices"][0].get("pcie") for t in (8000, 8030, 8090)
    ] == [{"width": 8}, {"width": 8}, None]


def test_nothing_was_kept(tmp_path: Path) -> None:
    nothing = History(tmp_path / "none")
    assert nothing.near(T) is None
    assert nothing.between(T, T + 10, 5) == []


def test_a_file_that_went_for_newer_ones_is_no_fault(mirror: Mirror) -> None:
    then = history(mirror)
    assert then.near(T + 10) is not None
    directory = mirror.directory("telemetry")
    assert directory is not None
    listed = then._files()
    (directory / "1.data").unlink()
    then._files = lambda: listed  # type: ignore[method-assign]
    assert then.near(T + 10) is None
    assert then.between(T, T + 255, 500)[0]["t"] - T == 250


def test_a_record_that_no_agent_writes_is_passed_over(tmp_path: Path) -> None:
    made = Mirror(tmp_path / "m")
    made.use("home1")
    odd = b'{"t":%d,"m":1.0,"b":"x","gpus":{"devices":["none"]}}\n' % (T + 1)
    made.keep("telemetry", "1:0", line(T) + odd + line(T + 2))
    assert [record["t"] - T for record in history(made).between(T, T + 2, 100)] == [0, 2]
    found = history(made).near(T + 1.2)
    assert found is not None
    assert found["t"] == T + 2
