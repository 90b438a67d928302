"""The training environment of a checkout: found as `uv run` finds it, asked once for each of its
revisions.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bs4_agent.preflight import stack
from bs4_agent.probes import imports
from bs4_agent.probes import stack as versions


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose environment is this interpreter by another name."""
    monkeypatch.delenv("UV_PROJECT_ENVIRONMENT", raising=False)
    venv = tmp_path / "prime-rl" / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python3").symlink_to(sys.executable)
    (packages_of(venv.parent)).mkdir(parents=True)
    return venv.parent


def packages_of(project: Path) -> Path:
    return project / ".venv" / "lib" / "python3.12" / "site-packages"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was asked of the interpreter, in order; it has flash-attn, and one module that cannot be
    imported.
    """
    told: list[str] = []

    def answer(python: str, timeout: float = 0) -> dict[str, str | None]:
        told.append("versions")
        return {"python": "3.12.1", "flash_attn": "2.8.3"}

    def tried(python: str, modules: list[str], *_: object) -> dict[str, str | None]:
        told.extend(modules)
        return {module: "ImportError: no" if module == "broken" else None for module in modules}

    monkeypatch.setattr(versions, "probe", answer)
    monkeypatch.setattr(imports, "probe", tried)
    return told


def test_the_environment_is_that_of_the_checkout_or_of_one_above_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = project / ".venv" / "bin" / "python3"
    assert stack.python_of(project) == python
    assert stack.python_of(project / "examples") == python
    monkeypatch.setenv("UV_PROJECT_ENVIRONMENT", "/nowhere")
    assert stack.python_of(project) is None


def test_no_environment_is_told_and_not_guessed(tmp_path: Path, asked: list[str]) -> None:
    assert stack.probe(tmp_path, ["env"]) == {
        "python": None,
        "revision": "",
        "versions": {},
        "imports": {},
        "commit": None,
    }
    assert asked == []


def test_a_revision_is_asked_once_and_another_one_anew(project: Path, asked: list[str]) -> None:
    first = stack.probe(project, ["env"])
    assert first["imports"] == {"env": None, "flash_attn": None}
    assert stack.probe(project, ["env"]) == first
    assert asked == ["versions", "env", "flash_attn"]
    (packages_of(project) / "env-1.0.dist-info").mkdir()
    assert stack.probe(project, ["env"])["revision"] != first["revision"]
    assert asked == ["versions", "env", "flash_attn"] * 2


def test_a_failure_is_looked_at_anew_each_time(project: Path, asked: list[str]) -> None:
    for _ in range(2):
        assert stack.probe(project, ["broken"])["imports"]["broken"] == "ImportError: no"
    assert asked == ["versions", "broken", "flash_attn", "broken"]


def test_an_import_is_believed_for_a_while_only(
    project: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stack.probe(project, ["env"])
    monkeypatch.setattr(stack, "IMPORT_KEPT_S", 0.0)
    stack.probe(project, ["env"])
    assert asked == ["versions", "env", "flash_attn", "env", "flash_attn"]
