"""A run on disk, a bucket over real HTTP, and what a stranger can check about the two without the
product's own judgement.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bs4_agent.checkpoints.hashing import Hashes
from bs4_agent.checkpoints.remote.process import command
from bs4_agent.checkpoints.remote.push import Origin, Push, Pushed
from bs4_agent.checkpoints.sync_set import LocalSet, local_set
from bs4_agent.paths import Home
from bs4_agent.runs.records import spec_as_dict
from bs4_agent.setup.credentials import store as store_credential
from bs4_common.checkpoints.remote.b2 import B2Store
from bs4_common.checkpoints.remote.layout import Layout
from bs4_common.checkpoints.sets import step_sets
from bs4_common.trainers.base import LaunchSpec
from bs4_practice.b2.server import B2Server
from tests.agent.checkpoints.trees import NEW, OLD, new_run, new_step, old_run, old_step

BUCKET, PREFIX, RUN = "demo-bucket", "runs", "demo"
#: Of three parts: B2 takes none below 5,000,000 bytes but the last.
LARGE = 12_000_000


def lying_in(server: B2Server) -> dict[str, bytes]:
    """Name -> bytes of the visible version, from the server's own shelf."""
    [bucket] = [key for key, name in server.shelf.buckets.items() if name == BUCKET]
    return {one.name: b"".join(one.read(0, one.size - 1)) for one in server.shelf.newest(bucket)}


def pointed(server: B2Server) -> int | None:
    """As `promised`, of what lies on the server's own shelf."""
    return promised(lying_in(server))


def promised(bucket: Mapping[str, bytes]) -> int | None:
    """The step that latest.json names, after a look at everything that it promises: each file of
    its manifest, with its size and SHA-1. None without a pointer. AssertionError when it promises
    what is not there.
    """
    raw = bucket.get(f"{PREFIX}/{RUN}/latest.json")
    if raw is None:
        return None
    pointer = json.loads(raw)
    manifest_raw = bucket[pointer["manifest"]]
    assert hashlib.sha256(manifest_raw).hexdigest() == pointer["manifest_sha256"]
    manifest = json.loads(manifest_raw)
    assert pointer["step"] == f"step_{manifest['step']}"
    base = f"{PREFIX}/{RUN}/steps/step_{manifest['step']}/files/"
    for file in manifest["files"]:
        data = bucket[base + file["path"]]
        assert (len(data), hashlib.sha1(data, usedforsecurity=False).hexdigest()) == (
            file["size"],
            file["sha1"],
        ), file
    names = {file["path"] for file in manifest["files"]}
    assert any(name.endswith("trainer/.metadata") for name in names)
    assert any(name.endswith("orchestrator/progress.pt") for name in names)
    return int(manifest["step"])


class Bench:
    """`generation`: "old" (2026-01) or "new". The server's bucket is empty."""

    def __init__(self, root: Path, server: B2Server, generation: str = "old") -> None:
        self.root, self.server = root, server
        self.old = generation == "old"
        self.spec: LaunchSpec = (old_run if self.old else new_run)(root, "max_steps = 10\n")
        self.trainer = OLD if self.old else NEW
        self.home = Home(root / "home")
        self.home.create()
        server.bucket(BUCKET)
        self.key = server.key()
        store_credential("b2", {"key_id": self.key.id, "key": self.key.secret}, self.home)
        self.layout = Layout(PREFIX, RUN)
        self.told: list[tuple[str, dict[str, Any]]] = []

    @property
    def place(self) -> str:
        return f"b2://{BUCKET}/{PREFIX}"

    def store(self, key: Any = None, pauses: tuple[float, ...] = (0.01,) * 5) -> B2Store:
        used = key or self.key
        return B2Store.open(BUCKET, used.id, used.secret, at=self.server.url, pauses=pauses)

    def save(self, step: int, *, large: int = 0, seed: str = "") -> LocalSet:
        """A complete checkpoint, whose shards are this step's and seed's own; `large` bytes of one
        more shard.
        """
        (old_step if self.old else new_step)(self.spec, step)
        trainer = self.trainer.layout(self.spec).trainer_checkpoints / f"step_{step}" / "trainer"
        (trainer / "__0_0.distcp").write_bytes(f"{step}{seed}".encode() * 100)
        if large:
            block = hashlib.sha256(f"{step}{seed}".encode()).digest() * 3125
            (trainer / "__1_0.distcp").write_bytes(block * (large // len(block)))
        return self.local(step)

    def local(self, step: int) -> LocalSet:
        [one] = [found for found in step_sets(self.trainer, self.spec) if found.step == step]
        assert one.complete, one.missing
        return local_set(self.trainer, self.spec, one)

    def push(
        self,
        step: int,
        *,
        store: Any = None,
        resumed: int | None = None,
        point: bool = True,
        attempt: int = 1,
    ) -> Pushed:
        def say(event: str, **fields: Any) -> None:
            self.told.append((event, fields))

        origin = Origin(
            RUN, self.spec.trainer, attempt, resumed, {"trainer": "t1", "orchestrator": "o1"}
        )
        made = Push(store or self.store(), self.layout, Hashes(self.home.root / "hashes.json"), say)
        return made.step(self.local(step), origin, point=point)

    # What lies in the bucket, read from the server's own shelf.

    def bucket(self) -> dict[str, bytes]:
        return lying_in(self.server)

    def pointed(self) -> int | None:
        return pointed(self.server)

    # The real worker, as the agent starts it.

    def job(self, *steps: int, **changes: Any) -> dict[str, Any]:
        return {
            "run": RUN,
            "to": self.place,
            "home": str(self.home.root),
            "spec": spec_as_dict(self.spec),
            "attempt": 1,
            "resumed": None,
            "wandb": {},
            "steps": list(steps),
            "point": True,
            "weights": False,
            "rate": None,
            "keep_remote": None,
            "milestones": 0,
            "others": {},
            **changes,
        }

    @contextlib.contextmanager
    def worker(self, job: Mapping[str, Any]) -> Iterator[subprocess.Popen[bytes]]:
        process = subprocess.Popen(
            command(self.home, "bs4_agent.checkpoints.remote.worker"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "BS4_B2_REALM": self.server.url},
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(job).encode() + b"\n")
            process.stdin.flush()
            yield process
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()

    def work(self, job: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Run a job to its end; what the worker told."""
        with self.worker(job) as process:
            assert process.stdout is not None
            told = [json.loads(line) for line in process.stdout]
            process.wait()
        return told

    def settled(self) -> None:
        """Until the server has done with what a killed client left in its sockets."""
        before, since = None, time.monotonic()
        while time.monotonic() - since < 0.5:  # its threads may be kept waiting by a busy machine
            if before != (before := (self.server.received.total(), self.server.calls.total())):
                since = time.monotonic()
            time.sleep(0.05)
