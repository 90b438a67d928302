"""The host keys of the pods, in our own known_hosts file. They are stored by the pod's name,
because rented addresses are reused by other machines.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from bs4_console import files, locations
from bs4_console.errors import HostKeyChanged, HostKeyUnknown, UsageError
from bs4_console.transport.asyncssh_import import asyncssh

_ENTRY = re.compile(r"[A-Za-z0-9\[][A-Za-z0-9._:\[\]-]*")

#: The host key algorithms that are offered to a server, best first. A pinned type moves to the
#: front. The others stay, so that a machine that lost its pinned key (a changed key) is told apart
#: from a machine that shares no algorithm with us.
_ALGORITHMS = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)
_RSA = ("rsa-sha2-512", "rsa-sha2-256")


def fingerprint(key: str) -> str:
    """Return the fingerprint `SHA256:...` of `key`, the text of a public SSH key, as `ssh-keygen
    -l` prints it. Raises UsageError if the text is not a public key.
    """
    words = key.split()
    try:
        blob = base64.b64decode(words[1], validate=True)
    except (IndexError, ValueError) as error:
        raise UsageError(
            f"{key[:40]!r} is not a public host key.", "Give it as `ssh-ed25519 AAAA...`."
        ) from error
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def key_line(key: asyncssh.SSHKey) -> str:
    """Return the public key `key` as the text `type base64`, without a comment. Trusted host keys
    are saved in this form.
    """
    return " ".join(key.export_public_key("openssh").decode().split()[:2])


class HostKeys:
    """The SSH host keys that are trusted on this machine. They are in a file with one line for each
    key, `<entry> <type> <base64>`. The entry is the pod's name, or `host` or `[host]:port` for a
    jump host.

    OpenSSH can read the same file: `ssh -o UserKnownHostsFile=FILE -o HostKeyAlias=POD host`.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or locations.data_dir() / "known_hosts"

    def pinned(self, entry: str) -> tuple[str, ...]:
        """Return the trusted keys of `entry`, a pod's name or the `host` or `[host]:port` of a jump
        host, each as `type base64`, oldest first. The tuple is empty if no key is trusted yet.
        """
        return tuple(f"{kind} {blob}" for name, kind, blob in self._lines() if name == entry)

    def pin(self, entry: str, key: str) -> None:
        """Save `key` as the only trusted key of `entry`, a pod's name or the `host` or
        `[host]:port` of a jump host. The key is a text `type base64 [comment]` that a person has
        accepted or that a provider or the console's list of pods has given.

        Raises HostKeyChanged if another key is trusted for the entry; call `forget` first to
        replace it. Raises UsageError if the text is not a public key.
        """
        kind, blob = _parse(key)
        if not _ENTRY.fullmatch(entry):
            raise UsageError(f"{entry!r} cannot name a pod in {self.path}.", "Use the pod's name.")
        with files.exclusive(self.path):
            known = self.pinned(entry)
            if f"{kind} {blob}" in known:
                return
            if known:
                raise self._changed(entry, known, key, False)
            self._write([*self._lines(), (entry, kind, blob)])

    def forget(self, entry: str) -> bool:
        """Delete the trusted keys of `entry` (a pod's name, or the `host` or `[host]:port` of a
        jump host), for example after a pod was removed from the console. Return True if there were
        any, else False.
        """
        with files.exclusive(self.path):
            lines = self._lines()
            kept = [line for line in lines if line[0] != entry]
            if len(kept) == len(lines):
                return False
            self._write(kept)
            return True

    def trusted(self, entry: str) -> list[asyncssh.SSHKey]:
        """Return the trusted keys of `entry` (a pod's name, or the `host` or `[host]:port` of a
        jump host) as asyncssh objects, or an empty list if no key is trusted yet.
        """
        return list(map(asyncssh.import_public_key, self.pinned(entry)))

    def algorithms(self, entry: str) -> list[str]:
        """Return the host key algorithms to request from a server, in order. `entry` is a pod's
        name, or the `host` or `[host]:port` of a jump host. The algorithms of its trusted key come
        first, because a trusted ed25519 key can be compared only with the server's ed25519 key.
        """
        first: list[str] = []
        for key in self.pinned(entry):
            algorithm = key.split()[0]
            first += _RSA if algorithm == "ssh-rsa" else (algorithm,)
        return list(dict.fromkeys((*first, *_ALGORITHMS)))

    def verdict(
        self, entry: str, shown: asyncssh.SSHKey, *, jump: bool = False
    ) -> HostKeyUnknown | HostKeyChanged:
        """Make the error that tells a person why the host key `shown` of a server was not accepted,
        and return it (it is not raised): HostKeyUnknown if no key is trusted for `entry` yet, or
        HostKeyChanged if another key is trusted. `entry` is a pod's name or, with `jump`, the
        `host` or `[host]:port` of a jump host.
        """
        line = key_line(shown)
        known = self.pinned(entry)
        if known:
            return self._changed(entry, known, line, jump)
        mark = fingerprint(line)
        return HostKeyUnknown(
            f"The host key of {entry} is not known yet: {line.split()[0]} {mark}.",
            "Compare it with the pod's own (the provider's page, or `ssh-keygen -lf "
            "/etc/ssh/ssh_host_ed25519_key.pub` there), then confirm it.",
            mark,
            line,
            entry,
        )

    def _changed(self, entry: str, known: Sequence[str], shown: str, jump: bool) -> HostKeyChanged:
        expected, actual = ", ".join(fingerprint(key) for key in known), fingerprint(shown)
        anew = f"`bs4-console pods remove {entry}`, then `pods add {entry} ...`"
        rotate = (
            " If the pod is lost to somebody, rotate its keys: "
            f"`bs4-console pods show {entry}` names them."
        )
        if jump:
            anew = f"remove the line of {entry} from {self.path}"
            rotate = ""
        return HostKeyChanged(
            f"{entry} shows another host key than the pinned one: expected {expected}, got "
            f"{actual}. Nothing was sent: it may be another machine on the same address, or "
            "someone in between.",
            f"Ask the provider whether it was made anew; only if so: {anew}.{rotate}",
            expected,
            actual,
        )

    def _lines(self) -> list[tuple[str, str, str]]:
        try:
            text = self.path.read_text()
        except FileNotFoundError:
            return []
        lines = []
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if len(words) < 3:
                raise UsageError(
                    f"{self.path} line {number} is no known_hosts entry.", "Remove that line."
                )
            lines.append((words[0], *_parse(" ".join(words[1:3]))))
        return lines

    def _write(self, lines: Sequence[tuple[str, str, str]]) -> None:
        files.replace(self.path, "".join(" ".join(line) + "\n" for line in lines).encode())


def _parse(key: str) -> tuple[str, str]:
    fingerprint(key)
    try:
        asyncssh.import_public_key(key)
    except asyncssh.KeyImportError as error:
        raise UsageError(
            f"{key[:40]!r} is not a public host key: {error}.", "Give it as `ssh-ed25519 AAAA...`."
        ) from error
    kind, blob = key.split()[:2]
    return kind, blob
