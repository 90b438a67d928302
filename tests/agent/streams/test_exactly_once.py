"""A log written at 5,000 lines a second, read through the socket of an agent that is killed in
between.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.agent.streams.tiny import Client, TinyHome, until

WRITER = Path(__file__).with_name("writer.py")
RATE = 5000


class Reader:
    """Reads one log as the console does: from its cursor, over every loss of the agent."""

    def __init__(self, home: TinyHome, stream: str) -> None:
        self.home, self.stream = home, stream
        self.cursor = "start"
        self.numbers: list[int] = []
        self.gaps: list[tuple[int, dict[str, Any]]] = []
        """(how many lines had been read before it, the gap)."""
        self.reconnects = 0
        self._client: Client | None = None

    def read_to(self, last: int, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self.numbers or self.numbers[-1] != last:
            assert time.monotonic() < deadline, (
                f"{len(self.numbers)} lines in {seconds} s, the last {self.numbers[-1:]}"
            )
            try:
                if self._client is None:
                    self._client = self.home.client()
                self.take(self._client)
            except (OSError, AssertionError):
                self._client = None
                self.reconnects += 1
                time.sleep(0.02)

    def take(self, client: Client) -> None:
        frame = client.read(self.stream, self.cursor, wait=5.0)
        assert "error" not in frame.header, frame.header
        if frame.header["gap"]:
            self.gaps.append((len(self.numbers), frame.header["gap"]))
        if not frame.header["partial"]:
            self.numbers += [int(line[:9]) for line in frame.payload.splitlines()]
        self.cursor = frame.header["next"]


def serve(tiny: TinyHome, path: Path) -> None:
    tiny.settings(
        logs={"log/r/t": {"path": str(path), "attempt": 1, "archive": str(path.parent / "archive")}}
    )


def write(path: Path, lines: int, rotate_every: int, how: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, str(WRITER), str(path), str(lines), str(RATE), str(rotate_every), how]
    )


def kill_and_start(
    tiny: TinyHome, agent: subprocess.Popen[bytes], writer: subprocess.Popen[bytes], dead_s: float
) -> subprocess.Popen[bytes]:
    """kill -9; the log goes on, and is rotated, while no agent is there. It is held while the next
    one starts, which takes as long as it takes: the writer keeps three files that were rotated, and
    no agent can read a fourth.
    """
    agent.send_signal(signal.SIGKILL)
    agent.wait()
    time.sleep(dead_s)
    writer.send_signal(signal.SIGSTOP)
    try:
        return tiny.start()
    finally:
        writer.send_signal(signal.SIGCONT)


def test_every_line_once_through_rotation_and_kill_9(tiny: TinyHome, tmp_path: Path) -> None:
    lines = 4 * RATE
    path = tmp_path / "trainer.log"
    serve(tiny, path)
    agent = tiny.start()
    reader = Reader(tiny, "log/r/t")
    with write(path, lines, 4000, "rename") as writer:
        reading = threading.Thread(target=reader.read_to, args=(lines - 1, 90.0))
        reading.start()
        for share in (0.2, 0.5):
            until(
                lambda share=share: len(reader.numbers) >= share * lines,
                f"{share:.0%} of the lines",
            )
            agent = kill_and_start(tiny, agent, writer, 0.3)
        reading.join()
        assert writer.wait() == 0
    assert reader.numbers == list(range(lines))
    assert reader.gaps == []
    assert reader.reconnects >= 2
    generations = (
        tiny.client().call("query", stream="log/r/t", op="stat").header["result"]["generations"]
    )
    assert len(generations) >= 5
    assert all(generation["linked"] for generation in generations)
    agent.terminate()
    assert agent.wait(60) == 0


def test_truncation_at_full_rate_loses_only_what_a_gap_shows(
    tiny: TinyHome, tmp_path: Path
) -> None:
    lines = 5 * RATE
    path = tmp_path / "trainer.log"
    serve(tiny, path)
    agent = tiny.start()
    reader = Reader(tiny, "log/r/t")
    # Half may be lost: almost a second at each of the three truncations, on a machine where a look
    # takes place ten times a second unless it is busy.
    with write(path, lines, 8000, "copytruncate"):
        reader.read_to(lines - 1, 90.0)
    assert reader.numbers == sorted(set(reader.numbers))
    assert 1 <= len(reader.gaps) <= 3
    jumps = [
        index
        for index in range(1, len(reader.numbers))
        if reader.numbers[index] != reader.numbers[index - 1] + 1
    ]
    assert set(jumps) <= {index for index, _ in reader.gaps}
    assert len(reader.numbers) > lines * 0.5
    agent.terminate()
    agent.wait(60)


def test_truncated_unread_and_unlinked_unread(tiny: TinyHome, tmp_path: Path) -> None:
    path, other = tmp_path / "trainer.log", tmp_path / "orchestrator.log"
    logs = {
        name: {"path": str(p), "attempt": 1, "archive": str(tmp_path / "a" / name)}
        for name, p in (("log/r/t", path), ("log/r/o", other))
    }
    tiny.settings(logs=logs)
    path.write_text("000000001 lost\n")
    other.write_text("000000001 kept\n000000002 kept\n")
    agent = tiny.start()
    path.write_text("000000003 after\n")
    other.unlink()
    agent.send_signal(signal.SIGKILL)
    agent.wait()
    agent = tiny.start()
    other.write_text("000000003 after\n")
    truncated, unlinked = Reader(tiny, "log/r/t"), Reader(tiny, "log/r/o")
    truncated.read_to(3, 60.0)
    unlinked.read_to(3, 60.0)
    assert (truncated.numbers, [gap["from"] for _, gap in truncated.gaps]) == ([3], [0])
    assert (unlinked.numbers, unlinked.gaps) == ([1, 2, 3], [])
    agent.terminate()
    agent.wait(60)


@pytest.mark.long
def test_half_a_minute_of_it(tiny: TinyHome, tmp_path: Path) -> None:
    """As long as the link of a pod is cut in the field, with four kills."""
    lines = 30 * RATE
    path = tmp_path / "trainer.log"
    serve(tiny, path)
    agent = tiny.start()
    reader = Reader(tiny, "log/r/t")
    with write(path, lines, 5000, "rename") as writer:
        reading = threading.Thread(target=reader.read_to, args=(lines - 1, 240.0))
        reading.start()
        for _ in range(4):
            time.sleep(5.0)
            agent = kill_and_start(tiny, agent, writer, 1.5)
        reading.join()
    assert reader.numbers == list(range(lines))
    assert reader.gaps == []
    agent.terminate()
    until(lambda: agent.poll() is not None, "the agent leaves")
