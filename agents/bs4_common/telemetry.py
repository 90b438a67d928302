"""The records of the streams `telemetry` and `steps/RUN`, as docs/wire.md describes them. A number
that is not known is null. Other versions of the agent leave fields out, so a reader expects none of
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from bs4_common.states import GpuState

#: The side of a record with a point of a validation, `val`, is this and a name (verl: the metric;
#: prime-rl: the environment).
EVAL = "eval:"


class Pcie(TypedDict, total=False):
    """The state of a GPU's PCIe link in a telemetry record: generation, lanes, and KB/s."""

    gen: int | None
    gen_max: int | None
    width: int | None
    """Lanes."""
    width_max: int | None
    tx: int | None
    """KB/s that the GPU sends."""
    rx: int | None
    """KB/s that the GPU receives."""


class Nvlink(TypedDict, total=False):
    """The state of a GPU's NVLinks in a telemetry record: links that are up, all links, errors."""

    active: int
    """Links that are up."""
    links: int
    """All links."""
    errors: int | None
    """Errors of all links since the driver was loaded."""


class GpuProcess(TypedDict, total=False):
    """A process that holds memory of a GPU, in a telemetry record."""

    pid: int
    mem: int | None
    """Bytes of the GPU's memory."""
    visible: bool
    """True if the agent sees that the process has the GPU open."""
    run: str | None
    component: str | None
    """The process's part in the run, for example "engine"."""


class Device(TypedDict, total=False):
    """What a telemetry record says of one GPU. A value is None if it is not known."""

    index: int
    minor: int | None
    """N of /dev/nvidiaN. It serves ownership and is in no record."""
    uuid: str | None
    name: str | None
    util: float | None
    """Percent of the time in which the GPU computed."""
    mem_util: float | None
    """Percent of the time in which the GPU's memory was read or written."""
    mem_used: int | None
    """Bytes."""
    mem_total: int | None
    """Bytes."""
    temp: float | None
    """Degrees Celsius."""
    power: float | None
    """Watts."""
    power_limit: float | None
    """Watts."""
    sm_clock: int | None
    """MHz."""
    mem_clock: int | None
    """MHz."""
    ecc: int | None
    """Memory errors since the driver was loaded that could not be corrected."""
    throttle: Sequence[str] | None
    """Why the clocks are lowered, in the driver's words."""
    error: str | None
    remap: str
    """ "pending" or "failed"."""
    recovery: str
    """What the driver asks for, such as "reset"."""
    procs: Sequence[GpuProcess]
    unaccounted: int | None
    """Bytes in use that no listed process has."""
    pcie: Pcie | None
    nvlink: Nvlink | None


class Xid(TypedDict, total=False):
    """An Xid event, which is a GPU fault that the NVIDIA driver has reported."""

    index: int | None
    """The GPU's index, or None if the report names no known GPU."""
    xid: int
    """The number of the fault."""
    t: float
    """Wall seconds since 1970 at which the agent fetched the report."""


class Gpus(TypedDict, total=False):
    """What a telemetry record says of all GPUs of a pod."""

    state: GpuState
    detail: str
    """Why the state is not "ok", or ""."""
    age_s: float | None
    driver: str | None
    """The driver's version."""
    pids: str
    """ "local", "foreign" or "unknown": whose numbers the driver's pids are."""
    devices: Sequence[Device]
    xids: Sequence[Xid]


class DiskUsage(TypedDict):
    """How full a filesystem is: used, total and free space in bytes, None if it is not known."""

    path: str
    used: int | None
    total: int | None
    free: int | None
    """What an ordinary user may still write."""
    read_only: bool | None


class Net(TypedDict, total=False):
    """The bytes per second that all network interfaces but loopback receive (`rx`) and send
    (`tx`).
    """

    rx: int | None
    tx: int | None


class Host(TypedDict, total=False):
    """What a telemetry record says of the machine or container of the pod: CPU, memory, disks,
    network.
    """

    cpu: float | None
    """Percent of all cores."""
    cores: float
    load1: float
    mem_used: int | None
    """Bytes."""
    mem_total: int | None
    """Bytes."""
    shm_used: int | None
    """Bytes."""
    shm_total: int | None
    """Bytes."""
    disks: Sequence[DiskUsage]
    net: Net


class Process(TypedDict, total=False):
    """What a telemetry record says of one process of a run."""

    component: str | None
    pid: int
    start_ticks: int
    """Clock ticks since the boot."""
    cpu: float | None
    """Percent of one core."""
    rss: int | None
    """Bytes."""
    state: str
    """As in /proc/PID/stat."""


class WatchedRun(TypedDict, total=False):
    """What a telemetry record says of one run: the processes of its newest attempt."""

    run: str
    attempt: int
    alive: bool
    components: Sequence[Process]


class Telemetry(TypedDict, total=False):
    """One record of the telemetry stream, which says how busy a pod is at one moment."""

    t: float
    """Wall seconds since 1970."""
    m: float
    """Seconds of the monotonic clock of the boot `b`."""
    b: str
    gpus: Gpus
    host: Host
    runs: Sequence[WatchedRun]
    coverage: Mapping[str, str]
    """What can be seen on this pod, by source."""


class StepPlace(TypedDict, total=False):
    """The place of the log line that reported a step."""

    stream: str
    cursor: str


class StepRecord(TypedDict, total=False):
    """A record of the stream steps/RUN: one training step of one side (such as trainer). The step's
    numbers, such as `reward`, stand beside these fields, also under other names than those that are
    known here. A number is a text ("nan", "inf", "-inf") if it is not finite.
    """

    t: float
    """Wall seconds since 1970 at which it was recorded."""
    m: float
    """Seconds of the monotonic clock of the boot `b`: when it was recorded, or, in a history, when
    the step ended.
    """
    b: str
    side: str
    """ "trainer", "orchestrator", or the name of an evaluation."""
    step: int
    attempt: int
    log_t: float
    """Wall seconds since 1970 of the log line."""
    at: StepPlace
    time_s: float | str
    """Seconds."""
    loss: float | str
    entropy: float | str
    mismatch_kl: float | str
    grad_norm: float | str
    lr: float | str
    throughput: float | str
    """Tokens per second."""
    mfu: float | str
    """Percent."""
    peak_mem_gib: float | str
    reward: float | str
    val: float | str
    """The result of a validation or an evaluation."""
    seq_len: float | str
    """Tokens of a sample."""
    async_level: float | str
    off_policy: float | str
    """Steps, as `async_level`."""
    trainable: float | str
    """Percent, as `truncation` and `error`."""
    truncation: float | str
    error: float | str
    wait_s: float | str
    """Seconds, a part of `time_s` as those that follow."""
    compute_s: float | str
    broadcast_s: float | str
    save_s: float | str
    policy_wait_s: float | str
    tool_calls: float | str
    not_finite: str
    """The name of a metric that is NaN."""
