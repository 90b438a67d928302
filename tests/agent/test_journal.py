from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path

import pytest

from bs4_common.errors import SpoolFull
from bs4_common.journal import GENESIS, Journal
from bs4_common.streams.segments import SegmentStream, segments


def open_journal(directory: Path) -> Journal:
    return Journal(SegmentStream(directory, 1 << 20, segment_bytes=2000, keep_unreleased=True))


def lines(directory: Path) -> list[bytes]:
    return [line for _, path in segments(directory) for line in path.read_bytes().splitlines()]


def test_records_are_stamped_numbered_and_chained_over_restarts(tmp_path: Path) -> None:
    for start in (0, 10, 20):
        journal = open_journal(tmp_path)
        for n in range(start, start + 10):
            written = journal.append("note", run=None, text=str(n), who="a@b", sync=n % 2 == 0)
            assert list(written)[:6] == ["t", "m", "b", "seq", "prev", "type"]
        journal.stream.close()
    records = list(open_journal(tmp_path).records())
    assert [r["seq"] for r in records] == list(range(1, 31))
    assert [r["text"] for r in records] == [str(n) for n in range(30)]
    assert records[0]["prev"] == GENESIS
    raw = lines(tmp_path)
    assert [r["prev"] for r in records[1:]] == [
        hashlib.sha256(line).hexdigest() for line in raw[:-1]
    ]
    assert open_journal(tmp_path).verify() == []


def test_an_edited_line_shows(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    for n in range(10):
        journal.append("action", action="01J", event="intent", step=n, who="alice")
    journal.stream.close()
    path = segments(tmp_path)[0][1]
    path.write_bytes(path.read_bytes().replace(b'"who":"alice"', b'"who":"mallo"', 1))
    problems = open_journal(tmp_path).verify()
    assert len(problems) == 1
    assert "its hash differs" in problems[0]


def test_a_removed_and_a_broken_line_show(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    for n in range(8):
        journal.append("note", run=None, text=str(n), who="a")
    journal.stream.close()
    path = segments(tmp_path)[0][1]
    kept = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*kept[:2], *kept[3:5], b"not json\n", *kept[6:]]))
    problems = open_journal(tmp_path).verify()
    assert any("number 4, expected 3" in problem for problem in problems)
    assert any("is no record" in problem for problem in problems)
    # Records that can be read still are.
    assert [r["seq"] for r in open_journal(tmp_path).records()] == [1, 2, 4, 5, 7, 8]


def test_numbering_goes_on_behind_a_broken_last_line(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    for n in range(3):
        journal.append("note", run=None, text=str(n), who="a")
    journal.stream.close()
    path = segments(tmp_path)[0][1]
    with path.open("ab") as handle:
        handle.write(b"\x00\x00\n")
    again = open_journal(tmp_path)
    assert again.append("note", run=None, text="3", who="a")["seq"] == 4
    assert [problem.endswith("is no record.") for problem in again.verify()] == [True]


def test_a_record_that_could_not_be_written_leaves_no_hole(tmp_path: Path) -> None:
    journal = Journal(SegmentStream(tmp_path, 1500, segment_bytes=700, keep_unreleased=True))
    with pytest.raises(SpoolFull):
        for _ in range(100):
            journal.append("note", run=None, text="x", who="a")
    written = len(lines(tmp_path))
    journal.stream.release("2:0")
    assert journal.append("note", run=None, text="y", who="a")["seq"] == written + 1
    assert journal.verify() == []


def test_threads_share_one_chain(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    threads = [
        threading.Thread(
            target=lambda: [journal.append("note", run=None, text="x", who="a") for _ in range(50)]
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert journal.verify() == []
    assert len(lines(tmp_path)) == 200
    assert json.loads(lines(tmp_path)[-1])["seq"] == 200
