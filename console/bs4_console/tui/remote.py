"""Finds out if the terminal is at the other end of a link, because less is painted then."""

from __future__ import annotations

import os


def remote() -> bool:
    """Return True if the person's terminal is at the other end of an SSH link, so that the console
    should paint less. If the environment variable BS4_REMOTE is 1 (yes) or 0 (no), it decides
    instead.
    """
    forced = os.environ.get("BS4_REMOTE", "")
    if forced in ("0", "1"):
        return forced == "1"
    return "SSH_CONNECTION" in os.environ or "SSH_TTY" in os.environ
