"""What ranks of one trainer need of each other: a barrier. Rank 0 listens on MASTER_PORT, the
others connect.
"""

from __future__ import annotations

import os
import socket
import time

from . import pace

_STORE_SECONDS = 900
"""How long a rank tries to reach the first one."""
_GROUP_SECONDS = 1800
"""How long a rank waits for the others in a barrier."""


class DistStoreError(RuntimeError):
    """Raised by the first rank when another rank did not join in time. It stands for torch's error
    of this name.
    """

    __module__ = "torch.distributed"


class World:
    """This process's place among the trainer's ranks, as torchrun's environment variables give it:
    `rank` is its number from 0 on, and `size` the number of ranks. The constructor connects the
    ranks with each other. It raises DistStoreError or RuntimeError, with torch's own messages, if a
    rank does not come in time.
    """

    def __init__(self) -> None:
        self.rank = int(os.environ.get("RANK", "0"))
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self.size = int(os.environ.get("WORLD_SIZE", "1"))
        self._peers: list[socket.socket] = []
        if self.size > 1:
            self._connect(int(os.environ["MASTER_PORT"]))

    @property
    def is_master(self) -> bool:
        """Return True for the first rank, number 0."""
        return self.rank == 0

    def _connect(self, port: int) -> None:
        if self.is_master:
            with socket.create_server(("127.0.0.1", port)) as server:
                server.settimeout(pace.paced(_STORE_SECONDS))
                self._peers = [self._joined(server) for _ in range(self.size - 1)]
            for peer in self._peers:
                peer.settimeout(pace.paced(_GROUP_SECONDS))
            return
        deadline = time.monotonic() + pace.paced(_STORE_SECONDS)
        while not self._peers:
            try:
                self._peers = [socket.create_connection(("127.0.0.1", port))]
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise RuntimeError(
                        f"The client socket has timed out after {_STORE_SECONDS * 1000}ms "
                        f"while trying to connect to (localhost, {port})."
                    ) from None
                time.sleep(0.02)
        self._peers[0].settimeout(pace.paced(_GROUP_SECONDS))

    def _joined(self, server: socket.socket) -> socket.socket:
        try:
            return server.accept()[0]
        except TimeoutError:
            joined = f"{len(self._peers) + 1}/{self.size} clients joined."
            raise DistStoreError(
                f"Timed out after {_STORE_SECONDS + 1} seconds waiting for clients. {joined}"
            ) from None

    def barrier(self) -> None:
        """Wait until every rank has called this. Raises RuntimeError, with the message of the
        library gloo, if another rank dies or does not come in time.
        """
        if self.is_master:
            for peer in self._peers:
                self._receive(peer)
            for peer in self._peers:
                peer.sendall(b".")
        else:
            self._peers[0].sendall(b".")
            self._receive(self._peers[0])

    @staticmethod
    def _receive(peer: socket.socket) -> None:
        try:
            token = peer.recv(1)
        except TimeoutError:
            raise RuntimeError(
                "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out "
                f"waiting {_GROUP_SECONDS * 1000}ms for recv operation to complete"
            ) from None
        if not token:
            raise RuntimeError(
                "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection "
                "closed by peer [127.0.0.1]"
            )

    def __repr__(self) -> str:
        return (
            f"World(world_size={self.size}, rank={self.rank}, local_rank={self.local_rank}, "
            f"local_world_size={self.size}, num_nodes=1)"
        )
