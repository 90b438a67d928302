"""Which keys a login is tried with: the pod's own, those of ~/.ssh/config, the default files, and
what the ssh-agent holds.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh

from bs4_console.errors import KeyUnusable
from bs4_console.transport.route import Hop

#: Asks a person for the passphrase of a key file; None = nobody can be asked, or they declined. May
#: be async (a dialog of the screen).
Ask = Callable[[str], "str | Awaitable[str | None] | None"]

# OpenSSH's default identities, in its order.
_DEFAULTS = ("id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk")


class Passphrases:
    """Asks once per key file and keeps the answer in memory: a reconnect at night has nobody to
    ask.
    """

    def __init__(self, ask: Ask | None = None) -> None:
        self._ask = ask
        self._known: dict[str, str] = {}

    async def get(self, file: str) -> str | None:
        if file not in self._known and self._ask is not None:
            answer = self._ask(file)
            if inspect.isawaitable(answer):
                answer = await answer
            if answer is None:
                return None
            self._known[file] = answer
        return self._known.get(file)

    def wrong(self, file: str) -> None:
        self._known.pop(file, None)


@dataclass
class Keys:
    """What a login offers, in order, and each key's name for a person. `close` hangs up on the
    ssh-agent.
    """

    pairs: list[asyncssh.SSHKeyPair] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    agent: asyncssh.SSHAgentClient | None = None

    def add(self, pair: asyncssh.SSHKeyPair, name: str) -> None:
        self.pairs.append(pair)
        self.names.append(f"{name} (certificate)" if b"-cert-" in pair.algorithm else name)

    async def close(self) -> None:
        if self.agent is not None:
            self.agent.close()
            await self.agent.wait_closed()


async def gather(hop: Hop, passphrases: Passphrases) -> Keys:
    """The keys for one hop, passphrases asked for before the connection is made (its timeouts do
    not wait for a person).

    Keys named for the pod come first and must be usable: KeyUnusable when one is missing, no key,
    or its passphrase cannot be had. Others that cannot be read are skipped, as ssh does. A key that
    the agent holds is never decrypted here.
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
    """What the agent holds, by public key; nothing when there is no agent or it does not answer
    (noted, not an error).
    """
    if hop.agent_path is None:
        path = os.environ.get("SSH_AUTH_SOCK", "")
    else:
        path = hop.agent_path
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
    # A key that merely lies in its default place is not worth a question while others can be tried.
    may_ask = bool(hop.identities) or not (keys.pairs or held)
    try:
        for pair in await _load(file, hop, passphrases if may_ask else Passphrases()):
            keys.add(pair, file)
    except KeyUnusable as error:
        if hop.required or (may_ask and hop.identities):
            raise
        keys.skipped.append(error.message)


async def _load(file: str, hop: Hop, passphrases: Passphrases) -> list[asyncssh.SSHKeyPair]:
    """The pairs of one private key file: with its certificate first (FILE-cert.pub or
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
            # The only way to tell "encrypted" from "no key": asyncssh has one class for both.
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
    """The public key of a private key file: beside it, or the file itself is public (then the agent
    holds the private half).
    """
    for candidate in (f"{file}.pub", file):
        try:
            return asyncssh.read_public_key(candidate).public_data
        except (OSError, asyncssh.KeyImportError):
            continue
    return None


def _comment(pair: asyncssh.SSHKeyPair) -> str:
    return pair.get_comment() or pair.get_algorithm()
