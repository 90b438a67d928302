"""The model's one tensor: whole, cut into the ranks' slices, and in a safetensors file."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from pathlib import Path

NAME = "model.layers.0.mlp.down_proj.weight"
SIZE = 64


def of(skill: float) -> list[float]:
    """Return the values of the only tensor of a practice model with this skill (the chance from 0
    to 1 to get a character right). `policy.read_weights` reads the skill from a file with these
    values.
    """
    return [
        skill,
        *(math.sin(i + skill) if math.isfinite(skill) else skill for i in range(1, SIZE)),
    ]


def slice_of(values: Sequence[float], rank: int, world: int) -> list[float]:
    """Return the part of `values`, the model's tensor, that the rank with the number `rank` of
    `world` ranks holds. The last ranks may have fewer values than the others, as with torch's FSDP.
    """
    length = math.ceil(len(values) / world)
    return list(values[rank * length : (rank + 1) * length])


def save(directory: Path, values: Sequence[float], shards: int = 2) -> None:
    """Write `values`, the model's tensor, to `shards` safetensors files in `directory`, a part to
    each, and the index of the files to `model.safetensors.index.json`.
    """
    placed: dict[str, str] = {}
    for number in range(shards):
        part = slice_of(values, number, shards)
        name, file = (
            (NAME if shards == 1 else f"{NAME}.{number}"),
            f"model-{number + 1:05d}-of-{shards:05d}.safetensors",
        )
        header = json.dumps(
            {name: {"dtype": "F64", "shape": [len(part)], "data_offsets": [0, len(part) * 8]}}
        ).encode()
        (directory / file).write_bytes(
            struct.pack("<Q", len(header)) + header + struct.pack(f"<{len(part)}d", *part)
        )
        placed[name] = file
    index = {"metadata": {"total_size": len(values) * 8}, "weight_map": placed}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))


def load(directory: Path) -> list[float]:
    """Return the values that `save` has written to `directory`. Raises OSError if a file is
    missing.
    """
    index = json.loads((directory / "model.safetensors.index.json").read_text())
    values: list[float] = []
    for file in index["weight_map"].values():
        raw = (directory / file).read_bytes()
        (length,) = struct.unpack_from("<Q", raw)
        values += struct.unpack(f"<{(len(raw) - 8 - length) // 8}d", raw[8 + length :])
    return values
