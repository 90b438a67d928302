"""`rl`: writes the resolved configs, starts inference, env servers, orchestrator and trainer, and
ends all when one of them fails.

SIGTERM is handled; SIGHUP is not: then it is gone at once and every child lives on (prime-rl.md
1.2).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from subprocess import Popen
from types import FrameType
from urllib.parse import urlsplit

from .. import gpu, pace, processes
from ..config import Config, ConfigError, Tree, boxed, parse_or_exit
from ..log import Logger
from . import rundir, settings

_COMMON = {
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    "PYTHONUNBUFFERED": "1",
    "OMP_NUM_THREADS": "1",
    "GIT_LFS_SKIP_SMUDGE": "1",
}
_INFERENCE = {
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False",
    "VLLM_ENGINE_READY_TIMEOUT_S": "4200",
    "UCX_TLS": "all",
}


def main(arguments: Sequence[str]) -> int:
    """Run an imitation of current prime-rl's launcher `rl` until its run has ended. `arguments` are
    the words of its command line. Returns the exit code: 0 if the training has finished, else 1.
    Raises FileExistsError if the run's directory holds another run's files, and ValueError if there
    are too few GPUs or the ports in the config do not match.
    """
    processes.set_title("PRIME-RL::Launcher")
    config = parse_or_exit(arguments, settings.KNOWN)
    try:
        settings.refuse_unsupported(config)
    except ConfigError as error:
        sys.stderr.write(boxed(error))
        return 1
    run = settings.run_dir(config)
    os.environ.setdefault("PRL_RUN_ID", uuid.uuid4().hex)
    os.environ["PRL_RUN_NAME"] = str(config.get("run.name") or run.name)
    rundir.prepare(config, run, Logger())
    return _Launcher(config, run, ["rl", *arguments]).run()


class _Launcher:
    def __init__(self, config: Config, run: Path, command: list[str]) -> None:
        self._config = config
        self._run = run
        self._command = command
        self._configs = run / "configs"
        self._children = processes.Children()
        self._log = Logger(
            config.get("log.level", "info"), json_lines=bool(config.get("log.json_logging"))
        )

    def run(self) -> int:
        inference, orchestrator, trainer = settings.split(self._config, self._run)
        self._write_configs(inference, orchestrator, trainer)
        self._log.info(f"Wrote subconfigs to {self._configs}", "rl.py::124")
        if self._config.get("dry_run"):
            self._log.success(
                "Dry run complete. To start an RL run locally, remove --dry-run from your command."
            )
            return 0
        self._assign_gpus()
        self._log.info("Starting RL run", "rl.py::151")
        self._log.debug(f"RL start command: {' '.join(self._command)}", "rl.py::152")
        self._check_ports(orchestrator)
        self._logs = rundir.new_log_dir(self._run)
        signal.signal(signal.SIGTERM, self._terminated)
        try:
            self._start(inference)
            code = self._watch()
        except KeyboardInterrupt:
            self._log.warning(
                "Received interrupt signal, terminating all processes...", "rl.py::410"
            )
            code = 1
        except OSError as error:
            self._log.error(f"Error occurred: {error}")
            self._end()
            raise
        self._end()
        return code

    def _terminated(self, number: int, frame: FrameType | None) -> None:
        self._log.warning("Received SIGTERM, terminating all processes...", "rl.py::185")
        self._end()
        sys.exit(1)

    def _end(self) -> None:
        self._children.join()
        _terminate_trees(self._children.processes, self._log)

    def _write_configs(self, inference: Tree | None, orchestrator: Tree, trainer: Tree) -> None:
        named = {"trainer": trainer, "orchestrator": orchestrator} | (
            {"inference": inference} if inference is not None else {}
        )
        for source in orchestrator["train"].get("source", []):
            parts = {key: source[key] for key in ("env", "serve") if key in source}
            named[f"envs/train/{settings.source_name(source)}"] = {
                **parts,
                "log": orchestrator.get("log", {}),
            }
        for name, tree in named.items():
            path = self._configs / f"{name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(tree, indent=2))

    def _assign_gpus(self) -> None:
        """Inference gets the first GPUs, the trainer the next. ValueError when there are too
        few.
        """
        wanted = (
            self._config.get("deployment.num_infer_gpus", 1) if self._config.has("inference") else 0
        )
        total = wanted + self._config.get("deployment.num_train_gpus", 1)
        physical = gpu.visible()
        if total > len(physical):
            raise ValueError(
                f"Requested {total} GPUs via deployment settings, but only {len(physical)} "
                f"physical GPU(s) are available: {physical}"
            )
        self._log.info(
            f"Using local->physical GPU mapping: {dict(enumerate(physical[:total]))}", "rl.py::145"
        )
        self._inference_gpus, self._trainer_gpus = physical[:wanted], physical[wanted:total]

    def _check_ports(self, orchestrator: Tree) -> None:
        if not self._config.has("inference"):
            return
        asked, served = (
            urlsplit(orchestrator["model"]["client"]["base_url"]).port,
            self._config.get("inference.server.port", 8000),
        )
        if asked != served:
            raise ValueError(
                f"orchestrator.model.client.base_url port ({asked}) does not match "
                f"inference.server.port ({served}). Update the base_url to use port {served} to "
                "match the inference server."
            )

    def _start(self, inference: Tree | None) -> None:
        if inference is None:
            self._log.warning(
                "No [inference] block configured - the policy inference server will not be "
                "started here."
            )
        else:
            gpus = self._inference_gpus
            self._log.info(f"Starting inference on GPU(s) {' '.join(map(str, gpus))}", "rl.py::196")
            command = ["inference", "@", str(self._configs / "inference.json")]
            self._log.debug(f"Inference start command: {' '.join(command)}", "rl.py::197")
            self._spawn(
                "inference",
                "inference",
                command,
                {**_COMMON, **_INFERENCE, "CUDA_VISIBLE_DEVICES": _joined(gpus)},
            )
        for source in self._config.get("orchestrator.train.source", []):
            self._start_env_server(source)
        command = ["orchestrator", "@", str(self._configs / "orchestrator.json")]
        self._log.info("Starting orchestrator process", "rl.py::285")
        self._log.debug(f"Orchestrator start command: {' '.join(command)}", "rl.py::286")
        self._spawn(
            "orchestrator", "orchestrator", command, {**_COMMON, **self._reporting("orchestrator")}
        )
        self._start_trainer()
        self._log.success("Startup complete. Showing orchestrator logs...", "rl.py::369")
        # The real launcher hands this line to a shell; the process tree shows it.
        self._children.processes.append(
            Popen(["/bin/sh", "-c", f"tail -F '{self._logs / 'orchestrator.log'}'"])
        )

    def _start_env_server(self, source: Tree) -> None:
        name = settings.source_name(source)
        command = ["env-server", "@", str(self._configs / "envs" / "train" / f"{name}.json")]
        self._log.info(
            f"Starting train env server {name} at {source['serve']['address']}", "rl.py::255"
        )
        self._log.debug(f"Env server start command: {' '.join(command)}", "rl.py::256")
        self._spawn(f"envs/train/{name}", f"train env server {name}", command, _COMMON)

    def _start_trainer(self) -> None:
        gpus = self._trainer_gpus
        shown = ",".join(map(str, self._config.get("trainer.log.ranks_filter", [0])))
        command = [
            "torchrun",
            "--role=trainer",
            f"--rdzv-endpoint=localhost:{processes.free_port()}",
            f"--rdzv-id={uuid.uuid4().hex}",
        ]
        command += [
            f"--log-dir={self._logs / 'trainer' / 'torchrun'}",
            f"--local-ranks-filter={shown}",
            "--redirect=3",
            "--tee=3",
        ]
        command += [
            f"--nproc-per-node={len(gpus)}",
            "-m",
            "prime_rl.trainer.rl.train",
            "@",
            str(self._configs / "trainer.json"),
        ]
        self._log.info(f"Starting trainer on GPU(s) {' '.join(map(str, gpus))}", "rl.py::336")
        self._log.debug(f"Training start command: {' '.join(command)}", "rl.py::337")
        own = {
            "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
            "CUDA_VISIBLE_DEVICES": _joined(gpus),
        }
        self._spawn("trainer", "trainer", command, {**_COMMON, **own, **self._reporting("trainer")})

    def _reporting(self, label: str) -> dict[str, str]:
        shared = {
            "WANDB_RUN_ID": os.environ["PRL_RUN_ID"],
            "WANDB_SHARED_MODE": "1",
            "WANDB_SHARED_LABEL": label,
        }
        return {
            "LOGURU_FORCE_COLORS": "1",
            "WANDB_PROGRAM": "uv run rl",
            "WANDB_ARGS": json.dumps(self._command),
            **shared,
        }

    def _spawn(self, key: str, name: str, command: list[str], environment: dict[str, str]) -> None:
        path = self._logs / f"{key}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as log:
            process = Popen(command, env={**os.environ, **environment}, stdout=log, stderr=log)
        self._children.watch(process, key, name)

    def _watch(self) -> int:
        """Until orchestrator and trainer have ended, or any child failed. An inference server that
        ends with 0 goes unnoticed.
        """
        while not self._children.ended("orchestrator", "trainer"):
            if self._children.errors:
                self._log.error(f"Error: {self._children.errors[0]}", "rl.py::381")
                self._log.error("Terminating all processes...", "rl.py::382")
                return 1
            pace.poll()
        failed = next(
            (
                error
                for error in self._children.errors
                if error.startswith(("Orchestrator", "Trainer"))
            ),
            None,
        )
        if failed is not None:
            self._log.error(failed)
            return 1
        self._log.success("Training finished!", "rl.py::403")
        return 0


def _terminate_trees(children: list[Popen[bytes]], log: Logger) -> None:
    """Each child that still runs with all its descendants: SIGTERM, up to 60 s, SIGKILL. A child
    that is gone is passed over, and with it whatever it left behind.
    """
    for process in children:
        if process.poll() is not None:
            continue
        _signal_tree(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=pace.paced(60))
        except subprocess.TimeoutExpired:
            _signal_tree(process.pid, signal.SIGKILL)
        log.debug(f"Cleaned up process {process.pid}", "process.py::93")


def _signal_tree(pid: int, number: int) -> None:
    for member in [*processes.descendants(pid), pid]:
        try:
            os.kill(member, number)
        except ProcessLookupError:
            continue


def _joined(gpus: list[int]) -> str:
    return ",".join(map(str, gpus))
