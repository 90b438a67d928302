"""The command `logs`: print or follow the logs of a run, or any file of a pod.

Secrets are redacted. Into a pipe or a file the rest goes byte for byte, on a terminal without what
it would act on. With --raw not a byte is altered.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import sys

from bs4_console.cli.output import complain, emit
from bs4_console.cli.sessions import linked
from bs4_console.errors import Unreachable, UsageError
from bs4_console.logs.text import clean
from bs4_console.pods.inventory import Inventory, Pod
from bs4_console.pods.session import Chunk, PodSession
from bs4_console.pods.streams import file_stream
from bs4_console.secret import LOOK_BACK_BYTES, redactor

#: Seconds that a read waits on the pod for more data, and seconds of the pause before asking again
#: over a dead link.
WAIT_S, RETRY_S = 20.0, 0.5


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `logs` to its parser."""
    parser.add_argument(
        "run_name", metavar="RUN", nargs="?", help="the run; optional when the pod has one"
    )
    parser.add_argument(
        "--pod", metavar="NAME", help="which pod of the inventory; optional when there is one"
    )
    parser.add_argument(
        "--source",
        help="launcher, trainer, orchestrator, inference or env-NAME (default: trainer)",
        default="trainer",
    )
    parser.add_argument(
        "--file",
        metavar="PATH",
        help="any file of the pod, /... or ~/...; none that may hold credentials",
    )
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what comes")
    parser.add_argument(
        "-n",
        "--lines",
        type=_count,
        default=50,
        help="how many of the last lines (default 50); 0: from the beginning",
    )
    parser.add_argument(
        "--raw",
        action="store_true",
        help="byte for byte, with secrets and with everything that a terminal acts on",
    )
    parser.add_argument(
        "--json", action="store_true", help="one object a line: stream, cursor, text"
    )


def _count(text: str) -> int:
    """Return a number of lines from the command line."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of lines")
    return int(text)


async def run(options: argparse.Namespace) -> int:
    """Connect to the pod, print the log that the options name, and return 0. Raises a LinkError if
    the pod cannot be reached. Raises UsageError if there is no such log.
    """
    pod = _pod(options.pod, options.run_name)
    options.pod = pod.name
    async with linked(pod) as live:
        await _print(live, await _stream(live, options), options)
    return 0


def _pod(name: str | None, run: str | None) -> Pod:
    """Return the pod with this name, or without a name the only one that there is. Raises
    UsageError if the inventory has no such pod, or several; `run` stands in what is then to be
    typed.
    """
    inventory = Inventory()
    if name is not None:
        return inventory.get(name)
    known = inventory.list()
    if len(known) == 1:
        return known[0]
    if not known:
        raise UsageError("There is no pod yet.", "Add one: bs4-console pods add NAME HOST.")
    names = ", ".join(pod.name for pod in known)
    raise UsageError(
        f"There are {len(known)} pods ({names}), and no --pod says which.",
        f"Give it: bs4-console logs {run or ''} --pod NAME".replace("  ", " "),
    )


async def _stream(live: PodSession, options: argparse.Namespace) -> str:
    """Return the name of the stream that the command line asks for. Raises UsageError if there is
    no such log.
    """
    if options.file is not None:
        if options.run_name is not None:
            raise UsageError("A file belongs to no run.", "Leave out RUN, or --file.")
        return file_stream(options.file)
    logs = [name for name in await live.streams() if name.startswith("log/")]
    runs = sorted({name.split("/")[1] for name in logs})
    run = options.run_name or (runs[0] if len(runs) == 1 else None)
    if run is None:
        raise UsageError(
            f"{options.pod} has {len(runs)} runs with logs ({', '.join(runs) or 'none'}).",
            "Name one of them.",
        )
    stream = f"log/{run}/{options.source}"
    if stream in logs:
        return stream
    known = ", ".join(name.split("/", 2)[2] for name in logs if name.split("/")[1] == run)
    if known:
        raise UsageError(
            f"{run} has no log {options.source!r}.", f"It has {known}: name one with --source."
        )
    raise UsageError(
        f"{options.pod} has no run {run!r} with logs.",
        f"Runs with logs: {', '.join(runs) or 'none'}.",
    )


async def _print(live: PodSession, stream: str, options: argparse.Namespace) -> None:
    """Print the stream, and follow it with --follow."""
    cursor = await live.seek_line(stream, -options.lines) if options.lines else "start"
    out: _Lines | _Bytes = printer()
    if options.json:
        out = _Lines(stream)
    elif options.raw:
        out = _Bytes()
    if not options.raw:
        out.begin_after(await _before(live, stream, cursor))
    # The number of bytes of an unfinished last line that were printed already. The line comes again
    # from its start after it has grown.
    seen = 0
    while True:
        try:
            chunk = await live.read_log(
                stream, cursor, wait=WAIT_S if options.follow else 0.0, seen=seen, ahead=True
            )
        except Unreachable:
            if not options.follow:
                raise
            # The session reconnects, and ends this command if it cannot. The cursor says where to
            # go on.
            await asyncio.sleep(RETRY_S)
            continue
        if chunk.gap:
            complain(
                f"gap in {stream}: bytes {chunk.gap.get('from')} to {chunk.gap.get('to')} "
                f"are lost ({chunk.gap.get('reason')})"
            )
        out.write(chunk, seen)
        if chunk.data:
            seen = len(chunk.data) if chunk.repeats else 0
        cursor = chunk.next
        if not options.follow and not chunk.more:
            out.end()
            return


async def _before(live: PodSession, stream: str, cursor: str) -> bytes:
    """Return the whole lines of the log before a cursor, at most 16 KiB: they tell if the first
    line that is printed is inside a private key.
    """
    generation, colon, offset = cursor.partition(":")
    if not colon or int(offset) == 0:
        return b""
    begin = max(0, int(offset) - LOOK_BACK_BYTES)
    size = int(offset) - begin
    chunk = await live.read_log(stream, f"{generation}:{begin}", limit=size)
    if not chunk.start.startswith(f"{generation}:"):
        return b""
    read_from = int(chunk.start.partition(":")[2])
    before = chunk.data[: max(0, int(offset) - read_from)]
    # The first line is cut, unless the log begins with it.
    return before.partition(b"\n")[2] if read_from else before


class _Bytes:
    """Prints chunks as they were written, byte for byte."""

    def begin_after(self, before: bytes) -> None:
        """Note which lines are before the first one. They matter only where secrets are sought."""

    def write(self, chunk: Chunk, seen: int) -> None:
        """Print a chunk without its first `seen` bytes, which were printed before."""
        self._put(chunk.data[seen:])

    def end(self) -> None:
        """Print nothing more: every byte was printed when it came."""

    @staticmethod
    def _put(data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


class _Redacted(_Bytes):
    """Prints lines byte for byte, except for secrets. A line that is not finished waits if it may
    hold a secret.
    """

    def __init__(self) -> None:
        self._redactor = redactor()

    def begin_after(self, before: bytes) -> None:
        self._redactor.begin_after(_decoded(before))

    def write(self, chunk: Chunk, seen: int) -> None:
        self._put(_encoded(self._redactor.feed(_decoded(chunk.data[seen:]), early=True)))

    def end(self) -> None:
        self._put(_encoded(self._redactor.end()))


class _Text(_Redacted):
    """What a terminal may show: also without escape sequences and control characters."""

    @staticmethod
    def _put(data: bytes) -> None:
        sys.stdout.write(clean(data).decode("utf-8", "replace"))
        sys.stdout.flush()


def printer() -> _Redacted:
    """Return an object whose method `write` prints bytes of a log on standard output, with every
    secret replaced. If standard output is a terminal, escape sequences and control characters are
    left out too. If it is a file or a pipe, all other bytes are printed unchanged.
    """
    if sys.stdout.isatty():
        return _Text()
    return _Redacted()


def _decoded(data: bytes) -> str:
    """Return bytes as text that `_encoded` makes the same bytes again, wherever they are cut."""
    return data.decode("latin-1")


def _encoded(text: str) -> bytes:
    return text.encode("latin-1")


class _Lines:
    """Prints one JSON object per line. An unfinished line waits until it is whole or its file has
    ended.
    """

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._redactor = redactor()

    def begin_after(self, before: bytes) -> None:
        """Note which lines are before the first one."""
        self._redactor.begin_after(_decoded(before))

    def write(self, chunk: Chunk, seen: int) -> None:
        """Print the lines of a chunk, unless it is an unfinished line."""
        if chunk.repeats:
            return
        generation, offset = chunk.start.split(":")
        at = int(offset)
        for line in _by_lf(chunk.data):
            text = self._redactor.feed(line.decode("utf-8", "replace")) + self._redactor.end()
            emit(
                "log",
                stream=self._stream,
                cursor=f"{generation}:{at}",
                text=text.rstrip("\n"),
                whole=line.endswith(b"\n"),
            )
            at += len(line)

    def end(self) -> None:
        """Print nothing more: a line is printed when it is whole."""


def _by_lf(data: bytes) -> list[bytes]:
    """Return the lines of `data`, split at LF only, because progress bars write carriage returns
    within a line.
    """
    return list(io.BytesIO(data))
