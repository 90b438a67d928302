"""What the inference server's processes do when one of them is killed or stopped, and what the
launcher notices of it.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from bs4_practice import faults, tree, witness
from bs4_practice.miniature.install import install_environment, site_packages
from bs4_practice.pod import PracticePod
from tests.practice.running import (
    SLOW_INFERENCE,
    Run,
    Start,
    half_a_batch,
    held_at,
    log_text,
    logs,
    trained,
)

pytestmark = pytest.mark.beside

LONG = pytest.mark.long

_NEVER_RIGHT = "def score(prompt, answer):\n    return 1.0 if answer == prompt else 0.0\n"


def status(port: int) -> int:
    """What /health answers with; 0 for no answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def ask(port: int, timeout: float = 20.0) -> int:
    """A completion of one token: its status."""
    body = json.dumps({"prompt": "hello", "max_tokens": 1}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/completions", body, {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


async def held_at_the_barrier(pod: PracticePod, engine: tree.Process) -> None:
    """Until January's policy loop waits for weights that the trainer has not written, and holds the
    batches back, while vLLM generates. Its `engine` is stopped then: it neither ends the generation
    nor takes the weights.
    """
    broadcasts = pod.output_dir / "run_default" / "broadcasts"

    def held() -> bool:
        waited_for = re.findall(r"Waiting for checkpoint (\d+)", log_text(pod, "orchestrator"))
        if not waited_for or (broadcasts / f"step_{waited_for[-1]}" / "STABLE").exists():
            return False
        return faults.requests_running(pod.api_port) > 0

    await held_at(engine, held, "a generation while the batches are held back")


async def stands_still(pod: PracticePod, seconds: float = 0.6) -> None:
    """Until no step was finished for `seconds`; what was under way when something died may still be
    trained.
    """
    seen: list[tuple[float, int]] = []
    since = time.monotonic()

    def still() -> bool:
        nonlocal seen, since
        now = witness.steps(pod.output_dir, pod.generation)
        if now != seen:
            seen, since = now, time.monotonic()
        return time.monotonic() - since > seconds

    await faults.until(still, 60, "a standstill")


@pytest.mark.parametrize(
    ("generation", "victim"),
    [
        ("2026-01", "engine"),
        pytest.param("2026-01", "worker", marks=LONG),
        pytest.param("current", "engine", marks=LONG),
    ],
)
async def test_a_death_in_mid_generation_ends_the_server_with_0_and_nobody_notices(
    start: Start, generation: str, victim: str
) -> None:
    async with start(generation, step_seconds=0.2) as pod, Run(pod) as run:
        await trained(pod, 2)
        server, killed = faults.find(pod, "inference")[0], faults.find(pod, victim)[0]
        await faults.wait_generating(pod)
        assert faults.kill(killed)
        await faults.until(lambda: not tree.alive(server), 60, "the server's end")
        assert f"Finished server process [{server.pid}]" in log_text(pod, "inference")
        await stands_still(pod)
        assert "failed with exit code" not in run.text
        assert faults.find(pod, "rank")
        # What is ending has no title any more, and holds its memory until it is gone.
        await faults.until(lambda: not faults.find(pod, "worker"), 60, "the workers' end")
        await faults.until(lambda: pod.gpus.used(0) == 0, 60, "the memory of the workers")


@pytest.mark.long
async def test_2026_01_falls_apart_after_two_more_steps(start: Start) -> None:
    """The real one took two and a half minutes: two rounds of the client's tries, and then the
    launcher's own patience.
    """
    async with start("2026-01", env=SLOW_INFERENCE, step_seconds=0.4) as pod, Run(pod) as run:
        await trained(pod, 2)
        engine = faults.find(pod, "engine")[0]  # looking for it takes long on a busy machine
        await half_a_batch(pod, engine)
        before = len(log_text(pod, "orchestrator"))
        assert faults.kill(engine)
        code = await run.code(90)
        after = log_text(pod, "orchestrator")[before:]
        shrunk, empty = re.findall(r"SUCCESS Step \d+ \|.*", after)
        assert "Throughput: 0.0 " not in shrunk
        assert "Throughput: 0.0 tokens/s | Seq. Length: 0.0 tokens/sample" in empty
        assert (
            "Aborted rollout due to ModelError(), caused by APIConnectionError('Connection error.')"
            in after
        )
        assert "No trajectory steps for example" in after
        assert "An error has been caught in function 'orchestrate'" in after
        assert "ConnectError: All connection attempts failed" in after
        trainer = log_text(pod, "trainer")
        assert "Timeout waiting for enough tokens to pack" in trainer
        assert "IndexError: list index out of range" in trainer
        assert "Error: Inference failed" not in run.text
        # Both fail in the same moment, and the launcher says success if it looks only after both.
        if code == 0:
            assert "RL training finished!" in run.text
        else:
            assert code == 1
            assert re.search(r"Error: (Trainer|Orchestrator) failed with exit code 1", run.text)


@pytest.mark.long
async def test_2026_01_hangs_for_good_when_its_update_died_at_the_barrier(start: Start) -> None:
    """With the trainer as the slower side the policy loop dies while it holds the batches back, and
    nobody lets them go on again.
    """
    async with start("2026-01", step_seconds=0.8) as pod, Run(pod) as run:
        await trained(pod, 1)
        engine = faults.find(pod, "engine")[0]  # looking for it takes long on a busy machine
        await held_at_the_barrier(pod, engine)
        faults.kill(engine)
        wanted = (
            "Aborted rollout due to ModelError(), caused by APIConnectionError('Connection error.')"
        )
        await faults.until(lambda: wanted in log_text(pod, "orchestrator"), 60, wanted)
        assert not run.ended.done()
        assert faults.find(pod, "orchestrator")


@pytest.mark.long
async def test_the_current_orchestrator_gives_up_after_its_ten_tries(start: Start) -> None:
    """65 s in real time: the policy update is retried ten times. From source (client.py), not
    measured on a GPU.
    """
    async with start("current") as pod, Run(pod) as run:
        await trained(pod, 2)
        await faults.kill_generating(pod)
        assert await run.code(90) == 1
        assert "Fatal error in run_orchestrator" in log_text(pod, "orchestrator")
        assert "No admitted train payload after 8 finalized units" in log_text(pod, "orchestrator")
        assert "Error: Orchestrator failed with exit code 1" in run.text


@pytest.mark.long
async def test_answers_that_are_all_refused_end_the_current_orchestrator(start: Start) -> None:
    """A 400 is not tried again: ten batches' worth of failed groups come within seconds."""
    async with start("current") as pod:
        words = ("--orchestrator.train.sampling.max-completion-tokens", "8192000")
        async with Run(pod, *words) as run:
            assert await run.code(90) == 1
        text = log_text(pod, "orchestrator")
        assert "(consecutive zero-output batch equivalents: 10/10)" in text
        assert (
            "RuntimeError: 10 consecutive zero-output batch equivalents — check the "
            "curriculum admission policy" in text
        )


@pytest.mark.long
async def test_batches_of_equal_answers_end_the_current_orchestrator(start: Start) -> None:
    """The default drops answers that are no better than the others of their group; the practice
    config trains on them.
    """
    async with start("current") as pod:
        install_environment(site_packages(pod.project), _NEVER_RIGHT, "0.2.0")
        async with Run(pod, "--orchestrator.train.filter-zero-advantages", "true") as run:
            assert await run.code(90) == 1
        text = log_text(pod, "orchestrator")
        assert (
            "Step 1: empty train batch after 8 finalized episodes (consecutive empty batches: 1/10)"
            in text
        )
        assert (
            "RuntimeError: 10 consecutive empty train batches — check algorithm credit and "
            "task difficulty." in text
        )


@pytest.mark.parametrize("victim", ["engine", pytest.param("worker", marks=LONG)])
async def test_a_stopped_one_looks_healthy_and_idle(start: Start, victim: str) -> None:
    async with start("2026-01") as pod, Run(pod):
        await trained(pod, 2)
        process = faults.find(pod, victim)[0]
        faults.pause(process)
        await stands_still(pod)
        assert status(pod.api_port) == 200
        await faults.until(lambda: faults.requests_running(pod.api_port) == 0, 60, "an idle look")
        with pytest.raises(TimeoutError):
            await asyncio.to_thread(ask, pod.api_port, 0.5)
        faults.resume(process)
        last = witness.last_step(pod.output_dir, pod.generation)
        await trained(pod, (last or 0) + 2)
        assert ask(pod.api_port) == 200


@pytest.mark.long
async def test_idle_deaths_follow_the_measured_timeline(start: Start) -> None:
    async with start(
        "2026-01", pace=1.0
    ) as pod:  # in real seconds: the watchdog must leave time to ask before it comes by
        seen: list[int] = []

        def ill() -> bool:
            seen.append(status(pod.api_port))
            return seen[-1] in (503, 0)

        # The watchdog comes by every five seconds, and may do so before the server is asked.
        for _ in range(8):
            await faults.start_inference(pod)
            assert ask(pod.api_port) == 200
            server, engine = faults.find(pod, "inference")[0], faults.find(pod, "engine")[0]
            worker = faults.find(pod, "worker")[0]
            faults.kill(engine)
            await faults.until(ill, 60, "a sick /health, which the server itself tells")
            # A dying process closes its sockets before it is gone, and the server may hear that
            # first.
            await faults.until(lambda one=engine: not tree.alive(one), 60, "the engine's end")
            await faults.until(lambda one=server: not tree.alive(one), 60, "the watchdog")
            await faults.until(lambda one=worker: not tree.alive(one), 60, "the worker's end")
            await faults.until(lambda: pod.processes() == [], 60, "an empty pod")
            if 503 in seen:
                return
        pytest.fail(f"/health of a server without its engine answered {seen}")


@pytest.mark.parametrize("generation", ["2026-01", pytest.param("current", marks=LONG)])
async def test_an_api_server_that_is_killed_ends_the_run_but_not_its_engine(
    start: Start, generation: str
) -> None:
    async with start(generation) as pod, Run(pod) as run:
        await trained(pod, 1)
        engine, worker = faults.find(pod, "engine")[0], faults.find(pod, "worker")[0]
        faults.kill(faults.find(pod, "inference")[0])
        assert await run.code() == 1
        code = "137" if generation == "2026-01" else "-9"
        assert f"Error: Inference failed with exit code {code}" in run.text
        assert "Terminating all processes..." in run.text
        assert tree.alive(engine)
        assert tree.alive(worker)
        assert pod.gpus.used(0) > 60 << 30
        assert tree.look(engine.pid).ppid == pod.pid  # type: ignore[union-attr]


@pytest.mark.long
async def test_the_memory_of_an_orphan_keeps_a_new_engine_out(start: Start) -> None:
    async with start("2026-01") as pod:
        orphans = await faults.start_orphan_engine(pod, 0)
        async with Run(pod) as run:
            assert await run.code() == 1
            assert "Error: Inference failed with exit code 1" in run.text
        text = log_text(pod, "inference")
        assert "ValueError: Free memory on device cuda:0 (7." in text
        assert "less than desired GPU memory utilization (0.9, " in text
        for process in orphans:
            faults.kill(process)
        async with Run(pod):
            await trained(pod, 1)


@pytest.mark.long
async def test_a_taken_port_is_told_before_anything_is_loaded(start: Start) -> None:
    async with start("2026-01") as pod:
        with socket.create_server(("127.0.0.1", pod.inference_port)):
            async with Run(pod) as run:
                assert await run.code() == 1
        assert (
            "[Errno 98] error while attempting to bind on address ('127.0.0.1', "
            f"{pod.inference_port})" in log_text(pod, "inference")
        )


@pytest.mark.long
async def test_inference_apart_from_the_launcher(start: Start) -> None:
    """The run waits for it with the real lines, uses it, and hangs without a word from the launcher
    when it is killed.
    """
    async with start("2026-01") as pod, Run(pod, config="configs/rl-apart.toml") as run:
        wanted = (
            "Inference server was not reached after 10 seconds (Error: All connection attempts "
            f"failed) on http://localhost:{pod.api_port}"
        )
        await faults.until(lambda: wanted in log_text(pod, "orchestrator"), 60, wanted)
        await faults.start_inference(pod)
        await trained(pod, 1)
        for name in ("inference", "engine", "worker"):
            for process in faults.find(pod, name):
                faults.kill(process)
        await stands_still(pod)
        assert not run.ended.done()
        assert "failed" not in run.text


@pytest.mark.long
async def test_a_router_that_dies_takes_the_server_along_with_0(start: Start) -> None:
    async with start("current") as pod, Run(pod) as run:
        await trained(pod, 1)
        faults.kill(faults.find(pod, "router")[0])
        await faults.until(lambda: not faults.find(pod, "inference"), 60, "the server's end")
        assert "Router exited with code -9 - shutting down" in log_text(pod, "inference")
        assert "Inference failed" not in run.text


@pytest.mark.long
async def test_the_server_answers_like_the_real_one(start: Start) -> None:
    async with start("2026-01") as pod:
        await faults.start_inference(pod)
        with urllib.request.urlopen(f"http://127.0.0.1:{pod.api_port}/v1/models") as answer:
            assert (
                json.load(answer)["data"][0]["id"] == "PrimeIntellect/Qwen3-0.6B-Reverse-Text-SFT"
            )
        with urllib.request.urlopen(f"http://127.0.0.1:{pod.api_port}/metrics") as answer:
            text = answer.read().decode()
        for name in (
            "num_requests_running",
            "num_requests_waiting",
            "generation_tokens_total",
            "kv_cache_usage_perc",
        ):
            assert f"vllm:{name}{{" in text
        assert not Path(logs(pod)).exists()
        engine = faults.find(pod, "engine")[0]
        faults.terminate(faults.find(pod, "inference")[0])
        await faults.until(lambda: pod.processes() == [], 60, "a clean end")
        await faults.until(lambda: not tree.alive(engine), 60, "the engine's end")
