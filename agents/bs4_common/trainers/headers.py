"""Parse headers of lines that no trainer writes: kernel logs with all their prefixes, Python's
logging, hydra, and wandb's own logs.

A header is removed only if it is certain. Text that only looks a little like a header stays as it
is, without a level.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone

from bs4_common.foreign_json import ForeignJsonError, loads
from bs4_common.trainers.base import LogLine

_LEVELS = {"WARN": "WARNING", "FATAL": "CRITICAL", "TRACE": "DEBUG", "NOTICE": "INFO"}
_NAMES = "TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL"
_STAMP = r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)"

# kern  :warn  : (dmesg -x), <4> (raw and pstore), 6,3964,206764307,-; (/dev/kmsg)
_FACILITY = re.compile(
    r"(?:kern|user|daemon|syslog|auth) {0,6}:(?:emerg|alert|crit|err|warn|notice|info|debug) "
    r"{0,6}: "
)
_PRIORITY = re.compile(r"<\d{1,3}>")
_KMSG = re.compile(r"\d{1,3},\d{1,20},(\d{1,20}),[-c+](?:,[\w=,]{1,60})?;")
_UPTIME = re.compile(r"\[ {0,12}(\d{1,10}\.\d{1,9})\] ?(?:\[ {0,9}[TC]\d{1,9}\] ?)?")
_CTIME = re.compile(
    r"\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ([A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d \d{4})\] ?"
)
_ISO = re.compile(_STAMP + r" (?:[\w.-]{1,64} kernel: )?")
_SYSLOG = re.compile(
    r"[A-Z][a-z]{2} {1,2}\d{1,2} (\d\d:\d\d:\d\d)(?:\.\d{1,6})? [\w.-]{1,64} kernel: "
)
# The fabric manager's own log, which is kept with the kernel's: [Feb 25 2025 13:59:45] [INFO] [tid
# 1803]
_FABRIC = re.compile(
    r"\[([A-Z][a-z]{2} {1,2}\d{1,2} \d{4} \d\d:\d\d:\d\d)\] \[[A-Z]{4,8}\] (?:\[tid \d{1,10}\] )?"
)

_PYTHON = tuple(
    re.compile(text, re.DOTALL)
    for text in (
        rf"{_STAMP} - (?P<logger>[\w.\- ]{{1,120}}) - (?P<level>{_NAMES}) - (?P<text>.*)",
        rf"{_STAMP} - (?P<level>{_NAMES}) - (?P<text>.*)",
        # wandb's debug.log: 2026-11-20 21:25:48,123 INFO    MainThread:17
        # [wandb_setup.py:_flush():81] text
        rf"{_STAMP} (?P<level>{_NAMES}) {{1,6}}[\w-]{{1,40}}:\d{{1,10}} "
        r"\[(?P<logger>[\w.]{1,60}):[\w<>]{0,60}\(\):\d{1,6}\] (?P<text>.*)",
        # ray: 2026-11-20 21:25:48,123 ERROR worker.py:409 -- text
        (
            rf"{_STAMP}\t?(?P<level>{_NAMES}) {{1,6}}(?P<logger>[\w.]{{1,60}}):\d{{1,6}} -- "
            r"(?P<text>.*)"
        ),
        rf"{_STAMP} \[(?P<level>{_NAMES})\] (?:(?P<logger>[\w.]{{1,120}}): )?(?P<text>.*)",
        rf"{_STAMP} (?P<level>{_NAMES}) {{1,6}}(?:(?P<logger>[a-z_][\w.]{{1,120}}): )?(?P<text>.*)",
        # loguru, where nobody gave it a format
        (
            rf"{_STAMP} \| (?P<level>{_NAMES}|SUCCESS) {{1,8}}\| "
            rf"(?P<logger>[\w.]{{1,120}}):[\w<>.]{{1,80}}:\d{{1,6}} - (?P<text>.*)"
        ),
        rf"\[{_STAMP}\]\[(?P<logger>[\w.]{{1,120}})\]\[(?P<level>{_NAMES})\] - (?P<text>.*)",
    )
)
_BASIC = re.compile(rf"(?P<level>{_NAMES}):(?P<logger>[\w.]{{1,120}}):(?P<text>.*)", re.DOTALL)
# A program that shows another program's output puts this before each line: docker logs
# --timestamps, containerd, the journal, docker compose and srun --label. Only docker has
# nanoseconds; other dates belong to the program itself.
_SHOWN = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}(?:Z|[+-]\d\d:\d\d) (?:stdout|stderr) [FP] "
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(?:Z|[+-]\d\d:\d\d) "
    r"|(?:[A-Z][a-z]{2} {1,2}\d{1,2} "
    r"\d\d:\d\d:\d\d(?:\.\d{6})?|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{6})?[+-]\d\d:?\d\d) "
    r"[\w.-]{1,64} [\w.@/+-]{1,64}\[\d{1,10}\]: "
    r"|[a-z][\w.-]{0,60}[-_]\d{1,3} {1,40}\| "
    r"| {0,3}\d{1,4}: "
)
# torch's C++ lines: [E1118 03:14:07.447712782 ProcessGroupNCCL.cpp:683] text
_C10D = re.compile(r"\[[IWEF]\d{3,4} (\d\d:\d\d:\d\d)\.\d{1,9} ([\w./-]{1,120}):\d{1,6}\] ")


def unwrapped(text: str) -> str:
    """Return `text` without the prefix that another program puts before every line: a container
    engine (Docker, containerd, docker compose), systemd's journal or a scheduler (srun). Text
    without such a prefix is returned unchanged.

    The prefix's time is dropped too, because it is not the line's own.
    """
    match = _SHOWN.match(text)
    if match is None:
        return text
    return text[match.end() :]


def kernel(text: str) -> LogLine:
    """Return the parts of a line of a kernel log, without its prefixes. It may be from dmesg,
    /dev/kmsg, syslog, systemd's journal, pstore or the log of NVIDIA's fabric manager.

    `level` is always "", because priorities say little about what a line means. `timestamp` is a
    Unix time in seconds, or in seconds since the boot if the line has no date.
    """
    timestamp: float | None = None
    clock = None
    for _ in range(4):
        for pattern in (_FACILITY, _PRIORITY, _KMSG, _UPTIME, _CTIME, _FABRIC, _SYSLOG, _ISO):
            match = pattern.match(text)
            if match is not None:
                break
        else:
            break
        text = text[match.end() :]
        if pattern is _KMSG:
            timestamp = int(match.group(1)) / 1e6
        elif pattern is _UPTIME:
            if timestamp is None:
                timestamp = float(match.group(1))
        elif pattern is _CTIME:
            timestamp = _calendar(match.group(1), "%b %d %H:%M:%S %Y")
        elif pattern is _FABRIC:
            timestamp = _calendar(match.group(1), "%b %d %Y %H:%M:%S")
        elif pattern is _SYSLOG:
            clock = match.group(1)
        elif pattern is _ISO:
            timestamp, clock = _iso(match.group(1))
    return LogLine(text=text, clock=clock, timestamp=timestamp, logger="kernel")


def other(text: str, rank: int | None = None) -> LogLine | None:
    """Return the parts of a line that has a header of Python's logging, in one of several formats,
    or that is one of wandb's lines of JSON. Return None for any other line. `rank` becomes the
    `rank` of the result.
    """
    if text[:1] == "{":
        return _slog(text, rank)
    if text[:1].isdigit() or text[:2] == "[2":
        for pattern in _PYTHON:
            match = pattern.fullmatch(text)
            if match is not None:
                timestamp, clock = _iso(match.group(1))
                return _line(match, clock, timestamp, rank)
    elif text[:1].isupper():
        match = _BASIC.fullmatch(text)
        if match is not None:
            return _line(match, None, None, rank)
    return None


def c10d_clock(text: str) -> tuple[str | None, str]:
    """Return the time HH:MM:SS and the name of the source file in the header of a line that torch's
    C++ code has written. Return (None, "") for any other line.
    """
    match = _C10D.match(text)
    if match is not None:
        return (match.group(1), match.group(2).rpartition("/")[2])
    return (None, "")


def _line(
    match: re.Match[str], clock: str | None, timestamp: float | None, rank: int | None
) -> LogLine:
    """Return the line of a match of Python's logging."""
    found = match.groupdict()
    level = found["level"]
    return LogLine(
        text=found["text"],
        level=_LEVELS.get(level, level),
        clock=clock,
        timestamp=timestamp,
        rank=rank,
        logger=(found.get("logger") or "").strip().removesuffix(".py"),
    )


def _slog(text: str, rank: int | None) -> LogLine | None:
    """Return the parts of a line of wandb-core's debug-core.log or debug-internal.log, which is
    JSON {"time", "level", "msg", ...}, or None. Further values follow as lines of the text.
    """
    try:
        row = loads(text)
    except ForeignJsonError:
        return None
    if not isinstance(row, dict) or not all(
        isinstance(row.get(key), str) for key in ("time", "level", "msg")
    ):
        return None
    timestamp, clock = _iso(row["time"])
    more = []
    for key, value in row.items():
        if key not in ("time", "level", "msg") and isinstance(value, str):
            more.append(value)
    level = row["level"].upper()
    return LogLine(
        text="\n".join([row["msg"], *more]),
        level=_LEVELS.get(level, level),
        clock=clock,
        timestamp=timestamp,
        rank=rank,
        logger="wandb-core",
    )


def _iso(text: str) -> tuple[float | None, str | None]:
    """Return the Unix time and HH:MM:SS of an ISO time. The Unix time is None without an offset,
    because the time zone is then unknown.
    """
    clock = text[11:19]
    zone = re.search(r"(Z|[+-]\d\d:?\d\d)$", text[19:])
    if zone is None:
        return None, clock
    seconds = _calendar(f"{text[:10]} {clock}", "%Y-%m-%d %H:%M:%S")
    if seconds is None:
        return None, clock
    if zone.group(1) != "Z":
        digits = zone.group(1).replace(":", "")
        seconds -= (1 if digits[0] == "+" else -1) * (
            int(digits[1:3]) * 3600 + int(digits[3:5]) * 60
        )
    fraction = re.match(r"[.,](\d{1,9})", text[19:])
    return seconds + (float(f"0.{fraction.group(1)}") if fraction else 0.0), clock


def _calendar(text: str, form: str) -> float | None:
    """Return the wall second of a UTC time in the format `form`, or None if it is none."""
    try:
        return datetime.strptime(text, form).replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None
