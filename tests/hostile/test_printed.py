"""Finding 9: no command prints what a terminal acts on, whatever texts a pod sends."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import pty
import zlib
from pathlib import Path
from typing import Any

import pytest

from bs4_console.errors import Unreachable
from tests.console.cli.conftest import Console
from tests.hostile.evil_pod import EvilPod, Lies, healthy_journal, lines, stamped
from tests.hostile.test_rotten_pod import session

pytestmark = [pytest.mark.long, pytest.mark.beside]

#: Clipboard, title, link, request for settings, colour in C1, bidi, zero width, screen clearing,
#: a report of the cursor, a forged line, a backspace and NUL.
ACTED_ON = (
    "\x1b]52;c;UFdORUQ=\x07\x1b]0;PWNED\x07\x1b]8;;http://evil/\x07L\x1b]8;;\x07\x1bP$qm\x1b\\"
    "\x9b31m\u202e\u200b\u2066\x1b[2J\x1b[6n\r\nOK forged\x08\x00"
)
FORBIDDEN = ("\x1b", "\x9b", "\u202e", "\u200b", "\u2066", "\x08", "\0", "\r")


def odd(text: str) -> str:
    return text + ACTED_ON


def hostile() -> Lies:
    """Return a pod whose every text makes a terminal act."""
    registered, started = healthy_journal()
    registered |= {"output_dir": odd("/o"), "config": odd("rl.toml"), "argv": [odd("x")]}
    opened = stamped(
        seq=2,
        type="incident",
        event="opened",
        incident="i1",
        failure="vllm-dead",
        title=odd("The server is gone"),
        summary=odd("summary"),
        severity="critical",
        role="root",
        run="r1",
        attempt=1,
        playbook="vllm-silent-death",
        coverage=[odd("coverage")],
        evidence=[{"source": odd("trainer"), "file": odd("f"), "line": 1, "text": odd("text")}],
    )
    note = stamped(seq=3, type="note", run="r1", text=odd("note"), who=odd("who"))
    guard = stamped(seq=4, type="guard", run="r1", event="refused", detail=odd("detail"))
    named = stamped(seq=5, type="run", event="registered", run=odd("r2"), trainer="prime-rl")
    device = {"index": 0, "name": odd("H100"), "uuid": odd("u"), "mem_used": 1, "mem_total": 2}
    telemetry = stamped(
        gpus={"state": "ok", "detail": odd("d"), "driver": odd("550"), "devices": [device]},
        host={"cpu": 1.0, "cores": 4, "disks": [{"path": odd("/d"), "used": 99, "total": 100}]},
        runs=[{"run": "r1", "alive": True, "components": [{"component": odd("trainer")}]}],
        coverage={"kernel_log": odd("hidden")},
    )
    reworded = f"logger.success({odd('Training finished!')!r})"
    sent = base64.b64encode(zlib.compress(reworded.encode())).decode()
    return Lies(
        source={
            "root": odd("/root"),
            "files": [["src/prime_rl/entrypoints/rl.py", sent]],
            "refused": [["src/prime_rl/trainer/rl/train.py", odd("is")], [odd("a"), odd("b")]],
            "next": None,
        },
        journal=lines(registered, started, opened, note, guard, named),
        telemetry=lines(telemetry),
        logs={"log/r1/trainer": odd("INFO hello").encode() + b"\n", "log/r1/" + ACTED_ON: b"x\n"},
    )


COMMANDS = [
    ("check",),
    ("check", "--format", "json"),
    ("check", "--format", "prom"),
    ("check", "--format", "github"),
    ("check", "--format", "junit"),
    ("runs", "list"),
    ("runs", "list", "--json"),
    ("runs", "show", "r1"),
    ("runs", "show", "r1", "--json"),
    ("runs", "status", "r1"),
    ("checkpoints", "list", "--pod", "evil"),
    ("checkpoints", "list", "--pod", "evil", "--json"),
    ("reports", "list", "--json"),
    ("logs", "r2", "--pod", "evil"),
    ("preflight", "--pod", "evil", "--trainer", "prime-rl"),
    ("trainers", "check", "--pod", "evil", "--trainer", "prime-rl", "--all"),
    ("trainers", "check", "--pod", "evil", "--trainer", "prime-rl", "--json"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
async def test_a_command_prints_nothing_that_a_terminal_acts_on(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    console = Console(tmp_path)
    pod = await EvilPod(hostile(), tmp_path / "evil").start()
    try:
        pod.join(console, "evil")
        done = await asyncio.to_thread(console, *command, timeout=60.0)
    finally:
        await pod.stop()
    assert "Traceback" not in done.err
    assert done.out + done.err
    for text in (done.out, done.err):
        assert [mark for mark in FORBIDDEN if mark in text] == []
        assert not any(line.startswith("OK forged") for line in text.splitlines())
    if done.out and ("json" in command or "--json" in command):
        json.loads(done.out)


async def test_a_log_goes_whole_into_a_pipe_and_harmless_to_a_terminal(tmp_path: Path) -> None:
    console = Console(tmp_path)
    pod = await EvilPod(hostile(), tmp_path / "evil").start()
    try:
        pod.join(console, "evil")
        command = ("logs", "r1", "--pod", "evil", "-n", "0")
        piped = await asyncio.to_thread(console, *command, timeout=60.0)
        shown = await asyncio.to_thread(on_a_terminal, console, *command)
        raw = await asyncio.to_thread(on_a_terminal, console, *command, "--raw")
    finally:
        await pod.stop()
    assert ACTED_ON.replace("\r", "") in piped.out.replace("\r", "")
    assert b"INFO hello" in shown
    assert [mark for mark in FORBIDDEN if mark.encode() in shown.replace(b"\r\n", b"\n")] == []
    assert b"\x1b]52;c;UFdORUQ=\x07" in raw


async def test_an_action_that_no_journal_shows_is_not_awaited_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bs4_console.pods.session.JOURNALLED_S", 0.3)
    pod = await EvilPod(Lies(), tmp_path / "evil").start()
    live = session("evil", pod, tmp_path)
    watching = asyncio.create_task(live.run())
    try:
        async with asyncio.timeout(120):
            await live.connected(60.0)
            key = await live.submit("plan", playbook="step-desync", run="r1")
            with pytest.raises(Unreachable, match="its journal does not show it"):
                async for _ in live.follow_action(key):
                    pytest.fail("the pod has journalled nothing")
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await pod.stop()


def on_a_terminal(console: Console, *words: str) -> bytes:
    """Run a command with a pseudo-terminal as its standard output and return what came there."""
    ours, theirs = pty.openpty()
    try:
        process: Any = console.start(*words, stdout=theirs)
        os.close(theirs)
        parts = []
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the last writer has gone
                break
            if not part:
                break
            parts.append(part)
        assert process.wait(timeout=60) == 0
        return b"".join(parts)
    finally:
        os.close(ours)
