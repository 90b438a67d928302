"""The worker as the agent starts it, killed at every kind of place: what the pointer names stays
whole, and the next one goes on.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest

from bs4_agent.checkpoints.holds import holder
from bs4_agent.checkpoints.remote.worker import WorkerOutput, work
from bs4_common.checkpoints.remote.errors import StoreAuth
from bs4_common.checkpoints.remote.store import Store
from bs4_practice.b2.faults import Fault
from tests.agent.checkpoints.remote.bench import LARGE, Bench

pytestmark = [pytest.mark.long, pytest.mark.beside]

_SMALL = "step_10/files/checkpoints/step_10/trainer/__0_0.distcp"
#: Where a kill meets an upload of step 10, with step 5 in the store: the call, which one of them,
#: and after how many bytes.
PLACES = {
    "before the manifest": Fault("stop", call="b2_upload_file", name="step_10/manifest.json"),
    "in the manifest": Fault(
        "stop", call="b2_upload_file", name="step_10/manifest.json", after=100
    ),
    "in a small file": Fault("stop", call="b2_upload_file", name=_SMALL, after=150),
    "before a large file": Fault("stop", call="b2_start_large_file"),
    "in a part": Fault("stop", call="b2_upload_part", after=2_000_000),
    "between parts": Fault("stop", call="b2_upload_part", skip=1, after=1),
    "before a large file is finished": Fault("stop", call="b2_finish_large_file"),
    "before the verification": Fault("stop", call="b2_list_file_names", skip=1),
    "before the pointer": Fault("stop", call="b2_upload_file", name="latest.json"),
    "in the pointer": Fault("stop", call="b2_upload_file", name="latest.json", after=20),
    "after the pointer": Fault("stop", call="b2_download_file_by_name", name="latest.json", skip=2),
}

#: Who is killed where: the worker at each of them; the agent, which ends its worker with it, once
#: of each kind.
KILLS = [
    *((place, False) for place in PLACES),
    *(
        (place, True)
        for place in (
            "in a small file",
            "in a part",
            "before a large file is finished",
            "in the pointer",
        )
    ),
]


def _killed_at(bench: Bench, fault: Fault, *, agent: bool = False) -> None:
    """Run the job for step 10 until `fault` meets it, and end the worker there with SIGKILL; or its
    agent, whose end it hears.
    """
    job = bench.job(10)
    reached = threading.Event()
    with bench.worker(job) as process:

        def kill() -> None:
            if agent:
                assert process.stdin is not None
                process.stdin.close()
                process.wait(60)
            else:
                os.kill(process.pid, signal.SIGKILL)
            reached.set()

        fault.on, fault.times = kill, 1
        bench.server.faults.add(fault)
        assert process.wait(60) == (2 if agent else -signal.SIGKILL)
        assert reached.wait(60)
    bench.settled()


@pytest.mark.parametrize(("place", "agent"), KILLS)
def test_killed_anywhere_it_leaves_a_pointer_to_a_whole_step_and_the_next_one_finishes(
    bench: Bench, place: str, agent: bool
) -> None:
    """The worker alone, or the agent that started it. The pod as a whole: test_killed.py, where
    another one goes on.
    """
    bench.save(5)
    bench.push(5)
    bench.save(10, large=LARGE)
    fault = Fault(
        PLACES[place].kind,
        PLACES[place].call,
        PLACES[place].name,
        PLACES[place].skip,
        after=PLACES[place].after,
    )
    _killed_at(bench, fault, agent=agent)
    # A pointer of 600 bytes is on the wire as a whole when its writer is killed: then it names step
    # 10, which was verified before.
    assert bench.pointed() in ((5, 10) if "the pointer" in place else (5,))
    told = bench.work(bench.job(10))
    assert told[-1] == {"event": "done"}, told
    assert bench.pointed() == 10
    # Whatever had arrived whole, a file or a part of a large one, was not sent a second time.
    for file in bench.local(10).data:
        assert bench.server.received[bench.layout.file(10, file.name)] == file.size, file.name
    assert bench.store().unfinished(bench.layout.root) == []


def test_killed_again_and_again_it_still_arrives(bench: Bench) -> None:
    bench.save(10, large=LARGE)
    for fault in (
        Fault("stop", call="b2_upload_part", skip=1, after=1_000_000),
        Fault("stop", call="b2_upload_part", after=1_000_000),
        Fault("stop", call="b2_finish_large_file"),
    ):
        _killed_at(bench, fault)
        assert bench.pointed() is None
    bench.work(bench.job(10))
    assert bench.pointed() == 10


def test_it_holds_the_step_while_it_reads_it(bench: Bench) -> None:
    bench.save(10)
    seen: list[str] = []
    bench.server.faults.add(
        Fault(
            "stop",
            call="b2_upload_file",
            name=_SMALL,
            on=lambda: seen.append(holder(bench.home, "demo", 10)),
        )
    )
    bench.work(bench.job(10))
    assert seen == [f"upload to {bench.place}"]
    assert holder(bench.home, "demo", 10) == ""


def test_it_ends_with_its_agent(bench: Bench) -> None:
    bench.save(10, large=LARGE)
    reached = threading.Event()
    bench.server.faults.add(Fault("slow", call="b2_upload_part", times=None, rate=200_000))
    bench.server.faults.add(Fault("stop", call="b2_start_large_file", on=reached.set))
    with bench.worker(bench.job(10)) as process:
        assert reached.wait(60)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 2
    assert bench.pointed() is None


def test_two_of_one_run_work_one_after_the_other(bench: Bench) -> None:
    bench.save(10, large=LARGE)
    reached, go = threading.Event(), threading.Event()

    def wait() -> None:
        reached.set()
        go.wait(60)

    bench.server.faults.add(Fault("stop", call="b2_finish_large_file", on=wait))
    with bench.worker(bench.job(10)) as first:
        assert reached.wait(60)
        with bench.worker(bench.job(10)) as second:
            calls = bench.server.calls["b2_authorize_account"]
            go.set()
            assert first.wait(60) == 0
            assert second.wait(60) == 0
            assert bench.server.calls["b2_authorize_account"] >= calls
    assert (
        bench.server.received[bench.layout.file(10, "checkpoints/step_10/trainer/__1_0.distcp")]
        == LARGE // 100_000 * 100_000
    )
    assert bench.pointed() == 10


def test_a_step_that_is_not_complete_is_never_uploaded(bench: Bench) -> None:
    """A directory that is half written (1.4 c), and one whose marker promises what is not there."""
    bench.save(10)
    (bench.spec.output_dir / "run_default/broadcasts/step_10/model.safetensors").unlink()
    told = bench.work(bench.job(10))
    assert told[-1]["event"] == "failed"
    assert "not complete" in told[-1]["detail"]
    assert told[-1]["passing"] is True
    assert bench.bucket() == {}


def test_the_key_is_in_no_argv_no_environment_and_no_line(bench: Bench) -> None:
    bench.save(10, large=LARGE)
    reached, go = threading.Event(), threading.Event()

    def wait() -> None:
        reached.set()
        go.wait(60)

    bench.server.faults.add(Fault("stop", call="b2_finish_large_file", on=wait))
    with bench.worker(bench.job(10)) as process:
        assert reached.wait(60)
        seen = b"".join(
            Path(f"/proc/{process.pid}/{name}").read_bytes() for name in ("cmdline", "environ")
        )
        go.set()
        assert process.stdout is not None
        seen += process.stdout.read()
    assert bench.key.secret.encode() not in seen
    assert bench.key.id.encode() not in seen


def test_a_key_that_others_can_read_is_not_used(bench: Bench) -> None:
    bench.save(10)
    (bench.home.credentials / "b2.json").chmod(0o644)
    told = bench.work(bench.job(10))
    assert told == [told[0]]
    assert (told[0]["error"], told[0]["passing"]) == ("store-auth", False)
    assert "chmod 600" in told[0]["detail"]
    assert bench.server.calls.total() == 0


def test_without_a_key_it_says_how_to_give_one(bench: Bench) -> None:
    bench.save(10)
    (bench.home.credentials / "b2.json").unlink()
    [told] = bench.work(bench.job(10))
    assert "bs4-console pods setup" in told["detail"]


def test_a_wrong_key_is_no_passing_trouble(bench: Bench) -> None:
    bench.save(10)
    bench.server.shelf.keys.clear()
    [told] = bench.work(bench.job(10))
    assert (told["event"], told["error"], told["passing"]) == ("failed", "store-auth", False)


def test_logs_and_reports_go_too_once(bench: Bench) -> None:
    log = bench.root / "launcher.log"
    log.write_text("the last words\n")
    others = {
        "logs/1/launcher.log": str(log),
        "reports/demo.1.report.tar.gz": str(log),
        "logs/1/gone.log": str(bench.root / "gone"),
    }
    for _ in range(2):
        bench.work(bench.job(others=others))
    assert bench.bucket()["runs/demo/logs/1/launcher.log"] == b"the last words\n"
    assert bench.bucket()["runs/demo/reports/demo.1.report.tar.gz"] == b"the last words\n"
    assert bench.server.received["runs/demo/logs/1/launcher.log"] == len("the last words\n")


def test_a_bandwidth_limit_is_kept_over_all_threads(bench: Bench) -> None:
    bench.save(10, large=LARGE)
    told = bench.work(bench.job(10, rate=6_000_000))
    [done] = [line for line in told if line["event"] == "step-done"]
    assert done["seconds"] >= LARGE / 6_000_000 * 0.85
    assert any(line["event"] == "progress" and line["total"] >= LARGE for line in told)


def test_progress_is_ndjson_and_ends_with_done(bench: Bench) -> None:
    bench.save(10)
    told = bench.work(bench.job(10))
    events = [line["event"] for line in told if line["event"] != "progress"]
    assert events == ["started", "manifest", "sending", "verified", "pointed", "step-done", "done"]
    assert json.dumps(told)


def test_it_gives_way_to_the_run(bench: Bench) -> None:
    import psutil

    bench.save(10, large=LARGE)
    reached, go = threading.Event(), threading.Event()

    def wait() -> None:
        reached.set()
        go.wait(60)

    bench.server.faults.add(Fault("stop", call="b2_finish_large_file", on=wait))
    with bench.worker(bench.job(10)) as process:
        assert reached.wait(60)
        nice = psutil.Process(process.pid).nice()
        go.set()
        process.wait(60)
    assert nice == 19


def test_a_key_that_is_refused_is_told_before_a_step_has_been_read(bench: Bench) -> None:
    """A step of 100 GB takes minutes to read; what comes of it is known after the first answer."""
    bench.save(10, large=LARGE)
    refused: Future[Store] = Future()
    refused.set_exception(StoreAuth("The key is refused."))
    read = Path(bench.home.run(bench.layout.run)) / "sync-hashes.json"
    with pytest.raises(StoreAuth):
        work(bench.home, bench.job(10), refused, WorkerOutput())
    assert not read.exists()
