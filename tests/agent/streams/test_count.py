"""How many lines hold a text: the same number as a loop over the lines finds, whatever the lines
are like.
"""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

from bs4_common.streams import blocks
from bs4_common.streams.logs import LogStream
from bs4_common.streams.query import Queries

ESCAPE = re.compile(rb"\x1b\[[0-9;]*m")


def count(stream: LogStream, **arguments: Any) -> tuple[int, dict[str, Any]]:
    """(lines in all, the last answer), asked on until there is no more."""
    queries, lines = Queries(stream), 0
    while True:
        answer = queries.run("count", arguments)
        lines += sum(stretch[3] for stretch in answer["stretches"])
        if answer["next"] is None:
            return lines, answer
        arguments |= answer["next"]


def stream_of(root: Path, data: bytes) -> LogStream:
    path = root / "t.log"
    path.write_bytes(data)
    stream = LogStream("log/r/t", root / "archive", root / "state.json")
    stream.follow(path, 1)
    return stream


def lines_of(kind: str) -> list[bytes]:
    chance = random.Random(kind)
    some = {
        "crowded": lambda n: b"step %d loss 0.%d loss again" % (n, chance.randrange(1000)),
        "once in each": lambda n: b"step %d loss 0.%d" % (n, chance.randrange(1000)),
        "once, but for one": lambda n: b"step %d loss%s" % (n, b" loss" if n == 1777 else b""),
        "sparse": lambda n: (
            b"step %d %s" % (n, b"loss 0.5" if n % 97 == 0 else b"x" * chance.randrange(90))
        ),
        "mixed": lambda n: b"LOSS Loss loss"[: chance.randrange(15)] + b" %d" % n,
        "coloured": lambda n: (
            b"\x1b[32mstep\x1b[0m %d lo\x1b[1mss\x1b[0m" % n if n % 3 else b"plain loss %d" % n
        ),
        "long": lambda n: b"y" * (5000 if n % 50 == 0 else 20) + b" loss" * (n % 4 == 0),
    }
    return [some[kind](n) for n in range(2000)]


@pytest.mark.parametrize(
    "kind", ["crowded", "once in each", "once, but for one", "sparse", "mixed", "coloured", "long"]
)
@pytest.mark.parametrize("ignore_case", [False, True])
def test_as_many_as_a_loop_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, ignore_case: bool
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 4096)  # shorter than some lines, and many of them
    lines = lines_of(kind)
    stream = stream_of(tmp_path, b"\n".join(lines) + b"\nloss without an end")
    plain = [ESCAPE.sub(b"", line) for line in lines]
    for text in ("loss", "Loss", "0.5", "step 19", "loss a"):
        wanted = text.lower().encode() if ignore_case else text.encode()
        expected = sum(wanted in (line.lower() if ignore_case else line) for line in plain)
        assert count(stream, pattern=text, ignore_case=ignore_case)[0] == expected, text


def test_counting_goes_on_where_it_ended_when_the_log_has_grown(tmp_path: Path) -> None:
    stream = stream_of(tmp_path, b"a loss\n" * 100 + b"half a lo")
    first, answer = count(stream, pattern="loss")
    with (tmp_path / "t.log").open("ab") as handle:
        handle.write(b"ss\nanother loss\n")
    stream.poll()
    second, _ = count(stream, pattern="loss", cursor=answer["cursor"])
    assert (first, second) == (100, 2)
