"""GPUs out of a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bs4_agent.scope import Scope
from bs4_agent.telemetry.gpus import BLANK_DEVICE, RecordedGpus, open_gpus


def test_a_recording_is_read_again_when_it_changes(
    scope: Scope, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "gpus.json"
    monkeypatch.setenv("BS4_GPU_SOURCE", str(path))
    path.write_text(
        json.dumps(
            {
                "driver": "580.1",
                "devices": [
                    {"name": "A"},
                    {"name": "B", "util": 5, "procs": [{"pid": 7, "mem": 9}]},
                ],
            }
        )
    )
    source = open_gpus(scope)
    assert isinstance(source, RecordedGpus)
    sample = source.sample()
    assert (sample["state"], sample["driver"]) == ("ok", "580.1")
    assert sample["devices"][1] == {
        **BLANK_DEVICE,
        "index": 1,
        "minor": 1,
        "name": "B",
        "util": 5,
        "procs": [{"pid": 7, "mem": 9}],
    }
    path.write_text(json.dumps({"driver": "580.1", "devices": [{"name": "A longer name"}]}))
    assert [device["name"] for device in source.sample()["devices"]] == ["A longer name"]


def test_an_xid_is_handed_out_once(tmp_path: Path) -> None:
    path = tmp_path / "gpus.json"
    first, second = {"index": 0, "xid": 79, "t": 100.0}, {"index": 1, "xid": 31, "t": 101.0}
    path.write_text(json.dumps({"devices": [], "xids": [first]}))
    source = RecordedGpus(path)
    source.sample()
    assert source.take_xids() == [first]
    source.sample()
    assert source.take_xids() == []
    path.write_text(json.dumps({"devices": [], "xids": [first, second]}))
    source.sample()
    source.sample()
    assert source.take_xids() == [second]


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"devices": 3}', '{"devices": [3]}', '{"devices": [{"procs": [{}]}]}', None],
)
def test_a_recording_that_cannot_be_used_says_so_and_recovers(
    tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "gpus.json"
    if content is not None:
        path.write_text(content)
    source = RecordedGpus(path)
    sample = source.sample()
    assert sample["state"] == "error"
    assert str(path) in sample["detail"]
    path.write_text('{"devices": [{"name": "A"}]}')
    assert source.sample()["state"] == "ok"
