"""A mirror opened without its pod: the same streams, the same questions, and nothing can be done to
it.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from bs4_console.errors import RefusedError, RemoteError
from bs4_console.pods.mirror import Mirror
from bs4_console.pods.recorded import RecordedSession
from bs4_practice import recording

LOG = [b"12:00:00 one\n12:00:01 two\n", b"12:00:02 three\nunfinished"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """What a console keeps, by the console's own mirror."""
    mirror = Mirror(tmp_path / "m")
    mirror.use("home1")
    journal = (
        b'{"t":10.0,"m":1.0,"b":"x","type":"run","event":"registered","run":"r","seq":1}\n'
        b'{"t":11.0,"m":2.0,"b":"x","type":"run","event":"attempt-started","run":"r","attempt":1,'
        b'"max_steps":9,"seq":2}\n'
    )
    mirror.append("journal", "1:0", f"1:{len(journal)}", journal)
    step = (
        b'{"t":12.0,"m":3.0,"b":"x","attempt":1,"side":"trainer","step":4,"at":{"stream":"log/r/'
        b'trainer","cursor":"1:13"}}\n'
    )
    mirror.append("steps/r", "1:0", f"1:{len(step)}", step)
    for generation, data in enumerate(LOG, 1):
        mirror.keep("log/r/trainer", f"{generation}:0", data)
    return tmp_path / "m"


async def test_a_log_is_read_over_its_files_and_ends_where_it_ended(root: Path) -> None:
    session = RecordedSession("p", root, "why")
    chunks, cursor = [], "start"
    while True:
        chunk = await session.read_log("log/r/trainer", cursor, limit=15)
        chunks.append(chunk)
        cursor = chunk.next
        if not chunk.more:
            break
    assert b"".join(chunk.data for chunk in chunks) == b"".join(LOG)
    assert [chunk.start for chunk in chunks] == ["1:0", "1:13", "2:0", "2:15"]
    assert chunks[-1].partial
    assert not chunks[-1].repeats
    end = await session.read_log("log/r/trainer", cursor)
    assert (end.data, end.start, end.next, end.more) == (b"", "2:25", "2:25", False)


async def test_the_agents_own_queries_answer(root: Path) -> None:
    session = RecordedSession("p", root, "why")
    await session.synced()
    stat = await session.query("log/r/trainer", "stat")
    assert (stat["kind"], stat["start"], stat["end"], stat["bytes"]) == ("log", "1:0", "2:25", 51)
    assert await session.seek_line("log/r/trainer", 2) == "2:0"
    assert (await session.query("log/r/trainer", "search", pattern="three"))["hits"] == [
        {"cursor": "2:0", "text": "12:00:02 three", "at": 9}
    ]
    assert (await session.query("log/r/trainer", "seek-time", t=12.5))["cursor"] == "1:13"
    assert (await session.query("journal", "seek-time", t=10.5))["t"] == 11.0
    behind = await session.query("journal", "seek-time", t=99.0)
    assert (behind["t"], behind["exact"]) == (None, False)
    names = [stream["name"] for stream in (await session.query("*", "list"))["streams"]]
    assert names == await session.streams() == ["journal", "log/r/trainer", "steps/r"]


async def test_the_state_is_replayed_with_its_true_age_and_the_link_says_recorded(
    root: Path,
) -> None:
    session = RecordedSession("p", root, "why it is shown")
    life = asyncio.create_task(session.run())
    try:
        async with asyncio.timeout(60):
            while session.state.link.state != "recorded":
                await asyncio.sleep(0)
        assert session.state.link.detail == "why it is shown"
        assert not session.state.link.up
        run = session.state.runs["r"]
        assert (run.step, run.view.max_steps) == (4, 9)
        assert session.state.stale
        session.retry_now()
    finally:
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)


async def test_nothing_can_be_done_to_it_and_nothing_else_is_there(root: Path) -> None:
    session = RecordedSession("p", root, "why")
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    for kind in ("plan", "stop"):
        with pytest.raises(RefusedError, match="is a recording"):
            await session.submit(kind)
    with pytest.raises(RefusedError, match="no live pod"):
        await session.connected(1.0)
    for stream, cursor in (
        ("log/r/other", "start"),
        ("../../etc", "start"),
        ("log/r/trainer", "9:9"),
        ("log/r/trainer", "x"),
    ):
        with pytest.raises(RemoteError):
            await session.read_log(stream, cursor)
    with pytest.raises(RemoteError, match="no query"):
        await session.query("log/r/trainer", "destroy")
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


async def test_the_shipped_recording_is_small_and_its_lines_are_where_it_says() -> None:
    files = [path for path in recording.directory().rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 300_000
    session = RecordedSession(recording.NAME, recording.directory(), "why")
    await session.synced()
    (incident,) = session.state.ledger.open_incidents()
    assert incident.failure == "vllm-silent-death"
    assert [
        plan for plan in session.state.ledger.plans.values() if plan.playbook == incident.playbook
    ]
    assert incident.evidence
    rows = session.state.runs[incident.run].trainer_steps
    assert len(rows) > 20
    for row in rows:
        chunk = await session.read_log(row["at"]["stream"], row["at"]["cursor"])
        assert f"Step {row['step']} ".encode() in chunk.data.split(b"\n")[0]


STEPS = (59, 61, 3661, 86430, 86520)
"""Seconds after 23:59:00 at which a step was done: over two midnights."""


def _spell(seconds: int) -> str:
    return f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


@pytest.fixture
def tagged(tmp_path: Path) -> Path:
    """A run whose trainer's lines have torchrun's tag and colours, whose launcher repeats them, and
    whose inference server has none. The pod's clock is two hours ahead of UTC, and its agent read
    all of it at once, long afterwards.
    """
    mirror = Mirror(tmp_path / "m")
    mirror.use("home1")
    began = 1_795_000_000.0 // 86400 * 86400 + 23 * 3600 + 59 * 60 - 7200
    trainer, launcher, rows = b"", f"{_spell(86340)} INFO Starting RL run\n".encode(), []
    for step, after in enumerate(STEPS):
        line = (
            f"[default0]:\x1b[2m{_spell(86340 + after)}\x1b[0m SUCCESS Step {step} | Time: "
            "1.00s\n[default0]:and more of it\n"
        ).encode()
        rows.append(
            {
                "t": began + 99_999,
                "m": 3.0,
                "b": "x",
                "attempt": 1,
                "side": "trainer",
                "step": step,
                "log_t": began + after,
            }
            | {"at": {"stream": "log/r/trainer", "cursor": f"1:{len(trainer)}"}}
        )
        trainer, launcher = trainer + line, launcher + b"[default0]:" + line
    journal = [
        {
            "t": began,
            "m": 1.0,
            "b": "x",
            "type": "run",
            "event": "registered",
            "run": "r",
            "seq": 1,
        },
        {
            "t": began,
            "m": 1.0,
            "b": "x",
            "type": "run",
            "event": "attempt-started",
            "run": "r",
            "attempt": 1,
            "seq": 2,
        },
        {
            "t": began + 90_100,
            "m": 1.0,
            "b": "x",
            "type": "run",
            "event": "attempt-ended",
            "run": "r",
            "attempt": 1,
            "seq": 3,
        },
    ]
    for stream, records in (("journal", journal), ("steps/r", rows)):
        data = b"".join(
            json.dumps(record, separators=(",", ":")).encode() + b"\n" for record in records
        )
        mirror.append(stream, "1:0", f"1:{len(data)}", data)
    mirror.keep("log/r/trainer", "1:0", trainer)
    mirror.keep("log/r/launcher", "1:0", launcher)
    mirror.keep("log/r/inference", "1:0", b"INFO: GET /health\n" * 100)
    return tmp_path / "m"


async def test_every_log_goes_to_the_same_moment(tagged: Path) -> None:
    session = RecordedSession("p", tagged, "why")
    await session.synced()
    rows = session.state.runs["r"].trainer_steps
    began = rows[0]["log_t"] - STEPS[0]
    for step, row in enumerate(rows):
        for source in ("trainer", "launcher"):
            place = (await session.query(f"log/r/{source}", "seek-time", t=row["log_t"] + 0.4))[
                "cursor"
            ]
            line = (await session.read_log(f"log/r/{source}", place)).data.split(b"\n")[0]
            assert f"Step {step} |".encode() in line, source
    half = (await session.query("log/r/inference", "seek-time", t=began + 45_050))["cursor"]
    assert abs(int(half.split(":")[1]) // 18 - 50) <= 1, "a log without clocks: about there"
    for source in ("trainer", "launcher", "inference"):
        before = (await session.query(f"log/r/{source}", "seek-time", t=began - 3600))["cursor"]
        assert before == "1:0", "before it began is its beginning"


async def test_cursors_are_numbers_and_not_words(tmp_path: Path) -> None:
    """Steps that the agent read in one go: 1:1000 comes behind 1:999."""
    mirror = Mirror(tmp_path / "m")
    mirror.use("home1")
    lines = [f"12:00:{i:02} Step {i} {'x' * 90}\n".encode() for i in range(20)]
    mirror.append(
        "journal",
        "1:0",
        "1:1",
        b'{"t":43200.0,"m":1.0,"b":"x","type":"run","event":"registered","run":"r","seq":1}\n',
    )
    rows = b"".join(
        json.dumps(
            {
                "t": 50_000.0,
                "m": 3.0,
                "b": "x",
                "side": "trainer",
                "step": i,
                "log_t": 43200.0 + i,
                "at": {"stream": "log/r/trainer", "cursor": f"1:{sum(map(len, lines[:i]))}"},
            },
            separators=(",", ":"),
        ).encode()
        + b"\n"
        for i in range(20)
    )
    mirror.append("steps/r", "1:0", f"1:{len(rows)}", rows)
    mirror.keep("log/r/trainer", "1:0", b"".join(lines))
    session = RecordedSession("p", tmp_path / "m", "why")
    await session.synced()
    for i in range(20):
        place = (await session.query("log/r/trainer", "seek-time", t=43200.0 + i))["cursor"]
        assert place == f"1:{sum(map(len, lines[:i]))}"
