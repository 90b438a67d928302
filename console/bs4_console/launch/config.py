"""Fills in what a launch leaves open from the config file on the pod: which trainer the config is
for, which component it starts, and the trainer's directory.

Only verl is recognised by the config's keys, which are Hydra overrides. No config tells which
version of prime-rl is installed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace

from bs4_common.trainers.verl_settings import component_of
from bs4_console.errors import RemoteError, UsageError
from bs4_console.launch.guide import LaunchRequest, asked_again
from bs4_console.pods.session import PodSession
from bs4_console.trainers import registry


async def resolved(
    live: PodSession, asked: LaunchRequest, *, setup: bool = False, otherwise: str = ""
) -> LaunchRequest:
    """Return a copy of the launch request `asked` in which the trainer, the component (the program
    to start: rl or sft) and the working directory are filled in, as the config that the request
    names on the pod shows them.

    With `setup` (the pod is only made ready), no config is read for a request that names its
    trainer, because the config need not exist yet: the component is then "rl" and the directory the
    trainer's usual one if the request does not name them. `otherwise` is the trainer to use if the
    config can be read and does not show one; "" means none. Raises UsageError if no trainer can be
    determined, or if the config belongs to verl and the request names another trainer.
    """
    given = asked
    if asked.trainer and not asked.cwd:
        given = replace(asked, cwd=registry.of(asked.trainer).home)
    if asked.trainer and not asked.component:
        given = replace(given, component="rl")
    if setup and asked.trainer:
        return given
    places, read = [given.cwd] if given.cwd else registry.homes(), False
    for cwd in places:
        text = await _text(live, asked.config, cwd)
        if text is None:
            continue
        read = True
        found = told(text)
        if found is None:
            break
        trainer, component = found
        if asked.trainer not in ("", trainer):
            raise UsageError(
                f"{asked.config} is a config of {trainer}, not of {asked.trainer}.",
                f"Name {trainer} as its trainer, or leave the trainer out.",
            )
        # A component that a person named is kept. The agent says if it does not fit the config.
        return replace(asked, trainer=trainer, cwd=cwd, component=asked.component or component)
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
            f"Give --trainer {' or '.join(registry.TRAINERS)}.",
        )
    return replace(
        asked,
        trainer=otherwise,
        cwd=asked.cwd or registry.of(otherwise).home,
        component=asked.component or "rl",
    )


def told(text: str) -> tuple[str, str] | None:
    """Find out for which program a config was written. `text` is the content of the config. Return
    (id of the trainer, program), for example ("verl", "rl"). The program is "rl" or "sft".
    Return None if the text is not TOML, or if its keys do not show the trainer.
    """
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None  # the look before the start says what is wrong with it, and where
    keys = list(_keys(data, ""))
    for trainer, known in registry.TRAINERS.items():
        for key in keys:
            section, _, name = key.partition(".")
            if name and known.keys & {f"{section}.", f"{section}.{name.lstrip('+')}"}:
                return trainer, component_of(keys) or "rl"
    return None


def _keys(value: object, prefix: str) -> Iterator[str]:
    """Yield the dotted key of each value in nested tables. `prefix` is that of `value` and a
    point, or "" for the whole.
    """
    if not isinstance(value, Mapping):
        yield prefix.removesuffix(".")
        return
    for key, inner in value.items():
        yield from _keys(inner, f"{prefix}{key}.")


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
