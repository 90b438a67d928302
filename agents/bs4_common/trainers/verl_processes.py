"""Processes of verl as /proc shows them: the driver, what Ray starts for it, and torchrun's ranks
under SFT.

Ray titles its workers `ray::Class` (idle) and `ray::Class.method` (busy), in argv[0]; comm is cut
to 15 characters. Only the task runner trains. A dashboard agent outlives its driver by more than a
minute, so no other process of Ray proves that a run is alive. Class names: 0.2 `main_task` (a
task), 0.5 TaskRunner, AsyncvLLMServer, AgentLoopWorker, 0.6 vLLMHttpServer, SGLangHttpServer, 0.7
RewardLoopWorker, 0.9 TaskRunnerV1, CheckpointEngineWorker (measured with ray 2.60 on stand-ins of
these names).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from bs4_common.states import Phase
from bs4_common.trainers import launcher

_ACTOR = re.compile(r"ray::(?P<actor>[A-Za-z_]\w*)(?:\.(?P<method>\w+))?")
_COMPONENTS = (
    (re.compile(r"TaskRunner\w*|main_task"), "trainer"),
    (re.compile(r"\w*(?:vLLM|SGLang|sglang)\w*Server\w*"), "inference"),
    (re.compile(r"(?:AgentLoop|RewardLoop|RewardManager)\w*"), "env-server"),
    (
        re.compile(
            r"(?:WorkerDict|ActorRollout|CheckpointEngine|TransferQueue|RewardModel)\w*|\w*Worker"
        ),
        "worker",
    ),
)
#: Ray's own programs, none of which trains.
_RAY = (
    "gcs_server",
    "raylet",
    "dashboard.py",
    "monitor.py",
    "log_monitor.py",
    "ray-dashboard",
    "runtime_env_agent",
    "agent.py",
)
_SCRIPTS = {"main_ppo": "rl", "main_ppo_v0": "rl", "fsdp_sft_trainer": "sft", "sft_trainer": "sft"}
_MODULES = {
    "verl.trainer.main_ppo": "rl",
    "verl.trainer.main_ppo_v0": "rl",
    "verl.trainer.fsdp_sft_trainer": "sft",
    "verl.trainer.sft_trainer": "sft",
    "verl.trainer.sft_trainer_ray": "sft",
}
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
#: The phase that a part of a method's name shows, for methods of the task runner and of its
#: workers. The first that fits counts.
_PHASES: tuple[tuple[str, Phase], ...] = (
    ("save_checkpoint", "checkpoint"),
    ("load_checkpoint", "start-up"),
    ("init_model", "start-up"),
    ("generate", "rollout"),
    ("rollout", "rollout"),
    ("update_weights", "weight sync"),
    ("sync", "weight sync"),
    ("compute_", "train"),
    ("update_", "train"),
    ("validate", "evaluation"),
)


def component(cmdline: Sequence[str], comm: str) -> str | None:
    """Return which part of verl a process is, or None if it is none: launcher (the driver, or
    torchrun under SFT), trainer (the task runner), rank, worker, inference, engine, env-server, or
    ray (a process of Ray itself).
    """
    title = cmdline[0] if cmdline and cmdline[0] else comm
    if (actor := _ACTOR.match(title)) is not None:
        for pattern, name in _COMPONENTS:
            if pattern.fullmatch(actor["actor"]):
                return name
        return "ray"
    found = start_words(cmdline)
    if found is not None:
        # torchrun only waits for its ranks; the Ray driver only for its task runner.
        if found.kind == "sft" and not _is_torchrun(cmdline) and not found.entry.endswith("_ray"):
            return "rank"
        return "launcher"
    if Path(title).name in _RAY or any(
        "/ray/" in word and Path(word).name in _RAY for word in cmdline[:4]
    ):
        return "ray"
    # vLLM's engine processes have the same titles under every trainer.
    titled = launcher.component(cmdline[:1], comm)
    if titled in ("engine", "worker", "inference"):
        return titled
    return None


class Start(NamedTuple):
    """The parts of a command that starts verl. `kind` is "rl" or "sft", `entry` is the module or
    script that runs, and `words` are the words after it.
    """

    kind: str
    entry: str
    words: list[str]


def start_words(cmdline: Sequence[str]) -> Start | None:
    """Return the parts of a command that starts verl, such as `python3 -m verl.trainer.main_ppo
    k=v`, `python main_ppo.py k=v` or `torchrun ... -m verl.trainer.fsdp_sft_trainer k=v`. Return
    None for every other process, also for a shell around one of them.
    """
    if not cmdline or not (
        _PYTHON.fullmatch(Path(cmdline[0]).name) or Path(cmdline[0]).name == "torchrun"
    ):
        return None
    torchrun = _is_torchrun(cmdline)
    for index, word in enumerate(cmdline[1:], 1):
        rest = list(cmdline[index + 1 :])
        if word in _MODULES:
            if cmdline[index - 1] == "-m":
                return Start(_MODULES[word], word, rest)
            return None
        if word.endswith(".py") and cmdline[index - 1] != "-m":
            name = Path(word).name.removesuffix(".py")
            if name in _SCRIPTS:
                return Start(_SCRIPTS[name], word, rest)
            if not torchrun:
                return None  # another script: what follows are its words
        elif word in ("-c", "-") or (
            cmdline[index - 1] == "-m" and not (torchrun and word == "torch.distributed.run")
        ):
            return None
    return None


def phase(titles: Iterable[str]) -> Phase | Literal[""]:
    """Return what a verl run is doing now, such as "rollout" or "train", from the process titles of
    its live processes. Return "" if no title shows it. If the titles show several phases, the one
    that comes first in a fixed order is returned.

    A busy worker has the method that it runs in its title. An idle worker's title names no method,
    so it shows nothing.
    """
    methods = []
    for title in titles:
        match = _ACTOR.match(title)
        if match is not None and match["method"]:
            # The worker group is called actor_rollout whatever it does, so only the rest counts.
            method = match["method"].lower().removeprefix("actor_rollout_")
            methods.append(method.removeprefix("ref_"))
    for part, name in _PHASES:
        if any(part in method for method in methods):
            return name
    return ""


def _is_torchrun(cmdline: Sequence[str]) -> bool:
    """Return True if the command is torchrun, by script or by module."""
    for word in cmdline[:4]:
        if Path(word).name == "torchrun" or word == "torch.distributed.run":
            return True
    return False
