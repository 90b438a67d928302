"""How much a pod can make this machine keep and hold, and where it may write: up to a ceiling, and
nowhere else.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_agent import daemon
from bs4_agent.channel import connection, server
from bs4_agent.runs import steplog
from bs4_agent.streams import registry
from bs4_common import wire
from bs4_common.streams import query, segments
from bs4_common.streams.cursor import Chunk
from bs4_common.trainers import lines as trainer_lines
from bs4_common.wire import encode
from bs4_console import ceilings
from bs4_console.errors import ChannelLost, EndlessAnswer, UsageError
from bs4_console.logs.pages import LogPages
from bs4_console.pods import reports, streams
from bs4_console.pods.channel import Channel
from bs4_console.pods.mirror import Mirror
from bs4_console.pods.reading.greeting import QUESTIONS
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import PodState
from bs4_console.setup import code_sync_answer
from tests.console.pods.test_channel import greeting, pod
from tests.console.pods.test_reports import HEAD, MEMBERS, archive

KIB = 1024
MIB = 1024 * 1024


def opened(root: Path) -> Mirror:
    mirror = Mirror(root)
    mirror.use("home1")
    return mirror


def kept(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


def test_the_ceilings_are_those_of_the_table() -> None:
    table = (Path(__file__).resolve().parents[2] / "docs" / "ceilings.md").read_text()
    for row in (
        "| disk for one pod | 2,048 MiB |",
        "| of it journal | 256 MiB |",
        "| of it steps | 256 MiB |",
        "| of it gaps | 1 MiB |",
        "| name of a stream, a run or a failure | 200 bytes |",
        "| memory for one pod | 60 MB, of it what the journal tells 12 MiB, steps 20 MiB, "
        "telemetry as it came 4 MiB and packed 4 MiB |",
        "| runs, incidents | 1,000, 5,000 |",
        "| crash report, unpacked | 64 MiB, 256 MiB |",
    ):
        assert row in table
    sizes = (
        ceilings.JOURNAL_MEMORY,
        ceilings.STEPS_MEMORY,
        ceilings.TELEMETRY_MEMORY,
        ceilings.PACKED_MEMORY,
        ceilings.DISK_BYTES,
        ceilings.JOURNAL_BYTES,
        ceilings.STEPS_BYTES,
        ceilings.GAPS_BYTES,
        ceilings.REPORT_BYTES,
    )
    assert [size // MIB for size in sizes] == [12, 20, 4, 4, 2048, 256, 256, 1, 64]


def test_the_agents_ceilings_are_those_of_the_table() -> None:
    table = (Path(__file__).resolve().parents[2] / "docs" / "ceilings.md").read_text()
    for row in (
        "| consoles that are connected, of them with a key that may only look "
        f"| {server.CONNECTIONS}, {server.LOOKING} |",
        "| reads that wait, queries that run, of one connection "
        f"| {connection.WAITING_READS}, {connection.RUNNING_QUERIES} |",
        "| request, its payload "
        f"| {wire.HEADER_LIMIT // KIB} KiB, {wire.PAYLOAD_LIMIT // KIB} KiB |",
        "| text of a search, terms of a filter "
        f"| {query.PATTERN_LIMIT:,} characters, {query.TERMS} |",
        f"| files that are opened on request | {registry.OPENED} |",
        f"| record of a stream | {segments.RECORD_LIMIT // KIB} KiB |",
        f"| line of a log, as detection reads it | {trainer_lines.LINE_CAP // KIB} KiB |",
        "| telemetry, steps of one run "
        f"| {daemon.TELEMETRY_CAP // MIB} MiB, {steplog._CAP // MIB} MiB |",
        f"| journal | {daemon.JOURNAL_CAP // MIB} MiB |",
        "| requests that wait for their reply, and that go with the greeting "
        f"| {ceilings.REPLIES}, {QUESTIONS} |",
        "| configs that runs were launched with "
        f"| {ceilings.CONFIG_BYTES // KIB} KiB each, {ceilings.CONFIGS:,} |",
        f"| frames that wait to be sent | {ceilings.FRAMES} |",
        f"| answers to one seek | {ceilings.PAGES:,} |",
        f"| answers to one search of a log | {ceilings.SEARCH_ANSWERS:,} |",
        f"| files that a pod lists for `sync` | {code_sync_answer.FILES:,} |",
    ):
        assert row in table


@pytest.mark.parametrize(
    ("stream", "ceiling", "word"),
    [
        ("journal", "JOURNAL_BYTES", "journal records"),
        ("steps/r", "STEPS_BYTES", "steps"),
        ("telemetry", "DISK_BYTES", "logs and telemetry"),
    ],
)
def test_over_its_ceiling_nothing_more_is_kept_and_nothing_held_is_deleted(
    stream: str, ceiling: str, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceilings, ceiling, 10_000)
    mirror = opened(tmp_path)
    line = b'{"t":1.0,"seq":1}' + b" " * 982 + b"\n"
    for number in range(30):
        mirror.append(stream, f"1:{number * 1000}", f"1:{number * 1000 + 1000}", line)
    assert (
        kept(tmp_path / "home1" / stream)
        - len((tmp_path / "home1" / stream / "1.spans").read_bytes())
        <= 10_000
    )
    assert (tmp_path / "home1" / stream / "1.data").stat().st_size >= 8_000
    assert any(
        word in sentence and "Nothing that is held was deleted." in sentence
        for sentence in mirror.over.values()
    )
    assert mirror.secure(stream) is None, "the agent must not be told that all of it is held"
    # Another console, or this one started again, counts what lies there.
    again = opened(tmp_path)
    before = kept(tmp_path)
    again.append(stream, "2:0", "2:1000", line)
    assert kept(tmp_path) == before


def test_a_place_far_beyond_makes_no_file_that_is_read_whole_for_ever(tmp_path: Path) -> None:
    mirror = opened(tmp_path)
    mirror.append("journal", "1:3000000000", "1:3000000010", b'{"t":1.0}\n')
    mirror.append("telemetry", "1:3000000000", "1:3000000010", b'{"t":1.0}\n')
    assert kept(tmp_path) < 1000
    assert list(mirror.over) == ["journal", "other"]


def test_logs_count_by_their_length_and_not_by_what_their_holes_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceilings, "DISK_BYTES", 64 * MIB)
    mirror = opened(tmp_path)
    for number in range(1, 40):
        mirror.keep(f"log/r/s{number}", f"1:{16 * MIB - 10}", b"x" * 10)
    assert kept(tmp_path) <= 65 * MIB


def test_gaps_are_kept_up_to_a_ceiling_and_only_what_a_gap_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceilings, "GAPS_BYTES", 5_000)
    mirror = opened(tmp_path)
    for _ in range(1_000):
        mirror.note_gap(
            "journal",
            {"generation": 1, "from": 0, "to": None, "reason": "x" * 10_000, "more": "y" * 100_000},
        )
    assert 0 < kept(tmp_path / "home1" / "journal") <= 5_000
    assert "gaps" in mirror.over


async def test_long_names_and_endless_lists_of_streams_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "PAGES", 20)
    asked = 0

    async def query(stream: str, op: str, **arguments: Any) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        entries = [{"name": "x" * 60_000}, {"name": 7}, 5, {"name": f"log/r/{asked}"}]
        return {"streams": entries, "next": {"after": "always more"}}

    names = await streams.stream_names(SimpleNamespace(query=query))  # type: ignore[arg-type]
    assert asked == 20
    assert len(names) == 20
    assert all(name.startswith("log/r/") for name in names)


async def test_a_silent_pod_holds_sixty_four_requests_and_the_next_wait_for_a_place() -> None:
    asked: list[int] = []

    def answer(header: dict[str, Any]) -> bytes:
        asked.append(header["id"])
        return b""

    async with pod(greeting(answer)) as duplex:
        channel = await Channel.open(duplex, "a", "b")
        calls = [asyncio.create_task(channel.ping()) for _ in range(ceilings.REPLIES + 10)]
        async with asyncio.timeout(20):
            while len(asked) < ceilings.REPLIES:
                await asyncio.sleep(0.01)
        # A cancelled call makes room for one that waits, and its cancellation is one frame more.
        calls[0].cancel()
        async with asyncio.timeout(20):
            while len(asked) < ceilings.REPLIES + 2:
                await asyncio.sleep(0.01)
        assert len(channel._waiting) == ceilings.REPLIES
        await channel.close()
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(end, (ChannelLost, asyncio.CancelledError)) for end in ends)
        assert len(asked) == ceilings.REPLIES + 2


class Stuck:
    """A link whose other end greets and then takes nothing."""

    def __init__(self) -> None:
        self._greeted = asyncio.Event()

    async def read(self) -> bytes:
        if self._greeted.is_set():
            await asyncio.Event().wait()
        self._greeted.set()
        return encode({"hello": {"protocol": 1}})

    async def write(self, data: bytes) -> None:
        if self._greeted.is_set():
            await asyncio.Event().wait()

    async def close(self) -> None:
        """Do nothing."""


async def test_a_pod_that_takes_no_frames_is_given_up() -> None:
    channel = await Channel.open(Stuck(), "a", "b", pod="evil")
    for _ in range(ceilings.FRAMES):
        call = asyncio.create_task(channel.ping())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
    assert len(channel._writes) <= ceilings.FRAMES + 1
    with pytest.raises(ChannelLost, match="evil takes no requests"):
        await channel.ping()
    await channel.close()


async def test_a_line_that_the_pod_seeks_for_ever_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ceilings, "PAGES", 20)
    asked = 0

    async def query(stream: str, op: str, **arguments: Any) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        return {"cursor": "1:0", "next": {"line": asked}}

    pages = LogPages(SimpleNamespace(query=query), lambda: None)  # type: ignore[arg-type]
    with pytest.raises(EndlessAnswer, match="has no end after 20 answers"):
        await pages.place("log/r/trainer", "seek-line", line=1)
    session = PodSession.__new__(PodSession)
    session.query = query  # type: ignore[method-assign]
    with pytest.raises(EndlessAnswer, match="has no end after 20 answers"):
        await session.seek_line("log/r/trainer", 1)
    assert asked == 40


class OnePod:
    """A session whose pod has a report: what its journal says, and what reading it gives."""

    def __init__(self, record: dict[str, Any], data: bytes, *, endless: bool = False) -> None:
        self.state = PodState(name="pod")
        self.state.ledger.reports["r", 1] = record
        self.state.streams = [str(record["report"])]
        self._data, self._endless = data, endless

    async def connected(self, timeout: float) -> OnePod:
        return self

    async def read(self, stream: str, cursor: str) -> Chunk:
        return Chunk("1:0", "1:1", self._data, None, partial=False, more=self._endless)


def record(stream: str, data: bytes = b"") -> dict[str, Any]:
    digest = hashlib.sha256(data).hexdigest()
    return {
        "report": stream,
        "run": "r",
        "attempt": 1,
        "t": 1.0,
        "bytes": len(data),
        "sha256": digest,
        "missing": [],
    }


@pytest.mark.parametrize(
    "stream",
    [
        "report/../../../outside",
        "report//etc/passwd",
        "report/..",
        "report/.hidden",
        "other/x",
        "report/" + "x" * 300,
    ],
)
def test_a_report_whose_name_is_a_path_is_not_listed(stream: str) -> None:
    assert reports.listed(OnePod(record(stream), b"")) == []  # type: ignore[arg-type]


async def test_a_report_without_an_end_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceilings, "REPORT_BYTES", 4 * MIB)
    pod = OnePod(record("report/r.1"), b"x" * 262_144, endless=True)
    (one,) = reports.listed(pod)  # type: ignore[arg-type]
    async with asyncio.timeout(30):
        with pytest.raises(UsageError, match="has more than 4 MiB, which no crash report has"):
            await reports.fetch(pod, one, tmp_path / "target")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("run", ["../../../escaped", "/tmp/escaped", "..", "a/b", "", 7, None])
def test_a_report_of_a_run_whose_name_is_a_path_is_none(run: object, tmp_path: Path) -> None:
    members = {**MEMBERS, "report.json": json.dumps({**HEAD, "run": run}).encode()}
    with pytest.raises(UsageError, match="is no crash report"):
        reports.load(archive(tmp_path / "report", members))


@pytest.mark.parametrize("field", [{"t": "zz"}, {"t": 1e300}, {"attempt": "1"}, {"host": ["x"]}])
def test_a_report_that_says_nonsense_of_itself_is_none(
    field: dict[str, object], tmp_path: Path
) -> None:
    members = {**MEMBERS, "report.json": json.dumps({**HEAD, **field}).encode()}
    with pytest.raises(UsageError, match="is no crash report"):
        reports.load(archive(tmp_path / "report", members))


BOMB_MIB = 1024
OPEN = """
import resource, sys
from pathlib import Path
from bs4_console.pods import reports
from bs4_console.errors import UsageError
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    reports.load(Path(sys.argv[1]))
except UsageError as error:
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024, error)
"""


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.REGTYPE])
def test_a_report_with_a_gibibyte_of_zeros_costs_little_memory(kind: bytes, tmp_path: Path) -> None:
    member = tarfile.TarInfo("report.json")
    member.size, member.type = BOMB_MIB * MIB, kind
    bomb = tmp_path / "bomb"
    with gzip.open(bomb, "wb", compresslevel=1) as file:
        file.write(member.tobuf(tarfile.GNU_FORMAT))
        zeros = io.BytesIO(bytes(MIB)).getvalue()
        for _ in range(BOMB_MIB):
            file.write(zeros)
    done = subprocess.run(
        [sys.executable, "-c", OPEN, str(bomb)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    grown, _, sentence = done.stdout.partition(" ")
    assert "is no crash report" in sentence, done.stderr
    assert int(grown) < 2 * ceilings.REPORT_UNPACKED_BYTES // MIB
