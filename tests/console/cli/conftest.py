"""The console's commands as subprocesses, on a practice pod of their own; one pod for all tests
that do not break it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bs4_practice import pod as practice
from bs4_practice import tree
from bs4_practice.pod import PracticePod
from bs4_practice.stage import GENERATIONS


@dataclass
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        (line,) = self.out.splitlines()
        data: dict[str, Any] = json.loads(line)
        assert data["schema"].startswith("bs4.")
        assert data["schema"].endswith("/1")
        return data

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def sentence(self) -> str:
        """The one line on stderr: says what is wrong and what to do."""
        (line,) = self.err.splitlines()
        assert line.startswith("bs4-console: ")
        assert line[-1] in ".)`"
        return line


@dataclass
class Console:
    """A person's console: its own configuration and data, no keys but those of the inventory."""

    root: Path
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        return self.root / "config"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def environment(self) -> dict[str, str]:
        kept = {
            key: value
            for key, value in os.environ.items()
            if key in ("PATH", "LANG", "VIRTUAL_ENV", "COVERAGE_PROCESS_START")
        }
        own = {
            "BS4_CONFIG_DIR": self.config,
            "BS4_DATA_DIR": self.data,
            "BS4_STATE_DIR": self.root / "state",
            "HOME": self.root / "home",
        }
        return {
            **kept,
            **{key: str(path) for key, path in own.items()},
            "USER": "tester",
            **self.extra,
        }

    def start(self, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        (self.root / "home").mkdir(exist_ok=True)
        argv = [
            sys.executable,
            "-c",
            "import sys; from bs4_console.cli.main import main; sys.exit(main())",
            *words,
        ]
        settings: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            **options,
        }
        return subprocess.Popen(argv, env=self.environment, cwd=self.root, **settings)

    def __call__(self, *words: str, stdin: bytes | None = None, timeout: float = 280.0) -> Result:
        process = self.start(
            *words, stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL
        )
        try:
            out, err = process.communicate(stdin, timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            pytest.fail(
                f"{' '.join(words)} did not end within {timeout} s; it said:\n"
                f"{out.decode()}\n{err.decode()}"
            )
        return Result(process.returncode, out.decode(), err.decode())

    def add(self, name: str, host: str, port: int, user: str, key: Path, *known: str) -> None:
        """A pod in the inventory, and its host key pinned when given."""
        self.config.mkdir(exist_ok=True)
        with (self.config / "pods.toml").open("a") as handle:
            handle.write(
                f'[pods.{name}]\nhost = "{host}"\nport = {port}\nuser = "{user}"\n'
                f'identity_file = "{key}"\nssh_config = false\n'
            )
        self.data.mkdir(exist_ok=True)
        with (self.data / "known_hosts").open("a") as handle:
            handle.writelines(f"{name} {line}\n" for line in known)


@pytest.fixture
def console(tmp_path: Path) -> Console:
    return Console(tmp_path)


@dataclass
class Practice:
    """A practice pod in a thread of its own (its fixture outlives the tests' event loops) and a
    console that knows it.
    """

    pod: PracticePod
    console: Console
    trainer: str
    do: Callable[[Coroutine[Any, Any, Any]], Any]

    def __call__(self, *words: str, **options: Any) -> Result:
        return self.console(*words, **options)

    def launch(self, run: str = "demo", *extra: str) -> Result:
        return self(
            "launch",
            "configs/rl.toml",
            "--pod",
            self.pod.name,
            "--run",
            run,
            "--trainer",
            self.trainer,
            "--yes",
            *extra,
        )


@contextlib.contextmanager
def practising(trainer: str, name: str, **settings: Any) -> Iterator[Practice]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="practice pod", daemon=True)
    thread.start()

    def do(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(100)

    directory = Path(tempfile.mkdtemp(prefix="bs4-"))
    (directory / "c").mkdir()
    pod = do(
        practice.start(
            name,
            GENERATIONS[trainer],
            directory / "p",
            **{"step_seconds": 0.2, "engine_seconds": 0.1, "pace": 0.2, **settings},
        )
    )
    console = Console(directory / "c")
    console.add(name, pod.host, pod.port, pod.user, pod.key_path, pod.known_host_key)
    try:
        yield Practice(pod, console, trainer, do)
    finally:
        members = pod.processes()
        do(pod.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()
        assert not [process for process in members if tree.alive(process)]
        shutil.rmtree(directory)


@pytest.fixture(scope="package")
def trained() -> Iterator[Practice]:
    """A 2026-01 pod whose run `demo` trains. Tests leave it running."""
    with practising("prime-rl-2026-01", "pod-a") as on:
        done = on.launch()
        assert done.code == 0, done
        yield on
