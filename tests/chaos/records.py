"""Hostile records in the streams that the agent writes. Whoever is the pod's user can put them
there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from pathlib import Path

from bs4_common.journal import Journal
from bs4_common.streams.segments import SegmentStream, segments
from bs4_practice import tree
from tests.chaos.world import Failed, Kind, NotMet, World, until

STREAMS = ("telemetry", "journal", "steps/flood")
_CAP = 64 * 1024 * 1024
_DEEP = b'{"t":1,"type":"note","x":' + b"[" * 30_000 + b"]" * 30_000 + b"}"
#: Some are no records at all for a parser with limits, and the others have wrong values.
RECORDS = (
    _DEEP,
    b'{"t":1e400,"m":NaN,"type":"action","action":"x","event":"intent","step":1000000000000}',
    b'{"t":"now","type":"incident","event":"opened","incident":7,"failure":null,"run":[]}',
    b'{"t":1,"type":"run","event":"attempt-started","run":"\\ud800\\u001b]0;owned\\u0007","attempt"'
    b':"zz"}',
    b'{"t":1,"type":"run","run":[],"attempt":{}}',
    b'{"t":1,"side":"trainer","step":' + b"9" * 400 + b',"gpus":{"devices":[{"index":-1e308}]}}',
    b"\xff\xfe\x00\x1b[2J",
    b"[]",
)


async def _plant(world: World, seconds: float) -> None:
    """Stop the agent, write hostile records behind its own, and kill it. The next agent goes on
    behind them.
    """
    async with world.power:
        agent = await asyncio.to_thread(world.load.agent)
        if agent is None or not tree.send(agent, signal.SIGSTOP):
            raise NotMet("there was no agent to kill")
        try:
            for stream in STREAMS:
                _write(world.load.home / ".bs4" / "state" / stream)
        finally:
            tree.send(agent, signal.SIGKILL)


def _write(directory: Path) -> None:
    """Add the records to the newest segment of a stream, all or none."""
    if not directory.is_dir():
        return
    path = segments(directory)[-1][1]
    with path.open("r+b", buffering=0) as segment:
        size = segment.seek(0, os.SEEK_END)
        segment.seek(max(size - 1, 0))
        if size and segment.read(1) != b"\n":
            raise NotMet("the agent was writing a record")
        data, written = b"\n".join(RECORDS) + b"\n", 0
        with contextlib.suppress(OSError):
            written = segment.write(data)
        if written < len(data):
            segment.truncate(size)
            raise NotMet("the disk was full")


def journal_problems(journal: Path, scratch: Path) -> list[str]:
    """Return what the product's own check says of a copy of a journal (opening a stream may repair
    it), without what it says of hostile records and of the one behind each.
    """
    shutil.copytree(journal, scratch / "journal")
    stream = SegmentStream(scratch / "journal", _CAP)
    try:
        excused, behind = [], False
        for cursor, line in stream.lines():
            hostile = line in RECORDS
            if hostile or behind:
                excused.append(f" {cursor} ")
            behind = hostile
        found = []
        for problem in Journal(stream).verify():
            if not any(cursor in problem for cursor in excused):
                found.append(problem)
        return found
    finally:
        stream.close()


async def _refused(world: World) -> list[str]:
    """Return what is wrong if the console has not said that it left records out."""
    if not (world.load.home / ".bs4" / "state" / "journal").is_dir():
        return ["the journal is gone"]
    if HOSTILE_RECORDS.name not in world.met:
        return []

    def said() -> bool:
        return "were refused" in world.console.told.get("notes", {}).get("journal", "")

    try:
        # A console whose link has just come back reads them now.
        await until(said, "the refusal")
    except Failed:
        notes = world.console.told.get("notes", {})
        return [f"nobody said that records of the journal were refused: {notes}"]
    return []


HOSTILE_RECORDS = Kind("hostile-records", _plant, lasts=False, settle=_refused)
