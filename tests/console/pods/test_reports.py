"""A crash report on the console's side: what is none is refused, and what is one opens like a
pod.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from bs4_common.streams.cursor import Chunk
from bs4_console.checks.diagnose import diagnose
from bs4_console.errors import UsageError
from bs4_console.pods import reports
from bs4_console.pods.recorded import RecordedSession
from bs4_console.pods.state import PodState

HEAD = {
    "schema": reports.SCHEMA,
    "home": "home1",
    "host": "h100",
    "run": "r",
    "attempt": 1,
    "trainer": "prime-rl",
    "t": 20.0,
    "missing": ["x"],
}
#: Of the log, 1000 bytes before these are not in the report.
LOG = (
    b"12:00:02    INFO fine\n12:00:03   ERROR torch.OutOfMemoryError: CUDA out of memory. Tried "
    b"to allocate 2.00 GiB. GPU 0 has a total\n"
)
JOURNAL = b"".join(
    json.dumps({"t": 10.0 + seq, "m": 1.0, "b": "x", "seq": seq, **record}).encode() + b"\n"
    for seq, record in enumerate(
        [
            {"type": "run", "event": "registered", "run": "r"},
            {"type": "run", "event": "attempt-started", "run": "r", "attempt": 1, "max_steps": 9},
            {
                "type": "incident",
                "event": "opened",
                "incident": "i1",
                "failure": "cuda-oom",
                "title": "T",
                "run": "r",
                "attempt": 1,
                "role": "root",
                "severity": "critical",
                "summary": "S",
                "coverage": ["GPUs are absent"],
                "playbook": "cuda-oom",
                "evidence": [
                    {
                        "source": "trainer",
                        "stream": "log/r/trainer",
                        "cursor": "3:1022",
                        "file": "trainer.log",
                        "text": "out of memory",
                    }
                ],
            },
            {
                "type": "note",
                "run": "r",
                "text": "x",
                "who": "w",
                "at": {"stream": "log/r/trainer", "cursor": "3:1022"},
            },
            {
                "type": "note",
                "run": "r",
                "text": "y",
                "who": "w",
                "at": {"stream": "log/r/trainer", "cursor": "2:5"},
            },
        ],
        1,
    )
)
MEMBERS = {
    "report.json": json.dumps(HEAD).encode(),
    "records/journal/4": JOURNAL,
    "log/r/trainer/3.1000": LOG,
}


def archive(path: Path, members: dict[str, bytes], *, kind: bytes = tarfile.REGTYPE) -> Path:
    with tarfile.open(path, "w:gz") as made:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data) if kind == tarfile.REGTYPE else 0
            member.type, member.linkname = kind, "/etc/passwd"
            made.addfile(member, io.BytesIO(data))
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return archive(tmp_path / f"r.1{reports.SUFFIX}", MEMBERS)


async def test_it_opens_like_a_pod_and_every_cursor_leads_to_its_line(
    file: Path, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    reports.unpack(reports.load(file), root)
    session = RecordedSession("h100", root, "why")
    await session.synced()
    assert session.state.runs["r"].view.attempt.number == 1
    chunk = await session.read_log("log/r/trainer", "start")
    assert (chunk.data, chunk.start) == (LOG, "3:0")
    notes = session.state.ledger.runs["r"].notes
    assert (await session.read_log("log/r/trainer", notes[0]["at"]["cursor"])).data == LOG[22:]
    assert notes[1]["at"]["cursor"] == "2:5"


def test_diagnose_tells_what_the_agent_had_found_and_what_is_not_in_the_report(file: Path) -> None:
    told = diagnose([file])
    assert [(f["id"], f["role"], f["summary"]) for f in told["findings"]] == [
        ("cuda-oom", "root", "S")
    ]
    assert told["findings"][0]["evidence"] == [
        {
            "source": "trainer",
            "file": "trainer.log",
            "offset": 0,
            "line": 0,
            "text": "out of memory",
        }
    ]
    assert told["coverage"] == ["x", "GPUs are absent"]


@pytest.mark.parametrize(
    "members",
    [
        {"report.json": b"{}"},
        {"report.json": b"[1]"},
        {"report.json": b"no json"},
        {"other": b""},
        {"report.json": json.dumps({**HEAD, "schema": "bs4.report/9"}).encode()},
    ],
)
def test_what_is_no_report_is_refused_with_a_sentence(
    tmp_path: Path, members: dict[str, bytes]
) -> None:
    with pytest.raises(UsageError, match="is no crash report"):
        reports.load(archive(tmp_path / "f", members))


def test_a_torn_file_a_text_and_a_link_are_refused(file: Path, tmp_path: Path) -> None:
    torn = tmp_path / "torn"
    torn.write_bytes(file.read_bytes()[:-40])
    text = tmp_path / "text"
    text.write_text("hello")
    link = archive(tmp_path / "link", MEMBERS, kind=tarfile.SYMTYPE)
    for bad in (torn, text, link):
        with pytest.raises(UsageError, match="is no crash report"):
            reports.load(bad)
    with pytest.raises(UsageError, match="cannot be read"):
        reports.load(tmp_path / "none")


def test_names_that_lead_out_of_the_directory_are_not_followed(tmp_path: Path) -> None:
    bad = {f"records/{name}/1": b"{}\n" for name in ("../../up", "steps/../../up")} | {
        "log/r/../../up/1.0": b"x",
        "attempt/../up": b"x",
    }
    report = reports.load(archive(tmp_path / "f", {**MEMBERS, **bad}))
    reports.unpack(report, tmp_path / "root")
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.data")) == [
        "root/home1/journal/4.data",
        "root/home1/log/r/trainer/3.data",
    ]


class Rewritten:
    """A pod that has written its report anew. Its journal says so after the report was read
    `after` times.
    """

    def __init__(self, after: int) -> None:
        self.state = PodState(name="pod")
        self.state.streams = ["report/r.1"]
        self._after, self._reads = after, 0
        self._tell(b"the first report")

    def _tell(self, data: bytes) -> None:
        told = {"report": "report/r.1", "run": "r", "attempt": 1, "t": 1.0, "bytes": len(data)}
        self.state.ledger.reports["r", 1] = {
            **told,
            "sha256": hashlib.sha256(data).hexdigest(),
            "missing": [],
        }

    async def connected(self, timeout: float) -> Rewritten:
        return self

    async def read(self, stream: str, cursor: str) -> Chunk:
        if self._reads == self._after:
            self._tell(b"the second report")
        self._reads += 1
        return Chunk("1:0", "1:1", b"the second report", None, partial=False, more=False)


@pytest.mark.parametrize("after", [0, 1, 2])
async def test_a_report_that_its_pod_writes_anew_is_read_until_the_journal_tells_it(
    after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "_PAUSES_S", (0.0, 0.0))
    pod = Rewritten(after)
    (one,) = reports.listed(pod)  # type: ignore[arg-type]
    await reports.fetch(pod, one, tmp_path / "target")  # type: ignore[arg-type]
    assert (tmp_path / "target").read_bytes() == b"the second report"


async def test_a_report_that_the_journal_never_tells_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "_PAUSES_S", (0.0, 0.0))
    pod = Rewritten(99)
    (one,) = reports.listed(pod)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="is not what the journal says of it"):
        await reports.fetch(pod, one, tmp_path / "target")  # type: ignore[arg-type]
    assert not (tmp_path / "target").exists()
