"""What the import of asyncssh runs, and which libraries it may find."""

from __future__ import annotations

import ctypes.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bs4_console.transport.asyncssh_import import no_compiler

CACHE = Path("/etc/ld.so.cache")


@pytest.fixture
def compiled(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A file that exists once a compiler or linker was run, and the environment for that."""
    ran = tmp_path / "ran"
    for name in ("gcc", "cc", "ld"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\necho {name} >> {ran}\nexit 1\n")
        program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    environment.pop("LD_LIBRARY_PATH", None)
    return ran, environment


@pytest.mark.skipif(
    not CACHE.exists() or b"liboqs.so" in CACHE.read_bytes(),
    reason="the loader's cache is elsewhere, or has the library that asyncssh looks for",
)
def test_no_compiler_runs_at_the_start_of_a_command(
    compiled: tuple[Path, dict[str, str]],
) -> None:
    ran, environment = compiled

    def imported(module: str) -> None:
        subprocess.run([sys.executable, "-c", f"import {module}"], env=environment, check=True)

    imported("bs4_console.transport.ssh")
    assert not ran.exists()
    imported("asyncssh")
    assert ran.read_text().startswith("gcc\n"), "what would run otherwise"


def test_what_the_loader_knows_is_still_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    asked: list[str] = []

    def search(name: str) -> str:
        asked.append(name)
        return f"lib{name}.so.1"

    monkeypatch.setattr(ctypes.util, "find_library", search)
    cache = tmp_path / "ld.so.cache"
    cache.write_bytes(b"glibc-ld.so.cache1.1\0libknown.so.1\0")
    with no_compiler(cache):
        assert ctypes.util.find_library("known") == "libknown.so.1"
        assert ctypes.util.find_library("other") is None
    assert ctypes.util.find_library("other") == "libother.so.1"
    with no_compiler(tmp_path / "none"):
        assert ctypes.util.find_library("other") == "libother.so.1"
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/lib")
    with no_compiler(cache):
        assert ctypes.util.find_library("other") == "libother.so.1"
    assert asked == ["known", "other", "other", "other"]
