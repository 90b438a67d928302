"""The practice pod's environment, on interpreters that are packaged in different ways."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bs4_practice.miniature.install import install


def test_uv_starts_where_the_system_has_a_sitecustomize_of_its_own(tmp_path: Path) -> None:
    """Debian's Python has one in its standard library, which comes before every environment's
    packages.
    """
    install(tmp_path / "project", tmp_path / "uv", sys.executable, "2026-01")
    system = tmp_path / "system"
    system.mkdir()
    (system / "sitecustomize.py").write_text(
        "import sys\n\nsys.stderr.write('the system was here\\n')\n"
    )
    uv = str(tmp_path / "uv" / "bin" / "uv")

    done = subprocess.run(
        [uv, "run", "nothing"],
        env={"PYTHONPATH": str(system)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, "Failed to spawn: `nothing`" in done.stderr) == (2, True), done.stderr
