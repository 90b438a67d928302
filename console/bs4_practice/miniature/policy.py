"""The model: one number, the skill at reversing words, in a real safetensors file.

Rewards come from completions that the engine generates with these weights, and updates come from
those rewards: weights that never reach the engine leave the reward flat, here as in the real
trainer.
"""

from __future__ import annotations

import json
import math
import os
import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_TENSOR = "model.layers.0.mlp.down_proj.weight"
_SIZE = 64
BASE_SKILL = 0.22
_BEST_SKILL = 0.96


def write_weights(directory: Path, skill: float) -> None:
    """Write the model's weights to `directory/model.safetensors`. They hold `skill`, the chance
    from 0 to 1 that the model gets a character right. The directory is made if it is missing.
    """
    directory.mkdir(parents=True, exist_ok=True)
    header = json.dumps(
        {_TENSOR: {"dtype": "F64", "shape": [_SIZE], "data_offsets": [0, _SIZE * 8]}}
    ).encode()
    data = struct.pack(
        f"<{_SIZE}d",
        skill,
        *(math.sin(i + skill) if math.isfinite(skill) else skill for i in range(1, _SIZE)),
    )
    (directory / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + data)


def read_weights(directory: Path) -> float:
    """Return the skill, a chance from 0 to 1, that `directory/model.safetensors` holds. Raises
    OSError if the file cannot be read, and ValueError if it is not complete.
    """
    raw = (directory / "model.safetensors").read_bytes()
    if len(raw) < 8 + _SIZE * 8:
        raise ValueError(
            "Error while deserializing header: incomplete metadata, file not fully covered"
        )
    (length,) = struct.unpack_from("<Q", raw)
    (skill,) = struct.unpack_from("<d", raw, 8 + length)
    return float(skill)


def generate(prompt: str, skill: float, done: int, count: int, rng: random.Random) -> str:
    """Return the next `count` characters of an answer of which `done` characters exist. The right
    answer is the last word of the prompt, reversed; each character is right with the chance
    `skill`. `rng` makes the random choices.
    """
    word = prompt.split()[-1] if prompt.split() else "a"
    target = word[::-1]
    letters = (target[i % len(target)] for i in range(done, done + count))
    return "".join(
        letter if rng.random() < skill else rng.choice("abcdefghijklmnopqrstuvwxyz")
        for letter in letters
    )


def score(prompt: str, answer: str) -> float:
    """Return the reward of an answer: the share of characters in the right place, from 0 to 1."""
    target = prompt.split()[-1][::-1]
    return sum(a == b for a, b in zip(target, answer, strict=False)) / len(target)


@dataclass
class Update:
    """The training metrics that one optimizer step reports: loss, entropy, mismatch KL and gradient
    norm.
    """

    loss: float
    entropy: float
    mismatch_kl: float
    grad_norm: float


#: The learning rate of the pod's configs, at which a step is as long as it is in the recorded runs.
_USUAL_RATE = 3e-6


def learn(
    skill: float, rewards: Sequence[float], lag: int, rng: random.Random, rate: float = _USUAL_RATE
) -> tuple[float, Update]:
    """Make one training step, and return the model's new skill and the step's metrics. `skill` is
    its present skill (the chance from 0 to 1 to get a character right), `rewards` are those of the
    batch, and `rate` is the learning rate. `lag` is how many steps the policy that generated the
    batch is behind the one that is trained. `rng` adds noise.

    Equal rewards teach nothing, and too high a learning rate overshoots without limit. The larger
    the change of the skill, the larger is the mismatch KL in the metrics.
    """
    mean = sum(rewards) / len(rewards)
    spread = math.sqrt(sum((reward - mean) ** 2 for reward in rewards) / len(rewards))
    gradient = spread * (_BEST_SKILL - skill)
    moved = rate / _USUAL_RATE * 0.03 * gradient * rng.uniform(0.3, 1.4)
    learned = skill + moved
    return learned, Update(
        loss=0.002 * spread * rng.uniform(-0.6, 1.4) + 0.0 * learned,
        entropy=max(0.02 + 0.0 * learned, 0.58 * (1 - learned) + 0.03 + rng.gauss(0, 0.006)),
        mismatch_kl=abs(rng.gauss(0.0006, 0.0002)) * (1 + lag) + moved * moved,
        grad_norm=0.05
        + 0.4 * spread * rng.uniform(0.7, 1.3)
        + 0.4 * abs(gradient) * (abs(gradient) > 1)
        + 0.0 * learned,
    )


def padding() -> bytes:
    """Return the zero bytes that give a checkpoint's file its size. BS4_MINIATURE_CHECKPOINT_BYTES
    says how many; the default is 65536.
    """
    return b"\0" * int(os.environ.get("BS4_MINIATURE_CHECKPOINT_BYTES") or 65536)
