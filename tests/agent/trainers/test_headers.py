"""Headers that no trainer writes: what is taken off, and what is left alone."""

from __future__ import annotations

import pytest

from bs4_common.trainers.lines import parse

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
    assert (line.text, line.level, line.timestamp) == (
        OOM,
        "",
        pytest.approx(timestamp) if timestamp else None,
    )


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (
            "2026-11-20 21:25:48,123 - verifiers.env - WARNING - slow",
            ("WARNING", "verifiers.env", "slow", "21:25:48"),
        ),
        ("2026-11-20 21:25:48,123 - ERROR - gone", ("ERROR", "", "gone", "21:25:48")),
        (
            "2026-11-20 21:25:48,123 INFO    MainThread:17 [wandb_setup.py:_flush():81] Loading",
            ("INFO", "wandb_setup", "Loading", "21:25:48"),
        ),
        (
            "2026-11-20 21:25:48,123\tERROR worker.py:409 -- died",
            ("ERROR", "worker", "died", "21:25:48"),
        ),
        (
            "[2026-11-20 21:25:48,123][main][ERROR] - bad override",
            ("ERROR", "main", "bad override", "21:25:48"),
        ),
        (
            "2026-11-20 21:25:48.123 | SUCCESS  | prime_rl.utils:<module>:57 - done",
            ("SUCCESS", "prime_rl.utils", "done", "21:25:48"),
        ),
        (
            "2026-11-20 21:25:48 [CRITICAL] b2sdk.raw: gone",
            ("CRITICAL", "b2sdk.raw", "gone", "21:25:48"),
        ),
        ("WARNING:root:low", ("WARNING", "root", "low", None)),
        (
            '{"time":"2026-11-20T21:25:48.1Z","level":"ERROR","msg":"failed","error":"no route"}',
            ("ERROR", "wandb-core", "failed\nno route", "21:25:48"),
        ),
        (
            "ERROR 07-15 09:12:01 engine.py:139] it broke",
            ("ERROR", "engine", "it broke", "09:12:01"),
        ),
        (
            "(WorkerDict pid=12, ip=10.0.0.1) Traceback (most recent call last):",
            ("", "", "Traceback (most recent call last):", None),
        ),
    ],
)
def test_other_loggers(raw, expected):
    line = parse("trainer", raw.encode())
    assert (line.level, line.logger, line.text, line.clock) == expected


def test_lines_of_torchs_own_part_keep_their_header_and_tell_their_time():
    line = parse(
        "trainer",
        b"[rank1]:[E1118 03:14:07.447712782 ProcessGroupNCCL.cpp:683] [Rank 1] Watchdog caught",
    )
    assert (line.level, line.clock, line.rank, line.logger) == (
        "",
        "03:14:07",
        1,
        "ProcessGroupNCCL.cpp",
    )
    assert line.text.startswith("[E1118 ")


@pytest.mark.parametrize(
    "raw",
    [
        "2026-11-20 we met",
        "ERROR:",
        "INFO: hello",
        "{not json",
        '{"level": "ERROR"}',
        "[2 of 3] done",
    ],
)
def test_what_only_looks_like_one_is_left_alone(raw):
    line = parse("trainer", raw.encode())
    assert (line.text, line.level) == (raw, "")


@pytest.mark.parametrize(
    "shown",
    [
        "2026-05-12T10:12:13.123456789Z ",
        "2026-05-12T10:12:13.123456789+02:00 ",
        "2026-05-12T10:12:13.1234Z stderr F ",
        "May 12 10:12:13 node7 python3[2201]: ",
        "May 12 10:12:13.123456 node7 run@a.sh[2201]: ",
        "2026-05-12T10:12:13+0000 node7 docker[1822]: ",
        "trainer-1  | ",
        "rl_trainer_1 | ",
        "3: ",
        " 12: ",
    ],
)
def test_what_shows_a_program_is_taken_off_its_lines(shown):
    for inner in (
        "[rank3]: ValueError: no",
        "10:12:13   ERROR Fatal error in train",
        "(APIServer pid=7) INFO:     Shutting down",
        "ValueError: no",
    ):
        for source in ("trainer", "inference"):
            assert parse(source, (shown + inner).encode()) == parse(source, inner.encode())


@pytest.mark.parametrize(
    "raw",
    [
        "2026-05-12T10:12:13.123456Z  INFO vllm_router_rs: up",  # a program's own time
        "2026-05-12T10:12:13.123456789Zero",
        "error | ValueError: no",  # a table
        "12:30 is late",
        "12345: ValueError: no",
        "May 12 10:12:13 node7 said: ValueError: no",
    ],
)
def test_what_only_looks_like_a_wrapper_stays(raw):
    assert parse("trainer", raw.encode()).text == raw


def test_a_kernel_log_keeps_the_name_of_a_user_process():
    """What a process says in the journal must not look like the kernel's."""
    assert parse(
        "kernel", b"May 12 10:12:13 node7 python3[2201]: NVRM: Xid (PCI:0000:41:00): 79"
    ).text.startswith("May 12")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("    | ValueError: no", "ValueError: no"),
        ('  |   File "train.py", line 3, in train', '  File "train.py", line 3, in train'),
        (
            "  + Exception Group Traceback (most recent call last):",
            "  + Exception Group Traceback (most recent call last):",
        ),
        ("| ValueError: no |", "| ValueError: no |"),
        ("(WorkerDict pid=12) ValueError: no [repeated 7x across cluster]", "ValueError: no"),
        (
            (
                "(pid=12, ip=10.0.0.1) ValueError: no [repeated 7x across cluster] (Ray "
                "deduplicates logs by default. Set RAY_DEDUP_LOGS=0)"
            ),
            "ValueError: no",
        ),
        (
            "ValueError: no [repeated 7x across cluster]",
            "ValueError: no [repeated 7x across cluster]",
        ),
        ("(VllmWorker rank=1 pid=5120) ValueError: no", "ValueError: no"),
        ("(VllmWorker TP1 PP0 pid=5120) ValueError: no", "ValueError: no"),
    ],
)
def test_what_is_drawn_around_a_line_is_no_part_of_it(raw, text):
    assert parse("inference", raw.encode()).text == text
