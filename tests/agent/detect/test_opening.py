"""A log is read however it was kept: packed, in UTF-16, with bytes that are no text."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bs4_common.failures.opening import open_log

TEXT = "12:00:01    INFO Ein schöner Tag\n12:00:02   ERROR Fatal error in train\n" * 500
#: What `zstd` makes of "hello\n" (a frame with one raw block and no checksum).
ZSTD = bytes.fromhex("28b52ffd2006310000") + b"hello\n"


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE])
def test_a_log_is_read_as_it_was_written(
    tmp_path: Path, pack: Callable[[bytes], bytes], mark: bytes
) -> None:
    codes = {b"": "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
    path = tmp_path / "trainer.log"
    path.write_bytes(pack(mark + TEXT.encode(codes[mark])))
    with open_log(path) as handle:
        read = b"".join(iter(lambda: handle.read(1001), b""))
        assert os.fstat(handle.fileno()).st_ino == path.stat().st_ino
    assert read.decode() == TEXT


def test_zstd_is_unpacked_by_its_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the program is not installed, a stand-in shows how it is called."""
    path = tmp_path / "trainer.log.zst"
    path.write_bytes(ZSTD)
    if shutil.which("zstd") is None:
        program = tmp_path / "zstd"
        program.write_text('#!/bin/sh\n[ "$1" = -dcq ] && tail -c 6\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with open_log(path) as handle:
        assert handle.read(100) == b"hello\n"
        assert handle.read(100) == b""
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    with pytest.raises(OSError, match="there is no program zstd"):
        open_log(path)


@pytest.mark.parametrize("name", ["gzip", "xz"])
def test_a_packed_log_that_was_cut_off_says_so(tmp_path: Path, name: str) -> None:
    pack = {"gzip": gzip.compress, "xz": lzma.compress}[name]
    path = tmp_path / "trainer.log"
    path.write_bytes(pack(os.urandom(9000))[:5000])
    with open_log(path) as handle, pytest.raises(OSError, match="damaged or cut off"):
        while handle.read(1000):
            pass


def test_a_zstd_log_that_was_cut_off_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trainer.log"
    path.write_bytes(ZSTD[:-3])
    program = tmp_path / "zstd"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with open_log(path) as handle, pytest.raises(OSError, match="damaged or cut off"):
        handle.read(1000)
