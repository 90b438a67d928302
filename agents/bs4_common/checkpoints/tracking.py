"""The ids of a run at W&B, in the form in which each generation takes them: as options in 2026-01,
as PRL_RUN_ID in the current generation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from bs4_common.trainers import registry, settings
from bs4_common.trainers.base import LaunchSpec

SIDES = ("trainer", "orchestrator")
_VARIABLE = "PRL_RUN_ID"


def given(spec: LaunchSpec) -> dict[str, str]:
    """Return {side: W&B run id} for the ids that the options or environment of `spec` give the run.
    The sides are "trainer" and "orchestrator". Ids in the config file are not included, because the
    config is saved anyway.

    For a run that is tracked offline or has only just begun, these ids are recorded nowhere else.
    """
    if not registry.get(spec.trainer).traits.ids_as_options:
        identity = spec.env.get(_VARIABLE)
        if identity:
            return dict.fromkeys(SIDES, identity)
        return {}
    words = settings.parse_arguments(spec.overrides)
    found = {}
    for side in SIDES:
        if identity := words.last(f"{side}.wandb.id"):
            found[side] = str(identity)
    return found


def untracked(spec: LaunchSpec) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return (options, environment variables) of `spec` without the W&B ids that `given(spec)`
    returns. The ids of a verl run stay in the options, because no other record has them.
    """
    words = settings.without(spec.overrides, [f"{side}.wandb.id" for side in SIDES])
    return tuple(words), {name: value for name, value in spec.env.items() if name != _VARIABLE}


def with_tracking(spec: LaunchSpec, wandb: Mapping[str, str]) -> LaunchSpec:
    """Return a copy of `spec` that starts the run with the W&B ids in `wandb` ({side: id}, with the
    sides "trainer" and "orchestrator"), as options or an environment variable, depending on the
    version of the trainer. An id that the config or the options already set is left as it is.
    """
    if not registry.get(spec.trainer).traits.ids_as_options:
        identity = next((wandb[side] for side in SIDES if wandb.get(side)), "")
        if identity:
            return dataclasses.replace(spec, env={_VARIABLE: identity, **spec.env})
        return spec
    current = settings.settings_of(spec, watching=True)
    words = list(spec.overrides)
    for side in SIDES:
        if wandb.get(side) and current.get(f"{side}.wandb.id") is None:
            words += [f"--{side}.wandb.id", wandb[side]]
    return dataclasses.replace(spec, overrides=tuple(words))
