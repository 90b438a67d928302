"""A mirror opened without its pod: the same streams, the same questions, and nothing can be done to it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bs4_console.core.errors import RefusedError, RemoteError
from bs4_console.core.mirror import Mirror
from bs4_console.core.recorded import RecordedSession
from bs4_console.demo import recording

LOG = [b"12:00:00 one\n12:00:01 two\n", b"12:00:02 three\nunfinished"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """What a console keeps, by the console's own mirror."""
    mirror = Mirror(tmp_path / "m")
    mirror.use("home1")
    journal = (
        b'{"t":10.0,"m":1.0,"b":"x","type":"run","event":"registered","run":"r","seq":1}\n'
        b'{"t":11.0,"m":2.0,"b":"x","type":"run","event":"attempt-started","run":"r","attempt":1,"max_steps":9,"seq":2}\n'
    )
    mirror.append("journal", "1:0", f"1:{len(journal)}", journal)
    step = b'{"t":12.0,"m":3.0,"b":"x","attempt":1,"side":"trainer","step":4,"at":{"stream":"log/r/trainer","cursor":"1:13"}}\n'
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
    assert (await session.query("log/r/trainer", "search", pattern="three"))["hits"] == [{"cursor": "2:0", "text": "12:00:02 three"}]
    assert (await session.query("log/r/trainer", "seek-time", t=12.5))["cursor"] == "1:13"
    assert (await session.query("journal", "seek-time", t=10.5))["t"] == 11.0
    names = [stream["name"] for stream in (await session.query("*", "list"))["streams"]]
    assert names == await session.streams() == ["journal", "log/r/trainer", "steps/r"]


async def test_the_state_is_replayed_with_its_true_age_and_the_link_says_recorded(root: Path) -> None:
    session = RecordedSession("p", root, "why it is shown")
    life = asyncio.create_task(session.run())
    try:
        async with asyncio.timeout(10):
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
    for stream, cursor in (("log/r/other", "start"), ("../../etc", "start"), ("log/r/trainer", "9:9"), ("log/r/trainer", "x")):
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
    assert [plan for plan in session.state.ledger.plans.values() if plan.playbook == incident.playbook]
    assert incident.evidence
    rows = session.state.runs[incident.run].trainer_steps
    assert len(rows) > 20
    for row in rows:
        chunk = await session.read_log(row["at"]["stream"], row["at"]["cursor"])
        assert f"Step {row['step']} ".encode() in chunk.data.split(b"\n")[0]
