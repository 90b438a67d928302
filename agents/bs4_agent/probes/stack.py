"""Finds out which training stack an environment holds. That environment's own interpreter runs this
file as a script; `probe` starts it.

Nothing of the stack is imported, because importing torch takes 2 to 20 s and may touch the GPUs.
The script must run on any Python from 3.8 on.
"""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bs4_agent.probes.asking import Ask

# JSON key -> the distribution's name.
_DISTRIBUTIONS = {
    "torch": "torch",
    "vllm": "vllm",
    "sglang": "sglang",
    "ray": "ray",
    "prime_rl": "prime-rl",
    "verl": "verl",
    "verifiers": "verifiers",
    "flash_attn": "flash-attn",
}


def probe(python: str, timeout: float = 5.0, ask: Ask | None = None) -> dict[str, str | None]:
    """Return the versions of the important packages that are installed in the environment of the
    Python interpreter `python`.

    The keys are `python`, `torch`, `vllm`, `sglang`, `ray`, `prime_rl`, `verl`, `verifiers`,
    `flash_attn` and `cuda`; the value is None for a package that is not installed. `ask` is the
    function that runs the interpreter if it is not on this machine but in a container. Raises
    StepFailed if there is no answer within `timeout` seconds.
    """
    import subprocess

    from bs4_agent.probes.asking import here
    from bs4_common.errors import StepFailed

    try:
        done = (ask or here)(python, __file__, timeout=timeout, more={})
        done.check_returncode()
        return dict(json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise StepFailed(
            f"{python} did not tell its versions ({error}); name the training environment's "
            "own python."
        ) from error


def versions() -> dict[str, str | None]:
    """Return {name: version} for the packages whose names `probe` lists, in the interpreter that
    runs this function. The version is None for a package that is not installed.
    """
    found: dict[str, str | None] = {"python": sys.version.split()[0]}
    found.update((key, _version(name)) for key, name in _DISTRIBUTIONS.items())
    found["cuda"] = _cuda(found["torch"])
    return found


def _version(distribution: str) -> str | None:
    """Return the version of an installed distribution, or None."""
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _cuda(torch: str | None) -> str | None:
    """Return the CUDA version for which torch was built, or None for a CPU build. It is read from
    torch's version file, else from the tag in its version (2.9.1+cu128).
    """
    if torch is None:
        return None
    import importlib.util
    from pathlib import Path

    spec = importlib.util.find_spec("torch")  # this finds the module and does not import it
    if spec is not None and spec.origin is not None:
        try:
            text = (Path(spec.origin).parent / "version.py").read_text("utf-8")
        except OSError:
            text = ""
        match = re.search(r"^cuda[^=]*=\s*['\"]([0-9.]+)['\"]", text, re.MULTILINE)
        if match is not None:
            return match.group(1)
    tag = re.search(r"\+cu(\d+)(\d)$", torch)
    if tag is None:
        return None
    return f"{tag.group(1)}.{tag.group(2)}"


if __name__ == "__main__":
    json.dump(versions(), sys.stdout)
