"""A cloud whose machines are practice pods, a store, and a console that may use both: what tests of
lost machines begin with.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bs4_agent.paths import Home
from bs4_agent.setup import credentials
from bs4_common.checkpoints.remote.b2 import B2Store
from bs4_common.checkpoints.remote.errors import NotThere
from bs4_common.checkpoints.remote.layout import Layout, Place
from bs4_common.checkpoints.remote.pointer import Pointer
from bs4_common.trainers import registry
from bs4_common.trainers.base import LaunchSpec
from bs4_practice import bare, faults, tree, witness, workspace
from bs4_practice.b2.server import B2Server
from bs4_practice.cloud import Cloud, PracticePods, Rented, running
from bs4_practice.pod import PracticePod
from bs4_practice.stage import GENERATIONS
from tests.console.cli.conftest import Console, Result
from tests.e2e import journals
from tests.support.trees import below

STORE = "b2://practice-bucket/saved"
#: Steps between two checkpoints of the practice config.
INTERVAL = 5
#: What the run is started with beside its config: options, one of which names a file, and a
#: variable.
PART, RATE = "configs/parts/trainer.toml", "7.00e-06"
ARGUMENTS = ("--max-steps", "9000", "--trainer", "@", PART)
WORD = {"PRACTICE_WORD": "kept on every machine"}

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
uv = "{uv}"
environments = ["primeintellect/reverse-text"]
"""


def until(condition: Callable[[], Any], timeout: float, what: str) -> Any:
    deadline = time.monotonic() + timeout
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {timeout:g} s in vain for {what}"
        time.sleep(0.1)
    return found


@dataclass
class Rig:
    """`first`: the machine on which the run begins, named alpha in the console's inventory by
    `meet`.
    """

    cloud: Cloud
    metal: PracticePods
    server: B2Server
    console: Console
    trainer: str
    first: Rented
    key: Path
    """What opens every machine; it lies with the console, as the first machine's files go with
    it.
    """

    @property
    def pod(self) -> PracticePod:
        return self.metal.pods[self.first.id]

    def meet(self, port: int | None = None) -> None:
        """The first machine comes into the inventory, at another port where a cable leads to it."""
        pod = self.pod
        self.console.add(
            "alpha", pod.host, port or pod.port, pod.user, self.key, pod.known_host_key
        )
        with (self.console.config / "pods.toml").open("a") as inventory:
            inventory.write(f'provider = "vast"\ninstance = "{self.first.id}"\n')

    def train(self) -> None:
        part = self.pod.project / PART
        part.parent.mkdir()
        part.write_text(f"[optim]\nlr = {RATE}\n")
        env = [word for name, value in WORD.items() for word in ("--env", f"{name}={value}")]
        words = [
            "configs/rl.toml",
            "--pod",
            "alpha",
            "--run",
            "demo",
            "--trainer",
            self.trainer,
            *env,
            "--yes",
            "--",
            *ARGUMENTS,
        ]
        done = self.console("launch", *words, timeout=280)
        assert done.code == 0, done

    def sync(self, *words: str) -> None:
        """Order it as a person does. The key is what `pods setup --credentials` leaves."""
        key = self.server.key("listBuckets", "listFiles", "readFiles", "writeFiles")
        credentials.store("b2", {"key_id": key.id, "key": key.secret}, Home(self.pod.home / ".bs4"))
        done = self.console(
            "checkpoints",
            "sync",
            "--pod",
            "alpha",
            "--run",
            "demo",
            "--to",
            STORE,
            *words,
            timeout=280,
        )
        assert done.code == 0, done

    def recover(self, *words: str, timeout: float = 550.0) -> Result:
        return self.console("recover", *words, "--json", timeout=timeout)

    def steps(self, pod: PracticePod) -> list[int]:
        return [step for _, step in witness.steps(pod.run_dir, pod.generation)]

    def complete(self) -> int:
        """The newest complete set on the first machine's disk, 0 without one."""
        pod = self.pod
        spec = LaunchSpec(
            run="demo",
            trainer=self.trainer,
            config=Path("configs/rl.toml"),
            cwd=pod.project,
            output_dir=pod.output_dir,
        )
        return max(
            (one.step for one in registry.get(self.trainer).checkpoints(spec) if one.complete),
            default=0,
        )

    def pointed(self) -> int:
        """The step that latest.json names, 0 without one."""
        key = self.server.key()
        store = B2Store.open("practice-bucket", key.id, key.secret, at=self.server.url)
        try:
            return Pointer.decode(
                store.read(Layout(Place.parse(STORE).prefix, "demo").pointer, 1 << 16)
            ).step
        except NotThere:
            return 0

    def living(self) -> list[Rented]:
        return [machine for machine in self.cloud.market.living() if machine.state == "running"]

    def spent(self) -> list[str]:
        """Every call that costs money or ends something, as it reached the provider."""
        return [
            f"{name} {call}"
            for name, call, _ in self.cloud.calls
            if call in ("create", "terminate")
        ]

    def stand_still(self) -> int:
        """The trainer computes and computes: it is in the middle of a step, whatever the load. The
        last step that it has done.
        """
        while True:
            until(
                lambda: (last := self.steps(self.pod)[-1]) > 2 * INTERVAL and last % INTERVAL == 2,
                180,
                "two steps behind a set",
            )
            ranks = faults.find(self.pod, "rank")
            for rank in ranks:
                assert faults.pause(rank)
            reached = self.steps(self.pod)[-1]
            if reached % INTERVAL in (2, 3):
                return reached
            for rank in ranks:  # it was looked at too late: another set is about to be made
                assert faults.resume(rank)

    def destroy(self) -> None:
        """No signal, no word: everything that ran there ends at once, nothing on its disk comes
        back, and the provider says so.
        """
        pod = self.pod
        for signum in (signal.SIGSTOP, signal.SIGSTOP, signal.SIGKILL):
            for process in tree.below(pod.pid):
                tree.send(process, signum)
        self.cloud.market.outbid(self.first.id)
        shutil.rmtree(pod.root)


@contextlib.contextmanager
def rig(trainer: str, *, step_seconds: float = 0.5) -> Iterator[Rig]:
    generation = GENERATIONS[trainer]
    # A short directory: below pytest's own there is no room for the name of a unix socket.
    with (
        tempfile.TemporaryDirectory(prefix="bs4-") as short,
        B2Server((root := Path(short)) / "b2") as server,
    ):
        server.bucket("practice-bucket")
        metal = PracticePods(
            root / "m",
            generation,
            step_seconds=step_seconds,
            pace=0.3,
            env={"BS4_B2_REALM": server.url},
        )
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
            console = Console(
                root / "c",
                {
                    "BS4_VAST_URL": cloud.url("vast"),
                    "BS4_B2_REALM": server.url,
                    "VAST_API_KEY": cloud.KEY,
                },
            )
            for directory in (console.root, console.config, console.data):
                directory.mkdir()
            key, secrets = console.root / "id_ed25519", console.root / "credentials"
            for suffix in ("", ".pub"):
                shutil.copy(f"{pod.key_path}{suffix}", f"{key}{suffix}")
            whole = server.key()
            secrets.write_text(
                f"B2_APPLICATION_KEY_ID={whole.id}\nB2_APPLICATION_KEY={whole.secret}\n"
            )
            secrets.chmod(0o600)
            text = RECOVER.format(
                store=STORE,
                trainer=trainer,
                key=key,
                credentials=secrets,
                repository=source.repository,
                revision=source.revision,
                uv=bare.uv_address(bare.stubs(source.root).parent),
            )
            (console.config / "recover.toml").write_text(text)
            yield Rig(cloud, metal, server, console, trainer, first, key)


def launched(pod: PracticePod, attempt: int = 1) -> dict[str, Any]:
    """What an attempt was started with."""
    spec: dict[str, Any] = json.loads(
        (pod.home / ".bs4" / "runs" / "demo" / "attempts" / str(attempt) / "spec.json").read_text()
    )
    return dict(spec["launch"])


def environment(pod: PracticePod, attempt: int = 1) -> dict[str, str]:
    """What its processes were given beside the pod's own environment, by what was handed to its
    shim.
    """
    spec = json.loads(
        (pod.home / ".bs4" / "runs" / "demo" / "attempts" / str(attempt) / "spec.json").read_text()
    )
    return dict(spec["env"])


def rates(pod: PracticePod) -> set[str]:
    """The learning rates that the trainer itself says in its log."""
    logs = [
        path
        for path in below(pod.output_dir)
        if path.is_file() and path.suffix in (".log", ".stdout")
    ]
    return {
        rate
        for path in logs
        for rate in re.findall(r"LR:? (\d\.\d\de-\d\d)", path.read_text(errors="replace"))
    }


def given(pod: PracticePod) -> dict[str, str]:
    """The run's ids at W&B by side, as its first launch was given them: January's two, or the
    current generation's one.
    """
    spec = launched(pod)
    if "PRL_RUN_ID" in spec["env"]:
        return dict.fromkeys(("trainer", "orchestrator"), spec["env"]["PRL_RUN_ID"])
    words = spec["overrides"]
    return {
        side: words[words.index(f"--{side}.wandb.id") + 1] for side in ("trainer", "orchestrator")
    }


def tracked(pod: PracticePod) -> set[str]:
    """The ids of the W&B runs that the trainer's own client has written to on this pod."""
    return {
        path.name.rsplit("-", 1)[1] for path in below(pod.project) if path.match("offline-run-*")
    }


def ordered(pod: PracticePod) -> list[dict[str, Any]]:
    """The orders to sync that this pod was given, as far as a person gives them."""
    told = [
        r for r in journals.records(pod.home) if r["type"] == "sync" and r["event"] == "ordered"
    ]
    return [
        {
            name: r[name]
            for name in ("run", "to", "every", "milestones", "keep_remote", "limit_mib", "weights")
        }
        for r in told
    ]
