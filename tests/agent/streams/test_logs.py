from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_common.errors import BadCursor
from bs4_common.streams import chain, generations, logs
from bs4_common.streams.cursor import Chunk
from bs4_common.streams.logs import PARTIAL_BYTES, LogStream
from tests.agent.streams.tiny import kill, until


class Follower:
    """A log of one run and a reader of its stream that keeps what it was given, like a console."""

    def __init__(self, root: Path, *, archive: bool = True) -> None:
        self.path = root / "logs" / "trainer.log"
        self.path.parent.mkdir()
        self.root, self.archive = root, root / "archive" if archive else None
        self.told: list[dict[str, Any]] = []
        self.cursor = "start"
        self.lines: list[bytes] = []
        self.gaps: list[dict[str, Any]] = []
        self.stream = self.open()
        self.stream.follow(self.path, 1)

    def open(self) -> LogStream:
        return LogStream(
            "log/r/trainer",
            self.archive,
            self.root / "state" / "trainer.json",
            on_gap=self.told.append,
        )

    def restart(self) -> None:
        kill(self.stream)
        self.stream = self.open()

    def write(self, *lines: str) -> None:
        with self.path.open("a") as handle:
            handle.writelines(f"{line}\n" for line in lines)

    def read(self, limit: int = 262144) -> list[bytes]:
        """Everything that can be read now, after a look; also kept in `lines` and `gaps`."""
        self.stream.poll()
        new: list[bytes] = []
        while True:
            chunk = self.stream.read(self.cursor, limit)
            if chunk.gap:
                self.gaps.append(chunk.gap)
            elif chunk.repeats or not chunk.data:
                self.cursor = chunk.next
                self.lines += new
                return new
            new += chunk.data.splitlines()
            self.cursor = chunk.next

    def read_until(self, last: bytes) -> list[bytes]:
        """Read on until a line comes, which may take the second that a replaced file must be
        quiet.
        """
        count = len(self.lines)
        until(lambda: self.read() is not None and last in self.lines[count:], f"the line {last!r}")
        return self.lines[count:]


@pytest.fixture
def log(tmp_path: Path) -> Follower:
    return Follower(tmp_path)


@pytest.fixture
def unlinked(tmp_path: Path) -> Follower:
    """A log on a filesystem where no hard link can be made."""
    return Follower(tmp_path, archive=False)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers go on at once when a file was replaced: its writer has closed it."""
    monkeypatch.setattr(chain, "QUIET_S", 0.0)


def raw(stream: LogStream, cursor: str, limit: int = 262144) -> Chunk:
    return stream.read(cursor, limit)


def test_a_log_that_is_not_there_yet(log: Follower) -> None:
    assert log.read() == []
    assert log.cursor == "1:0"
    log.write("one", "two")
    assert log.read() == [b"one", b"two"]
    assert log.read() == []
    log.write("three")
    assert log.read() == [b"three"]
    assert log.cursor == "1:14"


def test_bytes_are_never_altered(log: Follower) -> None:
    content = b"\x1b[31mred\x1b[0m\r 10%\r 20%\n\xff\xfe\x00\r\n\n\n"
    log.path.write_bytes(content)
    log.stream.poll()
    assert raw(log.stream, "start").data == content


def test_rename_and_recreate(log: Follower, at_once: None) -> None:
    log.write("a1", "a2")
    assert log.read() == [b"a1", b"a2"]
    log.write("a3")
    log.path.rename(log.path.with_suffix(".log.1"))
    log.write("b1")
    assert log.read() == [b"a3", b"b1"]
    assert log.gaps == []
    described = log.stream.stat()["generations"]
    assert [(g["generation"], g["state"], g["linked"]) for g in described] == [
        (1, "finished", True),
        (2, "live", True),
    ]


def test_a_writer_that_still_holds_the_renamed_file_loses_nothing(log: Follower) -> None:
    with log.path.open("a", buffering=1) as old:
        old.write("a1\n")
        assert log.read() == [b"a1"]
        log.path.rename(log.path.with_suffix(".log.1"))
        log.write("b1")
        log.read()
        old.write("a2\n")
    assert log.read_until(b"b1") == [b"a2", b"b1"]


def test_late_writes_are_told_and_can_still_be_read(log: Follower, at_once: None) -> None:
    with log.path.open("a", buffering=1) as old:
        old.write("a1\n")
        log.read()
        log.path.rename(log.path.with_suffix(".log.1"))
        log.write("b1")
        assert log.read() == [b"b1"]
        old.write("late\n")
        log.stream.poll()
    (told,) = log.told
    assert (told["generation"], told["from"], told["to"]) == (1, 3, 8)
    assert raw(log.stream, "1:3").data == b"late\n"


def test_unlink_before_it_was_read_loses_nothing_even_over_a_restart(
    log: Follower, at_once: None
) -> None:
    log.write("a1", "a2")
    log.stream.poll()
    log.path.unlink()
    log.restart()
    assert log.read() == [b"a1", b"a2"]
    log.write("b1")
    assert log.read() == [b"b1"]
    shutil.rmtree(log.path.parent)
    log.restart()
    log.cursor, log.lines = "start", []
    assert log.read() == [b"a1", b"a2", b"b1"]
    assert log.gaps == []


def test_the_archive_holds_a_hard_link_and_costs_no_space(log: Follower) -> None:
    log.write("a1")
    log.stream.poll()
    assert log.archive is not None
    (link,) = log.archive.iterdir()
    assert link.name == "trainer.log.000001"
    assert link.samefile(log.path)


def test_without_links_a_deleted_file_stays_readable_while_the_agent_lives(
    unlinked: Follower, at_once: None
) -> None:
    unlinked.write("a1", "a2")
    unlinked.stream.poll()
    unlinked.path.unlink()
    unlinked.write("b1")
    assert unlinked.read() == [b"a1", b"a2", b"b1"]
    assert unlinked.gaps == []


def test_without_links_a_file_deleted_while_no_agent_lived_is_a_gap(unlinked: Follower) -> None:
    unlinked.write("a1", "a2")
    unlinked.stream.poll()
    first = raw(unlinked.stream, "start", 3)
    assert (first.data, first.next) == (b"a1\n", "1:3")
    unlinked.cursor = first.next
    unlinked.path.unlink()
    unlinked.write("b1")
    unlinked.restart()
    assert unlinked.read() == [b"b1"]
    (gap,) = unlinked.gaps
    assert (gap["generation"], gap["from"], gap["to"]) == (1, 3, None)
    assert "while no agent watched" in gap["reason"]
    assert len(unlinked.told) == 1


def test_without_links_a_finished_file_that_goes_is_a_gap_with_both_bounds(
    unlinked: Follower, at_once: None
) -> None:
    unlinked.write("a1", "a2")
    unlinked.stream.poll()
    aside = unlinked.path.with_suffix(".log.1")
    unlinked.path.rename(aside)
    unlinked.write("b1")
    unlinked.stream.poll()
    unlinked.stream.poll()
    unlinked.restart()
    # Found again under its rotated name, by what it is.
    assert raw(unlinked.stream, "1:0").data == b"a1\na2\n"
    aside.unlink()
    assert raw(unlinked.stream, "1:3").gap == {
        "generation": 1,
        "from": 3,
        "to": 6,
        "reason": "the file was deleted",
    }
    # Who had read all of it misses nothing.
    assert raw(unlinked.stream, "1:6").data == b"b1\n"


def test_truncation_before_reading_is_a_gap(log: Follower) -> None:
    log.write("a1", "a2")
    log.stream.poll()
    os.truncate(log.path, 0)
    log.write("b1")
    assert log.read() == [b"b1"]
    (gap,) = log.gaps
    assert gap == {
        "generation": 1,
        "from": 0,
        "to": None,
        "reason": "the file was truncated or rewritten in place",
    }
    assert log.told == [gap]


def test_truncation_after_reading_says_that_something_may_be_missing(log: Follower) -> None:
    log.write("a1", "a2")
    log.read()
    os.truncate(log.path, 0)
    log.write("b1")
    assert log.read() == [b"b1"]
    assert [(gap["from"], gap["to"]) for gap in log.gaps] == [(6, None)]
    log.write("b2")
    log.restart()
    assert log.read() == [b"b2"]
    assert len(log.gaps) == 1


@pytest.mark.parametrize("content", ["b" * 600 + "\n" + "c1\n" * 50, "a1\nX2\n", "X1\na2\na3\n"])
def test_a_file_rewritten_in_place_is_never_taken_for_the_old_one(
    log: Follower, content: str
) -> None:
    log.write("a1", "a2")
    log.read()
    inode = log.path.stat().st_ino
    with log.path.open("r+") as handle:
        handle.truncate(0)
        handle.write(content)
    assert log.path.stat().st_ino == inode
    # No poll in between: the read itself has to notice.
    chunk = raw(log.stream, log.cursor)
    assert chunk.gap is not None
    assert raw(log.stream, chunk.next).data == content.encode()


def test_a_rewrite_behind_the_same_banner_is_noticed(log: Follower) -> None:
    banner = "*" * 400 + "\n"
    log.path.write_text(banner + "".join(f"first {n}\n" for n in range(50)))
    log.read()
    content = banner + "".join(f"second {n}\n" for n in range(80))
    with log.path.open("r+") as handle:
        handle.truncate(0)
        handle.write(content)
    chunk = raw(log.stream, log.cursor)
    assert chunk.gap is not None
    assert raw(log.stream, chunk.next).data == content.encode()


def test_a_rewrite_while_no_agent_lived_is_noticed(log: Follower) -> None:
    log.write("a1" * 200)
    log.read()
    with log.path.open("r+") as handle:
        handle.truncate(0)
        handle.write("b1" * 400 + "\n")
    log.restart()
    assert log.read() == [b"b1" * 400]
    assert [gap["generation"] for gap in log.gaps] == [1]


def test_a_rewrite_behind_the_same_banner_while_no_agent_lived_is_noticed(log: Follower) -> None:
    banner = "*" * 400 + "\n"
    log.path.write_text(banner + "".join(f"first {n}\n" for n in range(50)))
    log.read()
    content = banner + "".join(f"second {n}\n" for n in range(80))
    with log.path.open("r+") as handle:
        handle.truncate(0)
        handle.write(content)
    log.restart()
    assert log.read() == content.encode().splitlines()
    assert [gap["generation"] for gap in log.gaps] == [1]


def test_a_file_that_only_grew_while_no_agent_lived_goes_on(log: Follower) -> None:
    log.write("a1")
    log.read()
    log.write("a2")
    log.restart()
    assert log.read() == [b"a2"]
    log.restart()
    log.write("a3")
    assert log.read() == [b"a3"]
    assert log.gaps == []


def test_a_log_that_an_older_agent_has_saved_without_a_mark_goes_on(log: Follower) -> None:
    log.write("a1")
    log.read()
    kill(log.stream)
    state = log.root / "state" / "trainer.json"
    saved = json.loads(state.read_text())
    assert list(saved.pop("marks")) == ["1"]
    assert "mark" not in saved["generations"][0], "an older agent refuses what it does not know"
    state.write_text(json.dumps(saved))
    log.write("a2")
    log.stream = log.open()
    assert log.read() == [b"a2"]
    assert log.gaps == []


def test_a_rewrite_in_the_very_moment_of_reading_is_noticed(
    log: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write("a1", "a2", "a3" * 500)
    log.stream.poll()
    content = "b1\n" * 2000
    real = os.pread

    def pread(fd: int, count: int, offset: int) -> bytes:
        if (count, offset) == (log_size, 0):
            with log.path.open("r+") as handle:
                handle.truncate(0)
                handle.write(content)
        return real(fd, count, offset)

    log_size = log.path.stat().st_size
    monkeypatch.setattr(os, "pread", pread)
    chunk = raw(log.stream, "start")
    monkeypatch.undo()
    assert (chunk.data, chunk.gap is not None) == (b"", True)
    assert raw(log.stream, chunk.next).data == content.encode()


@pytest.mark.parametrize(("boot", "found"), [(None, False), ("another-boot", True)])
def test_device_numbers_mean_something_within_one_boot_only(
    log: Follower, boot: str | None, found: bool
) -> None:
    log.write("one")
    log.read()
    state = log.root / "state" / "trainer.json"
    saved = json.loads(state.read_text())
    saved["generations"][0]["device"] += 1
    saved["generations"][0]["boot"] = boot or saved["generations"][0]["boot"]
    state.write_text(json.dumps(saved))
    log.restart()
    log.write("two")
    log.read()
    assert (log.gaps == []) is found
    assert log.lines == ([b"one", b"two"] if found else [b"one", b"one", b"two"])


def test_growth_between_two_looks_is_no_rewrite(log: Follower) -> None:
    log.write("a")
    assert log.read() == [b"a"]
    for n in range(300):
        log.write(f"line {n}")
        if n % 7 == 0:
            log.read()
    log.read()
    assert log.lines == [b"a", *(f"line {n}".encode() for n in range(300))]
    assert len(log.stream.stat()["generations"]) == 1


def test_files_rotated_twice_between_two_looks_are_found(log: Follower, at_once: None) -> None:
    log.write("a1")
    log.read()
    for letter in "bcd":
        for number in (3, 2, 1):
            older = log.path.with_name(f"trainer.log.{number}")
            if older.exists():
                older.rename(log.path.with_name(f"trainer.log.{number + 1}"))
        log.path.rename(log.path.with_name("trainer.log.1"))
        log.write(f"{letter}1")
        until(lambda: time.time() - log.path.stat().st_mtime > 0.02, "another time stamp")
    assert log.read() == [b"b1", b"c1", b"d1"]
    assert log.gaps == []


def test_old_rotated_files_and_strangers_are_left_alone(log: Follower, at_once: None) -> None:
    old = log.path.with_name("trainer.log.7")
    old.write_text("from another life\n")
    os.utime(old, (1, 1))
    log.write("a1")
    log.read()
    log.path.with_name("trainer.log.lock").write_text("no log\n")
    log.path.with_name("trainer.logbook").write_text("no log\n")
    log.path.rename(log.path.with_name("trainer.log.1"))
    log.write("b1")
    assert log.read() == [b"b1"]


def test_each_attempt_is_a_further_generation(log: Follower, at_once: None, tmp_path: Path) -> None:
    log.write("one")
    log.stream.poll()
    second = tmp_path / "logs" / "second.log"
    log.stream.follow(second, 2)
    assert log.read() == [b"one"]
    second.write_text("two\n")
    assert log.read() == [b"two"]
    log.stream.follow(log.path, 1)  # replayed after a restart: an earlier attempt changes nothing
    stat = log.stream.stat()
    assert (stat["path"], stat["attempt"]) == (str(second), 2)
    assert [(g["attempt"], g["path"]) for g in stat["generations"]] == [
        (1, str(log.path)),
        (2, str(second)),
    ]


def test_an_inode_that_is_used_again_is_another_file(unlinked: Follower, at_once: None) -> None:
    unlinked.write("a1")
    unlinked.read()
    unlinked.path.unlink()
    unlinked.write("b1")
    # Whether a filesystem gives the number out again at once is its own affair (ext4 does): make it
    # so.
    state = unlinked.root / "state" / "trainer.json"
    saved = json.loads(state.read_text())
    saved["generations"][0]["inode"] = unlinked.path.stat().st_ino
    state.write_text(json.dumps(saved))
    unlinked.restart()
    assert unlinked.read() == [b"b1"]
    assert len(unlinked.gaps) == 1


class Clock:
    """The monotonic clock of a log, moved by hand, so that no boundary falls between two reads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        for module in (logs, generations):
            told = SimpleNamespace(monotonic=lambda: self.now, time=time.time)
            monkeypatch.setattr(module, "time", told)


def begun(log: Follower, text: str) -> None:
    """Write what is younger than any clock of the machine may say."""
    log.path.write_text(text)
    os.utime(log.path, (time.time() + 3600, time.time() + 3600))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_an_unfinished_line_is_shown_after_a_second_and_comes_again(
    clock: Clock, log: Follower
) -> None:
    begun(log, "whole\nunfin")
    assert log.read() == [b"whole"]
    assert log.cursor == "1:6"
    clock.now += 0.99
    assert raw(log.stream, "1:6").data == b""
    clock.now += 0.02
    chunk = raw(log.stream, "1:6")
    assert (chunk.data, chunk.partial, chunk.start, chunk.next) == (b"unfin", True, "1:6", "1:6")
    with log.path.open("a") as handle:
        handle.write("ished\nnext\n")
    chunk = raw(log.stream, "1:6")
    assert (chunk.data, chunk.partial, chunk.next) == (b"unfinished\nnext\n", False, "1:22")


def test_an_old_unfinished_line_is_shown_at_once(log: Follower) -> None:
    log.path.write_text("unfinished")
    os.utime(log.path, (time.time() - 5, time.time() - 5))
    log.stream.poll()
    assert raw(log.stream, "start").data == b"unfinished"


def test_a_growing_line_is_shown_once_a_second_to_all_alike(clock: Clock, log: Follower) -> None:
    begun(log, "0%")
    log.stream.poll()
    shown: list[bytes] = []
    for _ in range(140):
        with log.path.open("a") as handle:
            handle.write("\r1%")
        log.stream.poll()
        first, second = raw(log.stream, "1:0"), raw(log.stream, "1:0")
        assert first.data == second.data
        if first.data and first.data not in shown:
            shown.append(first.data)
        clock.now += 0.02
    assert len(shown) == 2, "after 1 s and after 2 s, of 2.8 s"


def test_an_endless_line_comes_in_pieces_once_each(log: Follower) -> None:
    content = b"".join(b"\r%d%%" % n for n in range(20000))
    log.path.write_bytes(content)
    os.utime(log.path, (1, 1))
    log.stream.poll()
    chunk = raw(log.stream, "1:0")
    assert chunk.partial
    assert not chunk.repeats
    assert chunk.data == content
    with log.path.open("ab") as handle:
        handle.write(b"end\n")
    assert raw(log.stream, chunk.next).data == b"end\n"
    assert len(content) > PARTIAL_BYTES


def test_a_line_longer_than_the_limit_comes_in_pieces(log: Follower) -> None:
    log.write("x" * 1000, "short")
    log.stream.poll()
    pieces, cursor = [], "start"
    while (chunk := raw(log.stream, cursor, 300)).data:
        pieces.append(chunk)
        cursor = chunk.next
    assert b"".join(piece.data for piece in pieces) == b"x" * 1000 + b"\nshort\n"
    assert [piece.partial for piece in pieces] == [True, True, True, False]


def test_a_file_that_ends_without_lf_gives_its_last_line_marked(
    log: Follower, at_once: None
) -> None:
    log.path.write_text("one\nlast words")
    log.read()
    log.path.rename(log.path.with_suffix(".log.1"))
    log.write("b1")
    log.stream.poll()
    chunk = raw(log.stream, log.cursor)
    assert (chunk.data, chunk.partial, chunk.start, chunk.next, chunk.more) == (
        b"last words",
        True,
        "1:4",
        "1:14",
        True,
    )
    assert raw(log.stream, chunk.next).data == b"b1\n"


def test_end_is_where_the_next_whole_line_begins(log: Follower) -> None:
    log.path.write_text("one\ntwo\nunfin")
    log.stream.poll()
    assert raw(log.stream, "end").start == "1:8"
    with log.path.open("a") as handle:
        handle.write("ished\n")
    assert raw(log.stream, "end").start == "1:19"


def test_bad_cursors(log: Follower) -> None:
    log.write("one")
    log.stream.poll()
    for cursor in ("1:99", "3:0", "2:1", "nonsense"):
        with pytest.raises(BadCursor):
            raw(log.stream, cursor)


def test_cursors_outlive_the_agent(log: Follower, at_once: None) -> None:
    expected = []
    for n in range(12):
        log.write(*(f"{n}.{k}" for k in range(5)))
        expected += [f"{n}.{k}".encode() for k in range(5)]
        if n % 3 == 0:
            log.read(limit=20)
        if n % 4 == 3:
            log.stream.poll()
            log.path.unlink()
        if n % 2:
            log.restart()
    log.read()
    log.read()
    assert log.lines == expected
    assert log.gaps == []


def test_a_damaged_state_makes_gaps_and_never_wrong_bytes(log: Follower) -> None:
    log.write("one", "two")
    log.read()
    state = log.root / "state" / "trainer.json"
    state.write_text('{"format":1,"path":')
    log.restart()
    log.stream.follow(log.path, 1)
    assert log.read() == [b"one", b"two"]
    assert [gap["generation"] for gap in log.gaps] == [1]
    assert state.with_name("trainer.json.damaged").exists()


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to(path)])
def test_what_is_no_file_is_waited_out(log: Follower, make: Callable[[Path], object]) -> None:
    make(log.path)
    assert log.read() == []
    if log.path.is_dir():
        log.path.rmdir()
    else:
        log.path.unlink()
    log.write("one")
    assert log.read() == [b"one"]


def test_a_log_that_may_not_be_read_says_so(log: Follower) -> None:
    log.write("one")
    log.path.chmod(0)
    root = os.getuid() == 0
    if root:
        os.seteuid(65534)
    try:
        log.stream.poll()
    finally:
        if root:
            os.seteuid(0)
    assert "cannot be read: Permission denied" in log.stream.stat()["problem"]
    log.path.chmod(0o600)
    assert log.read() == [b"one"]
    assert log.stream.stat()["problem"] == ""


def test_a_hundred_gigabytes_are_nothing_special(log: Follower) -> None:
    log.write("first")
    size = 100 * 2**30
    os.truncate(log.path, size)  # sparse: it has that size and no blocks
    with log.path.open("ab") as handle:
        handle.write(b"\nlast\n")
    began = time.monotonic()
    log.stream.poll()
    assert raw(log.stream, f"1:{size + 1}").data == b"last\n"
    assert raw(log.stream, "end").start == f"1:{size + 6}"
    assert log.stream.stat()["bytes"] == size + 6
    log.stream.poll()
    assert time.monotonic() - began < 20, "read through, it would take minutes"


def test_nothing_is_held_open_for_finished_files_that_are_linked(
    log: Follower, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain, "LATE_S", 0.0)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for n in range(40):
        log.write(f"line {n}")
        log.stream.poll()
        log.path.unlink()
    log.write("end")
    log.stream.poll()
    log.stream.poll()
    log.stream.poll()
    assert len(list(Path("/proc/self/fd").iterdir())) - before <= 2
    assert log.read() == [*(f"line {n}".encode() for n in range(40)), b"end"]


def test_the_chain_is_bounded(
    log: Follower, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain, "MAX_GENERATIONS", 5)
    for n in range(12):
        log.write(f"line {n}")
        log.stream.poll()
        log.path.unlink()
    log.write("end")
    log.stream.poll()
    chunk = raw(log.stream, "2:0")
    assert chunk.gap is not None
    assert raw(log.stream, "start").start.split(":")[0] == chunk.next.split(":")[0]
    log.restart()
    assert log.read()[-1] == b"end"
