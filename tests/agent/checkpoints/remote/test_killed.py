"""Killed at every single call that an upload makes, against b2sdk's own simulator: what the pointer
names stays whole, and it is finished by the next sync of the same disk, or by another pod that has
trained the step anew.

test_worker.py kills real processes at byte offsets of real requests; here no place is chosen: every
one has its turn.
"""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from b2sdk.v3 import B2Api, B2HttpApiConfig, InMemoryAccountInfo, RawSimulator

from bs4_common.checkpoints.remote.b2 import B2Store
from bs4_practice.b2.server import B2Server
from tests.agent.checkpoints.remote.bench import BUCKET, Bench, promised

pytestmark = [pytest.mark.long, pytest.mark.beside]

_CALLS = (
    "get_upload_url",
    "upload_file",
    "start_large_file",
    "get_upload_part_url",
    "upload_part",
    "finish_large_file",
    "list_parts",
    "list_file_names",
    "list_file_versions",
    "list_unfinished_large_files",
    "download_file_from_url",
)
#: Upload URLs are shared between threads, so how many are asked for differs from run to run; before
#: one is as before its upload.
_STEADY = tuple(call for call in _CALLS if not call.startswith("get_"))
#: What changes the store: killed right after one of them, it is done and nobody was told.
_CHANGES = ("upload_file", "start_large_file", "upload_part", "finish_large_file")


class Killed(BaseException):
    """The process is no more. No handler of the product catches it."""


class Mortal(RawSimulator):  # type: ignore[misc]
    """`kill(n, calls)`: the client dies before its n-th call of these from now on, or with `after`
    right after it. Then every call of it ends so, from all its threads. `live()`: another process
    begins. `said`: the calls since then.
    """

    #: The one shard of 100,000 bytes has parts, all other files are small ones.
    MIN_PART_SIZE = 40_000

    def __init__(self, b2_http: Any = None) -> None:
        super().__init__(b2_http)
        self._lock = threading.Lock()
        self.live()

    def live(self) -> None:
        self.kill(0)

    def kill(self, at: int, calls: Sequence[str] = _CALLS, *, after: bool = False) -> None:
        self.said: list[str] = []
        self._at, self._calls, self._after, self.dead = at, calls, after, False

    def meet(self, call: str, work: Callable[[], Any]) -> Any:
        with self._lock:
            if self.dead:
                raise Killed
            self.said.append(call)
            self.dead = dies = (
                call in self._calls and sum(one in self._calls for one in self.said) == self._at
            )
            if dies and not self._after:
                raise Killed
        done = work()
        if dies:
            raise Killed
        return done


def _mortal(name: str) -> Callable[..., Any]:
    def call(self: Mortal, *args: Any, **kwargs: Any) -> Any:
        return self.meet(name, lambda: getattr(RawSimulator, name)(self, *args, **kwargs))

    return call


for _name in _CALLS:
    setattr(Mortal, _name, _mortal(_name))


class Cloud:
    """The simulator with an account and a bucket; `store()` is how one process sees it."""

    def __init__(self) -> None:
        self.raw = Mortal()
        self._key = self.raw.create_account()
        self._api().create_bucket(BUCKET, "allPrivate")

    def _api(self) -> B2Api:
        api = B2Api(
            InMemoryAccountInfo(), api_config=B2HttpApiConfig(_raw_api_class=lambda _: self.raw)
        )
        api.authorize_account(*self._key, realm="production")
        return api

    def store(self) -> B2Store:
        return B2Store.of_api(self._api(), BUCKET, pauses=())

    def lying(self) -> dict[str, bytes]:
        """Name -> bytes, by b2sdk alone."""
        found = {}
        bucket = self._api().get_bucket_by_name(BUCKET)
        for version, _ in bucket.ls(recursive=True):
            whole = io.BytesIO()
            bucket.download_file_by_id(version.id_).save(whole)
            found[version.file_name] = whole.getvalue()
        return found

    def pointed(self) -> int | None:
        self.raw.live()
        return promised(self.lying())


def _cloud(bench: Bench) -> Cloud:
    """With step 5 in it."""
    cloud = Cloud()
    bench.push(5, store=cloud.store())
    return cloud


@pytest.fixture
def other(tmp_path: Path, server: B2Server) -> Bench:
    """A second pod, on which step 10 was trained anew from step 5."""
    (tmp_path / "other").mkdir()
    made = Bench(tmp_path / "other", server)
    made.save(10, large=100_000, seed="on another pod")
    return made


@pytest.mark.timeout(900)
def test_killed_at_any_call_the_pointer_names_a_whole_step_and_the_next_sync_finishes(
    bench: Bench, other: Bench
) -> None:
    bench.save(5)
    bench.save(10, large=100_000)
    whole = _cloud(bench)
    whole.raw.live()
    bench.push(10, store=whole.store())
    assert set(_CHANGES) <= set(whole.raw.said)
    places = [
        (at, _STEADY, False) for at in range(1, sum(call in _STEADY for call in whole.raw.said) + 1)
    ]
    places += [
        (at, _CHANGES, True)
        for at in range(1, sum(call in _CHANGES for call in whole.raw.said) + 1)
    ]
    named, killed = [], 0
    for number, (at, calls, after) in enumerate(places):
        cloud = _cloud(bench)
        store = cloud.store()
        cloud.raw.kill(at, calls, after=after)
        with contextlib.suppress(Killed):
            bench.push(10, store=store)
        killed += cloud.raw.dead
        where = f"killed {'after' if after else 'before'} {cloud.raw.said[-1]}, the {at}th"
        named.append(cloud.pointed())
        assert named[-1] in (5, 10), where
        # In turns the next life of the same pod, and a new pod that has resumed at step 5.
        if number % 2:
            other.push(10, store=cloud.store(), resumed=5, attempt=2)
        else:
            bench.push(10, store=cloud.store())
        assert cloud.pointed() == 10, where
        assert cloud.store().unfinished(bench.layout.root) == [], where
        shard = cloud.lying()[bench.layout.file(10, "checkpoints/step_10/trainer/__0_0.distcp")]
        assert (b"on another pod" in shard) is bool(number % 2), where
    assert killed >= 0.9 * len(places), (
        "an upload may take a call less than the one that was counted, no more"
    )
    # The pointer moves with one call: before it step 5, from it on step 10.
    assert named[0] == 5
    assert {5, 10} == set(named)


def test_what_arrived_before_the_kill_is_not_sent_again(bench: Bench) -> None:
    """Killed before the large file is finished: its parts are there, and the next life only
    finishes it.
    """
    bench.save(5)
    bench.save(10, large=100_000)
    cloud = _cloud(bench)
    store = cloud.store()
    cloud.raw.kill(1, ("finish_large_file",))
    with pytest.raises(Killed):
        bench.push(10, store=store)
    assert cloud.raw.said.count("upload_part") > 1
    assert cloud.pointed() == 5
    store = cloud.store()
    cloud.raw.live()
    bench.push(10, store=store)
    assert cloud.raw.said.count("upload_part") == 0
    assert cloud.pointed() == 10
