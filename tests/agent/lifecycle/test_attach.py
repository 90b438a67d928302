from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bs4_agent.lifecycle import handover
from bs4_agent.lifecycle.attach import pump
from bs4_agent.lifecycle.handover import Build, replaces
from bs4_common.errors import AgentError, Busy
from bs4_common.identity import Identity
from bs4_common.wire import Decoder, Frame, encode
from tests.agent.streams.tiny import TinyHome, until
from tests.support.processes import marked, open_files

HELLO = {"hello": {"protocols": [1], "client": "test/0", "who": "tester"}}


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[TinyHome]:
    home = TinyHome(tmp_path / "home")
    home.settings()
    yield home
    home.close()


def talk(
    process: subprocess.Popen[bytes], *headers: dict[str, object], expected: int | None = None
) -> list[Frame]:
    """Send frames through an attach and receive as many, or `expected`."""
    wanted = len(headers) if expected is None else expected
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"".join(encode(header) for header in headers))
    decoder, frames = Decoder(), []
    while len(frames) < wanted:
        data = os.read(process.stdout.fileno(), 65536)
        if not data:
            raise ConnectionResetError("attach ended")
        frames += decoder.feed(data)
    return frames


def end(process: subprocess.Popen[bytes]) -> int:
    assert process.stdin is not None
    process.stdin.close()
    return process.wait(60)


def daemons(home: TinyHome) -> list[int]:
    return [pid for pid in marked(home.mark) if b"daemon" in _words(pid)]


def _words(pid: int) -> list[bytes]:
    try:
        return (Path("/proc") / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:  # it has just ended
        return []


def test_without_an_agent_it_says_so(tiny: TinyHome) -> None:
    process = tiny.attach()
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (3, b"")
    assert (
        err.decode()
        == "bs4-agent: no agent runs on this pod; deploy one, or attach with --start.\n"
    )
    assert daemons(tiny) == []


def test_wrong_arguments(tiny: TinyHome) -> None:
    process = tiny.attach("--begin")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert b"usage" in err


def test_start_starts_a_daemon_that_outlives_the_channel(tiny: TinyHome) -> None:
    process = tiny.attach("--start")
    hello = talk(process, HELLO)[0].header["hello"]
    assert end(process) == 0
    identity = tiny.identity()
    assert identity.pid == hello["pid"]
    assert identity.alive()
    # Its own session, adopted by another process than the attach, and nothing of ours held open.
    assert os.getsid(identity.pid) != os.getsid(0)
    assert not [name for name in open_files(identity.pid) if name.startswith("pipe:")]
    assert Path(f"/proc/{identity.pid}/fd/1").readlink() == tiny.home.agent_log
    again = tiny.attach()
    assert talk(again, HELLO)[0].header["hello"]["pid"] == identity.pid
    assert end(again) == 0


def test_two_attaches_start_one_daemon(tiny: TinyHome) -> None:
    processes = [tiny.attach("--start") for _ in range(4)]
    pids = {talk(process, HELLO)[0].header["hello"]["pid"] for process in processes}
    assert len(pids) == 1
    until(lambda: daemons(tiny) == list(pids), "those that were not needed have ended")
    assert [end(process) for process in processes] == [0] * 4


def test_a_daemon_killed_with_9_is_started_again(tiny: TinyHome) -> None:
    process = tiny.attach("--start")
    first = talk(process, HELLO)[0].header["hello"]["pid"]
    assert tiny.identity().send(signal.SIGKILL)
    # The channel ends with the agent: the console sees it at once.
    assert process.stdout is not None
    assert process.stdout.read() == b""
    assert process.wait(60) == 0
    none = tiny.attach()
    assert none.wait(60) == 3
    again = tiny.attach("--start")
    assert talk(again, HELLO)[0].header["hello"]["pid"] != first
    assert end(again) == 0


def test_a_daemon_that_cannot_start_is_told_in_one_sentence(tiny: TinyHome) -> None:
    tiny.settings(logs={"log/r/t": {"path": "/nowhere"}})
    process = tiny.attach("--start")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert re.fullmatch(
        r"bs4-agent: The agent ended as soon as it was started: .*KeyError.* See .*agent\.log\.\n",
        err.decode(),
    )
    until(lambda: daemons(tiny) == [], "it has ended")


def test_everything_passes_unchanged_both_ways(tiny: TinyHome, tmp_path: Path) -> None:
    log = tmp_path / "big.log"
    content = b"".join(b"%07d %s\n" % (n, b"x" * (n % 200)) for n in range(100_000))
    log.write_bytes(content)
    tiny.settings(logs={"log/r/t": {"path": str(log), "attempt": 1, "archive": None}})
    process = tiny.attach("--start")
    talk(process, HELLO)
    received, cursor, number = b"", "start", 0
    while len(received) < len(content):
        number += 1
        frame = talk(
            process,
            {
                "id": number,
                "call": "read",
                "stream": "log/r/t",
                "cursor": cursor,
                "limit": 262144,
                "wait": 5,
            },
        )[0]
        received += frame.payload
        cursor = str(frame.header["next"])
    assert received == content
    big = {"id": 0, "call": "submit", "action": {"key": "k", "kind": "note", "text": "y" * 60_000}}
    assert talk(process, big)[0].header["state"] == "accepted"
    assert end(process) == 0


def test_a_console_that_is_gone_ends_attach(tiny: TinyHome) -> None:
    process = tiny.attach("--start")
    talk(process, HELLO, {"id": 1, "call": "ping"})
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.close()
    process.stdin.write(encode({"id": 2, "call": "ping"}))
    assert process.wait(60) == 0
    process.stdin.close()


def test_attach_ends_with_the_console_although_the_agent_is_frozen(tiny: TinyHome) -> None:
    """A bridge whose agent never closes would stay on the pod for ever."""
    process = tiny.attach("--start", TINY_LINGER_S="0.3")
    talk(process, HELLO)
    frozen = tiny.identity()
    assert frozen.send(signal.SIGSTOP)
    assert end(process) == 0
    assert frozen.alive()
    assert frozen.send(signal.SIGCONT)
    until(tiny.listens, "the agent serves on")


def test_attach_ends_with_its_agent(tiny: TinyHome) -> None:
    process = tiny.attach("--start")
    talk(process, HELLO)
    assert tiny.identity().send(signal.SIGTERM)
    assert process.wait(60) == 0


def test_a_newer_agent_takes_the_place_of_an_older(tiny: TinyHome) -> None:
    old = tiny.attach("--start")
    before = talk(old, HELLO)[0].header["hello"]
    newer = json.dumps({"version": "0.1.0", "build": 2, "bundle": "tiny-2"})
    new = tiny.attach("--start", TINY_BUILD=newer)
    after = talk(new, HELLO)[0].header["hello"]
    assert (before["bundle"], after["bundle"]) == ("tiny", "tiny-2")
    assert old.wait(60) == 0
    until(lambda: daemons(tiny) == [after["pid"]], "the older one has ended")
    # The older console then uses the newer agent: nothing goes back.
    third = tiny.attach("--start")
    assert talk(third, HELLO)[0].header["hello"]["pid"] == after["pid"]
    assert end(third) == end(new) == 0


def test_an_agent_in_the_middle_of_something_stays(tiny: TinyHome) -> None:
    tiny.settings(busy=True)
    old = tiny.attach("--start")
    before = talk(old, HELLO)[0].header["hello"]["pid"]
    new = tiny.attach("--start", TINY_BUILD=json.dumps({"version": "9.0.0", "bundle": "tiny-9"}))
    assert talk(new, HELLO)[0].header["hello"]["pid"] == before
    assert end(new) == end(old) == 0
    assert new.stderr is not None
    assert (
        new.stderr.read().decode()
        == "bs4-agent: the running agent 0.1.0 stays: A step is being carried out; try again in "
        "a minute.\n"
    )


def test_an_agent_in_the_middle_of_a_step_is_used_until_its_end_and_replaced_without_a_console(
    tiny: TinyHome, tmp_path: Path
) -> None:
    step_has_ended = tmp_path / "the step has ended"
    tiny.settings(leave_with=str(step_has_ended))
    old = tiny.attach("--start")
    before = talk(old, HELLO)[0].header["hello"]["pid"]
    newer = json.dumps({"version": "9.0.0", "bundle": "tiny-9"})
    new = tiny.attach("--start", TINY_BUILD=newer, TINY_AT_ONCE_S="0.1")
    assert talk(new, HELLO)[0].header["hello"]["pid"] == before
    assert end(new) == end(old) == 0  # both consoles leave: nobody is there when the step ends
    step_has_ended.touch()
    until(
        lambda: daemons(tiny) not in ([], [before]) and before not in daemons(tiny),
        "the newer agent alone",
    )
    until(tiny.listens, "the newer agent listens")
    record = handover.read_record(tiny.home)
    assert record is not None
    assert record.build.bundle == "tiny-9"
    until(lambda: [record.identity.pid] == daemons(tiny), "the one that is written down, alone")


@pytest.mark.parametrize(
    ("mine", "live", "verdict"),
    [
        (("0.2.0", 1), ("0.1.9", 9), True),
        (("0.10.0", 1), ("0.9.0", 1), True),
        (("0.1.0", 2), ("0.1.0", 1), True),
        (("0.1.0", 1), ("0.1.0", 1), False),
        (("0.1.0", 1), ("0.1.0", 2), False),
        (("0.1.0", 99), ("0.2.0", 1), False),
        (("0.2.0", 1), ("0.2.0rc1", 5), True),
        (("0.2.0rc2", 1), ("0.2.0", 5), False),
        (("nightly", 9), ("0.1.0", 1), False),
        (("0.2.0", 9), ("nightly", 1), False),
    ],
)
def test_only_a_strictly_newer_one_replaces(
    mine: tuple[str, int], live: tuple[str, int], verdict: bool
) -> None:
    assert replaces(Build(*mine, "aaaa"), Build(*live, "bbbb")) is verdict
    assert replaces(Build(*mine, "same"), Build(*live, "same")) is False


def test_the_record_outlives_the_agent_and_names_it(tiny: TinyHome) -> None:
    assert handover.read_record(tiny.home) is None
    handover.write_record(tiny.home, tiny.home.socket("abc"), Build("0.1.0", 3, "abc"))
    record = handover.read_record(tiny.home)
    assert record is not None
    assert (record.identity, record.build, record.alive) == (
        Identity.of(os.getpid()),
        Build("0.1.0", 3, "abc"),
        True,
    )
    handover.mark_stopped(tiny.home)
    record = handover.read_record(tiny.home)
    assert record is not None
    assert not record.alive
    assert json.loads(tiny.home.agent_record.read_text())["event"] == "stopped"
    tiny.home.agent_record.write_text('{"event":')
    with pytest.raises(AgentError, match="remove it"):
        handover.read_record(tiny.home)


def test_only_one_agent_holds_a_home(tiny: TinyHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "CLAIM_S", 0.2)
    fd = handover.claim(tiny.home)
    with pytest.raises(Busy, match="attach to it"):
        handover.claim(tiny.home)
    threading.Timer(0.1, lambda: os.close(fd)).start()
    monkeypatch.setattr(handover, "CLAIM_S", 60.0)
    os.close(handover.claim(tiny.home))


def test_version_is_one_json_line(tiny: TinyHome) -> None:
    argv = [sys.executable, "-m", "bs4_agent", "version"]
    said = json.loads(subprocess.run(argv, capture_output=True, check=True, timeout=60).stdout)
    assert said["protocols"] == [1]
    assert said["bundle"] == Build.own().bundle
    wrong = subprocess.run([*argv[:-1], "explode"], capture_output=True, check=False, timeout=60)
    assert wrong.returncode == 2


@pytest.mark.parametrize("appending", [False, True])
def test_pump_also_copies_where_the_kernel_cannot_splice(tmp_path: Path, appending: bool) -> None:
    source = tmp_path / "source"
    content = os.urandom(3_000_000)
    source.write_bytes(content)
    target = tmp_path / "target"
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if appending else 0)
    reading, writing = os.open(source, os.O_RDONLY), os.open(target, flags, 0o600)
    pump(reading, writing)
    os.close(reading)
    os.close(writing)
    assert target.read_bytes() == content


def test_attach_is_small_and_sleeps(tiny: TinyHome) -> None:
    process = tiny.attach("--start")
    talk(process, HELLO)
    statm = (Path("/proc") / str(process.pid) / "status").read_text()
    resident = int(re.search(r"VmRSS:\s+(\d+) kB", statm)[1])  # type: ignore[index]
    spent: list[int] = []
    # a tick may fall to it that was another's, and the greeting may just have passed
    while len(spent) < 5 and (not spent or min(spent) > 1):
        before = _ticks(process.pid)
        time.sleep(0.5)
        spent.append(_ticks(process.pid) - before)
    assert min(spent) <= 1
    print(f"attach: {resident} kB resident")
    assert resident < 25_000
    assert end(process) == 0


def _ticks(pid: int) -> int:
    """Return how many ticks of CPU time a process has spent."""
    fields = (Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_until_the_daemon_listens_nothing_is_reported(tiny: TinyHome) -> None:
    """An agent that is alive but does not listen yet is waited for, not started a second time."""
    process = tiny.start()
    assert tiny.identity().send(signal.SIGSTOP)
    tiny.home.socket("tiny").unlink()
    waiting = tiny.attach("--start", TINY_START_S="1")
    _, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 3
    assert b"does not listen after 1 s" in err
    assert daemons(tiny) == [process.pid]
    assert tiny.identity().send(signal.SIGKILL)
    process.wait(60)
    until(lambda: not tiny.listens(), "nobody listens")


def test_what_came_with_the_command_reaches_the_agent_first_and_no_other_process(
    tiny: TinyHome,
) -> None:
    ahead = encode(HELLO) + encode({"id": 1, "call": "ping"})
    process = tiny.attach("--start", BS4_AHEAD=base64.b64encode(ahead).decode())
    hello, ping, later = talk(process, {"id": 2, "call": "ping"}, expected=3)
    assert hello.header["hello"]["protocol"] == 1
    assert [ping.header["id"], later.header["id"]] == [1, 2]
    (daemon,) = daemons(tiny)
    assert b"BS4_AHEAD" not in (Path("/proc") / str(daemon) / "environ").read_bytes()
    assert end(process) == 0


@pytest.mark.parametrize("text", ["no base64!", base64.b64encode(b"x" * 4097).decode()])
def test_what_no_console_sends_ahead_is_refused_with_one_sentence(
    tiny: TinyHome, text: str
) -> None:
    process = tiny.attach("--start", BS4_AHEAD=text)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (3, b"")
    assert err.decode().startswith("bs4-agent: BS4_AHEAD holds ")
    assert err.count(b"\n") == 1
    assert daemons(tiny) == []
