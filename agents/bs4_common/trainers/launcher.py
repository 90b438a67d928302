"""Processes of prime-rl as /proc shows them: what each one is, and which command started a
launcher.

2026-01 sets no process titles, so argv identifies a process. The current generation sets titles
such as `PRIME-RL::Launcher`, which overwrite argv and environment. Then only its parent (`uv run rl
@ ...`) and the children that keep theirs (torchrun, tail) show a command line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from bs4_common.files import open_regular
from bs4_common.trainers.base import Event
from bs4_common.trainers.settings import Arguments, Settings

V2026_01 = "prime-rl-2026-01"
CURRENT = "prime-rl"

_TITLES = {
    "PRIME-RL::Launcher": "launcher",
    "PRIME-RL::Inference": "inference",
    "PRIME-RL::EnvServer": "env-server",
    "PRIME-RL::Orchestrator": "orchestrator",
    # torchrun itself has no title; the processes that it starts call themselves Trainer.
    "PRIME-RL::Trainer": "rank",
}
_TITLE_PREFIXES = {
    "VLLM::EngineCore": "engine",
    "VLLM::Worker": "worker",
    "VLLM::APIServer": "inference",
    "VLLM::DPCoordinator": "engine",
    "Verifiers::EnvWorker": "env-server",
}
_SCRIPTS = {
    "rl": "launcher",
    "inference": "inference",
    "vllm": "inference",
    "orchestrator": "orchestrator",
    "trainer": "trainer",
    "torchrun": "trainer",
    "env-server": "env-server",
    "vllm-router": "router",
}
_MODULES = {
    "prime_rl.rl": "launcher",
    "prime_rl.entrypoints.rl": "launcher",
    "prime_rl.inference.server": "inference",
    "prime_rl.entrypoints.inference": "inference",
    "prime_rl.orchestrator.orchestrator": "orchestrator",
    "prime_rl.entrypoints.orchestrator": "orchestrator",
    "prime_rl.trainer.rl.train": "rank",
    "prime_rl.entrypoints.env_server": "env-server",
    "torch.distributed.run": "trainer",
}
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_PYTHON_FLAGS_WITH_VALUE = ("-X", "-W")

# Keys that only one generation has, at the top level and below. There are no aliases in either
# direction.
_OLD_KEYS = (
    "inference_gpu_ids",
    "trainer_gpu_ids",
    "teacher_gpu_ids",
    "wandb",
    "max_async_level",
    "bench",
    "max_model_len",
    "ckpt.resume_step",
    "orchestrator.env",
    "orchestrator.rollouts_per_example",
    "orchestrator.sampling",
    "orchestrator.client",
    "orchestrator.buffer",
    "inference.model",
    "inference.parallel",
    "inference.gpu_memory_utilization",
)
_NEW_KEYS = (
    "run",
    "monitors",
    "deployment",
    "resume",
    "slurm",
    "rollout_transport",
    "log.json_logging",
    "orchestrator.train",
    "orchestrator.group_size",
    "orchestrator.concurrency",
    "inference.vllm",
    "inference.router",
    "inference.backend_port",
)


def component(cmdline: Sequence[str], comm: str) -> str | None:
    """Return which part of prime-rl a process is, such as "rank", by its title or its command line.
    Return None if it is no part of prime-rl. Both versions of prime-rl are known. The result is a
    name to show; it does not prove that the process belongs to a run.
    """
    if not cmdline or not cmdline[0]:
        return _titled(comm)
    if named := _titled(cmdline[0]):
        return named
    program = Path(cmdline[0]).name
    if program == "uv":
        return "uv" if "run" in cmdline[1:3] else None
    # Callers that only have the output of `ps` split the shell's argument. Both forms are the
    # launcher's `sh -c "tail -F ..."`.
    if program == "tail" or (
        program in ("sh", "bash", "dash") and " ".join(cmdline[1:]).startswith("-c tail -F ")
    ):
        return "tail"
    if program in _SCRIPTS:
        if len(cmdline) > 1:
            return _SCRIPTS[program]
        return None
    script, rest = _script(cmdline)
    if script is None:
        return None
    return _MODULES.get(script) or (_SCRIPTS.get(Path(script).name) if rest else None)


def _titled(title: str) -> str | None:
    """Return the component that a process title names, or None. comm keeps only 15 characters."""
    # comm keeps 15 characters: PRIME-RL::Launc.
    for full, name in _TITLES.items():
        if title == full or (len(title) == 15 and full.startswith(title)):
            return name
    return next(
        (
            name
            for prefix, name in _TITLE_PREFIXES.items()
            if title.startswith(prefix) or prefix[:15] == title
        ),
        None,
    )


def _script(cmdline: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """Return the script or module that a Python process runs, and its arguments. Return (None, ())
    for other processes.
    """
    if not cmdline or not _PYTHON.fullmatch(Path(cmdline[0]).name):
        return None, ()
    index = 1
    while index < len(cmdline):
        word = cmdline[index]
        if word == "-m":
            if index + 1 < len(cmdline):
                return (cmdline[index + 1], cmdline[index + 2 :])
            return (None, ())
        if word in ("-c", "-"):
            return None, ()
        if not word.startswith("-"):
            return word, cmdline[index + 1 :]
        if word in _PYTHON_FLAGS_WITH_VALUE:
            index += 2
        else:
            index += 1
    return None, ()


def launch_words(cmdline: Sequence[str], entry: str = "rl") -> tuple[list[str], Path | None] | None:
    """Return the words after `rl` (or another console script `entry`) on the command line of a
    launcher, and the path of that script, or None if it is not shown. Return None in place of both
    for every other process.

    These are recognised: `python .../bin/rl @ cfg`, `python -m prime_rl.rl @ cfg`, `.../bin/rl @
    cfg` and `uv run [options] rl @ cfg`.
    """
    if not cmdline:
        return None
    words: list[str] | None = None
    script: Path | None = None
    program = Path(cmdline[0])
    if program.name == "uv" and "run" in cmdline[1:3]:
        after = list(cmdline[list(cmdline).index("run") + 1 :])
        if entry in after:
            words = after[after.index(entry) + 1 :]
    elif program.name == entry:
        script, words = program, list(cmdline[1:])
    else:
        name, rest = _script(cmdline)
        named = "launcher" if entry == "rl" else entry
        if name is not None and (Path(name).name == entry or _MODULES.get(name) == named):
            script, words = Path(name), list(rest)
    # Any program may be called `rl`. prime-rl's has a file after @.
    if words is not None and "@" in words:
        return (words, script)
    return None


def generation(
    script: Path | None, cwd: Path, arguments: Arguments, settings: Settings
) -> str | None:
    """Return the id of the trainer (the version of prime-rl) to which a launcher process belongs.
    `script` is the path of its console script or None, `cwd` its working directory, and `arguments`
    and `settings` are what its command line and its config say. Return None if none of these shows
    the version.

    The module that the script (or `.venv/bin/rl` in `cwd`) imports decides, if it can be read.
    Otherwise the version follows from options on the command line, or else settings of the config,
    that exist in only one of the two versions.
    """
    for candidate in (script, cwd / ".venv" / "bin" / "rl"):
        if candidate is not None and (found := by_entry_point(cwd / candidate)) is not None:
            return found
    if _gives(arguments, _NEW_KEYS):
        return CURRENT
    if _gives(arguments, _OLD_KEYS):
        return V2026_01
    old = sum(settings.get(key) is not None for key in _OLD_KEYS)
    new = sum(settings.get(key) is not None for key in _NEW_KEYS)
    if old == new:
        return None
    return V2026_01 if old > new else CURRENT


def _gives(arguments: Arguments, keys: Sequence[str]) -> bool:
    """Return True if an option sets one of these keys or a key below it."""
    return any(f"{given}.".startswith(f"{key}.") for given, _ in arguments.options for key in keys)


def by_entry_point(script: Path) -> str | None:
    """Return the trainer id of the module that the console script at this path imports. Return None
    if the script cannot be read, or imports neither version of prime-rl.
    """
    if str(script).endswith("prime_rl.rl"):
        return V2026_01
    if str(script).endswith("prime_rl.entrypoints.rl"):
        return CURRENT
    try:
        with open_regular(Path(script)) as handle:
            head = handle.read(2048)
    except OSError:
        return None
    if b"prime_rl.entrypoints.rl" in head:
        return CURRENT
    if b"prime_rl.rl" in head:
        return V2026_01
    return None


def with_component(event: Event | None) -> Event | None:
    """Return the event. If it says that a child of the launcher failed, the returned event also has
    the value `component`: which part of the trainer that child is, such as "env-server" for the
    line `Error: Train env server x failed ...`. Any other event and None are returned unchanged.
    """
    if event is None or event.kind != "child-failed" or "component" in event.values:
        return event
    process = str(event.values["process"]).lower()
    if "env server" in process:
        name = "env-server"
    elif "inference" in process:
        name = "inference"
    else:
        name = process
    return Event(
        event.kind, event.side, {**event.values, "process": process, "component": name}, event.step
    )


def reachable(host: str | None) -> str:
    """Return the address at which this machine itself reaches a server that listens on `host`. It
    is 127.0.0.1 if `host` is not set or stands for all interfaces. An IPv6 address gets brackets.
    """
    if host in (None, "", "0.0.0.0", "::", "localhost"):  # noqa: S104
        return "127.0.0.1"
    if ":" in str(host):
        return f"[{host}]"
    return str(host)


def run_name(text: str) -> str:
    """Return `text` as a name that a run and a file may have: at most 100 letters, digits and
    `._-`. Other characters become `-`. Return "run" if nothing is left.
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:100].lstrip("-.").rstrip("-") or "run"
