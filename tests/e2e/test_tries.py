"""Every failure that can be practised, in every generation where it applies: broken by its
mechanism, named, mended, training again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bs4_console.assets import find
from bs4_practice.scenarios import SCENARIOS
from bs4_practice.tries import TRIES

RECORD = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "tries.json"
#: What benchmarks/tries.py, which tries all, last saw recover: seconds by failure and trainer.
PROVEN: dict[tuple[str, str], float] = {
    (row["scenario"], row["trainer"]): row["wall_s"]
    for row in json.loads(RECORD.read_text())["tries"]
    if row["recovered"]
}
#: The folder of a failure's playbook.
FAMILY = {path.stem: path.parent.name for path in find("playbooks").rglob("*.yaml")}

pytestmark = pytest.mark.beside


def generation(name: str) -> str:
    """Return the trainer that a failure is tried on: the first that is known to recover, else the
    first.
    """
    trainers = TRIES[name].trainers
    proven = [trainer for trainer in trainers if (name, trainer) in PROVEN]
    return (proven or trainers)[0]


def quickest_of_each_family(names: list[str]) -> set[str]:
    """Return one failure for each family of playbooks: the long suite's share of the round."""
    by_duration = sorted(names, key=lambda name: PROVEN.get((name, generation(name)), 600.0))
    chosen: dict[str, str] = {}
    for name in by_duration:
        chosen.setdefault(FAMILY[TRIES[name].failure], name)
    return set(chosen.values())


#: The others are tried as scenarios already.
NAMES = [name for name in TRIES if name not in SCENARIOS]
SHORT = quickest_of_each_family(NAMES)


def try_of(name: str) -> Any:
    """Return the parameters of one try, marked for `make test-long` or for `make test-rounds`."""
    mark = pytest.mark.long if name in SHORT else pytest.mark.rounds
    trainer = generation(name)
    return pytest.param(name, trainer, marks=mark, id=f"{name}-{trainer}")


def command(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [
        sys.executable,
        "-c",
        "import sys; from bs4_console.cli.main import main; sys.exit(main())",
        "playbook",
        "try",
        *words,
    ]
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=600, check=False, stdin=subprocess.DEVNULL
    )


def tried(name: str, trainer: str) -> dict[str, Any]:
    done = command(name, "--trainer", trainer, "--json")
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == 0, report
    return report


@pytest.mark.timeout(660)
@pytest.mark.parametrize(("name", "trainer"), [try_of(name) for name in NAMES])
def test_it_is_named_and_trains_again(name: str, trainer: str) -> None:
    if missing := TRIES[name].needs():
        pytest.skip(missing)
    report = tried(name, trainer)
    assert report["schema"] == "bs4.playbook-try/1"
    assert (report["failure_id"], report["recovered"]) == (TRIES[name].failure, True)
    assert report["steps_after"] >= 0
    assert report["data_lost"] == 0
    assert report["fixed_by"] == ("playbook" if report["plan_hash"] else "person")


@pytest.mark.long
@pytest.mark.timeout(660)
def test_left_alone_it_stays_broken() -> None:
    done = command("rank-sigkill", "--no-fix", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["recovered"], report["fixed_by"], report["recovered_s"]) == (
        False,
        "nobody",
        None,
    )


@pytest.mark.long
def test_what_cannot_be_practised_ends_with_2_and_names_what_can() -> None:
    done = command("gpu-xid-ecc")
    assert done.returncode == 2
    assert "cannot be practised" in done.stderr
    assert "port-in-use" in done.stderr
    done = command("env-server-dead", "--trainer", "prime-rl-2026-01")
    assert done.returncode == 2
    assert "prime-rl" in done.stderr


@pytest.mark.long
def test_without_an_id_it_lists_them() -> None:
    done = command("--json")
    listed = {entry["failure_id"] for entry in json.loads(done.stdout)["tries"]}
    assert done.returncode == 0
    assert len(listed) > 40
