"""The look before a start in a container, from the command line through the agent into a real
Docker: each side is asked for its own.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bs4_practice.stage import staged
from tests.console.cli.conftest import Console
from tests.support.pod import NotHere
from tests.support.real_docker import Daemon

pytestmark = [pytest.mark.long, pytest.mark.beside]
NAME, INSIDE = "bs4-looked-at", "/mnt/rl-project"


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with tempfile.TemporaryDirectory(prefix="bs4-") as short:
        try:
            made = Daemon(Path(short))
        except NotHere as reason:
            pytest.skip(str(reason))
        yield made
        made.close()


@pytest.mark.timeout(600)
async def test_every_check_says_which_side_was_asked(daemon: Daemon, tmp_path: Path) -> None:
    async with staged(
        "verl", env={name: daemon.environment[name] for name in ("DOCKER_HOST", "DOCKER_CONFIG")}
    ) as stage:
        pod, console = stage.pod, Console(tmp_path)
        console.add(pod.name, pod.host, pod.port, pod.user, pod.key_path, pod.known_host_key)
        try:
            daemon.run(NAME, {INSIDE: pod.project}, ["sleep", "infinity"])
        except NotHere as reason:
            pytest.skip(str(reason))
        words = [
            "preflight",
            "--pod",
            pod.name,
            "--trainer",
            "verl",
            "--cwd",
            "verl",
            "--container",
        ]
        found = (await asyncio.to_thread(console, *words, NAME, "--json", timeout=200.0)).json
        checks = {check["title"]: check for check in found["checks"]}
        inside = {
            title
            for title, check in checks.items()
            if check["why"].startswith(f"In container {NAME}: ")
        }
        own = {
            "training environment",
            "verl",
            "rollout engine",
            "flash-attn",
            "project directory",
            "torch and the GPUs",
            "host memory",
        }
        assert own | {"open files", "shared memory", "Hugging Face token", "W&B key"} <= inside
        assert not inside & {"GPUs", "GPU health", "GPU memory", "disk", "B2 key", "clock"}
        assert f"{INSIDE}/.venv/bin/python3" in checks["training environment"]["why"]
        assert (checks["verl"]["state"], checks["container"]["state"]) == ("ok", "ok")
        assert checks["shared memory"]["state"] == "blocking", "Docker's own 64 MiB"
        assert str(pod.project) not in checks["project directory"]["why"]

        absent = (await asyncio.to_thread(console, *words, "nobody", "--json", timeout=200.0)).json
        states = {check["title"]: check["state"] for check in absent["checks"]}
        assert [
            states[title]
            for title in ("container", "training environment", "shared memory", "verl")
        ] == ["unknown"] * 4
        assert states["GPUs"] == checks["GPUs"]["state"], "the machine was looked at all the same"
