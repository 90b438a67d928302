"""~/.ssh/config and jump hosts: what ssh would do, done with our own host key check at every
hop.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bs4_console.errors import HostKeyUnknown, LinkError, Unreachable, UsageError
from bs4_console.pods.inventory import Pod
from bs4_console.transport.hostkeys import HostKeys
from bs4_console.transport.route import route
from bs4_console.transport.ssh import SshTransport
from tests.support.pod import TestPod
from tests.support.pods import Pods


@pytest.fixture(scope="module")
def pair(pods: Pods) -> Iterator[tuple[TestPod, TestPod]]:
    """A jump host and a pod behind it."""
    first, second = pods(2)
    yield first, second
    first.close()
    second.close()


@pytest.fixture(autouse=True)
def no_keys_of_the_person(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))


def entry(pod: TestPod) -> str:
    """How a jump host is called in known_hosts."""
    return pod.address if pod.port == 22 else f"[{pod.address}]:{pod.port}"


def trusting(directory: Path, name: str, pod: TestPod, *jumps: TestPod) -> HostKeys:
    hostkeys = HostKeys(directory / "known_hosts")
    hostkeys.pin(name, pod.host_key)
    for jump in jumps:
        hostkeys.pin(entry(jump), jump.host_key)
    return hostkeys


async def where(transport: SshTransport) -> tuple[str, str]:
    """The home of the pod that answered, and the address it was reached from."""
    try:
        done = await transport.run(["sh", "-c", 'echo "$(hostname) $SSH_CONNECTION"'])
        name, source = done.stdout.decode().split()[:2]
        return name, source
    finally:
        await transport.close()


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


async def test_an_alias_of_the_ssh_config_is_followed(
    pair: tuple[TestPod, TestPod], tmp_path: Path
) -> None:
    _, pod = pair
    write(
        tmp_path / "more.conf",
        f"Host alias\n  User {pod.user}\n  IdentityFile {tmp_path}/absent\n  IdentityFile "
        f"{pod.key}\n",
    )
    # What would break a channel of ours or leak something must be ignored.
    config = write(
        tmp_path / "config",
        f"Include {tmp_path}/more.conf\nHost alias\n  HostName {pod.address}\n  Port {pod.port}\n"
        "  ForwardAgent yes\n"
        "  RemoteCommand echo hijacked\n  RequestTTY force\n  UserKnownHostsFile /dev/null\n"
        "  StrictHostKeyChecking no\n  UnknownOption x\n",
    )
    hostkeys = trusting(tmp_path, "mine", pod)
    name, _ = await where(SshTransport(Pod(name="mine", host="alias"), hostkeys, config=config))
    assert name == pod.run(["hostname"]).stdout.decode().strip()
    # StrictHostKeyChecking no in the config opens nothing: our own list decides.
    stranger = SshTransport(Pod(name="stranger", host="alias"), hostkeys, config=config)
    with pytest.raises(HostKeyUnknown):
        await stranger.run(["true"])
    await stranger.close()


async def test_the_inventory_wins_over_the_config_and_can_switch_it_off(tmp_path: Path) -> None:
    config = write(
        tmp_path / "config",
        "Host alias\n  HostName 192.0.2.9\n  Port 99\n  User eve\n  ProxyJump 203.0.113.7\n",
    )
    (jump, hop) = route(Pod(name="a", host="alias", port=2, user="ann"), config)
    assert (hop.address, hop.at, hop.login) == ("192.0.2.9", 2, "ann")
    assert (jump.address, jump.at) == ("203.0.113.7", 22)
    (hop,) = route(Pod(name="a", host="alias", port=2, user="ann", ssh_config=False), config)
    assert (hop.address, hop.at, hop.login) == ("alias", 2, "ann")
    (hop,) = route(Pod(name="a", host="alias", jump="none"), config)
    assert hop.address == "192.0.2.9"


@pytest.mark.parametrize("by_config", [False, True])
async def test_a_jump_host_is_passed_with_both_keys_checked(
    pair: tuple[TestPod, TestPod], tmp_path: Path, by_config: bool
) -> None:
    jump, pod = pair
    if by_config:
        config = write(
            tmp_path / "config",
            f"Host target\n  HostName {pod.address}\n  Port {pod.port}\n  User {pod.user}\n  "
            f"ProxyJump bastion\n  IdentityFile {pod.key}\n"
            f"Host bastion\n  HostName {jump.address}\n  Port {jump.port}\n  User {jump.user}\n  "
            f"IdentityFile {jump.key}\n",
        )
        described, options = Pod(name="far", host="target"), {"config": config}
    else:
        described = Pod(
            name="far",
            host=pod.address,
            port=pod.port,
            user=pod.user,
            identity_file=str(pod.key),
            jump=f"{jump.user}@{jump.address}:{jump.port}",
            ssh_config=False,
        )
        options = {}
    # First contact with the jump host, then with the pod: each is shown under its own name.
    hostkeys = HostKeys(tmp_path / "known_hosts")
    for expected, server in ((entry(jump), jump), ("far", pod)):
        transport = SshTransport(described, hostkeys, **options)  # type: ignore[arg-type]
        with pytest.raises(HostKeyUnknown) as caught:
            await transport.run(["true"])
        await transport.close()
        assert (caught.value.entry, caught.value.key) == (expected, server.host_key)
        hostkeys.pin(caught.value.entry, caught.value.key)
    name, source = await where(SshTransport(described, hostkeys, **options))  # type: ignore[arg-type]
    assert name == pod.run(["hostname"]).stdout.decode().strip()
    if pod.address.startswith("10."):
        assert source == jump.address


async def test_a_jump_host_that_cannot_reach_the_pod_is_named(
    pair: tuple[TestPod, TestPod], tmp_path: Path
) -> None:
    jump, pod = pair
    described = Pod(
        name="far",
        host=pod.address,
        port=1,
        user=pod.user,
        identity_file=str(pod.key),
        jump=f"{jump.user}@{jump.address}:{jump.port}",
        ssh_config=False,
    )
    transport = SshTransport(described, trusting(tmp_path, "far", pod, jump))
    with pytest.raises(Unreachable, match=f"jump host {jump.address} could not reach pod far"):
        await transport.run(["true"])
    await transport.close()


async def test_a_proxy_command_carries_the_connection(
    pair: tuple[TestPod, TestPod], tmp_path: Path
) -> None:
    _, pod = pair
    if shutil.which("nc") is None and shutil.which("python3") is None:
        pytest.skip("nothing to proxy with")
    relay = write(
        tmp_path / "relay.py",
        "import socket, sys, threading\n"
        "s = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        "def up():\n"
        "    while data := sys.stdin.buffer.raw.read(65536):\n        s.sendall(data)\n    "
        "s.shutdown(socket.SHUT_WR)\n"
        "threading.Thread(target=up, daemon=True).start()\n"
        "while data := s.recv(65536):\n    sys.stdout.buffer.write(data); "
        "sys.stdout.buffer.flush()\n",
    )
    config = write(
        tmp_path / "config",
        f"Host proxied\n  HostName {pod.address}\n  Port {pod.port}\n  User {pod.user}\n  "
        f"IdentityFile {pod.key}\n"
        f"  ProxyCommand python3 {relay} %h %p\n"
        "Host broken\n  ProxyCommand /nonexistent/proxy\nHost ends\n  ProxyCommand false\n",
    )
    hostkeys = trusting(tmp_path, "p", pod)
    name, _ = await where(SshTransport(Pod(name="p", host="proxied"), hostkeys, config=config))
    assert name == pod.run(["hostname"]).stdout.decode().strip()
    for host, says in (
        ("broken", "does not exist: /nonexistent/proxy"),
        ("ends", "ended without a connection"),
    ):
        transport = SshTransport(Pod(name="p", host=host), hostkeys, config=config)
        with pytest.raises(LinkError, match=says):
            await transport.run(["true"])
        await transport.close()


@pytest.mark.parametrize(
    ("jump", "expected"),
    [
        ("bastion", [("bastion", 22)]),
        ("ops@203.0.113.1:2222,198.51.100.7", [("203.0.113.1", 2222), ("198.51.100.7", 22)]),
        ("[2001:db8::1]:2022", [("2001:db8::1", 2022)]),
    ],
)
def test_jump_lists_are_read_as_ssh_reads_them(jump: str, expected: list[tuple[str, int]]) -> None:
    *before, last = route(Pod(name="a", host="192.0.2.1", jump=jump, ssh_config=False))
    assert [(hop.address, hop.at) for hop in before] == expected
    assert last.entry == "a"
    if jump.startswith("ops@"):
        assert [hop.entry for hop in before] == ["[203.0.113.1]:2222", "198.51.100.7"]
        assert before[0].login == "ops"


def test_a_chain_in_the_config_is_resolved_and_a_loop_ends(tmp_path: Path) -> None:
    config = write(
        tmp_path / "config",
        "Host a\n  ProxyJump b\nHost b\n  ProxyJump c\nHost x\n  ProxyJump y\nHost y\n  "
        "ProxyJump x\n",
    )
    assert [hop.address for hop in route(Pod(name="p", host="a"), config)] == ["c", "b", "a"]
    with pytest.raises(UsageError, match="jump hosts lead to each other"):
        route(Pod(name="p", host="x"), config)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Host a\n  Port many\n", "line 2"),
        ('Host "a\n', "line 1"),
        ("Host a\n  ProxyJump u@:22\n", "not a jump host"),
    ],
)
def test_a_wrong_config_is_named(tmp_path: Path, text: str, says: str) -> None:
    config = write(tmp_path / "config", text)
    with pytest.raises(UsageError, match=says) as caught:
        route(Pod(name="p", host="a"), config)
    assert caught.value.next_step
