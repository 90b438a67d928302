"""Finds out whether modules can be imported in an environment. That environment's own interpreter
runs this file as a script; `probe` starts it.

Only modules whose metadata does not tell enough are imported: an environment's own code, and a
compiled wheel that may not fit its torch (in `flash_attn` an undefined symbol shows only at
import). The script must run on any Python from 3.8 on.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bs4_agent.probes.asking import Ask

#: The most characters of an error; the last line of a traceback is shorter.
_ERROR = 400


def probe(
    python: str,
    modules: list[str],
    timeout: float = 90.0,
    cwd: str | None = None,
    more: Mapping[str, str] | None = None,
    ask: Ask | None = None,
) -> dict[str, str | None]:
    """Try to import each of the Python modules `modules` in the interpreter `python`, which runs in
    the directory `cwd`. Return {name of a module: None if it can be imported, otherwise the error
    in one line}.

    If there is no result for a module, because the interpreter crashed or took longer than
    `timeout` seconds for all, its error says so. `more` has environment variables besides the
    agent's own. `ask` is the function that runs the interpreter if it is not on this machine but in
    a container. Raises StepFailed if the interpreter cannot be started.
    """
    import subprocess

    from bs4_agent.probes.asking import here
    from bs4_common.errors import StepFailed

    # No GPU is touched: a context on one would take memory from whoever trains there.
    environment = {**(more or {}), "CUDA_VISIBLE_DEVICES": "", "TOKENIZERS_PARALLELISM": "false"}
    ended = "the interpreter died while importing it"
    try:
        done = (ask or here)(
            python,
            __file__,
            json.dumps(modules).encode(),
            timeout=timeout,
            more=environment,
            cwd=cwd,
        )
        output = done.stdout
        if done.returncode < 0:
            ended += f" (signal {-done.returncode})"
    except subprocess.TimeoutExpired as error:
        output, ended = error.stdout or b"", f"importing it was not done after {timeout:.0f} s"
    except OSError as error:
        raise StepFailed(
            f"{python} cannot be run ({error.strerror}); make the training environment again "
            "with `uv sync`."
        ) from error
    found: dict[str, str | None] = {}
    for line in output.decode("utf-8", "replace").splitlines():
        try:
            name, problem = json.loads(line)
        except ValueError:
            continue  # after a crash, the last line may be incomplete
        found[str(name)] = None if problem is None else str(problem)
    return {module: found.get(module, ended) for module in modules}


def main() -> None:
    """Do the work of the process that `probe` starts: import the modules that standard input names,
    and write one line of JSON for each to standard output as soon as its result is known, so that a
    crash loses only the result of the module that crashed. Then end the process.
    """
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # other output of a module goes to standard error
    # This must run on any Python from 3.8 on.
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100
    sys.path[:] = [path for path in sys.path if path != here]
    for name in json.load(sys.stdin):
        out.write(json.dumps([name, _problem(str(name))]) + "\n")
        out.flush()
    out.flush()
    os._exit(0)  # threads and exit handlers of a training stack may take their time


def _problem(name: str) -> str | None:
    """Return why the module cannot be imported, or None if it can."""
    import importlib

    try:
        importlib.import_module(name)
    except BaseException as error:  # noqa: BLE001 (a module may even call sys.exit)
        lines = str(error).strip().splitlines()
        return "{}: {}".format(type(error).__name__, lines[0] if lines else "")[:_ERROR]
    return None


if __name__ == "__main__":
    main()
