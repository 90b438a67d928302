"""What may go from the store, decided by the whole listing, and carried out one step after the
other over real HTTP.
"""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bs4_common.checkpoints.best import Quality
from bs4_common.checkpoints.remote import prune
from bs4_common.checkpoints.remote.errors import StoreAuth
from bs4_common.checkpoints.remote.pointer import Pointer
from bs4_common.checkpoints.remote.prune import YOUNG_S, decide
from bs4_common.checkpoints.remote.steps import RemoteRun, RemoteStep, scan
from bs4_common.checkpoints.remote.store import Entry
from bs4_common.errors import BadRequest, PlanChanged
from bs4_practice.b2.faults import Fault
from tests.agent.checkpoints.remote.bench import Bench

pytestmark = [pytest.mark.long, pytest.mark.beside]


def _step(step: int, t: float, missing: str = "") -> RemoteStep:
    return RemoteStep(
        step, t, [Entry(f"runs/demo/steps/step_{step}/x", 10, None, t, "v")], None, missing
    )


def _run(*steps: RemoteStep, pointer: int | None) -> RemoteRun:
    return RemoteRun(steps, None if pointer is None else Pointer(step=pointer, run="demo", t=0.0))


def test_the_oldest_go_and_milestones_stay() -> None:
    run = _run(*(_step(n, n * 1000.0) for n in (10, 20, 50, 60, 70, 80)), pointer=80)
    found = decide(run, 2, 50)
    assert [one.step for one in found.remove] == [10, 20, 60]
    assert found.kept == {50: "a milestone", 70: "one of the newest", 80: "the pointer names it"}


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_with_fewer_than_are_to_stay_nothing_goes(count: int) -> None:
    """1.5: a loop that never ran over fewer steps than KEEP_B2 marked all of them, the pointer's
    among them.
    """
    steps = [_step(n * 5, n * 1000.0) for n in range(1, count + 1)]
    assert decide(_run(*steps, pointer=steps[-1].step if steps else None), 3).remove == ()


def test_the_best_stays_and_each_that_may_be_the_best() -> None:
    """The best one of the store, and the one that the order keeps on the disk, which may be another
    where a step was not uploaded.
    """
    run = _run(*(_step(n, n * 1000.0) for n in (10, 20, 30, 40, 50, 60)), pointer=60)
    stored = Quality({10: 0.3, 20: 0.9, 40: 0.5, 50: 0.1, 60: 0.1})
    stays = prune.stays_for("acc", stored, Quality({40: 0.7, 60: 0.1}), run)
    found = decide(run, 2, 0, stays)
    assert [one.step for one in found.remove] == [10]
    assert found.kept[20] == found.kept[40] == "the best by acc"
    assert found.kept[30] == "its acc is not known"


def test_what_the_pointer_names_stays_however_old_it_is() -> None:
    run = _run(*(_step(n, n * 1000.0) for n in (10, 20, 30, 40)), pointer=10)
    assert [one.step for one in decide(run, 2).remove] == [20]


def test_without_a_pointer_nothing_goes() -> None:
    run = _run(*(_step(n, n * 1000.0) for n in (10, 20, 30, 40)), pointer=None)
    assert "no latest.json" in decide(run, 2).refused


@pytest.mark.parametrize("missing", ["x is not there", None])
def test_a_pointer_to_what_is_not_whole_stops_it(missing: str | None) -> None:
    steps = [_step(n, n * 1000.0) for n in (10, 20, 30)] + (
        [_step(40, 40000.0, missing)] if missing else []
    )
    assert "step 40, which is not" in decide(_run(*steps, pointer=40), 2).refused


def test_what_is_on_its_way_up_stays() -> None:
    run = _run(
        _step(10, 1e6),
        _step(15, 1e6 + 3 * YOUNG_S, "torn"),
        _step(20, 2e6),
        _step(30, 3e6),
        _step(40, 3e6 + 5, "torn"),
        pointer=30,
    )
    found = decide(run, 2)
    assert [one.step for one in found.remove] == [10, 15]
    young = _run(
        _step(10, 3e6, "torn"), _step(20, 2e6), _step(25, 2.5e6), _step(30, 3e6), pointer=30
    )
    assert [one.step for one in decide(young, 2).remove] == [20]


def test_a_manifest_that_cannot_be_read_is_no_permission() -> None:
    """A newer version may have written it; the step is then whole for that one, and perhaps a
    milestone.
    """
    strange = RemoteStep(
        10,
        1000.0,
        [Entry("runs/demo/steps/step_10/manifest.json", 10, None, 1000.0, "v")],
        None,
        "its schema is unknown",
    )
    found = decide(
        _run(strange, *(_step(n, n * 1000.0 + 10 * YOUNG_S) for n in (20, 30, 40)), pointer=40), 2
    )
    assert ([one.step for one in found.remove], found.kept[10]) == (
        [20],
        "it cannot be judged (its schema is unknown)",
    )


def test_a_run_that_was_set_back_keeps_its_newest_work() -> None:
    """Steps 25 and 30 were trained after 50, 60 and 70 had been left behind."""
    run = _run(
        _step(50, 1.0), _step(60, 2.0), _step(70, 3.0), _step(25, 4.0), _step(30, 5.0), pointer=30
    )
    assert [one.step for one in decide(run, 2).remove] == [50]


def test_at_least_two_stay() -> None:
    with pytest.raises(BadRequest, match="At least 2"):
        decide(_run(pointer=None), 1)


@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.floats(0, 1e7), st.booleans()),
        max_size=12,
        unique_by=lambda row: row[0],
    ),
    st.integers(0, 60),
    st.integers(2, 5),
    st.integers(0, 20),
)
def test_it_never_takes_what_must_stay(
    rows: list[tuple[int, float, bool]], pointer: int, keep: int, milestones: int
) -> None:
    run = _run(
        *(_step(step, t, "" if whole else "torn") for step, t, whole in rows), pointer=pointer
    )
    going = {one.step for one in decide(run, keep, milestones).remove}
    whole = sorted((step for step, _, ok in rows if ok), reverse=True)
    assert pointer not in going
    assert not going & set(whole[:keep])
    assert not any(milestones and step and step % milestones == 0 for step in going & set(whole))
    if going:
        assert pointer in whole
        assert len(set(whole) - going) >= keep


def test_all_of_a_step_goes_every_version_of_it(bench: Bench) -> None:
    for step, seed in ((5, ""), (10, ""), (5, "anew"), (15, ""), (20, "")):
        bench.save(step, seed=seed)
        bench.push(step)
    [bucket] = bench.server.shelf.buckets
    assert len(bench.server.shelf.versions(bucket, bench.layout.step(5))) > len(
        bench.store().entries(bench.layout.step(5))
    )
    done = prune.prune(bench.store(), bench.layout, 2)
    assert [one.step for one in done.remove] == [5, 10]
    assert bench.server.shelf.versions(bucket, bench.layout.step(5)) == []
    assert bench.server.shelf.versions(bucket, bench.layout.step(10)) == []
    assert bench.pointed() == 20
    assert [one.step for one in scan(bench.store(), bench.layout).whole] == [20, 15]


def test_the_pointer_is_looked_at_again_before_each_step(bench: Bench) -> None:
    """Somebody sets it back to an older step while pruning is at work: that step stays."""
    for step in (5, 10, 15, 20):
        bench.save(step)
        bench.push(step)

    def set_back() -> None:
        manifest = bench.bucket()[bench.layout.manifest(10)]
        made = Pointer(
            step=10,
            run="demo",
            t=0.0,
            manifest=bench.layout.manifest(10),
            manifest_sha256=hashlib.sha256(manifest).hexdigest(),
            bytes=1,
            trainer="x",
        )
        bench.store().write(bench.layout.pointer, made.encode())

    bench.server.faults.add(Fault("stop", call="b2_delete_file_version", name="", on=set_back))
    done = prune.prune(bench.store(), bench.layout, 2)
    assert [one.step for one in done.remove] == [5]
    assert bench.pointed() == 10


def test_killed_half_way_it_leaves_nothing_that_counts_as_whole(bench: Bench) -> None:
    for step in (5, 10, 15, 20):
        bench.save(step)
        bench.push(step)
    bench.server.faults.add(
        Fault("hang", call="b2_delete_file_version", skip=2, times=None, seconds=0.1)
    )
    with pytest.raises(Exception, match="no answer from the store"):
        _with_few_tries(bench)
    bench.server.faults.clear()
    found = scan(bench.store(), bench.layout)
    assert found.step(5) is not None
    assert found.step(5).missing == "no manifest"  # type: ignore[union-attr]
    assert bench.pointed() == 20


def _with_few_tries(bench: Bench) -> None:
    store = bench.store()
    http = store._session.raw_api.b2_http
    http.TRY_COUNT_OTHER = 1
    original = http.post_json_return_json
    http.post_json_return_json = lambda url, headers, params, try_count=1: original(
        url, headers, params, 1
    )
    prune.prune(store, bench.layout, 2)


def test_a_key_that_may_not_delete_removes_nothing(bench: Bench) -> None:
    for step in (5, 10, 15):
        bench.save(step)
        bench.push(step)
    with pytest.raises(StoreAuth):
        prune.prune(
            bench.store(bench.server.key("listBuckets", "listFiles", "readFiles", "writeFiles")),
            bench.layout,
            2,
        )
    assert [one.step for one in scan(bench.store(), bench.layout).whole] == [15, 10, 5]


def test_nothing_else_goes_than_what_was_confirmed(bench: Bench) -> None:
    for step in (5, 10, 15, 20):
        bench.save(step)
        bench.push(step)
    with pytest.raises(PlanChanged, match="Step 10 would go too"):
        prune.prune(bench.store(), bench.layout, 2, confirmed=[5])
    assert [one.step for one in scan(bench.store(), bench.layout).whole] == [20, 15, 10]


def test_another_run_whose_name_begins_alike_is_not_touched(bench: Bench) -> None:
    """1.8 found runs by a prefix of their label; names here end at a slash."""
    store = bench.store()
    store.write("runs/demo-v2/steps/step_1/manifest.json", b"{}")
    assert all(
        "demo-v2" not in entry.name
        for one in scan(store, bench.layout).steps
        for entry in one.entries
    )
