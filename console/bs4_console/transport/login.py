"""The keys that a login is tried with: the pod's own key, those in ~/.ssh/config, the default
files, and those that the ssh-agent holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from bs4_console.errors import KeyUnusable
from bs4_console.transport.asyncssh_import import asyncssh
from bs4_console.transport.route import Hop

#: Asks a person for the passphrase of a key file. The answer None means that nobody can be asked or
#: the person declined. The function may be async (a dialog of the screen).
Ask = Callable[[str], "str | Awaitable[str | None] | None"]

# OpenSSH's default key files, in its order.
_DEFAULTS = ("id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk")


class Passphrases:
    """Asks a person once for the passphrase of each SSH key file and remembers it in memory, so
    that a connection can be made again later without the person.
    """

    def __init__(self, ask: Ask | None = None) -> None:
        self._ask = ask
        self._known: dict[str, str] = {}

    async def get(self, file: str) -> str | None:
        """Return the passphrase of the key file `file`. If it is not known yet, a person is asked
        for it. Return None if nobody can be asked or the person declined.
        """
        if file not in self._known and self._ask is not None:
            answer = self._ask(file)
            if inspect.isawaitable(answer):
                answer = await answer
            if answer is None:
                return None
            self._known[file] = answer
        return self._known.get(file)

    def wrong(self, file: str) -> None:
        """Forget the passphrase of the key file `file`, because it did not fit, so that `get` asks
        for it again.
        """
        self._known.pop(file, None)


@dataclass
class Keys:
    """The private keys that a login offers to an SSH server (`pairs`), in order. `names` describes
    each of them for a person. `skipped` has a sentence for each key that could not be used. `agent`
    is the connection to the ssh-agent (the program that holds keys), or None.
    """

    pairs: list[asyncssh.SSHKeyPair] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    agent: asyncssh.SSHAgentClient | None = None

    def add(self, pair: asyncssh.SSHKeyPair, name: str) -> None:
        """Append the key `pair` to those that are offered. `name` describes it for a person; it may
        be the name of its file.
        """
        self.pairs.append(pair)
        self.names.append(f"{name} (certificate)" if b"-cert-" in pair.algorithm else name)

    async def close(self) -> None:
        """Close the connection to the ssh-agent, if there is one."""
        if self.agent is not None:
            self.agent.close()
            await self.agent.wait_closed()


async def gather(hop: Hop, passphrases: Passphrases) -> Keys:
    """Return the keys to offer to the SSH server `hop`. A person is asked for their passphrases
    now, before the connection is made, because its time limits do not wait for a person.

    Raises KeyUnusable if a key file that was named for this pod is missing, is not a key, or needs
    a passphrase that nobody gave. Other keys that cannot be read are skipped, as ssh does. For a
    key that the ssh-agent holds no passphrase is needed.
    """
    keys = Keys()
    held = await _agent_keys(keys, hop)
    files = hop.identities or tuple(str(Path("~/.ssh", name).expanduser()) for name in _DEFAULTS)
    try:
        for file in files:
            await _add_file(keys, file, hop, held, passphrases)
    except KeyUnusable:
        await keys.close()
        raise
    if not hop.required and not hop.identities_only:
        for pair in held.values():
            if pair not in keys.pairs:
                keys.add(pair, f"ssh-agent: {_comment(pair)}")
    return keys


async def _agent_keys(keys: Keys, hop: Hop) -> dict[bytes, asyncssh.SSHKeyPair]:
    """Return the keys that the ssh-agent holds, by public key. Empty if there is no agent. An agent
    that does not answer is noted in `keys.skipped` and is not an error.
    """
    path = hop.agent_path
    if path is None:
        path = os.environ.get("SSH_AUTH_SOCK", "")
    if not path:
        return {}
    try:
        keys.agent = await asyncssh.connect_agent(path)
        return {pair.public_data: pair for pair in await keys.agent.get_keys()}
    except (OSError, ValueError) as error:
        keys.skipped.append(f"the ssh-agent at {path} does not answer ({error})")
        return {}


async def _add_file(
    keys: Keys,
    file: str,
    hop: Hop,
    held: dict[bytes, asyncssh.SSHKeyPair],
    passphrases: Passphrases,
) -> None:
    public = _public_half(file)
    for pair in held.values():
        if public is not None and public in (pair.public_data, pair.key_public_data):
            keys.add(pair, f"ssh-agent: {_comment(pair)}")
            return
    if not Path(file).exists():
        if hop.required:
            raise KeyUnusable(
                f"The key file {file} does not exist.", "Give the right one with `--identity FILE`."
            )
        return
    # For a key in a default place nobody is asked while other keys can be tried.
    may_ask = bool(hop.identities) or not (keys.pairs or held)
    try:
        for pair in await _load(file, hop, passphrases if may_ask else Passphrases()):
            keys.add(pair, file)
    except KeyUnusable as error:
        if hop.required or (may_ask and hop.identities):
            raise
        keys.skipped.append(error.message)


async def _load(file: str, hop: Hop, passphrases: Passphrases) -> list[asyncssh.SSHKeyPair]:
    """Return the pairs of one private key file: with its certificate first (FILE-cert.pub or
    CertificateFile), then without.
    """
    passphrase: str | None = None
    certificates = []
    for name in hop.certificates:
        if Path(name).exists():
            certificates.append(name)
    for attempt in range(2):
        try:
            return list(
                await asyncio.to_thread(asyncssh.load_keypairs, file, passphrase, certificates)
            )
        except asyncssh.KeyEncryptionError as error:
            passphrases.wrong(file)
            raise KeyUnusable(
                f"The passphrase for {file} is wrong.",
                "Try again, or add the key to the ssh-agent: `ssh-add`.",
            ) from error
        except asyncssh.KeyImportError as error:
            # asyncssh has one class for "encrypted" and "not a key". The text tells them apart.
            if attempt or "assphrase" not in str(error):
                raise KeyUnusable(
                    f"{file} is not a usable private key: {error}.",
                    "Give another with `--identity FILE`.",
                ) from error
        except OSError as error:
            raise KeyUnusable(
                f"The key file {file} cannot be read: {error.strerror}.",
                "Correct its mode, or give another.",
            ) from error
        passphrase = await passphrases.get(file)
        if passphrase is None:
            raise KeyUnusable(
                f"The key {file} is encrypted and nobody can be asked for its passphrase.",
                f"Run `ssh-add {file}` first.",
            )
    raise AssertionError("unreachable: the second attempt returns or raises")


def _public_half(file: str) -> bytes | None:
    """Return the public key that belongs to a private key file, or None. It is in the file beside
    it, or the file itself is public and the ssh-agent holds the private key.
    """
    for candidate in (f"{file}.pub", file):
        with contextlib.suppress(OSError, asyncssh.KeyImportError):
            return asyncssh.read_public_key(candidate).public_data
    return None


def _comment(pair: asyncssh.SSHKeyPair) -> str:
    return pair.get_comment() or pair.get_algorithm()
