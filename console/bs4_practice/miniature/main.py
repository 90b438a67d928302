"""The one entry behind every command of the training environment: picks the generation and the
component, and gives the exit code.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

from . import gpu

_MODULES = {
    "rl": "launcher",
    "inference": "inference",
    "orchestrator": "orchestrator",
    "env-server": "env_server",
    "train": "trainer",
}
_SHARED = {"torchrun": "torchrun", "vllm-router": "vllm.router", "vllm": "vllm.cli", "uv": "uv"}


def command() -> None:
    """Run the imitated program that the file name of this executable says (such as `rl`), and exit
    with its code.
    """
    run(Path(sys.argv[0]).name, sys.argv[1:])


def rank() -> None:
    """Run an imitated trainer rank, for `python -m prime_rl.trainer.rl.train`, and exit with its
    code.
    """
    run("train", sys.argv[1:])


def uv() -> None:
    """Run the imitation of uv with the command line of this process, and exit with its code. This
    process is a Python interpreter under the name uv.
    """
    run("uv", sys.orig_argv[1:])


def run(name: str, arguments: list[str]) -> None:
    """Run the imitated program `name` (such as "rl", "orchestrator" or "train") with the words
    `arguments` of a command line, and end this process with its exit code. Never returns.
    BS4_MINIATURE_GENERATION says which version of prime-rl is imitated. The process ends at once,
    so that threads that hang in a request do not hold it up.
    """
    generation = os.environ.get("BS4_MINIATURE_GENERATION", "current")
    package = {"2026-01": "v2026_01", "current": "current"}[generation]
    module = _SHARED.get(name) or f"{package}.{_MODULES[name]}"
    root = __name__.rpartition(".")[0]
    code = 1
    try:
        code = importlib.import_module(f".{module}", root).main(arguments)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except KeyboardInterrupt:
        sys.stderr.write("KeyboardInterrupt\n")
        code = 130
    except (OSError, ValueError, RuntimeError, MemoryError):
        sys.excepthook(*sys.exc_info())
    finally:
        gpu.forget_own_entries()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
