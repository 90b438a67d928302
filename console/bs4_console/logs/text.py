"""Turn a raw log line into text that is safe to show: no control sequence of a hostile log reaches
a terminal.

There are two stages because their costs differ. `clean` runs over every byte that arrives and works
on whole chunks in C. `present` runs only over the lines on the screen.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from bs4_common.foreign_json import ForeignJsonError, loads
from bs4_common.streams.clockseek import clock_of as clock_of
from bs4_console.printable import without_unseen
from bs4_console.secret import redacted

#: Escape sequences. A sequence ends at the end of the line at the latest, because an OSC that is
#: never closed must not swallow the rest of the log.
_ESCAPES = re.compile(
    rb"\x1b(?:"
    rb"\[[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor movement, window operations
    rb"|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # OSC: titles, clipboard, hyperlinks
    rb"|[PX^_][^\x1b\n]*(?:\x1b\\)?"  # DCS, SOS, PM, APC
    rb"|[ -/]*[0-~]?"  # two-byte sequences, charset selection, a lone ESC
    rb")"
)
#: C0 controls other than tab and LF, and DEL. CR is handled before.
_CONTROLS = bytes(b for b in range(0x20) if b not in (0x09, 0x0A)) + b"\x7f"


DEBUG, INFO, SUCCESS, WARNING, ERROR = 10, 20, 25, 30, 40
LEVELS = {
    "TRACE": 5,
    "DEBUG": DEBUG,
    "INFO": INFO,
    "SUCCESS": SUCCESS,
    "WARNING": WARNING,
    "WARN": WARNING,
    "ERROR": ERROR,
    "CRITICAL": 50,
    "FATAL": 50,
}
#: A level word counts only near the start of a line (loguru, vLLM and JSON logs put it there).
#: Later it is part of a message.
_LEVEL = re.compile(rb"\b(TRACE|DEBUG|INFO|SUCCESS|WARNING|WARN|ERROR|CRITICAL|FATAL)\b")
_LEVEL_REACH = 90
#: The header of a line in glog's form, as torch writes it: a letter for the level, month and day,
#: and the clock. Its C++ parts begin with a bracket and write no leading zero of the month. A
#: launcher's prefix ([rank0]:) may stand before it.
_GLOG = re.compile(rb"(?:\[[\w-]{1,20}\]:)?\[?([IWEF])\d{3,4} \d\d:\d\d:\d\d")
GLOG_LEVELS = {b"I": INFO, b"W": WARNING, b"E": ERROR, b"F": 50}
#: The start of a JSON log line, also behind a launcher's prefix ([trainer0]:).
_JSON_HEAD = b'{"timestamp"'
_JSON = re.compile(rb"^((?:\[[\w-]{1,20}\]:)?)" + re.escape(_JSON_HEAD), re.MULTILINE)
#: The end of a request in a server's access log (uvicorn's), with the status of a good answer. One
#: that failed is never folded: it may be what somebody looks for.
ANSWERED = re.compile(rb' HTTP/[0-9.]{1,3}" (2[0-9][0-9])\b')
_OF_ONE = re.compile(rb'\S{1,100} - "([A-Z]{1,10} \S+) HTTP/[0-9.]{1,3}" (2[0-9][0-9])\b.*')
_REQUEST_REACH = 4096
#: Requests that say nothing by themselves: those that ask for a server's state, and its usual work.
#: Most lines of an access log are of these, and they alternate. What changes or ends something has
#: another method or another path.
_ROUTINE = re.compile(
    rb"(?:(GET /(?:health|metrics|ping|load|version|v1/(?:models|responses)))(/[^\s?]*)?"
    rb"|(POST /(?:v1/(?:completions|chat/completions(?:/tokens)?|responses|embeddings))))"
    rb"(?:\?\S*)? (2[0-9][0-9])"
)
#: The kind of all these requests.
ROUTINE = b"routine"
_ANY_ID = "/…".encode()
#: The number of different requests that a line names which stands for many, and the name of the
#: others.
_NAMED = 8
_OTHERS = b"others"
#: The number of cells of a line that can be scrolled to. A longer line says how many bytes it has.
#: Toolong has 1,000.
LINE_CELLS = 2000
#: The text in a line that is only partly held. It says how long the line is.
_REAL_SIZE = re.compile(" … (?:[0-9,]+ of )?([0-9,]+) bytes (?:in all|so far|left out)".encode())
#: Bytes. A longer JSON line is shown as it is, because parsing it at each repaint would cost more
#: than the rest of the page.
JSON_BYTES = 64 * 1024


def clean(data: bytes) -> bytes:
    """Return `data`, which are whole lines of a log, without the control sequences of terminals. If
    a progress bar rewrites its line by carriage returns, only its last text stays. The number of
    lines does not change.
    """
    if b"\x1b" in data:
        data = _ESCAPES.sub(b"", data)
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
        if b"\r" in data:
            data = b"\n".join(
                _last_write(line) if b"\r" in line else line for line in data.split(b"\n")
            )
    return data.translate(None, _CONTROLS)


def _last_write(line: bytes) -> bytes:
    """Return approximately what a terminal would still show of the line: its last text."""
    for piece in reversed(line.split(b"\r")):
        if piece:
            return piece
    return b""


def level_of(line: bytes) -> int | None:
    """Return the level of a line as a number, as in Python's `logging` (10 for DEBUG, 20 for INFO
    and so on). Return None if the line names no level, which is so for the lines of a traceback.
    """
    if (glog := _GLOG.match(line)) is not None:
        return GLOG_LEVELS[glog[1]]
    found = _LEVEL.search(line, 0, _LEVEL_REACH)
    if found is None:
        return LEVELS.get(_json_level(line))
    return LEVELS[found[1].decode()]


def _json_level(line: bytes) -> str:
    """Return the level word of a JSON log line, or ""."""
    if not line.startswith(b'{"'):
        return ""
    found = re.search(rb'"level": ?"([A-Z]+)"', line[:400])
    return found[1].decode() if found else ""


def request_of(line: bytes) -> bytes:
    """Return the request in a line of an access log, with its status, such as b"POST
    /v1/chat/completions 200". Return b"" for a request that failed and for any line that is not of
    an access log.

    If the line does not have uvicorn's form (CLIENT - "REQUEST), the result begins with a quotation
    mark. Such a request is never shown together with different ones in one line, because `of_many`
    cannot rewrite its line.
    """
    found = ANSWERED.search(line, 0, _REQUEST_REACH)
    if found is None:
        return b""
    before, _, request = line[: found.start()].rpartition(b'"')
    # What _OF_ONE demands, without a search.
    if before[-3:] == b" - " and before[-4:-3].strip():
        return request + b" " + found[1]
    return b'"' + request + b" " + found[1]


@lru_cache(maxsize=256)
def kind_of_request(request: bytes) -> tuple[bytes, bytes]:
    """Return (kind, name) of `request`, the text that `request_of` has found in a line of an access
    log. Neighbouring lines with requests of the same kind are shown as one line; in it the request
    is counted under `name`.

    The successful requests of a server's usual work, and those that ask for its state (`/health`,
    `/metrics`), are all of one kind. Their names have no query and no id. Every other request, such
    as one for new weights, is a kind of its own and its own name. For b"" both are b"".
    """
    found = _ROUTINE.fullmatch(request)
    if found is None:
        return request, request
    asked, tail, posted, status = found.groups()
    if tail and len(tail) > 1:
        asked += _ANY_ID
    return ROUTINE, (asked or posted) + b" " + status


def count_request(counts: Counter[bytes], name: bytes, times: int = 1) -> None:
    """Add `times` to the number in `counts` of the requests with the name `name`. If `counts` has
    eight other names already, add it to the number of "others" instead.
    """
    if name not in counts and len(counts) >= _NAMED:
        name = _OTHERS
    counts[name] += times


def of_many(line: bytes, counts: Mapping[bytes, int]) -> bytes:
    """Return a line of an access log in a form that can stand for several requests: without the
    client, the protocol and the phrase of the status. `counts` says how often there is each of the
    requests, if they are different ones: they are then listed with their numbers.
    """
    if len(counts) < 2:
        return _OF_ONE.sub(rb"\1 \2", line[:_REQUEST_REACH])
    listed = b", ".join(b"%b \xc3\x97%d" % (request, n) for request, n in counts.items())
    return _OF_ONE.sub(lambda _: listed, line[:_REQUEST_REACH])


@dataclass(frozen=True)
class Shown:
    """A line of a log as it is drawn on the screen. `text` has no control characters, and `level`
    is its level as a number, as in Python's `logging` (None if it has none).
    """

    text: str
    level: int | None


def plain(line: bytes, reach: int = 0) -> str:
    """Return a line as text without secrets and without anything that a terminal would interpret.
    Tabs are expanded. A text of more than LINE_CELLS (2,000) characters is cut, and a note at its
    end says how long the line is. With `reach` above 0, only the first `reach` characters are
    decoded and returned, which is faster.
    """
    # A character has four bytes at most. Decoding a 64 KiB line to show 2,000 cells of it would be
    # most of the cost of a page.
    text = line[: (reach or LINE_CELLS) * 4 + 1].decode("utf-8", "replace").expandtabs(4)
    text = redacted(without_unseen(text))
    if reach:
        return text[:reach]
    if len(text) <= LINE_CELLS:
        return text
    return f"{text[:LINE_CELLS]} … {size_of(line):,} bytes in all"


def present(line: bytes, reach: int = 0) -> Shown:
    """Return a line of a log in the form in which it is shown. `line` has no control sequences any
    more. A JSON log line (prime-rl's --log.json-logging) gets the usual form of a log line. With
    `reach` above 0, only the first `reach` characters are returned.
    """
    found = _JSON.match(line)
    if (
        found
        and len(line) <= JSON_BYTES
        and (shown := _from_json(line[found.end(1) :], found[1].decode(), reach))
    ):
        return shown
    return Shown(plain(line, reach), level_of(line))


def has_json(lines: bytes | bytearray) -> bool:
    """Return True if one of these lines of a log, which have no control sequences any more, begins
    as a JSON log line does, so that it is not shown as the file has it. A line that only quotes one
    does not count.
    """
    # The pattern is tried at each line, which costs more than to find that none has these bytes.
    return _JSON_HEAD in lines and _JSON.search(lines) is not None


def size_of(line: bytes) -> int:
    """Return how many bytes the line has in its log on the pod. `line` is a line of a LogStore,
    which may hold only a part of a very long line, with a note about its real size; the real size
    is then returned.
    """
    if len(line) > LINE_CELLS and (found := _REAL_SIZE.search(line)):
        return int(found[1].replace(b",", b""))
    return len(line)


def _from_json(line: bytes, prefix: str, reach: int) -> Shown | None:
    """Return a JSON log line in the usual form of a log line, or None if it is not such a line."""
    try:
        entry = loads(line)
    except ForeignJsonError:
        return None
    if not isinstance(entry, dict) or not isinstance(entry.get("level"), str):
        return None
    message = entry.get("message")
    if not isinstance(message, str):
        message = " ".join(
            f"{key} {value}"
            for key, value in entry.items()
            if key not in ("timestamp", "level", "type")
        )
    # Before the ends of lines are replaced, by which a private key is known.
    message = redacted(message)
    text = f"{prefix}{str(entry['timestamp'])[11:19]} {entry['level']:>7} {message}".replace(
        "\n", " ⏎ "
    )
    return Shown(plain(clean(text.encode("utf-8", "replace")), reach), LEVELS.get(entry["level"]))
