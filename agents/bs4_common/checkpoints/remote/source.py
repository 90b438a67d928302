"""Finds the step of a run from which a new pod can start, from the newest pointer, the manifests
and one listing of the store.

It runs in a process of its own (`worker.py`), because the agent has no TLS.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from bs4_common.checkpoints.remote import legacy_layout
from bs4_common.checkpoints.remote import manifest as manifests
from bs4_common.checkpoints.remote.errors import StoreDamaged
from bs4_common.checkpoints.remote.launched import CONFIGS, Launched, LaunchedFields
from bs4_common.checkpoints.remote.layout import Layout, Place
from bs4_common.checkpoints.remote.manifest import Manifest
from bs4_common.checkpoints.remote.pointer import Pointer
from bs4_common.checkpoints.remote.steps import RemoteStep, scan
from bs4_common.checkpoints.remote.store import Store


@dataclass(frozen=True)
class RemoteFile:
    """One file of a checkpoint step in the object store.

    `path` is relative to the output directory that it came from, and `name` is its full name in the
    store. `size` is in bytes. `sha1` is None if the store has no digest of it (a large file that
    another program uploaded), and `sha256` is None if the step's manifest (its list of files) has
    none. If both are None, only its size can be checked.
    """

    path: str
    name: str
    size: int
    sha1: str | None
    sha256: str | None = None


class _NewerFields(TypedDict, total=False):
    launch: LaunchedFields | None


class RemoteSetFields(_NewerFields):
    """One checkpoint step that can be restored, as a dictionary of JSON values with the fields of a
    RemoteSet (see there). The agent saves it in this form in its home directory. Dictionaries that
    older agents saved have no `launch`.
    """

    step: int
    run: str
    trainer: str
    files: list[list[Any]]
    """For each RemoteFile, the list of its fields."""
    parts: Mapping[str, str]
    identity: str
    config: str
    wandb: Mapping[str, str]
    created_t: float
    """Wall seconds since 1970."""


class RemoteCopyFields(TypedDict):
    """The result of a search for a step to restore (a `RemoteCopy`) as a dictionary of JSON values,
    which the process that searches the object store returns to the agent.
    """

    chosen: RemoteSetFields | None
    skipped: list[list[Any]]
    """[step, reason] for each step that was not taken."""
    pointed: int | None
    """The step that latest.json names, or None."""


@dataclass(frozen=True, kw_only=True)
class RemoteSet:
    """One checkpoint step in the object store that can be restored. `parts`, `config`, `wandb`,
    `launch` and `created_t` (Unix time in seconds) are those of its `Manifest`. `identity` is the
    SHA-256 of the manifest's bytes, or of the list of files if a program without manifests uploaded
    the step.
    """

    step: int
    run: str
    trainer: str
    files: Sequence[RemoteFile]
    parts: Mapping[str, str]
    identity: str
    config: str = ""
    wandb: Mapping[str, str] = field(default_factory=dict)
    created_t: float = 0.0
    launch: Launched | None = None

    @property
    def bytes(self) -> int:
        """Return the size of all files of the step in the object store, in bytes."""
        return sum(file.size for file in self.files)

    @property
    def configs(self) -> list[str]:
        """Return the names of the config files with which the run was started: the main config
        first, then the files that its command line names and those that they include.
        """
        found = dict.fromkeys([self.config] if self.config else [])
        for file in self.files:
            if file.path.startswith(f"{CONFIGS}/"):
                found[file.path] = None
        return list(found)

    def as_dict(self) -> RemoteSetFields:
        """Return the step as a dictionary of JSON values, from which `from_dict` makes it again.
        The agent saves it in its home directory, and the process that searches the object store
        answers with it.
        """
        return {
            "step": self.step,
            "run": self.run,
            "trainer": self.trainer,
            "files": [
                [file.path, file.name, file.size, file.sha1, file.sha256] for file in self.files
            ],
            "parts": dict(self.parts),
            "identity": self.identity,
            "config": self.config,
            "wandb": dict(self.wandb),
            "created_t": self.created_t,
            "launch": None if self.launch is None else self.launch.as_dict(),
        }

    @classmethod
    def from_dict(cls, data: RemoteSetFields) -> RemoteSet:
        """Return the step in a dictionary that `as_dict` has written. Raises KeyError, TypeError,
        ValueError or AttributeError if `data` does not have that form.
        """
        launch = data.get("launch")  # notes of an older agent have none
        return cls(
            step=data["step"],
            run=data["run"],
            trainer=data["trainer"],
            files=[RemoteFile(*row) for row in data["files"]],
            parts=data["parts"],
            identity=data["identity"],
            config=data["config"],
            wandb=data["wandb"],
            created_t=data["created_t"],
            launch=None if launch is None else Launched.from_dict(launch),
        )


@dataclass(frozen=True)
class RemoteCopy:
    """The result of a search for a step to restore. `chosen` is the step that was found, None if no
    step can be restored. `skipped` has (step, reason) for the steps that were not taken: newer
    ones, or the requested one. The step -1 in it stands for latest.json itself, which could not be
    used. `pointed` is the step that latest.json names, or None.
    """

    chosen: RemoteSet | None
    skipped: Sequence[tuple[int, str]] = ()
    pointed: int | None = None

    def as_dict(self) -> RemoteCopyFields:
        """Return the result of the search as a dictionary of JSON values, from which `from_dict`
        makes it again.
        """
        return {
            "chosen": None if self.chosen is None else self.chosen.as_dict(),
            "skipped": [list(one) for one in self.skipped],
            "pointed": self.pointed,
        }

    @classmethod
    def from_dict(cls, data: RemoteCopyFields) -> RemoteCopy:
        """Return the result of a search in a dictionary that `as_dict` has written. Raises
        KeyError, TypeError, ValueError or AttributeError if `data` does not have that form.
        """
        return cls(
            None if data["chosen"] is None else RemoteSet.from_dict(data["chosen"]),
            [(int(step), str(why)) for step, why in data["skipped"]],
            data["pointed"],
        )


def kept_config(notes: Path, found: RemoteSet, path: str) -> Path:
    """Return the path on the pod at which the agent stores one config file of the step before the
    other files are fetched. `path` is one of `found.configs` and `notes` the directory of the
    agent's notes. The config is needed early, because it says where the trainer writes its files.
    """
    if found.configs == [path]:
        return notes / f"{found.identity}.config"
    return notes / f"{found.identity}.configs" / path


def find(store: Store, place: Place, run: str, step: int | None = None) -> RemoteCopy:
    """Find the newest step of `run` that is complete in the object store, or exactly `step`, and
    return it with the steps that were passed over and the reasons. If there is none, `chosen` of
    the returned RemoteCopy is None.

    A step is complete if its manifest (the list of its files) can be read, and the store lists
    every file of it with the size and SHA-1 in the manifest. If latest.json, the file that points
    to the newest verified step, names this step, the manifest must also have the hash that is
    written there. A step above the one that latest.json names is skipped unless it is requested: it
    was never verified there, or the run was set back since. Raises StoreAuth if the store refuses
    the key, StoreUnreachable if it cannot be reached, StoreThrottled if it is too busy, and
    NotThere if there is no such bucket.
    """
    layout = Layout(place.prefix, run)
    left = scan(store, layout)
    pointer = left.pointer
    pointed = None if pointer is None else pointer.step
    skipped = [(-1, left.pointer_why)] if left.pointer_why else []
    if (
        pointer is not None
        and pointer.manifest
        and step is None
        and left.step(pointer.step) is None
    ):
        skipped.append((pointer.step, f"{layout.pointer} names it, and nothing of it is there"))
    for one in sorted(left.steps, key=lambda one: -one.step):
        if step is not None and one.step != step:
            continue
        why = one.missing or _doubted(one, pointer, asked=step is not None)
        if not why and one.manifest is not None:
            return RemoteCopy(_set(layout, one, one.manifest), skipped, pointed)
        skipped.append((one.step, why or "it has no manifest"))
    chosen = None
    if not left.steps:
        chosen = _older_layout(store, layout, step, skipped)
    return RemoteCopy(chosen, skipped, pointed)


def _doubted(one: RemoteStep, pointer: Pointer | None, *, asked: bool) -> str:
    """Return why a step that looks complete is not taken, or ""."""
    if pointer is None or not pointer.manifest or one.manifest is None:
        return ""
    if one.step == pointer.step and one.manifest.sha256 != pointer.manifest_sha256:
        return "its manifest is not the one that the pointer names (another SHA-256)"
    if one.step > pointer.step and not asked:
        return (
            f"the pointer names step {pointer.step}, so this one was not verified there yet or "
            "is of a time before"
        )
    return ""


def _set(layout: Layout, one: RemoteStep, manifest: Manifest) -> RemoteSet:
    """Return the step as a set that can be restored."""
    return RemoteSet(
        step=one.step,
        run=manifest.run,
        trainer=manifest.trainer,
        files=[
            RemoteFile(f.path, layout.file(one.step, f.path), f.size, f.sha1, f.sha256)
            for f in manifest.files
        ],
        parts=manifest.parts,
        identity=manifest.sha256,
        config=manifest.config,
        wandb=manifest.wandb,
        created_t=manifest.created_t,
        launch=manifest.launch,
    )


def _older_layout(
    store: Store, layout: Layout, step: int | None, skipped: list[tuple[int, str]]
) -> RemoteSet | None:
    """Return the newest complete step, or `step`, from the layouts of older scripts. They have no
    manifest, so only the listing is known.
    """
    try:
        left = legacy_layout.read(store, layout)
    except StoreDamaged:
        return None  # the reason is in `skipped` already
    for one in sorted(left.steps, key=lambda one: -one.step):
        if step is not None and one.step != step:
            continue
        if one.missing:
            skipped.append((one.step, f"{one.root}: {one.missing}"))
            continue
        return _seed_set(layout, one, left)
    return None


def _seed_set(
    layout: Layout, one: legacy_layout.SeedStep, left: legacy_layout.SeedRun
) -> RemoteSet:
    """Return a step of the older layouts as a set. Their scripts kept the content of a checkpoint
    directory, with or without the directory `trainer` around the shards.
    """
    top = f"checkpoints/step_{one.step}"
    place = f"{top}/trainer" if ".metadata" in one.files else top
    files = []
    for name, entry in sorted(one.files.items()):
        files.append(RemoteFile(f"{place}/{name}", entry.name, entry.size, entry.sha1))
    parts = {}
    for part in ("trainer", "orchestrator"):
        if any(f.path.startswith(f"{top}/{part}/") for f in files):
            parts[part] = f"{top}/{part}"
    config = ""
    if left.config is not None:
        config = "config.toml"
        files.append(RemoteFile(config, left.config.name, left.config.size, left.config.sha1))
    listing = repr([(file.name, file.size, file.sha1) for file in files])
    return RemoteSet(
        step=one.step,
        run=layout.run,
        trainer="",
        files=files,
        parts=parts,
        identity=manifests.digest(listing.encode()),
        config=config,
        wandb={} if left.pointer is None else left.pointer.wandb,
    )
