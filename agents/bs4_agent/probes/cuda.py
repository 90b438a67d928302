"""Finds out whether torch can use the GPUs. The training environment's own interpreter runs this
file as a script; `probe` starts it.

The script imports torch, which takes up to a minute on a cold disk, and counts devices; it makes no
context on any of them. It must run on any Python from 3.8 on.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict, cast

if TYPE_CHECKING:
    from bs4_agent.probes.asking import Ask

#: The most characters of an error.
_ERROR = 400


class CudaAnswer(TypedDict, total=False):
    """The answer to the question whether the library torch can use the GPUs. If torch cannot be
    imported, `error` says why, and the versions and `available` are None.
    """

    torch: str | None
    """The version of torch."""
    cuda: str | None
    """The version of CUDA for which torch was built, or None if it was built for none."""
    available: bool | None
    """True if torch can use the GPUs."""
    devices: int
    """How many GPUs torch can use."""
    error: str | None
    unknown: str
    """Why there is no answer. The other keys are missing then."""


def probe(
    python: str,
    timeout: float = 90.0,
    environment: Mapping[str, str] | None = None,
    ask: Ask | None = None,
) -> CudaAnswer:
    """Find out whether the library torch of the Python interpreter `python` can use the GPUs, and
    return that with the versions of torch and CUDA and the number of GPUs. If torch cannot be
    imported, the answer has the error.

    `environment` has further variables for the interpreter. `ask` is the function that runs it if
    it is not on this machine but in a container. Raises StepFailed if there is no answer within
    `timeout` seconds.
    """
    import subprocess

    from bs4_agent.probes.asking import here
    from bs4_common.errors import StepFailed

    try:
        done = (ask or here)(python, __file__, timeout=timeout, more=environment or {})
        told = dict(json.loads(done.stdout.decode("utf-8", "replace").strip().splitlines()[-1]))
        return cast("CudaAnswer", told)
    except subprocess.TimeoutExpired:
        raise StepFailed(
            f"{python} did not say within {timeout:.0f} s whether torch can use the GPUs; "
            "try again."
        ) from None
    except (OSError, ValueError, IndexError) as error:
        raise StepFailed(
            f"{python} did not say whether torch can use the GPUs ({error or 'it died'}); "
            "try it by hand."
        ) from error


def probe_devices() -> CudaAnswer:
    """Find out whether the library torch can use the GPUs, in the interpreter that runs this
    function, and return that with the versions of torch and CUDA and the number of GPUs. If torch
    cannot be imported, the answer has the error. Nothing is raised.
    """
    import importlib

    try:
        torch = importlib.import_module("torch")
        available = bool(torch.cuda.is_available())
        return {
            "torch": str(torch.__version__),
            "cuda": torch.version.cuda,
            "available": available,
            "devices": int(torch.cuda.device_count()) if available else 0,
            "error": None,
        }
    except Exception as error:  # noqa: BLE001
        # An import of a training stack may raise anything; the error is the answer.
        lines = str(error).strip().splitlines()
        text = "{}: {}".format(type(error).__name__, lines[0] if lines else "")[:_ERROR]
        return {"torch": None, "cuda": None, "available": None, "devices": 0, "error": text}


if __name__ == "__main__":
    sys.path[:] = sys.path[1:]  # removes our directory: its modules must not hide the environment's
    sys.stdout.write(json.dumps(probe_devices()) + "\n")
