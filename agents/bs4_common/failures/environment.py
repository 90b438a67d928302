"""What surrounds a run: disks, sizes of step directories, limits, local W&B runs, caches, and facts
that only the console can know.

Plain data. `None` always means "not known", which is neither 0 nor healthy: a detector reports
nothing about what it cannot see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bs4_common.identity import Identity


@dataclass(frozen=True, kw_only=True)
class Disk:
    """One filesystem. `path` is a place on it, and `used`, `total` and `free` are bytes; `free` is
    what an ordinary user may still write. `growth` is by how many bytes a second `used` has grown
    in the last five minutes. `runs` are the names of the runs that write their output to it, and
    `others` of those that write something else to it, such as checkpoints. None means that a value
    is unknown.
    """

    path: str
    used: int | None = None
    total: int | None = None
    free: int | None = None
    read_only: bool | None = None
    growth: float | None = None
    runs: Sequence[str] = ()
    others: Sequence[str] = ()

    @property
    def share(self) -> float | None:
        """Return how full the filesystem is, in percent of the space that an ordinary user can have
        (as `df` counts it), or None if that is unknown.
        """
        if self.used is None or self.free is None or self.used + self.free <= 0:
            return None
        return 100.0 * self.used / (self.used + self.free)


@dataclass(frozen=True)
class Heap:
    """A directory with one entry for each step (`root/step_N`), for example of weights or rollouts.
    By step, `bytes` has the size of the entry, and `changed` the mtime of the newest file in it, as
    a Unix time in seconds.
    """

    root: Path
    bytes: Mapping[int, int] = field(default_factory=dict)
    changed: Mapping[int, float] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Return the size in bytes of the directory's entries of all steps together."""
        return sum(self.bytes.values())


@dataclass(frozen=True, kw_only=True)
class ProcessFacts:
    """What /proc shows of one living process of a run; None means unknown. `component` is its part
    in the run, for example "trainer". `nofile` is its soft limit of open files. `open_files` is the
    number of files that it has open. `names` are the names of its environment variables, never
    their values. `wandb_id` is a digest of WANDB_RUN_ID, only to compare processes. `shared` is
    True if W&B's shared mode is on, in which several processes may write to one W&B run.
    """

    identity: Identity
    component: str | None
    nofile: int | None = None
    open_files: int | None = None
    names: frozenset[str] | None = None
    wandb_id: str | None = None
    shared: bool = False
    cwd: Path | None = None


@dataclass(frozen=True, kw_only=True)
class WandbDirectory:
    """A local directory in which W&B's client records one W&B run. `offline` is True if the client
    did not upload while the run was going on, and `synced` if `wandb sync` has uploaded the
    directory since. `changed` is the time of its last write, as a Unix time in seconds. `began` is
    the local date and time in its name, as text ("20260131_095959"), and `id` the id of the W&B
    run. `step` is the newest step that the client has recorded in it, uploaded or not. It is read
    only for the newest attempt of the run, and is None for directories of earlier attempts.
    """

    path: Path
    offline: bool
    synced: bool
    changed: float
    id: str = ""
    began: str = ""
    step: int | None = None


@dataclass(frozen=True)
class Tracked:
    """The place on W&B where one side of a run is tracked. `side` is "trainer" or "orchestrator",
    and `id` the id of the W&B run. `entity` is W&B's name for the owner (a user or a team), or ""
    for the owner of the API key. If `server` is "", it is W&B's own server.
    """

    side: str
    id: str
    project: str
    entity: str = ""
    server: str = ""


@dataclass(frozen=True)
class DatasetCache:
    """One dataset in a cache of the `datasets` library. `ready` is True if it was written
    completely. `changed` is the time of its newest file, as a Unix time in seconds, or 0.0 if
    unknown.
    """

    path: Path
    ready: bool
    changed: float


@dataclass(frozen=True)
class EnvironmentVersion:
    """A training environment (a package with tasks and rewards) whose version a comment at the top
    of the config names, as in `# env: owner/name@1.2.3`. `wanted` is that version, and `installed`
    the one found, or None if there is none. `where` is the path that shows it.
    """

    name: str
    wanted: str
    installed: str | None
    where: Path


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter that the settings of a run load from `path`. `missing` has the names of files
    that it lacks, and is empty if it is whole.
    """

    path: Path
    missing: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class RunEnvironment:
    """What is scanned of one run only at long intervals: sizes, processes, W&B directories, caches,
    adapters. `looked_t` is the time of the scan, as a Unix time in seconds. A heap is a directory
    with one entry for each step, and the sizes of these entries. None in a field means that it is
    unknown, unless the field says otherwise.
    """

    looked_t: float
    heaps: Mapping[str, Heap] | None = None
    """By name: weights, broadcasts (weights for the inference server) and rollouts."""
    earlier_heaps: Mapping[str, Heap] | None = None
    """The same directories as they were at least two checkpoints earlier, or None before that."""
    processes: Sequence[ProcessFacts] | None = None
    wandb: Sequence[WandbDirectory] | None = None
    caches: Sequence[DatasetCache] | None = None
    environments: Sequence[EnvironmentVersion] | None = None
    """The training environments whose versions the config names."""
    adapters: Sequence[Adapter] | None = None
    """The LoRA adapters that the settings load."""
    rejected: str | None = None
    """The text of run_default/configs/error.txt, in which prime-rl's version of January 2026 writes
    why it refuses a config, or None while there is none.
    """
    rejected_t: float = 0.0
    """The Unix time in seconds at which that file was last changed."""
    logs_kept: bool | None = None
    """True if logs from before this attempt still exist, None if there are no logs."""
    logs_found: bool | None = None
    """True if any log of the run is where its layout says, or None if its layout names no log."""
    lineage: Mapping[str, str] | None = None
    """The names in this attempt's settings that a continued run must keep: those of the adapter,
    the W&B run and the model. `lineage_before` has those of the attempt before.
    """
    lineage_before: Mapping[str, str] | None = None
    pointer: int | None = None
    """For verl: the step that latest_checkpointed_iteration.txt names, -1 if the file exists and
    names none, or None if there is no such file.
    """


@dataclass(frozen=True, kw_only=True)
class ConsoleFacts:
    """What only the console can see, as lists of rows. A row is a dictionary; a key that it lacks
    is unknown. A list that is None was not supplied. `t` and keys that end in `_t` are wall seconds
    since 1970, keys that end in `_s` are seconds, and `run` is the name of a run.

    - `pods`: `run`, `pod`, `instance`, `label`, `state` (running, stopped, outbid, gone, unknown),
      `samples` (polls in a row with this state), `reachable`, `steps` (new steps since the last
      poll), `running_s`, `launcher` (True if it lives), `gpu_util` (percent), `start_log` (text),
      `missing_names` (of variables that the start needs).
    - `instances`, the provider's list: `id`, `label`, `state`, `price` ($ an hour).
    - `searches` for offers: `t`, `run`, `cap` ($ an hour at most), `offers` (found), `text`.
    - `creations` of instances: `t`, `run`, `label`, `error`.
    - `actions` on instances: `t`, `run`, `kind`, `label` (requested), `instance`, `instance_label`.
    - `recoveries`: `t`, `run`, `instance`, `step_before`, `step_after`.
    - `remote`, steps in the store: `run`, `prefix`, `step`, `files`, `local_files`, `bytes`,
      `missing` (as a phrase), `uploading`.
    - `sync`: `run`, `alive`, `owners` (processes that sync), `marker` (the file that it waits for),
      `skipped`, `vanished` (during the upload) and `removed` (steps), `rounds`, `why` (it skips),
      `pointer` (the step that the store names as newest), `interval_s`, `error`, `detail`,
      `failures` (in a row), `listed` (True if `remote` covers this run too).
    - `wandb`: `run`, `found`, `id`, `name`, `entity`, `project`, `last_step`, `updated_t`, `state`.
    """

    pods: Sequence[Mapping[str, Any]] | None = None
    instances: Sequence[Mapping[str, Any]] | None = None
    searches: Sequence[Mapping[str, Any]] | None = None
    creations: Sequence[Mapping[str, Any]] | None = None
    actions: Sequence[Mapping[str, Any]] | None = None
    recoveries: Sequence[Mapping[str, Any]] | None = None
    remote: Sequence[Mapping[str, Any]] | None = None
    sync: Sequence[Mapping[str, Any]] | None = None
    wandb: Sequence[Mapping[str, Any]] | None = None

    def of(self, what: str, run: str) -> list[Mapping[str, Any]]:
        """Return the rows about the run `run` in the list that has the field name `what`, for
        example "pods". The result is empty if there are none, or if the console has not supplied
        that list.
        """
        found = []
        for row in getattr(self, what) or ():
            if row.get("run") == run:
                found.append(row)
        return found
