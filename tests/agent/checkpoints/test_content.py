"""A marker promises content: each promise that is not kept is found, and named."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest

from bs4_common.checkpoints.content import wanting
from bs4_common.checkpoints.inventory import inventory
from tests.agent.checkpoints.trees import (
    NEW,
    OLD,
    new_run,
    new_step,
    old_broadcast,
    old_run,
    old_step,
    put,
    weights,
)


def test_a_stable_mark_without_weights_is_not_complete(tmp_path: Path) -> None:
    spec = old_run(tmp_path)
    old_step(spec, 5)
    (spec.output_dir / "run_default/broadcasts/step_5/model.safetensors").unlink()
    [checkpoint] = inventory(OLD, spec)
    assert not checkpoint.complete
    assert checkpoint.lacking == {"broadcast": "no weights"}


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("model.safetensors", weights()[:-1], "model.safetensors has"),
        ("model.safetensors", weights()[:20], "model.safetensors is cut off in its header"),
        ("model.safetensors", b"", "model.safetensors is empty"),
        ("model.safetensors", bytes(400), "model.safetensors is cut off in its header"),
        ("adapter_model.safetensors", weights()[:-3], "adapter_model.safetensors has"),
        ("adapter_model.bin", b"", "adapter_model.bin is empty"),
    ],
)
def test_weights_are_as_long_as_their_header_says(
    tmp_path: Path, name: str, content: bytes, why: str
) -> None:
    (tmp_path / "STABLE").touch()
    (tmp_path / name).write_bytes(content)
    assert wanting("broadcast", tmp_path).startswith(why)
    (tmp_path / name).write_bytes(weights())
    assert wanting("broadcast", tmp_path) == ""


def test_every_file_of_the_index_is_there(tmp_path: Path) -> None:
    (tmp_path / "model-00001-of-00002.safetensors").write_bytes(weights())
    index = {
        "weight_map": {
            "a": "model-00001-of-00002.safetensors",
            "b": "model-00002-of-00002.safetensors",
        }
    }
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert (
        wanting("weights", tmp_path)
        == "model-00002-of-00002.safetensors is named in model.safetensors.index.json and not there"
    )
    (tmp_path / "model-00002-of-00002.safetensors").write_bytes(weights())
    assert wanting("weights", tmp_path) == ""


def test_adapters_lie_one_directory_down(tmp_path: Path) -> None:
    put(tmp_path / "lora_adapters/adapter_config.json")
    assert wanting("weights", tmp_path) == "no weights"
    (tmp_path / "lora_adapters/adapter_model.safetensors").write_bytes(weights())
    assert wanting("weights", tmp_path) == ""


def test_every_shard_that_the_metadata_names_is_there(tmp_path: Path) -> None:
    (tmp_path / ".metadata").write_bytes(
        b"\x80\x05...relative_path\x94\x8c\x0c__0_0.distcp...\x8c\x0c__1_0.distcp"
    )
    assert wanting("trainer", tmp_path) == "no shard (.distcp) beside .metadata"
    put(tmp_path / "__0_0.distcp")
    assert wanting("trainer", tmp_path) == "__1_0.distcp is named in .metadata and not there"
    put(tmp_path / "__1_0.distcp", 0)
    assert wanting("trainer", tmp_path) == "__1_0.distcp is empty"
    put(tmp_path / "__1_0.distcp")
    assert wanting("trainer", tmp_path) == ""
    (tmp_path / ".metadata").write_bytes(b"")
    assert wanting("trainer", tmp_path) == ".metadata is empty"


@pytest.mark.parametrize("left", [1, 3, 40, 200, -1])
def test_a_shard_that_was_cut_off_is_no_shard(tmp_path: Path, left: int) -> None:
    """Two tensors as torch.save writes them, one after the other; of the second, the disk has kept
    only the beginning.
    """
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("archive/data/0", bytes(100))
    (tmp_path / ".metadata").write_bytes(b"\x80\x05...relative_path\x94\x8c\x0c__0_0.distcp")
    (tmp_path / "__0_0.distcp").write_bytes(2 * archive.getvalue())
    assert wanting("trainer", tmp_path) == ""
    (tmp_path / "__0_0.distcp").write_bytes((2 * archive.getvalue())[:left])
    assert wanting("trainer", tmp_path) == "__0_0.distcp is cut off"


def test_optimizer_pt_is_nobodys_marker(tmp_path: Path) -> None:
    """A sync that waited for optimizer.pt skipped every checkpoint for ever: prime-rl writes
    none.
    """
    spec = new_run(tmp_path)
    new_step(spec, 10)
    assert [c.complete for c in inventory(NEW, spec)] == [True]
    put(spec.output_dir / "demo/checkpoints/step_20/optimizer.pt")
    assert [c.complete for c in inventory(NEW, spec)] == [True, False]


def test_an_empty_progress_is_no_progress(tmp_path: Path) -> None:
    spec = new_run(tmp_path)
    new_step(spec, 10)
    put(spec.output_dir / "demo/checkpoints/step_10/orchestrator/progress.pt", 0)
    [checkpoint] = inventory(NEW, spec)
    assert checkpoint.lacking == {"orchestrator": "progress.pt is empty"}


def test_what_vanishes_meanwhile_is_missing(tmp_path: Path) -> None:
    assert wanting("trainer", tmp_path / "gone") == ".metadata is empty"
    assert wanting("broadcast", tmp_path / "gone") == "no weights"
    assert wanting("something else", tmp_path / "gone") == ""


def test_content_that_comes_later_counts_at_once(tmp_path: Path) -> None:
    spec = old_run(tmp_path)
    old_step(spec, 5)
    broadcast = old_broadcast(spec, 5) / "model.safetensors"
    whole = broadcast.read_bytes()
    broadcast.write_bytes(whole[:-1])
    assert not inventory(OLD, spec)[0].complete
    broadcast.write_bytes(whole)
    assert inventory(OLD, spec)[0].complete
