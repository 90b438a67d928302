"""What a pod's answers must look like before anything is made of them.

Like pods.gate.records for what streams hold: an answer is checked once, where the channel receives
it, by the request that it answers. Fields that nobody reads are not checked, so that an older
console understands a newer agent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from bs4_common.wire import Frame
from bs4_console.pods.gate.records import one_line_each
from bs4_console.pods.gate.rules import (
    ENTRIES,
    RecordRefused,
    Rule,
    Shape,
    flag,
    mapping,
    number,
    objects,
    rule,
    step,
    text,
    texts,
    wall,
    whole,
)
from bs4_console.pods.reading.greeting import Call

_CURSOR = re.compile(r"[0-9]{1,12}:[0-9]{1,18}")
#: Names in a request that the console sets itself. An agent cannot set them with the arguments of
#: the next request.
_OWN = frozenset({"self", "id", "call", "stream", "op"})
#: The most arguments of the next request. An agent sends three.
_ARGUMENTS = 100


@rule("a cursor")
def cursor(value: Any) -> bool:
    """Return True if `value` has the form of a cursor, which is a place in a stream:
    GENERATION:OFFSET, the number of the stream's file and a byte offset in it.
    """
    return isinstance(value, str) and _CURSOR.fullmatch(value) is not None


@rule("an object of arguments")
def again(value: Any) -> bool:
    """Return True if `value` is a dictionary of parameters with which the console may repeat its
    query, as an agent's answer proposes them. It must have at most 100 entries. None may have a
    name that would change what is asked or about which stream, such as `op` or `stream`.
    """
    return mapping(value) and len(value) <= _ARGUMENTS and _OWN.isdisjoint(value)


@rule("a list")
def entries(value: Any) -> bool:
    """Return True if `value` is a list, of any length. Its entries are not checked here; whoever
    reads them must leave out those that are wrong.
    """
    return isinstance(value, list)


@rule("an object of finite numbers and of texts that can be written")
def plain(value: Any) -> bool:
    """Return True if `value` is a dictionary in which every number, at any depth, is finite and
    every text can be expressed in UTF-8.
    """
    return mapping(value) and _plain(value)


def _plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(text(key) and _plain(entry) for key, entry in value.items())
    if isinstance(value, list):
        return len(value) <= ENTRIES and all(_plain(entry) for entry in value)
    if isinstance(value, str):
        return text(value)
    return value is None or isinstance(value, bool) or number(value)


@rule("a list of paths, each with a text")
def files(value: Any) -> bool:
    """Return True if `value` is a list of pairs: the path of a file, and a text, which is the
    file's content or says why the file was not sent.
    """
    return isinstance(value, list) and all(texts(pair) and len(pair) == 2 for pair in value)


@rule("a list of stretches of a log, each of four integers")
def stretches(value: Any) -> bool:
    """Return True if `value` is a list of lists, each of which begins with four integers. They
    describe parts (stretches) of a log.
    """
    return isinstance(value, list) and all(_of(row, whole, whole, whole, whole) for row in value)


@rule("a list of lines, each with its cursor and its size")
def lines(value: Any) -> bool:
    """Return True if `value` is a list of lines, each a list that begins with the cursor, the text
    and the size in bytes of a line.
    """
    return isinstance(value, list) and all(_of(row, cursor, text, whole) for row in value)


@rule("a list of lines, each with its cursor and the place of its match")
def hits(value: Any) -> bool:
    """Return True if `value` is a list of dictionaries, one for each match of a search: the cursor
    and the text of the line, and the place in the line at which the match begins.
    """
    if not objects(value):
        return False
    return all(
        cursor(hit.get("cursor")) and text(hit.get("text")) and whole(hit.get("at", 0))
        for hit in value
    )


def _of(row: Any, *rules: Rule) -> bool:
    """Return True if `row` is a list whose first entries pass these rules, one each."""
    if not isinstance(row, list) or len(row) < len(rules):
        return False
    return all(rule(value) for rule, value in zip(rules, row, strict=False))


@rule("an object that says which bytes are lost")
def gap(value: Any) -> bool:
    """Return True if `value` describes, as an agent does it, a part of a stream that the pod no
    longer has (see bs4_common.streams.cursor).
    """
    return _GAP.passes(value)


_GAP = Shape({"generation": whole, "from": whole, "reason": text}, {"to": whole})
_CHECKPOINTS = Shape(
    {
        "trainer": text,
        "output_dir": text,
        "checkpoints": objects,
        "loose": mapping,
        "disk": mapping,
        "forecast": mapping,
        "config": objects,
    },
    {
        "run": text,
        "live": flag,
        "resumable": step,
        "order": mapping,
        "guard": mapping,
        "trainer_keeps": whole,
        "emptied": whole,
        "next": again,
    },
)
_CHECKPOINT = Shape(
    {"step": step, "complete": flag, "missing": mapping, "parts": objects, "bytes": number},
    {"t": wall, "age_s": number},
)
_PART = Shape({"name": text, "path": text, "complete": flag}, {"bytes": number, "why": text})
_LOOSE = Shape({"steps": whole, "bytes": number})
_DISK = Shape({}, {"path": text, "used": number, "total": number, "free": number})
_FORECAST = Shape(
    {"lasts": flag},
    {
        "room": whole,
        "to_come": whole,
        "full_t": wall,
        "full_step": step,
        "next_bytes": number,
        "set_bytes": number,
        "every_steps": whole,
        "every_s": number,
        "next_t": wall,
    },
)
_ORDER = Shape(
    {"last": whole, "at_least": whole, "milestones": whole}, {"synced": flag, "best": text}
)
_GUARD = Shape({"event": text}, {"detail": text, "t": wall})
_CONFIG = Shape({"path": text, "present": flag})


def _check_checkpoints(answer: Any) -> None:
    """Check the report of one run's checkpoints."""
    _CHECKPOINTS.check(answer)
    for checkpoint in answer["checkpoints"]:
        _CHECKPOINT.check(checkpoint)
        for part in checkpoint["parts"]:
            _PART.check(part)
        for why in checkpoint["missing"].values():
            if not text(why):
                raise RecordRefused("what a checkpoint misses is not a text")
    for config in answer["config"]:
        _CONFIG.check(config)
    _LOOSE.check(answer["loose"])
    _DISK.check(answer["disk"])
    _FORECAST.check(answer["forecast"])
    if answer.get("order"):
        _ORDER.check(answer["order"])
    if answer.get("guard"):
        _GUARD.check(answer["guard"])


def _check_where(answer: Any) -> None:
    """Check the number of a line. It is null as long as the agent counts, and says so in `next`."""
    _WHERE.check(answer)
    if answer.get("next") is None:
        _COUNTED.check(answer)


def _check_page(answer: Any) -> None:
    """Check where a search goes on. `next` is there, and is null at the end."""
    if "next" not in answer:
        raise RecordRefused("next is missing")
    if answer["next"] is not None:
        _PLACE.check(answer["next"])


def _check_search(answer: Any) -> None:
    _SEARCH.check(answer)
    _check_page(answer)


def _check_sift(answer: Any) -> None:
    _SIFT.check(answer)
    _check_page(answer)


def _check_count(answer: Any) -> None:
    _COUNT.check(answer)
    _check_page(answer)


def _check_clock(answer: Any) -> None:
    """Check the place of a clock. `cursor` is there, and is null if no line has a clock."""
    if "cursor" not in answer:
        raise RecordRefused("cursor is missing")
    _CLOCK_PLACE.check(answer)


_PLACE = Shape({"cursor": cursor})
_WHERE = Shape({}, {"line": whole, "lines": whole, "next": again})
_COUNTED = Shape({"line": whole, "lines": whole})
_SEARCH = Shape({"hits": hits}, {"next": again})
_SIFT = Shape({"lines": lines, "cursor": cursor}, {"next": again})
_COUNT = Shape({"stretches": stretches, "cursor": cursor}, {"next": again})
_CLOCK_PLACE = Shape({}, {"cursor": cursor, "next": again})
_LOOK = Shape({"facts": plain}, {"waiting": texts, "next": mapping})

Check = Callable[[Any], None]

#: Operation of a query -> the check of its answer, for a stream of the pod.
STREAM: Mapping[str, Check] = {
    "stat": Shape({"start": cursor, "end": cursor}).check,
    "seek-line": Shape({"cursor": cursor}, {"cut": flag, "within": flag, "next": again}).check,
    "seek-time": Shape({"cursor": cursor}, {"next": again}).check,
    "seek-clock": _check_clock,
    "where": _check_where,
    "search": _check_search,
    "count": _check_count,
    "sift": _check_sift,
}
#: The same, for what is a name for queries and no stream.
PODS: Mapping[str, Mapping[str, Check]] = {
    "*": {"list": Shape({"streams": entries}, {"next": again}).check},
    "checkpoints": {"list": _check_checkpoints},
    "files": {"paths": Shape({"directory": text, "names": texts}, {"more": flag}).check},
    "preflight": {
        "clock": Shape({"t": wall}).check,
        "config": Shape({"files": files}).check,
        "look": _LOOK.check,
        "schema": _LOOK.check,
        "source": Shape({"root": text, "files": files, "refused": files}, {"next": whole}).check,
    },
}
#: Call -> the check of the header of its answer.
CALLS: Mapping[str, Check] = {
    "read": Shape(
        {"start": cursor, "next": cursor}, {"gap": gap, "partial": flag, "more": flag}
    ).check,
    "query": Shape({"result": mapping}).check,
    "submit": Shape({}, {"action": text, "state": text}).check,
    "ping": Shape({"t": wall}).check,
}


def named(request: Call) -> str:
    """Return a name for a request to an agent, for use in a sentence, such as "the query stat of
    journal" or "a read of log/RUN/trainer".
    """
    if request.call == "query":
        return f"the query {request.op} of {request.stream}"
    if request.call == "read":
        return f"a read of {request.stream}"
    return f"a {request.call}"


def check(request: Call, answer: Frame) -> Frame:
    """Check an agent's answer to the console's `request`, and return it. `answer` must not be one
    that reports an error. In a report of checkpoints, each text becomes one line without characters
    that a terminal acts on. Raises RecordRefused, which names the field, if the answer is not one
    that an agent sends, or if this console knows no answer to such a request.
    """
    header = answer.header
    _known(CALLS, request.call)(header)
    if request.call != "query":
        return answer
    _known(PODS.get(request.stream, STREAM), request.op)(header["result"])
    if request.stream == "checkpoints":
        return Frame({**header, "result": one_line_each(header["result"])}, answer.payload)
    return answer


def _known(checks: Mapping[str, Check], request: str) -> Check:
    if request not in checks:
        raise RecordRefused(f"this console knows no answer to {request}")
    return checks[request]
