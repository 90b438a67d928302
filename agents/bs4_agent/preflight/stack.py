"""The training environment of a checkout: its interpreter, its versions, and whether the modules
that a run needs can be imported.

Both `look` functions start that interpreter, which takes from a tenth of a second to a minute. An
environment changes only if somebody installs into it, so answers are cached by its revision.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from bs4_agent.containers.inside import Box
from bs4_agent.preflight.commit import checked_out
from bs4_agent.probes import imports
from bs4_agent.probes import stack as versions
from bs4_common.digest import sha256
from bs4_common.preflight import StackPart

#: Seconds for which the result of an import is believed: it can change although nothing was
#: installed (an editable checkout was changed).
IMPORT_KEPT_S = 600.0
IMPORT_S = 90.0
_KEPT = 8

Key = TypeVar("Key")
Value = TypeVar("Value")
_lock = threading.Lock()
_versions: dict[str, dict[str, str | None]] = {}
_imports: dict[tuple[str, str], tuple[float, str | None]] = {}


def python_of(cwd: Path) -> Path | None:
    """Return the path of the interpreter that `uv run` uses in `cwd`, or None if no environment
    exists there yet.
    """
    places = [place / ".venv" for place in (cwd, *cwd.parents)]
    if named := os.environ.get("UV_PROJECT_ENVIRONMENT"):
        places = [cwd / named]
    for place, name in itertools.product(places, ("python3", "python")):
        if (place / "bin" / name).exists():
            return place / "bin" / name
    return None


def packages(python: Path) -> list[Path]:
    """Return the directories in which packages of the interpreter at the absolute path `python` are
    installed, sorted. The result is empty if there are none, or if the path is relative.
    """
    if not python.is_absolute():
        return []
    root = python.parent.parent
    found = list((root / "lib").glob("python3*/*-packages"))
    if root == Path("/usr"):
        # The interpreter of a Linux distribution keeps what pip installs in another directory.
        found += Path("/usr/local/lib").glob("python3*/*-packages")
    return sorted(found)


def revision(python: Path) -> str:
    """Return a digest that changes when something is installed into or removed from the
    interpreter's environment. It is made from the names and times of the entries of site-packages
    and from pyvenv.cfg.
    """
    root = python.parent.parent
    parts = [str(python)]
    for directory in packages(python):
        with os.scandir(directory) as entries:
            parts += sorted(
                f"{entry.name} {entry.stat(follow_symlinks=False).st_mtime_ns}" for entry in entries
            )
    try:
        parts.append(str((root / "pyvenv.cfg").stat().st_mtime_ns))
    except OSError:
        pass  # no virtual environment but a plain interpreter
    return sha256("\n".join(parts).encode()).hexdigest()


def probe(
    cwd: Path,
    modules: Sequence[str],
    environment: Mapping[str, str] | None = None,
    interpreter: str | None = None,
) -> StackPart:
    """Return what is installed in the Python environment of a launch in `cwd`, as a dictionary:
    `python` (the interpreter, None if there is no environment), `revision` (see the function of
    that name), `versions` of important packages, `imports` (the error of each module that cannot be
    imported), and `commit` (the checkout's commit, None if `cwd` is in no git checkout).

    `modules` are the modules that the run will import; `flash_attn` is added if it is installed.
    `environment` has the variables that a launch gets besides the agent's own. `interpreter` is the
    trainer's interpreter if `uv run` does not choose it. Raises StepFailed or OSError if the
    interpreter cannot be run.
    """
    python = python_of(cwd) if interpreter is None else Path(interpreter)
    if python is None:
        return {
            "python": None,
            "revision": "",
            "versions": {},
            "imports": {},
            "commit": checked_out(cwd),
        }
    at = revision(python)
    with _lock:
        known = _versions.get(at)
    if known is None:
        known = versions.probe(str(python), timeout=20.0)
    with _lock:
        _keep(_versions, at, known)
    found = _imported(
        at,
        _wanted(modules, known),
        cwd,
        environment,
        lambda left: imports.probe(str(python), left, IMPORT_S, str(cwd), environment),
    )
    return {
        "python": str(python),
        "revision": at[:16],
        "versions": known,
        "imports": found,
        "commit": checked_out(cwd),
    }


def look_inside(
    box: Box, cwd: Path, modules: Sequence[str], environment: Mapping[str, str], python: str
) -> StackPart:
    """Return what is installed in the Python environment of a launch in the container `box`: a
    dictionary with the keys that the function `probe` of this module describes, and `container`,
    the container's name.

    `python` is the path of the interpreter as the agent sees it, or its name in the container.
    `modules` are the modules that the run will import. `revision` is "", because the agent does not
    watch what is installed in a container; so the versions are read anew each time. Raises
    LaunchFailed or StepFailed if the interpreter cannot be run.
    """
    known = versions.probe(python, timeout=20.0, ask=box.ask)
    found = _imported(
        f"{box.name} {box.init} {python}",
        _wanted(modules, known),
        cwd,
        environment,
        lambda left: imports.probe(python, left, IMPORT_S, str(cwd), environment, ask=box.ask),
    )
    program = python
    if python.startswith("/"):
        program = str(box.view.inside(python) or python)
    return {
        "python": program,
        "container": box.name,
        "revision": "",
        "versions": known,
        "imports": found,
        "commit": checked_out(cwd),
    }


def _wanted(modules: Sequence[str], known: Mapping[str, str | None]) -> list[str]:
    """Return the modules to import, without repeats. `flash_attn` is added if it is installed."""
    wanted = list(modules)
    if known.get("flash_attn"):
        wanted.append("flash_attn")
    return list(dict.fromkeys(wanted))


def _imported(
    at: str,
    wanted: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str] | None,
    ask: Callable[[list[str]], dict[str, str | None]],
) -> dict[str, str | None]:
    """Return {module: error or None} for the environment `at`. A module that was imported less than
    `IMPORT_KEPT_S` seconds ago is not imported again.
    """
    now = time.monotonic()
    # The result depends on the directory, because a checkout is imported from where it is.
    where = f"{at} {cwd} {(environment or {}).get('PYTHONPATH', '')}"
    fresh: dict[str, str | None] = {}
    left = []
    with _lock:
        for module in wanted:
            known = _imports.get((where, module))
            if known is not None and now - known[0] < IMPORT_KEPT_S:
                fresh[module] = known[1]
            else:
                left.append(module)
    if left:
        asked = ask(left)
        with _lock:
            for module, problem in asked.items():
                if problem is None:  # a failure is probed anew: somebody is about to repair it
                    _keep(_imports, (where, module), (now, problem))
        fresh.update(asked)
    return fresh


def _keep(cache: dict[Key, Value], key: Key, value: Value) -> None:
    """Put a value into a cache that holds at most `_KEPT` entries; the oldest entry is dropped."""
    cache.pop(key, None)
    cache[key] = value
    while len(cache) > _KEPT:
        del cache[next(iter(cache))]
