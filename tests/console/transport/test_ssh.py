"""Logging in to real SSH servers, and every way in which it can fail, each with its own error and
one sentence that says what to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest

from bs4_console.errors import (
    AuthFailed,
    ChannelLost,
    ConnectionRefused,
    ConsoleError,
    HostKeyChanged,
    HostKeyUnknown,
    KeyUnusable,
    LinkError,
    Unreachable,
)
from bs4_console.pods.inventory import Pod
from bs4_console.transport import ssh
from bs4_console.transport.hostkeys import HostKeys
from bs4_console.transport.login import Passphrases
from bs4_console.transport.ssh import SshTransport
from tests.support import keys
from tests.support.pod import NotHere, TestPod
from tests.support.pods import Pods
from tests.support.transports import describe, transport, trusting

SECRET = "open sesame"  # noqa: S105


@pytest.fixture(scope="module")
def shared(pods: Pods) -> Iterator[TestPod]:
    """One pod for the tests that leave nothing on it."""
    (made,) = pods(1)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def no_keys_of_the_person(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither their agent nor their ~/.ssh."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))


@contextlib.contextmanager
def free_ports(count: int, address: str = "127.0.0.1") -> Iterator[list[int]]:
    """Ports at which nobody listens. They are bound, so that no other process gets one of them."""
    with contextlib.ExitStack() as held:
        ports = []
        for _ in range(count):
            place = held.enter_context(socket.socket())
            place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            place.bind((address, 0))
            ports.append(int(place.getsockname()[1]))
        yield ports


async def whoami(connection: SshTransport) -> str:
    try:
        done = await connection.run(["sh", "-c", "echo $HOME"])
        assert done.exit_status == 0
        return done.stdout.decode().strip()
    finally:
        await connection.close()


async def refused(connection: SshTransport, error: type[ConsoleError]) -> ConsoleError:
    """The error of a connection that must fail; its message is a sentence and it says what to do
    next.
    """
    try:
        with pytest.raises(error) as caught:
            await connection.run(["true"])
    finally:
        await connection.close()
    assert type(caught.value) is error
    assert caught.value.message.endswith(".")
    assert caught.value.next_step
    assert "\n" not in str(caught.value)
    return caught.value


# --- what works


async def test_a_command_runs_with_its_own_exit_status_and_streams(
    shared: TestPod, tmp_path: Path
) -> None:
    connection = transport(shared, tmp_path)
    try:
        done = await connection.run(["sh", "-c", "cat; echo err >&2; exit 7"], stdin=b"in\x00\xff")
        assert (done.exit_status, done.stdout, done.stderr) == (7, b"in\x00\xff", b"err")
        killed = await connection.run(["sh", "-c", "kill -9 $$"])
        # A shell around the command (a plain pod's ForceCommand) turns the signal into 128 + 9.
        assert killed.exit_status in (None, 137)
    finally:
        await connection.close()


@pytest.mark.parametrize(
    "word", ["$(id)", "`id`", "a'b\"c", "back\\slash", "-rf", "new\nline", "", "*", "; true", "ü €"]
)
async def test_arguments_arrive_as_they_are(shared: TestPod, tmp_path: Path, word: str) -> None:
    connection = transport(shared, tmp_path)
    try:
        done = await connection.run(["printf", "%s|", word, "end"])
        assert done.stdout.decode() == f"{word}|end|"
    finally:
        await connection.close()


async def test_large_output_arrives_whole_and_several_commands_share_one_connection(
    shared: TestPod, tmp_path: Path
) -> None:
    connection = transport(shared, tmp_path)
    try:
        first = await connection.connect()
        many = await asyncio.gather(
            *(connection.run(["head", "-c", "3000000", "/dev/zero"]) for _ in range(3))
        )
        assert [len(done.stdout) for done in many] == [3_000_000] * 3
        assert await connection.connect() is first
        assert first.get_extra_info("recv_cipher").startswith("aes128-gcm")
        assert first.get_extra_info("recv_compression") == "none"
    finally:
        await connection.close()


async def test_a_command_that_takes_too_long_is_an_error(shared: TestPod, tmp_path: Path) -> None:
    connection = transport(shared, tmp_path)
    try:
        with pytest.raises(Unreachable, match=r"did not end within 0\.3 s"):
            await connection.run(["sleep", "5"], timeout=0.3)
        assert (await connection.run(["echo", "still there"])).stdout == b"still there\n"
    finally:
        await connection.close()


# --- host keys


async def test_an_unknown_host_key_is_shown_and_nothing_is_sent(
    shared: TestPod, tmp_path: Path
) -> None:
    hostkeys = HostKeys(tmp_path / "known_hosts")
    error = await refused(SshTransport(describe(shared), hostkeys), HostKeyUnknown)
    assert isinstance(error, HostKeyUnknown)
    assert error.key == shared.host_key
    assert error.fingerprint == asyncssh.import_public_key(shared.host_key).get_fingerprint()
    assert not error.retry
    hostkeys.pin(error.entry, error.key)
    assert await whoami(SshTransport(describe(shared), hostkeys)) == shared.home


async def test_a_changed_host_key_is_a_hard_stop(shared: TestPod, tmp_path: Path) -> None:
    """Also when the new machine sits at the same address with a key of another kind."""
    for algorithm in ("ssh-ed25519", "ecdsa-sha2-nistp256"):
        other = keys.private_key(tmp_path / algorithm, algorithm=algorithm)
        hostkeys = HostKeys(tmp_path / f"known_hosts_{algorithm}")
        hostkeys.pin(shared.name, keys.public_line(other))
        error = await refused(SshTransport(describe(shared), hostkeys), HostKeyChanged)
        assert isinstance(error, HostKeyChanged)
        shown = {
            asyncssh.import_public_key(key).get_fingerprint()
            for key in (shared.host_key, shared.other_host_key)
        }
        assert error.actual in shown
        assert error.actual in error.message
        assert asyncssh.read_public_key(f"{other}.pub").get_fingerprint() in error.message
        assert not error.retry
        assert hostkeys.pinned(shared.name) == (keys.public_line(other),)


async def test_the_pinned_kind_of_key_is_asked_for_when_the_server_has_several(
    shared: TestPod, tmp_path: Path
) -> None:
    hostkeys = HostKeys(tmp_path / "known_hosts")
    hostkeys.pin(shared.name, shared.other_host_key)
    assert await whoami(SshTransport(describe(shared), hostkeys)) == shared.home


async def test_the_key_belongs_to_the_pod_and_not_to_its_address(
    shared: TestPod, tmp_path: Path
) -> None:
    hostkeys = trusting(tmp_path, shared)
    error = await refused(SshTransport(describe(shared, name="another"), hostkeys), HostKeyUnknown)
    assert isinstance(error, HostKeyUnknown)
    assert error.entry == "another"


async def test_openssh_reads_our_known_hosts(shared: TestPod, tmp_path: Path) -> None:
    ssh_client = shutil.which("ssh")
    if ssh_client is None:
        pytest.skip("no ssh client on this machine")
    trusting(tmp_path, shared)
    options = [
        f"UserKnownHostsFile={tmp_path / 'known_hosts'}",
        f"HostKeyAlias={shared.name}",
        "StrictHostKeyChecking=yes",
        "BatchMode=yes",
    ]
    done = await asyncio.create_subprocess_exec(
        ssh_client,
        "-F",
        "none",
        "-i",
        str(shared.key),
        "-p",
        str(shared.port),
        f"{shared.user}@{shared.address}",
        *(word for option in options for word in ("-o", option)),
        "echo",
        "in",
        stdout=-1,
        stderr=-1,
    )
    out, err = await done.communicate()
    assert out == b"in\n", err


# --- keys


async def test_an_encrypted_key_asks_once_and_is_remembered_for_the_next_connection(
    shared: TestPod, tmp_path: Path
) -> None:
    encrypted = _authorized(shared, tmp_path / "enc", passphrase=SECRET)
    asked: list[str] = []

    def ask(file: str) -> str:
        asked.append(file)
        return SECRET

    passphrases = Passphrases(ask)
    for _ in range(2):
        assert (
            await whoami(
                transport(
                    shared,
                    tmp_path,
                    identity_file=str(encrypted),
                    options={"passphrases": passphrases},
                )
            )
            == shared.home
        )
    assert asked == [str(encrypted)]


async def test_an_encrypted_pem_key_works_with_an_asynchronous_question(
    shared: TestPod, tmp_path: Path
) -> None:
    encrypted = _authorized(
        shared, tmp_path / "pem", passphrase=SECRET, pem=True, algorithm="ecdsa-sha2-nistp256"
    )

    async def ask(file: str) -> str:
        await asyncio.sleep(0)
        return SECRET

    assert (
        await whoami(
            transport(
                shared,
                tmp_path,
                identity_file=str(encrypted),
                options={"passphrases": Passphrases(ask)},
            )
        )
        == shared.home
    )


async def test_keys_that_cannot_be_used_say_why(shared: TestPod, tmp_path: Path) -> None:
    encrypted = keys.private_key(tmp_path / "enc", passphrase=SECRET)
    (tmp_path / "junk").write_text("no key")
    for file, ask, says in (
        (encrypted, None, "nobody can be asked"),
        (encrypted, lambda _: None, "nobody can be asked"),
        (encrypted, lambda _: "wrong", "passphrase for .* is wrong"),
        (tmp_path / "junk", None, "not a usable private key"),
        (tmp_path / "absent", None, "does not exist"),
    ):
        error = await refused(
            transport(
                shared, tmp_path, identity_file=str(file), options={"passphrases": Passphrases(ask)}
            ),
            KeyUnusable,
        )
        assert re.search(says, error.message), error.message


async def test_a_wrong_passphrase_can_be_tried_again(shared: TestPod, tmp_path: Path) -> None:
    encrypted = _authorized(shared, tmp_path / "twice", passphrase=SECRET)
    answers = iter(["wrong", SECRET])
    passphrases = Passphrases(lambda _: next(answers))
    await refused(
        transport(
            shared, tmp_path, identity_file=str(encrypted), options={"passphrases": passphrases}
        ),
        KeyUnusable,
    )
    assert (
        await whoami(
            transport(
                shared, tmp_path, identity_file=str(encrypted), options={"passphrases": passphrases}
            )
        )
        == shared.home
    )


async def test_a_certificate_beside_the_key_logs_in(
    shared: TestPod, pods: Pods, tmp_path: Path
) -> None:
    """The key itself is not authorized anywhere: only the CA's signature lets it in."""
    key = keys.private_key(tmp_path / "certified")
    await refused(transport(shared, tmp_path, identity_file=str(key)), AuthFailed)
    keys.certify(pods.ca, key, shared.user)
    assert await whoami(transport(shared, tmp_path, identity_file=str(key))) == shared.home


async def test_a_refused_login_lists_the_keys_that_were_tried(
    shared: TestPod, tmp_path: Path
) -> None:
    stranger = keys.private_key(tmp_path / "stranger")
    error = await refused(transport(shared, tmp_path, identity_file=str(stranger)), AuthFailed)
    assert str(stranger) in error.message
    assert f"user {shared.user}" in error.message
    assert not error.retry
    keyless = await refused(transport(shared, tmp_path, identity_file=None), AuthFailed)
    assert "no key in ~/.ssh" in keyless.message


def listens(path: Path) -> bool:
    """Return whether anybody listens at a unix socket; between bind and listen it is there and
    refuses.
    """
    with socket.socket(socket.AF_UNIX) as caller, contextlib.suppress(OSError):
        caller.connect(str(path))
        return True
    return False


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A real ssh-agent, for this test only."""
    if shutil.which("ssh-agent") is None or shutil.which("ssh-add") is None:
        pytest.skip("no ssh-agent on this machine")
    process = subprocess.Popen(
        ["ssh-agent", "-D", "-a", str(tmp_path / "agent.sock")], stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while not listens(tmp_path / "agent.sock"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    yield {**os.environ, "SSH_AUTH_SOCK": str(tmp_path / "agent.sock")}
    process.terminate()
    process.wait()


async def test_the_ssh_agent_is_used(
    shared: TestPod, tmp_path: Path, agent: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", agent["SSH_AUTH_SOCK"])
    stranger = keys.private_key(tmp_path / "stranger-in-agent")
    subprocess.run(["ssh-add", "-q", str(stranger)], env=agent, check=True, capture_output=True)
    error = await refused(transport(shared, tmp_path, identity_file=None), AuthFailed)
    assert "ssh-agent: stranger-in-agent" in error.message
    subprocess.run(["ssh-add", "-q", str(shared.key)], env=agent, check=True, capture_output=True)
    assert await whoami(transport(shared, tmp_path, identity_file=None)) == shared.home
    # An encrypted file whose key the agent holds asks nobody; a public file names a key of the
    # agent.
    encrypted = _authorized(shared, tmp_path / "held", passphrase=SECRET)
    subprocess.run(
        ["ssh-keygen", "-p", "-q", "-P", SECRET, "-N", "", "-f", str(encrypted)],
        check=True,
        capture_output=True,
    )
    subprocess.run(["ssh-add", "-q", str(encrypted)], env=agent, check=True, capture_output=True)
    subprocess.run(
        ["ssh-keygen", "-p", "-q", "-N", SECRET, "-f", str(encrypted)],
        check=True,
        capture_output=True,
    )
    assert await whoami(transport(shared, tmp_path, identity_file=str(encrypted))) == shared.home
    assert (
        await whoami(transport(shared, tmp_path, identity_file=f"{encrypted}.pub")) == shared.home
    )
    # It is never forwarded, whatever the ssh config says.
    (tmp_path / "config").write_text("Host *\n  ForwardAgent yes\n")
    forwarding = transport(
        shared,
        tmp_path,
        identity_file=None,
        ssh_config=True,
        options={"config": tmp_path / "config"},
    )
    done = await forwarding.run(["sh", "-c", "echo ${SSH_AUTH_SOCK:-none}"])
    await forwarding.close()
    # A plain pod's sshd passes on nothing either; an embedded one runs as us and is no test of
    # this.
    assert done.stdout == b"none\n"


async def test_no_x11_and_no_port_is_forwarded(
    pods: Pods, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the ssh config says, and with a server that would allow both."""
    (pod,) = pods(1, sshd=("X11Forwarding yes", "AllowTcpForwarding yes"))
    monkeypatch.setenv("DISPLAY", ":77")
    with free_ports(3) as (local, remote, dynamic):
        (tmp_path / "config").write_text(
            "Host *\n  ForwardX11 yes\n  ForwardX11Trusted yes\n"
            f"  LocalForward 127.0.0.1:{local} 127.0.0.1:22\n"
            f"  RemoteForward 127.0.0.1:{remote} 127.0.0.1:22\n"
            f"  DynamicForward 127.0.0.1:{dynamic}\n"
        )
        link = transport(pod, tmp_path, ssh_config=True, options={"config": tmp_path / "config"})
        try:
            done = await link.run(["sh", "-c", "echo ${DISPLAY:-none}; cat /proc/net/tcp"])
            for port in (local, dynamic):
                with pytest.raises(ConnectionRefusedError):
                    socket.create_connection(("127.0.0.1", port), timeout=60)
        finally:
            await link.close()
            pod.close()
    display, _, sockets = done.stdout.decode().partition("\n")
    assert display == "none"
    assert f":{remote:04X} " not in sockets


async def test_a_dead_agent_is_mentioned_and_the_files_are_tried(
    shared: TestPod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "gone.sock"))
    assert await whoami(transport(shared, tmp_path)) == shared.home
    error = await refused(transport(shared, tmp_path, identity_file=None), AuthFailed)
    assert "gone.sock does not answer" in error.message


async def test_default_keys_are_found_in_the_home(shared: TestPod, tmp_path: Path) -> None:
    home = tmp_path / "nobody" / ".ssh"
    home.mkdir(parents=True)
    shutil.copy(shared.key, home / "id_ed25519")
    keys.private_key(home / "id_rsa", passphrase=SECRET)
    assert await whoami(transport(shared, tmp_path, identity_file=None)) == shared.home


# --- the way there


async def test_a_refused_port(shared: TestPod, tmp_path: Path) -> None:
    with _closed_port(shared.address) as port:
        error = await refused(transport(shared, tmp_path, port=port), ConnectionRefused)
    assert error.retry
    assert shared.address in error.message


async def test_a_name_that_does_not_exist(shared: TestPod, tmp_path: Path) -> None:
    error = await refused(transport(shared, tmp_path, host="no-such-pod.invalid"), Unreachable)
    assert "No address is known for no-such-pod.invalid" in error.message


async def test_an_address_that_does_not_answer(
    pods: Pods, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cut cable: packets vanish. The limit is shortened here, the mechanism is the real one."""
    monkeypatch.setattr(ssh, "CONNECT_S", 0.5)
    (pod,) = pods(1)
    _cut_or_skip(pod)
    try:
        started = time.monotonic()
        error = await refused(transport(pod, tmp_path), Unreachable)
        assert "did not answer within 0.5 s" in error.message
        assert 0.4 < time.monotonic() - started < 60
        assert error.retry
    finally:
        pod.close()


@pytest.mark.parametrize(
    ("greeting", "hang_up"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", True),
        (b"SSH-1.5-old\r\n", False),
        (b"x" * 9000, False),
        (b"", True),
    ],
)
async def test_what_is_not_an_ssh_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, greeting: bytes, hang_up: bool
) -> None:
    with _Server(greeting, hang_up) as port:
        pod = SshTransport(_at("127.0.0.1", port), HostKeys(tmp_path / "kh"))
        try:
            with pytest.raises(
                LinkError, match=r"not an SSH server|gave no SSH greeting"
            ) as caught:
                await pod.run(["true"])
        finally:
            await pod.close()
    assert "port" in caught.value.next_step


async def test_a_server_that_never_greets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "LOGIN_S", 0.5)
    with _Server(b"", False) as port:
        error = await refused(
            SshTransport(_at("127.0.0.1", port), HostKeys(tmp_path / "kh")), Unreachable
        )
    assert "gave no SSH greeting" in error.message


async def test_too_many_sessions(pods: Pods, tmp_path: Path) -> None:
    (pod,) = pods(1, max_sessions=1)
    connection = transport(pod, tmp_path)
    try:
        held = await connection.start(["cat"])
        with pytest.raises(LinkError, match="refuses a further SSH session") as caught:
            await connection.run(["true"])
        assert caught.value.retry
        await held.close()
        assert (await connection.run(["echo", "again"])).stdout == b"again\n"
    finally:
        await connection.close()
        pod.close()


async def test_a_session_whose_program_ends_after_its_channel_is_waited_for(
    pods: Pods, tmp_path: Path
) -> None:
    (pod,) = pods(1, max_sessions=1)
    connection = transport(pod, tmp_path)
    try:
        lasting = await connection.start(["sleep", "1"])
        await lasting.close()
        assert (await connection.run(["echo", "next"])).stdout == b"next\n"
    finally:
        await connection.close()
        pod.close()


async def test_a_reboot_is_a_lost_connection_and_the_next_open_reconnects(
    pods: Pods, tmp_path: Path
) -> None:
    (pod,) = pods(1)
    connection = transport(pod, tmp_path)
    try:
        pipe = await connection.start(["cat"])
        waiting = asyncio.ensure_future(pipe.read())
        await asyncio.sleep(0)
        await asyncio.to_thread(pod.kill)
        with pytest.raises(ChannelLost, match="lost") as caught:
            await asyncio.wait_for(waiting, 60)
        assert caught.value.retry
        with pytest.raises(ConsoleError):
            await pipe.write(b"x" * 100_000)
            await connection.run(["true"])
        await asyncio.to_thread(pod.start)
        assert (await connection.run(["echo", "back"])).stdout == b"back\n"
    finally:
        await connection.close()
        pod.close()


@pytest.mark.long
async def test_a_cut_link_is_found_by_keepalive_and_a_short_cut_survives(
    pods: Pods, tmp_path: Path
) -> None:
    (pod,) = pods(1)
    connection = transport(pod, tmp_path)
    try:
        pipe = await connection.start(["cat"])
        _cut_or_skip(pod)
        await asyncio.sleep(4)
        pod.restore()
        await pipe.write(b"alive\n")
        assert await asyncio.wait_for(pipe.read(), 60) == b"alive\n"
        pod.cut()
        started = time.monotonic()
        with pytest.raises(ChannelLost, match="keepalive"):
            await asyncio.wait_for(pipe.read(), 40)
        assert 10 < time.monotonic() - started < 25
        pod.restore()
        assert (await connection.run(["echo", "back"])).stdout == b"back\n"
    finally:
        await connection.close()
        pod.close()


# --- helpers


def _authorized(pod: TestPod, path: Path, **how: object) -> Path:
    """A new key that this pod lets in."""
    key = keys.private_key(path, **how)  # type: ignore[arg-type]
    line = keys.public_line(key)
    for place in ("/etc/bs4-pod/authorized_keys", f"{Path(pod.home).parent}/authorized_keys"):
        if (
            pod.run(["sh", "-c", 'test -f "$1" && echo "$2" >> "$1"', "sh", place, line]).returncode
            == 0
        ):
            return key
    pytest.skip("this kind of pod takes no further keys")


def _cut_or_skip(pod: TestPod) -> None:
    try:
        pod.cut()
    except NotHere as reason:
        pytest.skip(str(reason))


@contextlib.contextmanager
def _closed_port(address: str) -> Iterator[int]:
    with contextlib.ExitStack() as held:
        try:
            (port,) = held.enter_context(free_ports(1, address))
        except OSError:
            port = 9  # another machine: discard, which nobody serves
        yield port


def _at(host: str, port: int) -> Pod:
    return Pod(name="x", host=host, port=port, user="root", ssh_config=False)


class _Server:
    """Something on a port that is no SSH server."""

    def __init__(self, greeting: bytes, hang_up: bool) -> None:
        self._greeting, self._hang_up = greeting, hang_up
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        try:
            while True:
                connection, _ = self._socket.accept()
                connection.sendall(self._greeting)
                if self._hang_up:
                    connection.close()
                else:
                    self._open.append(connection)
        except OSError:
            return

    def __enter__(self) -> int:
        return int(self._socket.getsockname()[1])

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        for connection in self._open:
            connection.close()
