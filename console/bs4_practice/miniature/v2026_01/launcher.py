"""`rl`: cleans, starts inference, orchestrator and trainer, shows the trainer's log, and ends all
when one of them fails.

It has no handler for SIGTERM and SIGHUP: then it is gone at once and every child lives on
(prime-rl.md 1.2).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path
from subprocess import Popen

from .. import pace, processes
from ..config import Config, Tree, parse_or_exit, write_temporary
from ..log import Logger
from . import settings


def main(arguments: Sequence[str]) -> int:
    """Run an imitation of the launcher `rl` of January's prime-rl until its run has ended.
    `arguments` are the words of its command line. Returns the exit code: 0 if the training has
    finished, else 1.
    """
    return _Launcher(parse_or_exit(arguments, settings.KNOWN), ["rl", *arguments]).run()


class _Launcher:
    def __init__(self, config: Config, command: list[str]) -> None:
        self._config = config
        self._command = command
        self._output = Path(config.get("output_dir", "outputs"))
        self._logs = self._output / "logs"
        self._children = processes.Children()
        self._log = Logger(
            config.get("log.level", "info"),
            self._logs / "rl.log" if config.get("log.file", True) else None,
        )

    def run(self) -> int:
        self._log.info("Starting RL run", "rl.py::539")
        self._log.debug(f"RL start command: {' '.join(self._command)}", "rl.py::540")
        if self._config.get("clean", True):
            self._clean()
        try:
            self._start()
            code = self._watch()
        except KeyboardInterrupt:
            self._log.warning(
                "Received interrupt signal, terminating all processes...", "rl.py::773"
            )
            code = 1
        except OSError as error:
            self._log.error(f"Error occurred: {error}")
            self._end()
            raise
        self._end()
        return code

    def _end(self) -> None:
        self._children.join()
        _terminate(self._children.processes)

    def _clean(self) -> None:
        """Logs, rollouts and (unless it resumes) broadcasts. Never checkpoints, whatever its own
        first line says.
        """
        run = self._output / "run_default"
        self._log.info(
            "Cleaning checkpoint, logs, weights, broadcast and rollout directories", "rl.py::550"
        )
        for name, directory, at in (
            ("log", self._logs, "553"),
            ("orchestrator log", run / "logs", "557"),
        ):
            self._log.info(f"Cleaning {name} dir ({directory})", f"rl.py::{at}")
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
        if not self._config.get("ckpt.resume_step"):  # 0 counts as "does not resume"
            self._log.info(f"Cleaning broadcast directory ({run / 'broadcasts'})", "rl.py::568")
            shutil.rmtree(run / "broadcasts", ignore_errors=True)
        self._log.info(f"Cleaning rollout dir ({run / 'rollouts'})", "rl.py::572")
        shutil.rmtree(run / "rollouts", ignore_errors=True)

    def _start(self) -> None:
        inference, orchestrator, trainer = settings.split(self._config)
        if inference is None:
            self._log.warning(
                "No inference config specified, skipping starting inference server. Is your "
                "inference server running?"
            )
        else:
            gpus = self._config.get("inference_gpu_ids", [0])
            self._log.info(
                f"Starting inference process on GPU(s) {' '.join(map(str, gpus))}", "rl.py::589"
            )
            command = ["uv", "run", "inference", "@", write_temporary(inference).as_posix()]
            self._log.debug(f"Inference start command: {' '.join(command)}", "rl.py::590")
            self._spawn("inference", command, {"CUDA_VISIBLE_DEVICES": _joined(gpus)})
        self._log.info("Starting orchestrator process", "rl.py::668")
        command = ["uv", "run", "orchestrator", "@", write_temporary(orchestrator).as_posix()]
        self._log.debug(f"Orchestrator start command: {' '.join(command)}", "rl.py::669")
        self._spawn("orchestrator", command, self._reporting())
        self._start_trainer(trainer)
        self._log.success("Startup complete. Showing trainer logs...", "rl.py::748")
        self._children.processes.append(Popen(["tail", "-F", str(self._logs / "trainer.stdout")]))

    def _start_trainer(self, trainer: Tree) -> None:
        gpus = self._config.get("trainer_gpu_ids", [1])
        command = [
            "uv",
            "run",
            "env",
            "PYTHONUNBUFFERED=1",
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
            "torchrun",
        ]
        command += [
            f"--rdzv-endpoint=localhost:{processes.free_port()}",
            f"--rdzv-id={uuid.uuid4().hex}",
        ]
        command += [
            f"--log-dir={self._output / 'torchrun'}",
            "--local-ranks-filter=0",
            "--redirect=3",
            "--tee=3",
        ]
        command += [
            f"--nproc-per-node={len(gpus)}",
            "-m",
            "prime_rl.trainer.rl.train",
            "@",
            write_temporary(trainer).as_posix(),
        ]
        self._log.info(
            f"Starting trainer process on GPU(s) {' '.join(map(str, gpus))}", "rl.py::720"
        )
        self._log.debug(f"Training start command: {' '.join(command)}", "rl.py::721")
        own = {
            "CUDA_VISIBLE_DEVICES": _joined(gpus),
            "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        }
        self._spawn("trainer", command, {**own, **self._reporting()})

    def _reporting(self) -> dict[str, str]:
        return {
            "LOGURU_FORCE_COLORS": "1",
            "WANDB_PROGRAM": "uv run rl",
            "WANDB_ARGS": json.dumps(self._command),
        }

    def _spawn(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        with (self._logs / f"{name}.stdout").open("w") as log:
            process = Popen(command, env={**os.environ, **environment}, stdout=log, stderr=log)
        self._children.watch(process, name, name)

    def _watch(self) -> int:
        """Until orchestrator and trainer have ended, or any child failed. An inference server that
        ends with 0 goes unnoticed.
        """
        while not self._children.ended("orchestrator", "trainer"):
            if self._children.errors:
                self._log.error(f"Error: {self._children.errors[0]}", "rl.py::757")
                self._log.error("Terminating all processes...", "rl.py::758")
                return 1
            pace.poll()
        self._log.success("RL training finished!", "rl.py::766")
        return 0


def _terminate(children: list[Popen[bytes]]) -> None:
    """SIGTERM, up to 60 s, SIGKILL, one child after the other; only the children themselves, not
    what they started.
    """
    for process in children:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=pace.paced(60))
            except subprocess.TimeoutExpired:
                process.kill()


def _joined(gpus: list[int]) -> str:
    return ",".join(map(str, gpus))
