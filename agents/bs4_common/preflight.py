"""The records of a preflight: what a console asks about a start, and the parts of a pod's answer. A
part that cannot be made has only the key `unknown`. A value that is not known is null. Other
versions of the agent leave fields out, so a reader expects none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from bs4_common.telemetry import DiskUsage


class StartBody(TypedDict, total=False):
    """The query of a console that asks if a start of a run would succeed, with the fields of a
    launch. The agent answers with a `Look` and starts nothing. Without `trainer` and `config`, only
    the pod is checked and no run.
    """

    run: str
    trainer: str
    config: str
    cwd: str
    output_dir: str
    resume: int | str | None
    """A training step, "auto", or None for a start from scratch."""
    fresh: bool
    """True if everything that the run has written is moved aside first."""
    overrides: Sequence[str]
    """The words that follow the config on the command line."""
    component: str
    """The program to start, such as "rl" for the whole training."""
    container: str
    """The container in which the run starts, or ""."""
    env: Mapping[str, str]
    urls: Mapping[str, str]
    """Base URLs to use for the services `hub`, `wandb` and `b2` in place of the usual ones."""


class SchemaBody(TypedDict):
    """The query of a console that sends a config to the pod, where the trainer's own config
    classes, which are installed there, check it.
    """

    trainer: str
    component: str
    """The program that reads the config, such as "rl" for the whole training."""
    cwd: str
    files: Sequence[Sequence[str]]
    """[path, text] of each file, the config first."""
    overrides: Sequence[str]
    """The words that follow the config on the command line."""


class SourceBody(TypedDict):
    """The query of a console that requests files of the trainer's source code from the pod. The
    answer is a `SourceFiles`.
    """

    cwd: str
    """The directory on the pod in which the trainer is started, relative to the home directory
    unless absolute. It is searched for the trainer's checkout first.
    """
    container: str
    """The container in which the trainer is started, or "" for none."""
    env: Mapping[str, str]
    """The environment variables of the start. They help to find the Python interpreter, and with it
    an installed trainer.
    """
    files: Sequence[str]
    """Paths relative to the trainer's checkout."""
    after: int
    """The index in `files` at which the answer begins."""


class SourceFiles(TypedDict):
    """The files of the trainer's source code that the agent sends in one answer. A file that does
    not exist is in no list.
    """

    root: str
    """The directory on the pod in which the files are, or "" if none of them exists."""
    files: list[list[str]]
    """[name, content] of each file; the content is compressed with zlib and written in base64."""
    refused: list[list[str]]
    """[name, reason] of each file that exists but is not sent."""
    next: int | None
    """The index from which the next query has to continue, or None if this answer is the last."""


class ServicesBody(TypedDict, total=False):
    """The request of a probe that runs on the pod. It checks there the pod's credentials for
    Hugging Face's hub, W&B and the object store Backblaze B2, and asks the hub about a model.
    """

    urls: Mapping[str, str]
    """Base URLs to use for `hub`, `wandb` and `b2` in place of the usual ones."""
    b2_file: str
    """The path of the file with the key of the object store."""
    model: str
    """The id of the model at the hub, or ""."""
    only: Sequence[str]
    """The services to ask: some of `hub`, `wandb`, `b2` and `model`. Without this key, all are
    asked.
    """


class Unknown(TypedDict, total=False):
    """The field that each part of an answer about a start may have. A part with this field has no
    other.
    """

    unknown: str
    """Why the agent could not find out this part."""


class GpuUse(TypedDict, total=False):
    """The memory of one GPU, in an answer about a start. None means that a value is not known, or
    for `error` that there is none.
    """

    index: int
    used: int | None
    """Bytes of memory in use."""
    total: int | None
    """Bytes of memory."""
    error: str | None
    """The driver's message about a GPU that it cannot reach."""


class GpuHolder(TypedDict, total=False):
    """A process that holds memory of a GPU, in an answer about a start."""

    pid: int
    gpu: int
    """The GPU's index."""
    command: str
    """The command line for a person to read, cut to 160 characters."""
    run: str | None
    """The running run to which the process belongs, or None."""
    dead_run: str | None
    """The ended run that left the process behind, or None."""


class GpuPart(TypedDict, total=False):
    """The GPUs of a pod, and the processes that hold their memory, in an answer about a start."""

    state: str
    """ "ok", or a word for why they cannot be read."""
    detail: str
    """Why the state is not "ok", or ""."""
    driver: str | None
    """The driver's version."""
    pids: str
    """Whether the driver's pids are those of the pod: "local", "foreign" or "unknown"."""
    devices: Sequence[GpuUse]
    holders: Sequence[GpuHolder]


class FileLimits(TypedDict, total=False):
    """The limits of open files of a process: the soft and the hard one, as setrlimit has them. None
    means that a limit is not known.
    """

    soft: int | None
    hard: int | None


class PodPart(Unknown, total=False):
    """The part of an answer about a start that says what every start depends on: the pod's GPUs,
    limits, shared memory and variables.
    """

    gpus: GpuPart
    nofile: FileLimits | None
    """The limits of open files that the run would get."""
    shm: DiskUsage | None
    """The use of shared memory (/dev/shm)."""
    environment: Mapping[str, str | None]
    """Those environment variables that change how vLLM starts, by name. None means that a variable
    is not set.
    """
    container: str | Unknown
    """The container's name, or why it cannot be entered."""


class ShownPlan(TypedDict, total=False):
    """The plan of a launch, as it is shown to a person."""

    resume: int | None
    """The training step to resume from, or None for a fresh start."""
    why: str
    """Why the run starts from there, as a phrase."""
    notes: Sequence[str]
    """Sentences for the person."""
    moves: Sequence[str]
    """The paths that are moved aside before the start."""


class RefusedPlan(TypedDict, total=False):
    """The reason why the agent would refuse to launch the run."""

    type: str
    """The type of the agent's error, such as "bad-config"."""
    message: str
    """The error's sentence for a person."""


class Foreseen(TypedDict, total=False):
    """A failure that one of the agent's detectors (functions that look for failures) finds before
    the run is started.
    """

    failure: str
    """The id of the failure."""
    title: str
    summary: str
    """A sentence about this case."""
    severity: str
    """How bad the failure is: "critical", "warning" or "info"."""
    role: str
    """Whether the failure is a cause or follows from another one, such as "root" or "symptom"."""
    evidence: Sequence[str]
    """What shows the failure, as lines of text."""


class SavedStep(TypedDict, total=False):
    """The checkpoint of one training step in the output directory of the run to be started.
    `complete` is True if a resume can start from it, and `bytes` is its size.
    """

    step: int
    complete: bool
    bytes: int


class OlderSteps(TypedDict, total=False):
    """How many checkpoints are not listed one by one, because they are older than those that are:
    `complete` ones, from which a resume can start, and `incomplete` ones.
    """

    complete: int
    incomplete: int


class NeededPort(TypedDict, total=False):
    """A port on which the run will listen, and who uses that port now."""

    port: int
    holder: str | None
    """The process that listens on the port now, in words, or None if none does."""
    run: str | None
    """The run to which that process belongs or belonged, or None."""


class StartPart(Unknown, total=False):
    """What a preflight (the look at a pod before a run is started) says of the run itself: the plan
    of its launch, the settings that matter, and what it needs on the pod. None means that a value
    is not known or not set.
    """

    plan: ShownPlan | None
    """What the launch would do, or None if it would be refused."""
    refused: RefusedPlan | None
    """Why the launch would be refused, or None."""
    command: str
    """The command line, or "" if it holds a secret or there is no plan."""
    secret: str | None
    """The kind of secret key that the options hold, such as "a W&B key", or None."""
    findings: Sequence[Foreseen]
    """The failures that are foreseen."""
    keep_last: float | None
    """How many checkpoints the trainer keeps."""
    interval: float | None
    """Training steps from one checkpoint to the next."""
    max_steps: float | None
    """The number of training steps after which the run ends."""
    wandb: bool | None
    """True if the run calls W&B."""
    model: str
    """The name of the model, or ""."""
    modules: Sequence[str]
    """Python modules that the run will import."""
    gpu_ids: Sequence[int] | None
    """Indexes of the GPUs that the run will use."""
    checkpoints: Sequence[SavedStep]
    """The newest checkpoints in the output directory, oldest first."""
    older: OlderSteps
    """The checkpoints there that are older than those in `checkpoints`. Agents before this field
    leave it out.
    """
    ports: Sequence[NeededPort]
    """The ports on which the run will listen."""
    serves_itself: bool | None
    """True if the run starts its own inference server."""
    disk: DiskUsage
    """The use of the filesystem with the output directory."""
    cache: DiskUsage
    """The use of the filesystem with Hugging Face's cache."""
    python: str
    """The path of the Python interpreter, or "" if it is that of the checkout."""
    engine: str | None
    """The program that generates the rollouts."""
    bytes_each: float
    """How many bytes a checkpoint has for each parameter of the model."""


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
    """The part of an answer about a start that says which packages are installed in the Python
    environment in which the run will train.
    """

    python: str | None
    """The path of the Python interpreter, or None if there is no environment."""
    revision: str
    """A digest that changes when something is installed or removed, "" for a container."""
    versions: Mapping[str, str | None]
    """The version of each important package, such as torch, or None if it is not installed."""
    imports: Mapping[str, str | None]
    """By module: the error of its import, or None if it can be imported."""
    commit: str | None
    """The commit of the trainer's checkout, or None."""
    container: str
    """The container that has the environment, if it is in one."""


class Credential(TypedDict, total=False):
    """What a service (Hugging Face's hub, W&B or the object store) says about the credential that
    the pod has for it.
    """

    token: str
    """Where the pod has the credential: "absent", "environment", "file" or "unknown"."""
    state: str
    """Whether the service accepts it: "ok", "refused", "absent", "offline" or "unknown"."""
    detail: str
    """More about the service's answer, for a person, or ""."""
    writes: bool | None
    """Only of the hub: True if the token may write."""
    missing: Sequence[str]
    """Only of the object store: the capabilities that the key lacks."""


class HubModel(TypedDict, total=False):
    """What Hugging Face's hub says about the model of the run."""

    id: str
    """The model's id at the hub."""
    cached: bool
    """True if the model's config.json is on the pod already."""
    config: Mapping[str, object] | None
    """The important keys of its config.json."""
    status: int | None
    """The HTTP status of the hub's answer, or None."""
    gated: bool | None
    """True if the hub gives the model only to those who have accepted its terms."""
    detail: str
    """More about the hub's answer, for a person, or ""."""


class ServiceClock(TypedDict, total=False):
    """How far the pod's clock is ahead of the clock of a service."""

    service: str
    """The service's host name."""
    offset_s: float
    """By how many seconds the pod is ahead."""


class ServicesPart(Unknown, total=False):
    """The part of an answer about a start that says whether Hugging Face's hub, W&B and the object
    store accept the pod's credentials, and what the hub says about the model. What was not asked is
    left out.
    """

    hub: Credential
    wandb: Credential
    b2: Credential
    model: HubModel | None
    """None if there is no model at the hub to ask for."""
    clock: ServiceClock | None
    """None if no service answered."""
    container: str
    """The container whose credentials for the hub and W&B were checked."""


class MemoryUse(TypedDict, total=False):
    """The main memory of a host or container, used and total; None means not known."""

    used: int | None
    """Bytes."""
    total: int | None
    """Bytes."""


class TorchPart(Unknown, total=False):
    """Whether the installed torch can use the GPUs. If torch cannot be imported, `error` says why,
    and the versions are None.
    """

    torch: str | None
    """The version of torch."""
    cuda: str | None
    """The version of CUDA that torch is built for."""
    available: bool | None
    """True if torch can use the GPUs, None if that is not known."""
    devices: int
    """The number of GPUs that torch can use."""
    error: str | None


class HostPart(Unknown, total=False):
    """The part of an answer about a start of verl that is about the machine, or the container, on
    which it will run.
    """

    memory: MemoryUse
    disk: DiskUsage
    """The use of the filesystem with the project."""
    project: str | None
    """The project's directory, or None if it does not exist."""
    verl: str | None
    """The version of verl that the project would import, or None."""
    cuda: TorchPart
    container: str
    """The container that was looked into, if the start is in one."""


class ServerPart(Unknown, total=False):
    """The part of an answer about the start of an evaluation that is about the inference server
    into which the evaluation loads its weights.
    """

    used_by: Sequence[str]
    """The other living runs of the pod that need the weights that are in this server now. Empty if
    there are none, or if the server is on another machine.
    """


class Look(TypedDict, total=False):
    """The agent's answer to a console that asks if a start would succeed, in parts. A part that was
    not asked for is missing.
    """

    pod: PodPart
    run: StartPart
    schema: object
    """A ClassesPart (what the trainer's own config classes say), which the module configs.classes
    of the console reads.
    """
    stack: StackPart
    services: ServicesPart
    host: HostPart
    server: ServerPart
