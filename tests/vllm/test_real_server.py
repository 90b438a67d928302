"""Engine death, worker death, a hung engine and an orphaned one, on a real vLLM: `make test-vllm`.

Everything is seen through the product: launch and membership, the probes, the prober, the detector
of silent servers, diagnose. The order saves starts: a hung engine recovers.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from bs4_agent.observe.prober import Prober, Watched
from bs4_agent.probes import vllm as probes
from bs4_agent.runs.stop import StopRun
from bs4_common.failures.facts import ServerProbe
from tests.agent.runs.practice import until
from tests.support.environments import READY
from tests.support.processes import end_marked, marked
from tests.vllm import figures as pages
from tests.vllm.figures import Figures
from tests.vllm.server import PATIENCE_S, RUN, Server, Servers, make_model

VLLM = Path(__file__).resolve().parents[2] / "build/vllm"

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not (VLLM / READY).exists(),
        reason="vLLM is not installed in build/vllm: `make test-vllm` does it where it can",
    ),
]

TESTS = ("Hung engine", "Engine death", "Worker death", "Orphaned engine")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    figures: Figures = {}
    mark = f"BS4_TEST_MARK={uuid.uuid4().hex}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(*mark.split("="))
        patch.setenv("PATH", f"{VLLM / 'bin'}{os.pathsep}{os.environ['PATH']}")
        try:
            root = tmp_path_factory.mktemp("vllm")
            servers = Servers(VLLM, make_model(VLLM, root / "model"), root, figures)
            yield servers
            servers.stop()
        finally:
            until(
                lambda: [end_marked(mark), not [pid for pid in marked(mark) if pid != os.getpid()]][
                    1
                ]
            )
    if all(title in figures for title in TESTS):
        pages.write(figures, PATIENCE_S)


@pytest.fixture
def server(servers: Servers) -> Server:
    return servers.running()


def test_a_hung_engine_looks_idle_and_only_the_one_token_probe_shows_it(
    servers: Servers, server: Server
) -> None:
    assert probes.one_token(server.url, 60.0).ok
    before = probes.metrics(server.url, 5.0)
    assert before["vllm:generation_tokens_total"] >= 1
    assert server.silent(ServerProbe(url=server.url, ever_ok_m=1.0, health="ok")) is None
    assert server.named() == []

    engine = server.one("engine")
    assert engine.send(signal.SIGSTOP)
    stopped, ended = time.monotonic(), threading.Event()
    prober = Prober(lambda: [Watched(RUN, 1, server.url, quiet_s=1e4, pace_s=None)])
    asking = threading.Thread(target=prober.run, args=(ended,))
    asking.start()
    try:
        until(lambda: prober.probe(RUN, 1).failures >= 2, 90)
        known = time.monotonic() - stopped
        health = probes.health(server.url, 3.0)
        idle = probes.metrics(server.url, 5.0)
        finding = server.silent(prober.probe(RUN, 1))
    finally:
        ended.set()
        asking.join(60)
        assert engine.send(signal.SIGCONT)
    assert health.ok, "the API process answers for an engine that does not"
    assert (idle["vllm:num_requests_running"], idle["vllm:num_requests_waiting"]) == (0, 0)
    assert idle["vllm:generation_tokens_total"] == before["vllm:generation_tokens_total"]
    assert finding is not None
    assert finding.failure == "vllm-silent-death"
    assert "answers nothing" in finding.summary
    said = [entry["text"] for entry in finding.evidence]
    assert any(f"{engine}: engine " in text for text in said), said
    assert server.named() == [], "the log says nothing of it"

    begun = time.monotonic()
    assert probes.one_token(server.url, 60.0).ok, "it goes on where it was stopped"
    servers.figures["Hung engine"] = {
        "/health meanwhile": "200",
        "requests running, waiting, as /metrics says": "0, 0",
        "two one-token probes in a row without an answer after": known,
        "after `kill -CONT` one token takes": time.monotonic() - begun,
    }


def test_engine_death_in_mid_generation(servers: Servers, server: Server) -> None:
    with server.generating():
        seen = server.after("engine")
    assert server.named()[:1] == ["vllm-engine-dead"]
    ends_silently(server)
    servers.figures["Engine death"] = {**seen, "named by diagnose": ", ".join(server.named())}


def test_worker_death_in_mid_generation(servers: Servers, server: Server) -> None:
    with server.generating():
        seen = server.after("worker")
    assert server.named()[:1] == ["vllm-worker-died"]
    assert "vllm-engine-dead" not in server.named(), "the engine's end follows from the worker's"
    ends_silently(server)
    servers.figures["Worker death"] = {**seen, "named by diagnose": ", ".join(server.named())}


def ends_silently(server: Server) -> None:
    """Code 0, which launchers ignore; the agent does not."""
    assert server.code == 0
    assert probes.health(server.url, 3.0).error == "refused"
    finding = server.silent()
    assert finding is not None
    assert finding.failure == "vllm-silent-death"
    assert [
        m.component
        for m in server.members()
        if m.alive and m.component in ("inference", "engine", "worker")
    ] == []


def test_an_orphaned_engine_stays_the_runs_own_and_is_ended_with_it(
    servers: Servers, server: Server
) -> None:
    engine, worker = server.one("engine"), server.one("worker")
    assert server.one("inference").send(signal.SIGKILL)
    killed = time.monotonic()
    until(lambda: server.code is not None)
    assert server.code == -signal.SIGKILL
    assert probes.health(server.url, 3.0).error == "refused"
    refused = time.monotonic() - killed
    assert probes.one_token(server.url, PATIENCE_S).error == "refused"
    finding = server.silent()
    assert finding is not None
    assert finding.failure == "vllm-silent-death"
    said = [entry["text"] for entry in finding.evidence]
    assert any("engine is still there" in text for text in said), said
    assert any("worker is still there" in text for text in said), said

    assert server.one("launcher").send(signal.SIGKILL)
    attempt = until(lambda: [server.runs.poll(), server.runs.get(RUN).attempt][1])
    until(lambda: [server.runs.poll(), server.runs.get(RUN).attempt.end][1])
    assert attempt.number == 1
    assert {m.identity for m in server.runs.leftovers(RUN)} >= {engine, worker}
    assert server.runs.membership.dead_run_holder(engine) == (RUN, "engine")
    assert server.runs.membership.dead_run_holder(worker) == (RUN, "worker")
    outlived = time.monotonic() - killed
    assert engine.alive()
    assert worker.alive()
    begun = time.monotonic()
    report = StopRun(server.runs, RUN).execute()
    assert report.ok, report.sentence
    assert not engine.alive()
    assert not worker.alive()
    servers.figures["Orphaned engine"] = {
        "/health is refused after, at the latest": refused,
        "exit code of `vllm serve`": server.code,
        "engine and worker still live after, when the test ended them": outlived,
        "a stop of the run ends both in": time.monotonic() - begun,
    }
