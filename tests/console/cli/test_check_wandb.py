"""check and W&B: from the line in a trainer's log over the agent's journal to what a person reads,
with the pod and without it.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bs4_console.pods.mirror import Mirror
from bs4_practice import faults
from tests.console.cli.conftest import Console, practising
from tests.support.wandb_server import KEY, WandbServer, wandb_server

pytestmark = [pytest.mark.long, pytest.mark.beside]


@pytest.fixture
def server() -> Iterator[WandbServer]:
    with wandb_server() as told:
        yield told


def keyed(console: Console, server: WandbServer) -> None:
    """A machine with W&B's key where `wandb login` puts it."""
    home = console.root / "home"
    home.mkdir(exist_ok=True)
    (home / ".netrc").write_text(f"machine 127.0.0.1\n  login user\n  password {KEY}\n")
    (home / ".netrc").chmod(0o600)
    console.extra["WANDB_BASE_URL"] = server.base


def kept(console: Console, pod: str, base: str) -> None:
    """What an earlier session of this console has kept of the pod."""
    common = {"t": time.time(), "m": 1.0, "b": "boot", "type": "run", "run": "demo", "attempt": 1}
    entry = {"side": "trainer", "id": "abc", "project": "proj", "entity": "team", "server": base}
    rows: list[dict[str, Any]] = [
        {**common, "seq": 0, "prev": "", "event": "attempt-started", "trainer": "prime-rl"},
        {**common, "seq": 1, "prev": "", "event": "tracked", "tracker": "wandb", "runs": [entry]},
    ]
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    mirror = Mirror(console.data / "pods" / pod)
    mirror.use("0123456789abcdef")
    mirror.append("journal", "0:0", f"0:{len(data)}", data)
    mirror.close()


def test_a_pod_that_is_away_whose_run_still_reports(
    console: Console, server: WandbServer, tmp_path: Path
) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True
    )
    console.add("gone", "127.0.0.1", 1, "root", tmp_path / "key")
    kept(console, "gone", server.base)
    server.put("abc", age_s=12, step=41)
    assert server.headers == []
    done = console("check")
    assert "W&B" not in done.out, "without a key nobody is asked"
    assert server.headers == []
    keyed(console, server)
    done = console("check")
    assert done.code == 3
    assert "at step 41: the run goes on, the link is what is broken." in done.out
    (pod,) = console("check", "--json").json["pods"]
    assert [(s["run"], s["witness"], s["state"], s["step"]) for s in pod["sights"]] == [
        ("demo", "wandb", "running", 41)
    ]
    assert [i["failure"] for i in pod["incidents"]] == ["ssh-unreachable"]
    assert KEY not in done.out + done.err


@pytest.mark.long
def test_from_the_trainers_log_to_the_verdict(server: WandbServer) -> None:
    with practising("prime-rl", "pod-w") as on:
        assert on.launch().code == 0
        keyed(on.console, server)
        server.put("abc", age_s=3, step=100)
        log = on.pod.output_dir / "demo" / "logs" / "latest" / "trainer.log"
        deadline = time.monotonic() + 120
        while not log.exists():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        # Its own writer holds still meanwhile: it does not append, and would write over the line
        # before anybody has read it.
        paused = [
            process
            for name in ("launcher", "torchrun", "rank")
            for process in faults.find(on.pod, name)
        ]
        for process in paused:
            faults.pause(process)
        with log.open("a") as file:
            file.write(f"wandb: \U0001f680 View run at {server.base}/team/proj/runs/abc\n")
        sights: list[dict[str, Any]] = []
        while not sights:
            assert time.monotonic() < deadline, log.read_text()[:2000]
            (pod,) = on("check", "--json").json["pods"]
            sights = pod["sights"]
        for process in reversed(paused):
            faults.resume(process)
        assert [(s["run"], s["state"], s["step"]) for s in sights] == [("demo", "running", 100)]
        server.put("abc", state="crashed", age_s=900, step=1)
        deadline = time.monotonic() + 120
        while (
            done := on("check")
        ).code == 2 and "run-stalled" in done.out:  # it was held for long, on a slow machine
            assert time.monotonic() < deadline, done.out
        assert done.code == 1
        assert done.out.startswith(
            "WARNING - pod-w: W&B has demo as crashed though it lives: trust the pod, not W&B."
        )
