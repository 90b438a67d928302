"""Search lines for a regular expression, in a process of its own. Run as a script; imports nothing of ours.

`re` holds the interpreter's lock while it matches, and a pattern such as (a+)+$ takes for ever on one unlucky line: inside the agent
it would stop the sampler, the watcher and every console. Here it only ends this process, by the alarm set first of all.

Standard input: one JSON object `{"pattern", "ranges": [[generation, fd, from, to], ...], "limit", "seconds", "room"}`. Standard output:
`{"hits": [[generation, offset, text], ...], "next": [generation, offset] or null}` or `{"error": why the pattern is none}`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

#: Bytes of a line that are searched.
LINE = 16 * 1024
BLOCK = 256 * 1024
#: Seconds after the time slice before the alarm ends the process.
GRACE_S = 1.0


def main() -> None:
    request = json.load(sys.stdin)
    signal.setitimer(signal.ITIMER_REAL, request["seconds"] + GRACE_S)
    try:
        pattern = re.compile(request["pattern"].encode())
    except (re.error, OverflowError, RecursionError) as error:
        json.dump({"error": str(error)}, sys.stdout)
        return
    json.dump(scan(pattern, request), sys.stdout)


def scan(pattern: re.Pattern[bytes], request: dict[str, Any]) -> dict[str, Any]:
    until = time.monotonic() + request["seconds"]
    hits: list[list[Any]] = []
    room = request["room"]
    for generation, fd, position, end in request["ranges"]:
        for offset, line in lines(fd, position, end):
            if len(hits) >= request["limit"] or room <= 0 or time.monotonic() > until:
                return {"hits": hits, "next": [generation, offset]}
            match = pattern.search(line[:LINE])
            if match:
                hits.append([generation, offset, excerpt(line, match.start())])
                room -= len(hits[-1][2]) * 2 + 60
    return {"hits": hits, "next": None}


def lines(fd: int, position: int, end: int) -> Iterator[tuple[int, bytes]]:
    """(offset, line without LF) of [position, end); a line longer than a block comes in blocks."""
    while position < end:
        block = os.pread(fd, min(BLOCK, end - position), position)
        if not block:
            return
        if position + len(block) < end:
            block = block[: block.rfind(b"\n") + 1] or block
        offset = position
        for line in block.split(b"\n"):
            if offset < position + len(block):
                yield offset, line
            offset += len(line) + 1
        position += len(block)


def excerpt(line: bytes, at: int) -> str:
    """Text around the match: at most 200 bytes, starting a little before it."""
    begin = max(0, at - 60) if len(line) > 200 else 0
    return line[begin : begin + 200].decode("utf-8", "replace")


if __name__ == "__main__":
    main()
