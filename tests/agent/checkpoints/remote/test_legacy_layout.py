"""Every defect of the scripts before us that lies in the copying of checkpoints, as something that
does not happen here.

Each test names the section and the letter (or the words) of the inventory it answers. Those of the
disk clean-up are in test_guard.py.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from bs4_agent.checkpoints.remote import process
from bs4_agent.checkpoints.sync import Syncs
from bs4_agent.setup.credentials import store as store_credential
from bs4_common.checkpoints.remote import legacy_layout, prune
from bs4_common.checkpoints.remote.errors import StoreDamaged
from bs4_common.checkpoints.remote.layout import Layout
from bs4_common.checkpoints.remote.pointer import Pointer
from bs4_common.checkpoints.remote.steps import scan
from bs4_common.ids import ulid
from bs4_practice.b2.faults import Fault
from tests.agent.checkpoints.guarded import Guarded
from tests.agent.checkpoints.remote.bench import RUN, Bench
from tests.agent.checkpoints.trees import age, old_run, old_step, steps_in

pytestmark = [pytest.mark.long, pytest.mark.beside]


@pytest.mark.parametrize("trouble", ["the key is refused", "the tool is missing"])
def test_1_4_a_a_store_that_does_not_take_us_ends_nothing_else(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    """A missing tool or a bad key ended the one daemon for both jobs, and the disk filled up: here
    the sync says why, and the guard frees what its order lets go.
    """
    monkeypatch.setenv("BS4_B2_REALM", bench.server.url)
    (tmp_path / "guarded").mkdir()
    pod = Guarded(
        tmp_path / "guarded", old_run(tmp_path / "guarded", "[ckpt]\ninterval = 5\n"), monkeypatch
    )
    store_credential("b2", {"key_id": bench.key.id, "key": bench.key.secret}, pod.home)
    bench.server.shelf.keys.clear()
    if trouble == "the tool is missing":
        monkeypatch.setattr(process, "library", lambda home: None)
    for number, step in enumerate((20, 15, 10, 5)):
        old_step(pod.spec, step)
        age(pod.spec, step, 1000 + 100 * number)
    pod.order(last=2)
    pod.actions.submit({"key": ulid(), "kind": "sync", "run": RUN, "to": bench.place}, "alice")
    syncs = Syncs(pod.pod, pod.book)
    syncs.round()
    pod.until(
        lambda: (
            pod.book.ledger.syncs[RUN].failures and steps_in(pod.out / "checkpoints") == [15, 20]
        )
    )
    syncs.close()
    failed = pod.book.ledger.syncs[RUN].failed
    assert failed is not None
    assert ("refuses this key" if trouble == "the key is refused" else "no b2sdk") in failed[
        "detail"
    ]


def test_1_4_b_an_underscore_in_a_path_changes_no_order(tmp_path: Path, bench: Bench) -> None:
    """Steps were sorted as text behind the first underscore of the whole path: the newest were
    deleted.
    """
    bench.layout = Layout("pre_fix_1/a_b", RUN)
    for step in (5, 20, 100):
        bench.save(step)
        bench.push(step)
    assert [one.step for one in prune.prune(bench.store(), bench.layout, 2).remove] == [5]
    pointer = Pointer.decode(bench.bucket()["pre_fix_1/a_b/demo/latest.json"])
    assert pointer.step == 100


def test_1_4_d_what_was_never_uploaded_is_no_remote_copy(bench: Bench) -> None:
    bench.save(5)
    bench.save(10)
    bench.push(10)
    assert [one.step for one in scan(bench.store(), bench.layout).whole] == [10]


def test_1_4_g_there_is_one_layout_and_it_has_a_pointer(bench: Bench) -> None:
    bench.save(5)
    bench.work(bench.job(5))
    names = {name.removeprefix("runs/demo/").split("/")[0] for name in bench.bucket()}
    assert names == {"steps", "latest.json"}


def test_1_5_the_pointer_moves_with_the_upload_and_not_a_round_later(bench: Bench) -> None:
    """`((n++))` ended the script after the first upload: one upload a run, and no pointer for
    it.
    """
    for step in (5, 10, 15):
        bench.save(step)
        bench.work(bench.job(step))
        assert bench.pointed() == step


def test_1_5_an_interrupted_upload_does_not_count_as_synced(bench: Bench) -> None:
    """A step_N in the listing was "already synced", whatever was missing below it."""
    bench.save(10)
    bench.server.faults.add(Fault("full", call="b2_upload_file", name="progress.pt", times=None))
    assert bench.work(bench.job(10))[-1]["event"] == "failed"
    assert bench.pointed() is None
    [torn] = scan(bench.store(), bench.layout).steps
    assert torn.missing
    bench.server.faults.clear()
    bench.work(bench.job(10))
    assert bench.pointed() == 10


def test_1_5_prime_rls_own_marker_is_what_counts(both: Bench) -> None:
    """optimizer.pt is a file that no generation ever wrote: every checkpoint was skipped for
    ever.
    """
    local = both.save(5)
    assert not any(file.name.endswith("optimizer.pt") for file in local.files)
    both.work(both.job(5))
    assert both.pointed() == 5


def test_1_5_the_runs_own_directories_are_read(both: Bench) -> None:
    """One fixed directory was read, in which no trainer writes: here it is the run's own output
    directory, by its config and layout.
    """
    local = both.save(5)
    roots = {file.path.relative_to(both.spec.output_dir).parts[0] for file in local.data}
    assert roots == ({"checkpoints", "run_default"} if both.old else {"demo"})


def test_1_5_pruning_fewer_than_are_to_stay_removes_nothing(bench: Bench) -> None:
    bench.save(5)
    bench.push(5)
    bench.save(7)
    bench.push(7)
    assert prune.prune(bench.store(), bench.layout, 3).remove == []
    assert bench.pointed() == 7


def test_1_5_pruning_does_not_stop_after_the_first(bench: Bench) -> None:
    for step in (5, 10, 15, 20, 25):
        bench.save(step)
        bench.push(step)
    assert [one.step for one in prune.prune(bench.store(), bench.layout, 2).remove] == [5, 10, 15]


def test_1_5_the_end_of_the_agent_starts_no_last_upload(bench: Bench) -> None:
    """A final sync in the trap outlived the time that the service had to end."""
    bench.save(5)
    with bench.worker(bench.job(5, rate=1)) as process:
        assert process.stdin is not None
        process.stdin.close()
        began = time.monotonic()
        assert process.wait(60) == 2
        assert time.monotonic() - began < 50, (
            "a last upload, of one byte a second, would take longer"
        )


def test_1_5_the_pointer_has_what_a_restore_needs(bench: Bench) -> None:
    bench.save(5)
    bench.push(5)
    raw = json.loads(bench.bucket()[bench.layout.pointer])
    assert {"step", "run_id", "wandb_run_id", "timestamp"} <= set(raw)
    assert {
        "schema",
        "step_number",
        "manifest",
        "manifest_sha256",
        "bytes",
        "trainer",
        "wandb",
        "config_version",
    } <= set(raw)
    assert raw["config_version"]


def test_1_7_every_part_of_a_resumable_set_is_there(both: Bench) -> None:
    """Only the trainer's directory was restored; prime-rl needs the orchestrator's too, and the
    broadcast of 2026-01.
    """
    both.save(5)
    both.push(5)
    manifest = scan(both.store(), both.layout).steps[0].manifest
    assert manifest is not None
    assert set(manifest.parts) == (
        {"trainer", "orchestrator", "broadcast"} if both.old else {"trainer", "orchestrator"}
    )


def test_1_7_the_config_comes_with_the_step_and_not_only_beside_a_pointer(bench: Bench) -> None:
    bench.save(5)
    bench.push(5)
    manifest = scan(bench.store(), bench.layout).steps[0].manifest
    assert manifest is not None
    assert manifest.config in {file.path for file in manifest.files}


def test_1_7_each_side_has_its_own_wandb_run(bench: Bench) -> None:
    bench.save(5)
    bench.push(5)
    manifest = scan(bench.store(), bench.layout).steps[0].manifest
    assert manifest is not None
    assert manifest.wandb == {"trainer": "t1", "orchestrator": "o1"}


# The buckets that those scripts left.


def _leave(bench: Bench, prefix: str, step: int, *, torn: bool = False) -> None:
    store = bench.store()
    store.write(f"{prefix}step_{step}/trainer/__0_0.distcp", b"shard")
    store.write(f"{prefix}step_{step}/trainer/__1_0.distcp", b"shard")
    if not torn:
        store.write(f"{prefix}step_{step}/trainer/.metadata", b"metadata")


def test_a_bucket_of_the_first_script_can_be_read(bench: Bench) -> None:
    store, layout = bench.store(), Layout("", "bs4-qwen3-8b")
    _leave(bench, layout.root, 45)
    _leave(bench, layout.root, 50)
    _leave(bench, layout.root, 55, torn=True)
    store.write(f"{layout.root}config.toml", b"[model]\n")
    store.write(f"{layout.root}logs/training_latest.log", b"...")
    pointer = {
        "step": "step_50",
        "run_id": "bs4-qwen3-8b",
        "wandb_run_id": "abc",
        "timestamp": "2026-01-05T10:00:00Z",
    }
    store.write(layout.pointer, json.dumps(pointer).encode())
    found = legacy_layout.read(store, layout)
    assert [(one.step, one.missing) for one in found.steps] == [
        (45, ""),
        (50, ""),
        (55, "no .metadata"),
    ]
    assert found.newest is not None
    assert found.newest.step == 50
    assert found.pointer is not None
    assert (found.pointer.step, found.pointer.wandb, found.pointer.manifest) == (
        50,
        {"trainer": "abc"},
        "",
    )
    assert found.config is not None


def test_a_bucket_of_the_second_script_can_be_read(bench: Bench) -> None:
    layout = Layout("", "default")
    _leave(bench, f"{layout.root}checkpoints/", 5)
    found = legacy_layout.read(bench.store(), layout)
    assert [(one.step, one.root) for one in found.steps] == [(5, "default/checkpoints/step_5/")]
    assert found.pointer is None


def test_nothing_there_is_no_run(bench: Bench) -> None:
    found = legacy_layout.read(bench.store(), Layout("", "default"))
    assert (list(found.steps), found.pointer, found.newest) == ([], None, None)


def test_our_own_layout_is_not_mistaken_for_theirs(bench: Bench) -> None:
    bench.save(5)
    bench.push(5)
    assert list(legacy_layout.read(bench.store(), bench.layout).steps) == []


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b'{"step": "step_x"}',
        b'{"step": "step_05"}',
        b'{"step": "step_5", "step_number": 6}',
    ],
)
def test_a_pointer_that_makes_no_sense_is_damaged(raw: bytes) -> None:
    with pytest.raises(StoreDamaged):
        Pointer.decode(raw)
