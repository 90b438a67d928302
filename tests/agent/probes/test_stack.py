"""The version probe, run by other interpreters."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bs4_agent.probes import stack
from bs4_common.errors import StepFailed
from tests.support.interpreters import find
from tests.support.pod import NotHere

KEYS = {
    "python",
    "torch",
    "vllm",
    "sglang",
    "ray",
    "prime_rl",
    "verl",
    "verifiers",
    "flash_attn",
    "cuda",
}


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of installed packages, none of which may be imported."""
    packages = tmp_path / "site-packages"
    for name, version in (
        ("torch", "2.9.1+cu128"),
        ("vllm", "0.13.0"),
        ("prime_rl", "0.4.0"),
        ("verifiers", "0.1.9"),
        ("flash_attn", "2.8.3"),
    ):
        metadata = packages / f"{name}-{version}.dist-info" / "METADATA"
        metadata.parent.mkdir(parents=True)
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (packages / name).mkdir()
        (packages / name / "__init__.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.setenv("PYTHONPATH", str(packages))
    return packages


def test_versions_without_importing_anything(environment: Path) -> None:
    found = stack.probe(sys.executable)
    assert found == {
        "python": sys.version.split()[0],
        "torch": "2.9.1+cu128",
        "vllm": "0.13.0",
        "sglang": None,
        "ray": None,
        "prime_rl": "0.4.0",
        "verl": None,
        "verifiers": "0.1.9",
        "flash_attn": "2.8.3",
        "cuda": "12.8",
    }


def test_cuda_is_what_torch_says_itself(environment: Path) -> None:
    (environment / "torch" / "version.py").write_text(
        "__version__ = '2.9.1'\ncuda: Optional[str] = '13.0'\nhip = None\n"
    )
    assert stack.probe(sys.executable)["cuda"] == "13.0"


def test_what_is_not_installed_is_null() -> None:
    found = stack.probe(sys.executable)
    assert set(found) == KEYS
    assert (found["vllm"], found["prime_rl"]) == (None, None)


@pytest.mark.parametrize("version", ["3.8", "3.10", "3.12"])
def test_other_interpreters(environment: Path, version: str) -> None:
    try:
        python = find(version)
    except NotHere as reason:
        pytest.skip(str(reason))
    if subprocess.run([python, "-c", ""], capture_output=True, check=False, timeout=20).returncode:
        pytest.skip(f"{python} is a shim that leads nowhere for this user")
    found = stack.probe(str(python))
    assert found["python"] is not None
    assert found["python"].startswith(version)
    assert found["torch"] == "2.9.1+cu128"


def test_the_script_leaves_nothing_behind(environment: Path) -> None:
    before = set(Path(stack.__file__).parent.rglob("*"))
    done = subprocess.run(
        [sys.executable, "-B", stack.__file__], capture_output=True, check=True, timeout=20
    )
    assert set(json.loads(done.stdout)) == KEYS
    assert set(Path(stack.__file__).parent.rglob("*")) == before


@pytest.mark.parametrize(
    "body",
    ["exec sleep 60", "echo nonsense", "exit 3", None],
    ids=["hangs", "nonsense", "fails", "missing"],
)
def test_an_interpreter_that_is_none(tmp_path: Path, body: str | None) -> None:
    python = tmp_path / "python"
    if body is not None:
        python.write_text(f"#!/bin/sh\n{body}\n")
        python.chmod(0o755)
    start = time.monotonic()
    with pytest.raises(StepFailed, match="name the training environment's own python"):
        stack.probe(str(python), timeout=0.5)
    assert time.monotonic() - start < 30, "it is not waited for until it ends"
