"""One process for each GPU: holds its memory, generates, updates, and writes its rank's files of a
checkpoint.
"""

from __future__ import annotations

import io
import json
import random
import socket
import sys
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
#: Moving the weights to the GPU and back at every update, in steps.
_MOVED = 0.5
#: The share of a GPU that is the model itself, which the engine's share counts in.
_WEIGHTS = 0.12
#: What each call takes, in steps.
_SHARE = {
    "actor_rollout_generate_sequences": 0.5,
    "actor_rollout_compute_log_prob": 0.1,
    "actor_rollout_update_actor": 0.4,
}


def main(arguments: Sequence[str]) -> int:
    """Imitate one of verl's Ray workers: answer the calls of the task runner until it closes the
    connection, and return 0. `arguments` are this worker's rank, the number of workers, and the
    number of the connection's file descriptor.
    """
    rank, world = int(arguments[0]), int(arguments[1])
    calls = Lines(socket.socket(fileno=int(arguments[2])))
    actors.end_with_parent()
    processes.set_title(_IDLE)
    if rank == 0 and actors.registers():
        time.sleep(pace.ENGINE_SECONDS)  # what it imports before it can register
        actors.make_named(actors.REGISTER_CENTER)
    worker = Worker(rank, world)
    while True:
        try:
            call = calls.receive()
        except Closed:
            return 0
        processes.set_title(f"{_IDLE}.{call['method']}")
        answer = worker.call(call)
        processes.set_title(_IDLE)
        calls.send(answer)


class Worker:
    """The work of one trainer rank: it holds a GPU's memory, generates answers, updates the model,
    and saves the rank's part of a checkpoint. `rank` is its number among `world` ranks. `skill` is
    the model's chance from 0 to 1 to get a character right.
    """

    def __init__(self, rank: int, world: int) -> None:
        self._rank, self._world = rank, world
        self.skill = policy.BASE_SKILL
        self._rng = random.Random(42 + rank)
        self._memory: gpu.Memory | None = None
        self._offloaded = False

    def call(self, call: dict[str, Any]) -> dict[str, Any]:
        """Carry out a call of the task runner and return the answer. `call` has the name of the
        call under "method", such as "save_checkpoint", and its arguments. If the call fails, the
        answer has a text under "error".
        """
        method = call["method"]
        share = _SHARE.get(method, 0.0) * pace.STEP_SECONDS
        if self._memory is not None and share:
            self._memory.busy(share, 90)
        time.sleep(share)
        handler = {
            "init_model": self._init,
            "actor_rollout_generate_sequences": self._generate,
            "actor_rollout_compute_log_prob": lambda call: {},
            "actor_rollout_update_actor": self._update,
            "save_checkpoint": self._save,
            "load_checkpoint": self._load,
        }[method]
        return handler(call)

    def _init(self, call: dict[str, Any]) -> dict[str, Any]:
        self._offloaded = bool(call.get("offloaded"))
        if (adapter := call.get("adapter")) is not None and not Path(
            adapter, "adapter_config.json"
        ).exists():
            # peft, PeftConfig._get_peft_type
            return {"error": f"ValueError: Can't find 'adapter_config.json' at '{adapter}'"}
        device = gpu.visible()[self._rank]
        total = gpu.memory(device)[1]
        try:
            self._memory = gpu.Memory(device, gpu.training_bytes(total, 512))
        except gpu.OutOfMemoryError as error:
            return {"error": f"torch.OutOfMemoryError: {error}"}
        return {}

    def _generate(self, call: dict[str, Any]) -> dict[str, Any]:
        """The engine wakes up for it: what it gave back while the actor worked it takes again."""
        device = gpu.visible()[self._rank]
        try:
            engine = gpu.Memory(
                device, int(max(0.0, call["utilization"] - _WEIGHTS) * gpu.memory(device)[1])
            )
        except gpu.OutOfMemoryError:
            sys.stderr.write(
                "CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62\n"
            )
            return {
                "error": (
                    "RuntimeError: CUDA Error: out of memory at "
                    "/workspace/csrc/cumem_allocator.cpp:62"
                )
            }
        try:
            return self._answer(call)
        finally:
            engine.release()

    def _answer(self, call: dict[str, Any]) -> dict[str, Any]:
        prompts = [
            f"Reverse {''.join(self._rng.choices('abcdefghij', k=8))}"
            for _ in range(int(call["count"]))
        ]
        answers = [
            policy.generate(prompt, self.skill, 0, min(8, _room(prompt, call)), self._rng)
            for prompt in prompts
        ]
        rewards = [
            policy.score(prompt, answer) for prompt, answer in zip(prompts, answers, strict=True)
        ]
        return {
            "rewards": rewards,
            "lengths": [len(answer) for answer in answers],
            "prompts": [_tokens(prompt) for prompt in prompts],
        }

    def _update(self, call: dict[str, Any]) -> dict[str, Any]:
        if self._offloaded:
            time.sleep(_MOVED * pace.STEP_SECONDS)
        self.skill, update = policy.learn(
            self.skill, call["rewards"], 0, self._rng, float(call["rate"])
        )
        return asdict(update)

    def _save(self, call: dict[str, Any]) -> dict[str, Any]:
        """torch.save's zip archives, each written under its own name at once: there is nothing
        atomic about it.
        """
        directory = Path(call["directory"])
        directory.mkdir(parents=True, exist_ok=True)
        told = {
            "skill": self.skill,
            "slice": tensors.slice_of(tensors.of(self.skill), self._rank, self._world),
        }
        for kind in ("model", "optim", "extra_state"):
            buffer = io.BytesIO()
            with zipfile.ZipFile(buffer, "w") as archive:
                archive.writestr("archive/data.json", json.dumps(told))
                archive.writestr("archive/data/0", policy.padding())
            (directory / f"{kind}_world_size_{self._world}_rank_{self._rank}.pt").write_bytes(
                buffer.getvalue()
            )
        if self._rank == 0:
            (directory / "huggingface").mkdir(exist_ok=True)
            (directory / "huggingface" / "config.json").write_text(
                '{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}'
            )
        return {}

    def _load(self, call: dict[str, Any]) -> dict[str, Any]:
        path = Path(call["directory"]) / f"model_world_size_{self._world}_rank_{self._rank}.pt"
        try:
            with zipfile.ZipFile(path) as archive:
                self.skill = float(json.loads(archive.read("archive/data.json"))["skill"])
        except FileNotFoundError as error:
            return {"error": f"FileNotFoundError: {error}"}
        except zipfile.BadZipFile:
            return {
                "error": (
                    "RuntimeError: PytorchStreamReader failed reading zip archive: failed "
                    "finding central directory"
                )
            }
        return {}


def _tokens(prompt: str) -> int:
    """A token for each letter of the word, and four of the template around it."""
    return len(prompt.split()[-1]) + 4


def _room(prompt: str, call: dict[str, Any]) -> int:
    """How many tokens an answer may have. sglang's rollout of several turns (0.6,
    _async_rollout_a_request) does not even ask its engine where the prompt and one token fill the
    model's length: that answer is empty, and nobody is told.
    """
    if call["multi_turn"] and _tokens(prompt) + 1 >= call["model_length"]:
        return 0
    return int(call["response_length"])
