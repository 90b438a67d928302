"""What goes into a crash report, and what must not."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_agent.daemon import Daemon
from bs4_agent.recorder.recorder import show_reports
from bs4_agent.recorder.report import LINES, kernel_lines, without_secrets
from bs4_agent.streams.registry import Streams
from bs4_common.errors import BadCursor
from bs4_common.ledger import Ledger
from bs4_common.streams.whole import WholeFile


def test_values_of_what_sounds_like_a_secret_stay_out_and_all_else_stays() -> None:
    config = b"""max_tokens = 128
[wandb]
api_key = "canary-1"
WANDB_API_KEY= 'canary-2'
"hf.token" = "canary-3"
project = "keyboard"
  secret_access = "canary-4" # the old one
use_token = true
"""
    cleaned = without_secrets(config)
    assert b"canary" not in cleaned
    assert cleaned.count(b'"(left out)"') == 4
    for kept in (
        b"max_tokens = 128\n",
        b'project = "keyboard"\n',
        b"use_token = true\n",
        b"[wandb]\n",
    ):
        assert kept in cleaned


@pytest.mark.parametrize(
    "name",
    [
        b" " * 300 + b"api_key = ",
        b"a" * 300 + b".api_key = ",
        b"api_key" + b"s" * 300 + b" = ",
        b"api_key" + b"\t" * 300 + b"= ",
        b"api_key =" + b" " * 300,
    ],
)
def test_a_secret_stays_out_however_far_it_stands_from_the_start_of_its_line(name: bytes) -> None:
    assert without_secrets(name + b'"canary"\nsteps = 3\n') == name + b'"(left out)"\nsteps = 3\n'
    assert without_secrets(name + b"12" * 300 + b"\n") == name + b"12" * 300 + b"\n"


@pytest.mark.parametrize("line", [b"secret.path = 'a'\n", b"a key = 'b'\n", b"x = 'key = b'\n"])
def test_a_line_without_the_name_of_a_secret_stays(line: bytes) -> None:
    assert without_secrets(line) == line


def test_the_kernels_own_lines_are_told_as_dmesg_does(tmp_path: Path) -> None:
    records = b"".join(b"6,%d,%d,-;line %d\n" % (n, n * 1_000_001, n) for n in range(LINES + 5))
    (tmp_path / "kmsg").write_bytes(
        records + b"30,9,5,-;a daemon's line\n SUBSYSTEM=pci\n3,9001,7000000,-;NVRM: Xid "
        b"(PCI:0000:01:00): 79\n"
    )
    lines = (kernel_lines(tmp_path) or b"").splitlines()
    assert len(lines) == LINES
    assert lines[-1] == b"[    7.000000] NVRM: Xid (PCI:0000:01:00): 79"
    assert (kernel_lines(tmp_path, 7.0) or b"").splitlines()[0] == b"[    7.000007] line 7"
    assert lines[-2] == b"[%5d.%06d] line %d" % (LINES + 4, LINES + 4, LINES + 4)


def test_a_kernel_log_that_may_not_be_read_is_not_an_empty_one(tmp_path: Path) -> None:
    assert kernel_lines(tmp_path) is None


def test_a_report_is_read_whole_and_its_cursors_end_when_it_is_written_anew(tmp_path: Path) -> None:
    file = tmp_path / "demo.1.report.tar.gz"
    file.write_bytes(b"0123456789")
    stream = WholeFile(file)
    first = stream.read("start", 6)
    second = stream.read(first.next, 6)
    assert (first.data, first.more, second.data, second.more) == (b"012345", True, b"6789", False)
    assert stream.read("end", 6).data == b""
    assert stream.stat()["bytes"] == 10
    file.write_bytes(b"abcdef")
    os.utime(file, (1, 1))
    with pytest.raises(BadCursor, match="written anew"):
        stream.read(first.next, 6)
    file.unlink()
    with pytest.raises(BadCursor, match="is gone"):
        stream.read("start", 6)


def test_reports_are_streams_beside_logs_and_no_thread_looks_at_them(tmp_path: Path) -> None:
    (tmp_path / "demo.1.report.tar.gz").write_bytes(b"x")
    (tmp_path / "demo.2.report.partial").write_bytes(b"x")
    streams = Streams()
    before = threading.active_count()
    show_reports(streams, tmp_path)
    show_reports(streams, tmp_path)
    assert streams.names() == ["report/demo.1"]
    assert streams.read("report/demo.1", "start").data == b"x"
    assert [s["name"] for s in streams.query("*", "list", {})["streams"]] == ["report/demo.1"]
    assert threading.active_count() == before
    streams.close()


@pytest.mark.parametrize(
    ("stopped", "repaired", "reported"),
    [(False, "", True), (True, "", False), (True, "other", False), (True, "demo", True)],
)
def test_a_run_that_a_repair_stopped_is_reported_and_one_that_a_person_stopped_is_not(
    stopped: bool, repaired: str, reported: bool
) -> None:
    ledger, asked = Ledger(), []
    if repaired:
        accepted = {"type": "action", "event": "accepted", "kind": "playbook", "run": repaired}
        ledger.apply({**accepted, "action": "01J", "who": "jo", "body": {}, "t": 1.0})
    agent: Any = SimpleNamespace(
        runs=SimpleNamespace(stop_requested=lambda run, attempt: stopped),
        book=SimpleNamespace(ledger=ledger),
        _recorder=SimpleNamespace(crashed=lambda run, attempt: asked.append((run, attempt))),
    )
    ended = {"type": "run", "event": "attempt-ended", "run": "demo", "attempt": 2, "good": False}
    Daemon._record_crashes(agent, ended)
    assert asked == [("demo", 2)] * reported
