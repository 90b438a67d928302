"""A demo leaves nothing behind: neither when a signal ends it, nor, once another demo is started,
when it was killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bs4_common.identity import Identity
from bs4_practice import place, tree

HOST = os.uname().nodename


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory with a short path, because sockets lie below it."""
    with tempfile.TemporaryDirectory(prefix="d-") as directory:
        yield Path(directory)


def left(parent: Path, name: str, *owners: Identity, host: str = HOST) -> Path:
    """Return a directory as a demo leaves it that was killed."""
    path = parent / f"{place.PREFIX}{name}"
    (path / "h100-a" / "home").mkdir(parents=True)
    record = [{**owner.as_dict(), "host": host} for owner in owners]
    (path / place.RECORD).write_text(json.dumps(record))
    return path


def dead() -> Identity:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = Identity.of(process.pid)
    assert identity is not None
    process.communicate()
    return identity


def test_only_what_dead_demos_have_left_is_cleared(tmp_path: Path) -> None:
    me = Identity.of(os.getpid())
    assert me is not None
    gone = left(tmp_path, "gone", dead(), dead())
    rebooted = left(tmp_path, "rebooted", Identity(me.pid, me.start_ticks, "another", me.pidns))
    kept = [
        left(tmp_path, "one-lives", dead(), me),
        left(tmp_path, "elsewhere", Identity(1, 1, me.boot_id, me.pidns + 1)),
        left(tmp_path, "nobody"),
        left(tmp_path, "another-machine", dead(), host=f"not-{HOST}"),
    ]
    broken, foreign = left(tmp_path, "broken", dead()), tmp_path / "bs4-foreign"
    (broken / place.RECORD).write_text("{")
    foreign.mkdir()
    beside = tmp_path / "beside"
    gone.rename(beside)
    gone.symlink_to(beside)
    assert place.clear(tmp_path) == [rebooted]
    gone.unlink()
    beside.rename(gone)
    assert place.clear(tmp_path) == [gone]
    assert all(path.is_dir() for path in [*kept, broken, foreign])
    assert (sorted(tmp_path.iterdir())) == sorted([*kept, broken, foreign])


def headless_demo(directory: Path) -> subprocess.Popen[bytes]:
    """Start a demo whose files lie below `directory`."""
    environment = {
        **os.environ,
        "TMPDIR": str(directory),
        **{f"BS4_{name}_DIR": str(directory / name) for name in ("CONFIG", "DATA", "STATE")},
    }
    # A suite that runs under `nohup` hands down that SIGHUP is ignored, and a demo respects that.
    code = (
        "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL); "
        "from bs4_console.cli.main import main; raise SystemExit(main(['demo', '--headless']))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


@pytest.mark.parametrize("sign", ["h100-c/home", "h100-c/pod.log"])
def test_a_demo_that_is_broken_off_while_its_pods_are_made_leaves_nothing(
    short: Path, sign: str
) -> None:
    with headless_demo(short) as demo:
        deadline = time.monotonic() + 240
        while not list(short.glob(f"{place.PREFIX}*/{sign}")):
            assert demo.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.001)
        demo.send_signal(signal.SIGINT)
        demo.wait(240)
    assert demo.returncode == 128 + signal.SIGINT
    assert not list(short.glob(f"{place.PREFIX}*"))


@pytest.mark.long
@pytest.mark.beside
@pytest.mark.timeout(600)
@pytest.mark.parametrize("numbers", [["SIGHUP"], ["SIGTERM"], ["SIGINT", "SIGINT"], ["SIGKILL"]])
def test_a_demo_that_is_ended_by_a_signal_leaves_nothing(short: Path, numbers: list[str]) -> None:
    with headless_demo(short) as demo:

        def owners() -> list[Identity]:
            found = [json.loads(file.read_text()) for file in short.glob(f"*/{place.RECORD}")]
            return [Identity.from_dict(one) for record in found for one in record]

        deadline = time.monotonic() + 240
        while len(owners()) < 4:
            assert demo.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        known = owners()
        pods = [process for one in known[1:] for process in tree.below(one.pid)]
        for name in numbers:
            demo.send_signal(signal.Signals[name])
        demo.wait(240)
    deadline = time.monotonic() + 240
    while any(one.alive() for one in known) or any(map(tree.alive, pods)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    if numbers == ["SIGKILL"]:
        assert list(short.glob(f"{place.PREFIX}*"))
        place.clear(short)
    else:
        assert demo.returncode == 128 + signal.Signals[numbers[0]]
    assert not list(short.glob(f"{place.PREFIX}*"))
