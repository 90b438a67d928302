"""What the trainers' own classes take and refuse beyond their JSON schemas: each case was put to
the classes themselves, at a24ec986b (pydantic 2.12.5) and at 559b44772 (pydantic 2.13.4).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bs4_console.configs.lint import lint
from bs4_console.configs.schema import convert
from bs4_console.configs.view import Given
from tests.console.configs.bases import BASES, changed, findings, marked

OLD, NEW = "prime-rl-2026-01", "prime-rl"
SOURCE = '[[orchestrator.train.source]]\nname = "some-env"\n'
TASKSET = '[orchestrator.train.source.env.taskset]\nid = "some-env"\n'


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("integer", " 7 ", 7),
        ("integer", "1_000", 1000),
        ("integer", "5.00", 5),
        ("integer", "5.", None),
        ("integer", "１２", None),
        ("integer", "9" * 5000, None),
        ("number", "1_000", 1000.0),
        ("number", "1_.0", 1.0),
        ("number", "5._0", 5.0),
        ("number", "1__0", None),
        ("number", "_1", None),
        ("number", "1_", None),
        ("number", "１２", None),
        ("number", 10**400, None),
    ],
)
def test_numbers(kind: str, text: Any, value: float | None) -> None:
    converted, ok = convert(kind, text)
    assert ok == (value is not None)
    assert not ok or converted == value


TAKEN = [
    (
        NEW,
        ("[trainer.model]\n", "[trainer.model]\nfull_offload = true\noptim_cpu_offload = false\n"),
    ),
    (NEW, ("[trainer.model]\n", "[trainer.model]\nfull_offload = false\n")),
    (
        NEW,
        (
            TASKSET,
            TASKSET + '[[orchestrator.train.source.env.taskset.task.judges]]\nid = "reference"\n'
            'question_field = "q"\n',
        ),
    ),
    (
        NEW,
        (
            SOURCE,
            SOURCE + '[orchestrator.train.source.curriculum.sampler]\ntype = "difficulty_pool"\n',
        ),
    ),
    (NEW, ("[inference.vllm]\n", "[inference.vllm]\nenable-dbo = true\n")),
    (
        NEW,
        (
            "[run]",
            (
                '[orchestrator.algo]\ntype = "opd"\nteacher = {name = "x", base_url = '
                '"http://x/v1"}\n\n[run]'
            ),
        ),
    ),
    (
        NEW,
        (
            "[run]",
            (
                '[orchestrator.algo]\ntype = "sft"\nsampling.source = {name = "x", base_url = '
                '"http://x/v1"}\n\n[run]'
            ),
        ),
    ),
    (NEW, ("[run]", '[orchestrator.algo]\ntype = "echo"\nroles.user = {}\n\n[run]')),
]


@pytest.mark.parametrize(("trainer", "change"), TAKEN)
def test_taken(tmp_path: Path, trainer: str, change: tuple[str, str]) -> None:
    assert [
        item.message
        for item in findings(tmp_path, trainer, changed(trainer, change))
        if item.level == "error"
    ] == []


REFUSED = [
    (
        OLD,
        (
            "[inference]\n",
            '[inference]\nparallel.dp = 2 # <-\nweight_broadcast.type = "nccl" # <-\n',
        ),
    ),
    (NEW, ("interval = 5", "interval = 0 # <-")),
    (NEW, ("keep_last = 3", "keep_last = 0 # <-")),
    (NEW, ("[trainer.model]\n", "[trainer.model]\nfull_offload = true # <-\n")),
    (NEW, ("[inference.vllm]\n", '[inference.vllm]\nenable-dbo = "x" # <-\n')),
    (NEW, ("[run]", '[orchestrator.algo]\ntype = "opd"\nteacher = {name = "x"} # <-\n\n[run]')),
    (NEW, ("[run]", '[orchestrator.algo] # <-\ntype = "sft"\n\n[run]')),
    (
        NEW,
        (
            "[run]",
            (
                '[orchestrator.algo]\nsampling.source = {name = "x", base_url = "http://x/v1"} # '
                "<-\n\n[run]"
            ),
        ),
    ),
    (NEW, ("[run]", '[orchestrator.algo]\ntype = "echo"\nroles = {} # <-\n\n[run]')),
    (NEW, (SOURCE, SOURCE + '[orchestrator.train.source.algo] # <-\ntype = "sft"\n')),
    (
        NEW,
        (
            SOURCE,
            SOURCE
            + '[orchestrator.train.source.curriculum.sampler] # <-\ntype = "difficulty_pool"\n'
            "pools = {}\n",
        ),
    ),
]


@pytest.mark.parametrize(("trainer", "change"), REFUSED)
def test_refused(tmp_path: Path, trainer: str, change: tuple[str, str]) -> None:
    text = changed(trainer, change)
    assert [
        item.line for item in findings(tmp_path, trainer, text) if item.level == "error"
    ] == marked(text)


@pytest.mark.parametrize("component", ["trainer", "orchestrator", "inference", "sft"])
def test_a_part_may_not_set_what_the_launcher_sets(tmp_path: Path, component: str) -> None:
    (tmp_path / "x.toml").write_text('[env_vars]\nA = "1"\nWANDB_RUN_ID = "x"\n')
    found = lint(tmp_path / "x.toml", NEW, None, component)
    assert [item.line for item in found if "WANDB_RUN_ID" in item.message] == [3]


def test_sft_has_older_names_and_leaves_keys_unread(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text("[deployment]\nnum_eval_gpus = 1\n")
    assert [item for item in lint(file, NEW, None, "sft") if item.level == "error"] == []
    file.write_text(
        '[deployment]\ntype = "multi_node"\nnum_eval_nodes = 1\nnum_train_gpus = 8\n\n'
        '[slurm]\njob_name = "x"\n'
    )
    assert [
        item.message for item in lint(file, NEW, None, "sft") if "deployment." in item.message
    ] == []


def errors(file: Path, trainer: str, words: str) -> list[str]:
    found = lint(file, trainer, Given(launch=f"uv run rl @ {file} {words}"))
    return [item.message for item in found if item.level == "error"]


@pytest.mark.parametrize("trainer", [OLD, NEW])
@pytest.mark.parametrize("part", ["trainer", "orchestrator", "inference"])
def test_a_table_may_come_from_a_file_of_its_own(tmp_path: Path, trainer: str, part: str) -> None:
    import tomllib

    import tomlkit

    data = tomllib.loads(BASES[trainer])
    (tmp_path / "part.toml").write_text(tomlkit.dumps(data.pop(part)))
    (tmp_path / "main.toml").write_text(tomlkit.dumps(data))
    assert errors(tmp_path / "main.toml", trainer, f"--{part} @ part.toml") == []
    assert part == "inference" or errors(tmp_path / "main.toml", trainer, "--max-steps 5") != []


def test_the_command_corrects_the_file_and_is_held_against_it(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(changed(NEW, ("batch_size = 128", 'batch_size = "many"')))
    assert errors(file, NEW, "--orchestrator.batch-size 64") == []
    file.write_text(BASES[NEW])
    assert any(
        "R16" in item.id
        for item in lint(file, NEW, Given(launch="rl @ x.toml --orchestrator.batch-size 63"))
    )
    assert any("seq_len" in message for message in errors(file, NEW, "--seq-len 8192"))


def test_a_word_is_divided_by_commas_only_on_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(changed(OLD, ("inference_gpu_ids = [0]", 'inference_gpu_ids = "0"')))
    assert any("inference_gpu_ids" in message for message in errors(file, OLD, "--max-steps 5"))


def test_januarys_part_files_replace_the_whole_table(tmp_path: Path) -> None:
    (tmp_path / "part.toml").write_text("[optim]\nlr = 2e-6\n")
    file = tmp_path / "x.toml"
    file.write_text(BASES[OLD])
    assert any(
        "2048 (the default)" in message for message in errors(file, OLD, "--trainer @ part.toml")
    )
    file.write_text(BASES[NEW])
    assert errors(file, NEW, "--trainer @ part.toml") == []


def test_a_dry_run_is_not_combined_with_what_the_file_cleans(tmp_path: Path) -> None:
    text = changed(NEW, ("max_steps = 1000", "max_steps = 1000\nclean = true"))
    assert [
        item.id
        for item in findings(tmp_path, NEW, text, launch="rl @ x.toml --dry-run")
        if item.level == "error"
    ] == ["P02"]
