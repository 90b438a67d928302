"""`config` as a command: its exit codes, its JSON, one sentence for bad input, and nothing written
that was not asked for.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from bs4_console.cli import config_rules
from bs4_console.cli.main import main
from tests.console.cli.conftest import Console
from tests.console.configs.bases import CURRENT, JANUARY, VERL

ROOT = Path(__file__).resolve().parents[3]
OLD = ("--trainer", "prime-rl-2026-01")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(JANUARY)
    return path


def config(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    try:
        code = main(["config", *map(str, words)])
    except SystemExit as ended:
        code = int(ended.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def loaded(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, Any]]:
    code, out, err = config(capsys, *words, "--json")
    assert err == ""
    (line,) = out.splitlines()
    return code, json.loads(line)


def test_lint_of_a_good_config(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert loaded(capsys, "lint", file, *OLD) == (
        0,
        {"schema": "bs4.config-lint/1", "findings": []},
    )
    assert config(capsys, "lint", file, *OLD)[:2] == (
        0,
        "0 errors, 0 warnings for prime-rl-2026-01.\n",
    )


def test_lint_of_a_bad_one_and_of_one_with_a_warning(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(JANUARY.replace("temperature = 0.7", "top_p = 0.9"))
    code, answer = loaded(capsys, "lint", file, *OLD)
    assert code == 1
    (finding,) = answer["findings"]
    assert {key: finding[key] for key in ("id", "level", "line")} == {
        "id": "R05",
        "level": "error",
        "line": JANUARY.split("\n").index("temperature = 0.7") + 1,
    }
    assert set(finding) == {"id", "level", "line", "message", "fix"}
    file.write_text(JANUARY.replace("network_access = false", "network_access = true"))
    code, answer = loaded(capsys, "lint", file, *OLD)
    assert (code, [item["id"] for item in answer["findings"]]) == (0, ["R33"])


def test_lint_of_the_other_trainers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text, trainer in (("c.toml", CURRENT, "prime-rl"), ("t.sh", VERL, "verl")):
        (tmp_path / name).write_text(text)
        assert config(capsys, "lint", tmp_path / name, "--trainer", trainer)[0] == 0
    yaml = tmp_path / "v.yaml"
    yaml.write_text("trainer:\n  total_training_steps: 5\n  resume_mode: off\n  save_freq: 5\n")
    _, answer = loaded(capsys, "lint", yaml, "--trainer", "verl")
    assert ("V02", 3) in {(item["id"], item["line"]) for item in answer["findings"]}
    yaml.write_text("a: [\n")
    assert loaded(capsys, "lint", yaml, "--trainer", "verl")[1]["findings"][0]["id"] == "yaml"


@pytest.mark.parametrize("verb", ["lint", "fix", "estimate", "history"])
def test_bad_input_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00x")
    with (tmp_path / "huge.toml").open("wb") as handle:
        handle.truncate(1 << 31)
    for name, says in (
        ("none.toml", "does not exist"),
        (".", "is a directory"),
        ("binary.toml", "not UTF-8"),
        ("huge.toml", "larger than"),
    ):
        code, out, err = config(capsys, verb, tmp_path / name)
        assert (code, out) == (2, ""), name
        (sentence,) = err.splitlines()
        assert says in sentence
        assert sentence.startswith("bs4-console: ")
        assert sentence.endswith(".")
    assert config(capsys, verb, "/dev/null")[0] == 2
    assert config(capsys, verb)[0] == 2


def test_a_file_nested_beyond_reason(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("a = " + "[" * 100_000 + "]" * 100_000)
    code, answer = loaded(capsys, "lint", file)
    assert (code, answer["findings"][0]["id"]) == (1, "toml")


def test_usage(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    assert config(capsys, "lint", file, "--trainer", "other")[0] == 2
    assert config(capsys, "lint", file, "--gpus", "0")[0] == 2
    assert config(capsys, "migrate", file)[0] == 2


def test_fix_of_one_components_own_config(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "orch.toml"
    file.write_text(
        '[model]\nname = "Qwen/Qwen3-8B"\n[sampling]\nmax_tokens = 1024\ntop_p = 0.9\n'
        '[[env]]\nid = "owner/some-env"\n'
    )
    code, answer = loaded(capsys, "fix", file, *OLD, "--component", "orchestrator", "--write")
    assert (code, [item["id"] for item in answer["fixed"]], answer["left"]) == (0, ["R05"], [])
    assert tomllib.loads(file.read_text())["sampling"] == {"max_tokens": 1024}
    assert config(capsys, "fix", file, *OLD)[0] == 0, "whose it is can be told from its keys"
    assert config(capsys, "fix", file, *OLD, "--component", "rl")[0] == 1, "of the whole it is none"


def test_fix_shows_and_writes_only_when_told(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = JANUARY.replace("temperature = 0.7", "temperature = 0.7 # warm\ntop_p = 0.9")
    file.write_text(wrong)
    code, out, _ = config(capsys, "fix", file, *OLD)
    assert (code, file.read_text()) == (0, wrong)
    assert "-top_p = 0.9" in out
    code, answer = loaded(capsys, "fix", file, *OLD, "--write")
    assert (code, answer["written"], [item["id"] for item in answer["fixed"]], answer["left"]) == (
        0,
        True,
        ["R05"],
        [],
    )
    assert Path(answer["original"]).read_text() == wrong
    assert "# warm" in file.read_text()
    assert "top_p" not in file.read_text()
    code, answer = loaded(capsys, "fix", file, *OLD, "--write")
    assert (answer["written"], answer["fixed"]) == (False, [])


def test_diff(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.toml"
    other.write_text("# another comment\n" + JANUARY)
    assert config(capsys, "diff", file, other)[:2] == (0, "They mean the same.\n")
    other.write_text(JANUARY.replace("lr = 1e-5", "lr = 2e-5").replace("rank = 8", "rank = 16"))
    code, answer = loaded(capsys, "diff", file, other)
    assert code == 1
    assert [(item["kind"], item["key"]) for item in answer["changes"]] == [
        ("changed", "trainer.model.lora.rank"),
        ("changed", "trainer.optim.lr"),
    ]


def test_migrate_writes_a_new_file_only(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "current.toml"
    assert config(capsys, "migrate", file, "--to", "prime-rl", "--output", output)[0] == 0
    assert config(capsys, "lint", output)[0] == 0
    code, _, err = config(capsys, "migrate", file, "--to", "prime-rl", "--output", output)
    assert code == 2
    assert "exists" in err
    code, answer = loaded(capsys, "migrate", file, "--to", "prime-rl")
    assert code == 0
    assert tomllib.loads(answer["text"]) == tomllib.loads(output.read_text())


def test_migrate_refuses_what_would_mean_something_else(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text('max_steps = 5\n[ckpt]\nresume_step = "last"\n')
    output = tmp_path / "current.toml"
    code, out, err = config(capsys, "migrate", file, "--to", "prime-rl", "--output", output)
    assert (code, out, output.exists()) == (1, "", False)
    assert f"{file}:3: not converted: ckpt.resume_step: it is to be a whole number." in err
    assert "Nothing was migrated" in err
    code, answer = loaded(capsys, "migrate", file, "--to", "prime-rl")
    assert (code, answer["refused"], answer["text"]) == (1, True, "")
    (left,) = answer["left_out"]
    assert (left["key"], left["line"], left["refuses"]) == ("ckpt.resume_step", 3, True)


def test_new_and_estimate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "new.toml"
    assert (
        config(capsys, "new", *OLD, "--model", "Qwen/Qwen3-8B", "--gpus", 2, "--output", output)[0]
        == 0
    )
    code, answer = loaded(capsys, "estimate", output, *OLD)
    assert (code, answer["billions"], answer["fits"]) == (0, 8.0, True)
    assert all(part["arithmetic"] for side in answer["sides"] for part in side["parts"])
    assert loaded(capsys, "estimate", output, *OLD, "--gpu-gib", "24")[0] == 1
    fast = ("--max-tokens", 4096, "--env-arg", "executor_backend=local")
    code, answer = loaded(capsys, "new", *OLD, "--model", "Qwen/Qwen3-8B", "--gpus", 2, *fast)
    assert (code, answer["findings"]) == (0, [])
    assert '[orchestrator.env.args]\nexecutor_backend = "local"\n' in answer["text"]
    assert "\nmax_tokens = 4096\n" in answer["text"]
    assert config(capsys, "new", *OLD, "--model", "x-8B", "--gpus", 2, "--max-tokens", 0)[0] == 2
    code, _, err = config(capsys, "new", "--model", "Qwen/Qwen3-8B")
    assert code == 2
    assert "--gpus" in err, "nothing is asked for without a terminal"


def test_history_leaves_the_config_alone(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = file.read_bytes()
    assert config(capsys, "history", file, "--add", "the first")[0] == 0
    file.write_text(JANUARY.replace("lr = 1e-5", "lr = 2e-5"))
    assert loaded(capsys, "history", file)[1]["changed"]
    code, answer = loaded(capsys, "history", file, "--add", "learns faster")
    assert [(v["version"], v["based_on"], v["reason"]) for v in answer["versions"]] == [
        ("v1", "", "the first"),
        ("v2", "v1", "learns faster"),
    ]
    assert (code, answer["changed"]) == (0, False)
    assert file.read_text() == before.decode().replace("lr = 1e-5", "lr = 2e-5")
    assert config(capsys, "history", file, "--add", "again")[0] == 2
    registry = file.parent / "registry.json"
    kept = json.loads(registry.read_text())
    registry.write_text(json.dumps({**kept, "active_configs": {"main": f"{file.name}:v1"}}))
    assert loaded(capsys, "history", file)[1]["active"] == {"main": "v1"}
    file.write_text(JANUARY.replace("lr = 1e-5", "lr = 3e-5"))
    assert "In use as main (v1)." in config(capsys, "history", file, "--add", "faster")[1]
    assert json.loads(registry.read_text())["active_configs"] == {"main": f"{file.name}:v1"}


def test_the_page_of_rules_is_current() -> None:
    assert (ROOT / "docs" / "configs.md").read_text() == config_rules.markdown(), (
        "write it anew: python -m bs4_console.cli.config_rules docs/configs.md"
    )


@pytest.mark.parametrize(
    "path",
    sorted((ROOT / "configs").glob("prime-rl*/*.toml")),
    ids=lambda path: f"{path.parent.name}/{path.stem}",
)
def test_the_configs_that_are_shipped_pass(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = loaded(capsys, "lint", path, "--trainer", path.parent.name)
    assert code == 0
    assert {item["id"] for item in answer["findings"]} <= {"R22"}


def test_a_new_config_names_its_own_file(console: Console, tmp_path: Path) -> None:
    output = tmp_path / "mine.toml"
    words = ("--trainer", "prime-rl", "--model", "Qwen/Qwen3-4B", "--gpus", "2")
    assert console("config", "new", *words, "--output", str(output)).code == 0
    assert f"uv run rl @ {output}" in output.read_text()
