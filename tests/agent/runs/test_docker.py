"""The same as test_verl_container.py through a real Docker: its client, its daemon, its control
groups and its log.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bs4_agent.containers import log, processes
from bs4_agent.containers.inside import Box
from bs4_agent.launch.start import launch
from bs4_agent.preflight import host, stack
from bs4_agent.probes import imports
from bs4_agent.probes import stack as versions
from bs4_agent.runs.adopt import Candidate, adopt, candidates
from bs4_agent.runs.stop import StopRun
from bs4_common.errors import LaunchFailed, StepFailed
from bs4_common.files import disk_usage
from tests.agent.runs.practice import components, ended, kill, read, until
from tests.agent.runs.test_verl import Place
from tests.agent.runs.test_verl_container import INSIDE, WORDS
from tests.support.pod import NotHere
from tests.support.real_docker import Daemon

pytestmark = pytest.mark.long
NAME = "bs4-trainer"


class Shipped(Place):
    """A project whose container is Docker's. Its first process prints and then only sleeps."""

    def __init__(self, root: Path, daemon: Daemon) -> None:
        super().__init__(root)
        self.daemon = daemon
        script = "echo == the entry point ==; exec sleep infinity"
        daemon.run(
            NAME,
            {INSIDE: self.project},
            ["sh", "-c", script],
            {"BS4_MINIATURE_STEP_SECONDS": "0.1", "IMAGES_OWN": "1"},
        )


@pytest.fixture
def shipped(no_process_left: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shipped]:
    monkeypatch.setattr(log, "EVERY_S", 0.3)
    with tempfile.TemporaryDirectory(prefix="bs4-") as short:
        root = Path(short)
        (root / "docker").mkdir()
        try:
            daemon = Daemon(root / "docker")
        except NotHere as reason:
            pytest.skip(str(reason))
        try:
            for name in ("DOCKER_HOST", "DOCKER_CONFIG"):
                monkeypatch.setenv(name, daemon.environment[name])
            made = Shipped(root, daemon)
            yield made
            made.streams.close()
        except NotHere as reason:
            pytest.skip(str(reason))
        finally:
            daemon.close()


def test_a_run_in_a_real_container(shipped: Shipped) -> None:
    box = Box(NAME)
    python = host.interpreter(shipped.project, {}, NAME)
    found = stack.look_inside(box, shipped.project, ["verl"], {}, python)
    assert (found["python"], found["versions"]["verl"], found["imports"]) == (
        f"{INSIDE}/.venv/bin/python3",
        "0.6.1",
        {"verl": None},
    )
    assert box.environment()["IMAGES_OWN"] == "1"

    spec = replace(shipped.spec("trainer.n_gpus_per_node=1"), container=NAME)
    attempt = launch(shipped.runs, spec, key="k1")
    assert attempt.argv[:4] == ("docker", "exec", "-w", INSIDE)
    shipped.until(lambda: shipped.step() >= 3, 120)
    members = components(shipped.runs, "launcher", "trainer", "worker", "ray", name="demo")
    for identity in members.values():
        outer, inner = processes.pids(identity.pid)
        assert outer == identity.pid != inner
        assert processes.name_of(identity.pid)
    view = processes.View.of(members["launcher"].pid)
    assert view is not None
    assert view.inside(shipped.project / "outputs") == Path(INSIDE, "outputs")
    assert view.here(f"{INSIDE}/outputs") == shipped.project / "outputs"
    own = shipped.home.attempt("demo", 1) / "container.log"
    # The client's end is not the run's: what it started is the daemon's.
    assert attempt.launcher is not None
    kill(attempt.launcher)
    shipped.until(
        lambda: (read(shipped.home.attempt("demo", 1) / "end.json") or {}).get("signal") == 9, 60
    )
    again = shipped.step()
    shipped.until(lambda: shipped.step() >= again + 3, 120)
    assert shipped.runs.get("demo").live
    StopRun(shipped.runs, "demo", scale=0.3).execute()
    ended(shipped.runs, "demo")
    assert not any(identity.alive() for identity in members.values())
    assert (
        shipped.daemon.ask("inspect", "--format", "{{.State.Running}}", NAME).stdout.strip()
        == "true"
    ), "the container itself goes on"
    # The entry point had printed before the attempt began: that is not the attempt's.
    assert not own.exists() or "the entry point" not in own.read_text()


def test_what_a_real_container_has_is_looked_at_and_what_hangs_in_it_ends(shipped: Shipped) -> None:
    box = Box(NAME)
    assert disk_usage(box.view.raw("/dev/shm"))["total"] == 64 << 20, (
        "Docker's own, and not this machine's"
    )
    assert box.nofile()["soft"]
    assert box.view.inside(shipped.root) is None
    (shipped.project / "hanging.py").write_text("import time\ntime.sleep(600)\n")
    python, more = host.interpreter(shipped.project, {}, NAME), {"PYTHONPATH": str(shipped.project)}
    asked = imports.probe(python, ["hanging"], 1.0, str(shipped.project), more, box.ask)
    assert asked == {"hanging": "importing it was not done after 1 s"}
    until(lambda: "bs4-probe" not in shipped.daemon.ask("top", NAME).stdout, 60)
    with pytest.raises(
        StepFailed, match=f"python9 cannot be run in container {NAME} .*executable file not found"
    ):
        versions.probe("python9", ask=box.ask)
    shipped.daemon.ask("stop", "--time=1", NAME)
    with pytest.raises(LaunchFailed, match=f"docker start {NAME}"):
        Box(NAME)


def test_a_driver_that_is_the_containers_own_is_adopted_and_read_through_docker_logs(
    shipped: Shipped,
) -> None:
    words = [
        *WORDS,
        "trainer.logger=[console]",
        f"trainer.default_local_dir={INSIDE}/train/e",
        "trainer.total_training_steps=30",
    ]
    driver = f"cd {INSIDE} && exec .venv/bin/python3 -u -m verl.trainer.main_ppo {' '.join(words)}"
    shipped.daemon.run(
        "bs4-driver",
        {INSIDE: shipped.project},
        ["sh", "-c", driver],
        {"BS4_MINIATURE_STEP_SECONDS": "0.2"},
    )

    def candidate() -> list[Candidate]:
        return [
            c
            for c in candidates(shipped.runs, shipped.runs.table.snapshot(max_age=0.0))
            if c.spec.trainer == "verl"
        ]

    (found,) = until(candidate, 120)
    assert adopt(
        shipped.runs, found
    ).spec.container  # Docker's name for it, out of the control group
    shipped.until(lambda: shipped.step("e") >= 3, 120)
    assert {r["at"]["stream"] for r in shipped.records("e")} == {"log/e/trainer"}
    end = shipped.until(lambda: shipped.runs.get("e").attempts[0].end, 120)
    assert end.good, end.detail
