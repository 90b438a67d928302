"""`python -m verl.model_merger merge --backend fsdp --local_dir ACTOR --target_dir OUT`: the ranks'
slices put together into a model.

As the real one it makes the target first, needs `huggingface/` of the checkpoint, reads one rank
after the other, and writes last.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

from .. import pace
from . import tensors

#: What reading one rank takes; a real one takes a minute.
_SECONDS = float(os.environ.get("BS4_MINIATURE_MERGE_SECONDS") or pace.STEP_SECONDS)


def main(arguments: Sequence[str]) -> int:
    """Imitate verl's model merger: join the parts of a checkpoint that the ranks have written to
    one model, and return 0. `arguments` are the words of its command line. Raises FileNotFoundError
    if a file is missing, and RuntimeError if a part cannot be read.
    """
    parser = argparse.ArgumentParser(prog="verl.model_merger", description="verl model merger")
    operation = parser.add_subparsers(dest="operation", required=True).add_parser("merge")
    operation.add_argument("--backend", required=True, choices=("fsdp", "megatron"))
    operation.add_argument("--local_dir", required=True)
    operation.add_argument("--target_dir", default="tmp")
    options = parser.parse_args(arguments)
    source, target = Path(options.local_dir), Path(options.target_dir)
    target.mkdir(parents=True, exist_ok=True)
    print(
        f"config: ModelMergerConfig(operation='merge', backend='{options.backend}', "
        f"local_dir='{source}')",
        flush=True,
    )
    config = source / "huggingface" / "config.json"
    json.loads(config.read_text())
    worlds = [
        match
        for path in sorted(source.iterdir())
        if (match := re.fullmatch(r"model_world_size_(\d+)_rank_0\.pt", path.name))
    ]
    if not worlds:
        raise FileNotFoundError("No model file with the proper format")
    world = int(worlds[0].group(1))
    print(f"Got device mesh tensor({list(range(world))}), mesh_dim_names ('fsdp',)", flush=True)
    values: list[float] = []
    for rank in range(world):
        values += _slice(source / f"model_world_size_{world}_rank_{rank}.pt")
        time.sleep(_SECONDS)
    print(f"Saving model to {target}", flush=True)
    tensors.save(target, values)
    for path in config.parent.iterdir():
        shutil.copy(path, target / path.name)
    print(f"Saving tokenizer to {target}", flush=True)
    return 0


def _slice(path: Path) -> list[float]:
    try:
        with zipfile.ZipFile(path) as archive:
            return [
                float(value) for value in json.loads(archive.read("archive/data.json"))["slice"]
            ]
    except zipfile.BadZipFile:
        sys.stderr.write(
            "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding "
            "central directory\n"
        )
        raise RuntimeError(f"{path} cannot be read") from None
