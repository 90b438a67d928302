"""Of the config: what lint says of the file as it lies on the pod, with what the pod adds to it."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bs4_console.core.configs.lint import lint
from bs4_console.core.configs.view import Given
from bs4_console.core.errors import ConsoleError
from bs4_console.core.preflight_check import Check, Subject, Wanted, rows, said

_CONFIG: Subject = ("config-rejected", "config")


def judge(files: Sequence[tuple[str, str]], wanted: Wanted, pod: Mapping[str, Any] | None, run: Mapping[str, Any] | None) -> list[Check]:
    """`files`: (path on the pod, text), the config first. Empty: it could not be read, and the launch says why."""
    if wanted.component != "rl":
        return [said(_CONFIG, "unknown", f"Lint knows whole configs, not that of an {wanted.component} by itself.")]
    if not files:
        return [said(_CONFIG, "unknown", "The config could not be read.")]
    with tempfile.TemporaryDirectory(prefix="bs4-preflight-") as directory:
        try:
            found = lint(_lay_out(files, Path(directory)), wanted.trainer, _given(wanted, pod or {}, run or {}))
        except ConsoleError as error:
            return [said(_CONFIG, "blocking", error.message, error.next_step)]
    name = Path(files[0][0]).name
    checks = [
        said((item.id, f"{name}, line {item.line}"), "blocking" if item.level == "error" else "warning", item.message, item.fix)
        for item in found
    ]
    if not any(check.state == "blocking" for check in checks):
        checks.insert(0, said(_CONFIG, "ok", f"{name} passes lint for {wanted.trainer} ({len(found)} warnings)."))
    return checks


def _lay_out(files: Sequence[tuple[str, str]], root: Path) -> Path:
    """The files as they lie to each other on the pod, below `root`: a path of the pod never leaves that."""
    places = []
    for name, text in files:
        parts = [part for part in Path(name).parts if part not in ("/", "..", ".")]
        place = root.joinpath(*parts)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        places.append(place)
    return places[0]


def _given(wanted: Wanted, pod: Mapping[str, Any], run: Mapping[str, Any]) -> Given:
    """What the pod adds to the file. Whether environments are installed is not among it: they are imported, which says more."""
    gpus = pod.get("gpus")
    count = len(rows(gpus.get("devices"))) if isinstance(gpus, Mapping) and gpus.get("state") == "ok" else None
    environment = pod.get("environment")
    names = {k: v for k, v in environment.items() if isinstance(v, str)} if isinstance(environment, Mapping) else {}
    command = str(run.get("command") or shlex.join(["uv", "run", "rl", "@", wanted.config, *wanted.overrides]))
    return Given(launch=" ".join([*(f"{k}={shlex.quote(v)}" for k, v in names.items()), command]), gpus=count)
