"""The check of a journal's hash chain, on journals that the agent's own code wrote and that were
changed afterwards.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from bs4_common.journal import Journal
from bs4_common.streams.cursor import Cursor
from bs4_common.streams.segments import SegmentStream
from bs4_console.checks.audit import Found, check_directory, journals_below
from bs4_console.pods.mirror import Mirror

GOLDEN = Path(__file__).parents[2] / "golden" / "data"
RECORDS = 60


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A journal of 60 records in several segments, in an agent's home."""
    directory = tmp_path / "home" / "state" / "journal"
    stream = SegmentStream(directory, 1 << 20, segment_bytes=2000, keep_unreleased=True)
    written = Journal(stream)
    for number in range(RECORDS):
        written.append("note", run=None, text=f"record {number}", who="tester", sync=False)
    stream.close()
    assert len(segments(directory)) > 4
    return directory


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.ndjson"))


def starts(path: Path) -> list[int]:
    """Return the byte at which each line of a file begins."""
    found, at = [], 0
    for line in path.read_bytes().splitlines(keepends=True):
        found.append(at)
        at += len(line)
    return found


def place(found: Found) -> tuple[str, int]:
    assert found.checked.status == "broken"
    assert found.checked.first_break is not None
    assert found.last is None
    return found.checked.first_break.file, found.checked.first_break.offset


def detail(found: Found) -> str:
    assert found.checked.first_break is not None
    return found.checked.first_break.detail


def test_a_whole_journal(journal: Path) -> None:
    found = check_directory(journal)
    checked = found.checked
    assert (checked.status, checked.records, checked.breaks) == ("whole", RECORDS, 0)
    assert (checked.first_seq, checked.last_seq) == (1, RECORDS)
    assert checked.files == len(segments(journal))
    assert (checked.unknown, checked.notes) == ([], [])
    assert found.last is not None
    assert found.last.seq == RECORDS


@pytest.mark.parametrize("seed", range(40))
def test_one_flipped_bit_anywhere_but_in_the_newest_line_shows(journal: Path, seed: int) -> None:
    chance = random.Random(seed)
    path = chance.choice(segments(journal))
    begins = starts(path)
    if path == segments(journal)[-1]:
        begins = begins[:-1]
    data = bytearray(path.read_bytes())
    line = chance.randrange(len(begins))
    end = data.index(b"\n", begins[line])
    at = chance.randrange(begins[line], end + 1)
    data[at] ^= 1 << chance.randrange(8)
    path.write_bytes(data)
    found = check_directory(journal)
    file, offset = place(found)
    # It shows at the line itself where that is no record any more, and else at the next one.
    following = [(path.name, start) for start in begins[line : line + 2]]
    if len(following) < 2 and path != segments(journal)[-1]:
        following.append((segments(journal)[segments(journal).index(path) + 1].name, 0))
    if path == segments(journal)[-1] and len(following) < 2:
        following.append((path.name, starts(path)[-1]))
    assert (file, offset) in following


def test_a_removed_record_shows_where_it_was(journal: Path) -> None:
    path = segments(journal)[1]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], *lines[4:]]))
    found = check_directory(journal)
    assert place(found) == (path.name, sum(map(len, lines[:3])))
    assert "1 missing" in detail(found)
    assert found.checked.breaks == 1
    assert found.checked.records == RECORDS - 1


@pytest.mark.parametrize("cut", [1, 0])
def test_a_segment_that_was_cut_shows(journal: Path, cut: int) -> None:
    """In the middle of a record (`cut` bytes behind its start), and between two."""
    path, following = segments(journal)[1:3]
    begin = starts(path)[-2]
    with path.open("r+b") as handle:
        handle.truncate(begin + cut)
    expected = [(following.name, 0), (path.name, begin)][cut]
    assert place(check_directory(journal)) == expected


def test_a_missing_segment_in_the_middle_shows(journal: Path) -> None:
    path, following = segments(journal)[2:4]
    missing = len(starts(path))
    path.unlink()
    found = check_directory(journal)
    assert place(found) == (following.name, 0)
    assert f"{missing} missing" in detail(found)


def test_the_oldest_segments_may_have_left(journal: Path) -> None:
    gone = 0
    for path in segments(journal)[:2]:
        gone += len(starts(path))
        path.unlink()
    checked = check_directory(journal).checked
    assert (checked.status, checked.records) == ("whole", RECORDS - gone)
    assert checked.notes == [f"It begins with record {gone + 1}; older ones have left."]


def test_first_records_that_are_missing_from_the_first_segment_show(journal: Path) -> None:
    path = segments(journal)[0]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[2:]))
    assert place(check_directory(journal)) == (path.name, 0)


def test_an_unfinished_newest_record_is_no_break(journal: Path) -> None:
    """The agent itself cuts it off when it starts again after a loss of power."""
    path = segments(journal)[-1]
    with path.open("ab") as handle:
        handle.write(b'{"t":1')
    checked = check_directory(journal).checked
    assert (checked.status, checked.records) == ("whole", RECORDS)
    assert "unfinished" in checked.notes[0]


def test_a_line_that_is_longer_than_any_record_ends_the_check(journal: Path) -> None:
    path = segments(journal)[-1]
    end = path.stat().st_size
    with path.open("r+b") as handle:
        handle.truncate(1 << 34)  # a sparse file of 16 GiB
    assert place(check_directory(journal)) == (path.name, end)


def test_links_are_not_followed(journal: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.ndjson"
    segments(journal)[-1].rename(elsewhere)
    held = len(segments(journal))
    (journal / "00009999.ndjson").symlink_to(elsewhere)
    (tmp_path / "home" / "loop").symlink_to(tmp_path / "home")
    (tmp_path / "home" / "runs").mkdir()
    (tmp_path / "home" / "runs" / "journal").symlink_to(journal)
    os.mkfifo(journal / "gaps.ndjson")
    os.mkfifo(journal / "2.spans")
    (journal / "2.data").mkdir()
    assert journals_below(tmp_path / "home") == [journal]
    assert check_directory(journal).checked.files == held


def mirrored(journal: Path, root: Path, *, leave_out: range = range(0)) -> Path:
    """Keep a journal as a console does, in pieces, without those with a number in `leave_out`."""
    stream = SegmentStream(journal, 1 << 20, segment_bytes=2000, keep_unreleased=True)
    mirror = Mirror(root)
    mirror.use("01ABC")
    cursor, number = "start", 0
    while True:
        chunk = stream.read(cursor, 700)
        if chunk.data and number not in leave_out:
            mirror.append("journal", chunk.start, chunk.next, chunk.data)
        if not chunk.more:
            break
        cursor, number = chunk.next, number + 1
    stream.close()
    return root / "01ABC" / "journal"


def test_what_a_console_keeps_is_whole(journal: Path, tmp_path: Path) -> None:
    kept = mirrored(journal, tmp_path / "mirror")
    assert journals_below(tmp_path / "mirror") == [kept]
    found, at_home = check_directory(kept, "kept", "a"), check_directory(journal)
    assert (found.checked.status, found.checked.records) == ("whole", RECORDS)
    assert found.last == at_home.last


def test_what_was_not_kept_is_unknown_and_no_break(journal: Path, tmp_path: Path) -> None:
    kept = mirrored(journal, tmp_path / "mirror", leave_out=range(3, 5))
    checked = check_directory(kept, "kept", "a").checked
    assert checked.status == "unknown"
    assert (checked.breaks, checked.first_break) == (0, None)
    assert "not kept" in checked.unknown[0]


def test_a_kept_file_that_was_cut_shows_also_at_its_end(journal: Path, tmp_path: Path) -> None:
    """What was kept is written beside it, so a cut between two records of the newest file shows."""
    kept = mirrored(journal, tmp_path / "mirror")
    path = max(kept.glob("*.data"), key=lambda path: int(path.stem))
    begin = starts(path)[-1]
    with path.open("r+b") as handle:
        handle.truncate(begin)
    assert place(check_directory(kept, "kept", "a")) == (path.name, begin)


def test_a_record_that_was_zeroed_is_no_hole(journal: Path, tmp_path: Path) -> None:
    kept = mirrored(journal, tmp_path / "mirror")
    path = kept / "2.data"
    begin, end = starts(path)[1:3]
    with path.open("r+b") as handle:
        handle.seek(begin)
        handle.write(b"\0" * (end - begin))
    assert place(check_directory(kept, "kept", "a")) == (path.name, begin)


def test_a_file_that_the_pod_had_lost_before_it_was_read_is_unknown(
    journal: Path, tmp_path: Path
) -> None:
    kept = mirrored(journal, tmp_path / "mirror")
    (kept / "3.data").unlink()
    (kept / "3.spans").unlink()
    assert check_directory(kept, "kept", "a").checked.status == "broken"
    mirror = Mirror(tmp_path / "mirror")
    mirror.note_gap("journal", Cursor(3, 0).gap(None, "aged out before it was read"))
    checked = check_directory(kept, "kept", "a").checked
    assert (checked.status, checked.breaks) == ("unknown", 0)


def test_a_pod_that_lost_records_with_its_power_is_told_apart(
    journal: Path, tmp_path: Path
) -> None:
    """The console had read records that never reached the pod's disk: two chains meet."""
    kept = mirrored(journal, tmp_path / "mirror")
    last = segments(journal)[-1]
    lines = last.read_bytes().splitlines(keepends=True)
    last.write_bytes(b"".join(lines[:-2]))
    stream = SegmentStream(journal, 1 << 20, segment_bytes=2000, keep_unreleased=True)
    stream._begin(stream._current + 1)  # what a start after a reboot does
    Journal(stream).append("note", run=None, text="after", who="tester")
    chunk = stream.read(f"{stream._current}:0", 65536)
    stream.close()
    mirror = Mirror(tmp_path / "mirror")
    mirror.append("journal", chunk.start, chunk.next, chunk.data)
    assert check_directory(journal).checked.status == "whole"
    found = check_directory(kept, "kept", "a")
    assert place(found)[1] == 0
    assert "loss of power" in detail(found)


@pytest.mark.parametrize("trainer", ["prime-rl-2026-01", "prime-rl", "verl"])
def test_journals_of_an_earlier_version_are_whole(trainer: str, tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / trainer, tmp_path / "copy")
    below = journals_below(tmp_path / "copy")
    assert len(below) == 2
    for directory in below:
        checked = check_directory(directory).checked
        assert (checked.status, checked.notes) == ("whole", [])
        assert checked.records > 20
    home = next(directory for directory in below if directory.parent.name == "state")
    path = home / "00000001.ndjson"
    data = bytearray(path.read_bytes())
    data[data.index(b'"who":"') + 8] ^= 1
    path.write_bytes(data)
    assert check_directory(home).checked.status == "broken"
