"""A training environment's own interpreter, asked with a script of ours: on this machine here, in a
container by runs/inside.py.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from typing import Protocol


class Ask(Protocol):
    """Runs `script` (a path of ours) with the interpreter `python` and the `question` on its
    standard input. `more`: environment besides what programs have there anyway; `cwd`: a directory
    of ours. What it says on standard error is not kept. TimeoutExpired after `timeout` seconds,
    with the output so far; OSError or StepFailed when the interpreter cannot be started.
    """

    def __call__(
        self,
        python: str,
        script: str,
        question: bytes = b"",
        *,
        timeout: float,
        more: Mapping[str, str],
        cwd: str | None = None,
    ) -> subprocess.CompletedProcess[bytes]: ...


def here(
    python: str,
    script: str,
    question: bytes = b"",
    *,
    timeout: float,
    more: Mapping[str, str],
    cwd: str | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """See Ask. -B: nothing is written into the agent's directory by another interpreter."""
    return subprocess.run(
        [python, "-B", script],
        input=question,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=timeout,
        env={**os.environ, **more},
        cwd=cwd,
        check=False,
    )
