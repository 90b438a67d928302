"""A practice pod whose run is in the store, destroyed with everything on it; and a new one that has
only the key.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Any

import b2sdk

from bs4_agent.paths import Home
from bs4_agent.runs.records import spec_from_dict
from bs4_agent.setup import credentials
from bs4_common.checkpoints.inventory import newest_resumable
from bs4_common.checkpoints.remote.b2 import B2Store
from bs4_common.checkpoints.remote.layout import Layout, Place
from bs4_common.checkpoints.remote.pointer import Pointer
from bs4_common.trainers import registry
from bs4_common.trainers.base import LaunchSpec
from bs4_console.launch import guide
from bs4_practice.b2.server import B2Server
from bs4_practice.person import edit_config
from bs4_practice.pod import PracticePod
from bs4_practice.stage import Stage
from tests.support.remote_sets import put_step

BUCKET = "practice-bucket"
URL = f"b2://{BUCKET}/lab"
PLACE = Place.parse(URL)


def open_store(server: B2Server) -> B2Store:
    key = server.key()
    return B2Store.open(BUCKET, key.id, key.secret, at=server.url)


def give_key(
    pod: PracticePod, server: B2Server, *, write: bool = False, library: bool = False
) -> None:
    """What `pods setup --credentials` leaves. `library`: also what a command would bring, b2sdk, by
    links to this environment's.
    """
    key = server.key("listBuckets", "listFiles", "readFiles", *(["writeFiles"] if write else []))
    home = Home(pod.home / ".bs4")
    credentials.store("b2", {"key_id": key.id, "key": key.secret}, home)
    place = home.root / "b2-current"
    if library and not place.exists():
        place.mkdir()
        (place / "ok").write_text("test\n")
        for entry in Path(b2sdk.__file__).parents[1].iterdir():
            if not entry.name.startswith(("bs4_", "__", "_")):
                (place / entry.name).symlink_to(entry)


def pointed(server: B2Server) -> int:
    """The step that latest.json names."""
    return Pointer.decode(
        open_store(server).read(Layout(PLACE.prefix, "demo").pointer, 1 << 16)
    ).step


def spec_of(pod: PracticePod, trainer: str) -> LaunchSpec:
    return LaunchSpec(
        run="demo",
        trainer=trainer,
        config=Path("configs/rl.toml"),
        cwd=pod.project,
        output_dir=pod.output_dir,
    )


async def train(stage: Stage, **more: Any) -> None:
    """A run with W&B ids and a checkpoint every second step, launched as a person would, with
    `more` of what is asked.
    """
    edit_config(
        stage,
        {"ckpt.interval": 2}
        | (
            {"wandb.project": "practice", "wandb.offline": True}
            if stage.trainer == "prime-rl-2026-01"
            else {}
        ),
    )
    asked = guide.LaunchRequest(run="demo", trainer=stage.trainer, config="configs/rl.toml", **more)
    await guide.start(stage.session, await guide.plan(stage.session, asked))


async def save(stage: Stage, store: B2Store, wandb: dict[str, str]) -> int:
    """The newest complete step goes to the store; its number."""
    spec = spec_of(stage.pod, stage.trainer)
    trainer = registry.get(stage.trainer)
    await stage.until(
        lambda: newest_resumable(trainer.checkpoints(spec)), 240, "a complete checkpoint"
    )
    newest = newest_resumable(trainer.checkpoints(spec))
    assert newest is not None
    started = dataclasses.replace(
        spec_from_dict(json.loads(tracked(stage.pod))["launch"]), resume=None
    )
    await asyncio.to_thread(
        put_step, store, PLACE, started, newest.step, wandb=wandb, recorded=True
    )
    return newest.step


def tracked(pod: PracticePod, attempt: int = 1) -> str:
    """Everything that an attempt was started with."""
    return (
        pod.home / ".bs4" / "runs" / "demo" / "attempts" / str(attempt) / "spec.json"
    ).read_text()
