"""The embedded pod: reached over real SSH, closed in itself, and gone without a trace."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from bs4_practice import faults, pod, tree, workspace
from bs4_practice.three import three_pods
from tests.practice.running import Start


async def test_commands_streams_and_exit_codes(start: Start) -> None:
    async with start("current") as practice:
        done = await practice.run(["sh", "-c", "cat; echo wrong >&2; exit 3"], stdin=b"x" * 300_000)
        assert (done.exit_status, len(done.stdout), done.stderr) == (3, 300_000, b"wrong\n")
        done = await practice.run(["sh", "-c", "kill -9 $$"])
        assert (done.exit_status, done.signal) == (None, "KILL")
        async with await practice.connect() as connection, connection.start_sftp_client() as sftp:
            async with sftp.open("upload.bin", "wb") as target:
                await target.write(b"\0" * 100_000)
            await sftp.posix_rename("upload.bin", "swapped.bin")
            # no command: a shell that reads standard input, without a terminal
            shell = await connection.run(input="pwd\nexit 4\n")
        assert (practice.home / "swapped.bin").stat().st_size == 100_000
        assert (shell.exit_status, str(shell.stdout).strip()) == (4, str(practice.home))


async def test_the_environment_is_the_pods_own(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nowhere")
    async with start("current") as practice:
        lines = (await practice.run(["env"])).stdout.decode().splitlines()
        seen = dict(line.split("=", 1) for line in lines if "=" in line)
        assert seen["HOME"] == str(practice.home)
        assert seen["BS4_SCOPE_ROOT"] == str(practice.pid)
        assert seen["BS4_DEV"] == str(practice.root / "dev")
        assert not [key for key in seen if key.startswith("XDG")]
        found = await practice.run(
            ["sh", "-c", "command -v uv python3; python3 -c 'import sys; print(sys.prefix)'"]
        )
        assert found.stdout.decode().splitlines()[0] == str(
            practice.home / ".local/share/uv/bin/uv"
        )


async def test_a_wrong_key_user_or_host_key_is_refused(start: Start, short_dir: Path) -> None:
    async with start("current") as practice:
        stranger = asyncssh.generate_private_key("ssh-ed25519")
        for user, key in (
            (practice.user, stranger),
            ("nobody", asyncssh.read_private_key(practice.key_path)),
        ):
            with pytest.raises(asyncssh.PermissionDenied):
                await asyncssh.connect(
                    practice.host,
                    practice.port,
                    username=user,
                    client_keys=[key],
                    known_hosts=None,
                    config=None,
                )
        shown = await asyncssh.get_server_host_key(practice.host, practice.port)
        assert shown is not None
        assert shown.export_public_key().decode().split()[:2] == practice.known_host_key.split()


async def test_a_session_outlives_its_connection(start: Start) -> None:
    async with start("current") as practice:
        connection = await practice.connect()
        process = await connection.create_process("echo $$; exec sleep 60 > /dev/null 2>&1")
        pid = int(await process.stdout.readline())
        process.terminate()  # an SSH signal: dropped, as sshd does for root
        connection.abort()
        await connection.wait_closed()
        assert (await practice.run(["true"])).exit_status == 0
        sleeper = tree.look(pid)
        assert sleeper is not None
        assert sleeper.ppid == practice.pid


async def test_orphans_become_the_pods_children_and_leave_no_zombie(start: Start) -> None:
    async with start("current") as practice:
        done = await practice.run(
            [
                "sh",
                "-c",
                "sh -c 'sleep 0.2; exit 7' > /dev/null 2>&1 & sleep 60 > /dev/null 2>&1 & echo $!",
            ]
        )
        orphan = tree.look(int(done.stdout))
        assert orphan is not None
        assert orphan.ppid == practice.pid
        await faults.until(
            lambda: [process.title for process in practice.processes()] == ["sleep 60"],
            60,
            "one orphan",
        )
        await faults.until(lambda: zombies(practice.pid) == [], 60, "the end of its zombie")


def zombies(parent: int) -> list[int]:
    looked = (
        tree.look(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit()
    )
    return [
        process.pid
        for process in looked
        if process is not None and process.ppid == parent and process.state == "Z"
    ]


@pytest.mark.long
async def test_stop_ends_what_is_stopped_deaf_or_far_away(short_dir: Path) -> None:
    practice = await pod.start("end", "current", short_dir / "end")
    deaf = (
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.fork() or "
        "os.setsid(); time.sleep(60)"
    )
    await practice.spawn(["python3", "-c", deaf])
    await practice.spawn(["sh", "-c", "kill -STOP $$"])
    await faults.until(lambda: len(practice.processes()) == 3, 60, "three processes")
    members = practice.processes()
    await practice.stop()
    assert not [process for process in members if tree.alive(process)]
    assert tree.look(practice.pid) is None
    await practice.stop()  # and again: nothing to do


async def test_a_start_that_is_broken_off_writes_nothing_afterwards(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go, create = threading.Event(), threading.Event(), workspace.create

    def slowly(*given: Any, **named: Any) -> workspace.Workspace:
        begun.set()
        go.wait(60)
        return create(*given, **named)

    monkeypatch.setattr(workspace, "create", slowly)
    starting = asyncio.create_task(pod.start("x", "current", short_dir / "x"))
    await asyncio.to_thread(begun.wait, 60)
    starting.cancel()
    for _ in range(20):
        await asyncio.sleep(0)
    waited = not starting.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert waited, "it had said that it is over while its thread was still to write"
    assert (short_dir / "x" / "home").is_dir()


async def test_a_main_process_that_nobody_knows_yet_is_ended(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def noted(*given: Any, **named: Any) -> subprocess.Popen[bytes]:
        begun.append(popen(*given, **named))
        return begun[0]

    monkeypatch.setattr(pod.subprocess, "Popen", noted)
    starting = asyncio.create_task(pod.start("x", "current", short_dir / "x"))
    await faults.until(lambda: bool(begun), 60, "the pod's main process")
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert begun[0].returncode is not None


async def test_the_pods_that_came_up_end_when_another_one_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    up, ended = asyncio.Event(), []

    class Up(pod.PracticePod):
        def __init__(self, name: str) -> None:
            self.name = name

        async def stop(self) -> None:
            ended.append(self.name)

    async def start(name: str, *given: Any, **named: Any) -> pod.PracticePod:
        if name == "h100-a":
            up.set()
            return Up(name)
        await up.wait()
        if name == "h100-b":
            raise pod.PodError("It did not start.")
        return await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(pod, "start", start)
    with pytest.raises(pod.PodError, match="It did not start"):
        async with three_pods():
            raise AssertionError("one is not there")
    assert ended == ["h100-a"]


async def test_the_pod_ends_with_whoever_started_it(short_dir: Path) -> None:
    code = (
        "import asyncio, sys, time; from pathlib import Path; from bs4_practice import pod\n"
        f"p = asyncio.run(pod.start('x', 'current', Path({str(short_dir / 'x')!r})))\n"
        "asyncio.run(p.spawn(['sleep', '60'])); print(p.pid, flush=True); time.sleep(60)"
    )
    owner = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=subprocess.PIPE)
    assert owner.stdout is not None
    host = tree.look(int(await owner.stdout.readline()))
    assert host is not None
    members = tree.below(host.pid)
    assert members
    owner.send_signal(signal.SIGKILL)
    await owner.wait()
    await faults.until(
        lambda: not any(tree.alive(process) for process in [host, *members]), 60, "the pod's end"
    )


async def test_run_as_a_module_it_prints_its_address(short_dir: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "bs4_practice.pod",
            "--root",
            str(short_dir / "m"),
            "--generation",
            "2026-01",
        ),
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    answer = json.loads(await process.stdout.readline())
    assert answer["pid"] == process.pid
    assert answer["workspace"]["generation"] == "2026-01"
    process.terminate()
    assert await asyncio.wait_for(process.wait(), 60) == 0


async def test_bad_places_are_refused_with_a_sentence(tmp_path: Path, short_dir: Path) -> None:
    with pytest.raises(ValueError, match="too long for a unix socket"):
        await pod.start("x", "current", tmp_path / ("long" * 30))
    with pytest.raises(ValueError, match="Unknown trainer generation 'trl'"):
        await pod.start("x", "trl", short_dir)


async def test_a_decoy_looks_exactly_like_the_real_thing(start: Start) -> None:
    async with start("2026-01") as practice:
        plain = await faults.start_decoy(practice, practice.launch_command())
        titled = await faults.start_decoy(practice, ["python3"], title="VLLM::EngineCore")
        assert plain.cmdline == tuple(practice.launch_command())
        assert faults.find(practice, "engine") == [titled]
        assert Path(f"/proc/{plain.pid}/exe").readlink() == Path(sys.executable).resolve()
