"""SHA256 fingerprints of public keys, as ssh-keygen -l prints them."""

from __future__ import annotations

import base64
import hashlib


def fingerprint(key: str) -> str:
    """Return the SHA256 fingerprint of a public key (`type base64 comment`), as `ssh-keygen -l`
    prints it.
    """
    blob = base64.b64decode(key.split()[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
