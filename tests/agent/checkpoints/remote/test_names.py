"""Names in a bucket and what is read from there: nothing leads out of its place, nothing is
believed unread.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bs4_common.checkpoints.remote.errors import StoreDamaged
from bs4_common.checkpoints.remote.layout import Layout, Place, checked, step_number
from bs4_common.checkpoints.remote.manifest import File, Manifest
from bs4_common.checkpoints.remote.pointer import Pointer
from bs4_common.errors import BadRequest

FILE = File("checkpoints/step_5/trainer/.metadata", 10, "0" * 40)
MANIFEST = Manifest(
    run="demo",
    trainer="prime-rl",
    step=5,
    attempt=1,
    created_t=100.0,
    files=[FILE],
    parts={"trainer": "checkpoints/step_5/trainer"},
    config="",
    wandb={"trainer": "t1"},
)


@pytest.mark.parametrize(
    "path",
    ["", "/a", "a/", "a//b", "..", "a/../b", "./a", "a\\b", "a\nb", "a\x7f", "x" * 1025, "\udc80"],
)
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(BadRequest):
        checked(path)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("s3://bucket-a", "'s3://bucket-a' does not begin with b2://."),
        ("b2:///runs", "'b2:///runs' names no bucket."),
        ("b2://my_bucket/runs", "'my_bucket' cannot be a bucket, whose name has 6 to 63 letters"),
        ("b2://demo-bucket/../x", "The prefix '../x' has a part that is empty or consists of dots"),
        ("b2://demo-bucket/a\\b", "The prefix 'a\\\\b' has a character that no store takes"),
    ],
)
def test_a_wrong_place_is_told_what_is_wrong_and_how_to_write_it(url: str, says: str) -> None:
    with pytest.raises(BadRequest) as refused:
        Place.parse(url)
    assert str(refused.value).startswith(says)
    assert str(refused.value).endswith(" Write b2://BUCKET or b2://BUCKET/PREFIX.")


@given(st.text(max_size=40))
def test_what_passes_stays_below(path: str) -> None:
    try:
        good = checked(path)
    except BadRequest:
        return
    assert not good.startswith("/")
    assert ".." not in good.split("/")


@pytest.mark.parametrize(
    "url",
    [
        "b2://short",
        "b2://",
        "s3://bucket",
        "b2://demo-bucket//x",
        "b2://demo-bucket/../x",
        "b2://b2-demo-x",
        "demo-bucket",
    ],
)
def test_a_place_that_makes_no_sense(url: str) -> None:
    with pytest.raises(BadRequest, match=r"b2://BUCKET|relative path"):
        Place.parse(url)


def test_a_place_reads_as_it_was_written() -> None:
    for url in ("b2://demo-bucket", "b2://demo-bucket/a", "b2://demo-bucket/a/b"):
        assert str(Place.parse(url)) == url
    assert str(Place.parse("b2://demo-bucket/a/")) == "b2://demo-bucket/a"


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("step_0", 0),
        ("step_12", 12),
        ("step_012", None),
        ("step_", None),
        ("xstep_1", None),
        ("step_1x", None),
    ],
)
def test_a_step_by_its_name(text: str, step: int | None) -> None:
    assert step_number(text) == step


def test_a_run_never_finds_what_belongs_to_one_that_begins_alike() -> None:
    short, long = Layout("p", "a"), Layout("p", "a-v2")
    assert not long.manifest(5).startswith(short.root)
    assert short.step_of(long.manifest(5)) is None
    assert short.step_of(short.file(5, "x/y")) == 5
    with pytest.raises(BadRequest):
        Layout("p", "../x")


def test_equal_manifests_are_equal_bytes() -> None:
    other = Manifest(
        run="demo",
        trainer="prime-rl",
        step=5,
        attempt=1,
        created_t=100.0,
        files=[FILE],
        parts={"trainer": "checkpoints/step_5/trainer"},
        config="",
        wandb={"trainer": "t1"},
    )
    assert MANIFEST.encode() == other.encode()
    assert Manifest.decode(MANIFEST.encode()) == MANIFEST
    assert Manifest.decode(MANIFEST.encode()).sha256 == MANIFEST.sha256


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "bs4.manifest/2"},
        {"files": []},
        {"files": None},
        {"bytes": 11},
        {"step": "5"},
        {"step": -1},
        {"config": "nowhere"},
        {"files": [{"path": "../x", "size": 1, "sha1": "0" * 40}], "bytes": 1},
        {"files": [{"path": "/etc/passwd", "size": 1, "sha1": "0" * 40}], "bytes": 1},
        {"files": [{"path": "x", "size": 1, "sha1": "short"}], "bytes": 1},
        {"files": [{"path": "x", "size": 1, "sha1": "0" * 40}] * 2, "bytes": 2},
        {"files": [{"path": "x", "size": True, "sha1": "0" * 40}], "bytes": 1},
        {"parts": {"trainer": "../.."}},
    ],
)
def test_a_manifest_that_lies_is_damaged(change: dict[str, Any]) -> None:
    raw = {**json.loads(MANIFEST.encode()), **change}
    with pytest.raises(StoreDamaged):
        Manifest.decode(json.dumps(raw).encode())


@given(st.binary(max_size=60))
def test_anything_else_is_damaged_too(data: bytes) -> None:
    for read in (Manifest.decode, Pointer.decode):
        with pytest.raises(StoreDamaged):
            read(data)


def test_a_pointer_comes_back() -> None:
    made = Pointer(
        step=5,
        run="demo",
        t=1767607200.0,
        manifest="p/m",
        manifest_sha256="0" * 64,
        bytes=10,
        trainer="prime-rl",
        wandb={"trainer": "t", "orchestrator": "o"},
        config_version="c",
    )
    assert Pointer.decode(made.encode()) == made
    assert json.loads(made.encode())["timestamp"] == "2026-01-05T10:00:00Z"
