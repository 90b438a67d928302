"""Reading what W&B's client leaves on disk beside a run, without W&B's own code: directories, their
newest step, logs and addresses.

Formats: wandb 0.31 (and 0.12 to 0.30, as far as they are the same). `run-ID.wandb` is 7 bytes of
header, then a LevelDB log: blocks of 32 KiB, each of fragments with a header of 7 bytes (CRC,
length, type), whose payload is a protobuf `Record`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from operator import itemgetter
from pathlib import Path
from urllib.parse import unquote

from bs4_common.failures.environment import Tracked, WandbDirectory
from bs4_common.files import foreign_object, listed, mtime, open_regular
from bs4_common.foreign_json import loads

#: run-20261120_212548-a1b2c3d4, offline-run-20261120_212548-a1b2c3d4
_NAME = re.compile(r"(offline-)?run-([\d_]{1,15})-([\w.-]{1,128})")
_KEPT = 50
#: Seconds. Trainer and orchestrator begin their W&B runs within this time of each other. An older
#: directory belongs to another attempt.
_TOGETHER_S = 900.0
#: The logs of one W&B run and their writers: the core's own run, the core's process (panics), the
#: client in the trainer.
LOGS = ("debug-internal.log", "debug-core.log", "debug.log")
#: Bytes of a trainer's log that are searched for the address. The client prints it when the run
#: begins, after the imports' warnings.
_HEAD = 1 << 20
#: `wandb: View run at URL` (at the end of a run with a name before `at`), with the colours and
#: emoji of a terminal.
_ADDRESS = re.compile(
    rb"View run(?: [^\n]{0,200}?)? at:? "
    rb"(?:\x1b\[[\d;]*m)*(https?://[^\s/\x1b]{1,200})/([\w.%~-]{1,128})/([\w.%~-]{1,128})/"
    rb"runs/([\w.%~-]{1,128})"
)
_HEADER, _BLOCK, _FRAGMENT = 7, 32 * 1024, 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
#: Fields of protobuf messages: Record.history, .run, .exit; HistoryRecord.item, .step;
#: HistoryStep.num; RunRecord's names.
_HISTORY, _RUN, _EXIT = 2, 17, 18
_ITEM, _STEP = 1, 2
_RUN_NAMES = {1: "id", 2: "entity", 3: "project", 8: "name"}


def directories(roots: Iterable[Path]) -> list[WandbDirectory]:
    """Return the local directories of W&B runs in `roots` (directories called `wandb`), oldest
    first by their last write. Only the newest 50 are returned. Those that cannot be read are left
    out.
    """
    found: dict[Path, WandbDirectory] = {}
    for root in roots:
        named = []
        for path in listed(root):
            if (name := _NAME.fullmatch(path.name)) is not None:
                named.append((name.group(2), path.name, name, path))
        for _, _, name, path in sorted(named, key=itemgetter(0, 1))[-_KEPT:]:
            changed = _changed(path, name.group(3))
            if changed is not None:
                found[path] = WandbDirectory(
                    path=path,
                    offline=name.group(1) is not None,
                    synced=any(one.name.endswith(".wandb.synced") for one in listed(path)),
                    changed=changed,
                    id=name.group(3),
                    began=name.group(2),
                )
    return sorted(found.values(), key=lambda one: one.changed)[-_KEPT:]


def _changed(path: Path, identity: str) -> float | None:
    """Return the Unix time at which the run's record was last written, or else its directory, or
    None if both are gone.
    """
    times = [mtime(path / f"run-{identity}.wandb"), mtime(path)]
    return max((t for t in times if t is not None), default=None)


def together(found: Iterable[WandbDirectory]) -> list[WandbDirectory]:
    """Return those directories of W&B runs that belong to the newest attempt of a training run. For
    each parent directory, these are the newest one and those that began up to 15 minutes before it.
    The dates in their names decide, because the times of copied files are wrong.
    """
    newest: dict[Path, list[WandbDirectory]] = {}
    for one in sorted(found, key=lambda one: one.began, reverse=True):
        of_root = newest.setdefault(one.path.parent, [])
        if not of_root or _seconds(of_root[0].began) - _seconds(one.began) <= _TOGETHER_S:
            of_root.append(one)
    return list(chain.from_iterable(newest.values()))


def _seconds(stamp: str) -> float:
    """Return the seconds of a stamp in a name, in an arbitrary count with months of 31 days. Only
    differences are meaningful. Return 0.0 for another format.
    """
    date, _, clock = stamp.partition("_")
    if len(date) != 8 or len(clock) != 6:
        return 0.0
    days = (int(date[:4]) * 12 + int(date[4:6])) * 31 + int(date[6:8])
    return days * 86400.0 + int(clock[:2]) * 3600 + int(clock[2:4]) * 60 + int(clock[4:6])


def logs(directory: Path) -> list[Path]:
    """Return the existing logs that W&B's client has written in the directory of one W&B run."""
    paths = [directory / "logs" / name for name in LOGS]
    return [path for path in paths if path.is_file()]


def newest_step(directory: WandbDirectory) -> int | None:
    """Return the newest step that W&B's client has recorded in a local directory, uploaded or not.
    It is read from `wandb-summary.json`, or else from the end of the client's record. Return None
    if neither has a step.
    """
    step = foreign_object(directory.path / "files" / "wandb-summary.json").get("_step")
    if isinstance(step, int):
        return step
    steps = map(_history_steps, _records(directory, tail=True))
    return max(chain.from_iterable(steps), default=None)


def exit_code(directory: WandbDirectory) -> int | None:
    """Return the exit code with which the program ended, as W&B's client has recorded it, or None
    if the client has not recorded an end.
    """
    for message in _messages(directory, _EXIT, tail=True):
        for number, code in _fields(message):
            if number == 1 and isinstance(code, int):
                return code
        return 0
    return None


def names(directory: WandbDirectory) -> dict[str, str]:
    """Return the names that W&B's client was given for a W&B run: `id`, `entity`, `project` and
    `name`. Those that it was not given are left out.
    """
    given = {}
    for number, value in _fields(next(_messages(directory, _RUN, tail=False), b"")):
        if number in _RUN_NAMES and isinstance(value, bytes):
            given[_RUN_NAMES[number]] = value.decode("utf-8", "replace")
    return given


def address(log: Path, side: str) -> Tracked | None:
    """Return where W&B shows the W&B run of the program that wrote the log `log`, as W&B's client
    prints it into that log when it starts. `side` is the program's side, "trainer" or
    "orchestrator", and becomes the result's `side`. Return None if the log holds no such line or
    cannot be read, for example if the client works offline.
    """
    try:
        with open_regular(log) as handle:
            match = _ADDRESS.search(handle.read(_HEAD))
    except OSError:
        return None
    if match is None:
        return None
    server, entity, project, identity = (unquote(part.decode("ascii")) for part in match.groups())
    return Tracked(side, identity, project, entity, server)


def _history_steps(record: bytes) -> Iterator[int]:
    """Yield the step numbers in a record of the metrics history."""
    for field, value in _fields(record):
        if field != _HISTORY or not isinstance(value, bytes):
            continue
        for number, part in _fields(value):
            if number == _STEP and isinstance(part, bytes):
                yield next((n for key, n in _fields(part) if key == 1 and isinstance(n, int)), 0)
            elif number == _ITEM and isinstance(part, bytes):
                item = dict(_fields(part))
                if item.get(1) == b"_step" or item.get(2) == b"_step":
                    yield from _number(item.get(16))


def _number(value: object) -> Iterator[int]:
    """Yield the integer in a JSON text, or nothing."""
    try:
        found = loads(value) if isinstance(value, bytes) else None
    except ValueError:
        return
    if isinstance(found, int):
        yield found


def _messages(directory: WandbDirectory, wanted: int, *, tail: bool) -> Iterator[bytes]:
    """Yield the messages in the field `wanted` of the records; `tail` is that of `_records`."""
    for record in _records(directory, tail=tail):
        for field, value in _fields(record):
            if field == wanted and isinstance(value, bytes):
                yield value


def _records(directory: WandbDirectory, *, tail: bool) -> Iterator[bytes]:
    """Yield the records in the first block of the file, or in its last two. The whole file, which
    may hold a week of training, is never read.
    """
    try:
        with open_regular(directory.path / f"run-{directory.id}.wandb") as handle:
            size = os.fstat(handle.fileno()).st_size
            first = max(0, (size - 1) // _BLOCK - 1) * _BLOCK if tail else 0
            handle.seek(first)
            data = handle.read(2 * _BLOCK if tail else _BLOCK)
    except OSError:
        return
    if first == 0 and not data.startswith(b":W&B"):
        return
    yield from _joined(data, _HEADER if first == 0 else 0)


def _joined(data: bytes, place: int) -> Iterator[bytes]:
    """Yield the whole records in `data`, from `place` on. Fragments of a record that began earlier,
    and a last one that is being written, are left out.
    """
    parts: list[bytes] | None = None
    while place + _FRAGMENT <= len(data):
        if _BLOCK - place % _BLOCK < _FRAGMENT:
            place += _BLOCK - place % _BLOCK
            continue
        length, kind = int.from_bytes(data[place + 4 : place + 6], "little"), data[place + 6]
        begin, place = place + _FRAGMENT, place + _FRAGMENT + length
        if kind not in (_FULL, _FIRST, _MIDDLE, _LAST) or place > len(data):
            return
        if kind in (_FULL, _FIRST):
            parts = []
        if parts is not None:
            parts.append(data[begin:place])
            if kind in (_FULL, _LAST):
                yield b"".join(parts)
                parts = None


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (number, value) of a protobuf message's varints and length-delimited fields. Stops at
    the first byte that makes no sense.
    """
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        if key & 7 == 0:
            value, place = _varint(message, place)
            yield key >> 3, value
        elif key & 7 == 2:
            length, place = _varint(message, place)
            yield key >> 3, message[place : place + length]
            place += length
        elif key & 7 in (1, 5):
            place += 8 if key & 7 == 1 else 4
        else:
            return


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """Return (value, next place) of the varint at `place`."""
    value = 0
    for shift in range(0, 64, 7):
        if place >= len(message):
            break
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    return value, place
