"""The ways to install the console from its source, each from a fresh clone into an empty
environment.

They need git and a package index; without one they are skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from bs4_console.transport import bundle, bundle_b2

ROOT = Path(__file__).resolve().parents[1]
#: What must not reach a build or an installed console from the environment that the tests run in.
OF_THIS_ENVIRONMENT = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "BS4_HOME", "SOURCE_DATE_EPOCH")
WITHOUT_INDEX = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "UV_OFFLINE": "1"}
#: Byte code for all that is installed takes a third of a test's time, and most of it is never run.
INSTALL = ("install", "--quiet", "--no-compile")
#: Prints what the installed product consists of.
QUESTION = """
import json
from bs4_console import assets
from bs4_console.transport import bundle, bundle_b2
counts = {
    kind: sum(1 for path in assets.find(kind).rglob("*") if path.is_file())
    for kind in ("playbooks", "configs")
}
agent = bundle.shipped()
print(json.dumps({
    "file": assets.__file__, "checkout": assets.checkout(), "counts": counts,
    "agent": [agent.name, agent.build], "b2": bundle_b2.shipped().name,
}))
"""

pytestmark = [pytest.mark.long, pytest.mark.beside, pytest.mark.timeout(600)]


def run(*command: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in OF_THIS_ENVIRONMENT}
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**kept, **variables},
        capture_output=True,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def must(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Run a command that has to succeed; return its standard output."""
    done = run(*command, cwd=cwd, **variables)
    assert done.returncode == 0, (
        f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    )
    return done.stdout


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a fresh clone of the checkout with its uncommitted changes committed: it has no
    `build`.
    """
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no git checkout: nothing can be cloned")
    directory = tmp_path_factory.mktemp("clone") / "bs4-console"
    must("git", "clone", "--quiet", ROOT, directory, cwd=ROOT)
    listed = must("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", cwd=ROOT)
    for name in listed.rstrip("\0").split("\0"):
        if (ROOT / name).is_file():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, directory / name)
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    must("git", "add", "--all", cwd=directory)
    must("git", *identity, "commit", "--quiet", "--allow-empty", "-m", "as it is", cwd=directory)
    return directory


@pytest.fixture(scope="module")
def installer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the `bin` of an environment with uv and build, which do not belong to the environments
    under test.
    """
    directory = tmp_path_factory.mktemp("installer")
    must(sys.executable, "-m", "venv", directory, cwd=directory)
    done = run(directory / "bin" / "pip", *INSTALL, "uv", "build", cwd=directory)
    if done.returncode != 0:
        pytest.skip(f"no package index can be reached: {done.stderr.strip()[-200:]}")
    return directory / "bin"


@pytest.fixture
def environment(tmp_path: Path, installer: Path) -> Path:
    """Return an empty environment with nothing but pip."""
    must(sys.executable, "-m", "venv", tmp_path / "environment", cwd=tmp_path)
    return tmp_path / "environment"


def complete(python: Path, source: Path, cwd: Path) -> None:
    """Assert that the console of this interpreter is whole and carries the same bundle as its
    source.
    """
    found = json.loads(must(python, "-I", "-c", QUESTION, cwd=cwd))
    assert found["checkout"] is None
    assert not found["file"].startswith(str(source))
    for kind, count in found["counts"].items():
        assert count == sum(1 for path in (source / kind).rglob("*") if path.is_file())
    work = ROOT / "build"
    expected = bundle.from_checkout(source, bundle.compiled_playbooks(), work=work)
    assert found["agent"] == [expected.name, expected.build]
    assert found["b2"] == bundle_b2.from_checkout(source, work=work).name
    assert "step-desync" in must(python.parent / "bs4-console", "demo", "--list", cwd=cwd)


@pytest.mark.parametrize("place", ["{}", "git+file://{}"])
def test_pip_installs_a_clone(place: str, clone: Path, environment: Path, tmp_path: Path) -> None:
    must(environment / "bin" / "pip", *INSTALL, place.format(clone), cwd=tmp_path)
    complete(environment / "bin" / "python", clone, tmp_path)
    assert must("git", "status", "--porcelain", "--ignored", cwd=clone) == "", (
        "a build leaves nothing behind"
    )


def test_uv_installs_a_clone_as_a_tool(clone: Path, installer: Path, tmp_path: Path) -> None:
    places = {
        "UV_TOOL_DIR": str(tmp_path / "tools"),
        "UV_TOOL_BIN_DIR": str(tmp_path / "bin"),
        "UV_PYTHON": sys.executable,
    }
    must(installer / "uv", "tool", "install", "--quiet", ".", cwd=clone, **places)
    complete(tmp_path / "tools" / "bs4-console" / "bin" / "python", clone, tmp_path)
    assert "step-desync" in must(tmp_path / "bin" / "bs4-console", "demo", "--list", cwd=tmp_path)


def test_a_source_archive_gives_the_same_console_without_an_index(
    clone: Path, installer: Path, environment: Path, tmp_path: Path
) -> None:
    must(installer / "python", "-m", "build", "--sdist", "--outdir", tmp_path, clone, cwd=tmp_path)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as members:
        members.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    # No isolation: what builds is the environment of this test, because an isolated one is filled
    # from an index.
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path)
    must(*build, source, cwd=tmp_path, **WITHOUT_INDEX)
    (wheel,) = tmp_path.glob("*.whl")
    must(environment / "bin" / "pip", *INSTALL, wheel, cwd=tmp_path)
    complete(environment / "bin" / "python", clone, tmp_path)


def test_a_clone_without_an_index_says_so_in_a_sentence(clone: Path, tmp_path: Path) -> None:
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path)
    done = run(*build, clone, cwd=tmp_path, **WITHOUT_INDEX)
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "pip could not fetch the wheels that agents/bundle.lock pins" in said
    assert "or from the source archive, which carries them" in said
    assert "Traceback" not in said
    assert not list(tmp_path.glob("*.whl"))


def test_a_changed_wheel_in_a_source_archive_is_not_built_in(
    clone: Path, installer: Path, tmp_path: Path
) -> None:
    must(installer / "python", "-m", "build", "--sdist", "--outdir", tmp_path, clone, cwd=tmp_path)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as members:
        members.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    wheel = sorted((source / "build" / "wheels").glob("psutil*.whl"))[0]
    wheel.write_bytes(wheel.read_bytes() + b"x")
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path)
    done = run(*build, source, cwd=tmp_path, **WITHOUT_INDEX)
    assert done.returncode != 0
    assert "pip could not fetch the wheels" in done.stdout + done.stderr
