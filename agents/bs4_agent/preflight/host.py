"""Facts about a machine that somebody has set up by hand, before any config is chosen: its memory,
its disk, and whether torch can use its GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bs4_agent.containers.inside import Box
from bs4_agent.probes import cuda
from bs4_agent.probes.asking import Ask
from bs4_agent.telemetry.memory import MemoryMeter
from bs4_common.errors import AgentError
from bs4_common.files import disk_usage
from bs4_common.preflight import HostPart
from bs4_common.trainers import registry, verl_needs, verl_settings
from bs4_common.trainers.base import LaunchSpec
from bs4_common.trainers.settings import UNKNOWN_CONFIG

_CUDA_S = 90.0


def modules(trainer: object) -> list[str]:
    """Return the names of the Python modules that a check of the pod tries to import for the
    trainer with the id `trainer`. The list is empty if there is no trainer with this id.
    """
    if (known := registry.find(str(trainer))) is not None:
        return list(known.traits.modules)
    return []


def interpreter(cwd: Path, environment: Mapping[str, str], container: str = "") -> str:
    """Return the path of the Python interpreter that a launch of verl in `cwd` would use. For a
    launch in the container `container`, return the interpreter of that container; this may be just
    "python3", the one on its PATH.
    """
    return verl_needs.interpreter(
        LaunchSpec(
            run="preflight",
            trainer="verl",
            config=UNKNOWN_CONFIG,
            cwd=cwd,
            output_dir=cwd,
            env=environment,
            container=container,
        ),
        absolute=not container,
    )


def probe(
    cwd: Path, python: str, environment: Mapping[str, str], box: Box | None = None
) -> HostPart:
    """Return facts about the machine, or about the container `box`, that matter to a launch of verl
    in `cwd`.

    `python` is the interpreter whose torch is asked. With a `box`, the facts are the container's,
    and `container` is its name.
    """
    ask: Ask | None = None
    project: Path | None = cwd
    process = "self"
    if box is not None:
        process, ask, project = str(box.init), box.ask, box.view.inside(cwd)
    used, total = MemoryMeter(own=Path(f"/proc/{process}/cgroup")).used_and_total()
    known = verl_settings.version(cwd)
    try:
        torch = cuda.probe(python, _CUDA_S, environment, ask)
    except AgentError as error:
        torch = {"unknown": error.message}
    found: HostPart = {
        "memory": {"used": used, "total": total},
        "disk": disk_usage(cwd),
        "project": str(project) if project is not None and cwd.is_dir() else None,
        "verl": None if known is None else ".".join(map(str, known)),
        "cuda": torch,
    }
    if box is not None:
        found["container"] = box.name
    return found
