"""What ranks of one trainer need of each other: a barrier. Rank 0 listens on MASTER_PORT, the others connect."""

from __future__ import annotations

import os
import socket
import time


class World:
    """This process's place among the ranks, from torchrun's environment."""

    def __init__(self) -> None:
        self.rank = int(os.environ.get("RANK", "0"))
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self.size = int(os.environ.get("WORLD_SIZE", "1"))
        self._peers: list[socket.socket] = []
        if self.size > 1:
            self._connect(int(os.environ["MASTER_PORT"]))

    @property
    def is_master(self) -> bool:
        return self.rank == 0

    def _connect(self, port: int) -> None:
        if self.is_master:
            with socket.create_server(("127.0.0.1", port)) as server:
                self._peers = [server.accept()[0] for _ in range(self.size - 1)]
            return
        deadline = time.monotonic() + 30
        while not self._peers:
            try:
                self._peers = [socket.create_connection(("127.0.0.1", port))]
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def barrier(self) -> None:
        """Until every rank is here. A rank that is stopped stops all; one that died is torchrun's to deal with."""
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
        if not peer.recv(1):
            raise RuntimeError("[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]")

    def __repr__(self) -> str:
        return f"World(world_size={self.size}, rank={self.rank}, local_rank={self.local_rank}, local_world_size={self.size}, num_nodes=1)"
