"""Headers that no trainer writes: what is taken off, and what is left alone."""

from __future__ import annotations

import pytest

from bs4_agent.trainers.lines import parse

OOM = "Out of memory: Killed process 7 (python)"


@pytest.mark.parametrize(
    ("raw", "timestamp"),
    [
        (f"[  737.095271] {OOM}", 737.095271),
        (f"[12345.678901] [T1234] {OOM}", 12345.678901),
        (f"<4>[  737.095271] {OOM}", 737.095271),
        (f"<4>{OOM}", None),
        (f"6,3964,206764307,-;{OOM}", 206.764307),
        (f"4,12,206764307,-,caller=T1;{OOM}", 206.764307),
        (f"[Sun Feb 23 16:24:18 2025] {OOM}", 1740327858.0),
        (f"kern  :warn  : 2025-01-21T04:41:44,283302+00:00 {OOM}", 1737434504.283302),
        (f"kern  :err   : [  737.095271] {OOM}", 737.095271),
        (f"2025-01-21T05:41:44.283302+01:00 {OOM}", 1737434504.283302),
        (f"2025-01-21T04:41:44.283302+00:00 node7 kernel: {OOM}", 1737434504.283302),
        (f"Nov 20 21:05:28 node7 kernel: [  737.095271] {OOM}", 737.095271),
        (f"[Feb 25 2025 13:59:45] [ERROR] [tid 1803] {OOM}", 1740491985.0),
        (OOM, None),
    ],
)
def test_a_kernel_line_without_its_prefixes(raw, timestamp):
    line = parse("kernel", raw.encode())
    assert (line.text, line.level, line.timestamp) == (OOM, "", pytest.approx(timestamp) if timestamp else None)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("2026-11-20 21:25:48,123 - verifiers.env - WARNING - slow", ("WARNING", "verifiers.env", "slow", "21:25:48")),
        ("2026-11-20 21:25:48,123 - ERROR - gone", ("ERROR", "", "gone", "21:25:48")),
        (
            "2026-11-20 21:25:48,123 INFO    MainThread:17 [wandb_setup.py:_flush():81] Loading",
            ("INFO", "wandb_setup", "Loading", "21:25:48"),
        ),
        ("2026-11-20 21:25:48,123\tERROR worker.py:409 -- died", ("ERROR", "worker", "died", "21:25:48")),
        ("[2026-11-20 21:25:48,123][main][ERROR] - bad override", ("ERROR", "main", "bad override", "21:25:48")),
        ("2026-11-20 21:25:48 [CRITICAL] b2sdk.raw: gone", ("CRITICAL", "b2sdk.raw", "gone", "21:25:48")),
        ("WARNING:root:low", ("WARNING", "root", "low", None)),
        (
            '{"time":"2026-11-20T21:25:48.1Z","level":"ERROR","msg":"failed","error":"no route"}',
            ("ERROR", "wandb-core", "failed\nno route", "21:25:48"),
        ),
        ("ERROR 07-15 09:12:01 engine.py:139] it broke", ("ERROR", "engine", "it broke", "09:12:01")),
        ("(WorkerDict pid=12, ip=10.0.0.1) Traceback (most recent call last):", ("", "", "Traceback (most recent call last):", None)),
    ],
)  # fmt: skip
def test_other_loggers(raw, expected):
    line = parse("trainer", raw.encode())
    assert (line.level, line.logger, line.text, line.clock) == expected


def test_lines_of_torchs_own_part_keep_their_header_and_tell_their_time():
    line = parse("trainer", b"[rank1]:[E1118 03:14:07.447712782 ProcessGroupNCCL.cpp:683] [Rank 1] Watchdog caught")
    assert (line.level, line.clock, line.rank, line.logger) == ("", "03:14:07", 1, "ProcessGroupNCCL.cpp")
    assert line.text.startswith("[E1118 ")


@pytest.mark.parametrize("raw", ["2026-11-20 we met", "ERROR:", "INFO: hello", "{not json", '{"level": "ERROR"}', "[2 of 3] done"])
def test_what_only_looks_like_one_is_left_alone(raw):
    line = parse("trainer", raw.encode())
    assert (line.text, line.level) == (raw, "")
