"""The one function that finds playbooks and configs, from the checkout and from an installed wheel."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from bs4_console.core import assets
from bs4_console.core.errors import ConsoleError

ROOT = Path(__file__).resolve().parents[3]


def test_a_checkout_uses_its_own_files() -> None:
    assert assets.checkout() == ROOT
    assert assets.find("playbooks") == ROOT / "playbooks"
    assert assets.find("configs") == ROOT / "configs"


def test_without_either_the_answer_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(assets, "_PACKAGE", tmp_path / "a")
    monkeypatch.setattr(assets, "_CHECKOUT", tmp_path / "b")
    with pytest.raises(ConsoleError, match="no playbooks"):
        assets.find("playbooks")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_an_installed_wheel_finds_its_own_data_and_bundle(tmp_path: Path) -> None:
    """Built from this checkout, installed without its dependencies into an empty environment, run outside the checkout."""
    built = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "build_bundle.py"), "--fetch"], capture_output=True, text=True, check=False
    )
    if built.returncode != 0:
        pytest.skip(f"the bundle cannot be built here: {built.stderr.strip()[-200:]}")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    python = _environment(tmp_path / "env")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", str(wheel)], capture_output=True, check=True)
    # The dependencies are those of this test's own environment; only our packages must come from the wheel.
    site = next(path for path in sys.path if path.endswith("site-packages"))
    has_configs = any((ROOT / "configs").rglob("*.*"))
    script = (
        f"import json, sys; sys.path.append({site!r})\n"
        "from bs4_console.core import assets; from bs4_console.transport import bundle\n"
        "print(json.dumps({'checkout': str(assets.checkout()), 'module': assets.__file__, 'playbooks': str(assets.find('playbooks')),"
        f" 'configs': str(assets.find('configs')) if {has_configs} else '', 'bundle': bundle.shipped().name}}))"
    )
    done = subprocess.run([python, "-I", "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["checkout"] == "None"
    assert found["module"].startswith(str(tmp_path))
    for kind in ("playbooks", *(["configs"] if has_configs else [])):
        assert found[kind].endswith(f"bs4_console/_data/{kind}")
        assert sorted(p.name for p in Path(found[kind]).iterdir()) == sorted(p.name for p in (ROOT / kind).iterdir())
    described = json.loads((ROOT / "build" / "bundle" / "agent.json").read_text())
    assert found["bundle"] == described["name"]


def _environment(directory: Path) -> str:
    venv.create(directory, with_pip=True)
    return str(directory / "bin" / "python")
