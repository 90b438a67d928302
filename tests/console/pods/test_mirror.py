"""What is kept of a pod: exact bytes at exact places, whatever tears a file, fills a disk or
answers under the same name.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bs4_console.pods import mirror as module
from bs4_console.pods.mirror import Mirror
from bs4_console.pods.range_set import RangeSet

HOME, OTHER = "01HOME", "01OTHER"


def line(number: int) -> bytes:
    return json.dumps({"t": float(number), "seq": number}).encode() + b"\n"


def opened(root: Path, home: str = HOME) -> Mirror:
    made = Mirror(root)
    made.use(home)
    return made


def numbers(mirror: Mirror, stream: str = "journal") -> list[int]:
    return [record["seq"] for record in mirror.records(stream)]


def test_what_was_kept_is_there_after_a_restart_and_reading_goes_on_behind_it(
    tmp_path: Path,
) -> None:
    first = opened(tmp_path)
    assert first.cursor("journal") is None
    data = line(1) + line(2)
    first.append("journal", "1:0", f"1:{len(data)}", data)
    first.append("journal", "2:0", f"2:{len(line(3))}", line(3))
    again = Mirror(tmp_path)
    assert again.home == HOME
    assert numbers(again) == [1, 2, 3]
    assert again.cursor("journal") == f"2:{len(line(3))}"
    assert (tmp_path / HOME / "journal" / "1.data").read_bytes() == data
    # Also without a replay.
    assert Mirror(tmp_path).cursor("journal") == f"2:{len(line(3))}"


@pytest.mark.parametrize(
    "torn", [b'{"t":3', b'{"t":3.0,"seq":3}', b"\0\0\0\0\0", b"\0\0\0\n", b"[1,2]\n", b'"x"\n']
)
def test_a_torn_end_is_left_out_and_written_over(tmp_path: Path, torn: bytes) -> None:
    mirror = opened(tmp_path)
    mirror.append("journal", "1:0", f"1:{len(line(1))}", line(1))
    with (tmp_path / HOME / "journal" / "1.data").open("ab") as handle:
        handle.write(torn)
    again = Mirror(tmp_path)
    assert again.cursor("journal") == f"1:{len(line(1))}"
    assert numbers(again) == [1]
    again.append("journal", f"1:{len(line(1))}", f"1:{len(line(1)) * 2}", line(2))
    assert numbers(Mirror(tmp_path))[:2] == [1, 2]


@pytest.mark.parametrize("torn", ["", "../../etc", "x" * 500, "a b", "\0"])
def test_a_torn_name_of_the_home_is_no_home(tmp_path: Path, torn: str) -> None:
    opened(tmp_path).append("journal", "1:0", "1:1", line(1))
    (tmp_path / "home").write_text(torn)
    again = Mirror(tmp_path)
    assert again.home == ""
    assert numbers(again) == []
    assert again.use(HOME)
    assert numbers(again) == [1]


def test_a_pod_made_anew_under_the_same_name_shares_nothing(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.append("journal", "1:0", f"1:{len(line(1))}", line(1))
    assert not first.use(HOME)
    assert first.use(OTHER)
    assert first.cursor("journal") is None
    assert numbers(first) == []
    first.append("journal", "1:0", f"1:{len(line(7))}", line(7))
    assert numbers(Mirror(tmp_path)) == [7]
    back = Mirror(tmp_path)
    assert back.use(HOME)
    assert numbers(back) == [1]


def test_what_a_pod_calls_things_never_leads_out_of_the_directory(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path / "pods" / "a")
    mirror.use("../../../elsewhere")
    for stream in (
        "../x",
        "log/../../../x",
        "/etc/x",
        "log/r/../../x",
        "a/b/c/d/e",
        "",
        ".hidden",
        "log//x",
    ):
        mirror.append(stream, "1:0", "1:5", b"evil\n")
        mirror.note_gap(stream, {"from": 0})
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {"pods/a/home"}


@contextlib.contextmanager
def small_files(limit: int) -> Iterator[None]:
    """No file may grow over `limit` bytes: write() then fails as on a full disk. Not for longer
    than needed: the test runner's own output may go to a file too.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def test_a_full_disk_ends_the_keeping_and_not_the_reading(tmp_path: Path) -> None:
    mirror = opened(tmp_path)
    at = sent = 0
    with small_files(8192):
        while at < 3 * 8192:
            sent += 1
            mirror.append("journal", f"1:{at}", f"1:{at + len(line(sent))}", line(sent))
            at += len(line(sent))
    assert mirror.stopped
    assert not mirror.keeps
    assert "free some space" in mirror.stopped
    assert mirror.cursor("journal") == f"1:{at}"
    again = Mirror(tmp_path)
    kept = numbers(again)
    assert kept == list(range(1, len(kept) + 1))
    assert 0 < len(kept) < sent
    assert again.keeps
    assert again.cursor("journal") == f"1:{sum(len(line(n)) for n in kept)}"


def test_little_space_stops_logs_and_telemetry_but_not_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MIN_FREE", 1 << 60)
    mirror = opened(tmp_path)
    for stream in ("telemetry", "journal", "steps/r"):
        mirror.append(stream, "1:0", f"1:{len(line(1))}", line(1))
    mirror.keep("log/r/trainer", "1:0", b"text\n")
    assert [numbers(mirror, stream) for stream in ("telemetry", "journal", "steps/r")] == [
        [],
        [1],
        [1],
    ]
    assert list(tmp_path.rglob("log/r/trainer/*.data")) == []
    assert mirror.keeps


def test_a_reader_that_keeps_nothing_uses_what_is_there_and_adds_nothing(tmp_path: Path) -> None:
    opened(tmp_path).append("journal", "1:0", f"1:{len(line(1))}", line(1))
    before = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
    guest = Mirror(tmp_path, write=False)
    assert numbers(guest) == [1]
    guest.use(HOME)
    guest.append("journal", guest.cursor("journal") or "", "1:999", line(2))
    assert guest.cursor("journal") == "1:999"
    guest.use(OTHER)
    assert sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*")) == before
    nothing = Mirror(None)
    nothing.use(HOME)
    nothing.append("journal", "1:0", "1:5", b"{}\n")
    assert nothing.cursor("journal") == "1:5"
    assert nothing.secure("journal") is None


def test_the_cursor_is_behind_what_was_replayed_though_another_console_adds_meanwhile(
    tmp_path: Path,
) -> None:
    writer = opened(tmp_path)
    writer.append("journal", "1:0", f"1:{len(line(1))}", line(1))
    reader = Mirror(tmp_path)
    assert numbers(reader) == [1]
    writer.append("journal", f"1:{len(line(1))}", f"1:{2 * len(line(1))}", line(2))
    assert reader.cursor("journal") == f"1:{len(line(1))}"


def test_a_long_log_is_kept_in_parts_and_its_beginning_can_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PART_BYTES", 8192)
    monkeypatch.setattr(module, "STREAM_CAP", 3 * 8192)
    mirror = opened(tmp_path)
    text = os.urandom(30_000).replace(b"\0", b".")
    for at in range(0, len(text), 1000):
        mirror.keep("log/r/trainer", f"4:{at}", text[at : at + 1000])
    parts = sorted(
        (tmp_path / HOME / "log/r/trainer").glob("*.data"),
        key=lambda path: int(path.stem.split(".")[1]),
    )
    assert [path.stem for path in parts] == ["4.1", "4.2", "4.3"]
    assert b"".join(path.read_bytes() for path in parts) == text[8192:]


def test_older_telemetry_fills_the_hole_and_the_hole_is_known(tmp_path: Path) -> None:
    mirror = opened(tmp_path)
    data = b"".join(line(n) for n in range(1, 10))
    mirror.append("telemetry", f"1:{len(data)}", f"1:{len(data) + len(line(1))}", line(1))
    assert mirror.hole("telemetry", "1:0") == "1:0"
    mirror.keep("telemetry", "1:0", data[:20])
    assert mirror.hole("telemetry", "1:0") == "1:20"
    mirror.keep("telemetry", "1:20", data[20:])
    assert Mirror(tmp_path).hole("telemetry", "1:0") == f"1:{len(data) + len(line(1))}"
    assert numbers(mirror, "telemetry") == [*range(1, 10), 1]


def test_the_newest_records_are_found_without_reading_all(tmp_path: Path) -> None:
    mirror = opened(tmp_path)
    for generation in (1, 2, 3):
        mirror.append(
            "telemetry", f"{generation}:0", f"{generation}:{len(line(1))}", line(generation)
        )
    again = Mirror(tmp_path)
    assert [record["seq"] for record in again.tail("telemetry", 2)] == [2, 3]
    assert again.cursor("telemetry") == f"3:{len(line(3))}"
    assert Mirror(tmp_path).tail("steps/r", 5) == []


def test_starting_anew_keeps_what_was_there_aside(tmp_path: Path) -> None:
    mirror = opened(tmp_path)
    mirror.append("journal", "1:0", f"1:{len(line(1))}", line(1))
    mirror.start_anew()
    assert mirror.cursor("journal") is None
    assert (tmp_path / f"{HOME}.1" / "journal" / "1.data").read_bytes() == line(1)


def test_spans_join_and_survive_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "x.spans"
    spans = RangeSet(path)
    for begin, end in ((0, 10), (10, 30), (50, 60), (60, 61)):
        spans.add(begin, end)
    assert path.read_text().count("\n") == 2
    assert [spans.first_missing(at) for at in (0, 5, 30, 50, 61)] == [30, 30, 30, 61, 61]
    with path.open("ab") as handle:
        handle.write(b"00000000000000000070 0000000")
    again = RangeSet(path)
    assert [again.first_missing(at) for at in (0, 70)] == [30, 70]
    again.add(30, 50)
    assert RangeSet(path).first_missing(0) == 61
