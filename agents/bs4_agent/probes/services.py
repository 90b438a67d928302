"""The services asked by a process of its own: the agent speaks no TLS, and what HTTP costs in
memory (4 MB) is gone with that process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bs4_agent.errors import StepFailed
from bs4_agent.probes.asking import Ask

_SCRIPT = Path(__file__).with_name("service_script.py")


def probe(
    request: Mapping[str, Any],
    timeout: float = 30.0,
    environment: Mapping[str, str] | None = None,
    ask: Ask | None = None,
    python: str = sys.executable,
) -> dict[str, Any]:
    """`request`: `model` (an id, or ""), `urls` {hub, wandb, b2: base URL}, `b2_file` (where a
    set-up keeps its key), `only` (some of hub, wandb, b2 and model; else all). `environment`: what
    a launch would get besides ours. `ask`: how the interpreter `python` is asked, where not on this
    machine: a container has credentials of its own. The answer:

    * `hub`, `wandb`, `b2`: {`token`: absent | environment | file, `state`: ok | refused | absent |
      offline | unknown, `detail`}; b2 also `missing` [capabilities that the key lacks].
    * `model`: {`id`, `cached` (its config.json is here), `config` (what matters of it, or null),
      `status` (HTTP, or null), `gated`, `detail`}, null without a model or for a local path.
    * `clock`: {`offset_s`: this machine's clock less the service's, `service`} or null where no
      service answered.

    StepFailed when the probe itself does not answer within `timeout` seconds.
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
        return dict(json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise StepFailed(
            f"The services could not be asked ({type(error).__name__}); look at the pod's network."
        ) from error
