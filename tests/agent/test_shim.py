"""The shim with real processes: what it starts, what it sees end, and what it survives."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.runs.reaper import encode
from bs4_common.identity import Identity, stat_fields
from tests.agent.runs.conftest import no_process_left  # noqa: F401
from tests.agent.runs.practice import (
    AGENTS,
    identity,
    kill,
    lines,
    prepare,
    read,
    shell,
    start_shim,
    until,
)

pytestmark = pytest.mark.usefixtures("no_process_left")


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    return tmp_path / "attempt"


@pytest.mark.parametrize(
    ("script", "code", "signum"),
    [
        ("exit 0", 0, None),
        ("exit 1", 1, None),
        ("exit 143", 143, None),
        ("kill -9 $$", None, 9),
        ("kill -TERM $$", None, 15),
    ],
)
def test_the_launchers_end_is_recorded_as_it_was(
    attempt: Path, script: str, code: int | None, signum: int | None
) -> None:
    assert start_shim(prepare(attempt, shell(script))) == 0
    end = until(lambda: read(attempt / "end.json"))
    assert (end["code"], end["signal"]) == (code, signum)
    until(lambda: not identity(attempt, "shim").alive())
    assert [(line["code"], line["signal"]) for line in lines(attempt / "exits.ndjson")] == [
        (code, signum)
    ]
    assert lines(attempt / "exits.ndjson")[0]["identity"] == identity(attempt, "launcher").as_dict()


def test_output_is_kept_byte_for_byte_and_standard_input_is_empty(attempt: Path) -> None:
    prepare(
        attempt,
        [
            sys.executable,
            "-c",
            (
                "import os; os.write(1, b'\\xff\\x1b[0m\\r no newline'); os.write(2, os.read(0, "
                "10) + b'!')"
            ),
        ],
    )
    start_shim(attempt)
    until(lambda: read(attempt / "end.json"))
    assert (attempt / "launcher.log").read_bytes() == b"\xff\x1b[0m\r no newline!"


def test_orphans_are_kept_and_their_ends_recorded(attempt: Path) -> None:
    """The launcher ends, its child and grandchild (in sessions of their own) do not: the shim stays
    until they have gone.
    """
    orphan = f"{sys.executable} -c 'import os, time; os.setsid(); os.fork(); time.sleep(60)'"
    start_shim(prepare(attempt, shell(f"{orphan} & {orphan} & exit 3")))
    assert until(lambda: read(attempt / "launcher_end.json"))["code"] == 3
    shim = identity(attempt, "shim")
    members = _all_of(
        lambda: [
            m
            for m in (read(attempt / "descendants.json") or {"members": []})["members"]
            if m["cmdline"].startswith(sys.executable)
        ],
        4,
    )
    everyone = [Identity.from_dict(m["identity"]) for m in members]
    assert shim.alive()
    assert read(attempt / "end.json") is None
    for orphan_identity in everyone:
        kill(orphan_identity)
    assert until(lambda: read(attempt / "end.json"))["code"] == 3
    exits = {line["identity"]["pid"]: line for line in lines(attempt / "exits.ndjson")}
    for orphan_identity in everyone:
        assert exits[orphan_identity.pid]["signal"] == 9
        assert exits[orphan_identity.pid]["identity"] == orphan_identity.as_dict()
        assert "setsid" in exits[orphan_identity.pid]["cmdline"]
    until(lambda: not shim.alive())


def test_no_zombie_stays(attempt: Path) -> None:
    """Fifty orphans that end at once, and a launcher that reaps nobody."""
    start_shim(
        prepare(
            attempt, shell("for i in $(seq 50); do (sh -c 'sleep 0.2' &) ; done; exec sleep 60")
        )
    )
    shim, launcher = identity(attempt, "shim"), identity(attempt, "launcher")
    until(lambda: len(lines(attempt / "exits.ndjson")) >= 50)
    until(lambda: _children(shim.pid) == [launcher.pid])
    assert {line["code"] for line in lines(attempt / "exits.ndjson")} == {0}
    kill(launcher)
    until(lambda: read(attempt / "end.json"))


def test_the_shim_outlives_signals_and_notes_them(attempt: Path) -> None:
    start_shim(prepare(attempt, shell("exec sleep 60")))
    shim, launcher = identity(attempt, "shim"), identity(attempt, "launcher")
    until(lambda: "reap.py" in _command(shim.pid))
    for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGTERM):
        shim.send(signum)
    until(lambda: "signal 15" in (attempt / "shim.log").read_text())
    assert shim.alive()
    assert launcher.alive()
    kill(launcher)
    assert until(lambda: read(attempt / "end.json"))["signal"] == 9


def test_the_launcher_has_default_signals_and_no_stray_descriptors(attempt: Path) -> None:
    """Also when the caller ignores them, as nohup and a script's & do."""
    script = (
        "import json, os, signal; print(json.dumps({'ignored': [s.name for s in "
        "signal.valid_signals() if isinstance(s, signal.Signals)"
        " and signal.getsignal(s) == signal.SIG_IGN], 'blocked': [int(s) for s in "
        "signal.pthread_sigmask(signal.SIG_BLOCK, [])],"
        " 'open': sorted(os.listdir('/proc/self/fd')), 'leader': os.getsid(0) == os.getpid()}))"
    )
    before = {s: signal.signal(s, signal.SIG_IGN) for s in (signal.SIGHUP, signal.SIGTERM)}
    stray = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(stray, True)
    try:
        start_shim(prepare(attempt, [sys.executable, "-c", script]))
    finally:
        os.close(stray)
        for signum, handler in before.items():
            signal.signal(signum, handler)
    until(lambda: read(attempt / "end.json"))
    seen = json.loads((attempt / "launcher.log").read_text())
    assert seen["ignored"] == ["SIGPIPE", "SIGXFSZ"], "those two Python itself ignores at its start"
    assert seen["blocked"] == []
    assert seen["open"] == ["0", "1", "2", "3"], "3 is the directory being listed"
    assert seen["leader"]


def test_values_of_the_environment_are_given_to_the_launcher_and_never_written_down(
    attempt: Path,
) -> None:
    start_shim(prepare(attempt, shell('test "$TOKEN" = hunter2')), env={"TOKEN": "hunter2"})
    assert until(lambda: read(attempt / "end.json"))["code"] == 0
    record = read(attempt / "shim.json")
    assert record is not None
    assert "TOKEN" in record["env"]
    until(lambda: not identity(attempt, "shim").alive())  # it writes no more
    written = b"".join(path.read_bytes() for path in attempt.iterdir())
    assert b"hunter2" not in written.replace(b'test \\"$TOKEN\\" = hunter2', b"").replace(
        b'test "$TOKEN" = hunter2', b""
    )
    assert {
        stat.S_IMODE(path.stat().st_mode) for path in attempt.iterdir() if path.name != "spec.json"
    } == {0o600}


@pytest.mark.parametrize(
    ("argv", "cwd", "reason"),
    [
        (
            ["no-such-program-here"],
            "/",
            "cannot start no-such-program-here: No such file or directory",
        ),
        (["/etc/passwd"], "/", "cannot start /etc/passwd: Permission denied"),
        (
            ["true"],
            "/no/such/directory",
            "cannot enter /no/such/directory: No such file or directory",
        ),
        (["true", "a\0b"], "/", "cannot start true: embedded null byte"),
    ],
)
def test_a_launcher_that_cannot_be_started_says_why(
    attempt: Path, argv: list[str], cwd: str, reason: str
) -> None:
    assert start_shim(prepare(attempt, argv, cwd=cwd), env={"PATH": "/usr/bin:/bin"}) == 127
    end = read(attempt / "end.json")
    assert end is not None
    assert (end["code"], end["detail"]) == (127, reason)
    assert "exec_t" not in (read(attempt / "shim.json") or {})


def test_an_attempt_is_started_once(attempt: Path) -> None:
    prepare(attempt, shell("echo started; exec sleep 60"))
    assert start_shim(attempt) == 0
    assert start_shim(attempt) == 3, "its shim lives"
    kill(identity(attempt, "shim"))
    until(lambda: not identity(attempt, "shim").alive())
    assert start_shim(attempt) == 3, "its shim is gone, but it has been started"
    until(lambda: (attempt / "launcher.log").read_text())
    assert (attempt / "launcher.log").read_text() == "started\n"
    kill(identity(attempt, "launcher"))


def test_a_shim_that_dies_before_the_start_starts_nothing(attempt: Path) -> None:
    """The launcher's process waits at a gate until the record is on disk; the end of its shim
    closes it for ever.
    """
    prepare(attempt, shell("echo started"))
    dying = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); from bs4_agent import shim; "
        "from bs4_common import files"
    )
    killed = (
        "shim.write_json = lambda *a, **k: (files.write_json(*a, **k), os.kill(os.getpid(), 9)); "
        "shim.main(sys.argv[2:])"
    )
    called = subprocess.run(
        [sys.executable, "-c", f"{dying}; {killed}", str(AGENTS), "--attempt", str(attempt)],
        check=False,
        timeout=20,
    )
    assert called.returncode == 256 - 9
    until(lambda: not identity(attempt, "launcher").alive())
    assert not (attempt / "launcher.log").exists()
    assert "exec_t" not in (read(attempt / "shim.json") or {})


def test_a_full_disk_delays_the_record_of_the_end_and_does_not_lose_it(other_disk: Path) -> None:
    attempt = other_disk / "attempt"
    start_shim(prepare(attempt, shell("exec sleep 60")))
    shim, launcher = identity(attempt, "shim"), identity(attempt, "launcher")
    until(lambda: read(attempt / "descendants.json"))
    with (other_disk / "ballast").open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
        while ballast.write(b"x" * 4096):
            pass
    kill(launcher)
    until(lambda: not _children(shim.pid))  # it has been collected
    time.sleep(0.2)
    assert not (attempt / "end.json").exists()
    assert shim.alive()
    (other_disk / "ballast").unlink()
    assert until(lambda: read(attempt / "end.json"))["signal"] == 9
    assert [line["signal"] for line in lines(attempt / "exits.ndjson")] == [9]
    until(lambda: not shim.alive())


def test_it_is_small_and_sleeps(attempt: Path) -> None:
    start_shim(prepare(attempt, shell("exec sleep 60")))
    shim = identity(attempt, "shim")
    until(lambda: "reap.py" in _command(shim.pid) and read(attempt / "descendants.json"))
    spent: list[int] = []
    # a tick may fall to it that was another's
    while len(spent) < 5 and (not spent or min(spent) > 1):
        begin = _ticks(shim.pid)
        time.sleep(1.2)
        spent.append(_ticks(shim.pid) - begin)
    used = min(spent)
    resident = int(
        next(
            line
            for line in Path(f"/proc/{shim.pid}/status").read_text().splitlines()
            if line.startswith("VmRSS")
        ).split()[1]
    )
    print(f"shim: {resident} kB resident, {used} ticks in 1.2 s")
    # CPython 3.13 alone is 9.2 MB.
    assert resident < (10_000 if sys.version_info < (3, 13) else 10_700)
    assert used <= 1, "a hundredth of a second"


def test_what_it_writes_by_hand_is_json() -> None:
    value = {
        "a": [1, 2.5, None, True],
        "text": 'quote " back \\ tab \t bell \a é \U0001f600 \ufffd',
    }
    assert json.loads(encode(value)) == value


def _all_of(look: Callable[[], list[Any]], count: int) -> list[Any]:
    """What `look` gives once there are so many: here two orphans and their two children. The
    launcher and what it has just forked have words of theirs in their command lines.
    """
    return until(lambda: found if len(found := look()) == count else None)


def _children(pid: int) -> list[int]:
    return [
        int(p.name)
        for p in Path("/proc").iterdir()
        if p.name.isdigit() and (f := stat_fields(int(p.name))) and int(f[1]) == pid
    ]


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def _ticks(pid: int) -> int:
    fields = stat_fields(pid)
    assert fields is not None
    return int(fields[11]) + int(fields[12])
