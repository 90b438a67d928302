"""Reads the two bucket layouts of older scripts; they are never written.

    RUN/latest.json, RUN/step_N/..., RUN/config.toml   one script's: the content of a checkpoint
                                                       directory of the trainer
    RUN/checkpoints/step_N/...                         the other's, without any pointer

Neither has a manifest, so it is known what a step has, but not what it should have. The names show
whether the trainer's writer came to its end (`.metadata` beside shards). The only hashes are those
of the store.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bs4_common.checkpoints.remote import pointer as pointers
from bs4_common.checkpoints.remote.errors import NotThere
from bs4_common.checkpoints.remote.layout import Layout, checked, step_number
from bs4_common.checkpoints.remote.store import Entry, Store
from bs4_common.errors import BadRequest

_SHARD = re.compile(r"(?:.*/)?__\d+_\d+\.distcp")


@dataclass(frozen=True)
class SeedStep:
    """One checkpoint step that an older upload script saved in a bucket.

    `root` is the prefix of the names of its files, with the slash. `files` maps the rest of each
    file's name, after `root`, to its entry. `missing` says what a resume needs and does not find,
    "" if the trainer's part is complete (these scripts never saved the orchestrator's part).
    """

    step: int
    root: str
    files: dict[str, Entry]
    missing: str

    @property
    def bytes(self) -> int:
        """Return the size of all files of the step in the object store, in bytes."""
        return sum(entry.size for entry in self.files.values())


@dataclass(frozen=True)
class SeedRun:
    """A run that an older upload script saved in a bucket. `pointer` is the content of latest.json,
    the file that names the newest step, or None if there is no such file. `config` describes the
    file config.toml in the bucket (its name, size and hash), or is None if there is none.
    """

    steps: Sequence[SeedStep]
    pointer: pointers.Pointer | None
    config: Entry | None

    @property
    def newest(self) -> SeedStep | None:
        """Return the newest step whose trainer part is complete, or None if no step is complete."""
        return max(
            (one for one in self.steps if not one.missing), key=lambda one: one.step, default=None
        )


def read(store: Store, layout: Layout) -> SeedRun:
    """Return what older upload scripts saved of a run, in either of their two layouts. The steps
    are oldest first; there are none if nothing was saved. Raises a StoreError if the object store
    fails or refuses the call, and StoreDamaged if latest.json cannot be understood.
    """
    found: dict[tuple[str, int], dict[str, Entry]] = {}
    config = None
    for entry in store.entries(layout.root):
        name = entry.name[len(layout.root) :]
        config = entry if name == "config.toml" else config
        where = "checkpoints/" if name.startswith("checkpoints/") else ""
        directory, _, rest = name[len(where) :].partition("/")
        step = step_number(directory)
        if step is not None and _plain(rest):
            found.setdefault((f"{layout.root}{where}{directory}/", step), {})[rest] = entry
    return SeedRun(
        [
            SeedStep(step, root, found[root, step], _missing(found[root, step]))
            for root, step in sorted(found, key=lambda place: place[::-1])
        ],
        _pointer(store, layout),
        config,
    )


def _plain(path: str) -> bool:
    """Return True if `path` is a relative path without `..`. A store can list any name, and these
    paths become those of files on the pod.
    """
    try:
        checked(path)
    except BadRequest:
        return False
    return True


def _pointer(store: Store, layout: Layout) -> pointers.Pointer | None:
    """Return the pointer, or None if there is none."""
    try:
        return pointers.Pointer.decode(store.read(layout.pointer, pointers.MOST), layout.pointer)
    except NotThere:
        return None


def _missing(files: dict[str, Entry]) -> str:
    """Return what the trainer's part lacks, or ""."""
    metadata = [name for name in files if name.rpartition("/")[2] == ".metadata"]
    if not metadata:
        return "no .metadata"
    shards = [name for name in files if _SHARD.fullmatch(name)]
    if not shards:
        return "no shard beside .metadata"
    for name in (*metadata, *shards):
        if not files[name].size:
            return f"{name} is empty"
    return ""
