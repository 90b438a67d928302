"""A bare practice pod: nothing of a training stack on it, and beside it what stands for the
network.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bs4_practice import bare, workspace

needs_git = pytest.mark.skipif(
    not bare.usable(),
    reason="a bare practice pod is set up from a git repository, and there is no git",
)


@needs_git
@pytest.mark.parametrize("generation", workspace.GENERATIONS)
def test_it_has_a_home_and_nothing_in_it_that_trains(generation: str, tmp_path: Path) -> None:
    place = workspace.create("p", generation, tmp_path / "p", bare=True)
    assert not place.project.exists()
    assert not (place.home / ".local").exists()
    own = workspace.environment(place, step_seconds=1, engine_seconds=1, pace=1, scope_root=1)
    assert shutil.which("uv", path=own["PATH"]) is None
    assert shutil.which("curl", path=own["PATH"]) == str(place.root / "stubs" / "curl")
    assert workspace.Workspace.from_dict(place.as_dict()) == place
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(place.repository), str(clone)], check=True)
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=clone, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert head == place.revision
    # verl's rollouts have no server of their own, so its config names no port.
    assert (f"{place.port}" in (clone / "configs" / "rl.toml").read_text()) is (
        generation != "verl"
    )
    assert not (clone / ".venv").exists()


@needs_git
def test_the_wheel_holds_the_miniatures_uv(tmp_path: Path) -> None:
    place = workspace.create("p", "current", tmp_path / "p", bare=True)
    own = workspace.environment(place, step_seconds=1, engine_seconds=1, pace=0, scope_root=1)
    stub = str(place.root / "stubs" / "curl")
    subprocess.run(
        [stub, "-LsSf", "--retry", "3", "https://example.org/uv.whl", "-o", str(tmp_path / "w")],
        env=own,
        check=True,
    )
    assert bare.uv_address(place.root).endswith(
        hashlib.sha256((tmp_path / "w").read_bytes()).hexdigest()
    )
    own["PATH"] = f"{place.home}/.local/bin:{own['PATH']}"
    uv = str(place.home / ".local" / "bin" / "uv")
    Path(uv).parent.mkdir(parents=True)
    Path(uv).write_text(bare.packed(place.root))
    Path(uv).chmod(0o755)

    def ask(*words: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [uv, *words], cwd=cwd, env={**own, **more}, capture_output=True, text=True, check=False
        )

    assert ask("--version", cwd=tmp_path).stdout.startswith("uv ")
    assert ask("sync", cwd=tmp_path).returncode == 2  # there is no project
    subprocess.run(
        ["git", "clone", "--quiet", str(place.repository), str(place.project)], check=True
    )
    assert ask("sync", "--all-extras", cwd=place.project).returncode == 0
    python = place.project / ".venv" / "bin" / "python"
    imports = [str(python), "-c", "import reverse_text"]
    assert subprocess.run(imports, capture_output=True, check=False).returncode == 1
    install = ("tool", "run", "prime", "env", "install")
    inside = {"VIRTUAL_ENV": str(place.project / ".venv")}
    assert ask(*install, "someone/other", cwd=place.project, **inside).returncode == 1
    assert ask(*install, "someone/reverse-text", cwd=place.project).returncode == 2
    assert ask(*install, "someone/reverse-text@0.3.0", cwd=place.project, **inside).returncode == 0
    assert subprocess.run(imports, check=False).returncode == 0
    ran = ask("run", "python", "-c", "import sys; print(sys.prefix)", cwd=place.project)
    assert ran.stdout.strip() == str(place.project / ".venv")


def test_a_uv_of_this_machine_is_hidden(tmp_path: Path) -> None:
    with_uv, without = tmp_path / "with", tmp_path / "without"
    for directory in (with_uv, without, tmp_path / "stubs"):
        directory.mkdir()
    for name in ("uv", "uvx", "tool"):
        (with_uv / name).symlink_to(sys.executable)
    found = bare.without_uv(tmp_path, [with_uv, without])
    assert found[1] == without
    assert [path.name for path in found[0].iterdir()] == ["tool"]
    assert bare.without_uv(tmp_path, [with_uv, without]) == found
