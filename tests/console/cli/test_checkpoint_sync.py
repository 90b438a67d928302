"""`checkpoints remote` and `prune` against a store over real HTTP, and what `sync` refuses before
anything is asked.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bs4_agent.paths import Home
from bs4_agent.setup.credentials import store as store_credential
from bs4_common.checkpoints.sync_view import SyncView
from bs4_console.checkpoints import sync
from bs4_console.cli.main import main
from bs4_console.pods.state import PodState
from bs4_console.run_log import record_fold
from bs4_practice.b2.server import B2Server
from tests.agent.checkpoints.remote.bench import BUCKET, PREFIX, Bench, pointed
from tests.console.cli.conftest import practising

pytestmark = [pytest.mark.long, pytest.mark.beside]

PLACE = f"b2://{BUCKET}/{PREFIX}"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    for name in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"BS4_{name}_DIR", str(tmp_path / name))
    with B2Server(tmp_path / "b2") as server:
        made = Bench(tmp_path, server)
        monkeypatch.setenv("BS4_B2_REALM", server.url)
        monkeypatch.setenv("B2_APPLICATION_KEY_ID", made.key.id)
        monkeypatch.setenv("B2_APPLICATION_KEY", made.key.secret)
        yield made


def _steps(bench: Bench, *steps: int) -> None:
    for step in steps:
        bench.save(step)
        bench.push(step)


def _run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    try:
        code = main(["checkpoints", *words])
    except SystemExit as ended:
        code = int(str(ended.code))
    said = capsys.readouterr()
    return code, said.out, said.err


def test_what_is_in_the_bucket(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    _steps(bench, 5, 10)
    bench.store().write(bench.layout.manifest(15), b"{half")
    code, out, _ = _run(capsys, "remote", "--from", PLACE, "--run", "demo", "--json")
    found = json.loads(out)
    assert (code, found["schema"], found["pointer"]) == (0, "bs4.remote/1", 10)
    assert [(one["step"], one["complete"], one["pointed"]) for one in found["steps"]] == [
        (5, True, False),
        (10, True, True),
        (15, False, False),
    ]
    assert found["steps"][0]["wandb"] == {"trainer": "t1", "orchestrator": "o1"}
    code, out, _ = _run(capsys, "remote", "--from", PLACE, "--run", "demo")
    assert code == 0
    assert "the pointer names step 10" in out
    assert "10 *" in out


def test_pruning_is_shown_first_and_confirmed_by_its_hash(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    _steps(bench, 5, 10, 15, 20)
    words = ["prune", "--from", PLACE, "--run", "demo", "--keep", "2", "--milestones", "10"]
    code, out, _ = _run(capsys, *words, "--plan", "--json")
    plan = json.loads(out)
    assert (code, [one["step"] for one in plan["remove"]]) == (0, [5])
    assert plan["kept"] == {
        "10": "a milestone",
        "15": "one of the newest",
        "20": "the pointer names it",
    }
    assert bench.pointed() == 20
    code, _, err = _run(capsys, *words, "--json")
    assert code == 4
    assert plan["plan_hash"] in err
    code, _, err = _run(capsys, *words, "--plan", "0" * 64)
    assert (code, "has changed since" in err) == (4, True)
    code, out, _ = _run(capsys, *words, "--plan", plan["plan_hash"], "--json")
    assert (code, json.loads(out)["removed"]) == (0, [5])
    code, out, _ = _run(capsys, *words, "--plan")
    assert (code, "Nothing would go" in out) == (0, True)


def _keeping_the_best(
    name: str, began: float, values: Mapping[int, float], place: str = PLACE, resume: int = 0
) -> PodState:
    """A pod with a run that is copied to `place` and keeps its best step, as it was last read."""
    pod = PodState(name=name)
    stamp = {"t": began, "m": 1.0, "b": "boot", "run": "demo"}
    started = {**stamp, "type": "run", "event": "attempt-started", "attempt": 1}
    pod.apply_journal({**stamp, "type": "run", "event": "registered"})
    pod.apply_journal({**started, "resume": resume or None})
    pod.apply_journal({**stamp, "type": "order", "last": 2, "at_least": 2, "best": "acc"})
    pod.apply_journal({**stamp, "type": "sync", "event": "ordered", "to": place})
    for step, value in values.items():
        row = {**stamp, "attempt": 1, "side": "eval:acc", "step": step, "val": value}
        pod.apply_step("demo", row)
    return pod


def test_the_best_step_of_a_run_with_such_an_order_stays_and_the_plan_says_so(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    began = time.time()
    _steps(bench, 5, 10, 15, 20)
    pod = _keeping_the_best("a", began, {5: 0.9, 10: 0.2, 15: 0.3, 20: 0.4})
    monkeypatch.setattr(record_fold, "mirrored", lambda: [pod])
    words = ["prune", "--from", PLACE, "--run", "demo", "--keep", "2"]
    plan = json.loads(_run(capsys, *words, "--plan", "--json")[1])
    assert [one["step"] for one in plan["remove"]] == [10]
    assert plan["kept"]["5"] == "the best by acc; the order on a keeps the best"
    code, out, _ = _run(capsys, *words, "--plan", plan["plan_hash"], "--json")
    assert (code, json.loads(out)["removed"]) == (0, [10])


def test_only_the_pod_where_the_run_began_last_says_what_stays(bench: Bench) -> None:
    """The pod before it does not know the values of the steps that came after, and kept each."""
    began = time.time()
    _steps(bench, 50, 100)
    moved = time.time()
    _steps(bench, 110, 120, 130, 140, 150)
    first = _keeping_the_best("a", began, {50: 0.9, 100: 0.2})
    values = {110: 0.3, 120: 0.7, 130: 0.4, 140: 0.5, 150: 0.5}
    now = _keeping_the_best("b", moved, values, resume=100)
    elsewhere = _keeping_the_best("c", time.time(), {}, "b2://bucket-two/x")

    def removed(*pods: PodState) -> list[int]:
        place = sync.place_of(f"{PLACE}/")
        decision = sync.plan_prune(bench.store(), place, "demo", 2, 0, pods).decision
        return [one.step for one in decision.remove]

    assert removed(now) == [110, 130]
    assert removed(first, now, elsewhere) == removed(elsewhere, now, first) == [110, 130]


def test_a_plan_that_is_stale_removes_nothing(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    _steps(bench, 5, 10, 15)
    words = ["prune", "--from", PLACE, "--run", "demo", "--keep", "2"]
    plan = json.loads(_run(capsys, *words, "--plan", "--json")[1])
    _steps(bench, 20)
    assert _run(capsys, *words, "--plan", plan["plan_hash"])[0] == 4
    assert len(sync.scan(bench.store(), sync.place_of(PLACE), "demo").whole) == 4


def test_what_is_half_up_of_old_steps_goes_with_them(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    session, bucket = bench.store()._session, bench.store()._bucket
    for step in (1, 15):
        session.start_large_file(
            bucket.id_, bench.layout.file(step, "x"), "application/octet-stream", {}
        )
    _steps(bench, 5, 10, 15)
    plan = json.loads(
        _run(capsys, "prune", "--from", PLACE, "--run", "demo", "--keep", "2", "--plan", "--json")[
            1
        ]
    )
    assert (
        _run(
            capsys,
            "prune",
            "--from",
            PLACE,
            "--run",
            "demo",
            "--keep",
            "2",
            "--plan",
            plan["plan_hash"],
        )[0]
        == 0
    )
    assert [entry.name for entry in bench.store().unfinished(bench.layout.root)] == [
        bench.layout.file(15, "x")
    ]


def test_the_console_prunes_what_a_pod_has_saved_that_may_not(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    pods = bench.server.key("listBuckets", "listFiles", "readFiles", "writeFiles")
    for step in (5, 10, 15):
        bench.save(step)
        bench.push(step, store=bench.store(pods))
    words = ["prune", "--from", PLACE, "--run", "demo", "--keep", "2"]
    plan = json.loads(_run(capsys, *words, "--plan", "--json")[1])
    assert _run(capsys, *words, "--plan", plan["plan_hash"])[0] == 0
    assert not any("/step_5/" in name for name in bench.bucket())
    assert bench.pointed() == 15


@pytest.mark.parametrize("where", ["", "checkpoints/"])
def test_what_older_scripts_left_is_shown(
    bench: Bench, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    store = bench.store()
    for name in (
        "step_45/trainer/__0_0.distcp",
        "step_45/trainer/.metadata",
        "step_50/trainer/__0_0.distcp",
    ):
        store.write(f"{PREFIX}/demo/{where}{name}", b"left")
    if not where:
        store.write(
            f"{PREFIX}/demo/latest.json",
            b'{"step": "step_45", "run_id": "demo", "wandb_run_id": "", "timestamp": ""}',
        )
    code, out, _ = _run(capsys, "remote", "--from", PLACE, "--run", "demo", "--json")
    found = json.loads(out)
    assert (code, found["steps"], found["pointer"]) == (0, [], None if where else 45)
    assert [(one["step"], one["missing"]) for one in found["older"]] == [
        (45, ""),
        (50, "no .metadata"),
    ]
    code, out, _ = _run(capsys, "remote", "--from", PLACE, "--run", "demo")
    assert (code, "left by older scripts" in out, f"{PREFIX}/demo/{where}step_45/" in out) == (
        0,
        True,
        True,
    )


def test_a_key_that_may_not_delete_is_told(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _steps(bench, 5, 10, 15)
    bench.key.capabilities = ("listBuckets", "listFiles", "readFiles", "writeFiles")
    plan = json.loads(
        _run(capsys, "prune", "--from", PLACE, "--run", "demo", "--keep", "2", "--plan", "--json")[
            1
        ]
    )
    code, _, err = _run(
        capsys,
        "prune",
        "--from",
        PLACE,
        "--run",
        "demo",
        "--keep",
        "2",
        "--plan",
        plan["plan_hash"],
    )
    assert (code, "deleteFiles" in err) == (1, True)


@pytest.mark.parametrize("way", ["stdin", "file"])
def test_the_key_may_come_otherwise(
    way: str, bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _steps(bench, 5)
    monkeypatch.delenv("B2_APPLICATION_KEY_ID")
    monkeypatch.delenv("B2_APPLICATION_KEY")
    words = ["remote", "--from", PLACE, "--run", "demo"]
    code, _, err = _run(capsys, *words)
    assert (code, "No key for the store" in err) == (2, True)
    if way == "stdin":
        lines = f"B2_APPLICATION_KEY_ID={bench.key.id}\nB2_APPLICATION_KEY={bench.key.secret}\n"
        monkeypatch.setattr("sys.stdin", io.StringIO(lines))
        words += ["--credentials", "-"]
    else:
        path = bench.root / "CONFIG" / "b2.json"
        path.parent.mkdir()
        path.write_text(json.dumps({"key_id": bench.key.id, "key": bench.key.secret}))
        path.chmod(0o644)
        code, _, err = _run(capsys, *words)
        assert (code, "chmod 600" in err) == (2, True)
        path.chmod(0o600)
    code, out, err = _run(capsys, *words)
    assert code == 0
    assert bench.key.secret not in out + err


def test_a_store_that_refuses_and_one_without_the_run(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = _run(capsys, "remote", "--from", PLACE, "--run", "other")
    assert (code, "Nothing of other is in" in err) == (1, True)
    code, _, err = _run(capsys, "remote", "--from", "b2://no-such-bucket", "--run", "demo")
    assert (code, "is not in the store" in err) == (1, True)
    monkeypatch.setenv("B2_APPLICATION_KEY", "wrong-wrong")
    code, _, err = _run(capsys, "remote", "--from", PLACE, "--run", "demo")
    assert (code, "refuses this key" in err) == (1, True)
    assert "wrong-wrong" not in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["remote", "--from", "s3://x", "--run", "demo"], "b2://BUCKET"),
        (["prune", "--from", PLACE, "--run", "demo", "--keep", "1"], "At least 2"),
        (["sync", "--pod", "a", "--run", "demo"], "one of the arguments"),
        (["sync", "--pod", "a", "--run", "demo", "--to", "nowhere"], "b2://BUCKET"),
        (["sync", "--pod", "a", "--run", "demo", "--to", PLACE, "--off"], "not allowed with"),
    ],
)
def test_what_makes_no_sense(
    words: list[str], said: str, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    _steps(bench, 5)
    code, _, err = _run(capsys, *words)
    assert code == 2
    assert said in err


def test_a_sync_in_one_line() -> None:
    view = SyncView()

    def told(event: str, t: float, **fields: object) -> None:
        view.apply({"event": event, "t": t, **fields})

    told("ordered", 0.0, to=PLACE, once=False)
    assert sync.line(view, 10.0) == "nothing is in the store yet"
    told("started", 10.0, step=45, bytes=4 << 30)
    told("progress", 20.0, step=45, done=1 << 30, total=4 << 30, rate=50 << 20)
    told("pointed", 30.0, step=40)
    assert sync.line(view, 210.0).startswith("step 40 is in the store since 3m")
    assert "step 45: " in sync.line(view, 210.0)
    told("failed", 220.0, error="store-full", detail="the storage cap is reached; raise it.")
    assert sync.line(view, 230.0).endswith(
        "1 failure in a row: the storage cap is reached; raise it."
    )
    told("due", 231.0, steps=[50, 100])
    told("missed", 232.0, steps=[50])
    assert "; milestone 50 was not uploaded and is gone from the pod; " in sync.line(view, 235.0)
    told("missed", 233.0, steps=[100])
    assert "milestones 50, 100 were not uploaded and are gone" in sync.line(view, 235.0)
    told("ordered", 240.0, to=None)
    assert sync.line(view, 250.0) == "not synced any more"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_pod_is_told_by_the_command_line(tmp_path: Path) -> None:
    """From a pod that has no b2sdk to a checkpoint in the bucket, and the order taken back."""
    with B2Server(tmp_path / "b2") as server:
        server.bucket(BUCKET)
        key = server.key()
        with practising("prime-rl", "syncing", env={"BS4_B2_REALM": server.url}) as pod:
            assert pod.launch().code == 0
            words = ("checkpoints", "sync", "--pod", "syncing", "--run", "demo")
            assert pod(*words, "--status").out.startswith("demo is not synced; order it with")
            refused = pod(*words, "--to", PLACE, "--once")
            assert (refused.code, "bs4-console pods setup" in refused.out) == (1, True), refused
            assert "uploading b2sdk" in refused.err
            waiting = pod(*words, "--to", PLACE)
            assert waiting.code == 1, waiting
            assert "waits. There is no key for the store on this pod" in waiting.out
            store_credential(
                "b2", {"key_id": key.id, "key": key.secret}, Home(pod.pod.home / ".bs4")
            )
            done = pod(*words, "--to", PLACE, "--once", timeout=120)
            assert done.code == 0, done
            assert "uploading b2sdk" not in done.err
            assert pointed(server) is not None
            found = pod(*words, "--status", "--json").json
            assert (found["to"], found["failures"]) == (None, 0)
            assert found["pointer"] == pointed(server)
            assert pod(*words, "--to", PLACE, "--every", "1000").code == 0
            assert pod(*words, "--off").code == 0
            assert "not synced any more" in pod(*words, "--status").out
            assert (
                pod(
                    "checkpoints", "sync", "--pod", "syncing", "--run", "nobody", "--to", PLACE
                ).code
                == 2
            )
