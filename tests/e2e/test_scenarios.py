"""The demo command keeps its word: unfixed it stays broken, without its playbook it fails, and what
cannot happen says so.
"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import bs4_practice as demo
from bs4_console import assets
from bs4_console.errors import NotApplicableError, UsageError
from bs4_console.failures import playbooks
from bs4_console.transport import bundle
from bs4_console.transport.ssh import SshTransport
from bs4_practice import play, stage
from bs4_practice.scenarios import BOTH, SCENARIOS, choose

pytestmark = pytest.mark.beside

OLD, NEW = "prime-rl-2026-01", "prime-rl"
MINIATURE = Path(demo.__file__).parent / "miniature"


def command(*words: str, timeout: float = 280) -> subprocess.CompletedProcess[str]:
    argv = [
        sys.executable,
        "-c",
        "import sys; from bs4_console.cli.main import main; sys.exit(main())",
        "demo",
        *words,
    ]
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=timeout, check=False, stdin=subprocess.DEVNULL
    )


def test_a_scenario_that_cannot_happen_ends_with_2_and_says_where_it_can() -> None:
    done = command("--scenario", "step-desync", "--trainer", NEW, "--headless")
    assert done.returncode == 2
    assert "cannot happen with prime-rl" in done.stderr
    assert OLD in done.stderr


def test_an_unknown_scenario_ends_with_2() -> None:
    done = command("--scenario", "no-such-thing", "--headless")
    assert done.returncode == 2
    assert "There is no scenario 'no-such-thing'" in done.stderr
    with pytest.raises(UsageError) as refused:
        choose("no-such-thing", OLD)
    assert refused.value.next_step == "`bs4-console demo --list` names all."
    with pytest.raises(UsageError) as refused:
        choose("step-desyncs", OLD)
    assert refused.value.next_step.startswith("Close to it: step-desync")


def test_random_is_decided_by_its_seed_and_fits_the_trainer() -> None:
    for trainer in BOTH:
        chosen = [choose("random", trainer, seed) for seed in range(60)]
        assert chosen == [choose("random", trainer, seed) for seed in range(60)]
        assert all(trainer in scenario.trainers for scenario in chosen)
        assert {s.name for s in chosen} == {
            s.name for s in SCENARIOS.values() if trainer in s.trainers
        }
    with pytest.raises(NotApplicableError):
        choose("step-desync", NEW)


def test_no_scenario_is_named_in_the_miniature() -> None:
    names = {
        word
        for name, scenario in SCENARIOS.items()
        for word in (*name.split("/"), scenario.failure)
        if "-" in word
    }
    assert len(names) >= 4
    texts = {path: path.read_text() for path in MINIATURE.rglob("*.py")}
    assert texts
    found = [
        (path.name, name)
        for path, text in texts.items()
        for name in names
        if name in text or name.replace("-", "_") in text
    ]
    assert found == []


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("name", "trainer"), [("step-desync", OLD), ("vllm-silent-death", NEW)])
def test_without_the_fix_it_stays_broken(name: str, trainer: str) -> None:
    done = command("--scenario", name, "--trainer", trainer, "--no-fix", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["failure_id"], report["recovered"], report["recovered_s"]) == (name, False, None)
    assert report["steps"]
    assert report["steps_after"] <= report["steps_before"] + 1


@pytest.mark.long
@pytest.mark.timeout(400)
def test_random_with_a_seed_plays_to_a_recovery() -> None:
    done = command("--scenario", "random", "--seed", "5", "--trainer", OLD, "--json", timeout=380)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["scenario"] == choose("random", OLD, 5).name
    assert (report["recovered"], report["data_lost"]) == (True, 0)


async def played_without(
    name: str, library: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """The scenario with an agent that was built from the playbooks in `library`."""
    root = assets.checkout()
    if root is None:
        pytest.skip("a bundle with other playbooks is built from a checkout")
    built = bundle.from_checkout(root, playbooks.compile_all(library))
    monkeypatch.setattr(
        stage, "SshTransport", functools.partial(SshTransport, bundle=lambda: built)
    )
    return await play.play(SCENARIOS[name], SCENARIOS[name].trainers[0])


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("deleted", [False, True], ids=["kept", "deleted"])
async def test_the_playbook_file_is_what_detects_and_mends(
    deleted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "playbooks"
    shutil.copytree(assets.find("playbooks"), library)
    if not deleted:
        assert (await played_without("step-desync", library, monkeypatch))["recovered"] is True
        return
    (library / "checkpoint" / "step-desync.yaml").unlink()
    monkeypatch.setattr(play, "DETECT_S", 30.0)  # it takes 12 s where the playbook is there
    with pytest.raises(stage.StageError, match="the incident step-desync did not happen"):
        await played_without("step-desync", library, monkeypatch)
