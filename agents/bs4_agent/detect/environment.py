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

from bs4_agent.identity import Identity


@dataclass(frozen=True, kw_only=True)
class Disk:
    """One filesystem, in bytes. `free` is what an ordinary user may still write. `growth` is the
    bytes per second by which `used` grew over the last minutes. `runs` are the runs whose output is
    on it; it is empty for the agent's own home and for shared memory.
    """

    path: str
    used: int | None = None
    total: int | None = None
    free: int | None = None
    read_only: bool | None = None
    growth: float | None = None
    runs: Sequence[str] = ()

    @property
    def share(self) -> float | None:
        """Return the used share in percent, as `df` counts it: of the space that an ordinary user
        can have. Returns None if it is unknown.
        """
        if self.used is None or self.free is None or self.used + self.free <= 0:
            return None
        return 100.0 * self.used / (self.used + self.free)


@dataclass(frozen=True)
class Heap:
    """A directory with one entry for each step (`root/step_N`): the bytes of each step, and the
    wall second of its newest file.
    """

    root: Path
    bytes: Mapping[int, int] = field(default_factory=dict)
    changed: Mapping[int, float] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Return the bytes of all steps together."""
        return sum(self.bytes.values())


@dataclass(frozen=True, kw_only=True)
class ProcessFacts:
    """What /proc shows of one living process of a run. `nofile` is its soft limit of open files.
    `names` are the names of its environment variables, never their values. `wandb_id` is a digest
    of WANDB_RUN_ID, used only for comparison. `shared` is True if W&B's shared mode is on, in which
    several processes are meant to use one id.
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
    """A local run directory of W&B. `synced` is True if `wandb sync` left its marker. `changed` is
    the wall second of its last write. `began` is the stamp in its name, in the pod's own time.
    `step` is the newest step that the client has recorded there, sent or not; it is read for the
    newest attempt only.
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
    """The place where W&B tracks one side of a run, in W&B's own names. `entity` "" means the
    entity of the API key, and `server` "" means W&B's own server.
    """

    side: str
    id: str
    project: str
    entity: str = ""
    server: str = ""


@dataclass(frozen=True)
class DatasetCache:
    """One entry of a dataset cache. `ready` is True if its completion marker exists. `changed` is
    the wall second of its newest file.
    """

    path: Path
    ready: bool
    changed: float


@dataclass(frozen=True)
class EnvironmentVersion:
    """An environment that the config's header pins (`# env: owner/name@1.2.3`). `wanted` is the
    pinned version. `installed` is None if no such package was found. `where` is the path that shows
    it.
    """

    name: str
    wanted: str
    installed: str | None
    where: Path


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter that the config starts from, with the names of its missing files."""

    path: Path
    missing: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class RunEnvironment:
    """Everything of one run that is scanned at long intervals. `looked_t` is the wall second of the
    scan. Every other field may be unknown.
    """

    looked_t: float
    heaps: Mapping[str, Heap] | None = None
    """By name: weights, broadcasts, rollouts, orchestrator (2026-01: its own checkpoints)."""
    earlier_heaps: Mapping[str, Heap] | None = None
    """The same directories in a scan at which at least two checkpoints fewer existed."""
    processes: Sequence[ProcessFacts] | None = None
    wandb: Sequence[WandbDirectory] | None = None
    caches: Sequence[DatasetCache] | None = None
    environments: Sequence[EnvironmentVersion] | None = None
    adapters: Sequence[Adapter] | None = None
    rejected: str | None = None
    """The text of run_default/configs/error.txt (2026-01), or None while there is none."""
    rejected_t: float = 0.0
    logs_kept: bool | None = None
    """True if logs from before this attempt still exist, None if there are no logs."""
    logs_found: bool | None = None
    """True if any log of the run is where its layout says, or None if its layout names no log."""
    lineage: Mapping[str, str] | None = None
    """Names that a continued run must keep (adapter, W&B name, model), of this attempt.
    `lineage_before` has those of the attempt before.
    """
    lineage_before: Mapping[str, str] | None = None
    pointer: int | None = None
    """verl: the step that latest_checkpointed_iteration.txt names, or -1 if the file exists and
    names none.
    """


@dataclass(frozen=True, kw_only=True)
class ConsoleFacts:
    """What only the console can see. Rows are plain dictionaries; a missing key is unknown, and a
    list that is None was not requested.

    `pods`: `run`, `pod`, `instance`, `label`, `state` (running, stopped, outbid, gone, unknown),
    `samples` (polls in a row with this state), `reachable`, `steps` (new steps since the last
    poll), `running_s`, `launcher` (alive), `gpu_util`, `start_log`, `missing_names`. `instances`:
    the provider's listing: `id`, `label`, `state`, `price`. `searches`: `t`, `run`, `cap`,
    `offers`, `text`. `creations`: `t`, `run`, `label`, `error`. `actions`: `t`, `run`, `kind`,
    `label` (requested), `instance`, `instance_label`. `recoveries`: `t`, `run`, `instance`,
    `step_before`, `step_after`. `remote`: the object store: `run`, `prefix`, `step`, `files`,
    `local_files`, `bytes`, `missing` (as a phrase), `uploading`. `sync`: `run`, `alive`, `owners`
    (daemons), `marker`, `skipped`, `vanished`, `removed` (steps), `rounds`, `why` (the reason for
    skipping), `pointer`, `interval_s`, `error`, `detail`, `failures` (in a row), `listed` (True if
    `remote` covers this run too). `wandb`: `run`, `found`, `id`, `name`, `entity`, `project`,
    `last_step`, `updated_t`, `state`.
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
        """Return the rows of one run in the list named `what`, for example "pods". Empty if the
        list was not requested.
        """
        found = []
        for row in getattr(self, what) or ():
            if row.get("run") == run:
                found.append(row)
        return found
