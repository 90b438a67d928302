"""Checks that a directory is a complete Hugging Face model. The output of a merge is put in its
place only if it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict, cast

from bs4_common.checkpoints.content import wanting
from bs4_common.foreign_json import loads

_CONFIG = "config.json"
_INDEX = "model.safetensors.index.json"
#: The most bytes of a header.
_HEADER_MOST = 64 * 1024 * 1024


class HubFile(TypedDict, total=False):
    """The keys that are read from the JSON files of a Hugging Face model directory. `model_type`
    and `architectures` are in config.json; `weight_map` (in which shard each tensor is) is in the
    index model.safetensors.index.json. The values are not checked yet, so each may be of any type.
    """

    model_type: object
    architectures: object
    weight_map: object


def lacking(directory: Path) -> str:
    """Return what is missing in a Hugging Face model directory, as a phrase, or "" if the directory
    is complete.

    It is complete if config.json names a model, every safetensors file is as long as its header
    says, and every shard that the index names exists and holds the tensors that the index lists for
    it. Raises OSError if the disk fails.
    """
    config = _object(directory / _CONFIG)
    if not config.get("model_type") and not config.get("architectures"):
        return f"{_CONFIG} is not there or names no model"
    if why := wanting("weights", directory):
        return why
    shards = sorted(path.name for path in directory.glob("*.safetensors"))
    if not shards:
        if any(directory.glob("*.bin")):
            return ""
        return "no weights"
    index = _object(directory / _INDEX)
    if len(shards) > 1 and not index:
        return f"{len(shards)} safetensors files and no {_INDEX}"
    return _unheld(directory, index.get("weight_map"))


def _unheld(directory: Path, placed: object) -> str:
    """Return the first tensor of the index, whose map to shards is `placed`, that its shard does
    not hold, as a phrase, or "".
    """
    if not isinstance(placed, dict):
        return ""
    held: dict[str, frozenset[str]] = {}
    for tensor, shard in placed.items():
        name = str(shard)
        if name not in held:
            held[name] = _tensors(directory / name)
        if tensor not in held[name]:
            return f"{tensor} is not in {name}, where {_INDEX} has it"
    return ""


def _tensors(path: Path) -> frozenset[str]:
    """Return the names of the tensors in a safetensors file, from its header. The set is empty if
    the file cannot be read.
    """
    try:
        with path.open("rb") as handle:
            length = int.from_bytes(handle.read(8), "little")
            header = loads(handle.read(length)) if length <= _HEADER_MOST else {}
    except (OSError, ValueError):
        return frozenset()
    return frozenset(header)


def _object(path: Path) -> HubFile:
    """Return the JSON object in the file, {} if there is none."""
    try:
        found = loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return cast("HubFile", found) if isinstance(found, dict) else {}
