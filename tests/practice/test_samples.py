"""The miniature against what the real launchers and loggers wrote: argv, titles, trees of files,
lines, colours.

With the samples outside this checkout (../shared) everything that they hold is compared; the
shorter form always runs.
"""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bs4_practice import faults
from bs4_practice.pod import PracticePod
from tests.practice.running import (
    ANSI,
    GENERATIONS,
    SAMPLES,
    Run,
    Start,
    log_text,
    logs,
    trained,
)

FOLDER = {"2026-01": "v2026-01", "current": "current"}
NEEDS_SAMPLES = pytest.mark.skipif(
    not SAMPLES.exists(),
    reason="the samples of real prime-rl lie outside this checkout (../shared)",
)

#: A step line of each side of each generation as the real loggers wrote it, colours included.
OWN_LINES = {
    "2026-01": (
        "\x1b[2m21:36:59\x1b[0m \x1b[32m\x1b[1mSUCCESS\x1b[0m \x1b[32m\x1b[1m\x1b[22mStep 0 | "
        "Time: 31.27s | Loss: 0.0012 | Entropy: 0.4310"
        " | Mismatch KL: 0.0007 | Grad. Norm: 0.1420 | LR: 3.00e-06 | Throughput: 20311 tokens/s "
        "| MFU: 12.3% | Peak Mem.: 41.2 GiB"
        "\x1b[0m\x1b[0m",
        "\x1b[2m21:36:59\x1b[0m \x1b[32m\x1b[1mSUCCESS\x1b[0m \x1b[32m\x1b[1m\x1b[22mStep 3 | "
        "Time: 42.50s | Reward: 0.3750 | Throughput: 5123.4 tokens/s | Seq. Length: 320.0 "
        "tokens/sample | Async Level: 1 | Max. Off-Policy Level: 2\x1b[0m\x1b[0m",
    ),
    "current": (
        "\x1b[2m21:37:07\x1b[0m \x1b[32m\x1b[1mSUCCESS\x1b[0m \x1b[32m\x1b[1m\x1b[22mStep 1 |   "
        "31.3s | Loss 0.0012 | Entropy 0.4310 | Mismatch KL 0.0007 | Grad. Norm 0.1420 | LR "
        "3.00e-06 | Throughput 20311 tokens/s | MFU 12.3% | Peak Mem. 41.2 GiB\x1b[0m\x1b[0m",
        "\x1b[2m21:37:07\x1b[0m \x1b[32m\x1b[1mSUCCESS\x1b[0m \x1b[32m\x1b[1m\x1b[22mStep 3 |   "
        "42.5s | Reward 0.3750 | Trainable 96/128 (75.0%) | Turns 1.0 | Branches 1.0 | Max "
        "Off-Policy 1 | Error 0.8% | Cancelled 0.0% | Truncation 1.6%\x1b[0m\x1b[0m",
    ),
}
#: What a run's processes look like from outside: the middle of a command line, or a title.
OWN_TREE = {
    "2026-01": {
        "uv": "uv run rl @ configs/rl.toml --output-dir outputs",
        "launcher": "/bin/rl @ configs/rl.toml --output-dir outputs",
        "inference": "/bin/inference @ .pydantic_config/temp_",
        "orchestrator": "/bin/orchestrator @ .pydantic_config/temp_",
        "torchrun": (
            "--local-ranks-filter=0 --redirect=3 --tee=3 --nproc-per-node=1 -m "
            "prime_rl.trainer.rl.train @ .pydantic_config/temp_"
        ),
        "rank": "-u -m prime_rl.trainer.rl.train @ .pydantic_config/temp_",
        "engine": "VLLM::EngineCore",
        "worker": "VLLM::Worker",
        "tail": "tail -F outputs/logs/trainer.stdout",
    },
    "current": {
        "uv": "uv run rl @ configs/rl.toml --output-dir outputs --run.name demo",
        "launcher": "PRIME-RL::Launcher",
        "inference": "PRIME-RL::Inference",
        "router": "/bin/vllm-router --policy",
        "env-server": "PRIME-RL::EnvServer",
        "env-worker": "Verifiers::EnvWorker0",
        "orchestrator": "PRIME-RL::Orchestrator",
        "torchrun": "torchrun --role=trainer --rdzv-endpoint=localhost:",
        "rank": "PRIME-RL::Trainer",
        "engine": "VLLM::EngineCore",
        "worker": "VLLM::Worker",
        "tail": "tail -F /",
    },
}


def shape(text: str) -> str:
    """A line without what differs from run to run: numbers, identifiers, directories, the user's
    own options.
    """
    text = re.sub(r"\d\d:\d\d:\d\d", "TIME", text)
    text = re.sub(r"start command: rl .*?(?=\x1b|$)", "start command: rl", text)
    text = re.sub(r"/\S*?/(?=outputs|\.venv)", "", text)
    text = re.sub(r"outputs/[\w-]+/(?=configs|logs/attempt)", "outputs/RUN/", text)
    text = re.sub(r"outputs/[\w-]+(?=/configs)", "outputs/RUN", text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{32}\b", "ID", text)
    text = re.sub(r"(?<=localhost:)\d+|(?<=127\.0\.0\.1:)\d+", "PORT", text)
    text = re.sub(r"(?<=[\s(=v_/{])-?\d+(\.\d+)?(e[+-]?\d+)?", "N", text)
    return re.sub(r" +N(?:ms|s)? \|", " N |", text)


def regexes() -> ModuleType:
    spec = importlib.util.spec_from_file_location("samples_regexes", SAMPLES / "regexes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def trainer_lines(pod: PracticePod) -> list[str]:
    name = "trainer.stdout" if pod.generation == "2026-01" else "trainer.log"
    return [
        re.sub(r"^\[\w+?0\]:", "", line) for line in (logs(pod) / name).read_text().splitlines()
    ]


def orchestrator_lines(pod: PracticePod) -> list[str]:
    path = (
        pod.run_dir / "run_default" / "logs" / "orchestrator.log"
        if pod.generation == "2026-01"
        else logs(pod) / "orchestrator.log"
    )
    return path.read_text().splitlines()


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_processes_and_lines_have_the_real_shape(start: Start, generation: str) -> None:
    async with start(generation) as pod, Run(pod):
        await trained(pod, 2)
        for name, wanted in OWN_TREE[generation].items():
            found = faults.find(pod, name)
            assert found, name
            assert any(wanted in process.title for process in found), (
                name,
                [process.title for process in found],
            )
        trainer, orchestrator = OWN_LINES[generation]
        assert shape(trainer) in {shape(line) for line in trainer_lines(pod)}
        assert shape(orchestrator) in {shape(line) for line in orchestrator_lines(pod)}
        prefix = "default0" if generation == "2026-01" else "trainer0"
        assert all(
            line.startswith(f"[{prefix}]:") for line in log_text(pod, "trainer").splitlines()
        )


@NEEDS_SAMPLES
@pytest.mark.parametrize("generation", GENERATIONS)
async def test_it_agrees_with_the_samples(start: Start, generation: str) -> None:
    samples = SAMPLES / FOLDER[generation]
    async with start(generation) as pod:
        async with Run(
            pod, "--max-steps", "3", "--ckpt.interval", "1", "--log.level", "debug"
        ) as run:
            await trained(pod, 0 if generation == "2026-01" else 1)
            compare_commands(pod, (samples / "launcher_done.console.log").read_text())
            assert await run.code() == 0
        compare_launcher(run.log.read_text(), samples / "launcher_done.console.log")
        compare_files(pod, samples / "launcher.tree.txt")
        if generation == "2026-01":
            compare_files(pod, samples / "desync_ok.tree.txt")
        compare_messages(pod, samples, regexes())


def compare_commands(pod: PracticePod, sample: str) -> None:
    """Every child that the launcher starts has the argv that the real one gave it."""
    text = ANSI.sub("", sample)
    for what in ("Inference", "Env server", "Orchestrator", "Training"):
        for command in re.findall(rf"{what} start command: (.*) \[rl\.py", text):
            titles = {shape(process.title) for process in pod.processes()} | {
                shape(line) for line in started(pod, what)
            }
            assert shape(command) in titles, (command, titles)


def started(pod: PracticePod, what: str) -> list[str]:
    """The current generation's children replaced their argv by a title; the launcher's own log
    still has it.
    """
    text = "".join(ANSI.sub("", path.read_text()) for path in pod.home.glob("launcher-*.log"))
    return re.findall(rf"{what} start command: (.*) \[rl\.py", text)


def compare_launcher(ours: str, sample: Path) -> None:
    mine = {shape(line) for line in ours.splitlines()}
    for line in sample.read_text().splitlines():
        if not line.startswith("[fake") and "Cleaned up process" not in line:
            assert shape(line) in mine, line


def compare_files(pod: PracticePod, sample: Path) -> None:
    """Every path of the real tree exists in ours, but for names of runs, steps and temporary
    files.
    """
    mine = {
        tidy(str(path.relative_to(pod.project)))
        for path in pod.project.rglob("*")
        if ".venv" not in path.parts
    }
    for line in sample.read_text().splitlines()[1:]:
        _, _, path = line.partition("/")
        path = path.removeprefix("w/").replace("outputs/demo", "outputs/demo")
        if path in ("console.log", "w", ""):
            continue
        if not path.startswith(("outputs", ".pydantic")):
            path = f"outputs/{path}"
        assert tidy(path) in mine, path


def tidy(path: str) -> str:
    return re.sub(r"temp_[0-9a-f-]+", "temp_ID", path)


def compare_messages(pod: PracticePod, samples: Path, verified: ModuleType) -> None:
    """Every line parses by the verified pattern of lines, and each kind of message that a healthy
    run has is there.
    """
    patterns: dict[str, Any] = (
        verified.V2026_01 if pod.generation == "2026-01" else verified.CURRENT
    )
    kinds = {"trainer": ["trainer_step", "save"], "orchestrator": ["orch_step", "save"]}
    for side, lines in (("trainer", trainer_lines(pod)), ("orchestrator", orchestrator_lines(pod))):
        parsed = [verified.LINE.match(verified.ANSI.sub("", line)) for line in lines]
        assert all(parsed), [line for line, match in zip(lines, parsed, strict=True) if not match]
        messages = [match["msg"] for match in parsed if match]
        for kind in kinds[side]:
            assert any(patterns[kind].match(message) for message in messages), kind
        mine = {shape(ANSI.sub("", line)) for line in lines}
        for line in (samples / f"{side}.log").read_text().splitlines():
            if re.search(
                r"Starting training loop|Starting orchestrator step|inference pool|RL "
                r"trainer finished|Orchestrator finished",
                line,
            ):
                assert any(
                    shape(line).split("SUCCESS", 1)[-1].split("INFO", 1)[-1] in own for own in mine
                ), line


@NEEDS_SAMPLES
@pytest.mark.long
async def test_json_logs_have_the_samples_fields(start: Start) -> None:
    wanted = [
        json.loads(line)
        for line in (SAMPLES / "current" / "orchestrator.jsonl.log").read_text().splitlines()
    ]
    plain = next(
        set(entry) for entry in wanted if "message" in entry and "exception" not in entry
    ) - {"tag"}
    progress = next(set(entry) for entry in wanted if entry.get("type") == "progress")
    async with start("current") as pod, Run(pod, "--max-steps", "2", "--log.json-logging") as run:
        assert await run.code() == 0
        entries = [
            json.loads(line) for line in (logs(pod) / "orchestrator.log").read_text().splitlines()
        ]
        entries += [json.loads(line) for line in trainer_lines(pod)]
    assert {frozenset(entry) for entry in entries} == {frozenset(plain), frozenset(progress)}
    assert "RL trainer finished!" in {entry.get("message") for entry in entries}
