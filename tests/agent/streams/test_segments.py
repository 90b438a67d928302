from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bs4_common.clock import stamp
from bs4_common.errors import BadCursor, SpoolFull
from bs4_common.streams.cursor import Chunk
from bs4_common.streams.segments import RECORD_LIMIT, RecordTooLarge, SegmentStream, segments


def record(n: int, **fields: Any) -> dict[str, Any]:
    return {**stamp(), "n": n, **fields}


def read_all(
    stream: SegmentStream, cursor: str = "start", limit: int = 1000
) -> tuple[list[dict[str, Any]], list[Chunk]]:
    records, chunks = [], []
    while True:
        chunk = stream.read(cursor, limit)
        if not chunk.data and not chunk.gap:
            return records, chunks
        assert not chunk.data or chunk.data.endswith(b"\n")
        records += [json.loads(line) for line in chunk.data.splitlines()]
        chunks.append(chunk)
        cursor = chunk.next


def numbers(records: list[dict[str, Any]]) -> list[int]:
    return [entry["n"] for entry in records]


def test_what_is_appended_is_read_across_segments(tmp_path: Path) -> None:
    stream = SegmentStream(tmp_path / "s", 1 << 20, segment_bytes=2000)
    cursors = [stream.append(record(n)) for n in range(200)]
    assert len(segments(tmp_path / "s")) > 5
    records, chunks = read_all(stream)
    assert numbers(records) == list(range(200))
    assert chunks[-1].next == cursors[-1]
    assert chunks[0].more
    assert not chunks[-1].more
    # The cursor that append gives is where the next record begins.
    assert numbers(read_all(stream, cursors[99])[0]) == list(range(100, 200))
    assert numbers(list(stream.records())) == list(range(200))


def test_a_mirror_made_of_chunks_has_the_same_bytes(tmp_path: Path) -> None:
    stream = SegmentStream(tmp_path / "s", 1 << 20, segment_bytes=2000)
    for n in range(100):
        stream.append(record(n))
    mirrored: dict[str, bytearray] = {}
    for chunk in read_all(stream)[1]:
        generation, offset = chunk.start.split(":")
        held = mirrored.setdefault(f"{int(generation):08d}.ndjson", bytearray())
        assert len(held) == int(offset)
        held += chunk.data
    assert mirrored == {path.name: path.read_bytes() for _, path in segments(tmp_path / "s")}


def test_a_limit_below_one_record_gives_one_record(tmp_path: Path) -> None:
    stream = SegmentStream(tmp_path, 1 << 20)
    for n in range(3):
        stream.append(record(n, text="x" * 500))
    records, chunks = read_all(stream, limit=10)
    assert numbers(records) == [0, 1, 2]
    assert len(chunks) == 3


def test_the_largest_record_fits_and_a_larger_one_is_refused_whole(tmp_path: Path) -> None:
    stream = SegmentStream(tmp_path, 1 << 24)
    overhead = len(json.dumps({"x": ""}, separators=(",", ":"))) + 1
    stream.append({"x": "y" * (RECORD_LIMIT - overhead)})
    with pytest.raises(RecordTooLarge, match="over the limit"):
        stream.append({"x": "y" * (RECORD_LIMIT - overhead + 1)})
    stream.append({"x": "small"})
    assert [len(entry["x"]) for entry in read_all(stream)[0]] == [RECORD_LIMIT - overhead, 5]


def test_end_and_empty_and_bad_cursors(tmp_path: Path) -> None:
    stream = SegmentStream(tmp_path, 1 << 20)
    empty = stream.read("start", 100)
    assert (empty.data, empty.start, empty.next) == (b"", "1:0", "1:0")
    end = stream.append(record(1))
    assert stream.read("end", 100).next == end
    for cursor in ("1:3", "1:99999", "7:0"):
        with pytest.raises(BadCursor, match="read again from"):
            stream.read(cursor, 100)


def test_the_cap_takes_the_oldest_and_leaves_a_gap(tmp_path: Path) -> None:
    stream = SegmentStream(tmp_path, 10_000, segment_bytes=1000)
    first = stream.append(record(0))
    for n in range(1, 500):
        stream.append(record(n))
    assert sum(path.stat().st_size for _, path in segments(tmp_path)) <= 10_000
    chunk = stream.read(first, 1000)
    assert chunk.gap == {
        "generation": 1,
        "from": int(first.split(":")[1]),
        "to": None,
        "reason": "aged out before it was read",
    }
    assert chunk.data == b""
    kept = numbers(read_all(stream, chunk.next)[0])
    assert kept == list(range(kept[0], 500))
    assert kept[0] > 0
    assert numbers(read_all(stream, "start")[0]) == kept


def test_a_journal_at_its_cap_waits_for_a_console(tmp_path: Path) -> None:
    stream = SegmentStream(tmp_path, 5000, segment_bytes=1000, keep_unreleased=True)
    written = 0
    with pytest.raises(SpoolFull, match="connect a console"):
        for written in range(1000):
            stream.append(record(written))
    assert numbers(list(stream.records())) == list(range(written))
    # A console has read to the middle of the third segment: the first two may go, one at a time,
    # when they have to.
    stream.release("3:100")
    assert stream.releasable_before == 3
    stream.append(record(written))
    assert numbers(list(stream.records()))[0] > 0
    with pytest.raises(SpoolFull):
        for n in range(written + 1, 2000):
            stream.append(record(n))
    assert segments(tmp_path)[0][0] == 3


def test_a_torn_last_line_is_cut_off_and_reported(tmp_path: Path) -> None:
    stream = SegmentStream(tmp_path, 1 << 20)
    for n in range(3):
        end = stream.append(record(n))
    stream.close()
    path = segments(tmp_path)[0][1]
    with path.open("ab") as handle:
        handle.write(b'{"t":1,"n":')
    again = SegmentStream(tmp_path, 1 << 20)
    offset = int(end.split(":")[1])
    assert again.repaired == {
        "generation": 1,
        "from": offset,
        "to": offset + 11,
        "reason": "a torn last record was cut off",
    }
    again.append(record(3))
    assert numbers(read_all(again, end)[0]) == [3]
    assert SegmentStream(tmp_path, 1 << 20).repaired is None


def test_after_a_reboot_old_cursors_never_mean_new_bytes(tmp_path: Path) -> None:
    stream = SegmentStream(tmp_path, 1 << 20)
    stream.append({"t": 1.0, "m": 1.0, "b": "another-boot", "n": 0})
    end = stream.append({"t": 1.0, "m": 1.0, "b": "another-boot", "n": 1})
    stream.close()
    # The last record was read by a console but never reached the disk.
    path = segments(tmp_path)[0][1]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0])
    again = SegmentStream(tmp_path, 1 << 20)
    again.append(record(2))
    again.append(record(3))
    assert numbers(read_all(again, end)[0]) == [2, 3]


def test_within_one_boot_a_restart_goes_on_in_the_same_segment(tmp_path: Path) -> None:
    stream = SegmentStream(tmp_path, 1 << 20)
    stream.append(record(0))
    stream.close()
    again = SegmentStream(tmp_path, 1 << 20)
    again.append(record(1))
    assert [number for number, _ in segments(tmp_path)] == [1]
    assert numbers(list(again.records())) == [0, 1]


def test_threads_append_and_read_at_once(tmp_path: Path) -> None:
    stream = SegmentStream(tmp_path, 1 << 24, segment_bytes=5000)

    def write(writer: int) -> None:
        for n in range(300):
            stream.append(record(n, writer=writer))

    writers = [threading.Thread(target=write, args=(w,)) for w in range(4)]
    for thread in writers:
        thread.start()
    seen: list[dict[str, Any]] = []
    cursor = "start"
    while len(seen) < 1200:
        chunk = stream.read(cursor, 3000)
        seen += [json.loads(line) for line in chunk.data.splitlines()]
        cursor = chunk.next
    for writer in range(4):
        assert [entry["n"] for entry in seen if entry["writer"] == writer] == list(range(300))
    for thread in writers:
        thread.join()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 1 MiB that really fills up."""
    mount = tmp_path / "disk"
    mount.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", mount], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("no tmpfs can be mounted here (needs root)")
    yield mount
    subprocess.run(["umount", "-l", mount], check=True)


def fill(disk: Path) -> Path:
    path = disk / "filling"
    with path.open("ab", buffering=0) as handle:
        for size in (65536, 1):
            with pytest.raises(OSError, match="No space left"):
                while True:
                    handle.write(b"\0" * size)
    return path


def test_a_full_disk_is_said_and_leaves_no_torn_record(small_disk: Path) -> None:
    stream = SegmentStream(small_disk / "s", 1 << 24)
    stream.append(record(0))
    filling = fill(small_disk)
    written = 1
    with pytest.raises(SpoolFull, match="free some space"):
        for written in range(1, 100):
            stream.append(record(written, text="x" * 300), sync=True)
    assert numbers(list(stream.records())) == list(range(written))
    assert read_all(stream)[0][-1]["n"] == written - 1
    filling.unlink()
    stream.append(record(written))
    assert numbers(list(stream.records())) == list(range(written + 1))
    assert numbers(read_all(stream)[0]) == list(range(written + 1))


def test_on_a_full_disk_telemetry_goes_first(small_disk: Path) -> None:
    telemetry = SegmentStream(small_disk / "telemetry", 1 << 24, segment_bytes=20_000)
    journal = SegmentStream(
        small_disk / "journal", 1 << 24, keep_unreleased=True, relief=telemetry.shed
    )
    for n in range(1000):
        telemetry.append(record(n, text="x" * 300))
    fill(small_disk)
    for n in range(100):
        journal.append(record(n, text="y" * 500), sync=True)
    assert numbers(list(journal.records())) == list(range(100))
    kept = numbers(list(telemetry.records()))
    assert kept == list(range(kept[0], 1000))
    assert kept[0] > 0


def test_only_what_was_synced_is_claimed_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    stream = SegmentStream(tmp_path, 1 << 20)
    stream.append(record(0))
    assert synced == []
    stream.append(record(1), sync=True)
    assert len(synced) == 1


KILLED_WRITER = """
import sys
from pathlib import Path
from bs4_common.streams.segments import SegmentStream
from bs4_common.clock import stamp
stream = SegmentStream(Path(sys.argv[1]), 1 << 24, segment_bytes=20000)
n = 0
while True:
    stream.append({**stamp(), "n": n, "text": "z" * 200})
    n += 1
    if n % 100 == 0:
        print(n, flush=True)
"""


def test_a_writer_killed_with_9_loses_nothing_it_had_appended(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED_WRITER, str(tmp_path)], stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        for _ in range(30):
            said = int(writer.stdout.readline())
        writer.kill()
    stream = SegmentStream(tmp_path, 1 << 24, segment_bytes=20000)
    kept = numbers(list(stream.records()))
    assert kept == list(range(len(kept)))
    assert len(kept) >= said


def test_stat(tmp_path: Path) -> None:
    stream = SegmentStream(tmp_path, 1 << 20, segment_bytes=1000)
    end = ""
    for n in range(50):
        end = stream.append(record(n))
    stat = stream.stat()
    assert stat == {
        "kind": "records",
        "start": "1:0",
        "end": end,
        "bytes": sum(p.stat().st_size for _, p in segments(tmp_path)),
        "segments": len(segments(tmp_path)),
    }


def test_a_listener_hears_of_every_append(tmp_path: Path) -> None:
    stream = SegmentStream(tmp_path, 1 << 20)
    heard: list[str] = []
    listener: Callable[[], None] = lambda: heard.append(stream.stat()["end"])  # noqa: E731
    stream.on_append = listener
    assert [stream.append(record(n)) for n in range(3)] == heard
