"""Real processes, device files that can be held open, and a compiled NVML to ask."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from bs4_agent.scope import Scope
from bs4_common.identity import Identity, own_pidns
from tests.agent.telemetry import fake_nvml


class Child:
    """A process that says when it is ready and ends when its input closes."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        identity = Identity.of(self._process.pid)
        assert identity is not None
        self.identity = identity
        self.pid = self._process.pid
        self.answer = self.read()

    def read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().decode().strip()

    def say(self, text: str = "") -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode() + b"\n")
        self._process.stdin.flush()
        return self.read()

    def kill(self, *, reap: bool = True) -> None:
        self._process.kill()
        if reap:
            self._process.wait()

    def end(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def spawn() -> Iterator[Callable[..., Child]]:
    """Start processes from Python source (`print("up", flush=True)` first, then wait on stdin) or,
    with `argv`, any program.
    """
    children: list[Child] = []

    def start(source: str = "", *arguments: str, argv: Sequence[str] = ()) -> Child:
        child = Child(argv or [sys.executable, "-c", source, *arguments])
        children.append(child)
        return child

    yield start
    for child in reversed(children):
        child.end()


@pytest.fixture
def hold(spawn: Callable[..., Child]) -> Callable[..., Child]:
    """Start a process that has these files open."""

    def start(*paths: Path) -> Child:
        source = (
            "import sys; held = [open(path) for path in sys.argv[1:]]; print('up', flush=True); "
            "sys.stdin.read()"
        )
        return spawn(argv=[sys.executable, "-S", "-E", "-c", source, *map(str, paths)])

    return start


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    """A directory with the device nodes of four GPUs, as plain files."""
    directory = tmp_path / "dev"
    directory.mkdir()
    for name in (
        "nvidia0",
        "nvidia1",
        "nvidia2",
        "nvidia3",
        "nvidiactl",
        "nvidia-uvm",
        "nvidia-modeset",
    ):
        (directory / name).touch()
    return directory


@pytest.fixture
def scope(dev: Path) -> Scope:
    return Scope(os.getuid(), own_pidns(), None, dev)


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    if fake_nvml.compiler() is None:
        pytest.skip("no C compiler here, so no NVML can be built to ask")
    directory = tmp_path_factory.mktemp("nvml")
    return {
        "new": fake_nvml.build(directory / "new"),
        "old": fake_nvml.build(directory / "old", "-DOLD_DRIVER"),
    }


@pytest.fixture
def nvml(
    request: pytest.FixtureRequest,
    libraries: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> fake_nvml.State:
    """Four GPUs behind the real pynvml. `@pytest.mark.parametrize("nvml", ["old"], indirect=True)`
    for a driver before 510.
    """
    import pynvml

    from bs4_agent.telemetry import xids

    # A copy is a library of its own to the loader: whatever an earlier test left hanging in its
    # copy stays there.
    library = str(shutil.copy(libraries[getattr(request, "param", "new")], tmp_path))
    state = fake_nvml.state(tmp_path / "nvml.state", 4)
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "nvml.state"))
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(library))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(xids, "_LOOK_S", 0.05)
    return state


@pytest.fixture
def until() -> Callable[[Callable[[], object]], None]:
    """Wait for a condition; 30 s are for a machine that is busy with other things."""

    def wait(condition: Callable[[], object], timeout: float = 30.0) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, "the condition did not come true in time"
            time.sleep(0.01)

    return wait
