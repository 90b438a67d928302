"""audit verify: kept, copied and live journals, and what the exit code says of them."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bs4_common.journal import Journal
from bs4_common.streams.segments import SegmentStream
from tests.console.cli.conftest import Console, Practice, practising
from tests.hostile.evil_pod import EvilPod, Lies, lines

pytestmark = [pytest.mark.long, pytest.mark.beside]

GOLDEN = Path(__file__).parents[2] / "golden" / "data"


def test_a_directory_is_checked_without_any_pod(console: Console, tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "verl", tmp_path / "copy")
    done = console("audit", "verify", str(tmp_path / "copy"), "--json")
    assert (done.code, done.err) == (0, "")
    told = done.json
    assert (told["schema"], told["status"], told["code"]) == ("bs4.audit/1", "whole", 0)
    assert [one["where"] for one in told["journals"]] == ["directory", "directory"]
    segment = tmp_path / "copy" / "agent" / "state" / "journal" / "00000001.ndjson"
    kept = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join([*kept[:5], *kept[6:]]))
    done = console("audit", "verify", str(tmp_path / "copy"))
    assert done.code == 1
    at = sum(map(len, kept[:5]))
    assert f"broken at 00000001.ndjson, byte {at}: Before record 7 there are 1 missing" in done.out
    assert done.out.count("whole: ") == 1


def test_where_there_is_no_journal_nothing_is_known(console: Console, tmp_path: Path) -> None:
    done = console("audit", "verify")
    assert (done.code, done.out) == (3, "unknown: there is no journal here.\n")
    (tmp_path / "empty").mkdir()
    assert console("audit", "verify", str(tmp_path / "empty"), "--json").json["status"] == "unknown"
    done = console("audit", "verify", str(tmp_path / "nothing"))
    assert done.code == 2
    assert "is no directory" in done.sentence
    done = console("audit", "verify", str(tmp_path / "empty"), "--pod", "a")
    assert done.code == 2
    assert "Leave out" in done.sentence


def test_names_of_directories_do_not_reach_the_terminal(console: Console, tmp_path: Path) -> None:
    evil = tmp_path / "a\x1b]0;owned\x07\nwhole: b\u202e"
    shutil.copytree(GOLDEN / "verl" / "agent" / "state" / "journal", evil / "journal")
    done = console("audit", "verify", str(tmp_path))
    assert done.code == 0
    assert len(done.out.splitlines()) == 1
    assert not {"\x1b", "\x07", "\u202e"} & set(done.out)


def test_a_live_journal_is_compared_with_what_is_kept(trained: Practice) -> None:
    assert trained("check", "--pod", "pod-a").code == 0
    trained("runs", "list", "--pod", "pod-a")  # keeps the journal on this machine
    done = trained("audit", "verify", "--pod", "pod-a", "--json")
    assert (done.code, done.err) == (0, "")
    by_place = {one["where"]: one for one in done.json["journals"]}
    kept, live = by_place["kept"], by_place["live"]
    assert kept["status"] == live["status"] == "whole"
    assert live["records"] >= kept["records"] > 3
    assert live["notes"] == [f"Record {kept['last_seq']} is the one that this machine keeps."]
    assert trained("audit", "verify").code == 0


def test_a_pod_that_is_not_there_is_unknown(trained: Practice, console: Console) -> None:
    console.add("gone", "127.0.0.1", 1, "root", trained.pod.key_path)
    done = console("audit", "verify", "--pod", "gone")
    assert done.code == 3
    assert done.out.startswith("unknown: gone, live: 0 records")
    assert "refuses connections" in done.out


@pytest.fixture(scope="module")
def deployed() -> Iterator[Practice]:
    with practising("prime-rl-2026-01", "pod-t") as on:
        assert on("deploy", "--pod", "pod-t").code == 0
        yield on


def test_a_journal_that_is_changed_on_the_pod_shows_live(deployed: Practice) -> None:
    (segment,) = (deployed.pod.home / ".bs4" / "state" / "journal").glob("*.ndjson")
    before = segment.read_bytes()
    assert deployed("audit", "verify", "--pod", "pod-t").code == 0
    segment.write_bytes(before.replace(b'"event":"started"', b'"event":"starteD"', 1))
    done = deployed("audit", "verify", "--pod", "pod-t", "--json")
    segment.write_bytes(before)
    assert done.code == 1
    live = done.json["journals"][-1]
    assert (live["where"], live["status"]) == ("live", "broken")
    assert live["first_break"]["file"] == "state/journal/00000001.ndjson"
    assert deployed("audit", "verify", "--pod", "pod-t").code == 0


def honest(directory: Path, count: int, text: str = "note") -> list[bytes]:
    """Return the lines of a journal that the agent's own code wrote."""
    stream = SegmentStream(directory, 1 << 20)
    journal = Journal(stream)
    for number in range(count):
        journal.append("note", run=None, text=f"{text} {number}", who="tester")
    stream.close()
    return (directory / "00000001.ndjson").read_bytes().splitlines()


def test_the_journals_of_our_own_recoveries_are_checked_too(console: Console) -> None:
    kept = console.data / "recover" / "demo" / "journal"
    lines_of = honest(kept, 4)
    assert console("audit", "verify", "--json").json["journals"][0]["records"] == 4
    (kept / "00000001.ndjson").write_bytes(b"\n".join([*lines_of[1:], b""]))
    assert console("audit", "verify").code == 1


async def test_a_pod_that_writes_its_journal_anew_is_caught_by_what_is_kept(
    console: Console, tmp_path: Path
) -> None:
    """Both chains hold. Only the copy on this machine tells them apart."""
    first = honest(tmp_path / "first", 8)
    lies = Lies(journal=lines(*first))
    pod = await EvilPod(lies, tmp_path / "pod").start()
    try:
        pod.join(console, "evil")
        await asyncio.to_thread(console, "runs", "list", "--pod", "evil")
        verify = ("audit", "verify", "--pod", "evil", "--json")
        done = await asyncio.to_thread(console, *verify)
        assert done.code == 0, done

        lies.journal = lines(*honest(tmp_path / "second", 12, text="invented"))
        done = await asyncio.to_thread(console, *verify)
        assert done.code == 1
        found = done.json["journals"][-1]["first_break"]
        assert found["detail"] == "Record 8 differs from the one that this machine keeps."

        lies.journal = lines(*first[2:])
        done = await asyncio.to_thread(console, *verify)
        assert "begins with record 3" in done.json["journals"][-1]["first_break"]["detail"]

        lies.journal = lines(*first[:5])
        done = await asyncio.to_thread(console, *verify)
        assert done.code == 1
        assert "ends with record 5" in done.json["journals"][-1]["first_break"]["detail"]
    finally:
        await pod.stop()


@pytest.mark.parametrize(
    "record",
    [
        b'{"seq":1e400,"prev":"0"}',
        b'{"seq":' + b"9" * 5000 + b',"prev":"0"}',
        b"[" * 30_000,
        b'{"seq":true,"prev":[]}',
        b"\x00\xff\x1b]0;x\x07",
        json.dumps({"seq": 1, "prev": "\x1b]0;x\x07"}).encode(),
    ],
)
async def test_records_that_no_agent_writes_are_a_break_and_no_traceback(
    console: Console, tmp_path: Path, record: bytes
) -> None:
    lies = Lies(journal=lines(*honest(tmp_path / "first", 3), record))
    pod = await EvilPod(lies, tmp_path / "pod").start()
    try:
        pod.join(console, "evil")
        done = await asyncio.to_thread(console, "audit", "verify", "--pod", "evil")
        assert done.code == 1
        assert done.err == ""
        assert "\x1b" not in done.out
    finally:
        await pod.stop()
