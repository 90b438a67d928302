"""What goes wrong on a pod, done to it from outside: signals, files, processes, ports. Mechanisms
only.

A process is found by what /proc shows of the pod's own descendants and then always named by pid and
start ticks.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import socket
import sys
import sysconfig
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from bs4_practice import tree
from bs4_practice.miniature import checkpoint, policy
from bs4_practice.miniature.rendezvous import World
from bs4_practice.miniature.steps import step_path
from bs4_practice.pod import PodError, PracticePod
from bs4_practice.tree import Process

COMPONENTS = (
    "uv",
    "launcher",
    "inference",
    "engine",
    "worker",
    "router",
    "orchestrator",
    "env-server",
    "env-worker",
    "torchrun",
    "rank",
    "task-runner",
    "ray-worker",
    "ray-agent",
    "tail",
)
_TITLES = {
    "PRIME-RL::Launcher": "launcher",
    "PRIME-RL::Inference": "inference",
    "PRIME-RL::Orchestrator": "orchestrator",
    "PRIME-RL::EnvServer": "env-server",
    "PRIME-RL::Trainer": "rank",
    "VLLM::EngineCore": "engine",
    "VLLM::Worker": "worker",
    "Verifiers::EnvWorker": "env-worker",
    "ray::TaskRunner": "task-runner",
    "ray::WorkerDict": "ray-worker",
    "ray::DashboardAgent": "ray-agent",
}
_SCRIPTS = {
    "rl": "launcher",
    "vllm-router": "router",
    "inference": "inference",
    "orchestrator": "orchestrator",
    "torchrun": "torchrun",
}
_HEALTH_SECONDS = 60.0
_DECOY = """import os, signal
if os.environ.get("DECOY_TITLE"):
    import setproctitle
    setproctitle.setproctitle(os.environ["DECOY_TITLE"])
while True:
    signal.pause()
"""


def component(process: Process) -> str | None:
    """Return which component of a run a process of the pod is, as one of COMPONENTS (such as
    "launcher", "engine" or "rank"), or None if it is none of them. The process's title or command
    line shows it.
    """
    title = next(
        (name for prefix, name in _TITLES.items() if process.title.startswith(prefix)), None
    )
    if title is not None:
        return title
    words = process.cmdline
    name = Path(words[0]).name if words else ""
    if name in ("uv", "tail"):
        return name
    if len(words) > 1 and name.startswith("python"):
        if "verl.trainer.main_ppo" in words:
            return "launcher"
        if "verl.trainer.fsdp_sft_trainer" in words:
            return "launcher" if "torch.distributed.run" in words else "rank"
        return (
            "rank"
            if "prime_rl.trainer.rl.train" in words and "-u" in words
            else _SCRIPTS.get(Path(words[1]).name)
        )
    return None


def find(pod: PracticePod, name: str) -> list[Process]:
    """Return all live processes of the pod that are the component `name`, one of COMPONENTS, such
    as "launcher", "engine" or "rank". Empty if there are none. Raises ValueError if the name is not
    one of COMPONENTS.

    In prime-rl of January 2026 the worker of the environment looks like the orchestrator, which has
    forked it. There a process counts as "env-worker" if its parent looks like an orchestrator too.
    """
    if name not in COMPONENTS:
        raise ValueError(f"Unknown component {name!r}; one of {', '.join(COMPONENTS)}.")
    kinds = {process.pid: (component(process), process) for process in pod.processes()}
    found = []
    for kind, process in kinds.values():
        parent = kinds.get(process.ppid, (None, None))[0]
        if kind == "orchestrator" and parent == "orchestrator":
            kind = "env-worker"
        if kind == name:
            found.append(process)
    return found


async def wait_for(
    pod: PracticePod, name: str, count: int = 1, timeout: float = 60.0
) -> list[Process]:
    """Wait until the pod has at least `count` processes of the component `name` (one of
    COMPONENTS), and return all of them. Raises TimeoutError if that takes longer than `timeout`
    seconds, and ValueError if the name is not one of COMPONENTS.
    """
    await until(
        lambda: len(find(pod, name)) >= count,
        timeout,
        f"{count} {name} process(es) in practice pod {pod.name}",
    )
    return find(pod, name)


async def until(
    condition: Callable[[], bool], timeout: float, what: str | Callable[[], str]
) -> None:
    """Call `condition` every 20 ms until it returns True. Raises TimeoutError if `timeout` seconds
    pass first. `what` is the end of the error's message, "Waited 60 s in vain for <what>.", or a
    function that returns this text and is called only then.
    """
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            missing = what if isinstance(what, str) else what()
            raise TimeoutError(f"Waited {timeout:g} s in vain for {missing}.")
        await asyncio.sleep(0.02)


def kill(process: Process) -> bool:
    """Send SIGKILL to `process`. Return True, or False if the process was gone already."""
    return tree.send(process, signal.SIGKILL)


def pause(process: Process) -> bool:
    """Send SIGSTOP to `process`. The process stays, keeps its memory, files and ports, and does
    nothing. Return True, or False if the process was gone already.
    """
    return tree.send(process, signal.SIGSTOP)


def resume(process: Process) -> bool:
    """Send SIGCONT to `process`, which then goes on after a `pause`. Return True, or False if the
    process was gone already.
    """
    return tree.send(process, signal.SIGCONT)


def terminate(process: Process) -> bool:
    """Send SIGTERM to `process`. Return True, or False if the process was gone already."""
    return tree.send(process, signal.SIGTERM)


def crash(process: Process, number: int = signal.SIGSEGV) -> bool:
    """Send the signal `number` to `process`, as a fault of its own program would. Return True, or
    False if the process was gone already.
    """
    return tree.send(process, number)


def hang_up(process: Process) -> bool:
    """Send SIGHUP to `process`, as the end of an SSH connection does. Return True, or False if the
    process was gone already.
    """
    return tree.send(process, signal.SIGHUP)


def interrupt(pod: PracticePod) -> int:
    """Send SIGINT to every process in the launcher's process group, as Control-C in a terminal
    does, and return how many processes it reached; 0 if the pod has no launcher.

    Trainer ranks are not among them: torchrun gives them sessions of their own.
    """
    launchers = find(pod, "launcher")
    if not launchers:
        return 0
    group = _process_group(launchers[0].pid)
    return sum(
        tree.send(process, signal.SIGINT)
        for process in pod.processes()
        if _process_group(process.pid) == group
    )


def _process_group(pid: int) -> int | None:
    try:
        raw = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(raw[raw.rindex(b")") + 2 :].split()[2])


def requests_running(port: int) -> int:
    """Return how many requests vLLM is answering at the moment, by its own metrics. `port` is the
    port of its API on this machine. Return 0 if the API does not answer.
    """
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2) as answer:
            text = answer.read().decode()
    except (OSError, urllib.error.URLError):
        return 0
    line = next(
        (line for line in text.splitlines() if line.startswith("vllm:num_requests_running{")), "0"
    )
    return int(float(line.rsplit(" ", 1)[-1]))


async def wait_generating(pod: PracticePod, timeout: float = 60.0) -> None:
    """Wait until the pod's vLLM is answering at least one request. Raises TimeoutError if that
    takes longer than `timeout` seconds.
    """
    await until(
        lambda: requests_running(pod.api_port) > 0,
        timeout,
        f"a generation in practice pod {pod.name}",
    )


async def kill_generating(pod: PracticePod, name: str = "engine") -> None:
    """Kill the process `name` of the pod's vLLM (its "engine" or "worker") with SIGKILL while the
    pod's vLLM is answering a request. The process is paused before the last look, so that no answer
    can be finished between that look and its death. Raises TimeoutError if no request comes within
    60 seconds.
    """
    process = (await asyncio.to_thread(find, pod, name))[0]
    while True:
        await wait_generating(pod)
        pause(process)
        if await asyncio.to_thread(requests_running, pod.api_port) > 0:
            break
        resume(process)
    kill(process)


def put_checkpoint(
    pod: PracticePod, step: int, parts: Sequence[str] = ("orchestrator",)
) -> list[Path]:
    """Write parts of a checkpoint of the step `step` into the run's directory, as an earlier run
    would have left them. `parts` names them: "trainer", "orchestrator" and "broadcast" (the weights
    for the inference server). Returns the directory of each part. Raises ValueError if a part has
    another name.
    """
    run = pod.run_dir / "run_default" if pod.generation == "2026-01" else pod.run_dir
    made = []
    for part in parts:
        if part == "orchestrator":
            progress = {
                "step": step,
                "total_tokens": step * 600,
                "total_samples": step * 8,
                "total_problems": step * 2,
            }
            directory = step_path(run / "checkpoints", step) / "orchestrator"
            checkpoint.save_orchestrator(
                directory, progress, {"examples": step * 2} if pod.generation == "2026-01" else None
            )
        elif part == "trainer":
            root = pod.run_dir / "checkpoints"
            directory = step_path(root, step) / "trainer"
            progress = {"step": step, "total_tokens": step * 4096, "total_samples": step * 8}
            state = {
                "progress": progress,
                "skill": policy.BASE_SKILL,
                "rng": checkpoint.rng_state(random.Random(step).getstate()),
            }
            checkpoint.TrainerCheckpoints(checkpoint.Rotation(root, None, None), World()).save(
                step, state
            )
        elif part == "broadcast":
            directory = step_path(run / "broadcasts", step)
            policy.write_weights(directory, policy.BASE_SKILL)
            (directory / "STABLE").touch()
        else:
            raise ValueError(
                f"A checkpoint has no part {part!r}; it has trainer, orchestrator and broadcast."
            )
        made.append(directory)
    return made


async def start_inference(
    pod: PracticePod, gpu: int = 0, *, port: int | None = None, api_port: int | None = None
) -> int:
    """Start an inference server on the GPU with the number `gpu`, in a session of its own and apart
    from any run, and wait until it answers. Returns the process id of the `uv` that runs it. `port`
    is the port at which clients reach the model, and `api_port` that of vLLM's own API; None takes
    the ports of the pod. The server's output goes to `inference-<port>.log` in the pod's home
    directory.

    Raises TimeoutError if the server does not answer within 60 seconds, and PodError if it cannot
    be started.
    """
    port, api_port = port or pod.inference_port, api_port or pod.api_port
    ports = ["--server.port", str(port)]
    if pod.generation != "2026-01":
        ports += ["--backend-port", str(api_port)]
    command = ["uv", "run", "inference", "@", "configs/infer.toml", *ports]
    log = pod.home / f"inference-{port}.log"
    pid = await pod.spawn(command, env={"CUDA_VISIBLE_DEVICES": str(gpu)}, log=log)
    await until(
        lambda: healthy(api_port),
        _HEALTH_SECONDS,
        f"the inference server on port {api_port} (its log: {log})",
    )
    return pid


def healthy(port: int) -> bool:
    """Return True if `/health` on `port` of this machine answers with status 200."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def listens(port: int) -> bool:
    """Return True if something accepts connections on `port` of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def hold_port(pod: PracticePod, port: int) -> int:
    """Start a program on the pod that listens on `port` and belongs to no run. Returns its process
    id once it listens. Raises TimeoutError if it does not within 60 seconds, and PodError if it
    cannot be started.
    """
    code = f"import socket, signal; s = socket.create_server(('127.0.0.1', {port})); signal.pause()"
    pid = await pod.spawn(["python3", "-c", code], cwd=pod.home)
    await until(lambda: listens(port), 60, f"a listener on port {port}")
    return pid


async def start_orphan_engine(pod: PracticePod, gpu: int = 0) -> list[Process]:
    """Start an inference server and kill its API server, so that its vLLM engine and worker live on
    without a parent and hold most of the memory of the GPU with the number `gpu`. Returns the
    processes of engine and worker. Raises PodError if the server had none, and TimeoutError if the
    server does not come up, or its end takes longer than 60 seconds.
    """
    port = _unused_port()
    api_port = port if pod.generation == "2026-01" else _unused_port()
    parent = await start_inference(pod, gpu, port=port, api_port=api_port)
    own = tree.below(parent)
    servers = [process for process in own if component(process) == "inference"]
    engines = [process for process in own if component(process) in ("engine", "worker")]
    if not servers or len(engines) < 2:
        raise PodError(
            f"The inference server in practice pod {pod.name} has no engine; read "
            f"{pod.home}/inference-{port}.log."
        )
    kill(servers[0])
    await until(lambda: tree.look(parent) is None, 60, "the end of the killed server's parent")
    for process in find(pod, "router"):
        if str(api_port) in process.title:
            terminate(process)
    return engines


def _unused_port() -> int:
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


async def start_decoy(pod: PracticePod, argv: Sequence[str], title: str | None = None) -> Process:
    """Start a process outside every run that only sleeps and looks exactly like a process of a run,
    and return the process. The decoy has the arguments `argv`, or the title `title` if one is
    given. Raises TimeoutError if the process does not look like that within 60 seconds. Raises
    PodError if it cannot be started.
    """
    directory = pod.home / ".decoy"
    directory.mkdir(exist_ok=True)
    # The interpreter under any argv[0] and with any arguments comes by this hook before it looks at
    # them.
    # Written once: a decoy that is just starting must not find the file empty, or it becomes what
    # it looks like.
    hook = directory / "sitecustomize.py"
    if not hook.exists():
        hook.write_text(_DECOY)
    packages = next((pod.project / ".venv" / "lib").glob("python*")) / "site-packages"
    own = {
        "PYTHONPATH": f"{directory}:{packages}",
        "PYTHONHOME": sysconfig.get_config_var("installed_base"),
        "DECOY_TITLE": title or "",
    }
    order = json.dumps({"exe": str(Path(sys.executable).resolve()), "argv": list(argv), "env": own})
    code = (
        "import json, os, sys; s = json.loads(sys.argv[1]); os.execve(s['exe'], s['argv'], "
        "{**os.environ, **s['env']})"
    )
    pid = await pod.spawn(["python3", "-c", code, order])
    wanted = title or " ".join(argv)
    await until(
        lambda: (now := tree.look(pid)) is not None and now.title.rstrip("\0 ") == wanted,
        60,
        f"a decoy called {wanted!r}",
    )
    return next(process for process in pod.processes() if process.pid == pid)
