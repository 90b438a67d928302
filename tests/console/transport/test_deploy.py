"""The agent comes to a pod by one upload, is switched in atomically, and a pod that cannot take it
is left as it was.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bs4_console.errors import (
    ChannelLost,
    ConsoleError,
    DeployFailed,
    NoAgent,
    NoPython,
    NoSpace,
)
from bs4_console.pods.port import Duplex
from bs4_console.transport import deploy, need
from bs4_console.transport.bundle import Bundle, pack
from bs4_console.transport.remote import command
from bs4_console.transport.ssh import SshTransport
from tests.support import bundles
from tests.support.pod import TestPod
from tests.support.pods import Pods
from tests.support.transports import transport

pytestmark = [pytest.mark.long, pytest.mark.beside]


class Said:
    """The phrases for the screen."""

    def __init__(self) -> None:
        self.phrases: list[str] = []

    def __call__(self, phrase: str) -> None:
        self.phrases.append(phrase)

    @property
    def uploaded(self) -> bool:
        return any("uploading" in phrase for phrase in self.phrases)


def to(pod: TestPod, directory: Path, bundle: Bundle) -> SshTransport:
    return transport(pod, directory, options={"bundle": lambda: bundle})


async def hello(duplex: Duplex) -> dict[str, Any]:
    """The stub's first line."""
    data = b""
    while not data.endswith(b"\n"):
        data += await duplex.read()
    loaded: dict[str, Any] = json.loads(data)
    return loaded


async def deployed(
    connection: SshTransport, said: Said | None = None, *, deploy: bool = True
) -> dict[str, Any]:
    duplex = await connection.open(said or Said(), deploy=deploy)
    try:
        return await hello(duplex)
    finally:
        await duplex.close()


def installed(pod: TestPod) -> list[str]:
    """What lies in the bundles' directory, hidden names too."""
    return sorted(pod.run(["ls", "-A", f"{pod.home}/.bs4/agent"]).stdout.decode().split())


def untouched(pod: TestPod) -> bool:
    return pod.run(["test", "-e", f"{pod.home}/.bs4"]).returncode != 0


# --- what works


async def test_first_contact_uploads_and_the_second_does_not(pod: TestPod, tmp_path: Path) -> None:
    bundle = bundles.stub()
    connection, first, second = to(pod, tmp_path, bundle), Said(), Said()
    try:
        duplex = await connection.open(first)
        greeting = await hello(duplex)
        await duplex.write(b"one line\n")
        assert await duplex.read() == b"echo one line\n"
        await duplex.close()
        assert await deployed(connection, second) | {"pid": 0} == greeting | {"pid": 0}
    finally:
        await connection.close()
    assert first.uploaded
    assert not second.uploaded
    home = f"{pod.home}/.bs4"
    assert greeting["argv"] == ["attach", "--start"]
    assert greeting["bundle"] == f"{home}/agent/{bundle.name}"
    assert greeting["psutil"].startswith(f"{home}/agent/{bundle.name}/lib-")
    assert greeting["isolated"] == 1
    assert installed(pod) == [bundle.name]
    assert (
        pod.run(["readlink", f"{home}/current"]).stdout.decode().strip() == f"agent/{bundle.name}"
    )
    modes = pod.run(
        [
            "stat",
            "-c",
            "%a",
            home,
            f"{home}/agent",
            f"{home}/agent/{bundle.name}",
            f"{home}/agent/{bundle.name}/bundle.json",
        ]
    )
    assert modes.stdout.split() == [b"700", b"700", b"700", b"600"]


async def test_without_deploying_an_agent_is_used_and_never_brought(
    pod: TestPod, tmp_path: Path
) -> None:
    connection = to(pod, tmp_path, bundles.stub())
    try:
        with pytest.raises(NoAgent, match="No agent runs") as caught:
            await connection.open(Said(), deploy=False)
        assert f"deploy --pod {pod.name}" in caught.value.next_step
        assert untouched(pod)
        await deployed(connection)
        newer_console = to(pod, tmp_path, bundles.stub(build=9))
        greeting = await deployed(newer_console, deploy=False)
        assert greeting["argv"] == ["attach"]
        await newer_console.close()
    finally:
        await connection.close()


async def test_a_newer_console_replaces_and_an_older_one_uses_what_is_there(
    pod: TestPod, tmp_path: Path
) -> None:
    old, new, newest = (
        bundles.stub(build=10),
        bundles.stub(build=20),
        bundles.stub(version="0.10.0", build=1),
    )
    for bundle in (old, new, newest):
        connection = to(pod, tmp_path, bundle)
        assert bundle.name in (await deployed(connection))["bundle"]
        await connection.close()
    # The one before stays for an agent that hands over; older ones are gone.
    assert installed(pod) == sorted([new.name, newest.name])
    said = Said()
    connection = to(pod, tmp_path, old)
    assert newest.name in (await deployed(connection, said))["bundle"]
    await connection.close()
    assert not said.uploaded
    assert installed(pod) == sorted([new.name, newest.name])


async def test_a_bundle_that_a_process_runs_from_is_kept(pod: TestPod, tmp_path: Path) -> None:
    connections = [to(pod, tmp_path, bundles.stub(build=build)) for build in (1, 2, 3, 4)]
    held = await connections[0].open(Said())
    await hello(held)
    names = [bundles.stub(build=build).name for build in (1, 2, 3, 4)]
    try:
        for connection in connections[1:]:
            await deployed(connection)
        assert installed(pod) == sorted([names[0], names[2], names[3]])
        await held.write(b"still\n")
        assert await held.read() == b"echo still\n"
    finally:
        await held.close()
        for connection in connections:
            await connection.close()


async def test_two_consoles_deploy_at_the_same_moment(pod: TestPod, tmp_path: Path) -> None:
    bundle = bundles.stub()
    connections = [to(pod, tmp_path, bundle) for _ in range(3)]
    try:
        greetings = await asyncio.gather(*(deployed(connection) for connection in connections))
        assert len({greeting["bundle"] for greeting in greetings}) == 1
        assert installed(pod) == [bundle.name]
    finally:
        for connection in connections:
            await connection.close()


async def test_an_agent_whose_python_is_gone_is_deployed_again(
    pod: TestPod, tmp_path: Path
) -> None:
    """Also when a newer console had put it there: what cannot start is no agent."""
    connection = to(pod, tmp_path, bundles.stub(build=2))
    await deployed(connection)
    await connection.close()
    gone = (
        'ok=$1/.bs4/current/ok; { echo /gone/python3; tail -n +2 "$ok"; } > "$ok.new"; mv '
        '"$ok.new" "$ok"'
    )
    assert pod.run(["sh", "-c", gone, "sh", pod.home]).returncode == 0
    for build in (1, 2):
        connection, said = to(pod, tmp_path, bundles.stub(build=build)), Said()
        assert bundles.stub(build=build).name in (await deployed(connection, said))["bundle"]
        await connection.close()
        assert said.uploaded


async def test_shells_that_talk_at_login_do_not_confuse(pod: TestPod, tmp_path: Path) -> None:
    noise = "echo 'bs4-000000000000 ready'; echo Welcome to your pod; printf 'no newline'\n"
    pod.run(["sh", "-c", 'cat > "$1/.bashrc"', "sh", pod.home], stdin=noise.encode())
    connection = to(pod, tmp_path, bundles.stub())
    try:
        assert (await deployed(connection))["argv"] == ["attach", "--start"]
        assert (await deployed(connection))["argv"] == ["attach", "--start"]
    finally:
        await connection.close()


async def test_without_sftp_the_upload_goes_through_a_command(pods: Pods, tmp_path: Path) -> None:
    (pod,) = pods(1, sftp=False)
    bundle = bundles.stub()
    connection = to(pod, tmp_path, bundle)
    try:
        assert bundle.name in (await deployed(connection))["bundle"]
        assert installed(pod) == [bundle.name]
    finally:
        await connection.close()
        pod.close()


async def test_the_environment_of_the_session_reaches_the_agent(pods: Pods, tmp_path: Path) -> None:
    (pod,) = pods(1, sshd=[f"SetEnv BS4_HOME={tmp_path}/agent-home"])
    connection = to(pod, tmp_path, bundles.stub())
    try:
        greeting = await deployed(connection)
        assert greeting["home"] == f"{tmp_path}/agent-home"
        assert greeting["bundle"].startswith(f"{tmp_path}/agent-home/agent/")
        assert untouched(pod)
    finally:
        await connection.close()
        pod.close()


async def test_the_agent_runs_under_python_3_10(pods: Pods, tmp_path: Path) -> None:
    (pod,) = pods(1, python="3.10")
    connection = to(pod, tmp_path, bundles.stub())
    try:
        greeting = await deployed(connection)
        assert greeting["python"] == [3, 10]
    finally:
        await connection.close()
        pod.close()


async def test_a_noexec_home_keeps_the_compiled_part_elsewhere(pods: Pods, tmp_path: Path) -> None:
    (pod,) = pods(1, noexec_home=True)
    first, second, third = (bundles.stub(build=build) for build in (1, 2, 3))
    try:
        for bundle in (first, second, third):
            connection = to(pod, tmp_path, bundle)
            greeting = await deployed(connection)
            await connection.close()
            assert greeting["bundle"].startswith(pod.home)
            assert greeting["psutil"].startswith(f"/var/tmp/bs4-0-{bundle.name}/lib-")
        # The copies leave with their bundle, and are private.
        assert sorted(pod.run(["ls", "/var/tmp"]).stdout.decode().split()) == sorted(
            f"bs4-0-{b.name}" for b in (second, third)
        )
        assert (
            pod.run(["stat", "-c", "%a", f"/var/tmp/bs4-0-{third.name}"]).stdout.strip() == b"700"
        )
    finally:
        pod.close()


# --- what cannot work, and leaves nothing


def no_room(bundle: Bundle) -> Bundle:
    return replace(bundle, unpacked=10**13)


@pytest.mark.parametrize(
    ("options", "change", "error", "says"),
    [
        ({"python": ""}, None, NoPython, "has no python3"),
        ({"python": "3.8"}, None, NoPython, r"has Python 3\.8 .* needs 3\.10 or newer"),
        (
            {"read_only_home": True},
            None,
            DeployFailed,
            "cannot be written: .*Read-only file system",
        ),
        ({"home_size": "600k"}, None, NoSpace, r"has 600 KiB free; the agent needs \d+ KiB"),
        ({}, no_room, NoSpace, r"KiB free; the agent needs \d+ KiB"),
    ],
)
async def test_a_pod_that_cannot_take_it_is_left_as_it_was(
    pods: Pods,
    tmp_path: Path,
    options: dict[str, Any],
    change: Callable[[Bundle], Bundle] | None,
    error: type[ConsoleError],
    says: str,
) -> None:
    (pod,) = pods(1, **options)
    bundle, said = bundles.stub(), Said()
    connection = to(pod, tmp_path, change(bundle) if change else bundle)
    try:
        with pytest.raises(error, match=says) as caught:
            await connection.open(said)
        assert type(caught.value) is error
        assert caught.value.next_step
        assert caught.value.exit_code == 3
        assert not said.uploaded
        assert untouched(pod)
    finally:
        await connection.close()
        pod.close()


@pytest.mark.parametrize("free_kib", [100, 700, 960])
async def test_a_disk_that_fills_up_on_the_way_leaves_nothing(
    pods: Pods, tmp_path: Path, free_kib: int
) -> None:
    """With a bundle that lies about its size: first the upload does not fit, then the upload fits
    and the unpacking does not.
    """
    (pod,) = pods(1, home_size="1m")
    bundle = bundles.stub(unpacked=0)
    free = int(pod.run(["sh", "-c", "df -Pk /root | tail -1"]).stdout.split()[3])
    pod.run(["sh", "-c", f"head -c {(free - free_kib) * 1024} /dev/zero > /root/ballast"])
    bundle = replace(bundle, unpacked=-len(bundle.data))
    assert (len(bundle.data) > free_kib * 1024) == (free_kib == 100)
    said = Said()
    connection = to(pod, tmp_path, bundle)
    try:
        with pytest.raises(NoSpace):
            await connection.open(said)
        assert said.uploaded
        assert untouched(pod)
        assert pod.run(["ls", "-A", "/root"]).stdout.split() == [b"ballast"]
    finally:
        await connection.close()
        pod.close()


async def test_a_failed_upgrade_leaves_the_old_agent_in_place(pods: Pods, tmp_path: Path) -> None:
    (pod,) = pods(1)
    good, foreign = bundles.stub(build=1), bundles.stub(build=2, machine="riscv64")
    connection = to(pod, tmp_path, good)
    await deployed(connection)
    await connection.close()
    connection = to(pod, tmp_path, foreign)
    try:
        with pytest.raises(
            DeployFailed, match=r"This pod is a \w+ machine; the agent is made for riscv64"
        ):
            await connection.open(Said())
    finally:
        await connection.close()
    assert installed(pod) == [good.name]
    assert (
        pod.run(["readlink", f"{pod.home}/.bs4/current"]).stdout.decode().strip()
        == f"agent/{good.name}"
    )
    pod.close()


async def test_a_damaged_upload_is_refused(pod: TestPod, tmp_path: Path) -> None:
    bundle = bundles.stub()
    connection = to(pod, tmp_path, replace(bundle, sha256="0" * 64))
    try:
        with pytest.raises(DeployFailed, match="arrived damaged"):
            await connection.open(Said())
        assert untouched(pod)
    finally:
        await connection.close()


async def test_a_library_that_does_not_load_is_found_before_the_switch(
    pod: TestPod, tmp_path: Path
) -> None:
    """As on musl, or with a libc that is too old: the shared object is there and cannot be used."""
    bundle = bundles.stub(main="raise SystemExit('never')")
    broken = _with(
        bundle, f"lib-{os.uname().machine}/psutil/_psutil_linux.abi3.so", b"not an ELF file"
    )
    connection = to(pod, tmp_path, broken)
    try:
        with pytest.raises(DeployFailed, match=r"psutil cannot be loaded: .*file too short"):
            await connection.open(Said())
        assert untouched(pod)
    finally:
        await connection.close()


async def test_an_agent_that_ends_says_why(pod: TestPod, tmp_path: Path) -> None:
    connection = to(
        pod,
        tmp_path,
        bundles.stub(main="import sys\nprint('noise', file=sys.stderr)\nsys.exit('the reason')"),
    )
    try:
        duplex = await connection.open(Said())
        with pytest.raises(ChannelLost, match="the reason"):
            await duplex.read()
        await duplex.close()
    finally:
        await connection.close()


async def test_a_login_that_runs_no_commands_is_named(pods: Pods, tmp_path: Path) -> None:
    if pods.kind != "namespaced":
        pytest.skip("the other kinds of pod have a forced command already")
    (pod,) = pods(1, sshd=["ForceCommand echo This account is for tunnels only >&2; exit 1"])
    connection = to(pod, tmp_path, bundles.stub())
    try:
        with pytest.raises(
            DeployFailed, match="did not run a command: This account is for tunnels only"
        ):
            await connection.open(Said())
    finally:
        await connection.close()
        pod.close()


# --- the scripts


def test_the_attach_script_means_the_same_in_every_shell() -> None:
    """In single quotes, csh still reads newlines and history marks, fish reads backslashes."""
    for script in (need.ATTACH, deploy._CLEAN_UP):
        assert not set(script) & set("\n'!\\")


@pytest.mark.parametrize(
    "shell", ["sh", "bash", "dash", "zsh", "fish", "tcsh", "csh", "ksh", "busybox"]
)
def test_the_attach_script_runs_below_every_login_shell(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} on this machine")
    bundle = bundles.stub()
    line = command(need.script("tok", bundle.name, "1", "--start"))
    home = tmp_path / "a home with 'quotes'"
    home.mkdir()
    argv = [shell, "sh", "-c", line] if shell == "busybox" else [shell, "-c", line]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, env={**os.environ, "HOME": str(home)}
    )
    said = need.parse(
        [line.removeprefix("tok ") for line in done.stdout.splitlines() if line.startswith("tok ")]
    )
    assert done.stderr == ""
    assert said.python is not None
    assert said.home == f"{home}/.bs4"
    assert (said.system, said.machine) == (os.uname().sysname, os.uname().machine)
    assert said.free_kib
    assert said.current is None
    assert (home / ".bs4" / "agent").is_dir()


async def test_what_a_pod_says_is_not_trusted(pods: Pods, tmp_path: Path) -> None:
    """Neither numbers that are none nor escape sequences reach more than a message."""
    answer = need.parse(
        [
            "python 99999999999999999999 /x",
            "python x y",
            "free " + "9" * 400,
            "current a b c",
            "nonsense",
            "",
            "machine",
        ]
    )
    assert (answer.pythons, answer.free_kib, answer.current) == ([], None, None)
    if pods.kind != "namespaced":
        pytest.skip("the other kinds of pod have a forced command already")
    (pod,) = pods(1, sshd=["ForceCommand printf '\\033]0;title\\007\\033[31mred' >&2; exit 1"])
    connection = to(pod, tmp_path, bundles.stub())
    try:
        with pytest.raises(DeployFailed, match="red") as caught:
            await connection.open(Said())
        assert str(caught.value).isprintable()
    finally:
        await connection.close()
        pod.close()


def _with(bundle: Bundle, path: str, data: bytes) -> Bundle:
    """The bundle with one file replaced."""
    with tarfile.open(fileobj=io.BytesIO(bundle.data)) as archive:
        members = {
            member.name: archive.extractfile(member).read() for member in archive.getmembers()
        }  # type: ignore[union-attr]
    packed = pack(members | {path: data})
    return replace(bundle, data=packed, sha256=hashlib.sha256(packed).hexdigest())
