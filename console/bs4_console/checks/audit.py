"""Find journals on this machine and on pods, and check their hash chains."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bs4_common.foreign_json import ForeignJsonError, loads
from bs4_common.streams.segments import RECORD_LIMIT
from bs4_console import ceilings
from bs4_console.checks.chain import Anchor, ChainCheck, Checked, Where
from bs4_console.errors import ConsoleError
from bs4_console.logs.text import clean, plain
from bs4_console.pods.channel import Channel
from bs4_console.pods.mirror import directory_name
from bs4_console.pods.port import Transport
from bs4_console.pods.range_set import RangeSet

#: The files of a journal: an agent's segments, and what a console keeps of them.
_SEGMENT = re.compile(r"([0-9]{8})\.ndjson")
_KEPT = re.compile(r"([0-9]{1,12})\.data")
_NAME = "journal"
#: Directories below the one that is given in which a journal is looked for: a console's data has
#: pods/NAME/HOME/journal.
_DEPTH = 6
#: Bytes of the file that says what of a kept file was kept. A journal, which is read in order,
#: needs one line of 42 bytes.
_SPANS_BYTES = 64 * 1024
#: Seconds for a live journal. 64 MB, which is the agent's cap, take a minute at 1 MB a second.
LIVE_S = 600.0


@dataclass(frozen=True)
class Found:
    """The result of checking a journal (the agent's log of actions and incidents) whose files lie
    on this machine. `checked` has the details. `last` is the number and digest of the journal's
    newest record, or None if its chain of hashes is not whole.
    """

    checked: Checked
    last: Anchor | None


def journals_below(directory: Path) -> list[Path]:
    """Return the directories that hold the files of a journal (the agent's log of actions and
    incidents): `directory` itself and directories named `journal` up to a few levels below it,
    sorted. Links are not followed. The result is empty if there is no journal.
    """
    found = []
    if _files(directory):
        found.append(directory)
    for place, names, _ in os.walk(directory, followlinks=False):
        journal = Path(place) / _NAME
        if _NAME in names and not journal.is_symlink() and _files(journal):
            found.append(journal)
        if len(Path(place).relative_to(directory).parts) >= _DEPTH:
            names.clear()
    return sorted(found)


def shown(text: bytes) -> str:
    """Return a path, or a sentence that a pod sent, as one line of text without characters that a
    terminal would interpret as commands.
    """
    return plain(clean(text).replace(b"\n", b" "))


def check_directory(directory: Path, where: Where = "directory", pod: str = "") -> Found:
    """Check the hash chain of the journal (the agent's log of actions and incidents) whose files
    lie in `directory`, and return the result. `where` and `pod` are only put into the result, to
    say what the journal is. A journal without a record has the status "unknown". Raises OSError if
    a file cannot be read.
    """
    checked = Checked(where=where, pod=pod, path=shown(os.fsencode(directory)))
    chain = ChainCheck(checked)
    files = _files(directory)
    gaps = _noted_gaps(directory)
    before = 0
    for number, path in files:
        if any(before <= gap < number for gap in gaps if before):
            chain.hole(f"The pod had lost bytes before {path.name} when this console read on.")
        _file(chain, number, path, last=path == files[-1][1])
        before = number
    if not checked.records:
        chain.doubt("It holds no record.")
    if chain.last is None or checked.status != "whole":
        return Found(checked, None)
    return Found(checked, chain.last)


async def check_live(
    transport: Transport, who: str, client: str, pod: str, kept: Mapping[str, Anchor]
) -> Checked:
    """Read the journal (the agent's log of actions and incidents) of the agent that runs on the pod
    named `pod`, check its hash chain, and return the result. No agent is installed and nothing on
    the pod is changed. `transport` is closed afterwards. If the pod cannot be reached, the result
    is "unknown", with the reason.

    `who` is the person and `client` the name by which this console introduces itself to the agent.
    `kept` maps the id of an agent's home (the directory in which an agent keeps its files) to the
    newest record of the copy that this machine has of that agent's journal. If there is a copy for
    the live agent, its journal must contain that record.
    """
    checked = Checked(where="live", pod=pod, path="state/journal")
    try:
        async with asyncio.timeout(LIVE_S):
            duplex = await transport.open(lambda phrase: None, deploy=False)
            channel = await Channel.open(duplex, who, client, pod=pod)
            try:
                home = directory_name(str(channel.hello.get("home") or ""))
                await _read_live(channel, ChainCheck(checked, kept.get(home)))
            finally:
                await channel.close()
    except ConsoleError as error:
        checked.unknown.append(shown(str(error).encode()))
    except TimeoutError:
        checked.unknown.append(f"The journal was not read to its end within {LIVE_S:.0f} s.")
    finally:
        await transport.close()
    return checked


async def _read_live(channel: Channel, chain: ChainCheck) -> None:
    """Check the live journal from its oldest record to its newest."""
    cursor, rest, read = "start", b"", 0
    file, generation, offset = "", 0, 0
    while True:
        chunk = await channel.read(_NAME, cursor)
        number, at = map(int, chunk.start.split(":"))
        if number != generation:
            if rest:
                chain.broken(file, offset, "The file ends within a record.")
            generation, offset, rest = number, at, b""
            file = f"state/{_NAME}/{number:08d}.ndjson"
            chain.checked.files += 1
        if at != offset + len(rest):
            chain.broken(file, offset, f"The pod sent what begins at byte {at} instead.")
            return
        if chunk.gap is not None:
            chain.hole(f"The pod has lost bytes of {file} behind byte {offset}.")
            rest = b""
        *lines, rest = (rest + chunk.data).split(b"\n")
        for line in lines:
            chain.line(file, offset, line, first=generation == 1 and offset == 0)
            offset += len(line) + 1
        read += len(chunk.data)
        if len(rest) > RECORD_LIMIT:
            chain.broken(file, offset, f"The line is longer than {RECORD_LIMIT:,} bytes.")
            return
        if read > ceilings.JOURNAL_BYTES:
            chain.doubt(f"More than {ceilings.JOURNAL_BYTES // ceilings.MIB} MiB are not checked.")
            return
        if not chunk.more:
            if not chain.checked.records:
                chain.doubt("It holds no record.")
            chain.end(file, offset)
            return
        if chunk.next == cursor:
            chain.doubt("The pod says that there is more, and sends nothing.")
            return
        cursor = chunk.next


def _files(directory: Path) -> list[tuple[int, Path]]:
    """Return the numbers and paths of a journal's files, oldest first. Links are left out."""
    found = []
    if directory.is_dir():
        for path in directory.iterdir():
            match = _SEGMENT.fullmatch(path.name) or _KEPT.fullmatch(path.name)
            if match and path.is_file() and not path.is_symlink():
                found.append((int(match[1]), path))
    return sorted(found)


def _file(chain: ChainCheck, number: int, path: Path, *, last: bool) -> None:
    """Check one file. `last` is True for the newest one, whose last line may be unfinished."""
    chain.checked.files += 1
    spans = _spans(path)
    size, offset = path.stat().st_size, 0
    if spans is not None and spans.first_missing(0) > size:
        held = spans.first_missing(0)
        chain.broken(path.name, size, f"The file ends at byte {size}, {held} bytes were kept.")
    with path.open("rb") as handle:
        while offset < size:
            if spans is not None and spans.first_missing(offset) == offset:
                held_from = spans.first_held(offset)
                if held_from is None:
                    return
                chain.hole(f"Bytes {offset} to {held_from} of {path.name} were not kept.")
                offset = held_from
                handle.seek(offset)
            line = handle.readline(RECORD_LIMIT + 1)
            if not line:
                return
            if not line.endswith(b"\n"):
                _unfinished(chain, path.name, offset, len(line), last=last)
                return
            chain.line(path.name, offset, line[:-1], first=number == 1 and offset == 0)
            offset += len(line)


def _spans(path: Path) -> RangeSet | None:
    """Return which bytes of a kept file were kept. Return None for an agent's segment, and where
    that was not written down: then all of the file counts.
    """
    beside = path.with_suffix(".spans")
    if path.suffix == ".data" and _is_small(beside, _SPANS_BYTES):
        return RangeSet(beside)
    return None


def _is_small(path: Path, most: int) -> bool:
    """Return True if `path` is a file, no link, of at most `most` bytes."""
    return path.is_file() and not path.is_symlink() and path.stat().st_size <= most


def _unfinished(chain: ChainCheck, file: str, offset: int, length: int, *, last: bool) -> None:
    """Note a line without LF at the end of a file, or one that is too long to be a record."""
    if length > RECORD_LIMIT:
        chain.broken(file, offset, f"The line is longer than {RECORD_LIMIT:,} bytes.")
    elif last:
        chain.checked.notes.append(
            f"The last {length} bytes of {file} are an unfinished record, which counts for nothing."
        )
    else:
        chain.broken(file, offset, "The file ends within a record.")


def _noted_gaps(directory: Path) -> list[int]:
    """Return the files of which the pod had lost bytes before this console read them, as it noted
    then. What cannot be read is left out: a gap that is not known is a break.
    """
    found: list[int] = []
    path = directory / "gaps.ndjson"
    if not _is_small(path, ceilings.GAPS_BYTES):
        return found
    for line in path.read_text("utf-8", "replace").splitlines():
        try:
            gap: Any = loads(line)
        except ForeignJsonError:
            continue
        if isinstance(gap, dict) and isinstance(gap.get("generation"), int):
            found.append(gap["generation"])
    return found
