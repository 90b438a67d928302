"""Judge the pod itself: its GPUs and who holds them, its limits, its shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from bs4_common.preflight import (
    FileLimits,
    GpuHolder,
    GpuPart,
    GpuUse,
    PodPart,
    StartPart,
    Unknown,
)
from bs4_common.telemetry import DiskUsage
from bs4_console.preflight.checks import (
    GIB,
    Check,
    State,
    Wanted,
    gib,
    said,
    space,
    unseen,
    within,
)

_GPUS = ("cuda-driver-missing", "GPUs")
_HEALTH = ("gpu-off-bus", "GPU health")
_FREE = ("stale-gpu-process", "GPU memory")
_IDLE = ("idle-gpus", "idle GPUs")
_FILES = ("fd-limit-low", "open files")
_SHARED = ("dev-shm-full", "shared memory")
_BOX = ("container", "container")

#: Bytes that may be in use on an idle GPU; the driver's own share is a few hundred MB. The playbook
#: stale-gpu-process has the same number.
IDLE_BYTES = 1_000_000_000
#: Open files that vLLM asks for. It raises its own soft limit as far as the hard limit allows.
FILES = 65536
FEWEST_FILES = 1024
#: Bytes of /dev/shm that should and that must be free. Docker gives 64 MiB by default; NCCL and
#: vLLM's workers pass tensors through it.
SHARED_BYTES, SHARED_LEAST = 1 * GIB, 128 * 1024 * 1024


def judge(pod: PodPart | None, run: StartPart | None, wanted: Wanted) -> list[Check]:
    """Return the checks of the pod: its GPUs, its limit of open files, its shared memory and its
    container. `pod` is the part of the agent's answer about the pod; if it is None, the checks are
    "unknown". `run` is the part about the start, or None if no start is judged. `wanted` is the
    start.
    """
    subjects = [_GPUS, _HEALTH, _FREE, _FILES, _SHARED]
    if wanted.container:
        subjects.append(_BOX)
    if (blind := unseen(subjects, pod)) is not None:
        return blind
    found: PodPart = pod or {}
    box = found.get("container")
    checks = _gpus(found.get("gpus", {}), run or {}, wanted)
    checks += within([_nofile(found.get("nofile") or {}, wanted), _shm(found.get("shm"))], box)
    if wanted.container:
        checks.append(_box(box, wanted))
    return checks


def _box(answer: str | Unknown | None, wanted: Wanted) -> Check:
    """Return the check that says which facts come from the container and which from the machine."""
    if answer != wanted.container:
        why = ""
        if answer is not None and not isinstance(answer, str):
            why = answer.get("unknown", "")
        return said(
            _BOX,
            "unknown",
            why
            or f"The agent is older than this console, and has not looked into {wanted.container}.",
        )
    inside = "Python's environment, hub and W&B credentials, open files and /dev/shm"
    return said(
        _BOX,
        "ok",
        f"Asked in {wanted.container}: {inside}; on the machine: GPUs, driver, disks, ports, "
        "checkpoints and B2.",
    )


def _gpus(gpus: GpuPart, run: StartPart, wanted: Wanted) -> list[Check]:
    devices, state = gpus.get("devices", ()), gpus.get("state")
    detail = gpus.get("detail", "")
    if state != "ok":
        word: State = "blocking"
        if state == "stale":
            word = "unknown"
        return [
            said(
                _GPUS,
                word,
                f"The driver shows no GPU ({state}{': ' + detail if detail else ''}).",
                "Run `timeout 10 nvidia-smi` on the pod; when it hangs or lists none, release the "
                "pod.",
            ),
            said(_FREE, "unknown", "The GPUs cannot be asked."),
        ]
    broken = [row for row in devices if row.get("error")]
    checks = [said(_GPUS, "ok", f"{len(devices)} GPUs, driver {gpus.get('driver') or 'unknown'}.")]
    if broken:
        text = "; ".join(f"GPU {row.get('index')}: {row['error']}" for row in broken)
        checks.append(said(_HEALTH, "blocking", text, "Release the pod and take another."))
    else:
        checks.append(said(_HEALTH, "ok", "The driver reports no lost GPU."))
    return [*checks, _free(gpus, devices, run, wanted), *_idle(devices, run, wanted)]


def _idle(devices: Sequence[GpuUse], run: StartPart, wanted: Wanted) -> list[Check]:
    """Return the check whether the start leaves GPUs of the pod without work, which are paid for
    all the same. GPUs that hold memory of somebody else count as used. The list is empty if the
    config does not say which GPUs it uses.
    """
    ids = run.get("gpu_ids")
    if not wanted.uses_gpus or ids is None or wanted.component != "rl":
        return []
    idle = []
    for row in devices:
        if row.get("index") not in ids and (row.get("used") or 0) <= IDLE_BYTES:
            idle.append(str(row.get("index")))
    if not idle:
        return [said(_IDLE, "ok", f"The run uses all {len(devices)} GPUs that are free.")]
    used = ", ".join(map(str, ids))
    return [
        said(
            _IDLE,
            "warning",
            f"GPU {', '.join(idle)} of {len(devices)} would have no work: the run uses {used}.",
            f"{wanted.of.use_more_gpus}, or rent a smaller pod.",
        )
    ]


def _free(gpus: GpuPart, devices: Sequence[GpuUse], run: StartPart, wanted: Wanted) -> Check:
    if not wanted.uses_gpus:
        return said(_FREE, "ok", f"An {wanted.component} by itself uses none.")
    ids = run.get("gpu_ids")
    count, unread, busy = 0, [], {}
    for row in devices:
        if ids is not None and row.get("index") not in ids:
            continue
        count += 1
        size = row.get("used")
        if size is None:
            unread.append(str(row.get("index")))
        elif size > IDLE_BYTES:
            busy[str(row.get("index"))] = size
    if not busy and unread:
        return said(_FREE, "unknown", f"The memory of GPU {', '.join(unread)} cannot be read.")
    if not busy:
        return said(_FREE, "ok", f"Less than 1 GB is in use on each of {count} GPUs.")
    holders = [row for row in gpus.get("holders", ()) if str(row.get("gpu")) in busy]
    used = ", ".join(f"GPU {index} {gib(size)}" for index, size in busy.items())
    if not holders:
        return said(
            _FREE,
            "blocking",
            f"In use: {used}, and no process that holds it can be seen from here.",
            "Look with `nvidia-smi` on the host; a pod whose GPUs are taken from outside is "
            "to be released.",
        )
    who = "; ".join(_holder(row) for row in holders[:4])
    apart = wanted.component != "rl" or run.get("serves_itself") is False
    if apart and all(row.get("run") for row in holders):
        return said(
            _FREE,
            "warning",
            f"In use: {used}. Held by {who}.",
            "Right when these are the other parts of this run, on GPUs of their own; else stop "
            "them first.",
        )
    return said(_FREE, "blocking", f"In use: {used}. Held by {who}.", _release(holders, wanted))


def _holder(row: GpuHolder) -> str:
    if row.get("run"):
        owner = f"of the running {row['run']}"
    elif row.get("dead_run"):
        owner = f"left behind by {row['dead_run']}"
    else:
        owner = "of no known run"
    return f"pid {row.get('pid')} on GPU {row.get('gpu')} ({owner}): {str(row.get('command'))[:80]}"


def _release(holders: Sequence[GpuHolder], wanted: Wanted) -> str:
    runs, strangers = set(), []
    for row in holders:
        owner = row.get("run") or row.get("dead_run")
        if owner:
            runs.add(owner)
        else:
            strangers.append(str(row.get("pid")))
    fixes = []
    for run in sorted(runs):
        fixes.append(f"{wanted.stop(run)} ends all of {run}.")
    if strangers:
        fixes.append(
            f"Find out whose pid {', '.join(strangers)} is (`ps -fp {','.join(strangers)}`) "
            "and end it, or use other GPUs."
        )
    return " ".join(fixes)


def _nofile(limits: FileLimits, wanted: Wanted) -> Check:
    soft, hard = limits.get("soft"), limits.get("hard")
    if soft is None or hard is None:
        return said(_FILES, "unknown", "The limits could not be read.")
    why = f"Soft limit {soft}, hard limit {hard}; vLLM wants {FILES}."
    if hard < FILES:
        return said(
            _FILES,
            "warning",
            f"{why} It cannot raise its own that far.",
            f"Give the pod more: `--ulimit nofile={FILES}:{FILES}`.",
        )
    if soft < FEWEST_FILES:
        return said(
            _FILES,
            "warning",
            why,
            f"Make the container with `docker run --ulimit nofile={FILES}:{FILES}`."
            if wanted.container
            else f"{wanted.setup()} orders {FILES} for every launch.",
        )
    return said(_FILES, "ok", why)


def _shm(usage: DiskUsage | None) -> Check:
    free, total = space(usage)
    if free is None or total is None:
        return said(_SHARED, "unknown", "Its filesystem does not answer.")
    why = f"{gib(free)} of {gib(total)} are free in /dev/shm."
    fix = (
        "See what is there: `ls -la /dev/shm`. Where it is too small, create the pod with "
        "`--shm-size=16g`."
    )
    if free < SHARED_LEAST:
        return said(_SHARED, "blocking", why, fix)
    return said(_SHARED, "warning" if free < SHARED_BYTES else "ok", why, fix)
