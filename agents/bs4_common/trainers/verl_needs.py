"""What a start of verl needs, for the check before it: GPUs, engine, model, W&B, and how often and
how much it saves.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from bs4_common.programs import which
from bs4_common.trainers import verl_settings
from bs4_common.trainers.base import LaunchSpec
from bs4_common.trainers.settings import FlatSettings

if TYPE_CHECKING:
    from bs4_common.trainers.base import Needs

#: Bytes on disk for each parameter: weights and Adam's two moments in 32 bits. For an adapter only
#: the frozen weights count.
_FULL, _ADAPTER = 12.0, 4.0
#: The default of ppo_trainer.yaml.
_GPUS = 8


def needs(spec: LaunchSpec, environment: Mapping[str, str]) -> Needs:
    """Return those settings of a verl run that the check before a start must know, such as the
    number of GPUs, under the names that this check has for them (see
    `trainers.base.Trainer.needs`). `environment` are the environment variables, by name, that the
    run gets in addition to the agent's.
    """
    known = verl_settings.flat(spec)
    rl = spec.component == "rl"
    gpus, engine, keep = ranks(spec), None, "trainer.max_ckpt_to_keep"
    if rl:
        gpus = known.integer("trainer.n_gpus_per_node") or _GPUS
        engine = known.text("actor_rollout_ref.rollout.name") or "vllm"
        keep = "trainer.max_actor_ckpt_to_keep"
    return {
        "python": interpreter(spec, absolute=not spec.container),
        "modules": ["verl"],
        "keep_last": known.integer(keep),
        "interval": _frequency(known),
        "max_steps": known.integer("trainer.total_training_steps"),
        "wandb": "wandb" in verl_settings.loggers(known, verl_settings.version(spec.cwd))
        and environment.get("WANDB_MODE") != "offline",
        "model": verl_settings.model(known),
        "gpu_ids": list(range(gpus)),
        "engine": engine,
        "serves_itself": rl,
        "bytes_each": _ADAPTER if verl_settings.adapter(known) else _FULL,
    }


def ranks(spec: LaunchSpec) -> int:
    """Return the number of processes of an SFT run: `spec.processes` if that is above 1, or else
    one for each GPU that the settings name, or else 1.
    """
    if spec.processes > 1:
        return spec.processes
    return verl_settings.flat(spec).integer("trainer.n_gpus_per_node") or spec.processes


def interpreter(spec: LaunchSpec, *, absolute: bool = False) -> str:
    """Return the path of the Python that runs verl. It is in the environment that VIRTUAL_ENV in
    the spec names, or else in `.venv` in the run's directory. If there is neither, it is the Python
    on the PATH, returned as "python3", or with `absolute` as its full path.

    For a run in a container, the link to an interpreter need not resolve on the host, because its
    target may be only in the container.
    """
    places = [spec.cwd / ".venv"]
    if "VIRTUAL_ENV" in spec.env:
        places.insert(0, Path(spec.env["VIRTUAL_ENV"]))
    for place in places:
        path = place / "bin" / "python3"
        if path.exists() or (spec.container and path.is_symlink()):
            return str(path)
    if not absolute:
        return "python3"
    searched = spec.env.get("PATH", os.environ.get("PATH", os.defpath))
    return which("python3", searched) or "python3"


def _frequency(known: FlatSettings) -> int | None:
    """Return the number of steps between checkpoints, or None if none are saved."""
    often = known.integer("trainer.save_freq")
    if often is not None and often > 0:
        return often
    return None
