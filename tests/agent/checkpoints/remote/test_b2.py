"""The store over b2sdk: against the local server, and against b2sdk's own simulator."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from b2sdk.v3 import B2Api, B2HttpApiConfig, InMemoryAccountInfo, RawSimulator

from bs4_agent.checkpoints.hashing import Hashes
from bs4_agent.checkpoints.remote.pace import Pace
from bs4_agent.checkpoints.remote.push import Origin, Push
from bs4_common.checkpoints.remote import b2, prune
from bs4_common.checkpoints.remote.b2 import B2Store
from bs4_common.checkpoints.remote.errors import (
    NotThere,
    StoreAuth,
    StoreDamaged,
    StoreFull,
    StoreThrottled,
    StoreUnreachable,
)
from bs4_common.checkpoints.remote.steps import scan
from bs4_common.errors import BadRequest
from bs4_practice.b2.faults import Fault
from tests.agent.checkpoints.remote.bench import BUCKET, Bench

Maker = Callable[[], B2Store]


@pytest.fixture(params=["http", "simulator"])
def store(request: pytest.FixtureRequest, bench: Bench) -> B2Store:
    return bench.store() if request.param == "http" else _simulated()


def _simulated() -> B2Store:
    api = B2Api(InMemoryAccountInfo(), api_config=B2HttpApiConfig(_raw_api_class=RawSimulator))
    key_id, key = api.session.raw_api.create_account()
    api.authorize_account(key_id, key, realm="production")
    api.create_bucket(BUCKET, "allPrivate")
    return B2Store.of_api(api, BUCKET, pauses=())


def _file(path: Path, size: int) -> tuple[Path, str]:
    path.write_bytes(bytes(i % 251 for i in range(1000)) * (size // 1000))
    return path, hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()


def test_what_is_written_is_read_listed_and_deleted(store: B2Store) -> None:
    for data in (b"one", b"two"):
        entry = store.write("a/x.json", data)
        time.sleep(0.002)
    assert store.read("a/x.json", 100) == b"two"
    assert [one.name for one in store.entries("a/")] == ["a/x.json"]
    assert store.entries("a/")[0].sha1 == hashlib.sha1(b"two", usedforsecurity=False).hexdigest()
    versions = store.versions("a/x.json")
    assert versions[0].version == entry.version
    assert [store.content(one, 100) for one in versions] == [b"two", b"one"]
    with pytest.raises(StoreDamaged):
        store.content(versions[1], 2)
    store.delete(versions[0])
    assert store.read("a/x.json", 100) == b"one"
    store.delete(versions[1])
    assert store.versions("a/x.json") == []
    store.delete(versions[1])  # it is gone already


def test_versions_of_a_name_are_not_those_of_a_longer_one(store: B2Store) -> None:
    store.write("a/x", b"1")
    store.write("a/x.json", b"2")
    assert [one.name for one in store.versions("a/x")] == ["a/x"]


def test_files_go_up_and_come_down_whole(store: B2Store, tmp_path: Path) -> None:
    for size in (0, 3000):
        path, sha1 = _file(tmp_path / f"f{size}", size)
        moved: list[int] = []
        assert store.upload(path, f"a/f{size}", sha1, moved.append).sha1 == sha1
        assert sum(moved) == size
        back = tmp_path / "back"
        assert store.download(f"a/f{size}", back).size == size
        assert back.read_bytes() == path.read_bytes()


def test_what_is_not_there_is_said(store: B2Store, tmp_path: Path) -> None:
    with pytest.raises(NotThere):
        store.read("a/nothing", 10)
    with pytest.raises(NotThere):
        store.download("a/nothing", tmp_path / "x")
    assert list(tmp_path.glob("*bs4-part")) == []
    assert store.versions("a/nothing") == []
    assert store.entries("a/nothing") == []


def test_a_whole_push_and_a_prune_against_the_simulator(bench: Bench) -> None:
    store = _simulated()
    for step in (5, 10, 15):
        local = bench.save(step)
        push = Push(store, bench.layout, Hashes(bench.home.root / "hashes"))
        push.step(local, Origin("demo", bench.spec.trainer, 1, None, {}))
    found = scan(store, bench.layout)
    assert [one.step for one in found.whole] == [15, 10, 5]
    assert found.pointer is not None
    assert found.pointer.step == 15
    assert [one.step for one in prune.prune(store, bench.layout, 2).remove] == [5]


def test_more_names_than_one_answer_holds(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(b2, "_PAGE", 3)
    store = bench.store()
    for number in range(10):
        store.write(f"a/{number}", b"x")
        store.write("a/3", b"y")
    assert [one.name for one in store.entries("a/")] == [f"a/{number}" for number in range(10)]
    assert len(store.versions("a/3")) == 11


def test_a_download_that_arrives_wrong_is_never_put_in_place(bench: Bench, tmp_path: Path) -> None:
    store = bench.store(pauses=())
    path, sha1 = _file(tmp_path / "f", 12_000_000)
    store.upload(path, "a/f", sha1)
    bench.server.faults.add(
        Fault("corrupt", call="b2_download_file_by_name", times=None),
        Fault("corrupt", call="b2_download_file_by_id", times=None),
    )
    target = tmp_path / "back"
    target.write_bytes(b"before")
    with pytest.raises(StoreDamaged, match="arrived with SHA-1"):
        store.download("a/f", target)
    assert target.read_bytes() == b"before"


def test_a_file_that_was_written_anew_and_larger_fills_no_disk(
    store: B2Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the listing of a step and its download, another pod may write to the store."""
    store.write("a/f", b"x" * 1000)
    assert store.download("a/f", tmp_path / "back", size=1000).size == 1000
    store.write("a/f", b"x" * 1001)
    monkeypatch.setattr(b2.DownloadedFile, "save_to", None)  # nothing of it is written
    with pytest.raises(StoreDamaged, match="1001 bytes by now"):
        store.download("a/f", tmp_path / "back", size=1000)
    assert (tmp_path / "back").read_bytes() == b"x" * 1000


def test_a_download_whose_connection_breaks_is_taken_up_again(bench: Bench, tmp_path: Path) -> None:
    store = bench.store()
    path, sha1 = _file(tmp_path / "f", 3_000_000)
    store.upload(path, "a/f", sha1)
    bench.server.faults.add(
        Fault("drop", call="b2_download_file_by_name", after=1_000_000, times=2)
    )
    store.download("a/f", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == path.read_bytes()


def test_a_file_that_is_larger_than_it_may_be_is_not_read(bench: Bench) -> None:
    store = bench.store()
    store.write("a/x", b"x" * 100)
    with pytest.raises(StoreDamaged, match="100 bytes where at most 10"):
        store.read("a/x", 10)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("busy", StoreThrottled),
        ("many", StoreThrottled),
        ("drop", StoreUnreachable),
        ("full", StoreFull),
        ("transactions", StoreFull),
    ],
)
def test_each_trouble_has_its_name(
    bench: Bench, tmp_path: Path, kind: str, error: type[Exception]
) -> None:
    path, sha1 = _file(tmp_path / "f", 3000)
    store = bench.store(pauses=())
    bench.server.faults.add(Fault(kind, call="b2_upload_file", times=None))
    with pytest.raises(error) as caught:
        store.upload(path, "a/f", sha1)
    assert bench.key.secret not in str(caught.value)
    assert str(caught.value).rstrip(".").count(";")  # what is wrong; what to do


def test_wrong_keys_and_buckets_are_told_apart(bench: Bench) -> None:
    server = bench.server
    server.bucket("other-bucket")
    with pytest.raises(StoreAuth):
        B2Store.open(BUCKET, bench.key.id, "wrong", at=server.url)
    with pytest.raises(NotThere):
        B2Store.open("no-such-bucket", bench.key.id, bench.key.secret, at=server.url)
    elsewhere = server.key(bucket="other-bucket")
    with pytest.raises(StoreAuth):
        B2Store.open(BUCKET, elsewhere.id, elsewhere.secret, at=server.url)
    narrow = server.key(prefix="runs/", bucket=BUCKET)
    store = B2Store.open(BUCKET, narrow.id, narrow.secret, at=server.url)
    store.write("runs/x", b"1")
    with pytest.raises(StoreAuth):
        store.write("elsewhere/x", b"1")


def test_nobody_listens() -> None:
    with pytest.raises(StoreUnreachable, match="it is tried again"):
        _impatient("http://127.0.0.1:1")


def _impatient(at: str) -> None:
    from b2sdk._internal.b2http import B2Http

    before = B2Http.TRY_COUNT_OTHER
    B2Http.post_json_return_json.__defaults__ = (1,)
    try:
        B2Store.open(BUCKET, "a" * 12, "b" * 12, at=at)
    finally:
        B2Http.post_json_return_json.__defaults__ = (before,)


def test_the_realm_is_https_or_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BS4_B2_REALM", raising=False)
    assert b2.realm() == "production"
    for good in ("https://example.org", "http://127.0.0.2:8000"):
        monkeypatch.setenv("BS4_B2_REALM", good)
        assert b2.realm() == good
    for bad in ("http://example.org", "http://127.example.org", "ftp://127.0.0.1"):
        monkeypatch.setenv("BS4_B2_REALM", bad)
        with pytest.raises(BadRequest):
            b2.realm()


def test_a_pace_is_kept_by_all_threads_together() -> None:
    now = [0.0]
    pace = Pace(
        1000, clock=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, now[0] + seconds)
    )
    for _ in range(10):
        pace(500)
    assert now[0] == pytest.approx(5.0 - 0.25, abs=0.3)
    assert pace.total == 5000
