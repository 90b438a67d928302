"""How verl is started from here, and what a start by hand tells."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bs4_agent.launch import validation
from bs4_common.errors import AgentError, NotApplicable
from bs4_common.failures import environment_probes
from bs4_common.trainers import registry, verl_settings
from bs4_common.trainers.base import LaunchSpec
from bs4_common.trainers.registry import recognise_tree
from bs4_common.trainers.settings import UNKNOWN_CONFIG, BadConfig

VERL = registry.get("verl")
EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "configs/verl").glob("*.toml"))
TOML = """
[trainer]
project_name = "demo"
total_training_steps = 40
save_freq = 5
logger = ["console"]

[data]
train_files = "data/train set.parquet"

[actor_rollout_ref.model]
path = "Qwen/Qwen2.5-0.5B-Instruct"
"+override_config" = 3
"""


SFT = """
[trainer]
save_freq = 5
total_epochs = 2
n_gpus_per_node = 2
[model]
partial_pretrain = "Qwen/Qwen2.5-0.5B-Instruct"
[environment]
OMP_NUM_THREADS = 1
"""


def spec(
    tmp_path: Path,
    toml: str = TOML,
    *overrides: str,
    resume: int | None = None,
    component: str = "rl",
    processes: int = 1,
) -> LaunchSpec:
    (tmp_path / "verl.toml").write_text(toml)
    made = LaunchSpec(
        run="demo",
        trainer="verl",
        config=Path("verl.toml"),
        cwd=tmp_path,
        output_dir=tmp_path / "out",
        resume=resume,
        overrides=overrides,
    )
    return dataclasses.replace(made, component=component, processes=processes)


def release(tmp_path: Path, version: str) -> None:
    (tmp_path / "verl/version").mkdir(parents=True, exist_ok=True)
    (tmp_path / "verl/version/version").write_text(f"{version}\n")


def test_the_command_is_hydras_words(tmp_path: Path) -> None:
    release(tmp_path, "0.6.1")
    run = tmp_path / "out/demo"
    assert VERL.command(spec(tmp_path)) == [
        "env",
        f"VERL_FILE_LOGGER_PATH={run}/metrics.1.jsonl",
        "python3",
        "-u",
        "-m",
        "verl.trainer.main_ppo",
        "trainer.project_name=demo",
        "trainer.total_training_steps=40",
        "trainer.save_freq=5",
        "data.train_files='data/train set.parquet'",
        "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct",
        "+actor_rollout_ref.model.override_config=3",
        f"trainer.default_local_dir={run}/checkpoints",
        "trainer.experiment_name=demo",
        "trainer.logger=[console,file]",
        "trainer.resume_mode=disable",
        "trainer.resume_from_path=null",
        f"hydra.run.dir={run}/hydra/1",
    ]
    assert VERL.max_steps(spec(tmp_path)) == 40


PLANNED = "[plan]\nsteps = 25\n[trainer]\nsave_freq = 5\n"


def test_what_was_planned_is_known_here_and_not_told_to_hydra(tmp_path: Path) -> None:
    start = spec(tmp_path, PLANNED)
    assert [
        word for word in VERL.command(start) if word.startswith("plan") or word.endswith("=25")
    ] == []
    assert VERL.max_steps(start) == 25
    assert (environment_probes.flat_settings(start) or {})["plan.steps"] == 25
    assert VERL.max_steps(spec(tmp_path, PLANNED, "trainer.total_training_steps=40")) == 40


@pytest.mark.parametrize("steps", ["0", "-3", "true", '"many"', "2.5"])
def test_a_plan_that_is_no_number_is_refused_at_a_launch_and_harmless_to_who_watches(
    tmp_path: Path, steps: str
) -> None:
    start = spec(tmp_path, PLANNED.replace("25", steps))
    with pytest.raises(BadConfig, match="whole number above 0"):
        VERL.command(start)
    assert VERL.max_steps(start) is None


def test_a_resume_names_its_step_whatever_was_said(tmp_path: Path) -> None:
    words = VERL.command(
        spec(tmp_path, TOML, "trainer.resume_mode=auto", "trainer.save_freq=7", resume=20)
    )
    assert [w for w in words if w.startswith("trainer.resume")] == [
        "trainer.resume_mode=resume_path",
        f"trainer.resume_from_path={tmp_path}/out/demo/checkpoints/global_step_20",
    ]
    assert [w for w in words if "save_freq" in w] == ["trainer.save_freq=7"]


@pytest.mark.parametrize("mode", ["off", "latest", "False"])
def test_a_mode_that_is_none_is_refused(tmp_path: Path, mode: str) -> None:
    with pytest.raises(BadConfig, match=r"is no mode.*Use disable"):
        VERL.command(spec(tmp_path, TOML, f"trainer.resume_mode={mode}"))


def test_every_attempt_has_files_of_its_own(tmp_path: Path) -> None:
    """verl empties a metrics file of the same name and overwrites the record of the launch."""
    start = spec(tmp_path)
    run = tmp_path / "out/demo"
    run.mkdir(parents=True)
    assert VERL.log_sources(start) == []
    for number in (1, 2):
        words = VERL.command(start)
        assert words[1] == f"VERL_FILE_LOGGER_PATH={run}/metrics.{number}.jsonl"
        assert words[-1] == f"hydra.run.dir={run}/hydra/{number}"
        (run / f"metrics.{number}.jsonl").write_text("")
        assert [(s.source, s.path.name) for s in VERL.log_sources(start)] == [
            ("metrics", f"metrics.{number}.jsonl")
        ]
    (run / "hydra/7").mkdir(parents=True)
    assert VERL.command(start)[-1].endswith("/8")


@pytest.mark.parametrize(
    ("version", "given", "loggers"),
    [
        ("0.6.1", None, "trainer.logger=[console,file]"),
        ("0.9.1", '["console", "wandb"]', "trainer.logger=[console,wandb,file]"),
        ("0.9.1", '["console", "file"]', "trainer.logger=[console,file]"),
        ("0.5.0", '["console"]', "trainer.logger=[console]"),
        ("0.5.0", None, None),
        (None, None, None),
    ],
)
def test_the_file_logger_where_the_release_has_one(
    tmp_path: Path, version: str | None, given: str | None, loggers: str | None
) -> None:
    if version is not None:
        release(tmp_path, version)
    words = VERL.command(
        spec(tmp_path, "[trainer]\nsave_freq = 5\n" + (f"logger = {given}" if given else ""))
    )
    assert [w for w in words if w.startswith("trainer.logger")] == ([loggers] if loggers else [])


def test_saving_is_switched_on_where_nobody_says_how_often(tmp_path: Path) -> None:
    assert "trainer.save_freq=10" in VERL.command(spec(tmp_path, "[trainer]\nproject_name = 'p'"))
    assert "trainer.save_freq=-1" in VERL.command(spec(tmp_path, "[trainer]\nsave_freq = -1"))


@pytest.mark.parametrize(
    ("version", "module"),
    [("0.5.0", "fsdp_sft_trainer"), ("0.8.0", "fsdp_sft_trainer"), ("0.9.1", "sft_trainer")],
)
def test_sft_goes_through_torchrun(tmp_path: Path, version: str, module: str) -> None:
    release(tmp_path, version)
    words = VERL.command(spec(tmp_path, SFT, component="sft", processes=4))
    assert words[3:11] == [
        "-u",
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nnodes=1",
        "--nproc_per_node=4",
        "-m",
        f"verl.trainer.{module}",
    ]


def test_one_rank_for_each_gpu_that_the_config_names_unless_a_number_is_said(
    tmp_path: Path,
) -> None:
    release(tmp_path, "0.6.1")
    assert "--nproc_per_node=2" in VERL.command(spec(tmp_path, SFT, component="sft"))
    assert "--nproc_per_node=3" in VERL.command(spec(tmp_path, SFT, component="sft", processes=3))


def test_an_sft_resumes_from_the_release_on_that_can(tmp_path: Path) -> None:
    release(tmp_path, "0.5.0")
    words = VERL.command(spec(tmp_path, SFT, component="sft"))
    assert [
        word for word in words if word.startswith("trainer.resume")
    ] == []  # its config has no such key
    with pytest.raises(NotApplicable, match=r"verl 0\.5 cannot resume.*--fresh"):
        VERL.command(spec(tmp_path, SFT, component="sft", resume=50))
    release(tmp_path, "0.6.1")
    words = VERL.command(spec(tmp_path, SFT, component="sft", resume=50))
    assert f"trainer.resume_from_path={tmp_path}/out/demo/checkpoints/global_step_50" in words


@pytest.mark.parametrize(("toml", "component", "other"), [(SFT, "rl", "sft"), (TOML, "sft", "rl")])
def test_settings_of_the_other_trainer_are_refused(
    tmp_path: Path, toml: str, component: str, other: str
) -> None:
    release(tmp_path, "0.6.1")
    with pytest.raises(BadConfig, match=f"settings of {other}.*--component {other}"):
        VERL.command(spec(tmp_path, toml, component=component))


def test_a_run_has_a_name_of_its_own_unless_somebody_gives_one(tmp_path: Path) -> None:
    """verl calls every run gsm8k, and W&B would show them as one."""
    assert "trainer.experiment_name=demo" in VERL.command(spec(tmp_path))
    words = VERL.command(spec(tmp_path, TOML, "trainer.experiment_name=mine"))
    assert [word for word in words if "experiment_name" in word] == ["trainer.experiment_name=mine"]


def test_what_the_file_adds_and_a_word_takes_away_was_never_there(tmp_path: Path) -> None:
    words = VERL.command(
        spec(tmp_path, TOML, "~actor_rollout_ref.model.override_config", "~data.train_files")
    )
    assert [word for word in words if "override_config" in word or "train_files" in word] == [
        "~data.train_files"
    ]


def test_the_environment_is_the_files_and_no_word_of_hydras(tmp_path: Path) -> None:
    start = spec(tmp_path, SFT, component="sft")
    assert VERL.environment(start) == {"OMP_NUM_THREADS": "1"}
    release(tmp_path / "train/verl", "0.6.1")
    assert not any("OMP" in word for word in VERL.command(start))
    # A submodule is found by the path that its own scripts set.
    assert VERL.environment(start) == {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": f"{tmp_path}/train/verl",
    }
    with pytest.raises(BadConfig, match="names and plain values"):
        VERL.environment(spec(tmp_path, "[environment]\nA = [1]\n"))


def test_what_a_look_before_the_start_needs(tmp_path: Path) -> None:
    release(tmp_path, "0.6.1")
    rl = (
        "[trainer]\nn_gpus_per_node = 4\nsave_freq = 7\nmax_actor_ckpt_to_keep = 2\n"
        "total_training_steps = 9\nlogger = ['console', 'wandb']"
    )
    needs = VERL.needs(
        spec(
            tmp_path,
            rl + "\n[actor_rollout_ref]\nmodel.path = 'a/b'\nmodel.lora_rank = 8\nrollout.name = "
            "'sglang'\n",
        )
    )
    assert {
        key: needs[key]
        for key in (
            "gpu_ids",
            "interval",
            "keep_last",
            "max_steps",
            "wandb",
            "model",
            "engine",
            "bytes_each",
        )
    } == {
        "gpu_ids": [0, 1, 2, 3],
        "interval": 7,
        "keep_last": 2,
        "max_steps": 9,
        "wandb": True,
        "model": "a/b",
        "engine": "sglang",
        "bytes_each": 4.0,
    }
    assert (
        VERL.needs(spec(tmp_path, rl + "\n[environment]\nWANDB_MODE = 'offline'"))["wandb"] is False
    )
    sft = VERL.needs(spec(tmp_path, SFT, component="sft"))
    # verl's own default asks W&B; a launch from here leaves that out where it knows a better
    # logger.
    assert (sft["gpu_ids"], sft["engine"], sft["wandb"], sft["bytes_each"]) == (
        [0, 1],
        None,
        False,
        12.0,
    )


def test_what_is_not_started_from_here(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"another name since 0\.9"):
        VERL.command(spec(tmp_path, SFT, component="sft"))
    with pytest.raises(NotApplicable, match="rl or sft"):
        VERL.command(spec(tmp_path, component="orchestrator"))
    with pytest.raises(BadConfig, match="counts steps from 1"):
        VERL.command(spec(tmp_path, resume=0))
    with pytest.raises(AgentError, match="cannot be read"):
        VERL.command(dataclasses.replace(spec(tmp_path), config=Path("gone.toml")))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_say_what_the_rules_ask_for(path: Path, tmp_path: Path) -> None:
    release(tmp_path, "0.6.1")
    known = verl_settings.flat(
        LaunchSpec(
            run="demo", trainer="verl", config=path, cwd=tmp_path, output_dir=tmp_path / "out"
        )
    )
    sft = verl_settings.component_of(known) == "sft"
    start = LaunchSpec(
        run="demo",
        trainer="verl",
        config=path,
        cwd=tmp_path,
        output_dir=tmp_path / "out",
        component="sft" if sft else "rl",
    )
    assert known["trainer.total_epochs"] if sft else VERL.max_steps(start)
    assert known["trainer.save_freq"] > 0
    assert known["trainer.max_ckpt_to_keep" if sft else "trainer.max_actor_ckpt_to_keep"] >= 2
    words = VERL.command(start)
    assert f"trainer.experiment_name={start.run}" in words or "trainer.experiment_name" in known
    assert validation.environment(VERL.environment(start)) == VERL.environment(start)
    # Hydra has one word for each key, and quotes around what it would not read.
    keys = [
        word.partition("=")[0].lstrip("+")
        for word in words
        if "=" in word and not word.startswith(("env", "VERL", "--"))
    ]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (
            ["a.b=1", "+c=x", "++d=[a,b]", "e='x y'", "f=null", "g=1e-6", "h=True"],
            {"a.b": 1, "c": "x", "d": ["a", "b"], "e": "x y", "f": None, "g": 1e-06, "h": True},
        ),
        (["a=1", "a=2"], {"a": 2}),
        (["a=1", "~a"], {}),
        (["--config-name", "x", "plain", "-m"], {}),
        (["trainer.resume_mode=off"], {"trainer.resume_mode": "off"}),
    ],
)
def test_hydras_words(words: list[str], found: object) -> None:
    assert verl_settings.overrides(words) == found


DRIVER = [
    "python3",
    "-u",
    "-m",
    "verl.trainer.main_ppo",
    "trainer.project_name=p",
    "trainer.experiment_name=e one",
    "trainer.save_freq=20",
]


def test_a_driver_that_somebody_started_tells_its_run(tmp_path: Path) -> None:
    found = registry.recognise(DRIVER, tmp_path)
    assert found is not None
    assert (found.run, found.trainer, found.component, found.config) == (
        "e-one",
        "verl",
        "rl",
        UNKNOWN_CONFIG,
    )
    # verl's default, relative to where it was started.
    assert VERL.layout(found).trainer_checkpoints == tmp_path / "checkpoints/p/e one"
    config = environment_probes.flat_settings(found, DRIVER)
    assert config is not None
    assert config["trainer.save_freq"] == 20
    assert VERL.resume_requested(found) == -1
    words = VERL.command(dataclasses.replace(found, resume=40))
    assert "trainer.save_freq=20" in words
    assert next(w for w in words if "resume" in w) == "trainer.resume_mode=resume_path"


@pytest.mark.parametrize(
    ("argv", "component", "place", "resume"),
    [
        (
            ["python3", "-m", "verl.trainer.main_ppo", "trainer.checkpoints_dir=/data/ckpt"],
            "rl",
            "/data/ckpt",
            -1,
        ),
        (
            [
                "/opt/env/bin/python3.10",
                "verl/trainer/main_ppo.py",
                "trainer.default_local_dir=/data/c",
            ],
            "rl",
            "/data/c",
            -1,
        ),
        (
            [
                "python3",
                "-m",
                "verl.trainer.main_ppo_v0",
                "trainer.default_local_dir=/d",
                "trainer.resume_mode=disable",
            ],
            "rl",
            "/d",
            None,
        ),
        (
            [
                "python3",
                "-m",
                "verl.trainer.main_ppo",
                "trainer.default_local_dir=/d",
                "trainer.resume_mode=resume_path",
                "trainer.resume_from_path=/d/global_step_20",
            ],
            "rl",
            "/d",
            20,
        ),
        (
            [
                "python3",
                "/usr/bin/torchrun",
                "--nproc_per_node=2",
                "-m",
                "verl.trainer.fsdp_sft_trainer",
                "trainer.default_local_dir=/s",
            ],
            "sft",
            "/s",
            -1,
        ),
        (
            [
                "torchrun",
                "--standalone",
                "-m",
                "verl.trainer.sft_trainer",
                "trainer.default_local_dir=/s",
            ],
            "sft",
            "/s",
            -1,
        ),
    ],
)
def test_other_starts(
    argv: list[str], component: str, place: str, resume: int | None, tmp_path: Path
) -> None:
    found = registry.recognise(argv, tmp_path)
    assert found is not None
    assert found.component == component
    assert VERL.layout(found).trainer_checkpoints == Path(place)
    assert VERL.resume_requested(found) == resume


@pytest.mark.parametrize(
    "argv",
    [
        ["bash", "-c", "python3 -m verl.trainer.main_ppo a=1"],
        ["vim", "verl/trainer/main_ppo.py"],
        ["python3", "-c", "import verl.trainer.main_ppo"],
        ["python3", "-m", "pytest", "verl.trainer.main_ppo"],
        ["python3", "other.py", "verl.trainer.main_ppo"],
        ["python3", "-m", "verl.model_merger", "merge"],
        ["ray::TaskRunner.run"],
        [],
    ],
)
def test_what_only_mentions_it_is_none(argv: list[str], tmp_path: Path) -> None:
    assert registry.recognise(argv, tmp_path) is None


def test_one_run_in_a_tree_of_processes(tmp_path: Path) -> None:
    rank = [
        "/usr/bin/python3",
        "-u",
        "-m",
        "verl.trainer.fsdp_sft_trainer",
        "trainer.default_local_dir=/s",
    ]
    torchrun = ["/usr/bin/python3", "/usr/bin/torchrun", "--nproc_per_node=2", "-m", *rank[3:]]
    procs = [
        (10, 1, ["bash", "run.sh"], tmp_path),
        (11, 10, torchrun, tmp_path),
        (12, 11, rank, tmp_path),
        (13, 11, rank, tmp_path),
        (20, 1, DRIVER, tmp_path),
        (21, 20, DRIVER, tmp_path),
        (22, 20, ["ray::TaskRunner.run"], tmp_path),
    ]
    assert [(pid, found.component) for pid, found in recognise_tree(procs)] == [
        (11, "sft"),
        (20, "rl"),
    ]


def test_the_words_that_hydra_wrote_down(tmp_path: Path) -> None:
    for number, step in ((1, 5), (10, 7)):
        kept = tmp_path / f"hydra/{number}/.hydra"
        kept.mkdir(parents=True)
        (kept / "overrides.yaml").write_text(
            f"- trainer.save_freq={step}\n- 'data.train_files=''a b.parquet'''\n- "
            "trainer.logger=[console,file]\n"
        )
    assert verl_settings.recorded(tmp_path) == {
        "trainer.save_freq": 7,
        "data.train_files": "a b.parquet",
        "trainer.logger": ["console", "file"],
    }
    assert verl_settings.recorded(tmp_path / "nowhere") == {}
