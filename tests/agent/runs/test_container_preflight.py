"""A look before a start in a container: Python, limits and credentials are asked in there, GPUs and
disks on the machine.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bs4_agent.containers.inside import Box
from bs4_agent.pod import Pod
from bs4_agent.preflight import host, planned, pod_probe, stack
from bs4_agent.preflight.queries import Preflights
from bs4_agent.probes import cuda, imports
from bs4_common.errors import LaunchFailed, StepFailed
from bs4_common.failures.compiled import Library
from bs4_common.trainers import verl_needs
from tests.agent.runs.practice import until
from tests.agent.runs.test_verl_container import INSIDE, Boxed
from tests.support.container import Docker
from tests.support.pod import NotHere
from tests.support.services import TOKEN, serving

PYTHON = f"{INSIDE}/.venv/bin/python3"
TORCH = """__version__ = "2.8.0"
class version:
    cuda = "12.8"
class cuda:
    is_available = lambda: True
    device_count = lambda: 2
"""
#: What nobody on the machine has.
OWN = {"HF_TOKEN": TOKEN, "VLLM_USE_V1": "1", "HF_HOME": "/tmp/hub"}


@pytest.fixture
def boxed(no_process_left: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Boxed]:
    for name in (
        "HF_TOKEN",
        "HF_HOME",
        "HF_HUB_OFFLINE",
        "WANDB_API_KEY",
        "VLLM_USE_V1",
        "http_proxy",
        "https_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    with tempfile.TemporaryDirectory(prefix="bs4-") as short:
        try:
            made = Boxed(Path(short), {"PATH": os.environ["PATH"], "HOME": "/tmp", **OWN})
        except NotHere as reason:
            pytest.skip(str(reason))
        docker = Docker(made.root, {"trainer": made.box})
        monkeypatch.setenv("PATH", f"{docker.program}:{os.environ['PATH']}")
        monkeypatch.setattr(made, "docker", docker, raising=False)
        yield made
        made.box.close()
        docker.close()
        made.streams.close()


def words(boxed: Boxed) -> list[list[str]]:
    """What Docker was asked to run; the script itself, which is a word too, is left out."""
    return [
        [word for word in argv if "\n" not in word]
        for argv in cast(Any, boxed).docker.asked
        if argv[0] == "exec"
    ]


def make_inside(boxed: Boxed, name: str, text: str) -> None:
    """A module in a directory that only the container has."""
    script = f"mkdir -p /tmp/own; cat > /tmp/own/{name}.py"
    running = boxed.box.start(["sh", "-c", script], env=boxed.environment, stdin=-1)
    running.communicate(text.encode(), timeout=60)
    assert running.returncode == 0


def test_the_environment_is_the_containers_by_its_own_paths(boxed: Boxed) -> None:
    box = Box("trainer")
    python = host.interpreter(boxed.project, {}, "trainer")
    assert python == str(boxed.project / ".venv/bin/python3")
    make_inside(boxed, "only_inside", "x = 1\n")
    more = {"PYTHONPATH": f"{boxed.project}/none:/tmp/own"}
    found = stack.look_inside(box, boxed.project, ["verl", "only_inside", "nowhere"], more, python)
    assert (found["python"], found["container"], found["versions"]["verl"]) == (
        PYTHON,
        "trainer",
        "0.6.1",
    )
    assert (found["imports"]["verl"], found["imports"]["only_inside"]) == (None, None)
    assert "nowhere" in found["imports"]["nowhere"]
    assert (
        stack.probe(boxed.project, ["only_inside"], more, python)["imports"]["only_inside"]
        is not None
    ), "it is not the machine's"
    versions, modules = words(boxed)
    assert versions == ["exec", "-i", "trainer", PYTHON, "-B", "-c", *versions[6:7], "20"]
    assert modules[:4] == ["exec", "-i", "-w", INSIDE]
    assert not [word for argv in words(boxed) for word in argv if str(boxed.root) in word]
    # An import that worked is remembered; what failed and the versions are asked again.
    stack.look_inside(box, boxed.project, ["verl", "only_inside", "nowhere"], more, python)
    assert len(words(boxed)) == 4


def test_an_environment_that_only_leads_anywhere_in_there_is_taken(boxed: Boxed) -> None:
    own = boxed.project / ".venv/bin/python3"
    own.unlink()
    own.symlink_to("/opt/of-the-image/python3")
    assert host.interpreter(boxed.project, {}, "trainer") == str(own)
    assert host.interpreter(boxed.project, {}) != str(own)
    spec = boxed.spec("trainer.n_gpus_per_node=1")
    assert verl_needs.interpreter(spec) == "python3"
    with pytest.raises(StepFailed, match="cannot be run in container trainer"):
        stack.look_inside(Box("trainer"), boxed.project, ["verl"], {}, str(own))


def test_what_hangs_in_there_ends_there_and_what_crashes_is_told(boxed: Boxed) -> None:
    box, more = Box("trainer"), {"PYTHONPATH": "/tmp/own"}
    make_inside(boxed, "hanging", "import time\ntime.sleep(600)\n")
    make_inside(boxed, "crashing", "import os\nos.kill(os.getpid(), 9)\n")
    began = time.monotonic()
    found = imports.probe("python3", ["hanging"], 1.0, str(boxed.project), more, box.ask)
    assert found == {"hanging": "importing it was not done after 1 s"}
    assert time.monotonic() - began < 15, "it is not Docker's client that was waited for"
    found = imports.probe("python3", ["json", "crashing"], 60.0, str(boxed.project), more, box.ask)
    assert found == {"json": None, "crashing": "the interpreter died while importing it (signal 9)"}
    until(
        lambda: (
            not [
                p
                for p in boxed.runs.table.snapshot(max_age=0.0).values()
                if "/bs4-probe/" in " ".join(p.cmdline) and not p.ended
            ]
        ),
        60,
    )
    make_inside(boxed, "torch", TORCH)
    assert cuda.probe("python3", 60.0, more, box.ask) == {
        "torch": "2.8.0",
        "cuda": "12.8",
        "available": True,
        "devices": 2,
        "error": None,
    }


def whole(boxed: Boxed, monkeypatch: pytest.MonkeyPatch, body: dict[str, Any]) -> dict[str, Any]:
    """All parts of one look, on a machine without GPUs."""
    monkeypatch.setattr(pod_probe, "_gpus", lambda pod: {"state": "absent"})
    monkeypatch.setattr(planned, "findings", lambda *_: [])
    pod = SimpleNamespace(
        runs=boxed.runs,
        collect_facts=lambda: None,
        shared_memory=lambda: boxed.root,
        port_openers=lambda wanted: [],
    )
    preflights = Preflights(cast(Pod, pod), cast(Library, None))
    answer = preflights.ask("look", body)
    deadline = time.monotonic() + 120
    while answer["next"] is not None and time.monotonic() < deadline:
        answer = preflights.ask("look", answer["next"])
    assert answer["waiting"] == []
    return dict(answer["facts"])


@pytest.mark.long
def test_a_whole_look_says_which_side_was_asked(
    boxed: Boxed, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving() as services:
        start = {
            "run": "demo",
            "trainer": "verl",
            "config": "verl.toml",
            "cwd": str(boxed.project),
            "output_dir": "outputs",
            "resume": "auto",
            "component": "rl",
            "overrides": ["actor_rollout_ref.model.path=/tmp/own/model"],
            "container": "trainer",
        }
        make_inside(boxed, "model", "")
        boxed.box.start(["mkdir", "/tmp/own/model"], env={}).wait(60)
        facts = whole(boxed, monkeypatch, {**start, "urls": services.urls})
    pod, run = facts["pod"], facts["run"]
    assert (pod["container"], pod["gpus"], pod["environment"]["VLLM_USE_V1"]) == (
        "trainer",
        {"state": "absent"},
        "1",
    )
    assert pod["nofile"]["soft"] > 0
    assert pod["shm"]["path"] == "/dev/shm"
    assert pod["shm"]["total"] > 0
    assert run["refused"] is None, run["refused"]
    assert run["command"].startswith(f"docker exec -w {INSIDE} ")
    assert run["disk"]["path"].startswith(str(boxed.project)), "disks are the machine's"
    assert run["cache"]["path"].endswith("/root/tmp/hub"), "the hub's cache is the container's"
    assert (facts["stack"]["container"], facts["stack"]["versions"]["verl"]) == ("trainer", "0.6.1")
    services_part = facts["services"]
    assert services_part["container"] == "trainer"
    assert (services_part["hub"]["token"], services_part["hub"]["state"]) == (
        "environment",
        "ok",
    ), "the token that only the container has"
    assert services_part["b2"]["state"] == "absent"
    assert services_part["model"] is None, "it lies in the container"
    assert TOKEN not in str(facts)
    assert TOKEN not in str(cast(Any, boxed).docker.asked)


def test_a_machine_for_verl_is_looked_at_through_the_container(
    boxed: Boxed, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = whole(
        boxed,
        monkeypatch,
        {"trainer": "verl", "cwd": str(boxed.project), "container": "trainer", "urls": {}},
    )
    assert (facts["host"]["container"], facts["host"]["project"], facts["host"]["verl"]) == (
        "trainer",
        INSIDE,
        "0.6",
    )
    assert facts["host"]["memory"]["total"] > 0
    assert "No module named 'torch'" in facts["host"]["cuda"]["error"]
    assert facts["stack"]["python"] == PYTHON


def test_of_a_container_that_does_not_run_nothing_is_made_up(
    boxed: Boxed, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = {
        "run": "demo",
        "trainer": "verl",
        "config": "verl.toml",
        "cwd": str(boxed.project),
        "container": "other",
        "urls": {},
    }
    facts = whole(boxed, monkeypatch, start)
    assert "No such container: other" in facts["pod"]["container"]["unknown"]
    assert (facts["pod"]["nofile"], facts["pod"]["shm"], facts["pod"]["gpus"]) == (
        None,
        None,
        {"state": "absent"},
    )
    assert "No such container" in facts["run"]["refused"]["message"]
    assert "No such container" in facts["stack"]["unknown"]
    assert "No such container" in facts["services"]["unknown"]
    with pytest.raises(LaunchFailed, match="is not mounted into container trainer"):
        Box("trainer").place(boxed.root)
