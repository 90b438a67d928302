"""A pod over SSH: one connection, host keys checked against our own list at every hop, and every
failure as a typed error.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bs4_console import ceilings
from bs4_console.errors import ChannelLost, DeployFailed, LinkError, NoSpace, Unreachable
from bs4_console.pods.inventory import Pod
from bs4_console.pods.port import Completed, Duplex
from bs4_console.transport import deploy as deployment
from bs4_console.transport import faults, login, looking
from bs4_console.transport.asyncssh_import import asyncssh
from bs4_console.transport.bundle import Bundle
from bs4_console.transport.bundle import shipped as shipped_bundle
from bs4_console.transport.hostkeys import HostKeys
from bs4_console.transport.remote import Ending, command, printable
from bs4_console.transport.route import Hop, route

#: Seconds for the address to answer (TCP, a tunnel or a proxy command), and then for the login (a
#: person may have to touch a hardware key).
CONNECT_S, LOGIN_S = 10.0, 30.0
#: Seconds between keepalives, and how many may stay unanswered. These values find a cut link after
#: 15 to 20 s and survive 6 s of silence.
KEEPALIVE_S, KEEPALIVES = 5, 3
#: Bytes. asyncssh's own window of 2 MiB limits links with a long round trip: at 150 ms, 40 MB came
#: at 6.7 MB/s, and with 32 MiB at 92.9 MB/s.
WINDOW, PACKET = 32 * 1024 * 1024, 64 * 1024
#: aes128-gcm with hardware AES is 1.1 to 1.4 times as fast as chacha20, asyncssh's own first
#: choice.
CIPHERS = [
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "chacha20-poly1305@openssh.com",
    "aes256-ctr",
    "aes192-ctr",
    "aes128-ctr",
]
#: Bytes of one read.
CHUNK = 256 * 1024
#: Seconds that closing waits for a connection and for a command. A cut link never closes properly,
#: and a command that ignores the end of its input keeps its channel open.
_CLOSE_S, _CLOSE_PIPE_S = 2.0, 0.5
#: Seconds for which a refused session is asked for again, and between two tries. A server counts a
#: session until its program has ended, which is after the channel was closed.
_FREED_S, _ASK_AGAIN_S = 3.0, 0.1
_STDERR_KEPT = 8192


class SshTransport:
    """The Transport (see pods/port.py) that reaches a pod over SSH. `hostkeys` are the trusted host
    keys, and `passphrases` asks a person for the passphrase of a key.

    `config` is an SSH config file that is read in place of ~/.ssh/config, and `bundle` returns the
    agent bundle to install (by default this console's own). Several tasks may use the transport at
    once. After a lost connection, `open` connects again.
    """

    def __init__(
        self,
        pod: Pod,
        hostkeys: HostKeys,
        *,
        passphrases: login.Passphrases | None = None,
        config: Path | None = None,
        bundle: Callable[[], Bundle] = shipped_bundle,
    ) -> None:
        self.pod = pod
        self._hostkeys = hostkeys
        self._passphrases = passphrases or login.Passphrases()
        self._config = config
        self._bundle = bundle
        self._connections: list[asyncssh.SSHClientConnection] = []
        self._connecting = asyncio.Lock()

    @property
    def label(self) -> str:
        """Return the name of the machine for messages: "pod NAME"."""
        return f"pod {self.pod.name}"

    async def open(
        self, progress: Callable[[str], None], *, deploy: bool = True, first: bytes = b""
    ) -> Duplex:
        """Connect to the agent on the pod by starting its `attach` command over SSH, send it the
        bytes `first`, and return the pipe to it. Install or update the agent first if needed;
        `progress` is called with short phrases for a person. With `deploy` False nothing is
        installed, and NoAgent is raised if no agent runs there. Raises another LinkError if there
        is no connection or the agent cannot be installed, and UsageError for a wrong setting.
        """
        progress("connecting")
        await self.connect()
        return await deployment.attach(self, progress, self._bundle if deploy else None, first)

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0
    ) -> Completed:
        """Run the command `argv` on the pod to its end, with `stdin` as its input, and return its
        exit status and output. Raises Unreachable after `timeout` seconds; processes that the
        command has started may then still run. Raises LooksOnly or NoAgent if the key of this login
        may only read on the pod. Raises another LinkError if there is no connection or it is lost,
        and UsageError for a wrong setting.
        """
        pipe = await self.start(argv)
        try:
            async with asyncio.timeout(timeout):
                done = await pipe.finish(stdin)
        except TimeoutError as error:
            raise Unreachable(
                f"{argv[0]} on {self.label} did not end within {timeout:g} s.",
                "Try again when the pod is less busy.",
            ) from error
        finally:
            await pipe.close()
        ending = Ending(done.exit_status, done.stderr.decode(errors="replace"))
        if (refused := looking.refusal(self.label, ending)) is not None:
            raise refused
        return done

    async def bring_store_library(self, progress: Callable[[str], None]) -> None:
        """Install b2sdk, the library with which the agent reads and writes an object store, on
        the pod. Nothing is installed if it is there already. `progress` is called with short
        phrases for a person. Raises a LinkError, such as NoSpace or NoAgent, if that fails.
        """
        from bs4_console.transport import deploy_b2  # only a sync or a restore needs it

        await deploy_b2.bring(self, progress)

    async def close(self) -> None:
        """Close the connections to the pod and its jump hosts."""
        connections, self._connections = self._connections, []
        for connection in reversed(connections):
            await _hang_up(connection)

    async def start(self, argv: Sequence[str]) -> SshPipe:
        """Start the command `argv` on the pod and return the pipe to it. Connect first if there is
        no connection yet. Raises SessionRefused if the server still accepts no further session
        after 3 seconds, ChannelLost if the connection is lost, another LinkError if it cannot be
        made, and UsageError for a wrong setting.
        """
        connection = await self.connect()
        deadline = time.monotonic() + _FREED_S
        while True:
            try:
                process = await connection.create_process(
                    command(argv),
                    encoding=None,
                    window=WINDOW,
                    max_pktsize=PACKET,
                    request_pty=False,
                    env=None,
                    send_env=None,
                )
            except asyncssh.ChannelOpenError as error:
                if connection.is_closed():
                    raise faults.lost(self.label, error) from error
                if time.monotonic() > deadline:
                    raise faults.no_session(self.label, error) from error
                await asyncio.sleep(_ASK_AGAIN_S)
            except (asyncssh.DisconnectError, OSError) as error:
                raise faults.lost(self.label, error) from error
            else:
                return SshPipe(process, connection, self.label)

    async def upload(self, path: str, data: bytes) -> None:
        """Write `data` to a new file `path` on the pod over SFTP, with mode 0600. If the server has
        no SFTP (minimal images, dropbear), the program `cat` on the pod writes it. The caller
        checks the file's hash. Raises NoSpace if the disk is full, and DeployFailed for another
        error of the pod. Raises another LinkError if there is no connection or it is lost, and
        UsageError for a wrong setting.
        """
        connection = await self.connect()
        try:
            async with (
                connection.start_sftp_client() as sftp,
                sftp.open(path, "xb", asyncssh.SFTPAttrs(permissions=0o600)) as remote,
            ):
                await remote.write(data)
        except asyncssh.ChannelOpenError:
            await self._upload_by_exec(path, data)
        except (asyncssh.SFTPNoSpaceOnFilesystem, asyncssh.SFTPQuotaExceeded) as error:
            raise NoSpace(
                f"The disk of {self.label} filled up during the upload.",
                "Free space in the home directory there.",
            ) from error
        except asyncssh.SFTPConnectionLost as error:
            raise faults.lost(self.label, error) from error
        except asyncssh.SFTPError as error:
            raise DeployFailed(
                f"{self.label} did not take the file {path}: {printable(error.reason)}.",
                "Check its home directory.",
            ) from error
        except (asyncssh.DisconnectError, OSError) as error:
            raise faults.lost(self.label, error) from error

    async def _upload_by_exec(self, path: str, data: bytes) -> None:
        done = await self.run(
            ["sh", "-c", 'umask 077; set -C; cat > "$1"', "sh", path], stdin=data, timeout=120
        )
        if done.exit_status != 0:
            detail = printable(done.stderr.decode(errors="replace").strip())
            raise DeployFailed(
                f"{self.label} did not take the file {path}: {detail}.", "Check its home directory."
            )

    async def connect(self) -> asyncssh.SSHClientConnection:
        """Return the open SSH connection to the pod. If there is none, connect first. Raises a
        LinkError that says why the connection failed, or a UsageError for a wrong setting.
        """
        async with self._connecting:
            if self._connections and not self._connections[-1].is_closed():
                return self._connections[-1]
            await self.close()
            hops = await asyncio.to_thread(route, self.pod, self._config)
            try:
                for number, hop in enumerate(hops):
                    self._connections.append(
                        await self._connect(hop, hops[number - 1] if number else None)
                    )
            except BaseException:
                await self.close()
                raise
            return self._connections[-1]

    async def _connect(self, hop: Hop, via: Hop | None) -> asyncssh.SSHClientConnection:
        keys = await login.gather(hop, self._passphrases)
        client = _Client()
        try:
            return await self._log_in(hop, keys, client)
        except asyncssh.HostKeyNotVerifiable as error:
            if client.shown is None:
                raise LinkError(
                    f"{hop.label} shows a host key that cannot be read: {error}.",
                    "Ask the provider about this machine.",
                ) from error
            raise self._hostkeys.verdict(hop.entry, client.shown, jump=hop.jump) from error
        except (asyncssh.Error, OSError, ValueError) as error:
            raise faults.connecting(
                error, hop, greeted=client.greeted, tried=[*keys.names, *keys.skipped], via=via
            ) from error
        finally:
            await keys.close()

    async def _log_in(
        self, hop: Hop, keys: login.Keys, client: _Client
    ) -> asyncssh.SSHClientConnection:
        """Reach the server within CONNECT_S, then log in within LOGIN_S, and return the connection.
        One timeout for both would cut off a person at a hardware key.
        """
        attempt = asyncio.ensure_future(asyncssh.connect(**self._options(hop, keys, client)))
        reached = asyncio.ensure_future(client.reached.wait())
        try:
            done, _ = await asyncio.wait(
                {attempt, reached}, timeout=CONNECT_S, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                raise faults.no_answer(hop, CONNECT_S)
            return await attempt
        finally:
            attempt.cancel()
            reached.cancel()
            await asyncio.gather(attempt, reached, return_exceptions=True)

    def _options(self, hop: Hop, keys: login.Keys, client: _Client) -> dict[str, Any]:
        """Return the options of the connection. Ours are set where safety or speed depends on them;
        the rest (address family, key exchange, chosen ciphers) is left to ~/.ssh/config.
        """
        options: dict[str, Any] = {
            "host": hop.host,
            "config": list(hop.config),
            "tunnel": self._connections[-1] if self._connections else None,
            "proxy_command": hop.proxy_command,
            "client_factory": lambda: client,
            # Never None, which would trust every host key. A key that is not in this list goes to
            # _Client, which remembers and rejects it.
            "known_hosts": (self._hostkeys.trusted(hop.entry), [], []),
            "host_key_alias": None,
            "server_host_key_algs": self._hostkeys.algorithms(hop.entry),
            "client_keys": keys.pairs or None,
            "agent_path": None,
            "agent_forwarding": False,
            "x11_forwarding": False,
            "password_auth": False,
            "kbdint_auth": False,
            "host_based_auth": False,
            "gss_auth": False,
            "gss_kex": False,
            "command": None,
            "connect_timeout": None,
            "login_timeout": LOGIN_S,
            "keepalive_interval": KEEPALIVE_S,
            "keepalive_count_max": KEEPALIVES,
            "compression_algs": ["none"],
        }
        if hop.port is not None:
            options["port"] = hop.port
        if hop.user is not None:
            options["username"] = hop.user
        if not hop.sets_ciphers:
            options["encryption_algs"] = CIPHERS
        return options


class SshPipe:
    """A command that runs on the pod over SSH, with its input, its output, and a way to
    learn how it ended.
    """

    def __init__(
        self,
        process: asyncssh.SSHClientProcess[bytes],
        connection: asyncssh.SSHClientConnection,
        label: str,
    ) -> None:
        self._process = process
        self._connection = connection
        self._label = label
        self._stderr = bytearray()
        # Unread stderr would fill its window and block the command.
        self._drain = asyncio.ensure_future(self._keep_stderr())

    async def read(self) -> bytes:
        """Return the next bytes of the command's output, or b"" at its end. Raises ChannelLost if
        the connection ended first.
        """
        try:
            data = await self._process.stdout.read(CHUNK)
        except (asyncssh.DisconnectError, OSError) as error:
            raise faults.lost(self._label, error) from error
        if not data and self._connection.is_closed():
            raise faults.lost(self._label, None)
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes to the command's input. If the command has ended, the bytes are dropped
        without an error; `ending` then returns how it has ended. Raises ChannelLost if the
        connection is lost.
        """
        try:
            self._process.stdin.write(data)
            await self._process.stdin.drain()
        except (asyncssh.DisconnectError, OSError) as error:
            if self._connection.is_closed():
                raise faults.lost(self._label, error) from error

    async def finish(self, stdin: bytes = b"") -> Completed:
        """Send `stdin` to the command, read its output, wait until it has ended, and return its
        exit status and output. Raises ChannelLost if the connection is lost, and LinkError if the
        output has more than 64 MiB (ceilings.OUTPUT_BYTES), all of which would be held.
        """
        await self.write(stdin)
        with contextlib.suppress(OSError):  # the command has ended already
            self._process.stdin.write_eof()
        out = []
        size = 0
        while data := await self.read():
            size += len(data)
            if size > ceilings.OUTPUT_BYTES:
                raise LinkError(
                    f"A command on {self._label} prints more than "
                    f"{ceilings.OUTPUT_BYTES // ceilings.MIB} MiB, so it was given up.",
                    "Look at what its shell prints at login.",
                )
            out.append(data)
        ending = await self.ending()
        return Completed(ending.exit_status, b"".join(out), ending.stderr.encode())

    async def ending(self) -> Ending:
        """Wait until the command has ended. Return its exit status (None if a signal or the end of
        the connection ended it) and the last 8 KiB of its stderr.
        """
        await self._drain
        await self._process.wait_closed()
        status = self._process.exit_status  # -1: ended by a signal
        return Ending(
            None if status is None or status < 0 else status,
            bytes(self._stderr).decode(errors="replace").strip(),
        )

    async def close(self) -> None:
        """Close the SSH channel of the command, and wait at most 0.5 seconds for it to close. The
        connection to the pod stays open.
        """
        await self.leave()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_PIPE_S):
                await self._process.wait_closed()

    async def leave(self) -> None:
        """Begin to close the SSH channel of the command, and return without waiting until it is
        closed.
        """
        self._drain.cancel()
        self._process.close()

    async def _keep_stderr(self) -> None:
        with contextlib.suppress(asyncssh.DisconnectError, OSError):
            while data := await self._process.stderr.read(CHUNK):
                self._stderr += data
                del self._stderr[:-_STDERR_KEPT]


class _Client(asyncssh.SSHClient):
    """Remembers the host key that the server showed. asyncssh's own error names neither the key nor
    whether any key was known before.
    """

    def __init__(self) -> None:
        self.shown: asyncssh.SSHKey | None = None
        self.reached = asyncio.Event()
        self._connection: asyncssh.SSHClientConnection | None = None

    @property
    def greeted(self) -> bool:
        """Return True if the server has sent its SSH version."""
        return (
            self._connection is not None
            and self._connection.get_extra_info("server_version") is not None
        )

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        """Remember the connection and signal that the server was reached."""
        self._connection = conn
        self.reached.set()

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        """Remember the host key and return False. asyncssh asks only about keys that are not
        pinned; a person confirms a key elsewhere, by HostKeys.pin.
        """
        self.shown = key
        return False


async def _hang_up(connection: asyncssh.SSHClientConnection) -> None:
    connection.close()
    try:
        async with asyncio.timeout(_CLOSE_S):
            await connection.wait_closed()
    except TimeoutError:
        connection.abort()
    except (asyncssh.Error, OSError, ChannelLost):
        return
