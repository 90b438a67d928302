"""uv, as far as a pod needs it: `uv run X ...` starts X from the project's environment as a child,
waits for it and hands on signals; `uv sync` makes that environment; `uv tool run prime env install`
and `uv pip install` put packages into it. Nothing is fetched.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from . import install, pace

#: A real sync of a training environment takes minutes.
SYNC_SECONDS = 2.0


def main(arguments: Sequence[str]) -> int:
    """Imitate a command of uv. `arguments` are the words of its command line. `run COMMAND` starts
    the command in the project's environment and waits for its end; `sync` makes that environment,
    and `tool run prime env install NAME` installs a training environment there. Returns the exit
    code: that of the command, 128 + n if signal n has ended it, or 1 or 2 after an error of uv's
    own.
    """
    if arguments[:1] == ["sync"]:
        return _sync()
    if list(arguments[:5]) == ["tool", "run", "prime", "env", "install"] and len(arguments) == 6:
        return _install_from_hub(arguments[5])
    if len(arguments) < 2 or arguments[0] != "run":
        sys.stderr.write("error: this uv knows `run`, `sync` and `tool run prime env install`\n")
        return 2
    command = [word for word in arguments[1:] if word not in ("--no-sync", "--frozen", "--locked")]
    environment = dict(os.environ)
    if (venv := _find_environment()) is not None:
        environment |= {
            "PATH": f"{venv / 'bin'}:{environment.get('PATH', '')}",
            "VIRTUAL_ENV": str(venv),
        }
        os.environ["PATH"] = environment["PATH"]  # Popen looks the command up in our own PATH
    try:
        child = subprocess.Popen(command, env=environment)
    except FileNotFoundError:
        sys.stderr.write(
            f"error: Failed to spawn: `{command[0]}`\n  Caused by: No such file or directory "
            "(os error 2)\n"
        )
        return 2
    _forward_signals(child)
    code = child.wait()
    return code if code >= 0 else 128 - code


def _sync() -> int:
    """The environment grows under the eyes of whoever looks: the interpreter first, its packages
    after that.
    """
    project = Path.cwd()
    if not (project / "pyproject.toml").exists():
        sys.stderr.write(
            "error: No `pyproject.toml` found in current directory or any parent directory\n"
        )
        return 2
    sys.stderr.write(
        f"Using CPython {sys.version.split()[0]}\nCreating virtual environment at: .venv\n"
    )
    (project / ".venv" / "bin").mkdir(parents=True, exist_ok=True)
    pace.nap(SYNC_SECONDS)
    install.install_training(
        project, sys.executable, os.environ.get("BS4_MINIATURE_GENERATION", "current")
    )
    sys.stderr.write("Installed 3 packages in 1.20s\n")
    return 0


def _install_from_hub(source: str) -> int:
    """As the `prime` command does it: into the environment named by VIRTUAL_ENV. The hub has
    one.
    """
    name, _, version = source.partition("/")[2].partition("@")
    venv = os.environ.get("VIRTUAL_ENV")
    if name != "reverse-text":
        sys.stderr.write(f"Environment {source} was not found on the hub\n")
        return 1
    if not venv or not Path(venv).is_dir():
        sys.stderr.write(
            "error: No virtual environment found; run `uv venv` to create an environment\n"
        )
        return 2
    install.install_environment(
        install.site_packages(Path(venv).parent), install.ENVIRONMENT, version or "0.1.0"
    )
    print(f"Successfully installed {source}")
    return 0


def _find_environment() -> Path | None:
    """`.venv` of the working directory or of the nearest directory above it."""
    here = Path.cwd()
    return next(
        (found for place in (here, *here.parents) if (found := place / ".venv").is_dir()), None
    )


def _forward_signals(child: subprocess.Popen[bytes]) -> None:
    def forward(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, forward)
    # An interrupt reaches the child by itself: it is in the same process group.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda number, frame: None)
