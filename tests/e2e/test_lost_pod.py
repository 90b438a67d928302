"""A rented pod is taken away in mid-step: another is rented, the newest saved step restored, and the run goes on; and what looks alike."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.checkpoints.remote.b2 import B2Store
from bs4_agent.checkpoints.remote.layout import Place
from bs4_agent.trainers import registry
from bs4_agent.trainers.base import LaunchSpec
from bs4_console.demo import bare, witness, workspace
from bs4_console.demo.b2.server import B2Server
from bs4_console.demo.cloud import Cloud, PracticePods, Rented, running
from bs4_console.demo.pod import PracticePod
from bs4_console.demo.stage import GENERATIONS
from tests.console.cli.conftest import Console, Result
from tests.support.remote_sets import put_step

pytestmark = [pytest.mark.long, pytest.mark.beside, pytest.mark.skipif(not bare.usable(), reason="a bare practice pod needs git")]

STORE = "b2://practice-bucket/saved"
#: Steps between two checkpoints of the practice config.
INTERVAL = 5

RECOVER = """
[runs.demo]
pod = "alpha"
store = "{store}"
mode = "auto"
trainer = "{trainer}"
gpu = "H100-SXM"
count = 2
providers = ["vast"]
max_price = 5.0
per_day = 50.0
per_run = 100.0
ready_minutes = 8
identity_file = "{key}"
credentials = "{credentials}"
trust_first_key = true
repository = "{repository}"
revision = "{revision}"
environments = ["primeintellect/reverse-text"]
"""


@dataclass
class Rig:
    """A cloud whose machines are practice pods, a store, and a console that may use both."""

    cloud: Cloud
    metal: PracticePods
    server: B2Server
    console: Console
    trainer: str
    first: Rented

    @property
    def pod(self) -> PracticePod:
        return self.metal.pods[self.first.id]

    def recover(self, *words: str, timeout: float = 550.0) -> Result:
        return self.console("recover", *words, "--json", timeout=timeout)

    def steps(self, pod: PracticePod) -> list[int]:
        return [step for _, step in witness.steps(pod.run_dir, pod.generation)]

    def living(self) -> list[Rented]:
        return [machine for machine in self.cloud.market.living() if machine.state == "running"]

    def store(self) -> B2Store:
        key = self.server.key()
        return B2Store.open("practice-bucket", key.id, key.secret, at=self.server.url)


def until(condition: Callable[[], Any], timeout: float, what: str) -> Any:
    deadline = time.monotonic() + timeout
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {timeout:g} s in vain for {what}"
        time.sleep(0.1)
    return found


@contextlib.contextmanager
def rig(trainer: str) -> Iterator[Rig]:
    generation = GENERATIONS[trainer]
    # A short directory: below pytest's own there is no room for the name of a unix socket.
    with tempfile.TemporaryDirectory(prefix="bs4-") as short, B2Server((root := Path(short)) / "b2") as server:
        server.bucket("practice-bucket")
        key = server.key()
        metal = PracticePods(root / "m", generation, step_seconds=0.5, pace=0.3, env={"BS4_B2_REALM": server.url})
        with running(metal=metal) as cloud:
            goods = next(goods for goods in cloud.market.goods if goods.id == "501")
            first = cloud.market.rent(goods, "by-hand")
            until(lambda: first.state == "running", 60, "the first machine")
            pod = metal.pods[first.id]
            table = "wandb" if generation == "2026-01" else "monitors.wandb"
            with pod.config_path.open("a") as config:
                config.write(f"\n[{table}]\noffline = true\n")
            source = workspace.create("source", generation, root / "s", bare=True)
            metal._settings["bare"] = True
            console = Console(root / "c", {"BS4_VAST_URL": cloud.url("vast"), "BS4_B2_REALM": server.url, "VAST_API_KEY": cloud.KEY})
            console.root.mkdir()
            console.add("alpha", pod.host, pod.port, pod.user, pod.key_path, pod.known_host_key)
            with (console.config / "pods.toml").open("a") as inventory:
                inventory.write(f'provider = "vast"\ninstance = "{first.id}"\n')
            credentials = console.root / "credentials"
            credentials.write_text(f"B2_APPLICATION_KEY_ID={key.id}\nB2_APPLICATION_KEY={key.secret}\n")
            credentials.chmod(0o600)
            text = RECOVER.format(
                store=STORE,
                trainer=trainer,
                key=pod.key_path,
                credentials=credentials,
                repository=source.repository,
                revision=source.revision,
            )
            (console.config / "recover.toml").write_text(text)
            yield Rig(cloud, metal, server, console, trainer, first)


def train(at: Rig) -> None:
    """A run with at least two complete steps saved."""
    done = at.console("launch", "configs/rl.toml", "--pod", "alpha", "--run", "demo", "--trainer", at.trainer, "--yes", timeout=120)
    assert done.code == 0, done


def saved(at: Rig) -> int:
    """The newest complete step of the first pod, put into the store as a sync does."""
    pod = at.pod
    spec = LaunchSpec(run="demo", trainer=at.trainer, config=Path("configs/rl.toml"), cwd=pod.project, output_dir=pod.output_dir)
    newest = until(lambda: max((s.step for s in registry.get(at.trainer).checkpoints(spec) if s.complete), default=0), 90, "a checkpoint")
    put_step(at.store(), Place.parse(STORE), spec, newest, wandb=given(pod))
    return int(newest)


def given(pod: PracticePod) -> dict[str, str]:
    """The run's ids at W&B, as its first launch was given them: January's two, or the current generation's one."""
    spec = json.loads((pod.home / ".bs4" / "runs" / "demo" / "attempts" / "1" / "spec.json").read_text())["launch"]
    if "PRL_RUN_ID" in spec["env"]:
        return {"trainer": spec["env"]["PRL_RUN_ID"]}
    words = spec["overrides"]
    return {side: words[words.index(f"--{side}.wandb.id") + 1] for side in ("trainer", "orchestrator")}


def tracked(pod: PracticePod) -> set[str]:
    """The ids of the W&B runs that the trainer's own client has written to on this pod."""
    return {path.name.rsplit("-", 1)[1] for path in pod.project.rglob("offline-run-*")}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("trainer", ["prime-rl-2026-01", "prime-rl"])
def test_taken_away_in_mid_step_and_goes_on_elsewhere(trainer: str) -> None:
    with rig(trainer) as at:
        train(at)
        looked = at.recover("--once")
        assert looked.code == 0, looked
        before = at.steps(at.pod)[-1]
        until(lambda: at.steps(at.pod)[-1] > before, 60, "another step")
        ids = tracked(at.pod)
        assert ids
        step = saved(at)
        done_before = at.steps(at.pod)[-1]
        at.cloud.market.outbid(at.first.id)

        done = at.recover("--once", "--patience", "150")
        assert done.code == 0, done
        assert done.lines[-1]["outcome"] == "recovered", (done.out[-3000:], done.err[-3000:])
        (machine,) = at.living()
        assert machine.label is not None
        assert machine.label.startswith("bs4-demo-")
        new = at.metal.pods[machine.id]
        # The current generation counts steps from 1: the set of step N holds it. January's is named by the next one.
        following = step if trainer == "prime-rl-2026-01" else step + 1
        assert at.steps(new)[0] == following, "it goes on right behind what was restored"
        assert done_before - step <= INTERVAL
        assert tracked(new) == ids, "the same W&B runs"
        again = at.recover("--once")
        assert again.code == 0, again
        assert again.lines[-1]["verdict"]["verdict"] == "fine"
        assert len(at.living()) == 1
        assert "vast" in (at.console.config / "pods.toml").read_text()


@pytest.mark.timeout(400)
def test_what_only_looks_lost_rents_nothing() -> None:
    """The machine runs and says no word for a while, as one whose network is cut: nothing is rented, and the run is left alone."""
    with rig("prime-rl") as at:
        train(at)
        saved(at)
        assert at.recover("--once").code == 0
        pod, steps = at.pod, at.steps(at.pod)[-1]
        os.kill(pod.pid, signal.SIGSTOP)  # its SSH server, not its run
        try:
            silent = at.recover("--once", timeout=250)
        finally:
            os.kill(pod.pid, signal.SIGCONT)
        verdict = silent.lines[-1]["verdict"]["verdict"]
        assert verdict in ("hung", "unknown", "network-only")
        assert silent.code in (0, 1, 3)
        assert [machine.id for machine in at.cloud.market.rented.values()] == [at.first.id]
        assert at.server.calls["b2_delete_file_version"] == 0
        until(lambda: at.steps(pod)[-1] > steps, 60, "the run, which went on")
        back = at.recover("--once")
        assert back.lines[-1]["verdict"]["verdict"] == "fine"
