"""The command lines. They were checked once against the real parsers (pydantic-settings 2.10.1 for
2026-01, the current RLConfig).
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bs4_common.errors import AgentError, NotApplicable
from bs4_common.trainers import registry
from bs4_common.trainers.base import LaunchSpec
from bs4_common.trainers.settings import BadConfig, parse_arguments
from tests.agent.trainers.samples import PRIME_RL

OLD, NEW = "prime-rl-2026-01", "prime-rl"


def spec(
    tmp_path: Path, trainer: str, toml: str = "", *overrides: str, resume: int | None = None
) -> LaunchSpec:
    (tmp_path / "rl.toml").write_text(toml)
    return LaunchSpec(
        run="demo",
        trainer=trainer,
        config=Path("rl.toml"),
        cwd=tmp_path,
        output_dir=tmp_path / "out_dir",
        resume=resume,
        overrides=overrides,
    )


def command(
    tmp_path: Path, trainer: str, toml: str = "", *overrides: str, resume: int | None = None
) -> list[str]:
    return registry.get(trainer).command(spec(tmp_path, trainer, toml, *overrides, resume=resume))


def test_2026_01_afresh(tmp_path: Path) -> None:
    assert command(tmp_path, OLD) == [
        "uv",
        "run",
        "rl",
        "@",
        "rl.toml",
        "--output-dir",
        str(tmp_path / "out_dir"),
        "--ckpt",
        "--ckpt.interval",
        "10",
    ]


def test_current_afresh(tmp_path: Path) -> None:
    assert command(tmp_path, NEW) == [
        "uv",
        "run",
        "rl",
        "@",
        "rl.toml",
        "--output-dir",
        str(tmp_path / "out_dir"),
        "--run.name",
        "demo",
        "--log.json-logging",
        "--ckpt",
        "--ckpt.interval",
        "10",
    ]


def test_resume_names_the_step(tmp_path: Path) -> None:
    assert command(tmp_path, OLD, resume=20)[-2:] == ["--ckpt.resume-step", "20"]
    assert command(tmp_path, NEW, resume=20)[-2:] == ["--resume.step", "20"]


def test_step_0_is_a_step_in_2026_01_and_its_clean_must_not_run(tmp_path: Path) -> None:
    assert command(tmp_path, OLD, resume=0)[-3:] == ["--ckpt.resume-step", "0", "--no-clean"]
    assert command(tmp_path, OLD, "", "--no-clean", resume=0).count("--no-clean") == 1
    assert "--no-clean" not in command(tmp_path, OLD, resume=5)


def test_step_0_does_not_exist_in_the_current_generation(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="counts steps from 1"):
        command(tmp_path, NEW, resume=0)


@pytest.mark.parametrize("trainer", PRIME_RL)
@pytest.mark.parametrize(
    "toml",
    ["[ckpt]\ninterval = 7", "[trainer.ckpt]\ninterval = 7\n[orchestrator.ckpt]\ninterval = 7"],
)
def test_the_configs_own_interval_stands(tmp_path: Path, trainer: str, toml: str) -> None:
    words = command(tmp_path, trainer, toml)
    assert "--ckpt" in words
    assert "--ckpt.interval" not in words


@pytest.mark.parametrize("trainer", PRIME_RL)
def test_an_option_for_the_interval_stands_too(tmp_path: Path, trainer: str) -> None:
    words = command(tmp_path, trainer, "", "--ckpt.interval", "3")
    assert words.count("--ckpt.interval") == 1
    assert words[words.index("--ckpt.interval") + 1] == "3"


@pytest.mark.parametrize("trainer", PRIME_RL)
def test_a_table_without_an_interval_would_save_the_last_step_only(
    tmp_path: Path, trainer: str
) -> None:
    assert "--ckpt.interval" in command(tmp_path, trainer, "[ckpt]\nkeep_last = 2")


@pytest.mark.parametrize("trainer", PRIME_RL)
def test_checkpointing_is_switched_on_once_and_a_no_is_a_no(tmp_path: Path, trainer: str) -> None:
    assert command(tmp_path, trainer, "", "--ckpt").count("--ckpt") == 1
    words = command(tmp_path, trainer, "", "--no-ckpt")
    assert "--ckpt" not in words
    assert "--ckpt.interval" not in words
    assert "--ckpt.interval" not in command(tmp_path, trainer, "[ckpt]\ninterval = 0")


@pytest.mark.parametrize("trainer", PRIME_RL)
def test_the_trainer_is_never_told_to_delete(tmp_path: Path, trainer: str) -> None:
    assert not [word for word in command(tmp_path, trainer) if "keep" in word]


@pytest.mark.parametrize("trainer", PRIME_RL)
def test_output_dir_is_the_specs_and_stands_apart_from_its_option(
    tmp_path: Path, trainer: str
) -> None:
    """2026-01 turns every `_` of `--output-dir=a_b` into `-`."""
    words = command(
        tmp_path, trainer, 'output_dir = "elsewhere"', "--output-dir", "third", "--max-steps", "5"
    )
    assert words.count("--output-dir") == 1
    assert words[words.index("--output-dir") + 1] == str(tmp_path / "out_dir")
    assert words[words.index("--max-steps") + 1] == "5"
    assert not [word for word in words if "=" in word]


@pytest.mark.parametrize(
    ("trainer", "toml", "overrides"),
    [
        (OLD, "[ckpt]\nresume_step = 20", ()),
        (OLD, "", ("--ckpt.resume-step", "-1")),
        (NEW, "[resume]", ()),
        (NEW, "[resume]\nstep = 20", ()),
        (NEW, '[resume]\ndir = "/other/checkpoints/step_5"', ()),
        (NEW, "", ("--resume",)),
        (NEW, "", ("--resume.step", "20")),
    ],
)
def test_a_fresh_start_refuses_what_resumes_by_itself(
    tmp_path: Path, trainer: str, toml: str, overrides: tuple[str, ...]
) -> None:
    with pytest.raises(BadConfig, match="start afresh"):
        command(tmp_path, trainer, toml, *overrides)


@pytest.mark.parametrize(
    ("trainer", "toml", "overrides"),
    [
        (OLD, "[ckpt]\nresume_step = 20", ("--ckpt.resume-step", "-1")),
        (NEW, "[resume]\nstep = 20", ("--resume",)),
        (NEW, "", ("--resume.step", "20", "--resume")),
    ],
)
def test_the_specs_step_wins_over_all_others(
    tmp_path: Path, trainer: str, toml: str, overrides: tuple[str, ...]
) -> None:
    words = command(tmp_path, trainer, toml, *overrides, resume=40)
    assert [
        words[i + 1]
        for i, word in enumerate(words)
        if word in ("--resume.step", "--ckpt.resume-step")
    ] == ["40"]
    assert "--resume" not in words
    assert "-1" not in words


def test_a_directory_to_resume_from_is_taken_back(tmp_path: Path) -> None:
    words = command(tmp_path, NEW, '[resume]\ndir = "/other/checkpoints/step_5"', resume=9)
    assert words[-4:] == ["--resume.step", "9", "--resume.dir", "None"]


@pytest.mark.parametrize(("toml", "overrides"), [("clean = true", ()), ("", ("--clean",))])
def test_the_current_generation_never_cleans(
    tmp_path: Path, toml: str, overrides: tuple[str, ...]
) -> None:
    words = command(tmp_path, NEW, toml, *overrides)
    assert "--clean" not in words
    assert "--no-clean" in words


def test_a_shared_option_that_a_component_sets_itself_is_left_out(tmp_path: Path) -> None:
    assert "--log.json-logging" not in command(tmp_path, NEW, "[trainer.log]\njson_logging = false")


@pytest.mark.parametrize(
    ("toml", "error"), [("[slurm]\n", NotApplicable), ("dry_run = true", BadConfig)]
)
def test_what_is_not_launched_from_here(tmp_path: Path, toml: str, error: type[AgentError]) -> None:
    with pytest.raises(error):
        command(tmp_path, NEW, toml)


@pytest.mark.parametrize("trainer", PRIME_RL)
def test_bad_configs_end_in_one_sentence_with_the_next_thing_to_do(
    tmp_path: Path, trainer: str
) -> None:
    start = spec(tmp_path, trainer)
    cases = {
        "missing": "name a file that exists",
        "broken": "correct that line",
        "latin": "save it as UTF-8",
        "": "config named",
    }
    (tmp_path / "broken").write_text("a = \n")
    (tmp_path / "latin").write_bytes(b'a = "\xe9"')
    for name, advice in cases.items():
        with pytest.raises(BadConfig, match=advice) as caught:
            registry.get(trainer).command(dataclasses.replace(start, config=Path(name)))
        assert "\n" not in caught.value.message


def test_files_per_component_stay_among_the_options(tmp_path: Path) -> None:
    for name in ("t", "o"):
        (tmp_path / f"{name}.toml").write_text(
            "[ckpt]\ninterval = 3\nresume_step = 4" if name == "t" else ""
        )
    nested = ("--trainer", "@", "t.toml", "--orchestrator", "@", "o.toml")
    start = LaunchSpec(
        run="demo",
        trainer=OLD,
        config=Path("t.toml"),
        cwd=tmp_path,
        output_dir=tmp_path / "out",
        resume=4,
        overrides=nested,
    )
    assert registry.get(OLD).command(start)[3:9] == list(nested)
    assert registry.get(OLD).resume_requested(dataclasses.replace(start, resume=None)) == 4


@pytest.mark.parametrize("trainer", PRIME_RL)
def test_a_component_that_runs_apart_has_its_own_words(tmp_path: Path, trainer: str) -> None:
    words = ("uv", "run", "inference", "@", "i.toml")
    start = LaunchSpec(
        run="server",
        trainer=trainer,
        config=Path("i.toml"),
        cwd=tmp_path,
        output_dir=tmp_path,
        component="inference",
        argv=words,
    )
    assert registry.get(trainer).command(start) == list(words)


def test_arguments() -> None:
    found = parse_arguments(
        [
            "@",
            "a.toml",
            "--trainer",
            "@",
            "t.toml",
            "--max_steps=5",
            "--ckpt",
            "--no-clean",
            "--gpu-ids",
            "0",
            "1",
            "--ckpt.resume-step",
            "-1",
        ]
    )
    assert found.config == "a.toml"
    assert found.nested == [("trainer", "t.toml")]
    assert dict(found.options) == {
        "max_steps": "5",
        "ckpt": True,
        "clean": False,
        "gpu_ids": ["0", "1"],
        "ckpt.resume_step": "-1",
    }
    assert parse_arguments(["--ckpt", "--a", "1", "--a", "2"]).last("a") == "2"
    assert parse_arguments([]).config is None
    assert parse_arguments(["@"]).config is None
    assert parse_arguments(["@", "a", "@", "b"]).config == "b"


def test_toml_files_are_followed_as_2026_01_does(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "base.toml").write_text("max_steps = 9\n[inference.server]\nport = 9000")
    start = spec(
        tmp_path, OLD, 'max_steps = 5\ntoml_files = ["sub/base.toml"]\n[inference]\nseed = 1'
    )
    assert registry.get(OLD).max_steps(start) == 9
    assert registry.get(OLD).inference_url(start) == "http://127.0.0.1:9000"
    (tmp_path / "loop.toml").write_text('toml_files = ["loop.toml"]')
    with pytest.raises(BadConfig, match="break the circle"):
        registry.get(OLD).command(dataclasses.replace(start, config=Path("loop.toml")))
