"""Runs one of our scripts with a training environment's own interpreter, on this machine. For
containers see containers/inside.py.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from typing import Protocol


class Ask(Protocol):
    """A function that runs a Python file of the agent with another Python interpreter, on this
    machine or in a container, and returns its exit code and standard output. The function `here`
    describes the parameters.
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
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the agent's Python file `script` with the interpreter `python`, and return its exit
        code and output. `question` is its standard input.

        `more` has environment variables besides those that programs have there anyway; `cwd` is a
        directory on the agent's machine. Standard error is not kept. Raises TimeoutExpired after
        `timeout` seconds, with the output so far, and OSError or StepFailed if the interpreter
        cannot be started.
        """


def here(
    python: str,
    script: str,
    question: bytes = b"",
    *,
    timeout: float,
    more: Mapping[str, str],
    cwd: str | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run the agent's Python file `script` with the interpreter `python` on this machine, and
    return its exit code and standard output. `question` is its standard input, `more` has
    environment variables besides the agent's own, and `cwd` is the directory in which it runs
    (None: the agent's). Raises TimeoutExpired after `timeout` seconds, and OSError if the
    interpreter cannot be started.

    The interpreter gets the option -B, so that it writes no compiled files into the agent's
    directory.
    """
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
