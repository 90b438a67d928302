"""Turns the errors of asyncssh and the operating system into ours: one sentence each, with the next
thing to do.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Sequence

from bs4_console.errors import (
    AuthFailed,
    ChannelLost,
    ConnectionRefused,
    ConsoleError,
    KeyUnusable,
    LinkError,
    SessionRefused,
    Unreachable,
)
from bs4_console.transport.asyncssh_import import asyncssh
from bs4_console.transport.remote import printable
from bs4_console.transport.route import Hop

_NO_ROUTE = {
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
    errno.EHOSTDOWN,
    errno.ENETDOWN,
    errno.EADDRNOTAVAIL,
}


def connecting(
    error: Exception, hop: Hop, *, greeted: bool, tried: Sequence[str], via: Hop | None
) -> ConsoleError:
    """Return the error that tells a person why there is no connection to the server `hop`. It is
    returned and not raised. `error` is what asyncssh raised while connecting. `greeted` is True if
    the server answered with an SSH greeting. `tried` names, for a person, each key that was
    offered. `via` is the jump host before this server, or None.
    """
    where = f"{hop.label} ({hop.address} port {hop.at})"
    said = printable(str(error)).rstrip(".")
    match error:
        case ConsoleError():
            return error
        case asyncssh.PermissionDenied():
            return denied(hop, tried)
        case asyncssh.KeyImportError() | asyncssh.KeyEncryptionError():
            return KeyUnusable(
                f"A key for {where} cannot be used: {said}.",
                "Try `ssh-add FILE`, or another key with `--identity FILE`.",
            )
        case asyncssh.ChannelOpenError() if via is not None:
            return Unreachable(
                f"{via.label} could not reach {where}: {said}.",
                f"Check that address as {via.label} sees it.",
            )
        case asyncssh.KeyExchangeFailed():
            return LinkError(
                f"{where} shares no SSH algorithm with this console: {said}.",
                "Bring the pod's OpenSSH to 7.4 or newer.",
            )
        case asyncssh.ProtocolNotSupported() | asyncssh.ProtocolError() if not greeted:
            return LinkError(
                f"{where} is not an SSH server: {said}.",
                "Check the port: the provider's page shows the one for SSH.",
            )
        case asyncssh.ConnectionLost() | asyncssh.DisconnectError() if greeted:
            return _broken_login(said, hop, where, tried)
        case asyncssh.ConnectionLost() | BrokenPipeError() | ConnectionResetError() if (
            hop.proxy_command
        ):
            return Unreachable(
                f"The ProxyCommand for {where} ended without a connection.",
                f"Run it by hand: {' '.join(hop.proxy_command)}",
            )
        case asyncssh.DisconnectError() | ConnectionResetError() | BrokenPipeError():
            return Unreachable(
                f"{where} took the connection and gave no SSH greeting: {said}.",
                "If this stays so, check the port: the provider's page shows the one for SSH.",
            )
        case socket.gaierror():
            return Unreachable(
                f"No address is known for {hop.address} ({hop.label}).",
                "Check the name, or this machine's network.",
            )
        case ConnectionRefusedError():
            return ConnectionRefused(
                f"{where} refuses connections.",
                "Check the port, and that the pod has started its SSH server.",
            )
        case FileNotFoundError() if hop.proxy_command:
            return LinkError(
                f"The ProxyCommand for {where} does not exist: {hop.proxy_command[0]}.",
                "Correct it in ~/.ssh/config.",
            )
        case OSError() if error.errno in _NO_ROUTE:
            return Unreachable(
                f"There is no way to {where}: {_why(error)}.",
                "Check this machine's network or VPN, and the pod's address.",
            )
        case OSError():
            return Unreachable(
                f"{where} cannot be reached: {_why(error)}.",
                "Check that the pod runs, and its address.",
            )
        case _:
            return LinkError(
                f"{where} cannot be used: {said}.",
                "Try `ssh -v` to the same address; if that works, report this.",
            )


def _why(error: OSError) -> str:
    """Return the system's words for an error. asyncio has its own, "Connect call failed (…)"."""
    return os.strerror(error.errno) if error.errno else str(error)


def no_answer(hop: Hop, seconds: float) -> Unreachable:
    """Return the error for a server `hop` that did not answer within `seconds`. It is returned and
    not raised.
    """
    return Unreachable(
        f"{hop.label} ({hop.address} port {hop.at}) did not answer within {seconds:g} s.",
        "Check that the pod runs, and its address.",
    )


def denied(hop: Hop, tried: Sequence[str]) -> AuthFailed:
    """Return the error for a server `hop` that refused the login. It is returned and not raised.
    `tried` has a name for a person, such as its file, of each key that was offered.
    """
    keys = ", ".join(tried) or "none: there is no key in ~/.ssh and none in an ssh-agent"
    return AuthFailed(
        f"{hop.label} refused user {hop.login} (keys tried: {keys}).",
        "Add the public half of one to ~/.ssh/authorized_keys there, or name the right key or "
        "user: `bs4-console pods add --identity FILE --user NAME`.",
    )


def lost(label: str, error: BaseException | None) -> ChannelLost:
    """Return the error for a connection that ended while it was in use. It is returned and not
    raised. `label` names the machine in the message, and `error` is the exception that ended the
    connection (None: unknown). The runs on the pod may still be alive.
    """
    detail = ""
    if error is not None and str(error):
        detail = f": {printable(str(error))}"
    return ChannelLost(
        f"The connection to {label} was lost{detail}.",
        "It is tried again by itself; what runs there goes on.",
    )


def no_session(label: str, error: asyncssh.ChannelOpenError) -> SessionRefused:
    """Return the error for an SSH server that refused to open another session on a connection that
    is already open. It is returned and not raised. `label` names the machine in the message, and
    `error` is what asyncssh raised.
    """
    return SessionRefused(
        f"{label} refuses a further SSH session: {printable(error.reason)}.",
        "Close other sessions to it, or raise MaxSessions in its sshd_config.",
    )


def _broken_login(reason: str, hop: Hop, where: str, tried: Sequence[str]) -> ConsoleError:
    if "oo many authentication failures" in reason:
        return AuthFailed(
            f"{where} stopped the login after too many keys ({', '.join(tried)}).",
            "Name the right one: `bs4-console pods add --identity FILE`.",
        )
    return Unreachable(
        f"{where} broke off the login: {reason}.",
        "Try again; if this stays so, look into the pod's sshd log.",
    )
