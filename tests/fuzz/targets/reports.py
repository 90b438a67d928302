"""Crash reports: an archive that came from a pod is opened (pods/reports.py).

An input is the archive before it is compressed. Behind it lie 64 MiB of zeros, as an archive that
unpacks to much has them. It is a report within the ceilings, or a UsageError.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile

from bs4_console.errors import UsageError
from bs4_console.pods import reports
from tests.fuzz import healthy
from tests.fuzz.ceilings import lowered
from tests.fuzz.scratch import scratch

_MIB = 1024 * 1024
_CEILINGS = {"REPORT_UNPACKED_BYTES": 8 * _MIB, "REPORT_READ_BYTES": 1 * _MIB}
#: A member of gzip's own: it can lie behind another one, and costs 64 KB.
_ZEROS = gzip.compress(bytes(64 * _MIB), compresslevel=9)
#: Bytes that one report may cost: its members, and copies of them.
MORE_BYTES = 48 * _MIB

_HEAD = {
    "schema": reports.SCHEMA,
    "home": "home1",
    "host": "h100",
    "run": "r",
    "attempt": 1,
    "trainer": "prime-rl",
    "t": 1795324920.0,
    "missing": ["x"],
}


def _archive(members: dict[str, bytes], form: int = tarfile.GNU_FORMAT) -> bytes:
    """Return a plain tar archive."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=form) as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return made.getvalue().rstrip(b"\0") + bytes(1024)


_MEMBERS = {
    "report.json": json.dumps(_HEAD).encode(),
    "records/journal/4": b"".join(healthy.JOURNAL[:9]),
    "log/r/trainer/3.1000": b"12:00:02    INFO fine\n",
    "dmesg.log": b"x\n",
}
SEEDS = [
    _archive(_MEMBERS),
    _archive({**_MEMBERS, "attempt/" + "a" * 120: b"x"}),
    _archive({**_MEMBERS, "config/" + "é" * 60: b"x"}, tarfile.PAX_FORMAT),
]


def _summed(data: bytes) -> bytes:
    """Return an archive whose headers have the right checksum, which no fuzzer would guess."""
    blocks = bytearray(data)
    for place in range(0, len(blocks) - 511, 512):
        if blocks[place + 257 : place + 262] == b"ustar":
            blocks[place + 148 : place + 156] = b" " * 8
            total = sum(blocks[place : place + 512])
            blocks[place + 148 : place + 156] = b"%06o\0 " % total
    return bytes(blocks)


def feed(data: bytes) -> None:
    """Open a report, lay it out as a mirror, and ask what was wrong."""
    with scratch() as directory, lowered(_CEILINGS):
        file = directory / f"r.1{reports.SUFFIX}"
        file.write_bytes(gzip.compress(_summed(data), compresslevel=1) + _ZEROS)
        try:
            report = reports.load(file)
        except UsageError:
            return
        root = directory / "root"
        root.mkdir()
        reports.unpack(report, root)
        reports.not_seen(report)
        held = sorted(path.name for path in directory.iterdir())
        assert held == [file.name, "root"], "a report was unpacked outside its directory"
