"""The steps that wait: wait_gpu_free until no process without a live run holds GPU memory,
wait_until until a condition of the machine holds, and probe until a component of the run answers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bs4_agent.playbooks.pod_actions import Context, Planned, Stepping, Target
from bs4_common.checkpoints.inventory import nearest, one_on_each_disk, written_by
from bs4_common.errors import StepFailed
from bs4_common.failures.compiled import StepSettings
from bs4_common.failures.detectors.reporting import size

#: Seconds to wait. The driver frees memory within a second of the holder's end; memory that stays
#: longer needs a reset, which a tenant cannot do.
LIMIT_S = 60.0
#: Seconds between two polls.
_POLL_S = 0.5
#: Seconds between two messages about what is in the way.
_SAY_S = 30.0


class WaitGpuFree(Stepping):
    """The step of a playbook that waits until all GPUs that no living run uses have given back
    their memory. After 60 seconds the step fails.
    """

    def plan(self, context: Context, parameters: StepSettings) -> Planned:
        """Return the planned wait. `parameters["below_mb"]` is the used memory in MB (default 1000)
        below which a GPU counts as free.
        """
        limit = int(parameters.get("below_mb", 1000))
        return Planned(
            "wait_gpu_free",
            f"Wait until every free GPU uses less than {limit} MB",
            "",
            {"below_mb": limit},
            [],
            {},
        )

    def done(self, context: Context, planned: Planned) -> bool:
        """Return True if nothing has to be waited for. That is so if the pod has no GPU. It is also
        so if no process of an ended attempt uses a GPU, and every GPU without a living run uses
        less memory than the limit of the step `planned`.
        """
        gpus = context.pod_actions.gpu_facts()
        if gpus.state != "ok":
            return gpus.state == "absent"
        limit, used = planned.parameters["below_mb"] * 1_000_000, dict(gpus.used)
        for holder in gpus.holders:
            if holder.run is not None:
                used.pop(holder.gpu, None)
            elif holder.dead_run is not None:
                return False
        return all(amount < limit for amount in used.values())

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Target],
        say: Callable[[str], None],
    ) -> str:
        """Poll the GPUs until they are free, and return a sentence about it. `planned` is the step,
        `targets` is not used, and `say` is not called. Raises StepFailed if they are not free
        within 60 seconds.
        """
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            if self.done(context, planned):
                return "GPU memory is free"
            context.pause(_POLL_S)
        raise StepFailed(
            f"GPU memory is still in use {LIMIT_S:.0f} s after its holders ended. Only the "
            "provider can reset the GPU: release this pod."
        )


_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_NEXT = {
    "disk-free": (
        "Free space there, old steps that are in the object store first (`bs4-console checkpoints "
        "list` shows them), then try again."
    ),
    "port-free": "See who holds it with `ss -ltnp`, then try again.",
    "server-ready": "Read the inference log.",
}


class WaitUntil(Stepping):
    """The step of a playbook that waits until the condition holds that its parameter `condition`
    names. `disk-free`: of each file system that the run writes to, less than `percent` percent is
    used. `port-free`: no process listens on a port of the run. `server-ready`: the run's inference
    server answers GET /health with HTTP status 200.
    """

    def plan(self, context: Context, parameters: StepSettings) -> Planned:
        """Return the planned wait. In `parameters`, `condition` is "disk-free", "port-free" or
        "server-ready"; `within` is the longest wait, as a number of seconds or a text such as "5m",
        the default; and `percent` (default 85) is the limit for "disk-free".
        """
        condition = parameters["condition"]
        percent = int(parameters.get("percent", 85))
        within = seconds(parameters.get("within", "5m"))
        return Planned(
            "wait_until",
            f"Wait until {_words(context, condition, percent)} (at most {within:.0f} s)",
            "",
            {"condition": condition, "percent": percent, "within": within},
            [],
            {},
        )

    def done(self, context: Context, planned: Planned) -> bool:
        """Return True if the condition of the step `planned` holds at this moment."""
        return _holds(context, planned.parameters["condition"], planned.parameters["percent"])

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Target],
        say: Callable[[str], None],
    ) -> str:
        """Poll until the condition of the step `planned` holds, and return a sentence about it.
        `targets` is not used. While a disk is full, `say` is called every 30 seconds with how full
        it is. Raises StepFailed if the condition does not hold within the planned number of
        seconds.
        """
        within, condition = planned.parameters["within"], planned.parameters["condition"]
        percent = planned.parameters["percent"]
        wanted = _words(context, condition, percent)
        lack = ""
        due = time.monotonic()
        deadline = due + within
        while time.monotonic() < deadline:
            if self.done(context, planned):
                return wanted
            if condition == "disk-free" and time.monotonic() >= due:
                due = time.monotonic() + _SAY_S
                lack = _lack(context, percent)
                say(lack)
            context.pause(_POLL_S)
        said = [f"It did not come about within {within:.0f} s that {wanted}."]
        if lack:
            said.append(_lack(context, percent))
        said.append(_NEXT[condition])
        raise StepFailed(" ".join(said))


def _lack(context: Context, percent: int) -> str:
    """Return which file systems of the run are too full, how much is free on each and how much more
    has to be freed, in one sentence for each.
    """
    said = []
    for place in _disks(context):
        used = used_percent(place)
        if used < percent:
            continue
        status = os.statvfs(place)
        free = status.f_bavail * status.f_frsize
        room = (status.f_blocks - status.f_bfree + status.f_bavail) * status.f_frsize
        more = room * (used - percent) / 100
        said.append(
            f"{mount_of(place)} is {used:.0f} % full: {size(free)} are free, and {size(more)} more "
            "must be freed."
        )
    return " ".join(said)


def _disks(context: Context) -> list[Path]:
    """Return one directory on each file system that the run writes to."""
    return [*one_on_each_disk(written_by(context.facts().layout)).values()]


def mount_of(place: Path) -> Path:
    """Return where the file system is mounted on which `place` lies."""
    real = place.resolve()
    return next(above for above in (real, *real.parents) if os.path.ismount(above))


def _words(context: Context, condition: str, percent: int) -> str:
    """Return the condition in words."""
    mounts = ""
    if condition == "disk-free":
        mounts = " and of ".join(str(mount_of(place)) for place in _disks(context))
    return {
        "disk-free": f"less than {percent} % of {mounts} is used",
        "port-free": "the run's ports are free",
        "server-ready": "the inference server is ready",
    }[condition]


def _holds(context: Context, condition: str, percent: int) -> bool:
    """Return True if the condition holds now."""
    if condition == "port-free":
        return not context.pod_actions.port_holders(context.run)
    if condition == "server-ready":
        return context.pod_actions.server_answers(context.run)
    return all(used_percent(place) < percent for place in _disks(context))


def used_percent(path: Path) -> float:
    """Return how full the file system with `path` is for an ordinary user, in percent, as `df`
    shows it. If `path` does not exist, the nearest existing directory above it is used.
    """
    status = os.statvfs(nearest(path))
    used = status.f_blocks - status.f_bfree
    return 100.0 * used / max(1, used + status.f_bavail)


def seconds(text: Any) -> float:
    """Return a duration in seconds. A text like "90s", "10m" or "2h" is converted; a number is in
    seconds already. Raises ValueError or KeyError for a text of another form.
    """
    if isinstance(text, (int, float)):
        return float(text)
    return float(text[:-1]) * _SECONDS[text[-1]]


class Probe(Stepping):
    """The step of a playbook that checks that a component of the run answers. The only component is
    `server`: GET /health of the run's inference server must answer with HTTP status 200. The check
    is always made anew, because an earlier answer proves nothing about the present.
    """

    def plan(self, context: Context, parameters: StepSettings) -> Planned:
        """Return the planned check; every run gets it. In `parameters`, `what` is the component to
        check ("server"), and `within` is the longest time to poll it, as a number of seconds or a
        text such as "60s", the default.
        """
        return Planned(
            "probe",
            f"Ask the inference server of {context.run} whether it is well",
            "",
            {"what": parameters["what"], "within": seconds(parameters.get("within", "60s"))},
            [],
            {},
        )

    def done(self, context: Context, planned: Planned) -> bool:
        """Return False always, so that the check is made anew. `planned` is the step."""
        return False

    def act(
        self,
        context: Context,
        planned: Planned,
        targets: Sequence[Target],
        say: Callable[[str], None],
    ) -> str:
        """Poll the server until it answers, and return "it answers". `planned` is the step,
        `targets` is not used, and `say` is not called. Raises StepFailed if the server does not
        answer within the planned number of seconds.
        """
        deadline = time.monotonic() + planned.parameters["within"]
        while not context.pod_actions.server_answers(context.run):
            if time.monotonic() > deadline:
                raise StepFailed(
                    f"The inference server of {context.run} does not answer; read its log."
                )
            context.pause(_POLL_S)
        return "it answers"
