"""Where runs keep things: layout, logs, the inference server's address, metrics."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from bs4_common.trainers import registry
from bs4_common.trainers.base import LaunchSpec, Trainer

OLD, NEW = registry.get("prime-rl-2026-01"), registry.get("prime-rl")


def spec(
    tmp_path: Path, toml: str = "", *overrides: str, trainer: str = "prime-rl", run: str = "demo"
) -> LaunchSpec:
    (tmp_path / "rl.toml").write_text(toml)
    return LaunchSpec(
        run=run,
        trainer=trainer,
        config=Path("rl.toml"),
        cwd=tmp_path,
        output_dir=tmp_path / "outputs",
        overrides=overrides,
    )


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_2026_01_spreads_over_the_output_directory(tmp_path: Path) -> None:
    out = tmp_path / "outputs"
    layout = OLD.layout(spec(tmp_path))
    assert (layout.run_dir, layout.trainer_checkpoints, layout.weights) == (
        out / "run_default",
        out / "checkpoints",
        out / "weights",
    )
    assert layout.orchestrator_checkpoints == out / "run_default" / "checkpoints"
    assert (layout.broadcasts, layout.rollouts) == (
        out / "run_default" / "broadcasts",
        out / "run_default" / "rollouts",
    )


def test_the_current_run_directory_is_named_after_the_run_unless_something_else_is_said(
    tmp_path: Path,
) -> None:
    out = tmp_path / "outputs"
    assert NEW.layout(spec(tmp_path)).run_dir == out / "demo"
    assert NEW.layout(spec(tmp_path, '[run]\ndir = "x"')).run_dir == out / "x"
    assert NEW.layout(spec(tmp_path, "", "--run.dir", "y")).run_dir == out / "y"
    named = dataclasses.replace(spec(tmp_path, run="a-b"), trainer_name="a+b")
    assert NEW.layout(named).run_dir == out / "a+b"


def test_checkpoints_elsewhere_are_the_trainers_alone(tmp_path: Path) -> None:
    for toml, overrides in (
        ('[ckpt]\noutput_dir = "/big/disk"', ()),
        ("", ("--ckpt.output-dir", "/big/disk")),
    ):
        layout = NEW.layout(spec(tmp_path, toml, *overrides))
        assert layout.trainer_checkpoints == Path("/big/disk/checkpoints")
        assert layout.orchestrator_checkpoints == tmp_path / "outputs" / "demo" / "checkpoints"
    # What the launcher resolved is what the run does, whatever became of the file since.
    write(
        tmp_path / "outputs/demo/configs/trainer.json",
        json.dumps({"ckpt": {"output_dir": "/other"}}),
    )
    assert NEW.layout(spec(tmp_path)).trainer_checkpoints == Path("/other/checkpoints")


def test_a_run_outlives_its_config(tmp_path: Path) -> None:
    for trainer in (OLD, NEW):
        for text in (None, "half = written = "):
            start = spec(tmp_path)
            (tmp_path / "rl.toml").unlink() if text is None else write(tmp_path / "rl.toml", text)
            assert trainer.layout(start).output_dir == tmp_path / "outputs"
            assert trainer.checkpoints(start) == []
            assert trainer.max_steps(start) is None
            assert trainer.inference_url(start)


def test_2026_01_logs_are_the_launchers_redirects(tmp_path: Path) -> None:
    logs = tmp_path / "outputs" / "logs"
    expected = {name: logs / f"{name}.stdout" for name in ("trainer", "orchestrator", "inference")}
    assert {s.source: s.path for s in OLD.log_sources(spec(tmp_path))} == expected
    write(logs / "teacher_inference.stdout")
    assert OLD.log_sources(spec(tmp_path))[-1].source == "inference-teacher"


def test_2026_01_components_started_by_hand_have_their_own_files(tmp_path: Path) -> None:
    rank = write(tmp_path / "outputs/logs/trainer/rank_0.log")
    orchestrator = write(tmp_path / "outputs/run_default/logs/orchestrator.log")
    found = {s.source: s.path for s in OLD.log_sources(spec(tmp_path))}
    assert (found["trainer"], found["orchestrator"]) == (rank, orchestrator)
    redirect = write(tmp_path / "outputs/logs/orchestrator.stdout")
    assert {s.source: s.path for s in OLD.log_sources(spec(tmp_path))}["orchestrator"] == redirect


def test_current_logs_are_those_of_the_newest_attempt_by_their_real_names(tmp_path: Path) -> None:
    logs = tmp_path / "outputs" / "demo" / "logs"
    assert NEW.log_sources(spec(tmp_path))[0].path == logs / "attempt_1" / "trainer.log"
    for number in (1, 2, 10):
        (logs / f"attempt_{number}").mkdir(parents=True)
    assert NEW.log_sources(spec(tmp_path))[0].path == logs / "attempt_10" / "trainer.log"
    (logs / "latest").symlink_to("attempt_2")
    write(logs / "attempt_2/envs/train/reverse-text.log")
    write(logs / "attempt_2/envs/train/owner/env.log")
    write(logs / "attempt_2/envs/eval/reverse-text.log")
    assert {s.source: s.path.relative_to(logs) for s in NEW.log_sources(spec(tmp_path))} == {
        "trainer": Path("attempt_2/trainer.log"),
        "orchestrator": Path("attempt_2/orchestrator.log"),
        "inference": Path("attempt_2/inference.log"),
        "env-reverse-text": Path("attempt_2/envs/train/reverse-text.log"),
        "env-owner-env": Path("attempt_2/envs/train/owner/env.log"),
        "env-eval-reverse-text": Path("attempt_2/envs/eval/reverse-text.log"),
    }


def test_a_link_that_leads_elsewhere_is_not_followed(tmp_path: Path) -> None:
    logs = tmp_path / "outputs" / "demo" / "logs"
    (logs / "attempt_1").mkdir(parents=True)
    (logs / "latest").symlink_to("/tmp")
    assert NEW.log_sources(spec(tmp_path))[0].path == logs / "attempt_1" / "trainer.log"


@pytest.mark.parametrize(
    ("toml", "overrides", "url"),
    [
        ("[inference]", (), "http://127.0.0.1:8000"),
        ("[inference.server]\nport = 8123", (), "http://127.0.0.1:8123"),
        ("[inference]", ("--inference.server.port", "9001"), "http://127.0.0.1:9001"),
        ('[inference.server]\nhost = "0.0.0.0"', (), "http://127.0.0.1:8000"),
        ('[inference.server]\nhost = "192.0.2.7"', (), "http://192.0.2.7:8000"),
        (
            '[orchestrator.client]\nbase_url = ["http://192.0.2.9:7000/v1"]',
            (),
            "http://192.0.2.9:7000",
        ),
        ("", (), "http://127.0.0.1:8000"),
    ],
)
def test_2026_01_engine_address(
    tmp_path: Path, toml: str, overrides: tuple[str, ...], url: str
) -> None:
    assert OLD.inference_url(spec(tmp_path, toml, *overrides)) == url


@pytest.mark.parametrize(
    ("toml", "overrides", "url"),
    [
        ('[client]\nbase_url = ["http://localhost:8001/v1"]', (), "http://localhost:8001"),
        ("", ("--client.base-url", "http://localhost:8002/v1"), "http://localhost:8002"),
        ("", (), "http://127.0.0.1:8000"),
    ],
)
def test_2026_01_server_of_an_evaluation(
    tmp_path: Path, toml: str, overrides: tuple[str, ...], url: str
) -> None:
    asked = dataclasses.replace(spec(tmp_path, toml, *overrides), component="eval")
    assert OLD.inference_url(asked) == url
    assert OLD.serves(asked) == {int(url.rpartition(":")[2])}


@pytest.mark.parametrize(
    ("toml", "overrides", "url"),
    [
        ("[inference]", (), "http://127.0.0.1:8100"),
        ("[inference.server]\nport = 9000", (), "http://127.0.0.1:9100"),
        ("[inference]\nbackend_port = 8555", (), "http://127.0.0.1:8555"),
        (
            '[inference]\nrouter = "None"\n[inference.server]\nport = 9000',
            (),
            "http://127.0.0.1:9000",
        ),
        ("[inference]", ("--no-inference.router",), "http://127.0.0.1:8000"),
        ("[inference]", ("--inference.router", "None"), "http://127.0.0.1:8000"),
        (
            '[orchestrator.model.client]\nbase_url = "http://192.0.2.9:7000/v1"',
            (),
            "http://192.0.2.9:7000",
        ),
        (
            (
                '[orchestrator.model.client]\nbase_url = "http://192.0.2.9:7000/v1"\n'
                'admin_base_url = ["http://192.0.2.9:7100/v1"]'
            ),
            (),
            "http://192.0.2.9:7100",
        ),
    ],
)
def test_current_engine_address_is_behind_the_router(
    tmp_path: Path, toml: str, overrides: tuple[str, ...], url: str
) -> None:
    assert NEW.inference_url(spec(tmp_path, toml, *overrides)) == url


@pytest.mark.parametrize(
    ("written", "url"),
    [
        (
            {
                "server": {"host": None, "port": 8000},
                "backend_port": 8177,
                "router": {"type": "vllm-router"},
            },
            "http://127.0.0.1:8177",
        ),
        (
            {"server": {"host": None, "port": 8044}, "backend_port": 8100, "router": None},
            "http://127.0.0.1:8044",
        ),
    ],
)
def test_the_resolved_config_wins(tmp_path: Path, written: dict[str, object], url: str) -> None:
    start = spec(tmp_path, "[inference]\nbackend_port = 1")
    path = write(tmp_path / "outputs/demo/configs/inference.json", json.dumps(written))
    assert NEW.inference_url(start) == url
    path.write_text('{"server": ')  # the launcher is writing it
    assert NEW.inference_url(start) == "http://127.0.0.1:1"


@pytest.mark.parametrize("trainer", [OLD, NEW])
def test_max_steps(tmp_path: Path, trainer: Trainer) -> None:
    assert trainer.max_steps(spec(tmp_path, "max_steps = 20")) == 20
    assert trainer.max_steps(spec(tmp_path, "[trainer]\nmax_steps = 7")) == 7
    assert trainer.max_steps(spec(tmp_path, "max_steps = 20", "--max-steps", "50")) == 50
    assert trainer.max_steps(spec(tmp_path)) is None


def test_what_is_asked_to_resume(tmp_path: Path) -> None:
    assert OLD.resume_requested(spec(tmp_path)) is None
    assert OLD.resume_requested(dataclasses.replace(spec(tmp_path), resume=0)) == 0
    assert OLD.resume_requested(spec(tmp_path, "", "--ckpt.resume-step", "-1")) == -1
    assert NEW.resume_requested(spec(tmp_path, "", "--resume")) == -1
    assert NEW.resume_requested(spec(tmp_path, "[resume]\nstep = 4")) == 4
    assert NEW.resume_requested(spec(tmp_path, "[resume]\nstep = 4", "--no-resume")) is None


def test_metrics_file(tmp_path: Path) -> None:
    assert OLD.metrics_path(spec(tmp_path)) is None
    assert NEW.metrics_path(spec(tmp_path)) == tmp_path / "outputs/demo/metrics.jsonl"
    assert (
        NEW.metrics_path(spec(tmp_path, '[monitors.file]\npath = "m.jsonl"'))
        == tmp_path / "outputs/demo/m.jsonl"
    )


def test_unknown_trainer() -> None:
    with pytest.raises(Exception, match="choose one of prime-rl-2026-01, prime-rl, verl"):
        registry.get("trl")


def test_a_server_apart_has_no_logs_of_a_run(tmp_path: Path) -> None:
    for trainer in (OLD, NEW):
        assert trainer.log_sources(dataclasses.replace(spec(tmp_path), component="inference")) == []


def test_stop_policies_follow_the_measurements() -> None:
    assert OLD.stop_policy.target == "tree"
    assert [name for name, _ in OLD.stop_policy.signals] == ["SIGINT", "SIGTERM", "SIGKILL"]
    assert NEW.stop_policy.target == "launcher"
    assert NEW.stop_policy.signals[0][0] == "SIGTERM"
    assert NEW.stop_policy.signals[0][1] >= 90
