"""Keys and certificates for test pods, made with asyncssh so that no ssh-keygen is needed."""

from __future__ import annotations

from pathlib import Path

import asyncssh


def private_key(
    path: Path, *, algorithm: str = "ssh-ed25519", passphrase: str | None = None, pem: bool = False
) -> Path:
    """A new key pair at `path` and `path`.pub; the private half 0600."""
    key = asyncssh.generate_private_key(algorithm, comment=path.name)
    path.touch(mode=0o600)
    # 1 bcrypt round instead of 128: the test is about being asked, not about brute force.
    key.write_private_key(
        str(path),
        "pkcs8-pem" if pem else "openssh",
        passphrase,
        **({} if pem or not passphrase else {"rounds": 1, "ignore_few_rounds": True}),
    )
    key.write_public_key(str(path) + ".pub")
    return path


def public_line(path: Path) -> str:
    """`type base64` of the public half of `path`."""
    return " ".join(Path(f"{path}.pub").read_text().split()[:2])


def host_keys(directory: Path) -> tuple[str, str]:
    """Two host keys as files `host_key` (ed25519) and `host_key_ecdsa`; their public lines."""
    second = private_key(directory / "host_key_ecdsa", algorithm="ecdsa-sha2-nistp256")
    return public_line(private_key(directory / "host_key")), public_line(second)


def certify(ca: Path, key: Path, user: str) -> Path:
    """A user certificate for `key`, signed by `ca`, valid for `user`; at `key`-cert.pub."""
    certificate = asyncssh.read_private_key(str(ca)).generate_user_certificate(
        asyncssh.read_public_key(f"{key}.pub"), key_id=key.name, principals=[user]
    )
    target = Path(f"{key}-cert.pub")
    certificate.write_certificate(str(target))
    return target
