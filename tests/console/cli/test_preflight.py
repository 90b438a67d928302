"""preflight on the command line: one line a check, the codes of check, and nothing done to the
pod.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.console.cli.conftest import Console, Practice

pytestmark = [pytest.mark.long, pytest.mark.beside]

STATES = {"ok", "warning", "blocking", "unknown"}


def test_a_second_start_over_a_run_that_trains_is_refused_with_all_that_it_would_meet(
    trained: Practice,
) -> None:
    words = (
        "preflight",
        "--pod",
        "pod-a",
        "--config",
        "configs/rl.toml",
        "--trainer",
        trained.trainer,
        "--run",
        "demo",
    )
    done = trained(*words, "--json", timeout=180)
    told = done.json
    assert (done.code, told["code"], told["status"], done.err) == (2, 2, "CRITICAL", "")
    by_id = {check["id"]: check for check in told["checks"] if check["state"] == "blocking"}
    assert {"run-dir-collision", "port-in-use"} <= by_id.keys() <= set(told["blocking"])
    assert "bs4-console stop --pod pod-a --run demo" in by_id["port-in-use"]["fix"]
    assert by_id["port-in-use"]["playbook"] == "port-in-use"
    assert {check["state"] for check in told["checks"]} <= STATES
    if trained.pod.library is not None:
        assert "of the running demo" in by_id["stale-gpu-process"]["why"]


def test_the_same_as_text_for_the_pod_alone(trained: Practice) -> None:
    done = trained("preflight", "--pod", "pod-a", timeout=180)
    *lines, summary = done.out.splitlines()
    assert [
        line for line in lines if line.startswith("ok       training environment (uv-missing): ")
    ]
    assert summary.startswith({0: "OK", 1: "WARNING", 2: "CRITICAL", 3: "UNKNOWN"}[done.code])
    assert "config" not in done.out


def test_the_trainers_source_on_the_pod_is_held_against_what_is_believed(
    trained: Practice,
) -> None:
    """The miniature has files of the real trainer's names, and hardly a line of it."""
    words = ("trainers", "check", "--pod", "pod-a", "--trainer", trained.trainer)
    done = trained(*words, "--json")
    told = done.json
    assert (done.code, told["code"], told["trainer"], done.err) == (3, 3, trained.trainer, "")
    assert (told["pod"], Path(told["path"]).name) == ("pod-a", "site-packages")
    assert told["counts"]["holds"] < 10 < told["counts"]["unknown"]
    done = trained(*words, "--cwd", "elsewhere")
    assert (done.code, done.out) == (2, "")
    assert f"elsewhere on pod-a is no checkout of {trained.trainer}" in done.sentence


def test_half_a_start_is_a_usage_error_in_the_codes_of_check(trained: Practice) -> None:
    done = trained("preflight", "--pod", "pod-a", "--config", "configs/rl.toml")
    assert done.code == 3
    assert "go together" in done.sentence


def test_a_pod_that_cannot_be_reached_is_unknown(console: Console, trained: Practice) -> None:
    console.add("gone", "127.0.0.1", 1, "root", trained.pod.key_path)
    done = console("preflight", "--pod", "gone")
    assert (done.code, done.out) == (3, "")
    assert "refuses connections" in done.sentence


def test_lint_asks_the_trainers_own_classes_on_the_pod(trained: Practice, tmp_path: Path) -> None:
    """What the installed trainer refuses is refused with its line; the run that trains there
    notices nothing.
    """
    file = tmp_path / "mine.toml"
    file.write_text(
        trained.pod.config_path.read_text().replace(
            "[orchestrator]", "[orchestrator]\nno_such_key = 1", 1
        )
    )
    line = file.read_text().split("\n").index("no_such_key = 1") + 1
    told = trained(
        "config",
        "lint",
        str(file),
        "--trainer",
        trained.trainer,
        "--pod",
        "pod-a",
        "--json",
        timeout=180,
    ).json
    assert told["coverage"]["schema"] == "trainer"
    assert told["coverage"]["detail"].endswith("RLConfig")
    assert line in [item["line"] for item in told["findings"] if item["level"] == "error"]
    alone = trained(
        "config",
        "lint",
        str(file),
        "--trainer",
        trained.trainer,
        "--pod",
        "pod-a",
        "--component",
        "eval",
        "--json",
        timeout=180,
    )
    assert alone.json["coverage"]["schema"] == "shipped"
    assert "cannot be imported" in alone.json["coverage"]["detail"]
    assert not (trained.pod.project / "outputs" / ".pydantic_config").exists()
