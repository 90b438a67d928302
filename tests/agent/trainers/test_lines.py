from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bs4_common.trainers.lines import (
    JSON_CAP,
    LINE_CAP,
    Clock,
    parse,
    seconds_of_day,
    strip_ansi,
    visible,
)
from tests.agent.trainers.samples import coloured, plain

HOUR = 3600


def test_loguru_header_is_taken_off_coloured_and_plain_alike() -> None:
    for raw in (plain("WARNING", "Rollout failed: x"), coloured("WARNING", "Rollout failed: x")):
        line = parse("orchestrator", raw)
        assert (line.text, line.level, line.clock, line.rank, line.continuation) == (
            "Rollout failed: x",
            "WARNING",
            "21:36:59",
            None,
            False,
        )


def test_origin_at_the_end_of_debug_logs_is_the_logger_and_not_text() -> None:
    line = parse("launcher", b"21:21:22    INFO Starting RL run [rl.py::151]")
    assert (line.text, line.logger) == ("Starting RL run", "rl")
    assert (
        parse("launcher", b"21:21:22    INFO see [rl.py::151] there").text
        == "see [rl.py::151] there"
    )


@pytest.mark.parametrize(
    ("raw", "text", "rank"),
    [
        (b"[default0]:21:34:37 SUCCESS RL trainer finished!", "RL trainer finished!", 0),
        (b"[trainer13]:21:34:37 SUCCESS RL trainer finished!", "RL trainer finished!", 13),
        (
            b"[default1]:[rank1]: Traceback (most recent call last):",
            "Traceback (most recent call last):",
            1,
        ),
        (b'[rank2]:   File "train.py", line 3, in train', '  File "train.py", line 3, in train', 2),
        (b"\x1b[0m[default3]:\x1b[2m21:34:37\x1b[0m \x1b[1m   INFO\x1b[0m hello", "hello", 3),
        (b"[default0] no prefix without the colon", "[default0] no prefix without the colon", None),
    ],
)
def test_torchrun_prefixes(raw: bytes, text: str, rank: int | None) -> None:
    line = parse("trainer", raw)
    assert (line.text, line.rank) == (text, rank)


def test_json_line_has_its_own_date_and_ends_with_its_exception() -> None:
    row = {
        "timestamp": "2026-11-20T21:37:07.500000+02:00",
        "level": "ERROR",
        "message": "Fatal error in train",
        "module": "utils",
        "exception": "Traceback (most recent call last):\n  File ...\nRuntimeError: no\n",
    }
    line = parse("trainer", b"[trainer0]:" + json.dumps(row).encode() + b"\n")
    assert line.timestamp == datetime(2026, 11, 20, 19, 37, 7, 500000, UTC).timestamp()
    assert (line.clock, line.level, line.logger, line.rank) == ("21:37:07", "ERROR", "utils", 0)
    assert line.text.startswith("Fatal error in train\nTraceback")
    assert line.text.endswith("RuntimeError: no")


def test_json_progress_becomes_words() -> None:
    row = {
        "timestamp": "2026-11-20T21:37:07Z",
        "level": "INFO",
        "type": "progress",
        "desc": "Generating",
        "current": 5,
        "total": 10,
    }
    line = parse("orchestrator", json.dumps({**row, "percent": 50, "step": 3}).encode())
    assert (line.text, line.logger, line.clock) == (
        "Generating: 50% 5/10 (step 3)",
        "progress",
        "21:37:07",
    )
    assert line.timestamp == datetime(2026, 11, 20, 21, 37, 7, tzinfo=UTC).timestamp()


def test_json_without_an_offset_has_a_clock_but_no_wall_time() -> None:
    line = parse(
        "orchestrator", b'{"timestamp": "2026-11-20T21:37:07", "level": "INFO", "message": "x"}'
    )
    assert (line.timestamp, line.clock) == (None, "21:37:07")


@pytest.mark.parametrize(
    "text",
    ['{"a": 1}', '{"timestamp": 5, "level": "INFO", "message": "x"}', "{broken", '{"a":' * 40_000],
)
def test_other_json_is_text(text: str) -> None:
    line = parse("trainer", text.encode())
    assert (line.text, line.level) == (text[:LINE_CAP], "")


def test_json_too_long_to_read_keeps_level_time_and_beginning() -> None:
    row = {
        "timestamp": "2026-11-20T21:37:07+00:00",
        "level": "WARNING",
        "message": 'a "quoted"\nstart ' + "y" * (2 * JSON_CAP),
    }
    line = parse("orchestrator", json.dumps(row).encode())
    assert (line.level, line.clock) == ("WARNING", "21:37:07")
    assert line.text.startswith('a "quoted"\nstart yyy')
    assert len(line.text) <= LINE_CAP


def test_a_json_line_that_was_cut_keeps_its_head_but_a_short_one_waits_for_its_end() -> None:
    whole = json.dumps(
        {"timestamp": "2026-11-20T21:37:07+00:00", "level": "WARNING", "message": "y" * 100_000}
    ).encode()
    assert parse("orchestrator", whole[:65_536]).level == "WARNING"
    assert parse("orchestrator", whole[:500]).level == ""


@pytest.mark.parametrize(
    "text",
    [
        "\t\t ╰─ reverse-text | Ratio 50.0% | Reward 0.3750",
        "Traceback (most recent call last):",
        '  File "x.py", line 1, in <module>',
        "> File x",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.16 GiB.",
        "ZeroDivisionError: division by zero",
        "KeyboardInterrupt",
        "During handling of the above exception, another exception occurred:",
    ],
)
def test_lines_that_belong_to_the_one_before(text: str) -> None:
    for raw in (text.encode(), b"[default0]:" + text.encode()):
        line = parse("trainer", raw)
        assert line.continuation
        assert line.level == ""
        assert line.text == text


@pytest.mark.parametrize(
    "text", ["Downloading shards", "Errors happen", "", "wandb: Run data is saved locally"]
)
def test_lines_that_stand_alone(text: str) -> None:
    assert not parse("trainer", text.encode()).continuation


def test_progress_bar_shows_its_last_state_only() -> None:
    bar = b"Generating rollouts (train):   0%|          | 0/128 [00:00<?, ?it/s]"
    later = "Generating rollouts (train):  50%|█████     | 64/128 [00:20<00:20,  3.10it/s]".encode()
    assert parse("orchestrator", b"\r" + bar + b"\r" + later + b"\n").text == later.decode()
    assert visible(b"\r\n") == b""


def test_log_line_behind_an_unfinished_progress_bar_is_found() -> None:
    bar = "\rGenerating rollouts (train):  50%|█████     | 64/128 [00:20<00:20,  3.10it/s]".encode()
    line = parse(
        "orchestrator",
        bar
        + coloured(
            "INFO", "Hit async barrier because we are >1 step(s) async. Waiting for checkpoint 4"
        ),
    )
    assert (line.level, line.clock) == ("INFO", "21:36:59")
    assert line.text.startswith("Hit async barrier")


def test_header_in_the_middle_of_other_text_is_not_one() -> None:
    line = parse("orchestrator", b"completion: 21:36:59 SUCCESS Orchestrator finished.")
    assert line.level == ""


@pytest.mark.parametrize(
    ("raw", "text", "level", "rank"),
    [
        (b"12:00:01    INFO Waiting for step 312:00:02   ERROR Fatal", "Fatal", "ERROR", None),
        (b"12:00:01    INFO Waiting for12:00:02   ERROR Fatal", "Fatal", "ERROR", None),
        (b"plain words of12:00:02   ERROR Fatal", "Fatal\nplain words of", "ERROR", None),
        (
            b"12:00:01   ERROR One12:00:02   ERROR Two",
            "Two\nOne",
            "ERROR",
            None,
        ),
        (
            b"12:00:01    INFO Loading shard[rank1]: RuntimeError: CUDA out of memory",
            "RuntimeError: CUDA out of memory",
            "",
            1,
        ),
        (
            b"loading the weightsERROR 11-18 07:11:40 [core.py:1512] EngineCore died.",
            "EngineCore died.\nloading the weights",
            "ERROR",
            None,
        ),
    ],
)
def test_a_line_that_another_writer_has_torn(
    raw: bytes, text: str, level: str, rank: int | None
) -> None:
    line = parse("trainer", raw)
    assert (line.text, line.level, line.rank) == (text, level, rank)


@pytest.mark.parametrize(
    "text",
    [
        "12:00:01    INFO Sample: 12:00:02   ERROR Fatal",
        '12:00:01    INFO it said "12:00:02   ERROR Fatal"',
        "12:00:01    INFO reply=12:00:02   ERROR Fatal",
        "seen at 2026-11-18T12:00:02   ERROR Fatal",
        "12:00:01    INFO as in `[rank1]: RuntimeError: x`",
        r"12:00:01    INFO its lines were one\n12:00:02   ERROR Fatal",
    ],
)
def test_a_quoted_line_is_not_torn(text: str) -> None:
    assert parse("trainer", text.encode()).text == text.removeprefix("12:00:01    INFO ")


def test_any_line_behind_an_unfinished_progress_bar_is_found() -> None:
    bar = "\rLoading:  50%|█████     | 64/128 [00:20<00:20,  3.10it/s]"
    assert parse("trainer", f"{bar}RuntimeError: boom".encode()).text == "RuntimeError: boom"
    assert parse("trainer", f"{bar}[rank3]: RuntimeError: boom".encode()).rank == 3
    assert parse("trainer", f"{bar} of all".encode()).text == f"{bar} of all".strip()


def test_invalid_utf8_is_replaced() -> None:
    assert (
        parse("trainer", b"21:36:59 WARNING Rollout failed: \xff\xfe").text
        == "Rollout failed: \ufffd\ufffd"
    )


def test_a_line_of_ten_megabytes_costs_nothing() -> None:
    started = time.perf_counter()
    for filler in (b"x", b"|", b"1%|", b"\x1b[", b" ", b"(a) ", b'{"a":', b"\r"):
        line = parse("trainer", b"21:36:59    INFO " + filler * (10_000_000 // len(filler)))
        assert len(line.text) <= LINE_CAP
    # measured 0.1 s; an unbounded expression takes minutes
    assert time.perf_counter() - started < 20


@pytest.mark.parametrize(
    ("raw", "level", "clock", "logger", "text"),
    [
        (
            b"(APIServer pid=12) INFO 11-20 21:06:24 [loggers.py:335] Engine 000: x",
            "INFO",
            "21:06:24",
            "loggers",
            "Engine 000: x",
        ),
        (
            b"(EngineCore_DP0 pid=9) ERROR 11-20 22:41:26 [v1/engine/core.py:1510]   File",
            "ERROR",
            "22:41:26",
            "core",
            "  File",
        ),
        (
            b"WARNING 01-07 00:00:01 [cuda.py:10] old style",
            "WARNING",
            "00:00:01",
            "cuda",
            "old style",
        ),
        (
            b"(APIServer pid=18696) INFO 11-20 21:05:28 [api_utils.py:347]",
            "INFO",
            "21:05:28",
            "api_utils",
            "",
        ),
        (
            b'INFO:     127.0.0.1:4 - "GET /health HTTP/1.1" 503',
            "INFO",
            None,
            "uvicorn",
            '127.0.0.1:4 - "GET /health HTTP/1.1" 503',
        ),
        (
            b"(APIServer pid=3) INFO:     Application startup complete.",
            "INFO",
            None,
            "uvicorn",
            "Application startup complete.",
        ),
        (
            b"W1120 21:05:28.662000 186 torch/_library/triton.py:53] No Triton",
            "WARNING",
            "21:05:28",
            "triton",
            "No Triton",
        ),
        (b"(Worker pid=3) bare print", "", None, "", "bare print"),
    ],
)
def test_what_the_inference_server_prints(
    raw: bytes, level: str, clock: str | None, logger: str, text: str
) -> None:
    line = parse("inference", raw)
    assert (line.level, line.clock, line.logger, line.text) == (level, clock, logger, text)


def test_uvicorns_format_is_no_header_in_other_logs() -> None:
    assert parse("trainer", b"ERROR: a library said so").level == ""


def test_ansi_sequences_of_all_kinds_go() -> None:
    assert strip_ansi("\x1b[1;31mred\x1b[0m \x1b]0;title\x07\x1b[2K\x1b[?25lx\x1b(") == "red x\x1b("


@given(
    st.binary(max_size=400),
    st.sampled_from(["trainer", "orchestrator", "inference", "launcher", "env-x"]),
)
def test_no_bytes_make_it_fail(raw: bytes, source: str) -> None:
    line = parse(source, raw)
    assert len(line.text) <= len(raw)
    assert line.clock is None or len(line.clock) == 8


# Clock


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def hms(wall: float, tz: int) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(wall + tz))


def test_midnight_is_passed_once_despite_disorder_around_it() -> None:
    clock = Clock(at("2026-01-07T23:00:00"), 0)
    said = [
        "23:59:58",
        "00:00:01",
        "23:59:59",
        "00:00:02",
        "00:00:00",
        "12:00:00",
        "23:59:59",
        "00:00:00",
    ]
    days = [7, 8, 7, 8, 8, 8, 8, 9]
    assert [clock.resolve(text) for text in said] == [
        at(f"2026-01-{day:02}T{text}") for day, text in zip(days, said, strict=True)
    ]


def test_first_line_may_lie_on_either_side_of_the_anchor() -> None:
    assert Clock(at("2026-01-08T00:00:05"), 0).resolve("23:59:59") == at("2026-01-07T23:59:59")
    assert Clock(at("2026-01-07T23:59:59"), 0).resolve("00:00:05") == at("2026-01-08T00:00:05")


def test_the_runs_time_zone_decides() -> None:
    assert Clock(at("2026-01-07T22:00:00"), 2 * HOUR).resolve("00:00:05") == at(
        "2026-01-07T22:00:05"
    )


def test_without_a_zone_this_machines_is_taken() -> None:
    wall = float(int(time.time()))
    assert Clock(wall).resolve(time.strftime("%H:%M:%S", time.localtime(wall))) == wall


def test_the_hour_that_dst_takes_back_is_no_new_day() -> None:
    clock = Clock(at("2026-10-25T00:59:00"), 2 * HOUR)
    before, after = clock.resolve("02:59:59"), clock.resolve("02:00:00")
    assert after == before - HOUR + 1
    assert clock.resolve("03:10:00") > before


def test_disorder_is_measured_from_the_newest_line() -> None:
    clock = Clock(at("2026-01-07T12:00:00"), 0)
    assert [clock.resolve(text) for text in ("12:00:00", "10:30:00")] == [
        at("2026-01-07T12:00:00"),
        at("2026-01-07T10:30:00"),
    ]
    assert clock.resolve("09:30:00") == at("2026-01-08T09:30:00")


def test_several_silent_days_are_bridged_by_the_files_mtime() -> None:
    clock = Clock(at("2026-01-07T10:00:00"), 0)
    clock.resolve("10:00:00")
    assert clock.resolve("10:00:05", near=at("2026-01-11T10:00:06")) == at("2026-01-11T10:00:05")
    assert clock.resolve("10:01:00") == at("2026-01-11T10:01:00")


@pytest.mark.parametrize("text", ["99:00:00", "12:60:00", "x", "12:00"])
def test_what_is_no_time_of_day_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        seconds_of_day(text)


@given(
    start=st.integers(1_700_000_000, 1_800_000_000),
    tz=st.integers(-12 * 4, 14 * 4).map(lambda quarter: quarter * 900),
    first=st.integers(-11 * HOUR, 11 * HOUR),
    gaps=st.lists(st.integers(0, 20 * HOUR), max_size=40),
    disorder=st.data(),
)
def test_every_time_comes_back_whatever_the_gaps(
    start: int, tz: int, first: int, gaps: list[int], disorder: st.DataObject
) -> None:
    clock, wall = Clock(start, tz), start
    for gap in [first, *gaps]:
        wall += gap
        late = wall - disorder.draw(st.integers(0, 5))
        assert clock.resolve(hms(late, tz)) == late
        assert clock.resolve(hms(wall, tz)) == wall
