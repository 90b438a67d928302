"""Finds out if the terminal is at the other end of a link, because less is painted then."""

from __future__ import annotations

import os


def remote() -> bool:
    """Return True if the terminal is at the other end of an SSH link. `BS4_REMOTE=1` or `0` in the
    environment overrides that.
    """
    forced = os.environ.get("BS4_REMOTE", "")
    if forced in ("0", "1"):
        return forced == "1"
    return "SSH_CONNECTION" in os.environ or "SSH_TTY" in os.environ
