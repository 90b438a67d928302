"""The channel of a key that may only look: what the agent answers through it, and what it does when
the agent or the client is not as it should be.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.channel.endpoint import listen
from bs4_agent.channel.server import CONNECTIONS
from bs4_agent.lifecycle import handover
from bs4_agent.lifecycle.attach import live
from bs4_agent.lifecycle.handover import Build
from bs4_common.wire import Decoder, Frame, encode
from bs4_console.transport.need import script
from bs4_console.transport.remote import command
from tests.agent.streams.tiny import Client, TinyHome, until

HELLO = {"hello": {"protocols": [1], "client": "test/0", "who": "tester"}}
MARKER = "bs4-0123456789ab"
ATTACH = command(script(MARKER, "any", "look", "--start"))


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[TinyHome]:
    home = TinyHome(tmp_path / "home")
    home.settings()
    yield home
    home.close()


def look(tiny: TinyHome, asked: str | None = ATTACH) -> subprocess.Popen[bytes]:
    """Start `look` as sshd starts a forced command for a client that has asked for `asked`."""
    environment = {**tiny.environment}
    environment.pop("SSH_ORIGINAL_COMMAND", None)
    if asked is not None:
        environment["SSH_ORIGINAL_COMMAND"] = asked
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-m", "bs4_agent", "look"],
        env=environment,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        bufsize=0,
    )


def said(process: subprocess.Popen[bytes]) -> tuple[int, bytes, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err.decode()


def ready(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == b"\n"
    assert process.stdout.readline() == f"{MARKER} ready\n".encode()


def send(process: subprocess.Popen[bytes], *headers: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(b"".join(encode(header) for header in headers))


def received(process: subprocess.Popen[bytes], count: int) -> list[Frame]:
    assert process.stdout is not None
    decoder, frames = Decoder(), []
    while len(frames) < count:
        data = os.read(process.stdout.fileno(), 65536)
        assert data, "the channel ended"
        frames += decoder.feed(data)
    return frames


def query(number: int, stream: str) -> dict[str, Any]:
    return {"id": number, "call": "query", "stream": stream, "op": "stat"}


def test_reads_are_answered_and_everything_else_is_refused(tiny: TinyHome) -> None:
    tiny.start()
    process = look(tiny)
    ready(process)
    note = {"key": "k", "kind": "note", "text": "not written"}
    # All at once: what comes with the greeting passes through the same agent.
    send(
        process,
        HELLO,
        {"id": 1, "call": "ping"},
        {"id": 2, "call": "read", "stream": "journal", "cursor": "start"},
        {"id": 3, "call": "submit", "action": note},
        {"id": 4, "call": "read", "stream": "file//etc/hostname", "cursor": "start"},
        query(5, "preflight"),
        query(6, "files"),
        query(7, "journal"),
        {"id": 8, "call": "rotate"},
        {"id": 9, "call": "submit", "action": {"key": "k2", "kind": "handover"}},
    )
    greeting, *answers = received(process, 10)
    assert greeting.header["hello"]["look"] is True
    by_id = {frame.header["id"]: frame for frame in answers}
    assert by_id[1].header["ok"]
    assert b'"started"' in by_id[2].payload
    assert by_id[7].header["ok"]
    refused = {number for number, frame in by_id.items() if "error" in frame.header}
    assert refused == {3, 4, 5, 6, 8, 9}
    for number in refused:
        error = by_id[number].header["error"]
        assert error["type"] == "refused"
        assert error["message"].endswith("use a key that may act.")
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(60) == 0
    journal = tiny.client().call("read", stream="journal", cursor="start").payload
    assert b"not written" not in journal
    assert tiny.listens()


@pytest.mark.parametrize("mark", [{"look": False}, {"look": None}, {"look": []}])
def test_a_console_cannot_take_the_mark_away(tiny: TinyHome, mark: dict[str, Any]) -> None:
    tiny.start()
    process = look(tiny)
    ready(process)
    send(process, {"hello": {**HELLO["hello"], **mark}})
    assert received(process, 1)[0].header["hello"]["look"] is True
    # A second greeting, without the mark, ends the connection.
    send(process, HELLO)
    assert received(process, 1)[0].header["error"]["type"] == "protocol"
    assert process.wait(60) == 0


@pytest.mark.parametrize(
    "asked",
    [
        None,
        "",
        "uname -a",
        "sh -c 'id' bs4",
        f"{ATTACH}; id",
        f"id; {ATTACH}",
        ATTACH.replace(MARKER, "bs4-$(id)"),
    ],
)
def test_any_other_command_is_refused_and_not_carried_out(
    tiny: TinyHome, asked: str | None
) -> None:
    tiny.start()
    code, out, err = said(look(tiny, asked))
    assert (code, out) == (4, b"")
    assert err.startswith("bs4-look: This key may only look at the pod with bs4-console")
    assert err.count("\n") == 1


@pytest.mark.parametrize("asked", ["/usr/lib/openssh/sftp-server", "internal-sftp -l INFO"])
def test_sftp_is_refused_in_its_own_words(tiny: TinyHome, asked: str) -> None:
    """sshd drops the standard error of a subsystem."""
    process = look(tiny, asked)
    init = struct.pack(">IBI", 5, 1, 3)
    path = b"/etc/passwd"
    remove = struct.pack(">IBII", 9 + len(path), 13, 77, len(path)) + path
    out, _ = process.communicate(init + remove[:6] + remove[6:], timeout=60)
    assert process.returncode == 4
    assert out.startswith(struct.pack(">IBI", 5, 2, 3))
    length, kind, number, status = struct.unpack_from(">IBII", out, 9)
    assert (len(out), kind, number, status) == (9 + 4 + length, 101, 77, 3)
    assert b"This key may only look" in out


def test_what_stands_before_the_token_is_not_carried_out(tiny: TinyHome, tmp_path: Path) -> None:
    """A command that ends as a console's does is answered as one, and does nothing else."""
    tiny.start()
    planted = tmp_path / "planted"
    process = look(tiny, f"sh -c 'touch {planted}' bs4 {MARKER} any look --start")
    ready(process)
    send(process, HELLO)
    assert received(process, 1)[0].header["hello"]["look"] is True
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(60) == 0
    assert not planted.exists()


def test_no_agent_is_started(tiny: TinyHome) -> None:
    code, out, err = said(look(tiny))
    assert (code, out) == (3, b"")
    assert err.startswith("bs4-look: No agent runs on this pod, and a key that may only look")
    assert not tiny.listens()


def test_an_agent_that_does_not_know_the_mark_gets_no_request(tiny: TinyHome) -> None:
    """An agent of an older version would carry out what it is asked for."""
    listener = listen(tiny.home.socket("old"))
    handover.write_record(tiny.home, tiny.home.socket("old"), Build("0.1.0", 1, "old"))
    asked: list[Frame] = []

    def serve() -> None:
        while True:
            try:
                peer = listener.accept()[0]
            except OSError:
                return
            decoder = Decoder()
            with peer:
                while data := peer.recv(65536):
                    for frame in decoder.feed(data):
                        asked.append(frame)
                        peer.sendall(encode({"hello": {"protocol": 1}}))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        process = look(tiny)
        ready(process)
        send(process, HELLO, {"id": 1, "call": "submit", "action": {"key": "k", "kind": "note"}})
        error = received(process, 1)[0].header["error"]
        assert error["type"] == "protocol-version"
        assert "older than keys that may only look" in error["message"]
        assert process.wait(60) == 0
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(60)
    assert [set(frame.header) for frame in asked] == [{"hello"}]


def test_a_client_that_does_not_greet_is_told_so(tiny: TinyHome) -> None:
    tiny.start()
    process = look(tiny)
    ready(process)
    send(process, {"id": 1, "call": "submit", "action": {"key": "k", "kind": "note", "text": "x"}})
    assert received(process, 1)[0].header["error"]["type"] == "protocol"
    assert process.wait(60) == 0


def test_a_client_that_has_not_greeted_takes_no_place_on_the_agent(tiny: TinyHome) -> None:
    tiny.start()
    silent = look(tiny)
    ready(silent)
    clients = [tiny.client() for _ in range(CONNECTIONS - 1)]

    def served(count: int) -> bool:
        """Greet from `count` more places at once, and leave them again."""
        probes = []
        try:
            for _ in range(count):
                connection = live(tiny.home)
                assert connection is not None
                probes.append(Client(connection, greet=False))
                probes[-1].send(HELLO)
            return all("hello" in probe.receive().header for probe in probes)
        except OSError:  # turned away: the agent closes the connection, perhaps before all is sent
            return False
        finally:
            for probe in probes:
                probe.close()

    until(lambda: served(1), "the last place", 15.0)
    # The agent needs a moment to see that a place is left, and has many to leave here.
    for client in clients:
        client.close()
    until(lambda: served(4), "places that were left", 15.0)
    send(silent, HELLO)
    assert received(silent, 1)[0].header["hello"]["look"] is True
    for client in clients[1:]:
        client.close()


def test_wrong_arguments(tiny: TinyHome) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bs4_agent", "look", "--start"],
        env=tiny.environment,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert b"usage" in done.stderr
