"""Whatever is done to a log's files, a reader gets every whole line once and in order, as long as
nothing was truncated.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from bs4_common.streams import chain
from bs4_common.streams.cursor import Cursor
from bs4_common.streams.logs import LogStream
from tests.agent.streams.tiny import kill

operations = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 40)),
        st.tuples(st.just("begin"), st.integers(1, 9)),
        st.tuples(st.sampled_from(["rename", "unlink", "restart", "poll"]), st.just(0)),
        st.tuples(st.just("read"), st.sampled_from([1, 30, 100, 262144])),
    ),
    max_size=30,
)


class World:
    def __init__(self, root: Path) -> None:
        self.root, self.path = root, root / "run.log"
        self.written: list[bytes] = []
        self.read_lines: list[bytes] = []
        self.open_line = b""
        self.held = b""
        self.cursor = "start"
        self.set_aside = 0
        self.start()

    def restart(self) -> None:
        kill(self.stream)
        self.start()

    def start(self) -> None:
        self.stream = LogStream("log/r/run", self.root / "archive", self.root / "state.json")
        self.stream.follow(self.path, 1)

    def append(self, data: bytes) -> None:
        with self.path.open("ab") as handle:
            handle.write(data)

    def write(self, count: int) -> None:
        for _ in range(count):
            line = self.open_line + b"line %d %s" % (
                len(self.written),
                b"x" * (len(self.written) % 17),
            )
            self.append(line[len(self.open_line) :] + b"\n")
            self.written.append(line)
            self.open_line = b""

    def begin(self, length: int) -> None:
        """The start of a line whose end is still to be written."""
        self.append(b"~" * length)
        self.open_line += b"~" * length

    def replace(self, how: str) -> None:
        """The agent sees a file before it is taken away: what it never saw it cannot have
        linked.
        """
        if self.path.exists():
            self.stream.poll()
            if how == "rename":
                self.set_aside += 1
                self.path.rename(self.root / f"aside-{self.set_aside}")
            else:
                self.path.unlink()
            if self.open_line:
                self.written.append(self.open_line)
                self.open_line = b""

    def read(self, limit: int, *, everything: bool = False) -> None:
        while True:
            chunk = self.stream.read(self.cursor, limit)
            assert chunk.gap is None
            if (
                ":" in self.cursor
                and Cursor.parse(chunk.start).generation != Cursor.parse(self.cursor).generation
                and self.held
            ):
                self.read_lines.append(self.held)  # its file ended without LF
                self.held = b""
            moved = chunk.next != self.cursor
            self.cursor = chunk.next
            if chunk.data and not chunk.repeats:
                assert (
                    Cursor.parse(chunk.start).offset + len(chunk.data)
                    == Cursor.parse(chunk.next).offset
                )
                *lines, self.held = (self.held + chunk.data).split(b"\n")
                self.read_lines += lines
            if not (everything and moved):
                return


@settings(max_examples=80)
@given(operations)
def test_every_line_once_and_in_order(steps: list[tuple[str, int]]) -> None:
    with (
        tempfile.TemporaryDirectory() as root,
        patch.object(chain, "QUIET_S", 0.0),
        patch.object(chain, "write_json", quick_write),
    ):
        world = World(Path(root))
        for kind, number in steps:
            if kind in ("rename", "unlink"):
                world.replace(kind)
            elif kind in ("restart", "poll"):
                world.restart() if kind == "restart" else world.stream.poll()
            else:
                {"write": world.write, "begin": world.begin, "read": world.read}[kind](number)
        world.replace("rename")
        world.append(b"the end\n")
        world.written.append(b"the end")
        world.stream.poll()
        world.stream.poll()
        world.read(262144, everything=True)
        kill(world.stream)
        assert world.read_lines == world.written


def quick_write(path: Path, value: dict) -> None:
    """As the real one without fsync, which is what takes the time in 80 examples."""
    from bs4_common.files import write_json

    write_json(path, value, durable=False)
