"""What a running agent opens to others: one socket, for its own user."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from bs4_agent.lifecycle.attach import live
from bs4_agent.lifecycle.handover import read_record
from bs4_agent.paths import Home
from tests.agent.streams.tiny import until

SCRIPT = Path(__file__).with_name("real_agent.py")


@pytest.fixture
def root() -> Iterator[Path]:
    """A directory with a short path, because that of a socket has a limit."""
    made = Path(tempfile.mkdtemp(prefix="bs4-"))
    yield made
    shutil.rmtree(made)


def started(root: Path, *words: str) -> tuple[subprocess.Popen[bytes], Home]:
    """Start a real agent below the command `words`, and return it when it has written its
    record.
    """
    home = Home(root / "home")
    environment = {
        **os.environ,
        "BS4_HOME": str(home.root),
        "BS4_SCOPE_ROOT": str(os.getpid()),
        "BS4_DEV": str(root),
    }
    argv = [*words, sys.executable, str(SCRIPT), "20"]
    process = subprocess.Popen(argv, env=environment)
    until(lambda: process.poll() is not None or home.agent_record.exists(), "it has started")
    assert process.poll() is None
    return process, home


def test_it_listens_on_no_port_and_its_socket_is_private(root: Path) -> None:
    process, home = started(root)
    try:
        assert psutil.Process(process.pid).net_connections("inet") == []
        record = read_record(home)
        assert record is not None
        assert stat.S_IMODE(record.socket.stat().st_mode) == 0o600
        for directory in (home.root, home.sockets, home.state):
            assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="there is no setpriv (util-linux)")
def test_it_needs_no_privilege(root: Path) -> None:
    """Without capabilities even uid 0 may only what its files and processes allow."""
    words = ["setpriv", "--no-new-privs"]
    if os.getuid() == 0:
        words += ["--inh-caps=-all", "--bounding-set=-all"]
    process, home = started(root, *words, "--")
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert re.search(r"^CapEff:\t0+$", status, re.MULTILINE)
        connection = live(home)
        assert connection is not None
        connection.close()
    finally:
        process.terminate()
        process.wait(60)
