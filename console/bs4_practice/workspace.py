"""The files of a practice pod: home, training environment, configs, GPUs, keys, and the environment
its processes get.
"""

from __future__ import annotations

import json
import os
import random
import socket
import string
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import asyncssh

from bs4_practice import bare as outside
from bs4_practice.gpus import library
from bs4_practice.gpus.board import Board
from bs4_practice.miniature.install import install, install_verl

GENERATIONS = ("2026-01", "current", "verl")
USER = "root"
RUN_NAME = "demo"
MODEL = "PrimeIntellect/Qwen3-0.6B-Reverse-Text-SFT"
#: The model of verl's configs, below its project. The look before a start reckons the size of a
#: checkpoint from the model's name. Of a model whose name says 0.6B, the hundred checkpoints that
#: the configs keep would need 680 GiB; those of the miniature have a few kilobytes each.
LOCAL_MODEL = "models/reverse-text-0.001B"
_MODEL_CONFIG = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
_TEMPLATES = Path(__file__).with_name("templates")
_INFERENCE_MARK = "# --- inference"
_SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_SOCKET_LIMIT = 107  # bytes in a unix socket's path
_SOCKET_BELOW_HOME = len("/.bs4/sock/0123456789ab.sock")


@dataclass(frozen=True)
class Workspace:
    """The directories, files and ports of a practice pod on this machine. `port` is where clients
    reach the model, and `api_port` that of vLLM's own API; in prime-rl of January 2026 they are the
    same. `env_port`, `hub_port` and `wandb_port` are the ports of the environment server and of
    what stands for the model hub and W&B. `library` is the simulated GPU driver, or None if it
    could not be compiled.
    """

    name: str
    root: Path
    generation: str
    home: Path
    project: Path
    port: int
    api_port: int
    env_port: int
    hub_port: int
    wandb_port: int
    library: Path | None
    host_key: Path
    client_key: Path
    known_host_key: str
    revision: str = ""
    """Of a bare pod: what is to be checked out of `repository`; "" on a pod that is set up."""

    @property
    def repository(self) -> Path:
        """Return the directory of the git repository that a bare pod (one without uv and prime-rl)
        clones.
        """
        return self.root / "remote" / "prime-rl"

    @property
    def gpus(self) -> Board:
        """Return the board of the pod's simulated GPUs, through which they can be looked at and
        changed.
        """
        return Board(self.root / "gpu")

    def as_dict(self) -> dict[str, Any]:
        """Return the workspace as a dictionary of JSON values, which `from_dict` reads."""
        return {
            key: str(value) if isinstance(value, Path) else value
            for key, value in asdict(self).items()
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Workspace:
        """Return the workspace from `data`, a dictionary that `as_dict` made. Raises KeyError or
        TypeError if `data` does not have that form.
        """
        paths = {
            key: Path(data[key]) for key in ("root", "home", "project", "host_key", "client_key")
        }
        compiled = Path(data["library"]) if data["library"] else None
        return cls(**{**data, **paths, "library": compiled})


def create(
    name: str,
    generation: str,
    root: Path,
    *,
    gpus: int = 2,
    foreign_pids: int | Mapping[int, int] | None = None,
    bare: bool = False,
) -> Workspace:
    """Make the files that a practice pod with the name `name` needs below `root`, and return where
    they are. `generation` is "2026-01", "current" or "verl". `gpus` is the number of simulated
    GPUs. `foreign_pids` says which process ids NVML reports: the real ones (None), the real ones
    plus a number, or those of a mapping from real to reported ids. A `bare` pod has no uv and no
    prime-rl, as a freshly rented machine, and gets a stand-in for the network from which they can
    be installed.

    Raises ValueError for an unknown generation or a `root` whose path is too long for a socket
    below it.
    """
    if generation not in GENERATIONS:
        raise ValueError(
            f"Unknown trainer generation {generation!r}; use one of {', '.join(GENERATIONS)}."
        )
    root = root.absolute()
    home = root / "home"
    if len(str(home).encode()) + _SOCKET_BELOW_HOME > _SOCKET_LIMIT:
        raise ValueError(
            f"{root} is too long for a unix socket below it; give the practice pod a shorter "
            "directory."
        )
    project = home / ("verl" if generation == "verl" else "prime-rl")
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)
    if not bare:
        (project / "configs").mkdir(parents=True, exist_ok=True)
        if generation == "verl":
            install_verl(project, sys.executable)
            _save_model(project / LOCAL_MODEL)
        else:
            install(project, home / ".local" / "share" / "uv", sys.executable, generation)
    Board(root / "gpu").configure(n=gpus, foreign_pids=foreign_pids)
    port, api_port, env_port, hub_port, wandb_port = _free_ports(5)
    _cache_model(home / ".cache" / "huggingface")
    (root / "dev" / "shm").mkdir(exist_ok=True)
    (root / "dev" / "kmsg").unlink(missing_ok=True)
    # processes are real here, and so is what the kernel does to them
    (root / "dev" / "kmsg").symlink_to("/dev/kmsg")
    if generation == "2026-01":
        api_port = port
    tree = outside.repository(root) if bare else project
    _write_configs(
        tree / "configs", generation, {"port": port, "backend_port": api_port, "env_port": env_port}
    )
    revision = outside.commit(tree) if bare else ""
    client_key, host_key = (_key(root / "keys" / kind) for kind in ("client", "host"))
    public = " ".join(host_key.with_suffix(".pub").read_text().split()[:2])
    compiled = library.build(root / "lib")
    return Workspace(
        name,
        root,
        generation,
        home,
        project,
        port,
        api_port,
        env_port,
        hub_port,
        wandb_port,
        compiled,
        host_key,
        client_key,
        public,
        revision,
    )


def environment(
    workspace: Workspace,
    *,
    step_seconds: float,
    engine_seconds: float,
    pace: float,
    scope_root: int,
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the environment variables that every process of a practice pod gets. Nothing in them
    comes from this machine's user, such as XDG directories. `step_seconds` is how long a training
    step takes, `engine_seconds` how long the inference engine takes to load, and `pace` a factor on
    all waits that the real programs give in seconds. `scope_root` is the process id of the pod's
    main process, and `extra` are further variables.
    """
    home = workspace.home
    path = [Path(sys.executable).resolve().parent, *map(Path, _SYSTEM_PATH)]
    if workspace.revision:
        path = [outside.stubs(workspace.root), *outside.without_uv(workspace.root, path)]
    else:
        path = [home / ".local" / "bin", home / ".local" / "share" / "uv" / "bin", *path]
    values = {
        "HOME": str(home),
        "USER": USER,
        "LOGNAME": USER,
        "SHELL": shell(),
        "LANG": "C.UTF-8",
        "PATH": ":".join(map(str, path)),
        "BS4_SCOPE_ROOT": str(scope_root),
        "BS4_DEV": str(workspace.root / "dev"),
        "BS4_MINIATURE_GENERATION": workspace.generation,
        "RAY_TMPDIR": str(workspace.root / "tmp"),
        "BS4_MINIATURE_GPUS": str(workspace.root / "gpu"),
        "BS4_MINIATURE_HUB": f"127.0.0.1:{workspace.hub_port}",
        "BS4_MINIATURE_WANDB": f"127.0.0.1:{workspace.wandb_port}",
        # What the product itself asks of services goes to the same places: a practice pod never
        # talks to the world.
        "BS4_HUB_URL": f"http://127.0.0.1:{workspace.hub_port}",
        "BS4_WANDB_URL": f"http://127.0.0.1:{workspace.wandb_port}",
        "BS4_B2_URL": f"http://127.0.0.1:{workspace.hub_port}",
        "BS4_MINIATURE_STEP_SECONDS": str(step_seconds),
        "BS4_MINIATURE_ENGINE_SECONDS": str(engine_seconds),
        "BS4_MINIATURE_PACE": str(pace),
    }
    if workspace.library is None:
        values["BS4_GPU_SOURCE"] = str(workspace.root / "gpu" / "recorded.json")
    else:
        values["LD_LIBRARY_PATH"] = ":".join(
            filter(None, (str(workspace.library.parent), os.environ.get("LD_LIBRARY_PATH")))
        )
    return {**values, **(extra or {})}


def shell() -> str:
    """Return the path of the shell in which SSH sessions of a practice pod run: bash if this
    machine has it, otherwise sh.
    """
    return "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"


def _write_configs(directory: Path, generation: str, ports: Mapping[str, int]) -> None:
    """`rl.toml`, the server on its own as `infer.toml`, and `rl-apart.toml` for a run that expects
    that server to be there.
    """
    rl = string.Template((_TEMPLATES / f"{generation}.rl.toml").read_text()).substitute(ports)
    (directory / "rl.toml").write_text(rl)
    if generation == "verl":
        (directory / "sft.toml").write_text((_TEMPLATES / "verl.sft.toml").read_text())
        return  # its rollout engine lives in its own processes
    (directory / "rl-apart.toml").write_text(rl[: rl.index(_INFERENCE_MARK)])
    infer = string.Template((_TEMPLATES / f"{generation}.infer.toml").read_text()).substitute(ports)
    (directory / "infer.toml").write_text(infer)


def _cache_model(hub: Path) -> None:
    """The model of the pod's configs as an earlier download left it: a run then asks nobody."""
    snapshot = hub / "hub" / f"models--{MODEL.replace('/', '--')}" / "snapshots" / "main"
    _save_model(snapshot)


def _save_model(directory: Path) -> None:
    """What there is of a model for those who only look: its description."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(_MODEL_CONFIG))


def _free_ports(count: int) -> list[int]:
    """Ports nobody uses, below the range from which the kernel takes ports for outgoing
    connections: a pod's own requests must never sit on the port that its next server wants.
    """
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(20000, 32000)
        with socket.socket() as probe:
            if port not in found and probe.connect_ex(("127.0.0.1", port)) != 0:
                found.append(port)
    return found


def _key(path: Path) -> Path:
    if not path.exists():
        path.parent.mkdir(mode=0o700, exist_ok=True)
        key = asyncssh.generate_private_key("ssh-ed25519", comment="practice")
        key.write_private_key(path)
        key.write_public_key(path.with_suffix(".pub"))
        path.chmod(0o600)
    return path
