"""What the run sees of W&B: a key or none, a server or none, and the files of an offline run.

BS4_MINIATURE_WANDB is the address behind the API's name on this pod.
"""

from __future__ import annotations

import netrc
import os
import socket
import sys
import time
import uuid
from pathlib import Path

from . import pace

_HOST = "api.wandb.ai"


class UsageError(RuntimeError):
    """Raised when a run is to report to W&B without a key."""

    __module__ = "wandb.errors.errors"


class CommError(RuntimeError):
    """Raised when W&B's server does not answer."""

    __module__ = "wandb.errors.errors"


def init(directory: Path, *, offline: bool, identity: str | None = None) -> None:
    """Begin to report to W&B as wandb.init does, and write the run's files to `directory/wandb`.
    With `offline` only the files are written, and neither key nor server is needed. The environment
    variable WANDB_MODE, if it is set, decides in place of `offline`; if it is "disabled", nothing
    is done at all. `identity` is the run's id; None takes that of WANDB_RUN_ID, or a new one.

    Raises UsageError if there is no key, and CommError if the server cannot be reached, 90 seconds
    (times BS4_MINIATURE_PACE) after the call.
    """
    mode = os.environ.get("WANDB_MODE", "offline" if offline else "online")
    if mode == "disabled":
        return
    identity = identity or os.environ.get("WANDB_RUN_ID") or uuid.uuid4().hex[:8]
    stamp = time.strftime("%Y%m%d_%H%M%S")
    if mode == "offline":
        _files(directory / "wandb" / f"offline-run-{stamp}-{identity}", identity)
        sys.stderr.write(
            "wandb: W&B syncing is set to `offline` in this directory. Run `wandb online` or "
            "set WANDB_MODE=online to enable.\n"
        )
        return
    if not _key():
        raise UsageError("api_key not configured (no-tty). call wandb.login(key=[your_api_key])")
    try:
        _reach()
    except OSError as error:
        sys.stderr.write(f"wandb: Network error (ConnectionError), entering retry loop: {error}\n")
        pace.nap(90)
        raise CommError(
            "Run initialization has timed out after 90.0 sec. Please try increasing the timeout "
            "with the `init_timeout` setting: "
            "`wandb.init(settings=wandb.Settings(init_timeout=120))`."
        ) from error
    _files(directory / "wandb" / f"run-{stamp}-{identity}", identity)


def _key() -> str:
    if key := os.environ.get("WANDB_API_KEY"):
        return key
    try:
        entry = netrc.netrc().authenticators(_HOST)
    except (FileNotFoundError, netrc.NetrcParseError):
        return ""
    return entry[2] if entry else ""


def _reach() -> None:
    host, _, port = os.environ.get("BS4_MINIATURE_WANDB", "127.0.0.1:1").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10):
        pass


def _files(run: Path, identity: str) -> None:
    run.mkdir(parents=True, exist_ok=True)
    (run / f"run-{identity}.wandb").write_bytes(b":W&B" + os.urandom(64))
