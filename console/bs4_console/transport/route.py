"""The way to a pod: what ~/.ssh/config says about it, and the jump hosts before it. Nothing is
connected here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bs4_console.errors import UsageError
from bs4_console.pods import ssh_aliases
from bs4_console.pods.inventory import Pod
from bs4_console.transport.asyncssh_import import asyncssh

# A ProxyJump may name a host that has a ProxyJump itself. A loop in the file must end.
_MAX_HOPS = 8
_OR_WITHOUT = "Correct it, or set ssh_config = false for the pod."


@dataclass(frozen=True, kw_only=True)
class Hop:
    """One SSH server to log in to on the way to a pod: a jump host, if `jump` is True, or the pod
    itself. `entry` is its name in the console's file of trusted host keys, and `label` its name in
    messages.

    `host`, `port` and `user` come from the inventory of pods or from a ProxyJump setting.
    `address`, `at` and `login` are the address, the port and the user that the SSH config file
    makes of these three. `identities` are the paths of private key files, and `certificates` those
    of their certificates. `required` is True if the person named these files for this pod, so that
    each must be usable. `identities_only` is True if the config forbids other keys. `proxy_command`
    is the command, as words, through which the server is reached, or None.
    """

    entry: str
    label: str
    jump: bool
    host: str
    port: int | None
    user: str | None
    address: str
    at: int
    login: str
    identities: tuple[str, ...]
    required: bool
    certificates: tuple[str, ...]
    identities_only: bool
    agent_path: str | None
    """The socket of the ssh-agent that the config names, "" if it forbids one, or None if it says
    nothing.
    """
    proxy_command: Sequence[str] | None
    sets_ciphers: bool
    """True if the config says which ciphers to use."""
    config: tuple[Path, ...]
    """The SSH config files that are read; empty if none is."""


def route(pod: Pod, config: Path | None = None) -> tuple[Hop, ...]:
    """Return the SSH servers to log in to on the way to `pod`, in order: the jump hosts, then the
    pod itself.

    `config` is the SSH config file to read in place of ~/.ssh/config. Reading it may run programs
    (`Match exec`), so call this in a thread. Raises UsageError if the config has a mistake.
    """
    path = config or ssh_aliases.default_path()
    paths = (path,) if pod.ssh_config and path.is_file() else ()
    options = _resolve(pod.host, pod.port, pod.user, paths, f"pod {pod.name}")
    identities = _expanded((pod.identity_file,)) if pod.identity_file else ()
    jump = pod.jump or (options.tunnel if isinstance(options.tunnel, str) else "")
    before = _jumps(jump, paths, identities, 0) if jump and jump.lower() != "none" else ()
    target = _hop(
        options,
        pod.name,
        f"pod {pod.name}",
        False,
        pod.host,
        pod.port,
        pod.user,
        identities,
        paths,
        direct=not before,
    )
    return (*before, target)


def _jumps(
    jump: str, paths: tuple[Path, ...], identities: tuple[str, ...], depth: int
) -> tuple[Hop, ...]:
    if depth > _MAX_HOPS:
        raise UsageError(
            f"More than {_MAX_HOPS} jump hosts lead to each other.",
            "Look for a ProxyJump in ~/.ssh/config that leads back to itself.",
        )
    hops: tuple[Hop, ...] = ()
    for number, word in enumerate(jump.split(",")):
        user, host, port = _parse(word.strip())
        label = f"jump host {host}"
        options = _resolve(host, port, user, paths, label)
        if number == 0 and isinstance(options.tunnel, str) and options.tunnel:
            hops = _jumps(options.tunnel, paths, identities, depth + 1)
        entry = options.host
        if options.port != 22:
            entry = f"[{options.host}]:{options.port}"
        hops += (
            _hop(options, entry, label, True, host, port, user, identities, paths, direct=not hops),
        )
    return hops


def _hop(
    options: asyncssh.SSHClientConnectionOptions,
    entry: str,
    label: str,
    jump: bool,
    host: str,
    port: int | None,
    user: str | None,
    identities: tuple[str, ...],
    paths: tuple[Path, ...],
    *,
    direct: bool,
) -> Hop:
    configured: Any = options.config.get("IdentityFile", ())
    # The key of a pod also opens its jump hosts, unless the config names another key for them.
    # (Plain ssh would need a config for that.)
    named = identities if identities and not (jump and configured) else ()
    agent: Any = options.config.get("IdentityAgent", ())
    certificates: Any = options.config.get("CertificateFile", ())
    return Hop(
        entry=entry,
        label=label,
        jump=jump,
        host=host,
        port=port,
        user=user,
        address=options.host,
        at=options.port,
        login=options.username,
        identities=named or _expanded(configured),
        required=bool(named),
        certificates=_expanded(certificates),
        identities_only=bool(options.config.get("IdentitiesOnly")),
        agent_path=str(Path(agent).expanduser())
        if isinstance(agent, str)
        else (None if agent == () else ""),
        proxy_command=_words(options.proxy_command) if direct else None,
        sets_ciphers=options.config.get("Ciphers") is not None,
        config=paths,
    )


def _expanded(names: Iterable[str]) -> tuple[str, ...]:
    """Return the paths with `~` replaced by the home directory."""
    return tuple(str(Path(name).expanduser()) for name in names)


def _words(proxy_command: Any) -> Sequence[str] | None:
    if not proxy_command:
        return None
    if isinstance(proxy_command, str):
        return [proxy_command]
    return list(proxy_command)


def _resolve(
    host: str, port: int | None, user: str | None, paths: tuple[Path, ...], label: str
) -> asyncssh.SSHClientConnectionOptions:
    """Return what asyncssh makes of the config for `host`. No key is read (client_keys=None)."""
    said: dict[str, Any] = {"port": port, "username": user}
    try:
        return asyncssh.SSHClientConnectionOptions(
            config=list(paths),
            host=host,
            known_hosts=([], [], []),
            client_keys=None,
            **{key: value for key, value in said.items() if value is not None},
        )
    except asyncssh.config.ConfigParseError as error:
        raise UsageError(f"The ssh config for {label} is wrong: {error}.", _OR_WITHOUT) from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"The ssh config for {label} cannot be read: {error}.", _OR_WITHOUT
        ) from error
    except asyncssh.IllegalUserName as error:
        raise UsageError(
            f"The user name for {label} is not allowed: {error}.", "Set `user` for the pod."
        ) from error
    except ValueError as error:
        raise UsageError(
            f"The ssh settings for {label} do not work: {error}.",
            "Set `host`, `port` and `user` for the pod.",
        ) from error


def _parse(word: str) -> tuple[str | None, str, int | None]:
    """Return user, host and port of `[user@]host[:port]`; IPv6 addresses are in brackets. Missing
    parts are None. Raises UsageError if the text has another form.
    """
    user, at, rest = word.rpartition("@")
    host, port = rest, ""
    if rest.startswith("["):
        host, _, tail = rest[1:].partition("]")
        port = tail.removeprefix(":")
    elif rest.count(":") == 1:
        host, _, port = rest.partition(":")
    if not host or (port and not port.isdigit()):
        raise UsageError(f"{word!r} is not a jump host.", "Write [user@]host[:port].")
    return (user if at else None), host, (int(port) if port else None)
