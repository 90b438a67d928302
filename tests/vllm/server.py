"""A real `vllm serve` as the run of an agent, and what the product sees of it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bs4_agent.launch.start import launch
from bs4_agent.paths import Home
from bs4_agent.probes import vllm as probes
from bs4_agent.runs.registry import Runs
from bs4_agent.runs.stop import StopRun
from bs4_agent.scope import Scope
from bs4_agent.telemetry.processes import ProcessTable
from bs4_common.failures import offline
from bs4_common.failures.compiled import Library
from bs4_common.failures.detectors.inference import inference_silent
from bs4_common.failures.engine import Engine
from bs4_common.failures.facts import Finding, ServerProbe
from bs4_common.identity import Identity
from bs4_common.runs.model import Member
from bs4_common.trainers.base import LaunchSpec
from bs4_console.checks.diagnose import diagnose
from bs4_console.failures.playbooks import compile_all
from tests.agent.runs.practice import ListJournal, until
from tests.vllm.figures import Figures

TRAINER, RUN = "prime-rl", "real"
#: 30 to 100 s on two cores that have other work.
START_S = 420.0
#: What a one-token probe may take, as the agent's own least.
PATIENCE_S = 5.0
_TOKENS = 8000
_SETTINGS = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "OMP_NUM_THREADS": "2",
}


class Server:
    """One server, started and awaited; `seconds`: until /health answered."""

    def __init__(self, vllm: Path, model: Path, root: Path) -> None:
        home = Home(root / "home")
        home.create()
        self.work = root / "work"
        self.work.mkdir()
        (self.work / "config.toml").write_text("max_steps = 10\n")
        self.log = self.work / "inference.log"
        self.journal = ListJournal(root / "journal.ndjson")
        scope = Scope.from_environment()
        self.runs = Runs(
            home, scope, self.journal, ProcessTable(scope), settle_s=0.2, snapshot_age_s=0.05
        )
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        entry = self.work / "rl"  # the name by which a launcher is known
        entry.write_bytes(Path(__file__).with_name("launcher.py").read_bytes())
        serve = [
            str(vllm / "bin/vllm"),
            "serve",
            str(model),
            "--served-model-name",
            "tiny",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
        ]
        limits = [
            "--max-model-len",
            str(_TOKENS + 100),
            "--max-num-seqs",
            "8",
            "--enforce-eager",
            "--dtype",
            "float32",
        ]
        argv = [sys.executable, str(entry), str(self.log), *serve, *limits]
        self.spec = LaunchSpec(
            run=RUN,
            trainer=TRAINER,
            config=Path("config.toml"),
            cwd=self.work,
            output_dir=self.work / "out",
            env=_SETTINGS,
            argv=argv,
        )
        begun = time.monotonic()
        launch(self.runs, self.spec, key="start")
        until(self._up, START_S)
        self.seconds = time.monotonic() - begun
        until(
            lambda: (
                {"launcher", "inference", "engine", "worker"}
                <= {m.component for m in self.members() if m.alive}
            )
        )

    def _up(self) -> bool:
        assert self.code is None, (
            f"vllm serve ended with {self.code}:\n{self.log.read_text(errors='replace')[-3000:]}"
        )
        return self.healthy()

    @property
    def code(self) -> int | None:
        """Of `vllm serve`, once it has ended."""
        file = self.log.with_suffix(".code")
        return int(file.read_text()) if file.exists() and file.read_text() else None

    def healthy(self) -> bool:
        return probes.health(self.url, 3.0).ok

    def members(self) -> Sequence[Member]:
        self.runs.poll()
        return self.runs.members(RUN)

    def one(self, component: str) -> Identity:
        """The one living process that is this."""
        (member,) = [m for m in self.members() if m.alive and m.component == component]
        assert member.proof == "descent"
        return member.identity

    def named(self) -> list[str]:
        """What `diagnose --source inference` names in the log as it is now, causes first; without
        warnings, which depend on this machine's limits.
        """
        findings = diagnose([self.log], "inference", TRAINER)["findings"]
        return [finding["id"] for finding in findings if finding["role"] != "warning"]

    def silent(self, probe: ServerProbe | None = None) -> Finding | None:
        """What the live detector makes of the processes, the log and the last probe."""
        engine = Engine(list(Library(compile_all())), live=False)
        with self.log.open("rb") as handle:
            read = offline.log_facts(handle, self.log.name, "inference", TRAINER, engine)
        # It was up: that is how the fixture knew.
        server = probe or ServerProbe(url=self.url, ever_ok_m=1.0)
        run = replace(
            read, name=RUN, spec=self.spec, state="running", members=self.members(), server=server
        )
        found = inference_silent(offline.as_facts([run]), run, {})
        return found[0] if found else None

    @contextmanager
    def generating(self) -> Iterator[None]:
        """A long answer is under way inside; what becomes of it is the client's trouble."""
        client = threading.Thread(target=self._long_answer, daemon=True)
        client.start()
        until(self._busy, 60)
        yield
        client.join(120)
        assert not client.is_alive(), "the client still waits for its answer"

    def _busy(self) -> bool:
        try:
            return probes.metrics(self.url, 5.0)["vllm:num_requests_running"] >= 1
        except probes.ProbeFailed:  # a busy machine answers later
            return False

    def _long_answer(self) -> None:
        question = {"model": "tiny", "prompt": "hello", "max_tokens": _TOKENS, "ignore_eos": True}
        request = urllib.request.Request(
            f"{self.url}/v1/completions",
            json.dumps(question).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=100) as answer:
                answer.read()
        except OSError:
            return

    def after(self, victim: str) -> dict[str, Any]:
        """kill -9 the one `victim`; what happens then, in seconds from the kill, until the server,
        its engine and its worker are gone.
        """
        parts = {name: self.one(name) for name in ("inference", "engine", "worker")}
        seen: dict[str, Any] = {}
        assert parts[victim].send(signal.SIGKILL)
        killed = time.monotonic()
        asking = threading.Thread(target=self._ask_on, args=(killed, seen), daemon=True)
        asking.start()
        while any(one.alive() for one in parts.values()) or self.code is None:
            assert time.monotonic() - killed < 90, (
                f"still there: {[name for name, one in parts.items() if one.alive()]}; {seen}"
            )
            answer = probes.health(self.url, 3.0)
            word = "200" if answer.ok else str(answer.status or answer.error)
            seen.setdefault(f"/health first answers {word}", time.monotonic() - killed)
            if answer.ok:
                seen["/health last answers 200"] = time.monotonic() - killed
            for name, one in parts.items():
                if not one.alive():
                    seen.setdefault(f"{name} gone", time.monotonic() - killed)
            time.sleep(0.05)
        asking.join(30)
        for name in parts:
            seen.setdefault(f"{name} gone", time.monotonic() - killed)
        return {**seen, "exit code of `vllm serve`": self.code}

    def _ask_on(self, killed: float, seen: dict[str, Any]) -> None:
        """One-token probes until the first that fails."""
        while True:
            asked = time.monotonic()
            answer = probes.one_token(self.url, PATIENCE_S, "tiny")
            if not answer.ok:
                seen["one-token probe first fails: asked at"] = asked - killed
                seen["one-token probe first fails: known at"] = time.monotonic() - killed
                seen["one-token probe first fails: with"] = str(answer.status or answer.error)
                return

    def stop(self) -> None:
        """As the product stops a run; nothing of it is left."""
        report = StopRun(self.runs, RUN).execute()
        assert report.ok, report.sentence


class Servers:
    """The one that runs, or a new one where the last test broke it: a start takes a minute."""

    def __init__(self, vllm: Path, model: Path, root: Path, figures: Figures) -> None:
        self.vllm, self.model, self.root, self.figures = vllm, model, root, figures
        self._all: list[Server] = []

    def running(self) -> Server:
        if not self._all or self._all[-1].code is not None or not self._all[-1].healthy():
            self.stop()
            root = self.root / str(len(self._all))
            root.mkdir()
            self._all.append(Server(self.vllm, self.model, root))
            starts = self.figures.setdefault("Start-up", {})
            starts[f"start {len(self._all)}: until /health answers 200"] = self._all[-1].seconds
        return self._all[-1]

    def stop(self) -> None:
        if self._all:
            self._all[-1].stop()


def make_model(vllm: Path, directory: Path) -> Path:
    script = Path(__file__).with_name("tiny_model.py")
    done = subprocess.run(
        [vllm / "bin/python", script, directory],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return directory


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
