"""Lines of the kernel log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bs4_agent.telemetry.kernel import KernelLog


@pytest.mark.parametrize(
    "line",
    [
        b"12,1,2,-;NVRM: Xid (PCI:0000:1b:00): 79, written by a process",
        b" SUBSYSTEM=pci",
        b"nonsense",
        b"",
        b"4;NVRM: Xid (PCI:0000:1b:00): 79",
    ],
)
def test_what_the_kernel_did_not_say(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "kmsg"
    path.touch()
    log = KernelLog(tmp_path)
    path.write_bytes(line + b"\n6,1,2,-;eth0: link up\n")
    assert log.read() == [b"6,1,2,-;eth0: link up"]


def test_records_arrive_once_and_whole(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "kmsg")
    log = KernelLog(tmp_path)
    assert log.state == "visible"
    assert log.read() == []
    with (tmp_path / "kmsg").open("wb", buffering=0) as kernel:
        kernel.write(b"4,1,1000000,-;one\n SUBSYSTEM=pci\n6,2,1500000,-;two\n4,3,20")
        assert log.read() == [b"4,1,1000000,-;one", b"6,2,1500000,-;two"]
        assert log.read() == []
        kernel.write(b"00000,-;three\n")
        assert log.read() == [b"4,3,2000000,-;three"]
    log.close()
    assert log.state == "hidden"
    assert log.read() == []


def test_what_was_said_before_is_the_past(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_bytes(b"4,1,1000000,-;long ago\n")
    log = KernelLog(tmp_path)
    with path.open("ab") as more:
        more.write(b"4,2,1000000,-;now\n")
    assert log.read() == [b"4,2,1000000,-;now"]


def test_a_hidden_log_says_why(tmp_path: Path) -> None:
    log = KernelLog(tmp_path)
    assert (log.state, log.detail) == ("hidden", f"{tmp_path / 'kmsg'}: No such file or directory")
    assert log.read() == []
