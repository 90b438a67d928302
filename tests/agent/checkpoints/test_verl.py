"""verl's checkpoints: its tracker and the files of every rank decide, whatever the directories are
called.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import shutil
import time
import zipfile
from pathlib import Path

import pytest

from bs4_common.checkpoints.inventory import pointed, step_directories
from bs4_common.checkpoints.report import report
from bs4_common.checkpoints.sets import complete_sets, step_sets, verify
from bs4_common.failures.detectors.disks import keep_last_not_deleting
from bs4_common.failures.offline import guess_trainer, spec_of
from bs4_common.trainers import registry
from bs4_common.trainers.base import LaunchSpec
from tests.agent.checkpoints.trees import put, weights
from tests.agent.facts import facts, healthy

VERL = registry.get("verl")
TRACKER = "latest_checkpointed_iteration.txt"


def saved(size: int = 200) -> bytes:
    """What torch.save leaves: a zip archive, its directory at the end."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", b"x" * size)
    return buffer.getvalue()


def part(directory: Path, world: int = 2) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for kind in ("model", "optim", "extra_state"):
        for rank in range(world):
            (directory / f"{kind}_world_size_{world}_rank_{rank}.pt").write_bytes(saved())
    put(directory / "huggingface/config.json")
    put(directory / "fsdp_config.json")


def run(tmp_path: Path, *steps: int, tracker: str | None = None, critic: bool = False) -> Path:
    """checkpoints/ of a run with these steps, as the trainer leaves it."""
    root = tmp_path / "demo" / "checkpoints"
    for step in steps:
        part(root / f"global_step_{step}/actor")
        if critic:
            part(root / f"global_step_{step}/critic")
        put(root / f"global_step_{step}/data.pt")
    if tracker is not None:
        (root / TRACKER).write_text(tracker)
    return root


def spec(tmp_path: Path) -> LaunchSpec:
    assert guess_trainer(tmp_path / "demo") == "verl"
    return spec_of(tmp_path / "demo", "verl")


def missing(tmp_path: Path) -> dict[int, dict[str, str]]:
    return {one.step: dict(one.missing) for one in step_sets(VERL, spec(tmp_path))}


def test_what_the_tracker_has_come_to_is_whole(tmp_path: Path) -> None:
    run(tmp_path, 10, 20, 30, tracker="20")
    assert missing(tmp_path) == {10: {}, 20: {}, 30: {"actor": f"{TRACKER} names step 20"}}
    found = complete_sets(step_sets(VERL, spec(tmp_path)))
    assert [one.step for one in found] == [20, 10]
    assert verify(found[0]) == ""
    assert found[0].bytes > 6 * 200


def test_ppo_has_a_critic_on_every_step(tmp_path: Path) -> None:
    root = run(tmp_path, 10, 20, tracker="20", critic=True)
    (root / "global_step_20/critic/model_world_size_2_rank_1.pt").unlink()
    assert missing(tmp_path) == {10: {}, 20: {"critic": "no model_world_size_2_rank_1.pt"}}


@pytest.mark.parametrize("said", ["", "\n", "twenty"])
def test_an_empty_tracker_takes_the_newest_step_with_it(tmp_path: Path, said: str) -> None:
    run(tmp_path, 10, 20, tracker=said)
    assert missing(tmp_path) == {10: {}, 20: {"actor": f"{TRACKER} names no step"}}


def test_without_a_tracker_the_data_loaders_state_counts(tmp_path: Path) -> None:
    """Backups are copied without it, and asynchronous saving does not write it."""
    root = run(tmp_path, 10, 20)
    (root / "global_step_20/data.pt").unlink()
    assert missing(tmp_path) == {10: {}, 20: {"actor": "no data.pt"}}


@pytest.mark.parametrize("kind", ["model", "optim", "extra_state"])
def test_a_rank_that_is_missing_and_one_that_is_cut_off(tmp_path: Path, kind: str) -> None:
    root = run(tmp_path, 10, 20, tracker="20")
    path = root / f"global_step_20/actor/{kind}_world_size_2_rank_1.pt"
    path.write_bytes(path.read_bytes()[:-40])
    assert missing(tmp_path)[20] == {"actor": f"{path.name} is cut off"}
    path.write_bytes(b"")
    assert missing(tmp_path)[20] == {"actor": f"{path.name} is empty"}
    path.unlink()
    assert missing(tmp_path)[20] == {"actor": f"no {path.name}"}


def test_a_run_that_saves_no_optimizer_is_whole_all_the_same(tmp_path: Path) -> None:
    root = run(tmp_path, 10, tracker="10")
    for path in (root / "global_step_10/actor").glob("optim*"):
        path.unlink()
    assert missing(tmp_path) == {10: {}}


def test_an_adapter_beside_the_model_must_be_one(tmp_path: Path) -> None:
    adapter = run(tmp_path, 10, tracker="10") / "global_step_10/actor/lora_adapter"
    put(adapter / "adapter_config.json")
    assert missing(tmp_path) == {10: {"actor": "lora_adapter: no weights"}}
    (adapter / "adapter_model.safetensors").write_bytes(weights())
    assert missing(tmp_path) == {10: {}}
    (adapter / "adapter_config.json").unlink()
    assert missing(tmp_path) == {10: {"actor": "no adapter_config.json in lora_adapter"}}


def test_sft_writes_into_the_step_itself(tmp_path: Path) -> None:
    root = tmp_path / "demo"
    for step in (5, 10):
        part(root / f"global_step_{step}", world=1)
    put(root / "global_step_5/data.pt")
    put(root / "global_step_10/data.pt")
    (root / TRACKER).write_text("5")
    assert missing(tmp_path) == {5: {}, 10: {"model": f"{TRACKER} names step 5"}}


def test_an_old_sfts_export_is_a_model(tmp_path: Path) -> None:
    directory = tmp_path / "demo/global_step_5"
    put(directory / "config.json")
    (directory / "model.safetensors").write_bytes(weights())
    assert missing(tmp_path) == {5: {}}
    (directory / "model.safetensors").write_bytes(weights()[:-1])
    assert "of" in missing(tmp_path)[5]["model"]


def test_megatrons_part(tmp_path: Path) -> None:
    root = tmp_path / "demo"
    (root / "global_step_5/actor/dist_ckpt").mkdir(parents=True)
    put(root / "global_step_5/data.pt")
    (root / TRACKER).write_text("5")
    assert missing(tmp_path) == {5: {"actor": "dist_ckpt is empty"}}
    put(root / "global_step_5/actor/dist_ckpt/common.pt")
    assert missing(tmp_path) == {5: {}}


def test_what_is_still_being_written_is_measured_again(tmp_path: Path) -> None:
    """A finished part is measured once; the tracker is looked at each time."""
    root = run(tmp_path, 10, 20, tracker="10")
    old = time.time() - 3600
    for path in sorted(root.rglob("*")):
        os.utime(path, (old, old))
    assert missing(tmp_path)[20]
    (root / TRACKER).write_text("20")
    assert missing(tmp_path) == {10: {}, 20: {}}


def test_the_report_and_the_pointer(tmp_path: Path) -> None:
    root = run(tmp_path, 10, 20, 30, tracker="20")
    found = report(VERL, spec(tmp_path))
    assert found["resumable"] == 20
    assert [(one["step"], one["complete"]) for one in found["checkpoints"]] == [
        (10, True),
        (20, True),
        (30, False),
    ]
    assert json.loads(json.dumps(found)) == found
    assert sorted(step_directories(root)) == [10, 20, 30]
    assert pointed(root / TRACKER) == 20
    assert pointed(root / "none") is None


def test_what_verls_own_rotation_leaves_is_no_checkpoint(tmp_path: Path) -> None:
    """max_actor_ckpt_to_keep empties `actor`; the step's directory with data.pt stays. A healthy
    run had 19 rows "no weights", and keep-last-not-deleting.
    """
    root = run(tmp_path, *range(5, 105, 5), tracker="100")
    for step in range(5, 90, 5):
        shutil.rmtree(root / f"global_step_{step}/actor")
        if step % 2:
            (root / f"global_step_{step}/actor").mkdir()
    (root / "global_step_105/actor").mkdir(parents=True)
    found = report(VERL, spec(tmp_path))
    assert [one["step"] for one in found["checkpoints"]] == [90, 95, 100, 105]
    assert found["emptied"] == 17
    assert found["resumable"] == 100
    kept = healthy(
        "verl",
        config={"trainer.max_actor_ckpt_to_keep": 3},
        checkpoints=VERL.checkpoints(spec(tmp_path)),
    )
    assert keep_last_not_deleting(facts(kept), kept, {"slack": 1}) == []
    # Where the trainer has forgotten what it saved before a restart, they do pile up.
    part(root / "global_step_10/actor")
    part(root / "global_step_15/actor")
    piled = dataclasses.replace(kept, checkpoints=VERL.checkpoints(spec(tmp_path)))
    (finding,) = keep_last_not_deleting(facts(piled), piled, {"slack": 1})
    assert "keep_last is 3, but 5 steps lie there" in finding.summary


def test_a_directory_of_another_trainer_is_not_verls(tmp_path: Path) -> None:
    put(tmp_path / "demo/checkpoints/step_5/trainer/.metadata")
    assert guess_trainer(tmp_path / "demo") is None
