"""Fills in what a launch leaves open from the config file on the pod: which trainer the config is
for, which component it starts, and the trainer's directory.

Only verl is recognised by the config's keys, which are Hydra overrides. No config tells which
version of prime-rl is installed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from bs4_common.trainers.verl_settings import component_of
from bs4_console.errors import RemoteError, UsageError
from bs4_console.launch.guide import HOMES, TRAINERS, LaunchRequest, asked_again
from bs4_console.pods.session import PodSession
from bs4_console.preflight.checks import VERL

#: Keys of [trainer] that occur in verl's configs (RL or SFT) and in none of prime-rl.
_OWN = frozenset(
    {
        "critic_warmup",
        "default_local_dir",
        "experiment_name",
        "logger",
        "n_gpus_per_node",
        "nnodes",
        "project_name",
        "resume_mode",
        "save_freq",
        "test_freq",
        "total_epochs",
        "total_training_steps",
        "val_before_train",
    }
)


async def resolved(
    live: PodSession, asked: LaunchRequest, *, setup: bool = False, otherwise: str = ""
) -> LaunchRequest:
    """Return the launch request with its trainer, component (rl or sft) and working directory
    filled in, as the config that the request names on the pod shows them.

    With `setup`, a request that names its trainer is accepted without reading a config, which need
    not exist yet. `otherwise` is the trainer to use if the config can be read and does not show
    one; "" means none. Raises UsageError if no trainer can be determined, or if the config belongs
    to verl and the request names another trainer.
    """
    given = replace(asked, cwd=asked.cwd or HOMES.get(asked.trainer, ""))
    if asked.trainer and not asked.component:
        given = replace(given, component="rl")
    if setup and asked.trainer:
        return given
    places, read = [given.cwd] if given.cwd else list(dict.fromkeys(HOMES.values())), False
    for cwd in places:
        text = await _text(live, asked.config, cwd)
        if text is None:
            continue
        read = True
        component = of_verl(text)
        if component is None:
            break
        if asked.trainer not in ("", VERL):
            raise UsageError(
                f"{asked.config} is a config of verl, not of {asked.trainer}.",
                "Name verl as its trainer, or leave the trainer out.",
            )
        # A component that a person named is kept. The agent says if it does not fit the config.
        return replace(asked, trainer=VERL, cwd=cwd, component=asked.component or component)
    if asked.trainer:
        return given
    if not read:
        absolute = asked.config.startswith(("/", "~"))
        where = "" if absolute else f" in {' or '.join(places)}"
        raise UsageError(
            f"{asked.config} cannot be read{where}, so it does not tell which trainer it is for.",
            "Name a config that is on the pod, and the directory of the trainer when it is "
            "another.",
        )
    if not otherwise:
        raise UsageError(
            f"{asked.config} does not tell which trainer it is for.",
            f"Give --trainer {' or '.join(TRAINERS)}.",
        )
    return replace(
        asked,
        trainer=otherwise,
        cwd=asked.cwd or HOMES[otherwise],
        component=asked.component or "rl",
    )


def of_verl(text: str) -> str | None:
    """Return which program of verl the config with this text is for, "rl" or "sft". Return None if
    it is not a config of verl.
    """
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None  # the look before the start says what is wrong with it, and where
    keys = list(_keys(data, ""))
    for key in keys:
        section, _, name = key.partition(".")
        of_trainer = section == "trainer" and name.lstrip("+") in _OWN
        if of_trainer or key.startswith("actor_rollout_ref."):
            return component_of(keys) or "rl"
    return None


def _keys(table: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """Yield the dotted key of each value in nested tables."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _keys(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


async def _text(live: PodSession, config: str, cwd: str) -> str | None:
    """Return the text of the config on the pod, or None if it cannot be read. The preflight says
    more about a config that cannot be read.
    """
    try:
        answer = await asked_again(
            live, lambda: live.query("preflight", "config", config=config, cwd=cwd)
        )
    except RemoteError as error:
        if error.type != "bad-config":
            raise
        return None
    match answer.get("files"):
        case [[_, text], *_]:
            return str(text)
    return None
