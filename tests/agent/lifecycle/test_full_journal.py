"""An agent whose journal has reached its cap begins and ends all the same: only a console can make
room there, and it needs the agent for that.
"""

from __future__ import annotations

import signal
from pathlib import Path

from bs4_agent.daemon import JOURNAL_CAP
from bs4_agent.paths import Home
from bs4_common.journal import Journal
from bs4_common.streams.segments import SegmentStream
from tests.agent.lifecycle.test_home_removed import Agent

TEXT = "x" * (200 << 10)


def test_it_listens_and_leaves_although_nothing_can_be_journalled(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    stream = SegmentStream(home.state / "journal", JOURNAL_CAP)
    journal = Journal(stream)
    room = JOURNAL_CAP
    while room > len(TEXT) + 1000:
        journal.append("note", run="demo", text=TEXT)
        room = JOURNAL_CAP - stream.stat()["bytes"]
    journal.append("note", run="demo", text="x" * (room - 400))
    stream.close()
    agent = Agent(home.root, 60.0)
    agent.process.send_signal(signal.SIGTERM)
    code, _, said = agent.end()
    assert code == 0, said
