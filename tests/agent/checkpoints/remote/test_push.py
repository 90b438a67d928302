"""The order of writes, over real HTTP: what the pointer names is whole at every moment, and nothing
is sent twice.
"""

from __future__ import annotations

import json
import os

import pytest

from bs4_common.checkpoints.remote import steps
from bs4_common.checkpoints.remote.errors import StoreAuth, StoreFull, StoreThrottled
from bs4_common.checkpoints.remote.pointer import Pointer
from bs4_common.errors import Refused, StepFailed
from bs4_practice.b2.faults import Fault
from tests.agent.checkpoints.remote.bench import LARGE, PREFIX, RUN, Bench

pytestmark = [pytest.mark.long, pytest.mark.beside]


def test_a_step_is_uploaded_whole_and_then_named(both: Bench) -> None:
    both.save(5, large=LARGE)
    pushed = both.push(5)
    assert both.pointed() == 5
    assert (pushed.sent, pushed.held) == (pushed.bytes, "")
    assert [event for event, _ in both.told] == ["manifest", "sending", "verified", "pointed"]
    pointer = json.loads(both.bucket()[f"{PREFIX}/{RUN}/latest.json"])
    assert pointer["run_id"] == RUN
    assert pointer["wandb_run_id"] == "t1"
    assert pointer["wandb"] == {"trainer": "t1", "orchestrator": "o1"}
    assert (pointer["step_number"], pointer["bytes"], pointer["trainer"]) == (
        5,
        pushed.bytes,
        both.spec.trainer,
    )
    assert pointer["timestamp"].endswith("Z")


def test_the_config_goes_with_it_wherever_it_lay(both: Bench) -> None:
    both.save(5)
    both.push(5)
    found = steps.scan(both.store(), both.layout).steps[0]
    assert found.manifest is not None
    assert found.manifest.config == ".bs4/config/rl.toml"
    assert both.bucket()[both.layout.file(5, ".bs4/config/rl.toml")] == b"max_steps = 10\n"


def test_names_come_back_to_where_the_trainer_wants_them(both: Bench) -> None:
    local = both.save(5)
    both.push(5)
    base = both.layout.step(5) + "files/"
    below = {name[len(base) :] for name in both.bucket() if name.startswith(base)}
    assert {file.name for file in local.files} == below
    for file in local.data:
        assert (both.spec.output_dir / file.name).read_bytes() == both.bucket()[base + file.name]
    if both.old:
        assert {
            "checkpoints/step_5/trainer/.metadata",
            "run_default/broadcasts/step_5/STABLE",
        } <= below
        assert "run_default/checkpoints/step_5/orchestrator/buffer/rollout_buffer.jsonl" in below


def test_what_is_there_is_not_sent_again(bench: Bench) -> None:
    bench.save(5, large=LARGE)
    bench.push(5)
    before, calls = dict(bench.server.received), bench.server.calls["b2_upload_file"]
    assert bench.push(5).sent == 0
    assert dict(bench.server.received) == before
    assert bench.server.calls["b2_upload_file"] == calls  # the pointer and the manifest neither


def test_a_new_start_that_writes_its_configs_anew_makes_no_other_step(bench: Bench) -> None:
    bench.save(5)
    bench.push(5)
    (bench.root / "rl.toml").write_text("max_steps = 20\n")
    assert bench.push(5, attempt=2).sent == 0
    assert bench.bucket()[bench.layout.file(5, ".bs4/config/rl.toml")] == b"max_steps = 10\n"


def test_bytes_that_arrive_wrong_are_refused_by_the_store_and_sent_again(bench: Bench) -> None:
    bench.save(5, large=LARGE)
    bench.server.faults.add(
        Fault("corrupt", call="b2_upload_part", times=2),
        Fault("corrupt", call="b2_upload_file", name="progress.pt", times=1),
    )
    bench.push(5)
    assert bench.pointed() == 5


def test_bytes_that_the_store_spoils_are_found_by_the_listing_and_sent_again(bench: Bench) -> None:
    bench.save(5)
    bench.server.faults.add(Fault("rot", call="b2_upload_file", name="__0_0.distcp"))
    bench.push(5)
    assert bench.pointed() == 5
    assert (
        bench.server.received[bench.layout.file(5, "checkpoints/step_5/trainer/__0_0.distcp")]
        == 2 * 100
    )


def test_a_store_that_goes_on_spoiling_them_never_gets_the_pointer(bench: Bench) -> None:
    bench.save(5)
    bench.push(5)
    bench.save(10)
    bench.server.faults.add(Fault("rot", call="b2_upload_file", name="__0_0.distcp", times=None))
    with pytest.raises(
        Exception, match=r"does not verify in the store: .*__0_0.distcp has another SHA-1"
    ):
        bench.push(10)
    assert bench.pointed() == 5


@pytest.mark.parametrize("kind", ["busy", "many", "drop", "lost"])
def test_what_passes_by_itself_is_waited_for(bench: Bench, kind: str) -> None:
    bench.save(5, large=LARGE)
    for call in ("b2_upload_file", "b2_upload_part", "b2_finish_large_file", "b2_list_file_names"):
        after = 3 if call == "b2_upload_file" else 100_000
        bench.server.faults.add(
            Fault(kind, call=call, times=1 if call != "b2_upload_part" else 2, after=after)
        )
    bench.push(5)
    assert bench.pointed() == 5


def test_a_token_that_expires_in_between_is_asked_for_again(bench: Bench) -> None:
    bench.save(5, large=LARGE)
    bench.server.faults.add(
        Fault("expire", call="b2_upload_part"),
        Fault("expire", call="b2_finish_large_file"),
        Fault("expire", call="b2_list_file_names"),
    )
    bench.push(5)
    assert bench.pointed() == 5
    assert bench.server.calls["b2_authorize_account"] > 1


def test_a_full_account_says_so_at_once(bench: Bench) -> None:
    bench.save(5)
    bench.push(5)
    bench.save(10)
    bench.server.faults.add(Fault("full", call="b2_upload_file", name="__0_0.distcp", times=None))
    with pytest.raises(StoreFull, match="storage cap is reached; raise it"):
        bench.push(10)
    assert bench.pointed() == 5
    bench.server.faults.clear()
    bench.push(10)
    assert bench.pointed() == 10


def test_a_store_that_stays_busy_is_told(bench: Bench) -> None:
    bench.save(5)
    bench.server.faults.add(Fault("busy", call="b2_upload_file", times=None))
    with pytest.raises(StoreThrottled):
        bench.push(5, store=bench.store(pauses=()))
    assert bench.pointed() is None


def test_a_key_that_may_not_write_is_told(bench: Bench) -> None:
    bench.save(5)
    with pytest.raises(StoreAuth, match="refuses this key"):
        bench.push(5, store=bench.store(bench.server.key("listBuckets", "listFiles", "readFiles")))


def test_a_key_that_may_not_delete_is_enough(bench: Bench) -> None:
    bench.save(5, large=LARGE)
    bench.push(
        5,
        store=bench.store(bench.server.key("listBuckets", "listFiles", "readFiles", "writeFiles")),
    )
    assert bench.pointed() == 5


def test_a_file_that_changes_meanwhile_gets_no_pointer(bench: Bench) -> None:
    local = bench.save(5)
    path = next(file.path for file in local.data if file.name.endswith("progress.pt"))
    bench.server.faults.add(
        Fault(
            "stop",
            call="b2_upload_file",
            name="__0_0.distcp",
            on=lambda: path.write_bytes(b"another"),
        )
    )
    with pytest.raises(StepFailed, match="changed while it was uploaded"):
        bench.push(5)
    assert bench.pointed() is None
    bench.push(5)
    assert bench.pointed() == 5


def test_a_step_that_vanishes_under_its_upload_gets_no_pointer(bench: Bench) -> None:
    local = bench.save(5)
    bench.save(3)
    bench.push(3)

    def remove() -> None:
        for file in local.data:
            file.path.unlink(missing_ok=True)

    bench.server.faults.add(
        Fault("stop", call="b2_upload_file", name="step_5/manifest.json", on=remove)
    )
    with pytest.raises(StepFailed, match="vanished while step 5 was uploaded"):
        bench.push(5)
    assert bench.pointed() == 3


def test_the_pointer_goes_forward_only(bench: Bench) -> None:
    for step in (5, 10):
        bench.save(step)
    bench.push(10)
    assert "names step 10, which is newer" in bench.push(5).held
    assert bench.pointed() == 10


def test_a_start_afresh_under_the_same_name_does_not_take_the_pointer_back(bench: Bench) -> None:
    bench.save(40)
    bench.push(40)
    bench.save(5, seed="anew")
    assert bench.push(5, resumed=None, attempt=2).held
    assert bench.pointed() == 40


def test_a_run_that_was_set_back_takes_the_pointer_with_it(bench: Bench) -> None:
    bench.save(20)
    bench.save(40)
    bench.push(40)
    assert bench.push(20, resumed=20, attempt=2).held  # nothing was trained since
    local = bench.save(25, seed="other")
    pointer = Pointer.decode(bench.bucket()[bench.layout.pointer])
    later = pointer.t + 10
    for file in local.data:
        os.utime(file.path, (later, later))
    assert bench.push(25, resumed=20, attempt=2).held == ""
    assert bench.pointed() == 25


def test_a_step_that_the_pointer_names_is_not_written_over(bench: Bench) -> None:
    for step in (35, 40):
        bench.save(step)
        bench.push(step)
    bench.save(40, seed="trained anew")
    seen: list[int | None] = []
    for call in ("b2_upload_file", "b2_list_file_names"):
        for skip in range(4):
            bench.server.faults.add(
                Fault("stop", call=call, skip=skip, on=lambda: seen.append(bench.pointed()))
            )
    bench.push(40, resumed=35, attempt=2)
    assert bench.pointed() == 40
    assert (
        b"40trained anew"
        in bench.bucket()[bench.layout.file(40, "checkpoints/step_40/trainer/__0_0.distcp")]
    )
    assert set(seen) == {35, 40}


def test_without_another_whole_step_it_is_left_out(bench: Bench) -> None:
    bench.save(40)
    bench.push(40)
    bench.save(40, seed="trained anew")
    with pytest.raises(Refused, match="no older step there is whole"):
        bench.push(40, resumed=35, attempt=2)
    assert bench.pointed() == 40


def test_a_pointer_that_cannot_be_read_is_written_anew(bench: Bench) -> None:
    bench.store().write(bench.layout.pointer, b"{half")
    bench.save(5)
    bench.push(5)
    assert bench.pointed() == 5


def test_an_upload_begun_for_other_bytes_is_not_finished_with_these(bench: Bench) -> None:
    """b2sdk takes up an unfinished large file by its name, and would keep the SHA-1 that it was
    begun with.
    """
    bench.save(5, large=LARGE)
    session, bucket = bench.store()._session, bench.store()._bucket
    name = bench.layout.file(5, "checkpoints/step_5/trainer/__1_0.distcp")
    session.start_large_file(
        bucket.id_, name, "application/octet-stream", {"large_file_sha1": "0" * 40}
    )
    bench.push(5)
    assert bench.pointed() == 5
    assert bench.store().unfinished(bench.layout.root) == []
    assert bench.server.received[name] == LARGE // 100_000 * 100_000
