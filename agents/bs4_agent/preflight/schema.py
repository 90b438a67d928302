"""Checks a config with the trainer's own config classes before anything is started. The config is
on the pod or is sent to it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from bs4_agent.preflight import stack
from bs4_agent.probes import classes
from bs4_common.errors import AgentError, BadRequest
from bs4_common.preflight import ClassesPart, SchemaBody
from bs4_common.trainers import registry
from bs4_common.trainers.base import LaunchSpec

#: Importing the classes of 2026-01 imports torch, which takes up to a minute on a cold network
#: disk.
SCHEMA_S = 90.0


def of_launch(spec: LaunchSpec, environment: Mapping[str, str]) -> ClassesPart:
    """Check the config of a launch with the trainer's own config class, and return the answer of
    `probes.classes.probe`: whether the config is valid, with its errors, or why that is unknown,
    for example because the classes lie in a container. The command line is the one that a launch of
    `spec` would have. If no launch is possible, only its config and options are checked.
    """
    if spec.container:
        return {
            "unknown": (
                f"The trainer's own classes lie in container {spec.container}, where they are "
                "not asked."
            )
        }
    try:
        argv = registry.get(spec.trainer).command(spec)
        words = argv[argv.index("-m") + 2 :] if "-m" in argv[:7] else argv[3:]
    except AgentError:
        words = ["@", str(spec.config), *spec.overrides]
    return _ask(spec.cwd, spec.trainer, spec.component, _apart(words, spec.cwd), environment)


def of_files(body: SchemaBody, cwd: Path, environment: Mapping[str, str]) -> ClassesPart:
    """Check config files that are not on the pod with the trainer's own config class, and return
    the answer of `probes.classes.probe`. `files` in `body` is [[path, text]]: the config first,
    then the files that it includes.

    The files are written to a temporary directory with the same relative positions, and deleted
    afterwards. Raises BadRequest if `files` or `overrides` is malformed.
    """
    files, words = body.get("files"), body.get("overrides") or []
    if (
        not isinstance(files, list)
        or not files
        or not all(isinstance(row, list) and len(row) == 2 for row in files)
    ):
        raise BadRequest("`files` is a list of [path, text], the config first.")
    if not isinstance(words, list):
        raise BadRequest("`overrides` is a list of words.")
    with tempfile.TemporaryDirectory(prefix="bs4-config-") as directory:
        places = []
        for name, text in files:
            places.append(_put(Path(directory), str(name), str(text)))
        return _ask(
            cwd,
            str(body.get("trainer")),
            str(body.get("component") or "rl"),
            _apart(["@", str(places[0]), *map(str, words)], cwd),
            environment,
        )


def _ask(
    cwd: Path, trainer: str, component: str, words: Sequence[str], environment: Mapping[str, str]
) -> ClassesPart:
    """Return the answer of the config classes, or {"unknown": why} if there is no training
    environment.
    """
    python = stack.python_of(cwd)
    if python is None:
        return {"unknown": f"There is no training environment in {cwd}, nor above it."}
    found = classes.probe(str(python), trainer, component, words, SCHEMA_S, environment)
    return cast(ClassesPart, found)


def _put(root: Path, name: str, text: str) -> Path:
    """Write the file below `root`, whatever its name says: an absolute path or `..` of another
    machine cannot lead outside. Return its path.
    """
    place = root.joinpath(*(part for part in Path(name).parts if part not in ("/", "..", ".")))
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")
    return place


def _apart(words: Sequence[str], cwd: Path) -> list[str]:
    """Return the words of a command line for a process that runs in another directory: files by
    absolute paths, and an output directory of its own.
    """
    apart = list(words)
    for at in range(1, len(apart)):
        if apart[at - 1] == "@":
            apart[at] = str(cwd / apart[at])
        elif apart[at - 1] == "--output-dir":
            apart[at] = "outputs"
    return apart
