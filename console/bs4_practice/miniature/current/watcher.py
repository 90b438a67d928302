"""Follows the trainer's broadcasts: advances the policy version, then brings the inference server
to it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import pace
from ..client import APIConnectionError, APIStatusError, Connection
from ..log import Logger
from ..steps import latest_stable, step_path

_ATTEMPTS = 10


class Watcher:
    """Follows the trainer's broadcasts (new weights in the directory `broadcasts`) and loads the
    newest into the inference server, through `admin`. `version` is the number of the newest policy
    that the trainer has published. `error` is the error if an update has failed for good, otherwise
    None. `published` is notified when `version` or `error` has changed, and `on_version` is called
    after each update.
    """

    def __init__(
        self, broadcasts: Path, admin: Connection, log: Logger, on_version: Callable[[], None]
    ) -> None:
        self._broadcasts = broadcasts
        self._admin = admin
        self._log = log
        self._on_version = on_version
        self.version = 0
        self.published = threading.Condition()
        self.error: Exception | None = None

    def start(self, version: int) -> None:
        """Start a thread that waits for broadcasts (new weights that the trainer publishes) and
        loads them into the inference server. `version` is the number of the policy that the server
        has now; only policies with a higher number are loaded.
        """
        self.version = version
        threading.Thread(target=self._loop, daemon=True).start()

    def _loop(self) -> None:
        try:
            while True:
                latest = latest_stable(self._broadcasts) or 0
                if latest > self.version:
                    # a batch held for this version may go before the server has it
                    with self.published:
                        self.version = latest
                        self.published.notify_all()
                    self.update_weights(latest)
                    self._on_version()
                pace.poll()
        except (APIConnectionError, APIStatusError) as error:
            with self.published:
                self.error = error
                self.published.notify_all()

    def update_weights(self, version: int) -> None:
        """Load the weights of the policy with the number `version` into the inference server, which
        is paused meanwhile. That takes three HTTP requests. A request that fails is repeated, up to
        ten times in all, but not after an answer with a status below 500. Raises APIConnectionError
        or APIStatusError if a request fails for good.
        """
        directory = step_path(self._broadcasts, version)
        self._log.info(f"Updating policy in-flight to v{version}", "client.py::256")
        self._post("/pause?mode=keep&clear_cache=false", None, 300)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "NCCL_READY").touch()
            self._post("/update_weights", {"weight_dir": directory.as_posix()}, 720)
        finally:
            self._post("/resume", None, 300)

    def _post(self, path: str, body: Any, timeout: float) -> None:
        """1, 2, 4, 8 and then every 10 s, twice `timeout` in all: 65 s when nobody listens, 10
        minutes for a hung /pause.
        """
        deadline = time.monotonic() + pace.paced(2 * timeout)
        for attempt in range(_ATTEMPTS):
            try:
                self._admin.request("POST", path, body, pace.paced(timeout))
            except (APIConnectionError, APIStatusError) as error:
                final = isinstance(error, APIStatusError) and error.status < 500
                if final or attempt == _ATTEMPTS - 1 or time.monotonic() > deadline:
                    raise
                pace.nap(min(2.0**attempt, 10.0))
            else:
                return
