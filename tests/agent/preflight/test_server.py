"""Who uses the inference server into which an evaluation would load its weights."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bs4_agent.paths import Home
from bs4_agent.playbooks.ports import PortHolder
from bs4_agent.pod import Pod
from bs4_agent.preflight import server
from bs4_agent.preflight.queries import Preflights
from bs4_common.errors import NotApplicable
from bs4_common.failures.compiled import Library
from bs4_common.preflight import StartBody
from bs4_common.trainers.base import LaunchSpec
from tests.agent.probes.test_own_addresses import unknown

JANUARY = "prime-rl-2026-01"


class Made:
    """A pod whose runs are descriptions. `listens` says on which port which run listens."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.listens: dict[int, str | None] = {}
        self.known: dict[str, Any] = {}
        self.runs = SimpleNamespace(
            all=lambda: list(self.known.values()),
            get=lambda name: self.known[name],
            membership=SimpleNamespace(living=lambda run: []),
        )

    def spec(self, run: str, component: str, text: str, *words: str) -> LaunchSpec:
        config = self.root / f"{run}.toml"
        config.write_text(text)
        return LaunchSpec(
            run=run,
            trainer=JANUARY,
            config=config,
            cwd=self.root,
            output_dir=self.root / run,
            overrides=words,
            component=component,
        )

    def run(self, name: str, component: str = "rl", text: str = "", *, live: bool = True) -> None:
        spec = self.spec(name, component, text)
        self.known[name] = SimpleNamespace(name=name, spec=spec, live=live)

    def port_openers(self, ports: set[int]) -> list[PortHolder]:
        found = []
        for port, run in self.listens.items():
            if port in ports:
                found.append(PortHolder(port, None, ("vllm",), run))
        return found

    def used_by(self, url: str) -> list[str]:
        spec = self.spec("demo-at-100", "eval", "", "--client.base-url", url)
        return list(server.probe(cast(Pod, self), spec).get("used_by", ()))


@pytest.fixture
def pod(tmp_path: Path) -> Made:
    made = Made(tmp_path)
    made.run("demo", text="[inference.server]\nport = 8000\n")
    made.listens = {8000: "demo", 8001: "apart"}
    made.run("apart", "inference", "[server]\nport = 8001\n")
    return made


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost.", "127.0.0.1", "127.0.0.2", "127.1", "0", "0.0.0.0", "[::]", "[::1]"],
)
def test_the_server_of_a_training_is_known_by_each_of_its_addresses(pod: Made, host: str) -> None:
    assert pod.used_by(f"http://{host}:8000/v1") == ["demo"]


def test_a_server_of_its_own_and_one_on_another_machine_are_free(pod: Made) -> None:
    assert pod.used_by("http://localhost:8001/v1") == []
    assert pod.used_by("http://192.0.2.7:8000/v1") == []
    pod.listens[8002] = None
    assert pod.used_by("http://localhost:8002/v1") == []


def test_a_server_apart_is_not_free_while_a_training_or_an_evaluation_names_it(pod: Made) -> None:
    client = '[orchestrator.client]\nbase_url = "http://{}:8001/v1"\n'
    pod.run("far", text=client.format("192.0.2.7"))
    pod.run("over", text=client.format("localhost"), live=False)
    assert pod.used_by("http://localhost:8001/v1") == []
    pod.run("near", text=client.format("localhost"))
    pod.run("at-50", "eval", '[client]\nbase_url = "http://127.0.0.1:8001/v1"\n')
    assert pod.used_by("http://localhost:8001/v1") == ["at-50", "near"]


def test_a_training_that_listens_where_its_config_does_not_say_it(pod: Made) -> None:
    pod.run("other")
    pod.listens[9000] = "other"
    assert pod.used_by("http://localhost:9000/v1") == ["other"]


def test_what_cannot_be_known_is_no_free_server(pod: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotApplicable, match="names no inference server"):
        pod.used_by("http://localhost:99999/v1")
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(NotApplicable, match="cannot look up no-such-host"):
        pod.used_by("http://no-such-host:8000/v1")


def test_only_the_look_before_an_evaluation_has_this_part(pod: Made) -> None:
    pod.runs.home = Home(pod.root / "home")
    preflights = Preflights(cast(Pod, pod), cast(Library, None))
    start: StartBody = {
        "run": "demo-at-100",
        "trainer": JANUARY,
        "config": "demo.toml",
        "cwd": str(pod.root),
        "output_dir": "outputs",
        "overrides": ["--client.base-url", "http://127.1:8000/v1"],
        "component": "eval",
    }
    parts = preflights._parts(start)
    assert parts["server"]() == {"used_by": ["demo"]}
    assert "server" not in preflights._parts({**start, "component": "rl"})
