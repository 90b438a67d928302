"""The inference server: its processes, its port, its model, its memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bs4_practice import disks, faults
from bs4_practice.person import edit_config, recover, restore_and_recover, with_config
from bs4_practice.scenario import BOTH, NEW, OLD, Scenario, advance, nothing, start, train
from bs4_practice.stage import Stage
from bs4_practice.tree import Process

#: Three segments of the engine's ring buffer, which takes one.
_SHM_MEGABYTES = 3


async def kill_server(stage: Stage) -> None:
    """Kill the process of the run's inference server with SIGKILL."""
    faults.kill(faults.find(stage.pod, "inference")[0])


async def end_server(stage: Stage) -> None:
    """Send SIGTERM to the run's inference server at a moment without requests, between two batches.
    The server then shuts down cleanly and with exit code 0, although the run still needs it. Raises
    TimeoutError if no batch begins within 60 seconds, or if the batch does not end within 60 more.
    """
    server = faults.find(stage.pod, "inference")[0]
    await faults.wait_generating(stage.pod)
    await faults.until(
        lambda: faults.requests_running(stage.pod.api_port) == 0, 60, "a moment without requests"
    )
    faults.terminate(server)


async def kill_worker(stage: Stage) -> None:
    """Kill the run's vLLM worker with SIGKILL while the engine generates. Raises TimeoutError if no
    generation begins within 60 seconds.
    """
    await faults.kill_generating(stage.pod, "worker")


async def stop_worker(stage: Stage) -> None:
    """Stop the run's vLLM worker with SIGSTOP while the engine generates; its process stays and
    does nothing. Raises TimeoutError if no generation begins within 60 seconds.
    """
    await faults.wait_generating(stage.pod)
    faults.pause(faults.find(stage.pod, "worker")[0])


async def kill_worker_while_it_loads(stage: Stage) -> None:
    """Launch the run and kill the vLLM worker as soon as its process is there, before its model is
    loaded. Raises TimeoutError if there is no worker within two minutes. Raises StageError if the
    run cannot be started.
    """
    await _to_the_loading_worker(stage, faults.kill)


async def stop_worker_while_it_loads(stage: Stage) -> None:
    """Launch the run and stop the vLLM worker with SIGSTOP as soon as its process is there, before
    its model is loaded. Raises TimeoutError if there is no worker within two minutes. Raises
    StageError if the run cannot be started.
    """
    await _to_the_loading_worker(stage, faults.pause)


async def _to_the_loading_worker(stage: Stage, break_it: Callable[[Process], bool]) -> None:
    """Launch the run and call `break_it` with its vLLM worker as soon as that is there. The worker
    is waited for during the launch: when the launch is told as done, the model may be loaded.
    """

    async def soon() -> None:
        break_it((await faults.wait_for(stage.pod, "worker", timeout=120))[0])

    breaking = asyncio.create_task(soon())
    try:
        await start(stage)
        await breaking
    finally:
        breaking.cancel()


async def somebody_on_the_port(stage: Stage) -> None:
    """Start a foreign server on the port of the inference engine, then launch the run, which needs
    that port. Does not wait for the run's first step. Raises StageError if the run cannot be
    started. Raises PodError or TimeoutError if that program cannot be started.
    """
    await faults.hold_port(stage.pod, stage.pod.api_port)
    await start(stage)


async def somebody_on_the_environments_port(stage: Stage) -> None:
    """Start a foreign server on the port of the environment server, then launch the run, which
    needs that port. Does not wait for the run's first step. Raises StageError if the run cannot be
    started. Raises PodError or TimeoutError if that program cannot be started.
    """
    await faults.hold_port(stage.pod, stage.pod.workspace.env_port)
    await start(stage)


async def end_own_listener(stage: Stage) -> None:
    """Kill the servers which were started on the pod beside the run, to hold ports that the run
    needs. Then have the agent resume the run. Raises StageError if the run cannot be resumed.
    """
    for process in stage.pod.processes():
        if "create_server" in process.title:
            faults.kill(process)
    await recover(stage)


async def fill_shared_memory(stage: Stage) -> None:
    """Give the pod's `/dev/shm` a small disk of its own (3 MiB), fill it with files of shared
    memory as killed inference engines leave them, and launch the run. Does not wait for the run's
    first step. Raises StageError if the run cannot be started.
    """
    directory = disks.give_own_disk(stage, stage.pod.root / "dev" / "shm", _SHM_MEGABYTES)
    for number in range(_SHM_MEGABYTES):
        (directory / f"psm_dead{number}").write_bytes(b"\0" * (disks.MIB - 4096))
    await start(stage)


async def clear_shared_memory(stage: Stage) -> None:
    """Move the files that killed inference engines left in the pod's `/dev/shm` into its home
    directory, and have the agent resume the run. Raises StageError if it cannot be resumed.
    """
    for segment in (stage.pod.root / "dev" / "shm").glob("psm_dead*"):
        target = stage.pod.home / f"aside-{segment.name}"
        target.write_bytes(segment.read_bytes())
        segment.unlink()
    await recover(stage)


async def start_a_plain_server(stage: Stage) -> None:
    """Start vLLM's own server (`vllm serve`), which lacks the routes that prime-rl adds to load new
    weights. Returns when the server answers; raises TimeoutError if that takes longer than a
    minute.
    """
    model = "PrimeIntellect/Qwen3-0.6B-Reverse-Text-SFT"
    port = stage.pod.inference_port
    command = ["uv", "run", "vllm", "serve", model, "--port", str(port)]
    await stage.pod.spawn(
        command, env={"CUDA_VISIBLE_DEVICES": "0"}, log=stage.pod.home / "vllm.log"
    )
    await faults.until(lambda: faults.healthy(port), 60, f"the plain server on port {port}")


async def train_on_it(stage: Stage) -> None:
    """Launch a run that has no inference server of its own and uses the one that runs already.
    Returns when the run has begun to train, and raises StageError if it fails to.
    """
    await stage.launch(config="configs/rl-apart.toml")


async def start_the_right_server(stage: Stage) -> None:
    """Terminate the plain `vllm serve`, start prime-rl's inference server in its place, and have
    the agent resume the run. Raises StageError if the plain server still listens after 60 seconds
    or the run cannot be resumed, and TimeoutError if the new server does not answer within 60
    seconds. Raises PodError if it cannot be started.
    """
    for process in stage.pod.processes():
        if "vllm serve" in process.title and not process.title.startswith("uv"):
            faults.terminate(process)
    await stage.until(
        lambda: not faults.listens(stage.pod.inference_port), 60, "the end of the plain server"
    )
    await faults.start_inference(stage.pod)
    await recover(stage)


def _too_long(stage: Stage) -> dict[str, object]:
    table = (
        "inference.model.max_model_len" if stage.trainer == OLD else "inference.vllm.max_model_len"
    )
    return {table: 4_000_000}


def _too_many_tokens(stage: Stage) -> dict[str, object]:
    return (
        {"orchestrator.sampling.max_tokens": 8192}
        if stage.trainer == OLD
        else {"orchestrator.train.sampling.max_completion_tokens": 8192}
    )


async def wait(stage: Stage) -> None:
    """Wait until step 2 of the run has finished, and do nothing else: the advice for a slow start
    is to wait, because the model is still loading. Raises StageError if that takes longer than two
    minutes.
    """
    await advance(stage, "demo", 2)


async def lead_to_unknown_architecture(stage: Stage) -> None:
    """Write a model into the pod's home directory whose architecture vLLM does not know, name that
    model in the config, and launch the run. Does not wait for the run's first step. Raises
    StageError if the run cannot be started.
    """
    model = stage.pod.home / "models" / "new-model"
    model.mkdir(parents=True)
    (model / "config.json").write_text(
        '{"architectures": ["Ministral3ForCausalLM"], "model_type": "ministral3"}'
    )
    edit_config(stage, {"model.name": str(model)})
    await start(stage)


async def spoil_broadcasts(stage: Stage) -> None:
    """Start a program on the pod that cuts the file of the weights in every new broadcast (the
    trainer's hand-over of its weights to the inference server) to 64 bytes, as a disk does that
    loses the ends of files. Broadcasts that exist already stay whole. Returns once the program is
    started; the program runs for about a minute or longer.
    """
    root = stage.pod.run_dir / ("run_default/broadcasts" if stage.trainer == OLD else "broadcasts")
    code = (
        "import os, pathlib, sys, time\nroot = pathlib.Path(sys.argv[1])\n"
        "whole = set(root.glob('step_*'))\n"
        "for _ in range(60_000):\n"
        "    for path in root.glob('step_*/model.safetensors'):\n"
        "        if path.parent not in whole and path.stat().st_size > 64: os.truncate(path, 64)\n"
        "    time.sleep(0.001)\n"
    )
    await stage.pod.spawn(["python3", "-c", code, str(root)], cwd=stage.pod.home)


async def end_the_spoiler(stage: Stage) -> None:
    """Kill the program that `spoil_broadcasts` started, and have the agent resume the run. Raises
    StageError if it cannot be resumed.
    """
    for process in stage.pod.processes():
        if "os.truncate" in process.title:
            faults.kill(process)
    await recover(stage)


async def stop_engine(stage: Stage) -> None:
    """Stop the run's vLLM engine with SIGSTOP; its process stays and does nothing."""
    faults.pause(faults.find(stage.pod, "engine")[0])


_QUICK_WAITS = {"pace": 0.01, "engine_seconds": 8.0}
ALL = (
    Scenario("inference-exited", "inference-exited", BOTH, train, kill_server),
    Scenario("inference-exited-clean", "inference-exited-clean", BOTH, train, end_server),
    Scenario("vllm-worker-died", "vllm-worker-died", BOTH, train, kill_worker),
    Scenario(
        "vllm-worker-stall", "vllm-worker-stall", BOTH, train, stop_worker, pod={"pace": 0.03}
    ),
    Scenario(
        "vllm-engine-start-failed",
        "vllm-engine-start-failed",
        BOTH,
        nothing,
        kill_worker_while_it_loads,
        pod={"engine_seconds": 3.0},
    ),
    Scenario(
        "inference-slow-start",
        "inference-slow-start",
        BOTH,
        nothing,
        start,
        repair=wait,
        pod=_QUICK_WAITS,
    ),
    Scenario(
        "inference-not-ready",
        "inference-not-ready",
        BOTH,
        nothing,
        stop_worker_while_it_loads,
        pod={"pace": 0.004, "engine_seconds": 2.0},
    ),
    Scenario(
        "context-overflow",
        "context-overflow",
        (NEW,),
        nothing,
        with_config(_too_many_tokens),
        repair=restore_and_recover,
        detect_s=300.0,
    ),
    Scenario(
        "weight-sync-failed",
        "weight-sync-failed",
        BOTH,
        train,
        spoil_broadcasts,
        repair=end_the_spoiler,
        pod={"pace": 0.02},
    ),
    Scenario(
        "weight-sync-timeout",
        "weight-sync-timeout",
        (NEW,),
        train,
        stop_engine,
        pod={"pace": 0.004},
    ),
    Scenario(
        "port-in-use", "port-in-use", BOTH, nothing, somebody_on_the_port, repair=end_own_listener
    ),
    Scenario(
        "zmq-address-in-use",
        "zmq-address-in-use",
        (NEW,),
        nothing,
        somebody_on_the_environments_port,
        repair=end_own_listener,
    ),
    Scenario(
        "vllm-kv-too-small",
        "vllm-kv-too-small",
        BOTH,
        nothing,
        with_config(_too_long),
        repair=restore_and_recover,
    ),
    Scenario(
        "model-unsupported",
        "model-unsupported",
        BOTH,
        nothing,
        lead_to_unknown_architecture,
        repair=restore_and_recover,
    ),
    Scenario(
        "dev-shm-full",
        "dev-shm-full",
        BOTH,
        nothing,
        fill_shared_memory,
        repair=clear_shared_memory,
        needs=disks.needs_mounts,
    ),
    Scenario(
        "weight-route-missing",
        "weight-route-missing",
        (OLD,),
        start_a_plain_server,
        train_on_it,
        repair=start_the_right_server,
    ),
)
