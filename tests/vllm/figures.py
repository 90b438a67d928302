"""docs/vllm.md, from the figures of one whole run."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.environments import VLLM_VERSION

PAGE = Path(__file__).resolve().parents[2] / "docs/vllm.md"
Figures = dict[str, dict[str, Any]]

_HEAD = """\
# What a real vLLM does when it fails

Written by `make test-vllm` when all of it passed; do not edit. vLLM {version} for CPU with a tiny
random model, one run, {cores} cores shared with other work, {system}.

The server is started below a launcher that, as prime-rl's does, takes no notice of its end. Seconds
count from the fault (a `kill -9` in mid-generation, of the engine or of a worker; of the API
server, and a `kill -STOP`, while it idles). A one-token probe may take {patience} s.
"""


def write(figures: Mapping[str, Mapping[str, Any]], patience: float, page: Path = PAGE) -> None:
    """One table a scenario, in the order in which they ran."""
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    parts = [
        _HEAD.format(
            version=VLLM_VERSION, cores=os.cpu_count(), system=system, patience=f"{patience:g}"
        )
    ]
    for title, rows in figures.items():
        table = "".join(f"| {name} | {_shown(value)} |\n" for name, value in rows.items())
        parts.append(f"## {title}\n\n| what | seen |\n|---|---|\n{table}")
    page.write_text("\n".join(parts))


def _shown(value: Any) -> str:
    return f"{value:.1f} s" if isinstance(value, float) else str(value)
