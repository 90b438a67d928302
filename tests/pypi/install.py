"""Installs verl and verifiers from PyPI, each into an environment of its own below a directory:
`python tests/pypi/install.py DIRECTORY`. Run by `make test-pypi-trainers`.

Where one cannot be installed, a sentence says so, nothing of it is left behind, and its tests are
skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

READY = ".ready"
#: What is installed for each. verl names neither torch nor uvicorn, fastapi and cachetools, without
#: which its trainers do not start.
WANTED = {
    "verl": ("verl==0.9.1", "torch==2.13.0", "ray==2.60.0", "uvicorn", "fastapi", "cachetools"),
    "verifiers": ("verifiers==0.4.0",),
}


def main(root: Path) -> int:
    for name, wanted in WANTED.items():
        directory = root / name
        if (directory / READY).exists():
            continue
        print(f"installing {' '.join(wanted)} into {directory}", flush=True)
        shutil.rmtree(directory, ignore_errors=True)
        try:
            install(directory, wanted)
        except subprocess.CalledProcessError as error:
            log = directory.with_suffix(".log")
            log.write_text(error.stdout)
            shutil.rmtree(directory, ignore_errors=True)
            print(f"{wanted[0]} cannot be installed here, see {log}; its tests are skipped.")
    return 0


def install(directory: Path, wanted: tuple[str, ...]) -> None:
    """CalledProcessError, with everything that was said, when it fails."""
    python = str(directory / "bin/python")
    _quietly(sys.executable, "-m", "venv", str(directory))
    _quietly(python, "-m", "pip", "install", "uv")
    command = [python, "-m", "uv", "pip", "install", "--python", python, *wanted]
    try:
        # For verl the CPU's torch; nothing of verifiers has one.
        _quietly(*command, "--torch-backend", "cpu")
    except subprocess.CalledProcessError:
        # one that lies in the index or beside it
        _quietly(*command)
    (directory / READY).touch()


def _quietly(*command: str) -> None:
    """What pip is told by its environment holds for uv too."""
    told = {"UV_DEFAULT_INDEX": "PIP_INDEX_URL", "SSL_CERT_FILE": "PIP_CERT"}
    links = {"UV_FIND_LINKS": "PIP_FIND_LINKS", **told}
    env = {uv: os.environ[pip] for uv, pip in links.items() if pip in os.environ}
    subprocess.run(
        command,
        env={**env, **os.environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
