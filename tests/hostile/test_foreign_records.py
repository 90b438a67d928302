"""Records in the agent's own files that no agent has written: another program of the pod's user, or
a broken disk, has. The agent starts all the same, and what is whole still counts.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bs4_agent.book import Book
from bs4_agent.runs.event_log import EventLog
from bs4_common.journal import Journal
from bs4_common.streams.segments import SegmentStream
from tests.chaos.records import RECORDS
from tests.hostile.test_odd_rows import step_log


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """A journal with a record of an agent, then foreign ones, then one of an agent again."""
    first = Journal(SegmentStream(tmp_path / "journal", 1 << 20))
    first.append("run", event="attempt-started", run="flood", attempt=1, started_t=1.0)
    with (tmp_path / "journal" / "00000001.ndjson").open("ab") as segment:
        segment.write(b"\n".join(RECORDS) + b"\n")
    first.stream.close()
    again = Journal(SegmentStream(tmp_path / "journal", 1 << 20))
    again.append("run", event="attempt-started", run="flood", attempt=2, started_t=2.0)
    return again


def test_the_agent_knows_its_own_records_and_names_those_it_left_out(
    journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    book = Book(journal)
    assert sorted(book.ledger.runs["flood"].attempts) == [1, 2]
    assert "an action has no step 1000000000000" in capsys.readouterr().err


def test_an_event_is_journalled_once_all_the_same(journal: Journal, tmp_path: Path) -> None:
    events = EventLog(journal)
    assert not events.append(tmp_path, "flood", 2, "attempt-started")
    assert events.append(tmp_path, "flood", 2, "attempt-ended")


def test_steps_are_still_recorded_once(tmp_path: Path) -> None:
    line = b"10:00:00 SUCCESS Step 3 | Time: 1.00s | Loss: 0.5 | Entropy: 0.4 | Mismatch KL: 0.1 | "
    line += b"Grad. Norm: 0.3 | LR: 1e-06 | Throughput: 9 tokens/s | MFU: 3% | Peak Mem.: 2 GiB"
    steps = step_log(tmp_path, "prime-rl-2026-01")
    assert steps.feed("trainer", line, "1:0", 1, None)
    steps.flush()
    with (tmp_path / "steps" / "00000001.ndjson").open("ab") as segment:
        segment.write(b"\n".join(RECORDS) + b"\n")
    again = step_log(tmp_path, "prime-rl-2026-01")
    assert len(again.known(1)) == 1
    assert not again.feed("trainer", line, "1:0", 1, None)
