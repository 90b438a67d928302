"""What a fresh machine gets: the lock, the environment's set-up, and the wheel in an empty
environment.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
LOCK = (ROOT / "requirements.lock").read_text()
PINNED = re.compile(r"^(?P<name>[a-z0-9._-]+)==(?P<version>[^\s;]+)", re.MULTILINE | re.IGNORECASE)
#: What must not reach the empty environment from the one the tests run in.
OF_THIS_ENVIRONMENT = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "BS4_HOME")


def declared() -> Iterator[Requirement]:
    """Everything pyproject.toml asks for without extras: to run, to build, to develop."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for line in (
        *project["project"]["dependencies"],
        *project["build-system"]["requires"],
        *project["dependency-groups"]["dev"],
    ):
        yield Requirement(line)


def run(
    *command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None, timeout: float = 300
) -> str:
    """Standard output; a failure shows both streams."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, (
        f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    )
    return done.stdout


@pytest.mark.parametrize("requirement", list(declared()), ids=lambda requirement: requirement.name)
def test_the_lock_pins_what_the_project_declares(requirement: Requirement) -> None:
    versions = [
        pin["version"]
        for pin in PINNED.finditer(LOCK)
        if pin["name"].lower() == requirement.name.lower()
    ]
    assert len(versions) == 1, "run `make lock`"
    assert requirement.specifier.contains(versions[0]), "run `make lock`"


def test_the_lock_covers_the_extras_that_are_asked_for() -> None:
    """asyncssh opens an encrypted OpenSSH key only with bcrypt."""
    assert [pin["name"] for pin in PINNED.finditer(LOCK)].count("bcrypt") == 1


def test_the_lock_names_files_by_hash_and_no_place_to_fetch_them_from() -> None:
    for entry in re.split(r"\n(?=\S)", LOCK):
        assert entry.startswith("#") or "--hash=sha256:" in entry, entry.splitlines()[0]
    assert "://" not in LOCK
    assert not re.search(
        r"^\s*-(-index-url|-extra-index-url|-find-links|i|f)\b", LOCK, re.MULTILINE
    )


def test_an_unsuitable_python_is_named_with_what_to_do(tmp_path: Path) -> None:
    false = shutil.which("false")
    assert false is not None
    done = subprocess.run(
        ["sh", ROOT / "tools" / "environment.sh", tmp_path / "venv", false],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"No environment was made: {false} is not a Python 3.11 or newer; install one (Debian 12: "
        "`apt-get install python3`) or name another: `make PYTHON=/path/to/python3.12 ...`.\n"
    )
    assert not (tmp_path / "venv").exists()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `make wheel` does, from a copy: nothing of the checkout one works in is written."""
    copy = tmp_path_factory.mktemp("checkout") / "bs4-console"
    unwanted = shutil.ignore_patterns(
        ".git", ".venv", ".*cache", ".hypothesis", "__pycache__", "dist", "cache"
    )
    shutil.copytree(ROOT, copy, ignore=unwanted, symlinks=True)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist", cwd=copy)
    (built,) = (copy / "dist").iterdir()
    return built


@pytest.mark.long
def test_the_wheel_carries_the_data_and_nothing_of_the_checkout(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for kind in ("playbooks", "configs"):
        expected = {
            f"bs4_console/_data/{path.relative_to(ROOT)}"
            for path in (ROOT / kind).rglob("*")
            if path.is_file()
        }
        assert expected
        assert {name for name in names if name.startswith(f"bs4_console/_data/{kind}/")} == expected
    assert {name for name in names if name.startswith("bs4_console/_data/docs/")} == {
        "bs4_console/_data/docs/README.md",
        *(f"bs4_console/_data/docs/{page.name}" for page in (ROOT / "docs").glob("*.md")),
    }
    assert {name for name in names if name.startswith("bs4_console/_data/bundle/")} == {
        "bs4_console/_data/bundle/agent.json",
        "bs4_console/_data/bundle/agent.tar.gz",
        "bs4_console/_data/bundle/b2.json",
        "bs4_console/_data/bundle/b2.tar.gz",
    }
    assert {name.split("/")[0] for name in names} == {
        "bs4_console",
        "bs4_agent",
        "bs4_common",
        "bs4_practice",
        "-".join(wheel.name.split("-")[:2]) + ".dist-info",
    }
    # Every source file of the packages, the C source of the practice pod's GPU among them.
    for package in (
        ROOT / "console" / "bs4_console",
        ROOT / "console" / "bs4_practice",
        ROOT / "agents" / "bs4_agent",
        ROOT / "agents" / "bs4_common",
    ):
        sources = {
            str(path.relative_to(package.parent))
            for path in package.rglob("*")
            if path.is_file() and path.suffix != ".pyc"
        }
        assert sources <= names


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_wheel_works_from_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    venv, home = tmp_path / "venv", tmp_path / "home"
    home.mkdir()
    clean = {name: value for name, value in os.environ.items() if name not in OF_THIS_ENVIRONMENT}
    run(sys.executable, "-m", "venv", "--without-pip", venv)
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        venv / "bin" / "python",
        "install",
        "--quiet",
        "--no-compile",
        "--disable-pip-version-check",
        wheel,
        env=clean,
    )
    command = venv / "bin" / "bs4-console"
    environment = {"HOME": str(home), "PATH": os.defpath, "LANG": "C.UTF-8"}

    def say(*arguments: str) -> str:
        return run(command, *arguments, cwd=home, env=environment)

    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert version in say("--version")
    listed = say("playbook", "list")
    for playbook in (path.stem for path in (ROOT / "playbooks").rglob("*.yaml")):
        assert playbook in listed
    assert "step-desync" in say("demo", "--list")
    assert "In prime-rl its name is orchestrator.group_size." in say("docs", "rollouts_per_example")
    report = json.loads(say("demo", "--scenario", "step-desync", "--headless", "--json"))
    assert {"recovered": True, "data_lost": 0}.items() <= report.items()
