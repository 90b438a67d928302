"""What all real OpenSSH test servers share: their configuration, and how one waits until they
answer.
"""

from __future__ import annotations

import shutil
import socket
import time
from pathlib import Path

from tests.support.pod import NotHere, Options


def binary() -> str:
    found = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")
    if found is None:
        raise NotHere("no sshd on this machine (install openssh-server)")
    return found


def sftp_server() -> str:
    """The external program (a plain sshd's ForceCommand cannot run internal-sftp with another
    home).
    """
    for place in ("/usr/lib/openssh", "/usr/libexec/openssh", "/usr/lib/ssh", "/usr/libexec"):
        if (Path(place) / "sftp-server").exists():
            return f"{place}/sftp-server"
    raise NotHere("no sftp-server on this machine (install openssh-sftp-server)")


def config(directory: Path, port: int, options: Options, *extra: str) -> str:
    """sshd_config for a server whose keys lie in `directory` (as the server sees it)."""
    lines = [
        f"Port {port}",
        f"HostKey {directory}/host_key",
        f"HostKey {directory}/host_key_ecdsa",
        f"AuthorizedKeysFile {directory}/authorized_keys",
        f"TrustedUserCAKeys {directory}/ca.pub",
        "PidFile none",
        "UsePAM no",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PermitRootLogin prohibit-password",
        "StrictModes no",
        # Every command of ours starts a login: the default 10:30:100 would drop some when tests
        # connect in parallel.
        "MaxStartups 100",
        f"MaxSessions {options.max_sessions}",
        *(["Subsystem sftp internal-sftp"] if options.sftp else []),
        *extra,
        *options.sshd,
    ]
    return "\n".join(lines) + "\n"


def wait_for_banner(address: str, port: int, log: Path, *, timeout: float = 60.0) -> None:
    """Return when the server greets; NotHere, with the end of its log, when it does not.

    The log is awaited first: a packet sent before the pod's card is up is repeated only after a
    second.
    """
    deadline = time.monotonic() + timeout
    while b"Server listening" not in log.read_bytes() and time.monotonic() < deadline:
        time.sleep(0.005)
    while time.monotonic() < deadline:
        try:
            with socket.create_connection((address, port), timeout=0.5) as connection:
                connection.settimeout(10.0)  # a server that has taken the connection is only slow
                if connection.recv(4) == b"SSH-":
                    return
        except OSError:
            pass
        time.sleep(0.01)
    tail = log.read_text(errors="replace")[-400:] if log.exists() else ""
    raise NotHere(f"no SSH server came up on {address}:{port} within {timeout:g} s: {tail.strip()}")
