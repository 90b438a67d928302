"""Launchers that somebody started by hand, from what /proc shows of them. The last tests look at
real processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from bs4_common.trainers import registry
from bs4_common.trainers.launcher import component, launch_words, run_name
from bs4_common.trainers.settings import UNKNOWN_CONFIG

OLD_TOML = 'inference_gpu_ids = [0]\n[wandb]\nname = "bs4 run/1"\n[ckpt]\ninterval = 5\n'
NEW_TOML = '[run]\nname = "demo"\n[orchestrator.train]\n'


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "words",
    [
        ["uv", "run", "rl", "@", "cfg.toml"],
        ["/root/.local/bin/uv", "run", "--no-sync", "--extra", "flash-attn", "rl", "@", "cfg.toml"],
        ["/root/prime-rl/.venv/bin/python3", "/root/prime-rl/.venv/bin/rl", "@", "cfg.toml"],
        ["python", "-u", "-X", "dev", "bin/rl", "@", "cfg.toml"],
        ["python3.12", "-m", "prime_rl.rl", "@", "cfg.toml"],
    ],
)
def test_2026_01_launchers(tmp_path: Path, words: list[str]) -> None:
    write(tmp_path / "cfg.toml", OLD_TOML)
    spec = registry.recognise(
        [*words, "--output-dir", "out", "--ckpt.resume-step", "20", "--max-steps", "50"], tmp_path
    )
    assert spec is not None
    assert (spec.trainer, spec.config, spec.cwd, spec.output_dir) == (
        "prime-rl-2026-01",
        Path("cfg.toml"),
        tmp_path,
        tmp_path / "out",
    )
    assert (spec.run, spec.resume, list(spec.overrides)) == ("bs4-run-1", 20, ["--max-steps", "50"])
    # The same run again, from another step, is a plain command.
    assert registry.get(spec.trainer).command(spec)[:7] == [
        "uv",
        "run",
        "rl",
        "@",
        "cfg.toml",
        "--max-steps",
        "50",
    ]


@pytest.mark.parametrize(
    "words",
    [
        [],
        [""],
        ["bash", "-c", "uv run rl @ cfg.toml"],
        ["python", "train.py", "rl", "@", "cfg.toml"],
        ["python", "-c", "print('rl @ x')"],
        ["vim", "rl"],
        ["uv", "run", "rl"],
        ["uv", "pip", "install", "rl"],
        ["uv", "run", "orchestrator", "@", "cfg.toml"],
        ["python", "/x/.venv/bin/inference", "@", "cfg.toml"],
        ["python", "/x/.venv/bin/rl", "--help"],
        ["python", "-m"],
        ["tail", "-F", "out/logs/trainer.stdout"],
    ],
)
def test_other_processes(tmp_path: Path, words: list[str]) -> None:
    write(tmp_path / "cfg.toml", OLD_TOML)
    assert registry.recognise(words, tmp_path) is None


def test_rl_is_a_short_name_for_anything() -> None:
    assert launch_words(["/opt/bin/rl", "--help"]) is None
    assert launch_words(["/opt/bin/rl", "@", "x.toml"]) == (["@", "x.toml"], Path("/opt/bin/rl"))


def test_output_directory_from_the_config_or_the_default(tmp_path: Path) -> None:
    write(tmp_path / "cfg.toml", 'output_dir = "from_toml"\n' + OLD_TOML)
    words = ["uv", "run", "rl", "@", "cfg.toml"]
    found = registry.recognise(words, tmp_path)
    assert found is not None
    assert found.output_dir == tmp_path / "from_toml"
    write(tmp_path / "cfg.toml", "trainer_gpu_ids = [1]")
    found = registry.recognise(words, tmp_path)
    assert found is not None
    assert (found.output_dir, found.run) == (tmp_path / "outputs", "cfg")


def test_latest_stays_visible_but_is_no_step(tmp_path: Path) -> None:
    write(tmp_path / "cfg.toml", OLD_TOML)
    spec = registry.recognise(
        ["uv", "run", "rl", "@", "cfg.toml", "--ckpt.resume-step", "-1"], tmp_path
    )
    assert spec is not None
    assert spec.resume is None
    assert registry.get(spec.trainer).resume_requested(spec) == -1


def test_current_launcher_by_its_uv_parent(tmp_path: Path) -> None:
    write(tmp_path / "cfg.toml", NEW_TOML)
    words = [
        "uv",
        "run",
        "rl",
        "@",
        "cfg.toml",
        "--output-dir",
        "/data/out",
        "--clean",
        "--resume.step",
        "7",
        "--trainer.optim.lr",
        "1e-6",
    ]
    spec = registry.recognise(words, tmp_path)
    assert spec is not None
    assert (spec.trainer, spec.run, spec.trainer_name, spec.output_dir) == (
        "prime-rl",
        "demo",
        "demo",
        Path("/data/out"),
    )
    assert (spec.resume, list(spec.overrides)) == (7, ["--trainer.optim.lr", "1e-6"])


def test_the_console_script_decides_where_the_words_do_not(tmp_path: Path) -> None:
    write(tmp_path / "cfg.toml", "max_steps = 5")
    script = write(
        tmp_path / ".venv/bin/rl", "#!python\nfrom prime_rl.entrypoints.rl import main\n"
    )
    for words in (["uv", "run", "rl"], ["python", str(script)]):
        spec = registry.recognise([*words, "@", "cfg.toml", "--run.name", "x"], tmp_path)
        assert spec is not None
        assert spec.trainer == "prime-rl"
    write(script, "#!python\nfrom prime_rl.rl import main\n")
    spec = registry.recognise(["uv", "run", "rl", "@", "cfg.toml"], tmp_path)
    assert spec is not None
    assert spec.trainer == "prime-rl-2026-01"


def test_names_that_cannot_be_file_names_are_kept_for_the_trainer(tmp_path: Path) -> None:
    write(tmp_path / "cfg.toml", '[run]\nname = "a+b--model"\ndir = "dir x"\n[monitors]\n')
    spec = registry.recognise(["uv", "run", "rl", "@", "cfg.toml"], tmp_path)
    assert spec is not None
    assert (spec.run, spec.trainer_name, list(spec.overrides)) == (
        "dir-x",
        "a+b--model",
        ["--run.dir", "dir x"],
    )
    assert registry.get("prime-rl").layout(spec).run_dir == tmp_path / "outputs" / "dir x"
    assert [run_name(text) for text in ("..", "a b", "-x-", "")] == ["run", "a-b", "x", "run"]


Row = tuple[int, int, Sequence[str], Path]


def current_tree(cwd: Path, out: str = "/data/out/demo") -> list[Row]:
    """A current run as /proc shows it: titles on all but torchrun, the shell and tail."""
    logs = f"{out}/logs/attempt_2"
    return [
        (10, 1, ["uv", "run", "rl", "@", "cfg.toml", "--output-dir", "/data/out"], cwd),
        (11, 10, ["PRIME-RL::Launcher"], cwd),
        (12, 11, ["PRIME-RL::Inference"], cwd),
        (13, 12, ["VLLM::EngineCore"], cwd),
        (14, 11, ["PRIME-RL::EnvServer"], cwd),
        (15, 11, ["PRIME-RL::Orchestrator"], cwd),
        (
            16,
            11,
            [
                "python",
                "/v/bin/torchrun",
                f"--log-dir={out}/logs/attempt_2/trainer/torchrun",
                "@",
                f"{out}/configs/trainer.json",
            ],
            cwd,
        ),
        (17, 16, ["PRIME-RL::Trainer"], cwd),
        (18, 11, ["/bin/sh", "-c", f"tail -F '{logs}/orchestrator.log'"], cwd),
        (19, 18, ["tail", "-F", f"{logs}/orchestrator.log"], cwd),
    ]


def test_current_tree_has_one_launcher(tmp_path: Path) -> None:
    write(tmp_path / "cfg.toml", NEW_TOML)
    assert [
        (pid, spec.run, spec.config)
        for pid, spec in registry.recognise_tree(current_tree(tmp_path))
    ] == [(11, "demo", Path("cfg.toml"))]


def test_an_automatic_name_is_told_by_the_children(tmp_path: Path) -> None:
    write(tmp_path / "cfg.toml", "[monitors]\n")
    out = "/data/out/reverse-text+x--qwen--0123abcd"
    [(pid, spec)] = registry.recognise_tree(current_tree(tmp_path, out))
    assert (pid, spec.run, spec.trainer_name) == (
        11,
        "reverse-text-x--qwen--0123abcd",
        "reverse-text+x--qwen--0123abcd",
    )
    assert registry.get("prime-rl").layout(spec).run_dir == Path(out)
    # Before its children are there nobody can say where it will write.
    assert (
        registry.recognise_tree([row for row in current_tree(tmp_path, out) if row[0] < 12]) == []
    )


def test_a_launcher_without_uv_is_known_by_torchruns_environment(tmp_path: Path) -> None:
    write(tmp_path / "cfg.toml", NEW_TOML)
    tree = [
        row if row[0] != 11 else (11, 1, row[2], row[3])
        for row in current_tree(tmp_path)
        if row[0] != 10
    ]
    argv = ["/v/bin/rl", "@", "cfg.toml", "--output-dir", "/data/out", "--resume.step", "3"]

    def environ(pid: int) -> Mapping[str, str]:
        return {"WANDB_ARGS": json.dumps(argv)} if pid == 16 else {}

    [(pid, spec)] = registry.recognise_tree(tree, environ)
    assert (pid, spec.config, spec.resume, spec.run) == (11, Path("cfg.toml"), 3, "demo")
    # Without it the run can still be watched; only its config is not known.
    [(pid, spec)] = registry.recognise_tree(tree)
    assert (pid, spec.config, spec.run, spec.output_dir) == (
        11,
        UNKNOWN_CONFIG,
        "demo",
        Path("/data/out"),
    )
    assert registry.get("prime-rl").layout(spec).run_dir == Path("/data/out/demo")
    with pytest.raises(Exception, match="with its config named"):
        registry.get("prime-rl").command(spec)
    assert (
        registry.recognise_tree(tree, lambda pid: {"WANDB_ARGS": "{broken"})[0][1].config
        == UNKNOWN_CONFIG
    )


def old_tree(cwd: Path) -> list[Row]:
    temp = ".pydantic_config/temp_1.toml"
    return [
        (20, 1, ["uv", "run", "rl", "@", "cfg.toml"], cwd),
        (21, 20, ["/v/bin/python3", "/v/bin/rl", "@", "cfg.toml"], cwd),
        (22, 21, ["uv", "run", "inference", "@", temp], cwd),
        (23, 22, ["/v/bin/python3", "/v/bin/inference", "@", temp], cwd),
        (24, 23, ["VLLM::EngineCore"], cwd),
        (25, 21, ["uv", "run", "orchestrator", "@", temp], cwd),
        (26, 25, ["/v/bin/python3", "/v/bin/orchestrator", "@", temp], cwd),
        (
            27,
            21,
            ["uv", "run", "env", "A=1", "torchrun", "-m", "prime_rl.trainer.rl.train", "@", temp],
            cwd,
        ),
        (
            28,
            27,
            [
                "/v/bin/python3",
                "/v/bin/torchrun",
                "--nproc-per-node=1",
                "-m",
                "prime_rl.trainer.rl.train",
                "@",
                temp,
            ],
            cwd,
        ),
        (29, 28, ["/v/bin/python3", "-u", "-m", "prime_rl.trainer.rl.train", "@", temp], cwd),
        (30, 21, ["tail", "-F", "outputs/logs/trainer.stdout"], cwd),
    ]


def test_2026_01_tree_has_one_launcher_even_while_it_forks(tmp_path: Path) -> None:
    write(tmp_path / "cfg.toml", OLD_TOML)
    forked = (31, 21, ["/v/bin/python3", "/v/bin/rl", "@", "cfg.toml"], tmp_path)
    found = registry.recognise_tree([*old_tree(tmp_path), forked])
    assert [(pid, spec.trainer) for pid, spec in found] == [(21, "prime-rl-2026-01")]


def test_components_have_names(tmp_path: Path) -> None:
    names = {
        pid: component(words, "")
        for pid, _, words, _ in [*old_tree(tmp_path), *current_tree(tmp_path)]
    }
    current = [
        "uv",
        "launcher",
        "inference",
        "engine",
        "env-server",
        "orchestrator",
        "trainer",
        "rank",
        "tail",
        "tail",
    ]
    old = [
        "uv",
        "launcher",
        "uv",
        "inference",
        "engine",
        "uv",
        "orchestrator",
        "uv",
        "trainer",
        "rank",
        "tail",
    ]
    assert names == dict(enumerate(current + old, start=10))


@pytest.mark.parametrize(
    ("words", "comm", "name"),
    [
        ([], "PRIME-RL::Launc", "launcher"),
        ([""], "VLLM::EngineCor", "engine"),
        (["VLLM::Worker_TP0"], "", "worker"),
        (["VLLM::EngineCore_DP1"], "", "engine"),
        (["Verifiers::EnvWorker3"], "", "env-server"),
        (["vllm-router", "--port", "8000"], "", "router"),
        (["/bin/sh", "-c", "tail", "-F", "'/x'"], "sh", "tail"),
        (["bash"], "bash", None),
        (["rl"], "rl", None),
        ([], "python3", None),
    ],
)
def test_component_details(words: list[str], comm: str, name: str | None) -> None:
    assert component(words, comm) == name


def test_an_inference_server_apart_from_any_run(tmp_path: Path) -> None:
    write(tmp_path / "i.toml", "[model]\nname = 'x'")
    own = ["/v/bin/python3", "/v/bin/inference", "@", "i.toml"]
    tree: list[Row] = [
        (40, 1, ["uv", "run", "inference", "@", "i.toml"], tmp_path),
        (41, 40, own, tmp_path),
        (42, 41, ["VLLM::APIServer_0"], tmp_path),
        (43, 41, own, tmp_path),  # forked, not yet something else
    ]
    [(pid, spec)] = registry.recognise_tree(tree)
    assert (pid, spec.component, spec.trainer, list(spec.argv)) == (
        41,
        "inference",
        "prime-rl-2026-01",
        list(tree[0][2]),
    )
    assert registry.get(spec.trainer).command(spec) == list(tree[0][2])
    assert registry.recognise_tree([(41, 1, own, tmp_path)])[0][1].argv == tuple(own)
    write(tmp_path / "i.toml", "[vllm]\nmodel = 'x'")
    assert (
        registry.recognise_tree([tree[0], (41, 40, ["PRIME-RL::Inference"], tmp_path)])[0][
            1
        ].trainer
        == "prime-rl"
    )
    # nothing tells how it was started
    assert registry.recognise_tree([(41, 1, ["PRIME-RL::Inference"], tmp_path)]) == []


def test_a_circle_of_reused_pids_ends(tmp_path: Path) -> None:
    assert (
        registry.recognise_tree([(1, 2, ["PRIME-RL::Launcher"], tmp_path), (2, 1, ["x"], tmp_path)])
        == []
    )


# Real processes


@pytest.fixture
def real_run(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`uv run rl @ cfg.toml` whose launcher takes a title and has a torchrun that keeps its argv.
    `uv` is a shell under that name.
    """
    run_dir = tmp_path / "out" / "demo"
    write(tmp_path / "cfg.toml", NEW_TOML)
    write(tmp_path / "bin/torchrun", "import time; time.sleep(60)")
    write(
        tmp_path / "bin/rl",
        textwrap.dedent(f"""
            import json, os, subprocess, sys, setproctitle
            argv = list(sys.argv)
            setproctitle.setproctitle("PRIME-RL::Launcher")
            subprocess.run(
                [sys.executable, {str(tmp_path / "bin/torchrun")!r},
                 "--log-dir={run_dir}/logs/attempt_1/trainer/torchrun", "-m", "x"],
                env={{**os.environ, "WANDB_ARGS": json.dumps(argv)}},
            )
        """),
    )
    # The shell's own words are `uv run rl @ ...`: it reads the script `run`, and the rest are its
    # arguments.
    write(tmp_path / "run", f'shift\n"{sys.executable}" "{tmp_path}/bin/rl" "$@" &\nwait\n')
    process = subprocess.Popen(
        ["uv", "run", "rl", "@", "cfg.toml", "--output-dir", "out"],
        executable="/bin/sh",
        cwd=tmp_path,
        start_new_session=True,
    )
    yield process
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def family(root: int) -> list[Row]:
    """The processes below `root` and itself, from /proc."""
    rows: dict[int, Row] = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid = int(entry.name)
            words = (entry / "cmdline").read_bytes().rstrip(b"\0").decode().split("\0")
            ppid = int((entry / "stat").read_text().rpartition(") ")[2].split()[1])
            rows[pid] = (pid, ppid, words, (entry / "cwd").readlink())
    found = {root}
    while len(found) != len(found := found | {pid for pid, row in rows.items() if row[1] in found}):
        pass
    return [rows[pid] for pid in found if pid in rows]


def environment(pid: int) -> Mapping[str, str]:
    with contextlib.suppress(OSError):
        pairs = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
        return dict(pair.partition("=")[::2] for pair in pairs)
    return {}


def wait_for_tree(root: int) -> list[Row]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        rows = family(root)
        kinds = {component(row[2], "") for row in rows}
        if {"uv", "launcher", "trainer"} <= kinds:
            return rows
        time.sleep(0.02)
    raise AssertionError(f"the tree did not appear: {family(root)}")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_real_launcher_behind_a_title(real_run: subprocess.Popen[bytes], tmp_path: Path) -> None:
    rows = wait_for_tree(real_run.pid)
    launcher_pid = next(row[0] for row in rows if component(row[2], "") == "launcher")
    assert launcher_pid != real_run.pid
    [(pid, spec)] = registry.recognise_tree(rows)
    assert (pid, spec.run, spec.config, spec.output_dir) == (
        launcher_pid,
        "demo",
        Path("cfg.toml"),
        tmp_path / "out",
    )
    # Its uv parent gone, the environment of torchrun still tells.
    orphan = [row for row in rows if row[0] != real_run.pid]
    [(pid, spec)] = registry.recognise_tree(orphan, environment)
    assert (pid, spec.config, spec.output_dir) == (launcher_pid, Path("cfg.toml"), tmp_path / "out")
