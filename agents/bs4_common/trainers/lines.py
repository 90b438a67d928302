"""Parse log lines: colours, torchrun prefixes, loguru headers, JSON lines, vLLM's and uvicorn's own
formats, progress bars.

What a line means is the business of the trainer's generation. Formats: prime-rl 2026-01-07 and
2026-08-21 (`src/prime_rl/utils/logger.py` of each), vLLM 0.12 to 0.32, uvicorn, torch's glog-like
lines.
"""

from __future__ import annotations

import math
import re
import time
from dataclasses import replace
from datetime import datetime
from typing import Any

from bs4_common.foreign_json import ForeignJsonError, loads
from bs4_common.trainers import headers
from bs4_common.trainers.base import LogLine

#: Regular expressions see at most this much of a line. A completion printed on one line can have
#: megabytes.
LINE_CAP = 16 * 1024
#: JSON is read up to this many bytes. Its parser is linear, and a JSON line cut in the middle would
#: lose its level and time.
JSON_CAP = 256 * 1024

DAY = 86400
#: Seconds that a clock may step back without a new day. Two hours cover the hour that a DST change
#: takes back, and ordinary disorder between threads. The price is that a silence of 22 to 24 hours
#: is read as one of minutes unless `near` is given.
SLACK = 2 * 3600

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
# torchrun --tee puts `[role][local rank]:` before every line, without a space; torch's own
# excepthook adds `[rank0]: `.
_RANK = re.compile(r"\[(?:default|trainer|rank)(\d{1,5})\]:")
# tqdm writes no newline until it closes, so the next output on the same terminal follows right
# behind the bar.
_BAR = re.compile(r"[^|\n]{0,200}?\d{1,3}%\|[^|\n]{0,400}\| *\S{1,32}/\S{1,32} \[[^\]\n]{1,120}\]")
# Where another writer's line begins in the middle of one: two processes that write to one file tear
# each other's lines. What a line quotes stands behind a space, a quotation mark, a bracket or an
# escaped line end.
_TORN = re.compile(
    r"(?<=[\w.!?%)\]])(?<!\dT)(?<!\\[nrt])(?=\d\d:\d\d:\d\d {1,4}(?:ERROR|CRITICAL) "
    r"|(?:ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d |\[rank\d{1,5}\]: )"
)
_HEADER = 18
_CALM = frozenset({"TRACE", "DEBUG", "INFO", "SUCCESS"})
# The margin that Python draws beside the members of an exception group.
_MARGIN = re.compile(r" {2,40}\| ")
_LOGURU = re.compile(
    r"(\d\d:\d\d:\d\d) {1,4}(TRACE|DEBUG|INFO|SUCCESS|WARNING|ERROR|CRITICAL) (.*)", re.DOTALL
)
# At level debug every line, whatever its own level, ends with where it came from.
_ORIGIN = re.compile(r" \[([\w.<>-]{1,80})::\d{1,6}\]$")
_VLLM = re.compile(
    r"(DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d (\d\d:\d\d:\d\d) "
    r"\[?([^\]:\s]{1,120}):\d{1,6}\] ?(.*)",
    re.DOTALL,
)
# vLLM's and ray's prefixes: the process that the terminal shows, and the one that shows it.
_VLLM_PROCESS = re.compile(
    r"(?:\((?:[\w=]{1,60} ){0,3}pid=\d{1,10}(?:, ip=[\w.:]{1,60})?\) ?){1,3}"
)
# Ray shows a line of many processes once and appends this.
_REPEATED = re.compile(
    r" \[repeated \d{1,6}x across cluster\](?: \(Ray deduplicates logs.{0,300})?$"
)
_UVICORN = re.compile(r"(TRACE|DEBUG|INFO|WARNING|ERROR|CRITICAL): {1,9}(.*)", re.DOTALL)
_GLOG = re.compile(
    r"([IWEF])\d{4} (\d\d:\d\d:\d\d)\.\d{1,6} +\d{1,10} (\S{1,200}):\d{1,6}\] (.*)", re.DOTALL
)
_GLOG_LEVELS = {"I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL"}
# Lines that belong to the record before them: indented ones (the per-environment lines `\t\t ╰─ env
# | ...` and traceback frames), loguru's drawn frames, and the flush-left lines of a traceback, of
# which the last one names the exception.
_CONTINUATION = re.compile(
    r"[\t │╰├└>]|Traceback \(most recent call last\):|During handling of the above exception|The "
    r"above exception was the direct cause"
    r"|(?:[A-Za-z_][\w.]{0,120})?(?:Error|Exception|Interrupt|SystemExit|Timeout|Warning)(?::|$)"
)


def strip_ansi(text: str) -> str:
    """Return `text` without the escape sequences of a terminal, such as those for colours."""
    if "\x1b" in text:
        return _ANSI.sub("", text)
    return text


def visible(raw: bytes) -> bytes:
    """Return what a terminal would show of a line, without its line end: the part after the last
    carriage return inside it.
    """
    raw = raw.rstrip(b"\r\n")
    return raw[raw.rfind(b"\r") + 1 :]


def parse(source: str, raw: bytes) -> LogLine:
    """Return the parts of one raw line (with or without its LF) of the log `source`. Never raises.
    Bytes that are not UTF-8 become U+FFFD, and what lies beyond 16 KiB is cut off.
    """
    raw = visible(raw)
    text = strip_ansi(raw[:LINE_CAP].decode("utf-8", "replace"))
    if source == "kernel":
        return headers.kernel(text)
    text, rank = _without_ranks(headers.unwrapped(text))
    if text.startswith("{") and (line := _json_line(raw, rank)) is not None:
        return line
    torn = _TORN.search(text) if _may_be_torn(text) else None
    if torn is not None:
        return _joined(
            _one(source, text[: torn.start()], rank),
            _one(source, *_without_ranks(text[torn.start() :])),
        )
    return _one(source, text, rank)


def _may_be_torn(text: str) -> bool:
    """Return True if a header may stand behind the place where a line's own header ends."""
    return (
        text.find("ERROR ", _HEADER) > 0
        or text.find("CRITICAL ", _HEADER) > 0
        or text.find("[rank", 1) > 0
    )


def _joined(first: LogLine, second: LogLine) -> LogLine:
    """Return two lines of which the second begins in the middle of the first, as one. The first is
    left out if it reports no failure.
    """
    if first.level in _CALM:
        return second
    return replace(second, text=f"{second.text}\n{first.text}")


def _one(source: str, text: str, rank: int | None) -> LogLine:
    """Return the parts of a line that one writer has written."""
    known = (
        _loguru_line(text, rank)
        or _after_bar(source, text, rank)
        or _foreign_line(source, text, rank)
        or headers.other(text, rank)
    )
    if known is not None:
        return known
    clock, file = headers.c10d_clock(text)
    margin = _MARGIN.match(text)
    return LogLine(
        text=text if margin is None else text[margin.end() :],
        clock=clock,
        rank=rank,
        logger=_module(file),
        continuation=_CONTINUATION.match(text) is not None,
    )


def _without_ranks(text: str) -> tuple[str, int | None]:
    """Return `text` without up to two rank prefixes (torchrun's around torch's), and the rank that
    the outer one names, or None.
    """
    rank = None
    for _ in range(2):
        match = _RANK.match(text)
        if match is None:
            break
        rank = int(match.group(1)) if rank is None else rank
        text = text[match.end() :]
        if match.group(0).startswith("[rank"):
            text = text.removeprefix(" ")
    return text, rank


def _loguru_line(text: str, rank: int | None) -> LogLine | None:
    """Return the parts of a line with loguru's header, or None."""
    match = _LOGURU.fullmatch(text)
    if match is None:
        return None
    clock, level, message = match.groups()
    origin = _ORIGIN.search(message, max(0, len(message) - 100))
    logger = ""
    if origin is not None:
        logger = origin.group(1).removesuffix(".py")
        message = message[: origin.start()]
    return LogLine(text=message, level=level, clock=clock, rank=rank, logger=logger)


def _after_bar(source: str, text: str, rank: int | None) -> LogLine | None:
    """Return the parts of a line that follows a progress bar, or None. What belongs to the bar
    stands behind a space.
    """
    bar = _BAR.match(text)
    if bar is None or text[bar.end() : bar.end() + 1] in ("", " "):
        return None
    return _one(source, *_without_ranks(text[bar.end() :]))


def _foreign_line(source: str, text: str, rank: int | None) -> LogLine | None:
    """Return the parts of a line of vLLM, uvicorn or torch's C++ style, or None. uvicorn's format
    counts in the inference log only, because elsewhere any program may print `ERROR: ...`.
    """
    process = _VLLM_PROCESS.match(text)
    if process:
        rest = _REPEATED.sub("", text[process.end() :])
    else:
        rest = text
    if match := _VLLM.fullmatch(rest):
        level, clock, file, message = match.groups()
        return LogLine(text=message, level=level, clock=clock, rank=rank, logger=_module(file))
    if source.startswith("inference") and (match := _UVICORN.fullmatch(rest)):
        return LogLine(text=match.group(2), level=match.group(1), rank=rank, logger="uvicorn")
    if match := _GLOG.fullmatch(rest):
        letter, clock, file, message = match.groups()
        return LogLine(
            text=message, level=_GLOG_LEVELS[letter], clock=clock, rank=rank, logger=_module(file)
        )
    if process is not None:
        return LogLine(text=rest, rank=rank, continuation=_CONTINUATION.match(rest) is not None)
    return None


def _module(file: str) -> str:
    """Return the logger of a file, as JSON lines call it: `core` for `vllm/v1/engine/core.py` and
    `core.py`.
    """
    return file.rpartition("/")[2].removesuffix(".py")


def _json_line(raw: bytes, rank: int | None) -> LogLine | None:
    """Return the parts of a line of `--log.json-logging`, or None.

    It is `{timestamp, level, message, module, function, line, [tag], [exception], [extra]}`, or a
    progress record `{timestamp, level, type: progress, desc, current, total, percent, [step]}`.
    """
    raw = raw[raw.find(b"{") :]
    try:
        row: Any = loads(raw) if len(raw) <= JSON_CAP else _json_head(raw)
    except ForeignJsonError:
        # A caller may have cut a line that it found too long. A short line is still being written
        # and waits for its end.
        row = _json_head(raw) if len(raw) > LINE_CAP else None
    if (
        not isinstance(row, dict)
        or not isinstance(row.get("timestamp"), str)
        or not isinstance(row.get("level"), str)
    ):
        return None
    timestamp, clock = _iso(row["timestamp"])
    if row.get("type") == "progress":
        step = f" (step {row['step']})" if isinstance(row.get("step"), int) else ""
        done = f"{row.get('percent')}% {row.get('current')}/{row.get('total')}"
        return LogLine(
            text=f"{row.get('desc')}: {done}{step}",
            level=row["level"],
            clock=clock,
            timestamp=timestamp,
            rank=rank,
            logger="progress",
        )
    if not isinstance(row.get("message"), str):
        return None
    text = strip_ansi(row["message"])[: LINE_CAP // 2]
    if isinstance(row.get("exception"), str):
        # The exception's own line is the last one, so the end of a long traceback is kept.
        text = f"{text}\n{row['exception'].rstrip()[-LINE_CAP // 2 :]}"
    return LogLine(
        text=text,
        level=row["level"],
        clock=clock,
        timestamp=timestamp,
        rank=rank,
        logger=str(row.get("module") or ""),
    )


_JSON_HEAD = re.compile(
    rb'\{"timestamp": "([^"\\]{1,40})", "level": "([A-Z]{1,10})", "message": "((?:[^"\\]|\\.)*)'
)


def _json_head(raw: bytes) -> dict[str, str] | None:
    """Return time, level and the beginning of the message of a JSON line that is too long to be
    read. None if it is no such line.
    """
    match = _JSON_HEAD.match(raw[:LINE_CAP])
    if match is None:
        return None
    timestamp, level, message = (part.decode("utf-8", "replace") for part in match.groups())
    return {
        "timestamp": timestamp,
        "level": level,
        "message": message.replace("\\n", "\n").replace('\\"', '"'),
    }


def _iso(text: str) -> tuple[float | None, str | None]:
    """Return the Unix time and HH:MM:SS of an ISO timestamp. The Unix time is None without an
    offset, because the time zone is then unknown.
    """
    try:
        # Python 3.10 does not read the Z that later ones take for UTC.
        moment = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    except ValueError:
        return None, None
    return (moment.timestamp() if moment.tzinfo is not None else None), moment.strftime("%H:%M:%S")


class Clock:
    """Finds the date of log lines that have only a time HH:MM:SS. Give it the lines of one log in
    their order.

    `anchor_wall` is a Unix time in seconds within half a day of the first line, such as the
    attempt's start. `tz` is how many seconds the times in the log are ahead of UTC, or None for
    this machine's offset at `anchor_wall`. The offset never changes afterwards, so after a change
    to or from summer time the results are off by an hour.
    """

    def __init__(self, anchor_wall: float, tz: int | None = None) -> None:
        self.tz = utc_offset(anchor_wall) if tz is None else tz
        self._last = anchor_wall
        self._started = False

    def resolve(self, clock: str, near: float | None = None) -> float:
        """Return the Unix time in seconds of a line with the time `clock` (HH:MM:SS). Raises
        ValueError if `clock` is no time of day.

        A time more than two hours before that of the newest line counts as the next day. `near` is
        a Unix time in seconds within half a day of this line, such as the file's mtime when a new
        line was read; with it, the line may also come after days of silence. Leave it out for old
        lines.
        """
        second = seconds_of_day(clock) - self.tz
        if near is not None or not self._started:
            self._last = wall = _nearest(second, self._last if near is None else near)
        else:
            wall = second + DAY * math.ceil((self._last - SLACK - second) / DAY)
            self._last = max(wall, self._last)
        self._started = True
        return wall


def seconds_of_day(clock: str) -> int:
    """Return the number of seconds from midnight to the time HH:MM:SS. Raises ValueError if the
    text is no time of day.
    """
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    if not (0 <= hours < 24 and 0 <= minutes < 60 and 0 <= seconds <= 60):
        raise ValueError(f"{clock!r} is not a time of day")
    return hours * 3600 + minutes * 60 + seconds


def utc_offset(wall: float) -> int:
    """Return how many seconds this machine's local time is ahead of UTC at the Unix time `wall` in
    seconds. It is negative west of Greenwich.
    """
    return time.localtime(wall).tm_gmtoff


def _nearest(second: float, wall: float) -> float:
    """Return the time closest to `wall` that equals `second` modulo a day."""
    return second + DAY * round((wall - second) / DAY)
