"""Rules that need more than the file: silent without it, exact with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bs4_console.configs.history import History
from bs4_console.errors import UsageError
from tests.console.configs.bases import BASES, CURRENT, JANUARY, changed, findings

OLD, NEW = "prime-rl-2026-01", "prime-rl"


def ids(directory: Path, trainer: str, text: str, **given: object) -> set[str]:
    return {item.id for item in findings(directory, trainer, text, **given)}


def step(
    root: Path, number: int, *, trainer: bool = True, orchestrator: bool = True, stable: bool = True
) -> None:
    """A checkpoint of 2026-01."""
    for there, directory, files in (
        (trainer, f"checkpoints/step_{number}/trainer", (".metadata", "__0_0.distcp")),
        (
            orchestrator,
            f"run_default/checkpoints/step_{number}/orchestrator",
            ("progress.pt", "buffer/rollout_buffer.jsonl"),
        ),
        (stable, f"run_default/broadcasts/step_{number}", ("pytorch_model.bin", "STABLE")),
    ):
        for name in files if there else ():
            (root / directory / name).parent.mkdir(parents=True, exist_ok=True)
            (root / directory / name).write_text("__0_0.distcp")


def test_a_marker_alone_makes_no_step_whole(tmp_path: Path) -> None:
    """A copy that broke off leaves the marker and not what it promises."""
    root = tmp_path / "outputs"
    step(root, 10)
    resume10 = changed(OLD, ("keep_last = 3", "keep_last = 3\nresume_step = 10"))
    assert "R20" not in ids(tmp_path, OLD, resume10, run_dir=root)
    (root / "checkpoints" / "step_10" / "trainer" / "__0_0.distcp").write_text("")
    (item,) = [item for item in findings(tmp_path, OLD, resume10, run_dir=root) if item.id == "R20"]
    assert "it lacks trainer (__0_0.distcp is empty)" in item.message
    assert "No step is complete" in item.fix


def test_a_step_of_the_current_generation_needs_both_halves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "outputs" / "practice-1"
    for part, files in (
        ("trainer", (".metadata", "__0_0.distcp")),
        ("orchestrator", ("progress.pt",)),
    ):
        for name in files:
            path = root / "checkpoints" / "step_10" / part / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("__0_0.distcp")
    resume10 = changed(NEW, ("max_steps = 1000\n", "max_steps = 1000\n[resume]\nstep = 10\n"))
    assert "R20" not in ids(tmp_path, NEW, resume10, run_dir=root)
    monkeypatch.chdir(root / "checkpoints")
    assert "R20" not in ids(tmp_path, NEW, resume10, run_dir=Path(".."))
    elsewhere = resume10.replace("keep_last = 3", 'keep_last = 3\noutput_dir = "/elsewhere"')
    assert "R20" not in ids(tmp_path, NEW, elsewhere, run_dir=root), (
        "the directory that was given is the one that is looked at"
    )
    (root / "checkpoints" / "step_10" / "orchestrator" / "progress.pt").unlink()
    (item,) = [item for item in findings(tmp_path, NEW, resume10, run_dir=root) if item.id == "R20"]
    assert "it lacks orchestrator (no progress.pt)" in item.message


def test_resume_needs_a_step_that_is_complete_everywhere(tmp_path: Path) -> None:
    root = tmp_path / "outputs"
    root.mkdir()
    step(root, 10)
    resume10 = changed(OLD, ("keep_last = 3", "keep_last = 3\nresume_step = 10"))
    latest = resume10.replace("resume_step = 10", "resume_step = -1")
    assert "R20" not in ids(tmp_path, OLD, resume10, run_dir=root)
    assert "R20" not in ids(tmp_path, OLD, latest, run_dir=root)
    assert "R20" not in ids(tmp_path, OLD, resume10), (
        "nothing is said about a directory that was not given"
    )
    step(root, 15, trainer=False, stable=False)
    assert "R20" in ids(tmp_path, OLD, resume10, run_dir=root), "the orchestrator is ahead"
    assert "R20" in ids(tmp_path, OLD, latest, run_dir=root)
    assert "R20" in ids(tmp_path, OLD, JANUARY, run_dir=root), (
        "a fresh start over stale checkpoints"
    )
    found = findings(
        tmp_path, OLD, resume10.replace("resume_step = 10", "resume_step = 15"), run_dir=root
    )
    (item,) = [item for item in found if item.id == "R20"]
    assert "step 10" in item.fix
    assert "resume_step" in (tmp_path / "config.toml").read_text().split("\n")[item.line - 1]


def test_a_directory_that_is_not_empty(tmp_path: Path) -> None:
    root = tmp_path / "run"
    root.mkdir()
    assert "P03" not in ids(tmp_path, NEW, CURRENT, run_dir=root)
    (root / "configs").mkdir()
    assert "P03" in ids(tmp_path, NEW, CURRENT, run_dir=root)
    assert "P03" not in ids(
        tmp_path,
        NEW,
        changed(NEW, ("max_steps = 1000", "max_steps = 1000\nclean = true")),
        run_dir=root,
    )


@pytest.mark.parametrize("trainer", [OLD, NEW])
def test_environments_that_are_installed(tmp_path: Path, trainer: str) -> None:
    assert "P05" not in ids(tmp_path, trainer, BASES[trainer])
    assert "P05" not in ids(tmp_path, trainer, BASES[trainer], installed=("some_env",))
    assert "P05" in ids(tmp_path, trainer, BASES[trainer], installed=("another-env",))


def test_gpus_of_the_pod(tmp_path: Path) -> None:
    assert "R25" not in ids(tmp_path, OLD, JANUARY, gpus=2)
    assert "R25" in ids(tmp_path, OLD, JANUARY, gpus=1)
    assert "R25" in ids(tmp_path, NEW, CURRENT, gpus=1)


def test_names_that_are_taken(tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text(JANUARY)
    assert {"R28", "R04"} <= ids(tmp_path, OLD, JANUARY, beside=(other,))
    other.write_text(
        JANUARY.replace("practice-1", "practice-2").replace("qwen3-8b-practice", "another")
    )
    assert not {"R28", "R04"} & ids(tmp_path, OLD, JANUARY, beside=(other,))


def test_the_environment_in_the_header(tmp_path: Path) -> None:
    assert "R27" not in ids(tmp_path, OLD, JANUARY, env_version="0.1.1")
    assert "R27" in ids(tmp_path, OLD, JANUARY, env_version="0.1.0")
    assert "R27" not in ids(
        tmp_path, OLD, JANUARY.replace("# env_version: 0.1.1\n", ""), env_version="0.1.0"
    )


def test_a_run_in_the_same_directory(tmp_path: Path) -> None:
    assert "R34" in ids(tmp_path, OLD, JANUARY, running=("outputs",))
    assert "R34" not in ids(tmp_path, OLD, JANUARY, running=("elsewhere",))


def test_the_launch_command_counts(tmp_path: Path) -> None:
    bare = JANUARY.replace(" --ckpt --ckpt.interval 5 --ckpt.keep-last 3", "").replace(
        "[ckpt]\ninterval = 5\nkeep_last = 3\n", ""
    )
    assert "R19" in ids(tmp_path, OLD, bare)
    assert "R19" not in ids(
        tmp_path,
        OLD,
        bare,
        launch="uv run rl @ config.toml --ckpt --ckpt.interval 5 --ckpt.keep-last 3",
    )
    assert {"R17", "R18"} <= ids(
        tmp_path, OLD, JANUARY, launch="uv run prime-rl @config.toml"
    ) | ids(tmp_path, OLD, JANUARY, launch="uv run rl @config.toml")


def test_history_and_the_header(tmp_path: Path) -> None:
    registry, file = tmp_path / "registry.json", tmp_path / "config.toml"
    assert "R26" in ids(tmp_path, OLD, JANUARY, registry=registry), "not recorded at all"
    import tomllib

    history = History.read(registry)
    for n, reason in enumerate(("first", "fewer tokens", "local tools"), 1):
        history.add(
            file,
            History.digest({**tomllib.loads(JANUARY), **({"max_steps": n} if n < 3 else {})}),
            reason,
            "2026-01-05",
        )
    history.write()
    again = History.read(registry)
    assert [(v.version, v.based_on, v.reason) for v in again.versions("config.toml")] == [
        ("v1", "", "first"),
        ("v2", "v1", "fewer tokens"),
        ("v3", "v2", "local tools"),
    ]
    assert "R26" not in ids(tmp_path, OLD, JANUARY, registry=registry)
    assert "R26" in ids(
        tmp_path, OLD, JANUARY.replace("version: v3", "version: v2"), registry=registry
    )
    assert "R26" in ids(
        tmp_path, OLD, JANUARY.replace("lr = 1e-5", "lr = 2e-5"), registry=registry
    ), "changed, not bumped"
    assert "R26" in ids(
        tmp_path, OLD, JANUARY.replace("Based on: v2", "Based on: other.toml:v7"), registry=registry
    )
    with pytest.raises(UsageError, match="not changed"):
        again.add(file, History.digest(tomllib.loads(JANUARY)), "nothing", "2026-01-06")


def test_the_registry_that_people_kept(tmp_path: Path) -> None:
    registry = tmp_path / "registry.json"
    registry.write_text(
        '{"configs": {"configs/config.toml": {"current_version": "v3", "versions": {"v2": '
        '{"notes": "a"}, "v3": {"notes": "b"}}}}}'
    )
    assert "R26" not in ids(tmp_path, OLD, JANUARY, registry=registry)


def test_what_is_in_use_by_the_registry_is_held_against_the_current_version(tmp_path: Path) -> None:
    registry = tmp_path / "registry.json"
    kept = {
        "active_configs": {"default": "configs/config.toml:v3", "other": "configs/other.toml:v1"},
        "configs": {
            "configs/config.toml": {"current_version": "v3", "versions": {"v2": {}, "v3": {}}},
            "configs/other.toml": {"current_version": "v2", "versions": {"v1": {}, "v2": {}}},
        },
    }
    registry.write_text(json.dumps(kept))
    assert History.read(registry).active("configs/config.toml") == {"default": "v3"}
    assert "R26" not in ids(tmp_path, OLD, JANUARY, registry=registry)
    registry.write_text(json.dumps(kept).replace("config.toml:v3", "config.toml:v2"))
    (item,) = [
        each for each in findings(tmp_path, OLD, JANUARY, registry=registry) if each.id == "R26"
    ]
    assert "has v2 of it in use as default, and v3 is the current one" in item.message
    for odd in ('"a text"', "[1]", "null", '{"x": 3}'):
        registry.write_text('{"active_configs": ' + odd + ', "configs": {}}')
        assert History.read(registry).active("configs/config.toml") == {}


def test_toml_files_replace_whole_tables_in_january(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(
        "[orchestrator]\nbatch_size = 12\nrollouts_per_example = 8\n"
    )
    text = 'toml_files = ["base.toml"]\n' + JANUARY
    (item,) = [item for item in findings(tmp_path, OLD, text) if item.id == "R16"]
    assert item.line == 1
    assert "schema" in ids(tmp_path, OLD, 'toml_files = ["missing.toml"]\n' + JANUARY)
