"""What a run was launched with is kept, compared and written again: on a practice pod."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bs4_console.run_log.config_texts import digest_of
from tests.console.cli.conftest import Practice, practising

pytestmark = [pytest.mark.long, pytest.mark.beside]


@pytest.fixture
def pod() -> Iterator[Practice]:
    with practising("prime-rl-2026-01", "versions") as on:
        yield on


def stop(on: Practice, run: str) -> None:
    done = on("stop", "--pod", "versions", "--run", run, "--confirm", run)
    assert done.code == 0, done


def saved(on: Practice, run: str) -> None:
    """Wait until the run has a checkpoint from which it can go on. The next one is ten steps away,
    so that a stop now does not leave half of it.
    """
    words = ("checkpoints", "list", "--pod", "versions", "--run", run, "--json")
    deadline = time.monotonic() + 300
    while on(*words).json["resumable"] is None:
        assert time.monotonic() < deadline, on(*words)


def commit_all(place: Path) -> str:
    """Make a checkout of a directory, and return its commit."""
    identity = ("-c", "user.name=tester", "-c", "user.email=tester@example.org")
    for words in (("init", "--quiet"), ("commit", "--quiet", "--allow-empty", "-m", "one")):
        subprocess.run(["git", "-C", str(place), *identity, *words], check=True)
    asked = ["git", "-C", str(place), "rev-parse", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def test_a_config_is_kept_compared_and_written_again(pod: Practice, tmp_path: Path) -> None:
    config = pod.pod.home / "prime-rl" / "configs" / "rl.toml"
    first = config.read_text().replace("interval = 5\n", "interval = 10\n")
    config.write_text(first)
    assert pod.launch("demo").code == 0
    (kept,) = (pod.console.data / "runlog" / "configs").iterdir()
    assert [file.name for file in kept.iterdir()] == [f"{digest_of(first)}.toml"]
    saved(pod, "demo")
    stop(pod, "demo")
    # Only one config so far: there is no earlier one to go back to.
    output = tmp_path / "back.toml"
    done = pod("runs", "rollback", "demo", "--output", str(output))
    assert (done.code, output.exists()) == (2, False)
    assert "one config only" in done.sentence

    second = first.replace("batch_size = ", "oversampling_factor = 2.0\nbatch_size = ", 1)
    assert second != first
    config.write_text(second)
    commit = commit_all(pod.pod.home / "prime-rl")
    assert pod.launch("demo").code == 0
    stop(pod, "demo")
    assert len(list(kept.iterdir())) == 2
    run = pod("runs", "show", "demo", "--json").json["run"]
    digests = [attempt["config_digest"] for attempt in run["attempts"]]
    assert digests == [digest_of(first), digest_of(second)]
    assert run["attempts"][1]["versions"]["python"]
    assert [attempt["commit"] for attempt in run["attempts"]] == ["", commit]
    assert "H100" in run["attempts"][1]["hardware"]["gpus"]

    # The file is changed once more and nothing is launched with it: it is no version of the run.
    config.write_text("max_steps = 3\n")
    done = pod("runs", "rollback", "demo", "--output", str(output))
    assert done.code == 0, done
    assert output.read_text() == first
    assert "-oversampling_factor = 2.0" in done.out
    again = pod("runs", "rollback", "demo", "--to", "2", "--output", str(output))
    assert again.code == 4
    assert "--force" in again.sentence
    assert output.read_text() == first
    assert "+oversampling_factor = 2.0" in again.out, "the difference is shown first"
    told = pod(
        "runs", "rollback", "demo", "--to", "2", "--output", str(output), "--force", "--json"
    ).json
    assert (told["attempt"], told["redacted"]) == (2, False)
    assert output.read_text() == second
    assert pod("runs", "rollback", "demo", "--to", "v9", "--output", str(output)).code == 2
    read_only = ("--read-only", "runs", "rollback", "demo", "--output", str(tmp_path / "no.toml"))
    assert pod(*read_only).code == 4
    assert not (tmp_path / "no.toml").exists()

    config.write_text(first)
    done = pod.launch("other", "--output-dir", "outputs2")
    assert done.code == 0, done
    found = pod("runs", "compare", "demo", "other", "--json").json["rows"]
    rows = {(row["part"], row["key"]): row for row in found}
    setting = rows["settings", "orchestrator.oversampling_factor"]
    assert (setting["values"], setting["differs"]) == ([2.0, None], True)
    assert rows["hardware", "gpus"]["differs"] is False
    assert not any(row["part"] == "packages" and row["differs"] for row in found)
    text = pod("runs", "compare", "demo", "other").out
    assert "orchestrator.oversampling_factor" in text

    # Without the kept texts it is still known that the configs differ, and not in what.
    for file in kept.iterdir():
        file.unlink()
    stop(pod, "other")
    config.write_text("max_steps = 3\n")
    done = pod("runs", "rollback", "demo", "--to", "1", "--output", str(tmp_path / "gone.toml"))
    assert done.code == 2
    assert "was not kept" in done.sentence
    found = pod("runs", "compare", "demo", "other", "--json").json["rows"]
    (row,) = [row for row in found if row["key"] == "config values"]
    assert row["differs"]
    assert "was not kept" in row["why"]
