"""One process for each GPU: holds its memory, generates, updates, and writes its rank's files of a checkpoint."""

from __future__ import annotations

import io
import json
import random
import socket
import time
import zipfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import gpu, pace, policy, processes
from ..lines import Closed, Lines
from . import actors, tensors

_IDLE = "ray::WorkerDict"
#: What each call takes, in steps.
_SHARE = {"actor_rollout_generate_sequences": 0.5, "actor_rollout_compute_log_prob": 0.1, "actor_rollout_update_actor": 0.4}


def main(arguments: Sequence[str]) -> int:
    """`worker RANK WORLD FD`: calls come as JSON lines from the task runner, and it ends when they do."""
    rank, world = int(arguments[0]), int(arguments[1])
    calls = Lines(socket.socket(fileno=int(arguments[2])))
    actors.end_with_parent()
    processes.set_title(_IDLE)
    worker = _Worker(rank, world)
    while True:
        try:
            call = calls.receive()
        except Closed:
            return 0
        processes.set_title(f"{_IDLE}.{call['method']}")
        answer = worker.call(call)
        processes.set_title(_IDLE)
        calls.send(answer)


class _Worker:
    def __init__(self, rank: int, world: int) -> None:
        self._rank, self._world = rank, world
        self._skill = policy.BASE_SKILL
        self._rng = random.Random(42 + rank)
        self._memory: gpu.Memory | None = None

    def call(self, call: dict[str, Any]) -> dict[str, Any]:
        method = call["method"]
        share = _SHARE.get(method, 0.0) * pace.STEP_SECONDS
        if self._memory is not None and share:
            self._memory.busy(share, 90)
        time.sleep(share)
        handler = {
            "init_model": self._init, "actor_rollout_generate_sequences": self._generate, "actor_rollout_compute_log_prob": lambda call: {},
            "actor_rollout_update_actor": self._update, "save_checkpoint": self._save, "load_checkpoint": self._load,
        }[method]  # fmt: skip
        return handler(call)

    def _init(self, call: dict[str, Any]) -> dict[str, Any]:
        device = gpu.visible()[self._rank]
        total = gpu.memory(device)[1]
        try:
            self._memory = gpu.Memory(device, gpu.training_bytes(total, 512))
        except gpu.OutOfMemoryError as error:
            return {"error": f"torch.OutOfMemoryError: {error}"}
        return {}

    def _generate(self, call: dict[str, Any]) -> dict[str, Any]:
        prompts = [f"Reverse {''.join(self._rng.choices('abcdefghij', k=8))}" for _ in range(int(call["count"]))]
        answers = [policy.generate(prompt, self._skill, 0, 8, self._rng) for prompt in prompts]
        return {"rewards": [policy.score(prompt, answer) for prompt, answer in zip(prompts, answers, strict=True)]}

    def _update(self, call: dict[str, Any]) -> dict[str, Any]:
        self._skill, update = policy.learn(self._skill, call["rewards"], 0, self._rng, float(call["rate"]))
        return asdict(update)

    def _save(self, call: dict[str, Any]) -> dict[str, Any]:
        """torch.save's zip archives, each written under its own name at once: there is nothing atomic about it."""
        directory = Path(call["directory"])
        directory.mkdir(parents=True, exist_ok=True)
        told = {"skill": self._skill, "slice": tensors.slice_of(tensors.of(self._skill), self._rank, self._world)}
        for kind in ("model", "optim", "extra_state"):
            buffer = io.BytesIO()
            with zipfile.ZipFile(buffer, "w") as archive:
                archive.writestr("archive/data.json", json.dumps(told))
                archive.writestr("archive/data/0", policy.padding())
            (directory / f"{kind}_world_size_{self._world}_rank_{self._rank}.pt").write_bytes(buffer.getvalue())
        if self._rank == 0:
            (directory / "huggingface").mkdir(exist_ok=True)
            (directory / "huggingface" / "config.json").write_text('{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}')
        return {}

    def _load(self, call: dict[str, Any]) -> dict[str, Any]:
        path = Path(call["directory"]) / f"model_world_size_{self._world}_rank_{self._rank}.pt"
        try:
            with zipfile.ZipFile(path) as archive:
                self._skill = float(json.loads(archive.read("archive/data.json"))["skill"])
        except FileNotFoundError as error:
            return {"error": f"FileNotFoundError: {error}"}
        except zipfile.BadZipFile:
            return {"error": "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory"}
        return {}
