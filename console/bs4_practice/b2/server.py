"""The store as a server over real HTTP: B2's calls as b2sdk and the `b2` tool make them, answered
from a Shelf, disturbed by Faults.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from bs4_practice.b2 import calls, transfers
from bs4_practice.b2.calls import MINIMUM_PART
from bs4_practice.b2.faults import Faults
from bs4_practice.b2.request import Http, Request
from bs4_practice.b2.shelf import Key, Shelf

__all__ = ["MINIMUM_PART", "B2Server"]


class B2Server:
    """A practice store that speaks Backblaze B2's API over HTTP. It serves on a free port while the
    object is used as a context manager. `url` is the address at which clients authorize (B2's
    realm). `calls` counts the calls by name. `received` counts the bytes of complete uploads by
    file name, repeated uploads included.

    The stored bytes lie in `directory`. `part_size` is the size in bytes that clients are advised
    to use for the parts of large files. `address` is the IP address to listen on, and the function
    `clock` returns Unix seconds.
    """

    def __init__(
        self,
        directory: Path,
        *,
        address: str = "127.0.0.1",
        part_size: int = MINIMUM_PART,
        clock: Callable[[], float] = time.time,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.shelf, self.faults, self.part_size = Shelf(directory, clock), Faults(), part_size
        self.tokens: dict[str, Key] = {}
        self.uploads: dict[str, tuple[str, Key]] = {}
        """Token of an upload URL -> (bucket or large file, key)."""
        self.calls: Counter[str] = Counter()
        self.received: Counter[str] = Counter()
        self._server = Http((address, 0), Request)
        self._server.b2, self._server.table = self, calls.CALLS | transfers.CALLS
        self.url = f"http://{address}:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.05},
            name="b2",
            daemon=True,
        )

    def __enter__(self) -> B2Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def bucket(self, name: str) -> str:
        """Make a bucket called `name`, and return its id."""
        return self.shelf.make_bucket(name)

    def key(self, *capabilities: str, bucket: str = "", prefix: str = "") -> Key:
        """Make a key and return it. `capabilities` are what it may do, such as "writeFiles";
        without any it may do everything. `bucket`, the name of a bucket, and `prefix`, the
        beginning of file names, restrict it; "" does not.
        """
        made = Key(
            f"00{secrets.token_hex(11)}",
            f"K00{secrets.token_hex(14)}",
            bucket=bucket,
            prefix=prefix,
        )
        made.capabilities = capabilities or made.capabilities
        return self.shelf.make_key(made)

    def expire_tokens(self) -> None:
        """Forget every token and upload URL, as B2 does after a day. Clients must then authorize
        again.
        """
        self.tokens.clear()
        self.uploads.clear()
