"""Lines of the kernel log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bs4_agent.telemetry.kernel import KernelLog, parse

BOOT = 1_700_000_000.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            {"kind": "xid", "xid": 79, "pci": "0000:1b:00"},
        ),
        (
            "NVRM: Xid (PCI:0000:9c:00): 31, pid=4242, name=python3, Ch 00000008, intr 00000000",
            {"kind": "xid", "xid": 31, "pci": "0000:9c:00", "pid": 4242, "process": "python3"},
        ),
        ("NVRM: Xid (0000:03:00): 13, Graphics Exception", {"kind": "xid", "xid": 13, "pci": "0000:03:00"}),
        (
            "NVRM: Xid (PCI:0000:1b:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x1 0x2)",
            {"kind": "xid", "xid": 149, "pci": "0000:1b:00"},
        ),
        (
            "nvidia-nvswitch3: SXid (PCI:0000:c3:00.0): 12028, Non-fatal, Link 32 egress",
            {"kind": "sxid", "xid": 12028, "pci": "0000:c3:00.0"},
        ),
        ("NVRM: The NVIDIA GPU 0000:1b:00.0 has fallen off the bus.", {"kind": "gpu-off-bus"}),
        ("Out of memory: Killed process 812 (ray::IDLE) total-vm:1kB", {"kind": "oom-kill", "pid": 812, "process": "ray::IDLE"}),
        ("Memory cgroup out of memory: Killed process 9 (python) total-vm:1kB", {"kind": "oom-kill", "pid": 9, "process": "python"}),
        ("Memory cgroup out of memory: Kill process 9 (python) score 900", {"kind": "oom-kill", "pid": 9, "process": "python"}),
    ],
)
def test_what_is_a_fact(text: str, expected: dict[str, object]) -> None:
    assert parse(f"4,811,123456789,-;{text}".encode(), BOOT) == {"t": 1700000123.457, "m": 123.457, "text": text, **expected}


@pytest.mark.parametrize(
    "line",
    [
        b"6,1,2,-;eth0: link up",
        b"12,1,2,-;NVRM: Xid (PCI:0000:1b:00): 79, written by a process",
        b"4,1,2,-;systemd: completion said: Xid 79",
        b" SUBSYSTEM=pci",
        b"nonsense",
        b"",
        b"4;NVRM: Xid (PCI:0000:1b:00): 79",
    ],
)
def test_what_is_none(line: bytes) -> None:
    assert parse(line, BOOT) is None


def test_records_arrive_once_and_continue(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "kmsg")
    log = KernelLog(tmp_path / "kmsg")
    assert log.state == "visible"
    with (tmp_path / "kmsg").open("wb", buffering=0) as kernel:
        kernel.write(b"4,1,1000000,-;NVRM: Xid (PCI:0000:1b:00): 48, one\n SUBSYSTEM=pci\n6,2,1500000,-;quiet\n")
        assert [(fact["xid"], fact["m"]) for fact in log.read()] == [(48, 1.0)]
        assert log.read() == []
        kernel.write(b"4,3,2000000,-;NVRM: Xid (PCI:0000:1b:00): 95, two\n")
        assert [fact["xid"] for fact in log.read()] == [95]
    log.close()
    assert log.state == "hidden"
    assert log.read() == []


def test_the_first_record_is_not_lost_to_the_test_of_readability(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_bytes(b"4,1,1000000,-;NVRM: Xid (PCI:0000:1b:00): 48, one\n")
    assert [fact["xid"] for fact in KernelLog(path).read()] == [48]


def test_a_hidden_log_says_why(tmp_path: Path) -> None:
    log = KernelLog(tmp_path / "none")
    assert (log.state, log.detail) == ("hidden", f"{tmp_path / 'none'}: No such file or directory")
    assert log.read() == []
