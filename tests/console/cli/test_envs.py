"""The command `envs`: exact commands of prime and verifiers, run in the right place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bs4_console.cli.main import main

#: Prints its name, its words, the directory, and whether a key came by the environment.
FAKE = """#!/bin/sh
echo "ran ${0##*/} $* in $PWD with ${OPENROUTER_API_KEY:-no key}" > "$SEEN"
exit ${FAKE_EXIT:-0}
"""


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put tools that write down how they were run before all others, and return that file. The
    working directory is no project.
    """
    monkeypatch.setenv("PATH", f"{_tools(tmp_path / 'bin')}:/usr/bin:/bin")
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "seen"


def _tools(directory: Path) -> Path:
    directory.mkdir()
    for name in ("prime", "vf-eval", "uv"):
        (directory / name).write_text(FAKE)
        (directory / name).chmod(0o755)
    return directory


def _argv(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """Return the command that --dry-run prints for `envs WORDS`."""
    assert main(["envs", words[0], "--dry-run", "--json", *words[1:]]) == 0
    argv = json.loads(capsys.readouterr().out)["argv"]
    assert isinstance(argv, list)
    return argv


@pytest.mark.parametrize("verb", ["push", "pull", "list", "info", "install"])
def test_a_verb_of_prime_is_shown_and_run_as_it_was_shown(
    seen: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    given = ("owner/name", "-v", "PRIVATE", "--", "--json")
    assert _argv(capsys, verb, *given) == [
        *("prime", "env", verb, "owner/name", "-v", "PRIVATE", "--json")
    ]
    assert not seen.exists()
    assert main(["envs", verb, *given]) == 0
    assert seen.read_text().startswith(f"ran prime env {verb} owner/name -v PRIVATE --json in ")


def test_a_synthesis_is_started_by_the_trainers_own_program(
    seen: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("pyproject.toml").write_text("[project]\nname = 'prime-rl'\n")
    words = ("synthesize", "configs/synth.toml", "--reasoning-field", "reasoning")
    uv = ["uv", "run", "synthesize", "@", *words[1:]]
    assert main(["envs", *words]) == 2
    assert "Only prime-rl of January 2026 has it." in capsys.readouterr().err
    script = Path(".venv/bin/synthesize")
    script.parent.mkdir(parents=True)
    script.write_text(FAKE)
    script.chmod(0o755)
    assert _argv(capsys, *words) == uv
    assert not seen.exists()
    assert main(["envs", *words]) == 0
    assert seen.read_text().startswith(f"ran {' '.join(uv)} in ")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BS4_CONFIG_DIR", str(tmp_path / "config"))
    assert main(["pods", "add", "here", "local"]) == 0
    there = ["envs", *words, "--pod", "here", "--project", str(Path.cwd())]
    assert main(there) == 0
    assert seen.read_text().startswith("ran uv run --no-sync synthesize @ configs/synth.toml")
    script.unlink()
    assert main(there) == 2


def test_a_project_runs_it_by_uv_and_a_failure_of_the_tool_is_told(
    seen: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert _argv(capsys, "list") == ["uv", "run", "prime", "env", "list"]
    monkeypatch.setenv("FAKE_EXIT", "7")
    assert main(["envs", "list"]) == 1
    assert seen.read_text().startswith("ran uv run prime env list in ")


def test_an_evaluation_of_the_hub_is_hosted(seen: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("eval", "owner/name", "--", "-m", "some/model", "-n", "50")
    assert _argv(capsys, *words) == ["prime", "eval", "run", "--hosted", "owner/name", *words[3:]]
    assert not seen.exists()


def test_tools_of_verifiers_and_those_that_it_no_longer_has(
    seen: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["envs", "vf", "eval", "my-env", "--", "-n", "5"]) == 0
    assert seen.read_text().startswith("ran vf-eval my-env -n 5 in ")
    capsys.readouterr()
    for tool, instead in (("setup", "vf-init"), ("tui", "runs evals"), ("replay", "uv add")):
        assert main(["envs", "vf", tool]) == 2
        told = capsys.readouterr().err
        assert f"vf-{tool} is not installed on this machine." in told
        assert instead in told


EVALUATE = ["envs", "evaluate", "my-env", "--model", "some/model", "--price", "1", "2"]


def test_an_evaluation_shows_its_price_first_and_is_run_with_the_key_in_the_environment_alone(
    seen: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = [*EVALUATE, "--budget", "6", "--examples", "50", "--turns", "10"]
    assert main([*small, "--yes"]) == 2
    assert "OPENROUTER_API_KEY is not set." in capsys.readouterr().err
    monkeypatch.setenv("OPENROUTER_API_KEY", "canary-of-a-key")
    assert main(small) == 4
    assert not seen.exists()
    assert main([*small, "--yes"]) == 0
    told = capsys.readouterr()
    assert "$1 in and $2 out" in told.out
    assert "$6.00 of a budget of $6.00" in told.out
    assert "canary" not in told.out + told.err
    ran, _, key = seen.read_text().partition(" with ")
    assert key.strip() == "canary-of-a-key"
    assert ran.startswith(
        "ran vf-eval my-env --model some/model --client.base-url https://openrouter.ai/api/v1 "
        "--client.api-key-var OPENROUTER_API_KEY --select.limit 50 --num-rollouts 1 "
        "--sampling.max-tokens 4000 --output-dir outputs --no-push in "
    )


def test_an_evaluation_over_its_budget_or_without_a_price_is_not_begun(
    seen: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "canary-of-a-key")
    assert main([*EVALUATE, "--budget", "5.99", "--yes"]) == 4
    assert "it may cost $6.00, and the budget is $5.99" in capsys.readouterr().err
    assert main([*EVALUATE, "--budget", "nan", "--yes"]) == 4
    assert main([*EVALUATE, "--budget", "9", "--price", "nan", "1", "--yes"]) == 2
    assert main([*EVALUATE, "--budget", "9", "--price", "-9", "1", "--yes"]) == 2
    capsys.readouterr()
    assert main(["envs", "evaluate", "my-env", "--model", "no/body", "--budget", "9", "--yes"]) == 2
    assert "--price IN OUT" in capsys.readouterr().err
    assert not seen.exists()


def test_on_a_pod_it_runs_in_the_checkout_and_changes_no_package(
    seen: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BS4_CONFIG_DIR", str(tmp_path / "config"))
    assert main(["pods", "add", "here", "local"]) == 0
    checkout = tmp_path / "checkout"
    words = ["envs", "install", "--pod", "here", "--project", str(checkout), "owner/name"]
    assert main(words) == 2
    assert "has no directory" in capsys.readouterr().err
    checkout.mkdir()
    assert main(words) == 0
    told = seen.read_text()
    assert told.startswith("ran uv run --no-sync prime env install owner/name in ")
    assert f"in {checkout} with" in told
    (tmp_path / "bin" / "prime").unlink()
    assert main(words) == 2
    assert "prime is not installed on here. Install it" in capsys.readouterr().err
    assert main(["--read-only", *words]) == 4
