"""Judge a machine for verl before a config is chosen: the checkout, torch and the GPUs, the host's
memory, its disk.
"""

from __future__ import annotations

from collections.abc import Mapping

from bs4_common.preflight import HostPart, MemoryUse, StackPart, TorchPart
from bs4_common.telemetry import DiskUsage
from bs4_console.preflight.checks import (
    GIB,
    Check,
    Wanted,
    gib,
    said,
    space,
    unseen,
    within,
)

_PROJECT = ("path-drift", "project directory")
_CUDA = ("cuda-driver-missing", "torch and the GPUs")
_MEMORY = ("ray-low-memory", "host memory")
_DISK = ("disk-high", "disk")
_ENGINE = ("rollout-engine", "rollout engine")

#: The share of the host's memory in use at which Ray ends workers, and the share at which a start
#: is likely to get there.
RAY_ENDS, NEAR = 0.95, 0.80
#: A save of 1.5B parameters with Adam's moments takes 18 to 24 GB, one of 4B 50 to 64 GB, and verl
#: deletes none by itself.
LEAST_BYTES, GOOD_BYTES = 24e9, 128e9


def judge(host: HostPart | None, stack: StackPart | None, wanted: Wanted) -> list[Check]:
    """Return the checks of a machine for verl before a config is chosen: verl's checkout, torch and
    the GPUs, the rollout engine, and the host's memory and disk. `host` and `stack` are the parts
    of the agent's answer about the machine and about the installed libraries. None means that a
    part is missing; its checks are then "unknown". `wanted` names the trainer and the checkout's
    directory.
    """
    if (blind := unseen([_PROJECT, _CUDA, _MEMORY, _DISK], host)) is not None:
        return blind
    found: HostPart = host or {}
    installed: StackPart = stack or {}
    box = found.get("container")
    checks = within([_project(found, wanted), _cuda(found.get("cuda"))], box)
    checks += within(_engine(installed.get("versions", {})), installed.get("container"))
    checks += within([_memory(found.get("memory", {}))], box)
    return [*checks, _disk(found.get("disk"))]


def _engine(versions: Mapping[str, str | None]) -> list[Check]:
    """Return the check of the rollout engines. Without an engine no RL run can start; which engine
    a run uses its config says. Empty if the versions are unknown, which the stack's check reports.
    """
    if not versions:
        return []
    there = []
    for name in ("vllm", "sglang"):
        if versions.get(name):
            there.append(f"{name} {versions[name]}")
    if there:
        return [said(_ENGINE, "ok", f"{' and '.join(there)}.")]
    return [
        said(
            _ENGINE,
            "blocking",
            "Neither vllm nor sglang is installed; nothing can roll out.",
            "Install vllm into the environment that verl is started with, of a release that this "
            "torch is built for.",
        )
    ]


def _project(host: HostPart, wanted: Wanted) -> Check:
    if not host.get("project"):
        fix = (
            "Give --cwd the directory from which it is started, or sync the code there: "
            "`bs4-console pods sync --help`."
        )
        there = "mounted, or none on the pod" if wanted.container else "on the pod"
        return said(_PROJECT, "blocking", f"There is no directory {wanted.cwd} {there}.", fix)
    release = f", verl {host['verl']} is checked out there" if host.get("verl") else ""
    return said(_PROJECT, "ok", f"{host['project']} is there{release}.")


def _cuda(torch: TorchPart | None) -> Check:
    if torch is None:
        return said(_CUDA, "unknown", "The agent gave no answer.")
    if "unknown" in torch:
        return said(_CUDA, "unknown", torch["unknown"])
    if torch.get("error") or torch.get("available") is None:
        return said(
            _CUDA,
            "blocking",
            f"torch cannot be imported: {torch.get('error')}",
            "Install torch for this driver's CUDA into the environment that verl is started with.",
        )
    name = f"torch {torch.get('torch')} for CUDA {torch.get('cuda') or 'none'}"
    if not torch["available"]:
        return said(
            _CUDA,
            "blocking",
            f"{name} cannot use the GPUs (torch.cuda.is_available() is False).",
            "Install a torch that is built for CUDA, no newer than the driver (`nvidia-smi` "
            "shows which it takes).",
        )
    return said(_CUDA, "ok", f"{name} sees {torch.get('devices')} GPUs.")


def _memory(memory: MemoryUse) -> Check:
    used, total = memory.get("used"), memory.get("total")
    if used is None or not total:
        return said(_MEMORY, "unknown", "The host's memory cannot be read.")
    why = f"{gib(total - used)} of {gib(total)} are available."
    share = used / total
    if share < NEAR:
        return said(_MEMORY, "ok", why)
    return said(
        _MEMORY,
        "blocking" if share >= RAY_ENDS else "warning",
        f"{why} Ray ends workers at {RAY_ENDS:.0%} in use; now it is {share:.0%}.",
        "See who holds it: `ps aux --sort=-rss | head`; end what is left over, or take a machine "
        "with more.",
    )


def _disk(disk: DiskUsage | None) -> Check:
    free, total = space(disk)
    if disk is None or free is None or total is None:
        return said(_DISK, "unknown", "The disk of the project does not answer.")
    if disk.get("read_only"):
        return said(
            _DISK,
            "blocking",
            "The disk of the project is mounted read-only.",
            "Give --cwd a directory that can be written.",
        )
    why = f"{gib(free)} of {gib(total)} are free."
    if free >= GOOD_BYTES:
        return said(_DISK, "ok", why)
    return said(
        _DISK,
        "blocking" if free < LEAST_BYTES else "warning",
        f"{why} A checkpoint of 1.5B parameters takes 18 to 24 GB, of 4B 50 to 64 GB, and verl "
        "deletes none by itself.",
        f"Free space ({GOOD_BYTES / GIB:.0f} GiB are comfortable), and set "
        "trainer.max_actor_ckpt_to_keep.",
    )
