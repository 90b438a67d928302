"""The catalog of tries: what it promises without starting a pod, and the faults it is made of, on
processes of the test's own.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import benchmarks.tries as benchmark
import pytest

import bs4_practice as demo
from bs4_console.errors import NotApplicableError, UsageError
from bs4_console.failures.playbooks import lint
from bs4_practice import disks, limits, tree
from bs4_practice.scenario import BOTH, VERL
from bs4_practice.scenarios import SCENARIOS
from bs4_practice.tries import TRIES, UNTRIED, choose, failures, summary

MINIATURE = Path(demo.__file__).parent / "miniature"


def test_more_than_forty_failures_can_be_tried_and_each_is_in_the_catalog() -> None:
    known = {playbook["id"]: playbook for playbook in lint()[0]}
    assert len(failures()) > 40
    assert [name for name in failures() if name not in known] == []
    assert all(name == scenario.name for name, scenario in TRIES.items())
    assert set(SCENARIOS) <= set(TRIES)


def test_a_try_is_only_for_trainers_to_which_its_playbook_applies() -> None:
    from bs4_common.trainers.registry import named

    applies = {p["id"]: named(p["applies"]) for p in lint()[0]}
    wrong = [(s.name, t) for s in TRIES.values() for t in s.trainers if t not in applies[s.failure]]
    assert wrong == []
    assert all(
        trainer in (*BOTH, VERL) for scenario in TRIES.values() for trainer in scenario.trainers
    )


def test_each_failure_of_verl_alone_is_tried_or_said_why_not() -> None:
    own = {p["id"] for p in lint()[0] if list(p["applies"]) == [VERL]}
    assert len(own) > 12
    assert own - set(failures()) == set(UNTRIED)
    with pytest.raises(UsageError, match="there is no vLLM here"):
        choose("verl-vllm-arch", None)


def test_no_try_is_named_in_the_miniature() -> None:
    names = {
        word
        for name, scenario in TRIES.items()
        for word in (*name.split("/"), scenario.failure)
        if "-" in word
    }
    texts = {path.name: path.read_text() for path in MINIATURE.rglob("*.py")}
    assert [
        (n, w)
        for n, text in texts.items()
        for w in names
        if w in text or w.replace("-", "_") in text
    ] == []


def test_a_failure_with_variants_is_found_by_its_id() -> None:
    scenario, trainer = choose("launcher-orphans", None)
    assert (scenario.name, trainer) == ("launcher-orphans", "prime-rl-2026-01")
    assert choose("env-server-dead", None)[1] == "prime-rl"
    with pytest.raises(NotApplicableError):
        choose("env-server-dead", "prime-rl-2026-01")
    with pytest.raises(UsageError, match="cannot be practised"):
        choose("gpu-xid-ecc", None)


def report(**changes: object) -> dict[str, object]:
    base = {
        "scenario": "port-in-use",
        "failure_id": "port-in-use",
        "trainer": "prime-rl",
        "detected_s": 2.0,
        "fixed_by": "person",
        "recovered": True,
        "recovered_s": 3.0,
        "steps_before": -1,
        "steps_after": 4,
        "data_lost": 0,
    }
    return {**base, **changes}


def test_a_report_says_who_mended_it() -> None:
    assert summary(report()) == (
        "port-in-use named after 2.0 s, recovered by the person after 3.0 s; no step when it "
        "broke, step 4 at the end; 0 files lost"
    )
    back = summary(report(steps_before=8, steps_after=1))
    assert "step 8 when it broke, step 1 at the end (the steps between are done again)" in back
    assert "not recovered;" in summary(report(recovered=False, recovered_s=None))


def test_the_page_is_made_from_the_results_alone(tmp_path: Path) -> None:
    kept = tmp_path / "tries.json"
    benchmark.record(report(), kept)
    benchmark.record(report(recovered_s=4.0), kept)
    benchmark.record(
        report(
            scenario="disk-full",
            failure_id="disk-full",
            recovered=False,
            error="no incident",
            fixed_by="",
        ),
        kept,
    )
    results = json.loads(kept.read_text())
    assert len(results["tries"]) == 2, "a second result replaces the first"
    text = benchmark.page(results)
    assert "1 failures in 1 of 2 tries" in text
    assert "| prime-rl | 2.0 s | person | 4.0 s | 0 |" in text
    assert "not: no incident" in text
    assert "* verl-sglang-tuple (" in text


@pytest.fixture
def sleeper() -> tree.Process:
    code = (
        "import sys\nprint(flush=True)\nsys.stdin.readline()\nopen('/dev/null')\nbytearray(1 << "
        "26)\nprint('fine', flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = tree.look(process.pid)
        assert found is not None
        sleeper.process = process  # type: ignore[attr-defined]
        yield found  # type: ignore[misc]
        process.kill()


def outcome() -> tuple[int, str]:
    out, err = sleeper.process.communicate(b"\n", timeout=60)  # type: ignore[attr-defined]
    return sleeper.process.returncode, (out + err).decode()  # type: ignore[attr-defined]


def test_a_process_at_its_limit_of_files_says_so_itself(sleeper: tree.Process) -> None:
    limits.open_files(sleeper)
    code, said = outcome()
    assert code == 1
    assert "[Errno 24] Too many open files" in said


def test_a_process_without_memory_says_so_itself(sleeper: tree.Process) -> None:
    limits.address_space(sleeper)
    code, said = outcome()
    assert code == 1
    assert "MemoryError" in said


def test_a_soft_limit_is_inherited_and_the_hard_one_stays(sleeper: tree.Process) -> None:
    hard = resource.prlimit(sleeper.pid, resource.RLIMIT_NOFILE)[1]
    limits.soft_open_files(sleeper.pid, 64)
    assert resource.prlimit(sleeper.pid, resource.RLIMIT_NOFILE) == (64, hard)


@pytest.mark.skipif(bool(disks.needs_mounts()), reason=disks.needs_mounts() or "mounts work")
def test_a_small_disk_keeps_what_lay_there_and_is_full_when_filled(tmp_path: Path) -> None:
    class Stage:
        def __init__(self):
            self.undone = []

        def afterwards(self, undo):
            self.undone.append(undo)

    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "kept").write_text("x")
    stage = Stage()
    directory = disks.give_own_disk(stage, tmp_path / "d", 2)
    try:
        assert (directory / "kept").read_text() == "x"
        assert directory.stat().st_dev != tmp_path.stat().st_dev
        disks.fill(directory, 0)
        with pytest.raises(OSError, match="No space left on device"):
            (directory / "more").write_bytes(os.urandom(8192))
        disks.remount(directory, "ro")
        with pytest.raises(OSError, match="Read-only file system"):
            (directory / "more").write_text("x")
    finally:
        for undo in stage.undone:
            undo()
    assert directory.stat().st_dev == tmp_path.stat().st_dev
