"""Steps put into a store as a sync would leave them, from files on disk: what tests of restore
start from.
"""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Mapping
from pathlib import Path

from bs4_common.checkpoints import launch_record
from bs4_common.checkpoints.remote.layout import Layout, Place
from bs4_common.checkpoints.remote.manifest import File, Manifest
from bs4_common.checkpoints.remote.pointer import Pointer
from bs4_common.checkpoints.remote.store import Store
from bs4_common.trainers import registry
from bs4_common.trainers.base import LaunchSpec


def put_step(
    store: Store,
    place: Place,
    spec: LaunchSpec,
    step: int,
    *,
    wandb: Mapping[str, str] | None = None,
    point: bool = True,
    recorded: bool = False,
) -> Manifest:
    """The whole of one local step, in the order of a sync: manifest, data, pointer. The config goes
    beside it as config/NAME, as an agent had it that kept no record of launches; with `recorded` as
    it is now.
    """
    layout = Layout(place.prefix, spec.run)
    found = next(one for one in registry.get(spec.trainer).checkpoints(spec) if one.step == step)
    parts = {name: str(path.relative_to(spec.output_dir)) for name, path in found.parts.items()}
    sources = {
        str(p.relative_to(spec.output_dir)): p
        for part in found.parts.values()
        for p in part.rglob("*")
        if p.is_file()
    }
    config, launch = f"config/{spec.config_path.name}", None
    if recorded:
        given = launch_record.config_files(spec, spec.output_dir)
        config, launch = (
            given.main,
            dataclasses.replace(launch_record.record_of(spec), files=given.named),
        )
        sources |= given.files
    else:
        sources[config] = spec.config_path
    files = [File(name, path.stat().st_size, _sha1(path)) for name, path in sorted(sources.items())]
    manifest = Manifest(
        run=spec.run,
        trainer=spec.trainer,
        step=step,
        attempt=1,
        created_t=time.time(),
        files=files,
        parts=parts,
        config=config,
        wandb=wandb or {},
        launch=launch,
    )
    store.write(layout.manifest(step), manifest.encode())
    for name, path in sources.items():
        store.upload(path, layout.file(step, name), _sha1(path))
    if point:
        pointer = Pointer(
            step=step,
            run=spec.run,
            t=time.time(),
            manifest=layout.manifest(step),
            manifest_sha256=manifest.sha256,
            bytes=manifest.bytes,
            trainer=spec.trainer,
            wandb=manifest.wandb,
        )
        store.write(layout.pointer, pointer.encode())
    return manifest


def _sha1(path: Path) -> str:
    return hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()
