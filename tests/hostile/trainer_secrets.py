"""Secrets that a trainer prints: by name, the line and the part of it that must be nowhere."""

from __future__ import annotations

from collections.abc import Mapping

_TAIL = "cAnAry0123456789abcdefghij"
_HUB = "hf_" + _TAIL + "ABCDEFGH"
_GITHUB = "ghp_" + _TAIL + "ABCDEFGHIJ"
_AWS = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYcAnAryKEY0"
_WANDB = "0123456789abcdef0123456789abcdef01234567"
_JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0." + _TAIL

PRINTED: Mapping[str, tuple[str, str]] = {
    "hub": (f"logging in with {_HUB}", _HUB),
    "wandb": (f"WANDB_API_KEY={_WANDB}", _WANDB),
    "aws": (f"aws_secret_access_key = {_AWS}", _AWS),
    "b2": (f"using K001{_TAIL}A as key", f"K001{_TAIL}A"),
    "github": (f"git clone https://{_GITHUB}@github.com/x", _GITHUB),
    "bearer": (f"Authorization: Bearer {_TAIL}", _TAIL),
    "url": ("GET https://user:hunter2secret@host/x", "hunter2secret"),
    "jwt": (f"cookie {_JWT}", _JWT[-20:]),
    "password": ("db password=correct-horse-7", "correct-horse-7"),
}
TEXT = "\n".join(
    [
        *(line for line, _ in PRINTED.values()),
        "-----BEGIN PRIVATE KEY-----\nMIIEcAnAry+/aaaa\n-----END PRIVATE KEY-----\nstep 4",
    ]
)
