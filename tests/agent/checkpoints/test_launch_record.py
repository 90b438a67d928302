"""What of a launch travels with its checkpoints: arguments, environment and the files that they
name; never a key.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from bs4_common.checkpoints import launch_record
from bs4_common.checkpoints.launch_record import ConfigFiles, config_files
from bs4_common.checkpoints.remote.errors import StoreDamaged
from bs4_common.checkpoints.remote.launched import CONFIGS, Launched
from bs4_common.checkpoints.remote.manifest import File, Manifest
from bs4_common.trainers.base import LaunchSpec

KEY = "hf_" + "a" * 34
SHA1 = "0" * 40


def spec(
    root: Path, *overrides: str, trainer: str = "prime-rl-2026-01", config: str = "configs/rl.toml"
) -> LaunchSpec:
    path = root / config
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_text("max_steps = 10\n")
    return LaunchSpec(
        run="demo",
        trainer=trainer,
        config=Path(config),
        cwd=root,
        output_dir=root / "outputs",
        overrides=overrides,
    )


def put(path: Path, text: str = "lr = 1e-6\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def found(spec: LaunchSpec) -> ConfigFiles:
    made = config_files(spec, spec.output_dir)
    assert all(path.is_file() for path in made.files.values())
    return made


def test_arguments_and_environment_without_the_ids_at_wandb(tmp_path: Path) -> None:
    words = (
        "--max-steps",
        "90",
        "--trainer.wandb.id",
        "t1",
        "--orchestrator.wandb.id",
        "o1",
        "--no-clean",
    )
    known = dataclasses.replace(
        spec(tmp_path, *words),
        env={"PRL_RUN_ID": "p1", "VLLM_USE_V1": "0"},
        component="trainer",
        processes=4,
    )
    assert launch_record.record_of(known) == Launched(
        ["--max-steps", "90", "--no-clean"], {"VLLM_USE_V1": "0"}, "trainer", 4, left_out=[]
    )


def test_the_words_of_verl_are_kept_as_they_are(tmp_path: Path) -> None:
    words = ("trainer.total_training_steps=9", "+data.x=1", f"custom.token={KEY}")
    made = launch_record.record_of(
        dataclasses.replace(spec(tmp_path, *words, trainer="verl"), env={"WANDB_RUN_ID": "w1"})
    )
    assert (list(made.overrides), dict(made.env)) == (list(words[:2]), {"WANDB_RUN_ID": "w1"})
    assert made.left_out == [
        "the option custom.token, which holds what looks like a Hugging Face token"
    ]


def test_a_key_stays_where_it_is_and_is_said(tmp_path: Path) -> None:
    words = ("--max-steps", "90", "--orchestrator.client.header", KEY, "--seed", "1")
    made = launch_record.record_of(
        dataclasses.replace(
            spec(tmp_path, *words), env={"ENDPOINT": f"https://x/{KEY}", "A": "1"}, container="box"
        )
    )
    assert list(made.overrides) == ["--max-steps", "90", "--seed", "1"]
    assert dict(made.env) == {"A": "1"}
    assert KEY not in json.dumps(made.as_dict())
    assert [text.split(",")[0] for text in made.left_out] == [
        "the option --orchestrator.client.header",
        "the variable ENDPOINT",
        "the container box",
    ]


def test_a_config_that_stands_alone(tmp_path: Path) -> None:
    assert dict(found(spec(tmp_path)).files) == {
        ".bs4/config/rl.toml": tmp_path / "configs/rl.toml"
    }
    inside = found(spec(tmp_path, config="outputs/mine/rl.toml"))
    assert (inside.main, list(inside.files)) == ("mine/rl.toml", ["mine/rl.toml"])
    assert found(dataclasses.replace(spec(tmp_path), config=Path("configs/none.toml"))).files == {}
    assert found(dataclasses.replace(spec(tmp_path), config=Path())).main == ""


def test_further_files_lie_to_each_other_as_they_did(tmp_path: Path) -> None:
    put(tmp_path / "configs/rl.toml", 'toml_files = ["../base/all.toml"]\n')
    put(tmp_path / "base/all.toml", 'toml_files = ["all.toml"]\n')
    put(tmp_path / "parts/trainer.toml", 'toml_files = ["optim.toml"]\n')
    put(tmp_path / "parts/optim.toml")
    made = found(spec(tmp_path, "--trainer", "@", "parts/trainer.toml", "--max-steps", "9"))
    assert made.main == ".bs4/config/configs/rl.toml"
    parts = [".bs4/config/parts/optim.toml", ".bs4/config/parts/trainer.toml"]
    assert sorted(made.files) == [".bs4/config/base/all.toml", made.main, *parts]
    assert dict(made.named) == {"parts/trainer.toml": ".bs4/config/parts/trainer.toml"}
    assert list(made.left_out) == []


def test_a_launch_whose_parts_have_a_file_each(tmp_path: Path) -> None:
    """Its config is one of the files behind the options, and stays one of them."""
    words = ("--trainer", "@", "t.toml", "--orchestrator", "@", "o.toml")
    put(tmp_path / "o.toml")
    made = found(spec(tmp_path, *words, config="t.toml"))
    assert (made.main, made.named["t.toml"]) == (".bs4/config/t.toml", ".bs4/config/t.toml")
    record = dataclasses.replace(
        launch_record.record_of(spec(tmp_path, *words, config="t.toml")), files=made.named
    )
    assert record.words(lambda path: f"/new/{path}") == (
        "--trainer",
        "@",
        "/new/.bs4/config/t.toml",
        "--orchestrator",
        "@",
        "/new/.bs4/config/o.toml",
    )


def test_what_cannot_travel_is_said(tmp_path: Path) -> None:
    put(tmp_path / "configs/rl.toml", f'toml_files = ["{tmp_path}/far.toml", "gone.toml"]\n')
    put(tmp_path / "far.toml")
    put(tmp_path / "huge.toml", "#" * (1 << 20) + "#")
    made = found(spec(tmp_path, "--trainer", "@", "huge.toml", "--inference", "@", "none.toml"))
    assert (made.main, dict(made.named)) == (".bs4/config/rl.toml", {})
    assert [text.split(",")[0].rpartition("/")[2] for text in made.left_out] == [
        "far.toml",
        "gone.toml",
        "huge.toml",
        "none.toml",
    ]


def test_a_word_is_a_file_only_behind_its_at() -> None:
    record = Launched(
        ["--name", "t.toml", "--trainer", "@", "t.toml"], files={"t.toml": "x/t.toml"}
    )
    assert record.words(lambda path: f"/new/{path}") == (
        "--name",
        "t.toml",
        "--trainer",
        "@",
        "/new/x/t.toml",
    )


def test_a_manifest_keeps_it_and_one_without_reads_as_before() -> None:
    bare = Manifest(
        run="demo",
        trainer="prime-rl",
        step=5,
        attempt=1,
        created_t=1.0,
        files=[File(f"{CONFIGS}/t.toml", 1, SHA1)],
        parts={"trainer": "x"},
    )
    assert b"launch" not in bare.encode()
    assert Manifest.decode(bare.encode()) == bare
    record = Launched(
        ("--trainer", "@", "t.toml"),
        {"A": "1"},
        "rl",
        1,
        {"t.toml": f"{CONFIGS}/t.toml"},
        ("the variable B, which is a key",),
    )
    kept = dataclasses.replace(bare, launch=record)
    assert Manifest.decode(kept.encode()).launch == record


@pytest.mark.parametrize(
    "change",
    [
        {"files": {"t.toml": "y.toml"}},
        {"processes": "4"},
        {"overrides": "--x"},
        {"env": ["A=1"]},
        {"component": None, "env": None},
    ],
)
def test_a_manifest_whose_record_is_none_is_refused(change: dict[str, object]) -> None:
    bare = Manifest(
        run="demo",
        trainer="prime-rl",
        step=5,
        attempt=1,
        created_t=1.0,
        files=[File("x/t.toml", 1, SHA1)],
        parts={"trainer": "x"},
    )
    raw = json.loads(bare.encode()) | {"launch": {**Launched().as_dict(), **change}}
    with pytest.raises(StoreDamaged):
        Manifest.decode(json.dumps(raw).encode())


@pytest.mark.parametrize(
    "words",
    [
        ("+trainer.token=tok123",),
        ("env.headers.Authorization=Bearer_abc",),
        ('env.args={"api_key": "abc-def", "rows": 4}',),
        ("--orchestrator.env.0.args", '{"secret":"x1y2"}'),
        ("--client.base-url", "https://me:pass@192.0.2.4/v1"),
        ("--orchestrator.client.api-key", "EMPTY-not"),
    ],
)
def test_what_is_named_as_a_secret_stays_however_short(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    made = launch_record.record_of(
        dataclasses.replace(spec(tmp_path, *words), env={"SERVICE_TOKEN": "abc"})
    )
    assert (list(made.overrides), dict(made.env), len(made.left_out)) == ([], {}, 2)
    assert not any(
        value in json.dumps(made.as_dict())
        for value in ("tok123", "Bearer", "abc", "x1y2", "pass", "EMPTY")
    )


@pytest.mark.parametrize(
    "word",
    [
        "data.prompt_key=prompt",
        "data.reward_fn_key=data_source",
        "tokenizer.eos_token=<|im_end|>",
        "rollout.max_token=4096",
        'client={"api_key_var": "VLLM_API_KEY"}',
        "trainer.default_local_dir=/mnt/token/run",
        "client.base_url=https://192.0.2.4:8000/v1",
    ],
)
def test_what_only_sounds_like_one_travels(tmp_path: Path, word: str) -> None:
    made = launch_record.record_of(spec(tmp_path, word, trainer="verl"))
    assert (list(made.overrides), list(made.left_out)) == ([word], [])


def test_what_a_machine_has_stays_with_it(tmp_path: Path) -> None:
    bound = {
        "CUDA_VISIBLE_DEVICES": "4,5",
        "NCCL_SOCKET_IFNAME": "eth7",
        "VIRTUAL_ENV": "/opt/old",
        "UV_PROJECT_ENVIRONMENT": "/opt/old",
    }
    made = launch_record.record_of(
        dataclasses.replace(
            spec(tmp_path), env={**bound, "HF_HOME": "/data/hf", "NCCL_DEBUG": "INFO"}
        )
    )
    assert dict(made.env) == {"HF_HOME": "/data/hf", "NCCL_DEBUG": "INFO"}
    assert list(made.left_out) == [
        f"the variable {name}, which is of its machine" for name in bound
    ]


def test_a_further_file_that_holds_a_key_is_not_copied(tmp_path: Path) -> None:
    put(tmp_path / "parts/client.toml", 'api_key = "abc-def"\n')
    put(tmp_path / "parts/model.toml", 'api_key_var = "VLLM_API_KEY"\n')
    made = found(
        spec(tmp_path, "--client", "@", "parts/client.toml", "--model", "@", "parts/model.toml")
    )
    assert dict(made.named) == {"parts/model.toml": ".bs4/config/parts/model.toml"}
    assert list(made.left_out) == [
        (
            f"the config file {tmp_path}/parts/client.toml, which holds what looks like a secret "
            "by its name"
        )
    ]


def test_a_record_that_names_what_is_no_config_is_damage() -> None:
    """A restore puts configs beside the parts; a file of a part has no such place."""
    record = Launched(("--trainer", "@", "t.toml"), {}, "rl", 1, {"t.toml": "trainer/t.toml"})
    one = Manifest(
        run="demo",
        trainer="prime-rl",
        step=5,
        attempt=1,
        created_t=1.0,
        files=[File("trainer/t.toml", 1, SHA1)],
        parts={"trainer": "trainer"},
        launch=record,
    )
    with pytest.raises(StoreDamaged, match="names a config that is none"):
        Manifest.decode(one.encode())
