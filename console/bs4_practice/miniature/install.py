"""Makes a pod's training environment: a real virtual environment whose commands are the
miniature's.

After `install(project, uv, python, generation)`, with `uv/bin` on PATH, `uv run rl @ cfg.toml`
works in `project`, and every process has the command line of the real one: scripts run under the
environment's `python3`, ranks are `python3 -u -m prime_rl.trainer.rl.train @ ...`, and `uv`, a
native program in reality, is the interpreter under that name with a start-up hook, so that its argv
is `uv run rl @ cfg.toml` and nothing else.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

COMMANDS = ("rl", "inference", "orchestrator", "torchrun", "vllm", "env-server", "vllm-router")
_CURRENT_ONLY = ("env-server", "vllm-router")
#: What the generation's lock file pins: versions as a package manager would tell them. There is no
#: code behind them.
STACKS = {
    "2026-01": {
        "prime-rl": "0.1.0",
        "torch": "2.9.0+cu128",
        "vllm": "0.12.0",
        "verifiers": "0.1.8.post2",
    },
    "current": {
        "prime-rl": "0.8.0",
        "torch": "2.11.0+cu128",
        "vllm": "0.26.0+cu129",
        "verifiers": "0.3.1.dev59",
    },
}
#: What an image with verl 0.6 brings.
_BESIDE_VERL = {"torch": "2.8.0+cu128", "vllm": "0.11.0", "ray": "2.49.2"}
_NO_TORCH = """import sys

if "torch.distributed.run" not in sys.orig_argv:
    raise ModuleNotFoundError("No module named 'torch'", name="torch")
"""
#: Modules of the package from which the trainer's own config classes are imported.
CLASSES = {
    "2026-01": {
        "rl.py": "from miniature.classes import RLConfig2026 as RLConfig",
        "orchestrator/config.py": (
            "from miniature.classes import OrchestratorConfig2026 as OrchestratorConfig"
        ),
        "utils/pydantic_config.py": "from miniature.classes import parse_argv",
    },
    "current": {
        "configs/rl.py": "from miniature.classes import RLConfig",
        "configs/orchestrator.py": "from miniature.classes import OrchestratorConfig",
        "utils/config.py": "from miniature.classes import cli",
    },
}


def install(project: Path, uv: Path, python: str, generation: str) -> None:
    """Create a Python environment in `project/.venv`, with the commands of an imitation of prime-rl
    and the training environment "reverse-text", and an imitation of uv as `uv/bin/uv`. `generation`
    says which prime-rl is imitated: "2026-01" or "current". `python` is the path of the Python that
    runs the commands and that uv. Raises RuntimeError if this program's Python cannot import
    setproctitle.
    """
    install_training(project, python, generation)
    install_environment(_site_packages(project / ".venv"), ENVIRONMENT)
    install_uv(uv, python)


def install_training(project: Path, python: str, generation: str) -> None:
    """Create a Python environment in `project/.venv` as `uv sync` leaves it, with the commands of
    an imitation of prime-rl but without a training environment (the task and its rewards). `python`
    is the path of its interpreter, and `generation` is "2026-01" or "current". Raises RuntimeError
    if setproctitle cannot be imported.
    """
    base = Path(python).resolve()
    venv = project / ".venv"
    _environment(venv, base, "python3")
    _link(venv / "bin" / "python", base)
    rank = _site_packages(venv) / "prime_rl" / "trainer" / "rl"
    rank.mkdir(parents=True, exist_ok=True)
    for package in (rank, rank.parent, rank.parent.parent):
        (package / "__init__.py").touch()
    (rank / "train.py").write_text(
        "from miniature.main import rank\n\nif __name__ == '__main__':\n    rank()\n"
    )
    for place, line in CLASSES[generation].items():
        path = _site_packages(venv) / "prime_rl" / place
        path.parent.mkdir(exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(line + "\n")
    for name in COMMANDS:
        if generation == "current" or name not in _CURRENT_ONLY:
            _script(venv / "bin" / name, venv / "bin" / "python3")
    for distribution, version in STACKS[generation].items():
        _metadata(_site_packages(venv), distribution, version)


def install_verl(project: Path, python: str, version: str = "0.6.1") -> None:
    """Create a Python environment in `project/.venv` in which `python3 -m verl.trainer.main_ppo
    key=value` runs an imitation of verl. `python` is the path of its interpreter, and `version` the
    version of verl that it shows. Raises RuntimeError if setproctitle cannot be imported.
    """
    venv = project / ".venv"
    _environment(venv, Path(python).resolve(), "python3")
    trainer = _site_packages(venv) / "verl" / "trainer"
    trainer.mkdir(parents=True, exist_ok=True)
    for package in (trainer, trainer.parent):
        (package / "__init__.py").touch()
    (trainer / "main_ppo.py").write_text(
        "from miniature.verl.main import run\n\nif __name__ == '__main__':\n    run('driver')\n"
    )
    (trainer / "fsdp_sft_trainer.py").write_text(
        "from miniature.verl.main import run\n\nif __name__ == '__main__':\n    run('sft')\n"
    )
    torchrun = _site_packages(venv) / "torch" / "distributed"
    torchrun.mkdir(parents=True, exist_ok=True)
    # Of torch there is only what starts ranks; for everybody else it is not there.
    (torchrun.parent / "__init__.py").write_text(_NO_TORCH)
    (torchrun / "run.py").write_text(
        "from miniature.verl.main import run\n\nif __name__ == '__main__':\n    run('torchrun')\n"
    )
    merger = trainer.parent / "model_merger"
    merger.mkdir(exist_ok=True)
    (merger / "__init__.py").touch()
    (merger / "__main__.py").write_text(
        "from miniature.verl.main import run\n\nif __name__ == '__main__':\n    run('merger')\n"
    )
    for distribution, known in {"verl": version, **_BESIDE_VERL}.items():
        _metadata(_site_packages(venv), distribution, known)


def install_uv(uv: Path, python: str) -> None:
    """Create a virtual environment in the directory `uv`, whose `bin/uv` is an imitation of uv.
    `python` is the path of the interpreter that runs it. Raises RuntimeError if setproctitle cannot
    be imported.
    """
    _environment(uv, Path(python).resolve(), "uv")
    # A .pth line, not a sitecustomize module: Debian has its own sitecustomize, before any
    # environment on the path, which hides ours.
    (_site_packages(uv) / "miniature_uv.pth").write_text(
        "import miniature.main; miniature.main.uv()\n"
    )


#: The environment's package: the share of characters in the right place.
ENVIRONMENT = """def score(prompt, answer):
    target = prompt.split()[-1][::-1]
    return sum(a == b for a, b in zip(target, answer)) / len(target)
"""


def install_environment(
    packages: Path, source: str, version: str = "0.1.0", name: str = "reverse-text"
) -> None:
    """Install an environment to train in, as `prime env install` does: a package and its metadata
    in the directory `packages`. `name` and `version` are those of the package, and `source` is its
    Python code, which must define `score(prompt, answer)`, the reward.
    """
    module = packages / name.replace("-", "_")
    module.mkdir(parents=True, exist_ok=True)
    (module / "__init__.py").write_text(source)
    _metadata(packages, name, version)


def _metadata(packages: Path, name: str, version: str) -> None:
    """What is told of an installed distribution; an earlier version of it is gone then."""
    stem = name.replace("-", "_")
    for old in packages.glob(f"{stem}-*.dist-info"):
        (old / "METADATA").unlink(missing_ok=True)
        old.rmdir()
    info = packages / f"{stem}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n")


def site_packages(project: Path) -> Path:
    """Return the site-packages directory of the Python environment `project/.venv`."""
    return _site_packages(project / ".venv")


def _environment(venv: Path, base: Path, executable: str) -> None:
    (venv / "bin").mkdir(parents=True, exist_ok=True)
    version = ".".join(map(str, sys.version_info[:3]))
    (venv / "pyvenv.cfg").write_text(
        f"home = {base.parent}\ninclude-system-site-packages = false\nversion = {version}\n"
    )
    _link(venv / "bin" / executable, base)
    packages = _site_packages(venv)
    packages.mkdir(parents=True, exist_ok=True)
    _link(packages / "miniature", Path(__file__).parent)
    titles = importlib.util.find_spec("setproctitle")
    if titles is None or titles.origin is None:
        raise RuntimeError(
            "setproctitle is not installed; install bs4-console with its dependencies to run "
            "a practice pod."
        )
    _link(packages / "setproctitle", Path(titles.origin).parent)


def _site_packages(venv: Path) -> Path:
    return venv / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


def _script(path: Path, python: Path) -> None:
    # Through sh, as pip writes it where a path is too long or has spaces for a #! line; the exec
    # leaves no shell behind.
    path.write_text(
        f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\nfrom miniature.main import "
        "command\n\ncommand()\n"
    )
    path.chmod(0o755)


def _link(path: Path, target: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)
