"""A console in a process of its own, to be killed: `reader.py JSON`.

It keeps the pod up to date and follows one log. Each chunk that it reads goes to the file
`readings`, so the next console goes on where a killed one was. It takes one JSON line for each
order on standard input, and tells how it is with JSON lines on standard output.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from bs4_console.errors import ConsoleError
from bs4_console.pods.inventory import Pod
from bs4_console.pods.mirror import Mirror
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import PodState
from bs4_console.transport.hostkeys import HostKeys
from bs4_console.transport.ssh import SshTransport

TELL_S = 0.2


def say(**what: Any) -> None:
    """Print one JSON line."""
    print(json.dumps(what), flush=True)


class Readings:
    """The chunks that were read, in a file that a kill cannot tear for long."""

    def __init__(self, path: Path) -> None:
        self.cursor, end = "start", 0
        for head, _, behind in whole(path):
            self.cursor, end = head["next"], behind
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(self._fd, end)
        os.lseek(self._fd, end, os.SEEK_SET)

    def add(self, chunk: Any) -> None:
        """Keep a chunk. One that will come again longer is noted without its bytes."""
        data = chunk.data
        if chunk.repeats:
            data = b""
        self.cursor = chunk.next
        if data or chunk.gap:
            head = {"start": chunk.start, "next": chunk.next, "gap": chunk.gap, "bytes": len(data)}
            os.write(self._fd, json.dumps(head).encode() + b"\n" + data)


def whole(path: Path) -> list[tuple[dict[str, Any], bytes, int]]:
    """Return the whole readings of a file: head, bytes, and the offset behind them."""
    found: list[tuple[dict[str, Any], bytes, int]] = []
    if not path.exists():
        return found
    text, at = path.read_bytes(), 0
    while (line := text.find(b"\n", at)) >= 0:
        head = json.loads(text[at:line])
        end = line + 1 + head["bytes"]
        if end > len(text):
            break
        found.append((head, text[line + 1 : end], end))
        at = end
    return found


async def follow(
    session: PodSession, stream: str, readings: Readings, told: dict[str, Any]
) -> None:
    """Read the log without end."""
    while True:
        try:
            chunk = await session.read_log(stream, readings.cursor, wait=2.0, ahead=True)
        except ConsoleError as error:
            told["error"] = str(error)
            await asyncio.sleep(0.1)
            continue
        readings.add(chunk)
        told["cursor"] = readings.cursor


async def obey(session: PodSession, order: dict[str, Any]) -> None:
    """Do what one line of standard input orders."""
    try:
        if order["do"] == "submit":
            key = await session.submit(order["kind"], **order["body"])
            say(accepted=key, tag=order["tag"])
        elif order["do"] == "retry":
            session.retry_now()
        elif order["do"] == "sync":
            session.retry_now()
            await session.synced(30)
            say(synced=order["number"])
    except ConsoleError as error:
        say(refused=f"{type(error).__name__}: {error}", tag=order.get("tag", order["do"]))


async def orders(session: PodSession) -> None:
    """Take orders from standard input without end."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    running = set()
    while line := await reader.readline():
        task = asyncio.create_task(obey(session, json.loads(line)))
        running.add(task)
        task.add_done_callback(running.discard)


async def tell(session: PodSession, told: dict[str, Any]) -> None:
    """Say how it is, several times a second."""
    while True:
        state = session.state
        ended = {key: action.state for key, action in state.ledger.actions.items() if action.ended}
        notes = {key: str(note) for key, note in state.notes.items()}
        say(link=state.link.state, ended=ended, notes=notes, **told)
        await asyncio.sleep(TELL_S)


async def main(order: dict[str, Any]) -> None:
    """Live until killed, or until standard input or one of the loops ends."""
    entry = Pod(
        name=order["name"],
        host=order["host"],
        port=order["port"],
        user=order["user"],
        identity_file=order["key_path"],
        ssh_config=False,
    )
    hostkeys = HostKeys(Path(order["known_hosts"]))
    session = PodSession(
        PodState(name=entry.name),
        lambda: SshTransport(entry, hostkeys),
        Mirror(Path(order["mirror"])),
        "chaos",
    )
    readings, told = Readings(Path(order["readings"])), {"cursor": "", "error": ""}
    loops = [
        asyncio.create_task(session.run()),
        asyncio.create_task(follow(session, order["stream"], readings, told)),
        asyncio.create_task(tell(session, told)),
        asyncio.create_task(orders(session)),
    ]
    done, _ = await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
