"""Brings the agent to a machine and attaches to it. That takes one command if the agent is there,
and one upload and one more command if it is not.

Nothing here depends on SSH. Every command prints lines that begin with our token, because the
start-up files of a login shell may print too.
"""

from __future__ import annotations

import base64
import errno
import secrets
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from bs4_common.wire import AHEAD_LIMIT
from bs4_console.errors import ChannelLost, DeployFailed, LinkError, NoAgent, NoSpace
from bs4_console.pods.port import Duplex
from bs4_console.transport import looking
from bs4_console.transport.bundle import Bundle, order
from bs4_console.transport.need import ANY, LOOK, check, no_space, parse, script, wanted_kib
from bs4_console.transport.remote import Ending, Pipe, Remote, printable

#: The errno values of a full disk and a full quota.
FULL = (errno.ENOSPC, errno.EDQUOT)

Progress = Callable[[str], None]

#: The bytes that may come before our `ready` line. A .bashrc may print a lot, but not without end.
_NOISE = 256 * 1024

#: Our line when the agent is also given the bytes that came with the command.
_TOOK_AHEAD = "ready ahead"

#: The exit status of `attach` without --start if the agent is installed and does not run.
_NO_AGENT = 3

# $1 is the archive, $2 the bundles' directory, which is removed too if it is empty.
_CLEAN_UP = (
    'LC_ALL=C df -Pk "$2" | { read -r x; read -r x x x a x; echo "$a"; }; rm -f "$1"; rmdir "$2" '
    '"${2%/*}" 2>/dev/null; true'
)


async def attach(
    remote: Remote,
    progress: Progress,
    shipped: Callable[[], Bundle] | None,
    first: bytes = b"",
) -> Duplex:
    """Connect to the agent on the machine `remote`, send it the bytes `first`, and return the pipe
    to it. Install or update the agent first if needed. `shipped` returns the bundle to install; if
    it is None, nothing is installed. `progress` is called with short phrases for a person.

    `first` goes with the command that connects if the installed agent can read such bytes, which
    saves a round trip, and through the pipe otherwise.

    Raises NoAgent if nothing may be installed and no agent runs, and NoPython, NoSpace or
    DeployFailed if the installation is not possible. The pod is then as it was before.
    """
    if shipped is None:
        return await _attach_existing(remote, first)
    bundle = shipped()
    preamble = await _begin(remote, first, bundle.name, str(wanted_kib(bundle)), "--start")
    if preamble.ready is not None:
        return preamble.ready
    if not preamble.lines:
        raise _silent(remote, preamble.last_words)
    need = parse(preamble.lines)
    if (
        need.current is not None
        and order(*need.current[1:]) >= bundle.order
        and need.current[0] != bundle.name
    ):
        # A newer console was here. Its agent stays, because both sides understand the protocol (N
        # and N-1).
        progress("attaching to a newer agent")
        return await _attach_installed(remote, first, need.current[0])
    python = check(remote.label, need, bundle)
    pipe = await _install(remote, progress, bundle, need.home, python)
    await _send(pipe, first)
    return pipe


async def _begin(remote: Remote, first: bytes, name: str, mode: str, *arguments: str) -> _Preamble:
    """Start need.py's script on the machine and return what it printed before the agent. If an
    agent answers, it has been sent the bytes `first`.
    """
    token = _token()
    early = first
    if len(first) > AHEAD_LIMIT:
        early = b""
    pipe = await remote.start(script(token, name, mode, *arguments, ahead=early))
    preamble = await _Preamble(
        remote, pipe, token, started="--start" in arguments, ahead=bool(early)
    ).read()
    if preamble.ready is not None and not preamble.took_ahead:
        await _send(preamble.ready, first)
    return preamble


async def _send(pipe: Duplex, first: bytes) -> None:
    """Send the first bytes through the pipe, which is closed if that fails."""
    try:
        await pipe.write(first)
    except BaseException:
        await pipe.close()
        raise


async def _attach_existing(remote: Remote, first: bytes) -> Duplex:
    preamble = await _begin(remote, first, ANY, LOOK)
    if not preamble.lines:
        raise _silent(remote, preamble.last_words)
    if preamble.ready is None:
        raise _no_agent(remote)
    return preamble.ready


def _no_agent(remote: Remote) -> NoAgent:
    name = remote.label.removeprefix("pod ")
    return NoAgent(
        f"No agent runs on {remote.label}.", f"Put it there with `bs4-console deploy --pod {name}`."
    )


async def _attach_installed(remote: Remote, first: bytes, name: str) -> Duplex:
    preamble = await _begin(remote, first, name, LOOK, "--start")
    if preamble.ready is None:
        raise ChannelLost(
            f"The agent on {remote.label} was replaced meanwhile.", "It is tried again by itself."
        )
    return preamble.ready


async def _install(
    remote: Remote, progress: Progress, bundle: Bundle, home: str, python: str
) -> Duplex:
    """Upload the archive, and run one command that checks it, unpacks it, switches to it and
    attaches. Return the pipe. The archive is gone afterwards, whatever happened.
    """
    progress(f"uploading the agent ({len(bundle.data) // 1024} KiB)")
    archive = f"{home}/agent/.{bundle.name}.{secrets.token_hex(4)}.tar.gz"
    try:
        await remote.upload(archive, bundle.data)
    except (NoSpace, DeployFailed) as error:
        await _clean_up(remote, archive, bundle, error)
        raise
    progress("installing the agent")
    token = _token()
    pipe = await remote.start(install_argv(python, token, archive, bundle, "attach", "--start"))
    preamble = await _Preamble(remote, pipe, token).read()
    if preamble.ready is None:
        raise _failed(remote, preamble, bundle)
    return preamble.ready


def install_argv(python: str, token: str, archive: str, bundle: Bundle, *command: str) -> list[str]:
    """Return the command, as a list of words, that installs an uploaded bundle on a pod. `python`
    is the path of the interpreter there, and `archive` the path of the uploaded file. `token` is a
    text with which the lines of output begin that are meant for the console. `command` are the
    arguments with which the agent is started afterwards, or only "library" to start nothing.
    """
    about = [token, archive, bundle.sha256, bundle.name, f"{bundle.version} {bundle.build}"]
    return [python, "-IS", "-c", installer(), *about, *command]


def installer() -> str:
    """Return the source of installer.py, the program that installs a bundle on a pod, packed into
    one line of Python code without single quotes, so that it fits on a command line.
    """
    packed = zlib.compress((Path(__file__).parent / "installer.py").read_bytes(), 9)
    return (
        "import base64,zlib;"
        f"exec(zlib.decompress(base64.b64decode(b{_double_quoted(base64.b64encode(packed))})))"
    )


async def _clean_up(remote: Remote, archive: str, bundle: Bundle, error: LinkError) -> None:
    """Remove the half-written archive. OpenSSH's SFTP reports a full disk only as "Failure", so
    NoSpace is raised if the room that was left is too small.
    """
    done = await remote.run(["sh", "-c", _CLEAN_UP, "sh", archive, archive.rpartition("/")[0]])
    free = (done.stdout.split() or [b""])[-1]
    full = free.isdigit() and int(free) * 1024 < len(bundle.data)
    if full and isinstance(error, DeployFailed):
        raise no_space(remote.label, bundle, int(free)) from error


InstallFailure = Literal["no-space", "checksum", "unusable"]
"""The failures that the installer on the pod reports by name."""


def _failed(remote: Remote, preamble: _Preamble, bundle: Bundle) -> LinkError:
    """Return the error for the installer's line `failed KIND DETAIL`, or for what it left on
    stderr.
    """
    said = f"error {preamble.last_words}"
    for line in preamble.lines:
        if line.startswith("failed "):
            said = line.removeprefix("failed ")
            break
    kind, _, detail = said.partition(" ")
    if kind == "no-space":
        return NoSpace(
            f"The disk of {remote.label} filled up while the agent was unpacked: {detail}.",
            f"It needs {bundle.unpacked // 1024} KiB: free space in the home directory "
            "there. Nothing was left behind.",
        )
    if kind == "checksum":
        return DeployFailed(
            f"The upload to {remote.label} arrived damaged: {detail}.",
            "Try again; if this stays so, its disk is failing.",
        )
    if kind == "unusable":
        return DeployFailed(
            f"The agent cannot run on {remote.label}: {detail}", "Nothing was left behind."
        )
    return DeployFailed(
        f"The agent could not be installed on {remote.label}: {detail}.",
        "Look at its home directory.",
    )


class _Preamble:
    """Reads a command's output up to our `ready` line or to its end. `ready` is the pipe from the
    next byte on, or None. `took_ahead` is True if the agent has been given the bytes that came with
    the command. `lines` are our lines without the token.

    Without `ready`, `last_words` is the last line of stderr, or the exit status.
    """

    def __init__(
        self,
        remote: Remote,
        pipe: Pipe,
        token: str,
        *,
        started: bool = True,
        ahead: bool = False,
    ) -> None:
        self._remote, self._pipe, self._token, self._started = remote, pipe, token, started
        self._words = ("ready", _TOOK_AHEAD) if ahead else ("ready",)
        self.took_ahead = False
        self.lines: list[str] = []
        self.last_words = ""
        self.ready: Duplex | None = None

    async def read(self) -> _Preamble:
        """Read the output and return this object. The command's pipe is closed unless `ready` came.
        Raises DeployFailed if the login shell prints more than 256 KiB, and NoAgent if no agent
        runs and the key of this login may only look.
        """
        buffer = b""
        seen = 0
        try:
            while data := await self._pipe.read():
                seen += len(data)
                *whole, buffer = (buffer + data).split(b"\n")
                for number, line in enumerate(whole):
                    if (said := self._take(line)) in self._words:
                        self.took_ahead = said == _TOOK_AHEAD
                        self.ready = _Attached(
                            self._remote,
                            self._pipe,
                            b"\n".join([*whole[number + 1 :], buffer]),
                            self._started,
                        )
                        return self
                if seen > _NOISE:
                    raise DeployFailed(
                        f"The shell of {self._remote.label} prints without end at login.",
                        "Look at its .bashrc and .profile.",
                    )
            ending = await self._pipe.ending()
        except BaseException:
            await self._pipe.close()
            raise
        await self._pipe.close()
        if (refused := looking.refusal(self._remote.label, ending)) is not None:
            raise refused
        self.last_words = _last_words(ending)
        return self

    def _take(self, line: bytes) -> str:
        words = printable(line.decode(errors="replace")).strip().split(" ", 1)
        if words[0] != self._token or len(words) < 2:
            return ""
        self.lines.append(words[1])
        return words[1]


class _Attached:
    """The pipe after its preamble, with the interface pods.port.Duplex. A bridge that ends with an
    error gives the reason on stderr.
    """

    def __init__(self, remote: Remote, pipe: Pipe, first: bytes, started: bool) -> None:
        self._remote, self._pipe, self._first, self._started = remote, pipe, first, started

    async def read(self) -> bytes:
        """Return the next bytes from the agent, or b"" if its side closed. Raises ChannelLost if it
        ended with an error, and NoAgent if the installed agent does not run.
        """
        if self._first:
            data, self._first = self._first, b""
            return data
        data = await self._pipe.read()
        if not data:
            ending = await self._pipe.ending()
            if ending.exit_status == _NO_AGENT and not self._started:
                raise _no_agent(self._remote)
            if ending.exit_status != 0:
                raise ChannelLost(
                    f"The agent's side of {self._remote.label} ended: {_last_words(ending)}.",
                    "It is tried again by itself.",
                )
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes to the agent."""
        await self._pipe.write(data)

    async def close(self) -> None:
        """End the command and close the pipe. The connection ends next, so nothing is awaited."""
        await self._pipe.leave()


def _silent(remote: Remote, last_words: str) -> LinkError:
    return DeployFailed(
        f"{remote.label} did not run a command: {last_words}.",
        "The login must be able to run `sh` (no restricted shell, no forced command but that of "
        "`pods key`, which needs an agent of this version).",
    )


def _last_words(ending: Ending) -> str:
    if ending.stderr:
        return printable(ending.stderr.splitlines()[-1]).rstrip(".")
    return f"exit status {ending.exit_status}"


def _token() -> str:
    return f"bs4-{secrets.token_hex(6)}"


def _double_quoted(data: bytes) -> str:
    """Return a Python literal without single quotes, which would have to be quoted again for the
    shell.
    """
    return f'"{data.decode("ascii")}"'
