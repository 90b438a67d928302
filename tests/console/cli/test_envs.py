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
    for name in ("prime", "vf-eval", "uv", "docker", "python3"):
        (directory / name).write_text(FAKE)
        (directory / name).chmod(0o755)
    return directory


def environment(directory: Path) -> Path:
    """Make an environment that can be pushed, and return its directory."""
    directory.mkdir(parents=True)
    (directory / "pyproject.toml").write_text(
        '[project]\nname = "soup"\nversion = "0.1.3"\ndependencies = ["bs4", "lxml>=5"]\n'
    )
    (directory / "soup.py").write_text("def load_environment(): ...\n")
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
    environment(Path("environments/name"))
    given = ("owner/name", "-v", "PRIVATE", "--", "--json")
    assert _argv(capsys, verb, *given) == [
        *("prime", "env", verb, "owner/name", "-v", "PRIVATE", "--json")
    ]
    assert not seen.exists()
    assert main(["envs", verb, *given]) == 0
    assert seen.read_text().startswith(f"ran prime env {verb} owner/name -v PRIVATE --json in ")


def test_what_a_push_would_bring_to_the_hub(seen: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = environment(Path("environments/my_soup"))
    for name in ("data/pages.json", "dist/old.whl", ".git/config", "data/.cache", "notes.txt"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text("{}")
    push = ["envs", "push", "--dry-run", "owner/my-soup", "--auto-bump"]
    assert main([*push, "--json"]) == 0
    package = json.loads(capsys.readouterr().out)["package"]
    assert package["files"] == ["data/pages.json", "pyproject.toml", "soup.py"]
    assert (package["name"], package["version"], package["problems"]) == ("soup", "0.1.3", [])
    assert package["dependencies"] == ["bs4", "lxml>=5"]
    assert [note.partition(" ")[0] for note in package["notes"]] == ["dist/", "The"]
    assert main(push) == 0
    told = capsys.readouterr().out
    assert "$ prime env push owner/my-soup --auto-bump" in told
    assert "soup 0.1.3" in told
    assert "  data/pages.json" in told
    assert not seen.exists()
    assert (here / "dist/old.whl").exists()
    # The same directory by other words of the tool.
    for words in (("my_soup", "--path=environments"), ("-v", "PRIVATE", "-p", str(here))):
        assert main(["envs", "push", "--dry-run", "--json", *words]) == 0
        assert json.loads(capsys.readouterr().out)["package"]["files"] == package["files"]
    assert main(["envs", "push", "--dry-run", "--path"]) == 2


def test_what_is_only_shown_needs_no_tool(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    environment(Path("environments/soup"))
    assert main(["envs", "push", "--dry-run", "soup"]) == 0
    assert "$ prime env push soup" in capsys.readouterr().out
    assert main(["envs", "push", "soup"]) == 2
    assert "prime is not installed on this machine." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("soup.py", None, "There is no Python file."),
        ("pyproject.toml", None, "cannot be read"),
        ("pyproject.toml", "[project", "is no TOML"),
        ("pyproject.toml", "[tool]\n", "has no [project]"),
        ("pyproject.toml", "[project]\nversion = '1'\n", "has no name"),
        ("pyproject.toml", "[project]\nname = 'x'\n", "has no version"),
        ("data/server.pem", "-", "data/server.pem holds what looks like a secret"),
        ("data/notes.md", "key: hf_" + "a1B2" * 9, "data/notes.md holds what looks like a secret"),
    ],
)
def test_a_push_that_would_fail_or_bring_a_secret_there_is_told(
    seen: Path, capsys: pytest.CaptureFixture[str], name: str, text: str | None, problem: str
) -> None:
    here = environment(Path("environments/soup"))
    (here / "data").mkdir()
    if text is None:
        (here / name).unlink()
    else:
        (here / name).write_text(text)
    assert main(["envs", "push", "--dry-run", "soup"]) == 1
    told = capsys.readouterr()
    assert problem in told.err
    assert "a1B2a1B2" not in told.out + told.err
    assert not seen.exists()


def test_packages_are_looked_for_where_the_models_code_runs(
    seen: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = ["python3", "-c", "import bs4, lxml.html"]
    image = ("--image", "acme/sandbox:1")
    box = ["docker", "run", "--rm", "--network", "none", "--entrypoint", "", image[1], *inside]
    assert _argv(capsys, "sandbox", "bs4", "lxml.html", *image) == box
    assert _argv(capsys, "sandbox", "bs4", "lxml.html") == inside
    Path("pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert _argv(capsys, "sandbox", "bs4", "lxml.html", *image) == box
    assert _argv(capsys, "sandbox", "bs4", "lxml.html") == ["uv", "run", *inside]
    assert main(["envs", "sandbox", "bs4", *image]) == 0
    assert seen.read_text().startswith("ran docker run --rm --network none --entrypoint  acme/")
    monkeypatch.setenv("FAKE_EXIT", "1")
    assert main(["envs", "sandbox", "bs4"]) == 1
    for wrong in ("bs4; import os", "a.", "-c"):
        with pytest.raises(SystemExit):
            main(["envs", "sandbox", wrong])


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


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--num-rollouts 500", "--rollouts"),
        ("--num-rollouts=500", "--rollouts"),
        ("-r 500", "--rollouts"),
        ("--group-size 500", "--rollouts"),
        ("-m openai/gpt-5-pro", "--model"),
        ("-- --model openai/gpt-5-pro", "--model"),
        ("-- --select.limit 99999", "--examples"),
        ("-- -n=99999", "--examples"),
        ("--sampling.max-completion-tokens 64000", "--max-tokens"),
        ("--client.base-url https://llm.example/v1", "--endpoint"),
        # What no option of our own says.
        ("@ other.toml", "envs vf eval"),
        ("-- --sampling @other.toml", "envs vf eval"),
        ("--num_rollouts 500", "envs vf eval"),
        ("--sampling.n 8", "envs vf eval"),
        ("--env.id best-of-n", "envs vf eval"),
        ("--env.agent.model openai/gpt-5-pro", "envs vf eval"),
        ("--env.agent.max-turns 900", "envs vf eval"),
        ("--env.retries.max-retries 9", "envs vf eval"),
        ("--env.taskset.task.judges [{}]", "envs vf eval"),
        ("my-other-env", "envs vf eval"),
        # A value that the tool would read as an option, or as the name of a config.
        ("-c 8 --select.seed -r=500", "envs vf eval"),
        ("--run.name @other.toml", "envs vf eval"),
        ("--verbose=1", "envs vf eval"),
    ],
)
def test_no_word_for_the_tool_gets_past_the_budget(
    seen: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    told: str,
) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "canary-of-a-key")
    assert main([*EVALUATE, "--budget", "6", "--yes", *words.split()]) == 4
    assert told in capsys.readouterr().err
    assert main([*EVALUATE, "--budget", "6", "--dry-run", *words.split()]) == 4
    assert not seen.exists()


def test_words_that_leave_the_cost_alone_go_to_the_tool(
    seen: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    harmless = ("-c", "8", "--select.shuffle", "--select.seed=3", "--no-rich")
    argv = _argv(capsys, *EVALUATE[1:], "--budget", "6", *harmless[:2], "--", *harmless[2:])
    assert tuple(argv[-6:]) == ("--no-push", *harmless)


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


@pytest.mark.parametrize("given", [(), ("--dry-run",), ("--dry-run", "--json")])
def test_neither_the_command_on_a_pod_nor_its_output_shows_a_secret(
    seen: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    given: tuple[str, ...],
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BS4_CONFIG_DIR", str(tmp_path / "config"))
    assert main(["pods", "add", "here", "local"]) == 0
    (tmp_path / "bin/uv").write_text(
        '#!/bin/sh\necho "logged in as me with $*" | tee /dev/stderr "$SEEN"\n'
        'echo "HUB_TOKEN=quiet-harbour-31"\necho "token hf_' + "a1B2" * 9 + '" >&2\n'
    )
    words = ["owner/name", "--api-key", "violetanchor", "HUB_SECRET=copperlantern"]
    pod = ["--pod", "here", "--project", str(tmp_path)]
    assert main(["envs", "install", *pod, *given, *words]) == 0
    shown = "".join(capsys.readouterr())
    assert shown.count("owner/name") == (1 if given else 3)
    for secret in ("violetanchor", "copperlantern", "quiet-harbour-31", "hf_a1B2"):
        assert secret not in shown
    assert "redacted" in shown
    # The tool itself gets them.
    assert seen.exists() is not bool(given)
    if not given:
        assert "--api-key violetanchor HUB_SECRET=copperlantern" in seen.read_text()


TABLE = """
╭ Configuration ──────────────╮
┃ Setting ┃ Value             ┃
┡━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━┩
│ Team    │ parrots           │
│ API Key │ violetanchor      │
│         │ copperlantern     │
│ Hub     │ hub.example       │
└─────────┴───────────────────┘
NAME      ACCESS TOKEN      CREATED
first     violetanchor      2026-01-01
second    copper lantern    2026-01-01

HF_TOKEN    violetanchor
TEAM        parrots
"""


def test_neither_does_a_table(
    seen: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BS4_CONFIG_DIR", str(tmp_path / "config"))
    assert main(["pods", "add", "here", "local"]) == 0
    (tmp_path / "table").write_text(TABLE)
    (tmp_path / "bin/uv").write_text(f"#!/bin/sh\ntee /dev/stderr <{tmp_path}/table\n")
    assert main(["envs", "list", "--pod", "here", "--project", str(tmp_path)]) == 0
    for shown in capsys.readouterr():
        assert "parrots" in shown
        assert "hub.example" in shown
        assert "second    [redacted]        2026-01-01" in shown
        assert shown.count("[redacted]") == 5
        for secret in ("violet", "copper", "lantern"):
            assert secret not in shown
