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
    """The state of a GPU's PCIe link in a telemetry record. None means not known."""

    gen: int | None
    """The PCIe generation that the link uses now."""
    gen_max: int | None
    """The PCIe generation that it could use."""
    width: int | None
    """The number of lanes that the link uses now."""
    width_max: int | None
    """The number of lanes that it could use."""
    tx: int | None
    """KB/s that the GPU sends."""
    rx: int | None
    """KB/s that the GPU receives."""


class Nvlink(TypedDict, total=False):
    """The state of a GPU's NVLinks in a telemetry record."""

    active: int
    """How many links are up."""
    links: int
    """How many links there are."""
    errors: int | None
    """The number of errors on all links since the driver was loaded, or None."""


class GpuProcess(TypedDict, total=False):
    """A process that holds memory of a GPU, in a telemetry record."""

    pid: int
    mem: int | None
    """Bytes of the GPU's memory."""
    visible: bool
    """True if the agent sees that the process has the GPU open."""
    run: str | None
    """The run to which the process belongs, or None."""
    component: str | None
    """The process's part in the run, for example "engine"."""


class Device(TypedDict, total=False):
    """What a telemetry record says of one GPU. A value is None if it is not known."""

    index: int
    minor: int | None
    """The number N of /dev/nvidiaN. It is used to find the processes of the GPU and is left out of
    records.
    """
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
    """The driver's message about a GPU that it cannot reach, or None."""
    remap: str
    """The state of the replacement of bad memory rows: "pending" or "failed"."""
    recovery: str
    """The recovery that the driver asks for, such as "reset"."""
    procs: Sequence[GpuProcess]
    unaccounted: int | None
    """Bytes of memory in use that belong to none of the listed processes."""
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
    """What a telemetry record says of all GPUs of a pod. `state` is "ok", "absent", "error", or
    "stale" if the driver has not answered for over 5 seconds.
    """

    state: GpuState
    detail: str
    """Why the state is not "ok", or ""."""
    age_s: float | None
    """How many seconds ago the GPUs were read, or None if they were never read."""
    driver: str | None
    """The driver's version."""
    pids: str
    """Whether the driver's pids are those of the pod: "local", "foreign" or "unknown"."""
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
    """The busy share of all cores in percent, 0 to 100."""
    cores: float
    """The number of CPU cores."""
    load1: float
    """The load average of the last minute."""
    mem_used: int | None
    """Bytes."""
    mem_total: int | None
    """Bytes."""
    shm_used: int | None
    """Bytes of shared memory (/dev/shm)."""
    shm_total: int | None
    """Bytes."""
    disks: Sequence[DiskUsage]
    net: Net


class Process(TypedDict, total=False):
    """What a telemetry record says of one process of a run."""

    component: str | None
    """The process's part in the run, for example "engine", or None."""
    pid: int
    start_ticks: int
    """The start time in clock ticks since the boot."""
    cpu: float | None
    """Percent of one core, or None if not known."""
    rss: int | None
    """Bytes of main memory."""
    state: str
    """The state letter, as in /proc/PID/stat."""


class WatchedRun(TypedDict, total=False):
    """What a telemetry record says of one run: the processes of its newest attempt. `alive` is True
    if at least one of them has not ended.
    """

    run: str
    attempt: int
    alive: bool
    components: Sequence[Process]


class Telemetry(TypedDict, total=False):
    """One record of the telemetry stream, which says how busy a pod is at one moment."""

    t: float
    """Wall seconds since 1970."""
    m: float
    """Seconds of the monotonic clock of the machine's boot with the id `b`."""
    b: str
    """The id of the boot."""
    gpus: Gpus
    host: Host
    runs: Sequence[WatchedRun]
    coverage: Mapping[str, str]
    """What can be seen on this pod, by source, such as the kernel log."""


class StepPlace(TypedDict, total=False):
    """The place of the log line that reported a step: the stream that has the log, and the line's
    cursor (its position) in it.
    """

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
    """Seconds of the monotonic clock of the machine's boot with the id `b`: when it was recorded,
    or, in a history, when the step ended.
    """
    b: str
    """The id of the boot."""
    side: str
    """ "trainer", "orchestrator", or the name of an evaluation."""
    step: int
    attempt: int
    """The number of the attempt (the start of the run) that made the step."""
    log_t: float
    """Wall seconds since 1970 of the log line."""
    at: StepPlace
    """The place of the log line from which the step is known."""
    time_s: float | str
    """The duration of the step in seconds."""
    loss: float | str
    entropy: float | str
    mismatch_kl: float | str
    """The KL divergence between the policy that generates and the one that is trained."""
    grad_norm: float | str
    lr: float | str
    throughput: float | str
    """Tokens per second."""
    mfu: float | str
    """The model FLOPS utilization in percent."""
    peak_mem_gib: float | str
    reward: float | str
    val: float | str
    """The result of a validation or an evaluation, such as its mean reward."""
    seq_len: float | str
    """Tokens per sample."""
    async_level: float | str
    """By how many steps the orchestrator is ahead of the trainer."""
    off_policy: float | str
    """The largest number of steps by which a rollout is off-policy."""
    trainable: float | str
    """The percentage of rollouts from which the policy can learn."""
    truncation: float | str
    """The percentage of rollouts that were cut off."""
    error: float | str
    """The percentage of rollouts that ended with an error."""
    wait_s: float | str
    """The seconds of the step in which the trainer waited for rollouts."""
    compute_s: float | str
    """The seconds of the step in which the trainer computed."""
    broadcast_s: float | str
    """The seconds of the step in which the trainer sent weights."""
    save_s: float | str
    """The seconds of the step in which a checkpoint was saved."""
    policy_wait_s: float | str
    """The seconds of the step in which the orchestrator waited for a new policy."""
    tool_calls: float | str
    """The mean number of tool calls in a rollout."""
    not_finite: str
    """The name of a metric that is NaN, if there is one."""
