"""Queries the services from a process of its own: the agent has no TLS, and the 4 MB of memory that
HTTP needs are free again when that process ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bs4_agent.probes.asking import Ask
from bs4_common.errors import StepFailed

if TYPE_CHECKING:
    from bs4_agent.probes.service_script import ServicesAnswer

_SCRIPT = Path(__file__).with_name("service_script.py")


def probe(
    request: Mapping[str, Any],
    timeout: float = 30.0,
    environment: Mapping[str, str] | None = None,
    ask: Ask | None = None,
    python: str = sys.executable,
) -> ServicesAnswer:
    """Query Hugging Face's hub, W&B and Backblaze B2 in a process of its own, and return what they
    say about the pod's credentials and about a model.

    `request` has `model` (an id, or ""), `urls` {hub, wandb, b2: base URL}, `b2_file` (the file in
    which the set-up of a pod stores the B2 key) and `only` (some of hub, wandb, b2 and model; all
    if it is missing). `environment` has the variables that a launch would get besides the agent's
    own. `ask` is the function that runs the interpreter `python` if it is not on this machine: a
    container has credentials of its own.

    Raises StepFailed if the process does not answer within `timeout` seconds.
    """
    told = json.dumps(dict(request)).encode()
    try:
        if ask is not None:
            done = ask(python, str(_SCRIPT), told, timeout=timeout, more=environment or {})
            done.check_returncode()
        else:
            done = subprocess.run(
                [python, "-B", "-I", str(_SCRIPT)],
                input=told,
                capture_output=True,
                timeout=timeout,
                check=True,
                env={**os.environ, **(environment or {})},
            )
        return cast("ServicesAnswer", dict(json.loads(done.stdout)))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise StepFailed(
            f"The services could not be asked ({type(error).__name__}); look at the pod's network."
        ) from error
