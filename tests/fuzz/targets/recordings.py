"""A kept pod that is opened again: each file of its mirror may hold anything.

An input is a list of parts. A part begins with a line `@ FILE`, and the rest is what the file
holds. The session opens and answers, or a ConsoleError says why not.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from bs4_console.checks import verdict
from bs4_console.errors import ConsoleError
from bs4_console.pods.recorded import RecordedSession
from tests.fuzz import healthy
from tests.fuzz.scratch import scratch

_LOG = b"12:00:02    INFO fine\n12:00:03   ERROR torch.OutOfMemoryError: CUDA out of memory\n"
_FILE = re.compile(r"[a-z0-9/.]{1,60}")
_PART = re.compile(rb"^@ ", re.MULTILINE)
_QUERIES = (("stat", {}), ("seek-time", {"t": 1795324902.0}), ("seek-line", {"line": -2}))

SEEDS = [
    b"@ journal/1.data\n"
    + b"".join(healthy.JOURNAL[:9])
    + b"@ log/r/trainer/1.0.data\n"
    + _LOG
    + b"@ steps/r/1.data\n"
    + b"".join(healthy.STEPS)
    + b"@ telemetry/1.data\n"
    + healthy.TELEMETRY,
    b"@ journal/1.data\n" + b"".join(healthy.JOURNAL) + b"@ journal/2.data\n" + healthy.JOURNAL[0],
    b"@ log/r/trainer/1.0.data\n" + _LOG + b"@ log/r/trainer/2.0.data\n" + _LOG,
]
_loop = asyncio.new_event_loop()


def feed(data: bytes) -> None:
    """Write the files of an input, open them, and ask what the screen and the commands ask."""
    with scratch() as directory:
        root = directory / "pod"
        _write(root, data)
        try:
            session = RecordedSession("gone", root, "It is gone.")
        except ConsoleError:
            return
        _loop.run_until_complete(_ask(session))


def _write(root: Path, data: bytes) -> None:
    home = root / "home1"
    home.mkdir(parents=True)
    (root / "home").write_text("home1")
    for part in _PART.split(data)[1:]:
        name, _, content = part.partition(b"\n")
        file = name.decode("ascii", "replace")
        if _FILE.fullmatch(file) and ".." not in file:
            path = home / file.strip("/")
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            except OSError:
                # A file and a directory have the same name, which no file system can hold.
                continue


async def _ask(session: RecordedSession) -> None:
    await session.synced()
    verdict.judge(session.state)
    for stream in await session.streams():
        await _answered(session.read_log(stream, "start", 4096))
        for operation, parameters in _QUERIES:
            await _answered(session.query(stream, operation, **parameters))


async def _answered(asked: object) -> None:
    try:
        await asked  # type: ignore[misc]
    except ConsoleError:
        return
