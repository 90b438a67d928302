"""Single looks around a run, at real files and real processes."""

from __future__ import annotations

import dataclasses
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bs4_agent.observe import surroundings
from bs4_common.failures import environment_probes
from bs4_common.identity import Identity
from bs4_common.runs.model import Attempt, Member, Run
from bs4_common.trainers import registry
from bs4_common.trainers.base import LaunchSpec

#: The value of a variable: nothing that is kept may hold it.
VALUE = "run-id-that-is-nobodys-business"


@pytest.fixture
def spec(tmp_path: Path) -> LaunchSpec:
    (tmp_path / "rl.toml").write_text(
        "# env: owner/reverse-text@0.1.1\nmax_steps = 20\n[ckpt]\n[orchestrator]\nbatch_size = 8\n"
        '[[orchestrator.env]]\nid = "reverse-text"\n'
    )
    return LaunchSpec(
        run="demo",
        trainer="prime-rl-2026-01",
        config=Path("rl.toml"),
        cwd=tmp_path,
        output_dir=tmp_path / "outputs",
    )


def test_settings_are_flat_and_the_command_line_wins(spec: LaunchSpec) -> None:
    flat = environment_probes.flat_settings(
        spec,
        ["uv", "run", "rl", "@", "rl.toml", "--ckpt", "--ckpt.interval", "5", "--max-steps", "40"],
    )
    assert flat == {
        "max_steps": "40",
        "ckpt": True,
        "ckpt.interval": "5",
        "orchestrator.batch_size": 8,
        "orchestrator.env.0.id": "reverse-text",
    }


def test_an_empty_table_is_there(spec: LaunchSpec) -> None:
    flat = environment_probes.flat_settings(spec)
    assert flat is not None
    assert flat["ckpt"] is True


def test_an_unknown_config_is_unknown_and_not_empty(spec: LaunchSpec) -> None:
    assert environment_probes.flat_settings(dataclasses.replace(spec, config=Path())) is None
    assert (
        environment_probes.flat_settings(dataclasses.replace(spec, config=Path("gone.toml")))
        is None
    )


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Member]:
    code = (
        "import resource, sys, time; resource.setrlimit(resource.RLIMIT_NOFILE, (300, "
        f"{resource.getrlimit(resource.RLIMIT_NOFILE)[1]})); "
    )
    code += "print('up', flush=True); time.sleep(100)"
    environment = {**os.environ, "WANDB_RUN_ID": VALUE, "HF_HOME": str(tmp_path / "hf")}
    with subprocess.Popen(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        identity = Identity.of(process.pid)
        assert identity is not None
        yield Member(
            identity=identity,
            component="orchestrator",
            cmdline=("orchestrator",),
            alive=True,
            proof="descent",
            attempt=1,
        )
        process.kill()


def test_limits_names_and_directory_of_a_process(worker: Member, tmp_path: Path) -> None:
    (facts,) = surroundings.processes([worker])
    assert (facts.nofile, facts.cwd) == (300, tmp_path)
    assert facts.open_files is not None
    assert 3 <= facts.open_files < 50
    assert facts.names is not None
    assert "WANDB_RUN_ID" in facts.names
    assert facts.wandb_id is not None
    assert VALUE not in repr(facts)


def test_a_process_that_is_gone_tells_nothing(worker: Member) -> None:
    other = dataclasses.replace(
        worker,
        identity=dataclasses.replace(worker.identity, start_ticks=worker.identity.start_ticks + 1),
    )
    (facts,) = surroundings.processes([other])
    assert (facts.nofile, facts.names, facts.cwd) == (None, None, None)


def test_half_written_dataset_caches(worker: Member, tmp_path: Path) -> None:
    assert surroundings.dataset_caches([worker]) is None
    base = tmp_path / "hf" / "datasets" / "owner___words" / "default" / "0.0.0"
    (base / "abc.incomplete").mkdir(parents=True)
    (base / "def").mkdir()
    (base / "def" / "dataset_info.json").write_text("{}")
    found = surroundings.dataset_caches([worker])
    assert found is not None
    assert {(cache.path.name, cache.ready) for cache in found} == {
        ("abc.incomplete", False),
        ("def", True),
    }


@pytest.mark.parametrize(
    ("name", "installed"),
    [("reverse_text-0.2.0.dist-info", "0.2.0"), ("other-0.1.1.dist-info", None)],
)
def test_the_environment_that_the_header_pins(
    spec: LaunchSpec, name: str, installed: str | None
) -> None:
    (spec.cwd / ".venv" / "lib" / "python3.12" / "site-packages" / name).mkdir(parents=True)
    found = environment_probes.environment_versions(spec, environment_probes.flat_settings(spec))
    assert found is not None
    assert [(one.name, one.wanted, one.installed) for one in found] == [
        ("owner/reverse-text", "0.1.1", installed)
    ]


def test_offline_wandb_runs(spec: LaunchSpec) -> None:
    layout = registry.get(spec.trainer).layout(spec)
    for name, synced in (("offline-run-1-a", False), ("offline-run-2-b", True), ("run-3-c", False)):
        (spec.cwd / "wandb" / name).mkdir(parents=True)
        if synced:
            (spec.cwd / "wandb" / name / "run-b.wandb.synced").touch()
    found = {
        one.path.name: (one.offline, one.synced)
        for one in environment_probes.wandb_directories(spec, layout)
    }
    assert found == {
        "offline-run-1-a": (True, False),
        "offline-run-2-b": (True, True),
        "run-3-c": (False, False),
    }


def test_an_adapter_without_its_weights(spec: LaunchSpec) -> None:
    (spec.cwd / "adapter").mkdir()
    (spec.cwd / "adapter" / "adapter_config.json").touch()
    config = {"actor_rollout_ref.model.lora_adapter_path": "adapter"}
    (found,) = environment_probes.adapters(spec, config) or ()
    assert found.missing == ["adapter_model.safetensors"]
    (spec.cwd / "adapter" / "adapter_model.safetensors").touch()
    (found,) = environment_probes.adapters(spec, config) or ()
    assert found.missing == []


def test_a_log_that_another_run_writes_to_is_not_taken(spec: LaunchSpec) -> None:
    spec = dataclasses.replace(spec, trainer="prime-rl")
    trainer = registry.get("prime-rl")
    log = trainer.layout(spec).run_dir / "logs" / "attempt_1" / "trainer.log"
    log.parent.mkdir(parents=True)
    log.touch()
    started = log.stat().st_mtime - 1
    attempt = Attempt(
        number=1,
        state="running",
        shim=None,
        launcher=None,
        started_t=started,
        started_m=0.0,
        resume=None,
        argv=[],
    )
    run = Run("demo", spec, adopted=True, attempts=[attempt])
    assert surroundings.logs_kept(run, attempt, trainer) is False
    os.utime(log.parent, (started - 60, started - 60))
    assert surroundings.logs_kept(run, attempt, trainer) is True


def test_the_names_of_an_attempt_are_written_once_and_found_by_the_next(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    first.mkdir()
    second.mkdir()
    assert surroundings.lineage(first, {"orchestrator.lora_name": "a"}) == (
        {"lora_name": "a"},
        None,
    )
    assert surroundings.lineage(second, {"orchestrator.lora_name": "b"}) == (
        {"lora_name": "b"},
        {"lora_name": "a"},
    )


def test_the_newest_local_wandb_run_says_how_far_it_came(spec: LaunchSpec) -> None:
    layout = registry.get(spec.trainer).layout(spec)
    for name in ("offline-run-20261118_100000-a", "offline-run-20261120_100000-b"):
        files = spec.output_dir / "wandb" / name / "files"
        files.mkdir(parents=True)
        (files / "wandb-summary.json").write_text('{"_step": 7}')
    assert {one.id: one.step for one in environment_probes.wandb_directories(spec, layout)} == {
        "a": None,
        "b": 7,
    }


@pytest.mark.parametrize(
    ("path", "text", "count"),
    [
        (
            "kubepods/pod1/memory.events",
            "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n",
            2,
        ),
        ("memory.events", "oom_kill 5\n", 5),
        ("memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", 1),
        ("memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n", None),
    ],
)
def test_how_often_the_kernel_killed_in_our_group(
    tmp_path: Path, path: str, text: str, count: int | None
) -> None:
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_text("1:name=systemd:/x\n0::/kubepods/pod1\n")
    (tmp_path / "cgroup" / path).parent.mkdir(parents=True)
    (tmp_path / "cgroup" / path).write_text(text)
    assert surroundings.oom_kills(tmp_path / "proc", tmp_path / "cgroup") == count
