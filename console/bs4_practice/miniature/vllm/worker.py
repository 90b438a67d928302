"""VLLM::Worker: holds the GPU memory and computes. Started by the engine, told what to do over a
socket.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

from .. import gpu, pace, policy, processes
from ..lines import Closed, Lines, Message

#: One completion takes this many engine iterations, and by default half a training step: generation
#: and training overlap one step deep.
ITERATIONS = 8
#: A model of 0.6 B parameters in bf16, and what one token of its cache takes (28 layers, 8 heads of
#: 128, both halves, bf16).
_WEIGHTS = 1_200_000_000
_CACHE_BYTES = 114_688
ITERATION_SECONDS = max(0.01, pace.GENERATION_STEPS * pace.STEP_SECONDS / ITERATIONS)


def run(
    engine: Lines, device: int, local: int, title: str, utilization: float, max_model_len: int
) -> None:
    """Run the process of a vLLM worker: load the model onto the GPU with the number `device`, tell
    the engine over the connection `engine`, and answer its requests until the engine is gone. Never
    returns; the process ends here. `local` is the worker's number within the engine, and `title`
    the title of the process. `utilization` is the share of the GPU's memory to take, from 0 to 1,
    and a sequence of `max_model_len` tokens must fit into it.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda signum, frame: _leave(0))
    processes.set_title(title)
    try:
        memory = _load(device, local, utilization, max_model_len)
    except (ValueError, gpu.OutOfMemoryError) as error:
        sys.stderr.write(
            "".join(
                f"(Worker pid={os.getpid()}) {line}\n"
                for line in traceback.format_exc().splitlines()
            )
        )
        engine.send({"failed": str(error)})
        _leave(1)
        return
    engine.send({"ready": True})
    try:
        _serve(engine, memory)
    except Closed:
        # The engine is gone. Idle, a real worker was still there 5.2 s after its engine's kill, and
        # then ended by itself.
        pace.nap(5)
        _leave(1)


def _load(device: int, local: int, utilization: float, max_model_len: int) -> gpu.Memory:
    free, total = gpu.memory(device)
    wanted = int(total * utilization)
    if free < wanted:
        raise ValueError(
            f"Free memory on device cuda:{local} ({free / 2**30:.2f}/{total / 2**30:.2f} GiB) on "
            f"startup is less than desired GPU memory utilization ({utilization}, "
            f"{wanted / 2**30:.2f} GiB). Decrease GPU memory utilization or reduce GPU memory "
            "used by other processes."
        )
    _room_for_cache(wanted, max_model_len, utilization)
    memory = gpu.Memory(device, wanted)
    memory.busy(pace.ENGINE_SECONDS, 30)
    time.sleep(pace.ENGINE_SECONDS)
    return memory


def _room_for_cache(wanted: int, max_model_len: int, utilization: float) -> None:
    """What the weights leave of the budget must hold the cache of one longest sequence."""
    room = wanted - _WEIGHTS
    if room <= 0:
        raise ValueError(
            "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` "
            "when initializing the engine."
        )
    needed = max_model_len * _CACHE_BYTES
    if needed > room:
        raise ValueError(
            f"To serve at least one request with the models's max seq len ({max_model_len}), "
            f"({needed / 2**30:.2f} GiB KV cache is needed, which is larger than the available KV "
            f"cache memory ({room / 2**30:.2f} GiB). Based on the available memory, the estimated "
            f"maximum model length is {room // _CACHE_BYTES}. Try increasing "
            f"`gpu_memory_utilization` ({utilization}) or decreasing `max_model_len` when "
            "initializing the engine."
        )


def _serve(engine: Lines, memory: gpu.Memory) -> None:
    rng = random.Random()
    skill = policy.BASE_SKILL
    while True:
        message = engine.receive()
        if "load" in message:
            skill = _update(engine, message["load"], skill)
            continue
        memory.busy(ITERATION_SECONDS, 92)
        time.sleep(ITERATION_SECONDS)
        engine.send(
            {"tokens": [[item["id"], _tokens(item, skill, rng)] for item in message["step"]]}
        )


def _update(engine: Lines, directory: str | None, skill: float) -> float:
    """Weights from a directory, or the base model's for None; the old ones stay when that fails."""
    try:
        loaded = policy.BASE_SKILL if directory is None else policy.read_weights(Path(directory))
    except (OSError, ValueError) as error:
        engine.send({"failed": f"{type(error).__name__}: {error}"})
        return skill
    engine.send({"loaded": directory})
    return loaded


def _tokens(item: Message, skill: float, rng: random.Random) -> str:
    count = max(1, -(-item["limit"] // ITERATIONS))
    return policy.generate(
        item["prompt"], skill, item["done"], min(count, item["limit"] - item["done"]), rng
    )


def _leave(code: int) -> None:
    gpu.forget_own_entries()
    os._exit(code)
