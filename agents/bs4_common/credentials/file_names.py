"""How files with secrets are told: by the names that tools give them, and by how a key begins."""

from __future__ import annotations

import re

#: Directories whose files are keys and passwords, wherever they lie.
SECRET_DIRECTORIES = frozenset(
    {".ssh", ".gnupg", ".aws", ".azure", ".gcloud", ".kube", ".docker", ".password-store"}
)
#: Names that tools give to files with a password, a key or a token in them (netrc, ssh, git,
#: Hugging Face, pip, npm, Kaggle, b2, sudo).
SECRET_NAMES = re.compile(
    r"\.?_?netrc|\.?token|stored_tokens|.*[._-]tokens?|id_(rsa|dsa|ecdsa|ed25519)(_sk)?|"
    r"ssh_host_.*_key|authorized_keys|\.git-credentials"
    r"|\.?credentials?(\..*)?|.*\.(pem|key|p12|pfx|jks|kdbx|keytab)|\.env(\..*)?|\.?pypirc|"
    r"\.npmrc|kaggle\.json|.*b2_account_info"
    r"|g?shadow-?|sudoers|hosts\.yml|\.htpasswd|\.pgpass|\.my\.cnf|.*secrets?(\..*)?|.*api[_-]?"
    r"keys?(\..*)?|.*passwords?(\..*)?",
    re.IGNORECASE,
)
_PRIVATE_KEY = re.compile(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY")
#: Bytes at a file's start that are searched for a private key.
HEAD_BYTES = 256


def secret_name(name: str) -> bool:
    """Return True if a file or directory with this name, which is no path, usually holds
    credentials, such as `.env`, `id_ed25519`, `server.pem` or the directory `.ssh`.
    """
    return name in SECRET_DIRECTORIES or SECRET_NAMES.fullmatch(name) is not None


def private_key(head: bytes) -> bool:
    """Return True if `head`, the first HEAD_BYTES (256) bytes of a file, begins a private key."""
    return _PRIVATE_KEY.search(head) is not None
