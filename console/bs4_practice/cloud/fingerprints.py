"""SHA256 fingerprints of public keys, as ssh-keygen -l prints them."""

from __future__ import annotations

import base64
import hashlib


def fingerprint(key: str) -> str:
    blob = base64.b64decode(key.split()[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
