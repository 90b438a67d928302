"""The records of a preflight: what a console asks about a start, and the parts of a pod's answer. A
part that cannot be made has only the key `unknown`. A value that is not known is null. Other
versions of the agent leave fields out, so a reader expects none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from bs4_common.telemetry import DiskUsage


class StartBody(TypedDict, total=False):
    """A start that is judged before it happens, in the words of a launch. Without `trainer` and
    `config`, the pod alone is judged.
    """

    run: str
    trainer: str
    config: str
    cwd: str
    output_dir: str
    resume: int | str | None
    """A training step, "auto", or None for a start from scratch."""
    fresh: bool
    overrides: Sequence[str]
    component: str
    container: str
    env: Mapping[str, str]
    urls: Mapping[str, str]
    """Other addresses of services, by `hub`, `wandb` and `b2`."""


class SchemaBody(TypedDict):
    """A config that the trainer's own classes are to judge."""

    trainer: str
    component: str
    cwd: str
    files: Sequence[Sequence[str]]
    """[path, text] of each file, the config first."""
    overrides: Sequence[str]


class SourceBody(TypedDict):
    """A question for files of a trainer's source."""

    cwd: str
    container: str
    env: Mapping[str, str]
    files: Sequence[str]
    """Paths in the trainer's checkout."""
    after: int
    """The number of the file to begin with."""


class SourceFiles(TypedDict):
    """Files of a trainer's source."""

    root: str
    """The directory in which they are, or "" if none is anywhere."""
    files: list[list[str]]
    """[name, contents]: compressed with zlib and written in base64."""
    refused: list[list[str]]
    """[name, why] of files that are there and are not sent."""
    next: int | None
    """The number of the file to continue with, or None at the end."""


class ServicesBody(TypedDict, total=False):
    """A question for services."""

    urls: Mapping[str, str]
    """As in StartBody."""
    b2_file: str
    """The file with the key of the object store."""
    model: str
    """Its id, or ""."""
    only: Sequence[str]
    """Some of `hub`, `wandb`, `b2` and `model`. All if it is missing."""


class Unknown(TypedDict, total=False):
    """What every part of an answer may say."""

    unknown: str
    """Why the part could not be made."""


class GpuUse(TypedDict, total=False):
    """One GPU."""

    index: int
    used: int | None
    """Bytes."""
    total: int | None
    """Bytes."""
    error: str | None
    """The driver's message about a GPU that it cannot reach."""


class GpuHolder(TypedDict, total=False):
    """A process that holds memory of a GPU."""

    pid: int
    gpu: int
    """The GPU's index."""
    command: str
    run: str | None
    """The running run that it is of."""
    dead_run: str | None
    """The run that has left it behind."""


class GpuPart(TypedDict, total=False):
    """The GPUs of a pod."""

    state: str
    """ "ok", or a word for why they cannot be read."""
    detail: str
    driver: str | None
    """The driver's version."""
    pids: str
    devices: Sequence[GpuUse]
    holders: Sequence[GpuHolder]


class FileLimits(TypedDict, total=False):
    """Limits of open files."""

    soft: int | None
    hard: int | None


class PodPart(Unknown, total=False):
    """What matters on a pod to every start."""

    gpus: GpuPart
    nofile: FileLimits | None
    shm: DiskUsage | None
    """Shared memory."""
    environment: Mapping[str, str | None]
    """Variables that change how vLLM starts."""
    container: str | Unknown
    """The container's name, or why it cannot be entered."""


class ShownPlan(TypedDict, total=False):
    """What a launch would do."""

    resume: int | None
    """The training step to resume from."""
    why: str
    notes: Sequence[str]
    moves: Sequence[str]
    """Paths that are moved aside first."""


class RefusedPlan(TypedDict, total=False):
    """Why no plan of the launch can be made."""

    type: str
    """The type of the agent's error."""
    message: str


class Foreseen(TypedDict, total=False):
    """A failure that a detector finds before the start."""

    failure: str
    """The id of the failure's playbook."""
    title: str
    summary: str
    severity: str
    role: str
    evidence: Sequence[str]


class SavedStep(TypedDict, total=False):
    """A checkpoint in the output directory."""

    step: int
    complete: bool
    bytes: int


class NeededPort(TypedDict, total=False):
    """A port on which the run will listen."""

    port: int
    holder: str | None
    """Who listens there now, in words."""
    run: str | None


class StartPart(Unknown, total=False):
    """What matters to one start."""

    plan: ShownPlan | None
    refused: RefusedPlan | None
    command: str
    """The command line, or "" if it holds a secret or there is no plan."""
    secret: str | None
    """The kind of secret key that the options hold."""
    findings: Sequence[Foreseen]
    keep_last: float | None
    """Checkpoints that the trainer keeps."""
    interval: float | None
    """Training steps from one checkpoint to the next."""
    max_steps: float | None
    wandb: bool | None
    """True if the run calls W&B."""
    model: str
    modules: Sequence[str]
    """Python modules that the run will import."""
    gpu_ids: Sequence[int] | None
    """Indexes of the GPUs that the run will use."""
    checkpoints: Sequence[SavedStep]
    ports: Sequence[NeededPort]
    serves_itself: bool | None
    """True if the run starts its own inference server."""
    disk: DiskUsage
    """That of the output directory."""
    cache: DiskUsage
    """That of Hugging Face's cache."""
    python: str
    """The interpreter, if it is not that of the checkout."""
    engine: str | None
    """The program that generates the rollouts."""
    bytes_each: float
    """Bytes of a checkpoint for each parameter of the model."""


class ClassError(TypedDict):
    """One error that the trainer's own config class, a pydantic model, has reported about a config.
    `loc` is the place of the value, `kind` pydantic's type of the error, and `message` its text.
    """

    loc: Sequence[str | int]
    """Keys and list indices."""
    kind: str
    message: str


#: What the trainer's own config class says of a config: the class, its errors and its warnings. The
#: class accepts the config if there are no errors.
ClassesPart = TypedDict(
    "ClassesPart",
    {"unknown": str, "class": str, "errors": Sequence[ClassError], "warnings": Sequence[str]},
    total=False,
)


class StackPart(Unknown, total=False):
    """What is installed in the training environment."""

    python: str | None
    """The interpreter, or None if there is no environment."""
    revision: str
    """A digest that changes when something is installed or removed."""
    versions: Mapping[str, str | None]
    imports: Mapping[str, str | None]
    """By module: the error of its import, or None if it can be imported."""
    commit: str | None
    """The commit that is checked out."""
    container: str


class Credential(TypedDict, total=False):
    """What a service says of a pod's credential."""

    token: str
    """Where it is: "absent", "environment", "file" or "unknown"."""
    state: str
    """ "ok", "refused", "absent", "offline" or "unknown"."""
    detail: str
    writes: bool | None
    """Hub: True if the token may write."""
    missing: Sequence[str]
    """Object store: capabilities that the key does not have."""


class HubModel(TypedDict, total=False):
    """What the hub says of a model."""

    id: str
    cached: bool
    """True if it is on the pod."""
    config: Mapping[str, object] | None
    """The important keys of its config.json."""
    status: int | None
    """HTTP."""
    gated: bool | None
    detail: str


class ServiceClock(TypedDict, total=False):
    """The pod's clock, as a service sees it."""

    service: str
    offset_s: float
    """Seconds by which the pod is ahead."""


class ServicesPart(Unknown, total=False):
    """What services say."""

    hub: Credential
    wandb: Credential
    b2: Credential
    model: HubModel | None
    clock: ServiceClock | None
    container: str


class MemoryUse(TypedDict, total=False):
    """The memory of a host or container."""

    used: int | None
    """Bytes."""
    total: int | None
    """Bytes."""


class TorchPart(Unknown, total=False):
    """Whether torch can use the GPUs."""

    torch: str | None
    cuda: str | None
    """The version of CUDA that torch is built for."""
    available: bool | None
    devices: int
    error: str | None


class HostPart(Unknown, total=False):
    """What matters on a machine to a start of verl."""

    memory: MemoryUse
    disk: DiskUsage
    """That of the project."""
    project: str | None
    """The project's directory, or None if it does not exist."""
    verl: str | None
    """The release that is checked out there."""
    cuda: TorchPart
    container: str


class Look(TypedDict, total=False):
    """The parts of an answer about a start. A part that was not asked for is missing."""

    pod: PodPart
    run: StartPart
    schema: object
    """A ClassesPart, which configs.classes reads."""
    stack: StackPart
    services: ServicesPart
    host: HostPart
