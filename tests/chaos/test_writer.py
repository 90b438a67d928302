"""The writer of a round's log, killed at any moment, goes on with the line after its last."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.chaos import writer


class Killed(Exception):
    """Raised in place of a kill."""


class Files:
    """The output directory of a writer, and what it has written to all files of its log."""

    def __init__(self, root: Path) -> None:
        self.out, self.log = root / "out", root / "out" / "logs" / "trainer.stdout"
        self.current = self.out / ".current"
        self.written = b""

    @property
    def numbers(self) -> list[int]:
        """Return the numbers of the whole lines that were written, in order."""
        return [int(number) for number in re.findall(rb" line (\d{8}) .*\n", self.written)]

    @property
    def some_batches(self) -> bool:
        """Return True if more than 20 lines were written and the last is whole."""
        return len(self.numbers) > 20 and self.written.endswith(b"\n")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.setattr(writer, "CONTROL", tmp_path)
    monkeypatch.setattr(writer, "PROGRESS", tmp_path / "progress")
    monkeypatch.setattr(writer, "TICK_S", 0.01)
    return Files(tmp_path)


@pytest.mark.parametrize("lost", ["renamed", "deleted"])
@pytest.mark.parametrize("some", [0, 7])
def test_a_kill_before_the_first_whole_line_of_a_new_file(
    files: Files, monkeypatch: pytest.MonkeyPatch, lost: str, some: int
) -> None:
    real = writer.write

    def write(fd: int, data: bytes) -> None:
        if files.numbers and data and os.fstat(fd).st_size == 0:
            real(fd, data[:some])
            raise Killed
        real(fd, data)
        files.written += data
        if files.some_batches and files.log.exists():
            if lost == "renamed":
                files.log.rename(files.log.with_name("trainer.stdout.1"))
            else:
                files.log.unlink()

    monkeypatch.setattr(writer, "write", write)
    with pytest.raises(Killed):
        writer.flood(files.out)
    number, torn = writer.resumed(files.current)
    assert files.numbers == list(range(number))
    assert len(torn) == some


def test_a_kill_while_a_new_file_gets_its_further_name(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, link = writer.write, os.link

    def write(fd: int, data: bytes) -> None:
        real(fd, data)
        files.written += data
        if files.some_batches and files.log.exists():
            files.log.rename(files.log.with_name("trainer.stdout.1"))

    def killed(source: str, target: Path, *, src_dir_fd: int) -> None:
        if files.numbers:
            raise Killed
        link(source, target, src_dir_fd=src_dir_fd)

    monkeypatch.setattr(writer, "write", write)
    monkeypatch.setattr(os, "link", killed)
    with pytest.raises(Killed):
        writer.flood(files.out)
    assert files.numbers == list(range(writer.resumed(files.current)[0]))
    assert files.numbers


def test_a_log_that_was_cut_to_nothing_goes_on_behind_what_was_written(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = writer.write

    def write(fd: int, data: bytes) -> None:
        if files.some_batches and data:
            raise Killed
        real(fd, data)
        files.written += data

    monkeypatch.setattr(writer, "write", write)
    with pytest.raises(Killed):
        writer.flood(files.out)
    os.truncate(files.log, 0)
    number, torn = writer.resumed(files.current)
    assert number >= len(files.numbers) > 0
    assert torn == b""
