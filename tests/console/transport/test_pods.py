"""The test pods themselves: which kind ran is printed, each kind works, and nothing of them stays
on the machine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.pods import Pods, sweep

pytestmark = [pytest.mark.long, pytest.mark.beside]

ROOT = Path(__file__).resolve().parents[3]


def test_pods_are_apart_from_each_other_and_from_this_machine(pods: Pods) -> None:
    if pods.kind != "namespaced":
        pytest.skip(pods.describe())
    first, second = pods(2)
    try:
        facts = "hostname; cat /proc/sys/kernel/hostname; ls -d /proc/[0-9]* | wc -l; ls -A ~; "
        facts += "ip -4 -o addr show dev eth0 | grep -o '10[.0-9]*'"
        one, two = (pod.run(["sh", "-c", facts]).stdout.decode().split() for pod in (first, second))
        assert one[0] == one[1] == first.name != two[0]
        assert int(one[2]) < 10
        assert one[3:] == [first.address]
        mine = f"mine-{os.getpid()}"
        first.run(
            ["sh", "-c", 'for d in ~ /etc /tmp /dev/shm; do echo x > "$d/$1"; done', "sh", mine]
        )
        for path in (f"/etc/{mine}", f"/tmp/{mine}", f"/dev/shm/{mine}", f"{first.home}/{mine}"):
            assert second.run(["test", "-e", path]).returncode == 1
            assert not Path(path).exists()
        assert (first.root / first.home[1:] / mine).read_text() == "x\n"
    finally:
        first.close()
        second.close()


def test_a_killed_pod_is_gone_and_comes_back_with_its_disk(pods: Pods) -> None:
    (pod,) = pods(1)
    try:
        pod.run(["sh", "-c", "echo kept > ~/file; nohup sleep 1000 >/dev/null 2>&1 &"])
        pod.kill()
        pod.start()
        assert pod.run(["cat", f"{pod.home}/file"]).stdout == b"kept\n"
        assert (
            b"sleep 1000"
            not in pod.run(["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"]).stdout
            or pods.kind != "namespaced"
        )
        assert pod.host_key
    finally:
        pod.close()


def _run(kind: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "BS4_TEST_PODS": kind}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT, timeout=100
    )


@pytest.mark.parametrize(
    ("kind", "line"),
    [("plain", "plain sshd on 127.0.0.x"), ("embedded", "1 embedded SSH server")],
)
def test_each_kind_runs_the_same_test_and_the_summary_names_it(kind: str, line: str) -> None:
    test = (
        "tests/console/transport/test_deploy.py::test_first_contact_uploads_and_the_second_does_not"
    )
    done = _run(kind, test)
    if "RuntimeError: no " in done.stdout:
        pytest.skip(f"no {kind} pods on this machine")
    assert done.returncode == 0, done.stdout
    assert line in done.stdout
    assert "pods: 1" in done.stdout


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_when_the_run_is_broken_off(tmp_path: Path, signum: signal.Signals) -> None:
    """Ctrl-C in the middle, and kill -9, after which no finalizer runs: then only a directory
    stays, until the next run.
    """
    test = tmp_path / "test_hang.py"
    test.write_text(
        "import os, pathlib, time\nfrom tests.support.pods import pods\n"
        "def test_hang(pods):\n    pods(2)\n"
        "    pathlib.Path(os.environ['READY']).write_text(f'{pods.directory} {pods.cable}')\n    "
        "time.sleep(100)\n"
    )
    ready = tmp_path / "ready"
    environment = {
        **os.environ,
        "READY": str(ready),
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        "BS4_RUN": str(tmp_path),
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(test),
    ]
    run = subprocess.Popen(
        command, env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _until(lambda: ready.exists() and ready.read_text() != "", "the pods of the other run")
    directory, cable = ready.read_text().split(" ")
    assert _mentioning(directory) or not cable
    run.send_signal(signum)
    run.wait()
    _until(lambda: not _mentioning(directory), "the end of its processes")
    _until(lambda: not processes.marked(f"BS4_RUN={tmp_path}"), "the end of all its children")
    _until(
        lambda: not cable or not Path("/sys/class/net", cable).exists(), "the end of its network"
    )
    assert Path(directory).exists() == (signum == signal.SIGKILL)
    sweep()
    assert not Path(directory).exists()


def _mentioning(text: str) -> list[int]:
    """Processes that were started with `text` in their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if text.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def _until(condition: object, what: str, timeout: float = 60.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, f"waited {timeout:g} s for {what}"
        time.sleep(0.02)
